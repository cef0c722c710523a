//! Gathers entries of many senders into one transaction, and answers after its commit.
//!
//! An entry that can't be stored now, for a reason of its own, ends its stream: its sender sends it again after a pause,
//! and all others go on meanwhile.
//!
//! Several writers commit at a time, each the entries of its own spools: see `queue`.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use throughline_daemon::SelfMetrics;
use throughline_delivery::Backoff;
use throughline_delivery::wire::PutResponse;
use throughline_sample::Message;
use throughline_sample::admission::Rejection;
use throughline_sample::catalogue::{
    COMMIT_FAILURES, COMMITS, DELIVERED_ENTRIES, DUPLICATE_ENTRIES, ENTRIES_DISCARDED, ENTRIES_REJECTED,
    FAILED_READS, LAST_COMMIT_SECONDS, RECORDS_REJECTED, ROWS_WRITTEN, SOURCE_UP,
};
use throughline_store::{Content, Entry, WriteOutcome};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use uuid::Uuid;

use crate::queue::{GATHER_RECORDS, QueuedEntry, Sender, Turns};
use crate::rejected_senders::RejectedSenders;
use crate::{CommitError, Committer, SOURCE};

/// Reasons in metrics: entries that can't be decoded or stored and are set aside, and those of a crawler while another one had
/// the lease of its fabric.
const QUARANTINED: &str = "quarantined";
/// And of a crawler, as it isn't clear which fabric it sees, or that one is not its own.
const FABRIC: &str = "fabric";
const FENCED: &str = "fenced";

/// How long the first entry of a transaction waits for others. A transaction costs a sync of a few
/// milliseconds, so this keeps the disk mostly idle and rows less than a quarter of a second old.
pub const GATHER: Duration = Duration::from_millis(100);
/// Encoded bytes of one transaction at most (and one entry more).
pub const GATHER_BYTES: usize = 8 << 20;
/// Memory of one transaction's entries at most (and one entry more).
const GATHER_DECODED_BYTES: usize = 64 << 20;
/// How often an entry that is refused alone is sent again before its records are tried one by one.
const REFUSALS_MAX: usize = 3;
/// Refused entries in memory.
const REFUSED_ENTRIES_MAX: usize = 1024;

/// Runs a writer for each of the queues until all their senders are gone, or `give_up`.
pub(crate) async fn run<C: Committer>(
    queues: Vec<mpsc::Receiver<QueuedEntry>>,
    committers: Vec<C>,
    metrics: SelfMetrics,
    rejected: RejectedSenders,
    give_up: CancellationToken,
) {
    debug_assert_eq!(queues.len(), committers.len(), "a queue without its writer");
    let zero = [&COMMITS, &COMMIT_FAILURES, &ROWS_WRITTEN, &DELIVERED_ENTRIES, &DUPLICATE_ENTRIES];
    for metric in zero {
        metrics.add(SOURCE, metric, 0);
    }
    metrics.add((SOURCE, QUARANTINED), &ENTRIES_REJECTED, 0);
    metrics.add((SOURCE, FABRIC), &ENTRIES_REJECTED, 0);
    metrics.add((SOURCE, FENCED), &ENTRIES_DISCARDED, 0);
    for reason in Rejection::ALL {
        metrics.add((SOURCE, reason.reason()), &RECORDS_REJECTED, 0);
    }
    let writers_away = Arc::new(AtomicUsize::new(0));
    let mut writers = Vec::new();
    for (items, committer) in queues.into_iter().zip(committers) {
        writers.push(Writer {
            items,
            turns: Turns::default(),
            committer,
            metrics: metrics.clone(),
            rejected: rejected.clone(),
            backoff: Backoff::default(),
            away: false,
            writers_away: writers_away.clone(),
            refused: HashMap::new(),
        });
    }
    tokio::select! {
        () = work_all(writers) => {}
        () = give_up.cancelled() => {}
    }
}

/// Each on a task of its own, as making rows takes processor; all of them end with the future.
async fn work_all<C: Committer>(mut writers: Vec<Writer<C>>) {
    // One alone works here: who drops the future has stopped it at once.
    let Some(mut first) = writers.pop() else { return };
    let mut others = JoinSet::new();
    for mut writer in writers {
        others.spawn(async move { writer.work().await });
    }
    first.work().await;
    while others.join_next().await.is_some() {}
}

struct Writer<C> {
    items: mpsc::Receiver<QueuedEntry>,
    /// Entries of the queue by their senders.
    turns: Turns,
    committer: C,
    metrics: SelfMetrics,
    rejected: RejectedSenders,
    backoff: Backoff,
    /// Whether the database took nothing of this writer last.
    away: bool,
    /// Writers that it took nothing from last.
    writers_away: Arc<AtomicUsize>,
    /// How often an entry was refused alone.
    refused: HashMap<(Uuid, u64), usize>,
}

impl<C: Committer> Writer<C> {
    async fn work(&mut self) {
        while let Some((mut entries, senders)) = self.gather().await {
            let stored = self.store(&mut entries, &senders).await;
            acknowledge(&entries, &senders, &stored);
            let delivered = stored.iter().filter(|stored| **stored).count();
            self.metrics.add(SOURCE, &DELIVERED_ENTRIES, delivered as u64);
        }
    }

    /// The entries of the next transaction, of all senders in turns; `None` when no more can come.
    async fn gather(&mut self) -> Option<(Vec<Entry>, Vec<Sender>)> {
        let mut next = self.next(None).await?;
        let until = Instant::now() + GATHER;
        let (mut entries, mut senders) = (Vec::new(), Vec::new());
        let (mut bytes, mut decoded_bytes, mut records) = (0, 0, 0);
        loop {
            bytes += next.bytes;
            decoded_bytes += next.decoded_bytes;
            records += next.records;
            entries.push(next.entry);
            senders.push(next.sender);
            if bytes >= GATHER_BYTES || decoded_bytes >= GATHER_DECODED_BYTES || records >= GATHER_RECORDS {
                break;
            }
            match self.next(Some(until)).await {
                Some(item) => next = item,
                None => break,
            }
        }
        Some((entries, senders))
    }

    /// The entry whose turn it is; waits for one, at most until then.
    async fn next(&mut self, until: Option<Instant>) -> Option<QueuedEntry> {
        loop {
            // What came meanwhile has its turn, too.
            while let Ok(item) = self.items.try_recv() {
                self.turns.push(item);
            }
            if let Some(item) = self.turns.pop() {
                return Some(item);
            }
            let received = match until {
                None => self.items.recv().await,
                Some(until) => tokio::time::timeout_at(until, self.items.recv()).await.ok().flatten(),
            };
            self.turns.push(received?);
        }
    }

    /// Returns when every entry is committed, set aside, or left to be sent again; which of them may be acknowledged.
    /// Tries for as long as the database is away, and halves what is refused until the entry at fault stands alone.
    /// Entries stay in their order all the while.
    async fn store(&mut self, entries: &mut [Entry], senders: &[Sender]) -> Vec<bool> {
        let mut stored = vec![false; entries.len()];
        // The last is the next.
        let mut parts = Vec::new();
        parts.push(0..entries.len());
        while let Some(part) = parts.pop() {
            if let Some(live) = live_parts(&part, senders) {
                parts.extend(live);
                continue;
            }
            let started = Instant::now();
            match self.committer.commit(&entries[part.clone()]).await {
                Ok(done) => {
                    stored[part.clone()].fill(true);
                    self.note_commit(done, started, part.start, entries, senders, &mut stored);
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
                    let (entry, sender) = (&mut entries[part.start], &senders[part.start]);
                    if self.is_to_be_sent_again(entry, sender, &reason) {
                        continue;
                    }
                    match self.isolate(entry, &reason).await {
                        Some(done) => {
                            stored[part.start] = true;
                            self.note_commit(done, started, part.start, entries, senders, &mut stored);
                        }
                        None => parts.push(part),
                    }
                }
            }
        }
        stored
    }

    /// The first refusals of an entry end its stream: others go on, and its sender comes back after a pause.
    fn is_to_be_sent_again(&mut self, entry: &Entry, sender: &Sender, reason: &str) -> bool {
        if matches!(entry.content, Content::Undecodable { .. }) {
            return false;
        }
        self.metrics.add(SOURCE, &COMMIT_FAILURES, 1);
        if self.refused.len() >= REFUSED_ENTRIES_MAX {
            self.refused.clear();
        }
        let key = (entry.spool_id, entry.sequence);
        let refusals = self.refused.entry(key).or_default();
        *refusals += 1;
        if *refusals >= REFUSALS_MAX {
            self.refused.remove(&key);
            return false;
        }
        tracing::warn!(spool = %entry.spool_id, sequence = entry.sequence, reason, "the database refuses an entry");
        sender.end(Status::unavailable(format!("the database refuses entry {}: {reason}", entry.sequence)));
        true
    }

    /// Stores an entry without the records at fault. `None`: it is to be tried again, as it is now.
    async fn isolate(&mut self, entry: &mut Entry, reason: &str) -> Option<WriteOutcome> {
        if matches!(entry.content, Content::Undecodable { .. }) {
            // Even its bytes are refused: the fault is the database's.
            self.wait(reason).await;
            return None;
        }
        match self.committer.isolate(entry).await {
            Ok(done) => Some(done),
            Err(CommitError::Away(reason)) => {
                self.wait(&reason).await;
                None
            }
            Err(CommitError::Refused(reason)) => {
                set_aside(entry, &reason);
                None
            }
        }
    }

    /// Counts what was committed from this place on, and ends the streams of what was not.
    fn note_commit(
        &mut self,
        done: WriteOutcome,
        started: Instant,
        first: usize,
        entries: &[Entry],
        senders: &[Sender],
        stored: &mut [bool],
    ) {
        for place in &done.denied {
            stored[first + place] = false;
            let (entry, sender) = (&entries[first + place], &senders[first + place]);
            sender.refuse(entry.spool_id, entry.sequence, Status::permission_denied(OF_ANOTHER));
        }
        for (place, reason) in &done.held_back {
            stored[first + place] = false;
            let (entry, sender) = (&entries[first + place], &senders[first + place]);
            self.metrics.add((SOURCE, FABRIC), &ENTRIES_REJECTED, 1);
            sender.refuse(entry.spool_id, entry.sequence, Status::failed_precondition(reason));
        }
        for place in &done.deferred {
            stored[first + place] = false;
            senders[first + place].end(Status::resource_exhausted(TOO_MANY_CHUNKS));
        }
        for (reason, records) in &done.rejected {
            self.metrics.add((SOURCE, reason.reason()), &RECORDS_REJECTED, *records);
        }
        self.rejected.add(done.rejected_of);
        if std::mem::take(&mut self.away) && self.writers_away.fetch_sub(1, Relaxed) == 1 {
            tracing::info!("the database takes batches again");
        }
        if done.fenced > 0 {
            tracing::info!(
                entries = done.fenced,
                "left out what a crawler read while another one had the term of its fabric"
            );
        }
        self.backoff.reset();
        if self.writers_away.load(Relaxed) == 0 {
            self.metrics.set(SOURCE, &SOURCE_UP, 1.0);
        }
        self.metrics.set(SOURCE, &LAST_COMMIT_SECONDS, started.elapsed().as_secs_f64());
        self.metrics.add(SOURCE, &COMMITS, 1);
        self.metrics.add(SOURCE, &ROWS_WRITTEN, done.rows);
        self.metrics.add(SOURCE, &DUPLICATE_ENTRIES, done.duplicates);
        self.metrics.add((SOURCE, QUARANTINED), &ENTRIES_REJECTED, done.quarantined);
        self.metrics.add(SOURCE, &FAILED_READS, done.unknown_values);
        self.metrics.add((SOURCE, FENCED), &ENTRIES_DISCARDED, done.fenced);
    }

    async fn wait(&mut self, reason: &str) {
        if !std::mem::replace(&mut self.away, true) && self.writers_away.fetch_add(1, Relaxed) == 0 {
            tracing::warn!(reason, "the database does not take batches: trying again, senders keep theirs");
        }
        self.metrics.add(SOURCE, &COMMIT_FAILURES, 1);
        self.metrics.set(SOURCE, &SOURCE_UP, 0.0);
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

/// Why an entry of somebody else's spool is refused.
const OF_ANOTHER: &str = "the spool belongs to another sender: was its folder copied from another node, or has the \
                          certificate of the crawler a new name? stop the daemon and move the folder `spool` away";

/// Why an entry waits.
const TOO_MANY_CHUNKS: &str = "too much that is hours old at once: send it again later";

/// The parts of this one whose streams have not ended, the first last; `None` where that is all of it.
fn live_parts(part: &Range<usize>, senders: &[Sender]) -> Option<Vec<Range<usize>>> {
    let is_live = |place: usize| !senders[place].ended.load(Relaxed);
    if part.clone().all(is_live) {
        return None;
    }
    let mut parts: Vec<Range<usize>> = Vec::new();
    for place in part.clone().filter(|place| is_live(*place)) {
        match parts.last_mut() {
            Some(last) if last.end == place => last.end += 1,
            _ => parts.push(place..place + 1),
        }
    }
    parts.reverse();
    Some(parts)
}

/// Reports to each sender the highest entry of each of its spools that was stored. Nothing to a stream that has ended: an
/// entry between may not be stored.
fn acknowledge(entries: &[Entry], senders: &[Sender], stored: &[bool]) {
    // In the order of streams: a simulation plays the same way again.
    let mut highest = BTreeMap::new();
    for ((entry, sender), _) in entries.iter().zip(senders).zip(stored).filter(|(_, stored)| **stored) {
        if sender.ended.load(Relaxed) {
            continue;
        }
        let place = highest.entry((sender.stream, entry.spool_id)).or_insert((0, sender));
        place.0 = entry.sequence.max(place.0);
    }
    for ((_, spool_id), (acknowledged, sender)) in highest {
        let spool_id = bytes::Bytes::copy_from_slice(spool_id.as_bytes());
        // A sender that is gone sends again elsewhere; one that does not read its answers tries another
        // session after a while.
        let _ = sender.acks.try_send(Ok(PutResponse { spool_id, acknowledged, refusal: None, detail: None }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Queues;
    use std::sync::{Mutex, PoisonError};
    use throughline_sample::wire::{Batch, Event};
    use tokio::sync::Semaphore;

    /// Spools of each transaction.
    #[derive(Clone, Default)]
    struct Transactions(Arc<Mutex<Vec<Vec<u128>>>>);

    impl Committer for Transactions {
        async fn commit(&mut self, entries: &[Entry]) -> Result<WriteOutcome, CommitError> {
            let spools = entries.iter().map(|entry| entry.spool_id.as_u128()).collect();
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(spools);
            Ok(WriteOutcome::default())
        }

        async fn isolate(&mut self, _: &Entry) -> Result<WriteOutcome, CommitError> {
            Ok(WriteOutcome::default())
        }
    }

    #[tokio::test]
    async fn attack_22_others_are_in_the_next_transaction_however_much_one_sender_has_queued() {
        let (queue, items) = Queues::new(1);
        let memory = Arc::new(Semaphore::new(1000));
        let queued = |certificate: &str, spool: u128, sequence: u64, records: usize| {
            let batch = Batch { events: vec![Event::default(); records], ..Batch::default() };
            let (spool_id, content) = (Uuid::from_u128(spool), Content::Batch(batch));
            let entry = Entry { spool_id, sequence, content, sender: Default::default() };
            let sender = Sender {
                certificate: Some(certificate.into()),
                stream: 0,
                acks: mpsc::channel(1).0,
                ended: Arc::default(),
                takes_refusals: false,
                _memory: (memory.clone().try_acquire_owned().expect("memory"), None),
            };
            QueuedEntry::new(entry, 1, 1, sender)
        };
        // Eight streams of one certificate, each with eight transactions of records of its own, before anybody else.
        for n in 0..8 * 16 {
            let (spool, sequence) = (n % 8, (n / 8) as u64 + 1);
            assert!(queue.send(queued("node:evil", spool, sequence, GATHER_RECORDS / 2)).await.is_ok());
        }
        for other in 100..150 {
            let name = format!("node:n{other}");
            assert!(queue.send(queued(&name, other, 1, 10)).await.is_ok());
        }
        drop(queue);
        let transactions = Transactions::default();
        let committers = vec![transactions.clone()];
        let give_up = CancellationToken::new();
        run(items, committers, SelfMetrics::default(), RejectedSenders::default(), give_up).await;
        let transactions = transactions.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let last_of_others = transactions.iter().rposition(|spools| spools.iter().any(|spool| *spool >= 100));
        assert_eq!(last_of_others, Some(0), "{} transactions", transactions.len());
        assert_eq!(transactions.iter().map(Vec::len).sum::<usize>(), 8 * 16 + 50, "none is missing");
        assert!(transactions.len() >= 60);
    }
}
