//! The way of an entry through the collector, and the bounds of that way.
//!
//! Each writer has a queue, and each spool one of the queues: two writers that took turns could commit a later entry of a spool
//! before an earlier one, which the ledger would then take for a repetition.
//!
//! Out of its queue a writer takes the entries of all senders in turns ([`Turns`]), however many of one sender wait.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use throughline_delivery::wire::{PutResponse, Refusal};
use throughline_store::{Content, Entry};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tonic::Status;
use uuid::Uuid;

use crate::judge::count_records;

/// Unit in which memory of the queue is counted.
const UNIT_BYTES: usize = 1024;
/// Memory for entries between their arrival and their commit, in units: 128 MiB.
pub(crate) const QUEUE_UNITS: usize = (128 << 20) / UNIT_BYTES;
/// Entries in a queue: not the bound that matters, but a channel wants one.
pub(crate) const QUEUE_ITEMS: usize = 16 * 1024;
/// Acknowledgements of one stream that its sender has not taken yet. One is made for each transaction, so
/// a sender that is this far behind does not read.
pub(crate) const ACKS_MAX: usize = 256;
/// Records of one transaction at most (and one entry more): a few COPYs of the size at which they are fastest.
pub const GATHER_RECORDS: usize = 40_000;
/// Records of a sender that follow each other in a transaction when all wait: a tenth of it. Rows of one node are close to each other
/// in indexes and its entries are acknowledged together, so that single entries of all nodes in turn cost a tenth more.
const TURN_RECORDS: usize = GATHER_RECORDS / 10;

/// The ways to the writers. Cheap to clone; the writers end when the last one is dropped.
#[derive(Clone)]
pub(crate) struct Queues(Arc<[mpsc::Sender<QueuedEntry>]>);

impl Queues {
    /// One for each writer, at least one, and what the writers receive from.
    pub fn new(writers: usize) -> (Self, Vec<mpsc::Receiver<QueuedEntry>>) {
        let (senders, receivers): (Vec<_>, Vec<_>) =
            (0..writers.max(1)).map(|_| mpsc::channel(QUEUE_ITEMS)).unzip();
        (Self(senders.into()), receivers)
    }

    /// The queue of a spool, the same one for as long as this process runs.
    pub fn of(&self, spool_id: Uuid) -> &mpsc::Sender<QueuedEntry> {
        // The id's second half is random. A sender that chooses its own ids gains nothing by them.
        let (_, random) = spool_id.as_u64_pair();
        let number = usize::try_from(random % self.0.len() as u64).unwrap_or(0);
        &self.0[number]
    }

    /// Waits for a place in the queue; an error once the writer has ended.
    pub async fn send(&self, queued: QueuedEntry) -> Result<(), mpsc::error::SendError<QueuedEntry>> {
        self.of(queued.entry.spool_id).send(queued).await
    }
}

/// An entry's part of the queue's memory, and of the share of its certificate.
pub(crate) type QueueMemory = (OwnedSemaphorePermit, Option<OwnedSemaphorePermit>);

/// An entry with what is needed to answer its sender.
pub(crate) struct QueuedEntry {
    pub entry: Entry,
    /// Records in it, at least one.
    pub records: usize,
    /// Encoded bytes.
    pub bytes: usize,
    /// Memory that it takes.
    pub decoded_bytes: usize,
    pub sender: Sender,
}

impl QueuedEntry {
    pub fn new(entry: Entry, bytes: usize, decoded_bytes: usize, sender: Sender) -> Self {
        let records = match &entry.content {
            Content::Batch(batch) => count_records(batch).max(1),
            Content::Undecodable { .. } => 1,
        };
        Self { entry, records, bytes, decoded_bytes, sender }
    }
}

/// Whose turn an entry waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Lane {
    /// Of all streams of a certificate.
    Sender(Arc<str>),
    /// Of a sender of this machine, who has a spool.
    Spool(Uuid),
}

/// Entries that wait for a writer. Each sender's come in their order; of all senders the one is next that had fewest records since
/// it began to wait (start-time fair queueing: Goyal, Vin and Cheng, SIGCOMM 1996), and has [`TURN_RECORDS`] then. So a sender whose
/// queue is long delays others by one turn, and one with large entries has its turn more rarely.
#[derive(Default)]
pub(crate) struct Turns {
    lanes: HashMap<Lane, LaneEntries>,
    /// Those with entries, by the records at which their turn begins, and by arrival.
    order: BTreeMap<(u64, u64), Lane>,
    /// Records at which the present turn began.
    now: u64,
    arrivals: u64,
}

/// What waits in a lane.
#[derive(Default)]
struct LaneEntries {
    entries: VecDeque<QueuedEntry>,
    /// Records that it had of its turn.
    taken: usize,
}

impl Turns {
    /// Adds an entry behind those of its sender.
    pub fn push(&mut self, queued: QueuedEntry) {
        let lane = match &queued.sender.certificate {
            Some(name) => Lane::Sender(name.clone()),
            None => Lane::Spool(queued.entry.spool_id),
        };
        let waiting = self.lanes.entry(lane.clone()).or_default();
        waiting.entries.push_back(queued);
        if waiting.entries.len() == 1 {
            self.line_up(lane, self.now);
        }
    }

    /// The entry whose turn it is.
    pub fn pop(&mut self) -> Option<QueuedEntry> {
        let ((start, arrival), lane) = self.order.pop_first()?;
        self.now = start;
        let waiting = self.lanes.get_mut(&lane)?;
        let next = waiting.entries.pop_front();
        waiting.taken += next.as_ref().map_or(0, |next| next.records);
        if waiting.entries.is_empty() {
            self.lanes.remove(&lane);
        } else if waiting.taken < TURN_RECORDS {
            self.order.insert((start, arrival), lane);
        } else {
            let taken = std::mem::take(&mut waiting.taken);
            self.line_up(lane, start + taken as u64);
        }
        next
    }

    fn line_up(&mut self, lane: Lane, start: u64) {
        self.arrivals += 1;
        self.order.insert((start, self.arrivals), lane);
    }
}

/// Whom to answer.
pub(crate) struct Sender {
    /// Name of the certificate, which all its streams share; `None` for a sender of this machine.
    pub certificate: Option<Arc<str>>,
    /// Number of the stream.
    pub stream: u64,
    pub acks: mpsc::Sender<Result<PutResponse, Status>>,
    /// Set when one of its entries was not stored: what it sent behind that must not be stored either, or the ledger
    /// would take the one that is sent again for a repetition.
    pub ended: Arc<AtomicBool>,
    /// Whether it understands that one entry is refused and its stream continues.
    pub takes_refusals: bool,
    /// Given back when the entry is done.
    pub _memory: QueueMemory,
}

impl Sender {
    /// Ends a stream whose entry was not stored.
    pub fn end(&self, status: Status) {
        if !self.ended.swap(true, Relaxed) {
            // A sender that reads no answers does not get this one either.
            let _ = self.acks.try_send(Err(status));
        }
    }

    /// Answers that an entry is not stored because of the configuration. Its stream ends where that can't be said: an
    /// acknowledgement of a later entry would stand for this one, too.
    pub fn refuse(&self, spool_id: Uuid, sequence: u64, status: Status) {
        if !self.takes_refusals {
            return self.end(status);
        }
        let response = refusal(spool_id, sequence, &status);
        if self.acks.try_send(Ok(response)).is_err() {
            self.ended.store(true, Relaxed);
        }
    }
}

/// The response about a refused entry.
pub(crate) fn refusal(spool_id: Uuid, sequence: u64, status: &Status) -> PutResponse {
    PutResponse {
        spool_id: bytes::Bytes::copy_from_slice(spool_id.as_bytes()),
        acknowledged: 0,
        refusal: Some(Refusal { sequence, reason: status.message().to_owned() }),
        detail: None,
    }
}

/// Units of memory that so many bytes take.
pub(crate) fn units(bytes: usize) -> u32 {
    u32::try_from(bytes / UNIT_BYTES + 1).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_sample::wire::Batch;
    use tokio::sync::Semaphore;

    fn queued(certificate: &str, spool: u128, sequence: u64, records: usize) -> QueuedEntry {
        let content = Content::Batch(Batch::default());
        let entry = Entry { spool_id: Uuid::from_u128(spool), sequence, content, sender: Default::default() };
        let memory = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        let sender = Sender {
            certificate: (!certificate.is_empty()).then(|| certificate.into()),
            stream: 0,
            acks: mpsc::channel(1).0,
            ended: Arc::default(),
            takes_refusals: false,
            _memory: (memory, None),
        };
        QueuedEntry { records, ..QueuedEntry::new(entry, 1, 1, sender) }
    }

    fn popped(turns: &mut Turns) -> Vec<(u128, u64)> {
        let next = || turns.pop().map(|queued| (queued.entry.spool_id.as_u128(), queued.entry.sequence));
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn attack_22_a_sender_with_many_entries_waits_for_its_turns() {
        let mut turns = Turns::default();
        // Two entries are a turn.
        let records = TURN_RECORDS / 2;
        // Eight streams of one certificate, a spool each, 100 entries before anybody else's.
        for n in 0..800 {
            turns.push(queued("evil", n % 8, (n / 8) as u64, records));
        }
        let first = turns.pop().unwrap();
        assert_eq!(first.entry.sequence, 0);
        for (n, name) in ["a", "b"].iter().enumerate() {
            (0..3).for_each(|sequence| turns.push(queued(name, 100 + n as u128, sequence, records)));
        }
        (0..3).for_each(|sequence| turns.push(queued("", 200, sequence, records)));
        let order = popped(&mut turns);
        let place = |spool, sequence| order.iter().position(|one| *one == (spool, sequence)).unwrap();
        // The first turn has one entry left; then each of the four has two of its own.
        assert!(
            (0..3).all(|sequence| place(100, sequence) < 1 + 8 * (sequence as usize / 2 + 1)),
            "{order:?}"
        );
        assert!(place(101, 2) < 17 && place(200, 2) < 17, "{order:?}");
        // Each spool in its order.
        for spool in (0..8).chain([100, 101, 200]) {
            let sequences: Vec<u64> =
                order.iter().filter(|(of, _)| *of == spool).map(|(_, sequence)| *sequence).collect();
            assert!(sequences.is_sorted(), "{spool}: {sequences:?}");
        }
        assert_eq!(order.len(), 799 + 9);
    }

    #[test]
    fn a_sender_of_large_entries_has_its_turn_more_rarely() {
        let mut turns = Turns::default();
        (0..4).for_each(|sequence| turns.push(queued("large", 1, sequence, TURN_RECORDS)));
        (0..40).for_each(|sequence| turns.push(queued("small", 2, sequence, TURN_RECORDS / 10)));
        let order = popped(&mut turns);
        let large: Vec<usize> = (0..order.len()).filter(|at| order[*at].0 == 1).collect();
        assert!(large[1] >= 10 && large[2] >= 20 && large[3] >= 30, "{large:?}");
    }
}
