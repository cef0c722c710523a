//! Rejected records by sender for `/metrics`, so that an alert names who sent them. The table `record_quarantine` has the same for
//! all servers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use throughline_daemon::{Expose, Page};
use throughline_sample::admission::Rejection;
use throughline_sample::catalogue::SENDER_RECORDS_REJECTED;

use crate::SOURCE;

/// Senders with series of their own.
const SENDERS_MAX: usize = 256;

/// The sender of all others.
const OTHER: &str = "other";

/// Records by sender and reason since the start.
type Counts = BTreeMap<(String, Rejection), u64>;

/// The counts; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct RejectedSenders(Arc<Mutex<Counts>>);

impl RejectedSenders {
    /// Counts the rejected records of a transaction.
    pub(crate) fn add(&self, rejected: Counts) {
        if rejected.is_empty() {
            return;
        }
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known: BTreeSet<String> = counts.keys().map(|(sender, _)| sender.clone()).collect();
        for ((mut sender, reason), records) in rejected {
            if !known.contains(&sender) && known.len() >= SENDERS_MAX {
                OTHER.clone_into(&mut sender);
            }
            known.insert(sender.clone());
            *counts.entry((sender, reason)).or_default() += records;
        }
    }
}

impl Expose for RejectedSenders {
    fn expose(&self, page: &mut Page) {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for ((sender, reason), records) in &*counts {
            let labels = [("source", SOURCE), ("reason", reason.reason()), ("sender", sender.as_str())];
            #[allow(clippy::cast_precision_loss)] // Exact up to 2^53.
            page.metric(&SENDER_RECORDS_REJECTED, "throughline_", &labels, *records as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_daemon::Format;

    #[test]
    fn each_sender_has_its_series_and_invented_ones_share_one() {
        let senders = RejectedSenders::default();
        senders.add([(("node:n1".to_owned(), Rejection::Quota), 990)].into());
        senders.add([(("node:n1".to_owned(), Rejection::Quota), 10)].into());
        senders.add((0..1000).map(|n| ((format!("node:x{n}"), Rejection::Job), 1)).collect());
        let mut page = Page::default();
        senders.expose(&mut page);
        let text = page.encode(Format::Text);
        let series = "throughline_sender_records_rejected_total{source=\"collector\",reason=\"quota\",sender=\"node:n1\"} 1000";
        assert!(text.contains(series), "{text}");
        let other = format!("reason=\"job\",sender=\"other\"}} {}", 1000 - (SENDERS_MAX - 1));
        assert!(text.contains(&other), "{text}");
    }
}
