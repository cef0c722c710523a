//! Gathers entries of many senders into one transaction, and answers after its commit.
//!
//! One writer a process: two that took turns could commit a later entry of a spool before an earlier one,
//! which the ledger would then take for a repetition.

use std::collections::HashMap;
use std::time::Duration;

use throughline_daemon::SelfFigures;
use throughline_delivery::Backoff;
use throughline_delivery::wire::PutResponse;
use throughline_sample::Message;
use throughline_sample::catalogue::{
    COMMIT_FAILURES, COMMIT_SECONDS, COMMITS, DELIVERED_ENTRIES, DUPLICATE_ENTRIES, FAILED_READS,
    FENCED_ENTRIES, QUARANTINED_ENTRIES, ROWS_WRITTEN, SOURCE_UP,
};
use throughline_sample::wire::Batch;
use throughline_store::{Content, Entry, WriteOutcome};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::queue::{Queued, Sender};
use crate::{CommitError, Committer, SOURCE};

/// How long the first entry of a transaction waits for others. A transaction costs a sync of a few
/// milliseconds, so this keeps the disk mostly idle and rows less than a quarter of a second old.
pub const GATHER: Duration = Duration::from_millis(100);
/// Encoded bytes of one transaction at most (and one entry more).
pub const GATHER_BYTES: usize = 8 << 20;
/// Records of one transaction at most (and one entry more): a few COPYs of the size at which they are fastest.
pub const GATHER_RECORDS: usize = 40_000;
/// How often an entry that is refused alone is tried before it is set aside.
const REFUSALS_MAX: usize = 3;

/// Runs until all senders of `items` are gone, or `give_up`.
pub(crate) async fn run<C: Committer>(
    items: mpsc::Receiver<Queued>,
    committer: C,
    figures: SelfFigures,
    give_up: CancellationToken,
) {
    let zero = [
        &COMMITS,
        &COMMIT_FAILURES,
        &ROWS_WRITTEN,
        &DELIVERED_ENTRIES,
        &DUPLICATE_ENTRIES,
        &QUARANTINED_ENTRIES,
        &FENCED_ENTRIES,
    ];
    for metric in zero {
        figures.add(SOURCE, metric, 0);
    }
    let mut writer = Writer { items, committer, figures, backoff: Backoff::default(), away: false };
    tokio::select! {
        () = writer.work() => {}
        () = give_up.cancelled() => {}
    }
}

struct Writer<C> {
    items: mpsc::Receiver<Queued>,
    committer: C,
    figures: SelfFigures,
    backoff: Backoff,
    away: bool,
}

impl<C: Committer> Writer<C> {
    async fn work(&mut self) {
        while let Some((mut entries, senders)) = self.gather().await {
            self.store(&mut entries).await;
            acknowledge(&entries, &senders);
            self.figures.add(SOURCE, &DELIVERED_ENTRIES, entries.len() as u64);
        }
    }

    /// The entries of the next transaction; `None` when no more can come.
    async fn gather(&mut self) -> Option<(Vec<Entry>, Vec<Sender>)> {
        let mut next = self.items.recv().await?;
        let until = Instant::now() + GATHER;
        let (mut entries, mut senders) = (Vec::new(), Vec::new());
        let (mut bytes, mut records) = (0, 0);
        loop {
            bytes += next.bytes;
            records += match &next.entry.content {
                Content::Batch(batch) => count_records(batch),
                Content::Undecodable { .. } => 1,
            };
            entries.push(next.entry);
            senders.push(next.sender);
            if bytes >= GATHER_BYTES || records >= GATHER_RECORDS {
                break;
            }
            match tokio::time::timeout_at(until, self.items.recv()).await {
                Ok(Some(item)) => next = item,
                Ok(None) | Err(_) => break,
            }
        }
        Some((entries, senders))
    }

    /// Returns when every entry is committed or set aside: tries for as long as it takes, and halves what is
    /// refused until the entry at fault stands alone. Entries stay in their order all the while.
    async fn store(&mut self, entries: &mut [Entry]) {
        let mut parts = Vec::new();
        parts.push(0..entries.len());
        let mut refusals = 0;
        while let Some(part) = parts.pop() {
            let started = Instant::now();
            match self.committer.commit(&entries[part.clone()]).await {
                Ok(done) => {
                    self.note_commit(done, started);
                    refusals = 0;
                }
                Err(CommitError::Away(reason)) => {
                    self.wait(&reason).await;
                    parts.push(part);
                }
                Err(CommitError::Refused(_)) if part.len() > 1 => {
                    let middle = part.start + part.len() / 2;
                    parts.push(middle..part.end);
                    parts.push(part.start..middle);
                }
                Err(CommitError::Refused(reason)) => {
                    self.wait(&reason).await;
                    refusals += 1;
                    if refusals == REFUSALS_MAX {
                        set_aside(&mut entries[part.start], &reason);
                    }
                    parts.push(part);
                }
            }
        }
    }

    fn note_commit(&mut self, done: WriteOutcome, started: Instant) {
        if self.away {
            tracing::info!("the database takes batches again");
        }
        self.away = false;
        if done.fenced > 0 {
            tracing::info!(
                entries = done.fenced,
                "left out what a crawler read while another one had the term of its subnet"
            );
        }
        self.backoff.reset();
        self.figures.set(SOURCE, &SOURCE_UP, 1.0);
        self.figures.set(SOURCE, &COMMIT_SECONDS, started.elapsed().as_secs_f64());
        self.figures.add(SOURCE, &COMMITS, 1);
        self.figures.add(SOURCE, &ROWS_WRITTEN, done.rows);
        self.figures.add(SOURCE, &DUPLICATE_ENTRIES, done.duplicates);
        self.figures.add(SOURCE, &QUARANTINED_ENTRIES, done.quarantined);
        self.figures.add(SOURCE, &FAILED_READS, done.unknown_values);
        self.figures.add(SOURCE, &FENCED_ENTRIES, done.fenced);
    }

    async fn wait(&mut self, reason: &str) {
        if !self.away {
            tracing::warn!(reason, "the database does not take batches: trying again, senders keep theirs");
        }
        self.away = true;
        self.figures.add(SOURCE, &COMMIT_FAILURES, 1);
        self.figures.set(SOURCE, &SOURCE_UP, 0.0);
        tokio::time::sleep(self.backoff.next_pause()).await;
    }
}

/// Makes an entry that the database refuses alone one for its quarantine, where its bytes are kept. Should the
/// database refuse even that, the fault is the database's and not the entry's, and it goes on being tried.
fn set_aside(entry: &mut Entry, reason: &str) {
    if let Content::Batch(batch) = &entry.content {
        tracing::warn!(spool = %entry.spool_id, sequence = entry.sequence, reason, "a batch is set aside");
        let bytes = batch.encode_to_vec();
        entry.content = Content::Undecodable { bytes, reason: reason.to_owned() };
    }
}

/// Tells each sender the highest entry of each of its spools.
fn acknowledge(entries: &[Entry], senders: &[Sender]) {
    let mut highest = HashMap::new();
    for (entry, sender) in entries.iter().zip(senders) {
        let place = highest.entry((sender.stream, entry.spool_id)).or_insert((0, sender));
        place.0 = entry.sequence.max(place.0);
    }
    for ((_, spool_id), (acknowledged, sender)) in highest {
        let spool_id = bytes::Bytes::copy_from_slice(spool_id.as_bytes());
        // A sender that is gone asks again elsewhere; one that does not read its answers tries another
        // session after a while.
        let _ = sender.acks.try_send(Ok(PutResponse { spool_id, acknowledged }));
    }
}

/// Records in a batch that become rows.
fn count_records(batch: &Batch) -> usize {
    let cells: usize = batch.mpi_ops.iter().map(|b| b.cells.len()).sum::<usize>()
        + batch.mpi_peers.iter().map(|p| p.cells.len()).sum::<usize>()
        + batch.mpi_traces.iter().map(|t| t.records.len()).sum::<usize>()
        + batch.mpi_clocks.iter().map(|c| c.points.len()).sum::<usize>()
        + batch.mpi_regions.iter().map(|r| r.cells.len()).sum::<usize>();
    cells
        + batch.ib_ports.len()
        + batch.ib_port_lanes.len()
        + batch.host_ports.len()
        + batch.gpu_links.len()
        + batch.gpu_pcie.len()
        + batch.gpu_pm.len()
        + batch.mpi_pvars.len()
        + batch.events.len()
        + batch.coverage.len()
        + batch.self_stats.len()
        + batch.ib_nodes.len()
        + batch.ib_multicast_tables.len()
}
