//! What one transaction gathers of its entries before it writes, and what it reports.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};

use throughline_sample::admission::Rejection;
use throughline_sample::wire::Batch;

use super::claims::Claims;
use super::keys::Keys;
use super::quarantine::RejectedRows;
use super::{Entry, RecordRejection, WriteOutcome};

/// The same rejections are a line in the log once in this time.
const REPORT_INTERVAL: Duration = Duration::from_secs(3600);

/// Such reports in memory, at most.
const REPORTED_MAX: usize = 10_000;

/// What a transaction is about to write.
#[derive(Default)]
pub(super) struct Work<'a> {
    pub outcome: WriteOutcome,
    pub written: Vec<Cow<'a, Batch>>,
    pub rejected: RejectedRows,
    /// Chunks of the past that it makes.
    pub chunks: HashSet<(&'static str, i64)>,
}

impl<'a> Work<'a> {
    /// Adds a batch without what its sender may not report.
    pub fn add(&mut self, entry: &Entry, batch: Cow<'a, Batch>, claims: &mut Claims, keys: &Keys) {
        match claims.judge(entry, &batch, keys) {
            Some((less, rejected)) => {
                self.reject(entry, &rejected);
                self.written.push(Cow::Owned(less));
            }
            None => self.written.push(batch),
        }
    }

    pub fn reject(&mut self, entry: &Entry, rejected: &[RecordRejection]) {
        self.outcome.reject(entry, rejected);
        self.rejected.add(entry, rejected);
    }

    /// An entry of a spool that is somebody else's.
    pub fn deny(&mut self, entry: &Entry, place: usize) {
        let (reason, example) = (Rejection::Spool, entry.spool_id.as_bytes().to_vec());
        self.reject(entry, &[RecordRejection { sender: None, reason, kind: "entry", records: 1, example }]);
        self.outcome.denied.push(place);
    }
}

/// Rejections (sender, reason) that were reported in the log lately.
#[derive(Default)]
pub(super) struct ReportLimit(HashMap<(String, String), Instant>);

impl ReportLimit {
    /// What of these is to be reported now.
    fn due<'a>(&self, all: impl Iterator<Item = (&'a str, &'a str)>) -> BTreeSet<(String, String)> {
        let owned = all.map(|(one, other)| (one.to_owned(), other.to_owned()));
        owned.filter(|key| self.0.get(key).is_none_or(|at| at.elapsed() >= REPORT_INTERVAL)).collect()
    }

    /// The rejections that are to be reported when the transaction is committed.
    pub fn due_now(&self, work: &Work<'_>) -> DueReports {
        DueReports(self.due(work.rejected.senders()))
    }

    /// The transaction is committed.
    pub fn committed(&mut self, due: DueReports) {
        for (sender, reason) in &due.0 {
            tracing::warn!(sender, reason, "records rejected; the view rejected_records counts them");
        }
        if self.0.len() >= REPORTED_MAX {
            self.0.clear();
        }
        let now = Instant::now();
        self.0.extend(due.0.into_iter().take(REPORTED_MAX).map(|key| (key, now)));
    }
}

/// Senders and reasons of the rejections of one transaction that are to be reported.
pub(super) struct DueReports(BTreeSet<(String, String)>);
