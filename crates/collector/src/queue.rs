//! The way of an entry through the collector, and the bounds of that way.
//!
//! Each writer has a queue, and each spool one of the queues: two writers that took turns could commit a later entry of a spool
//! before an earlier one, which the ledger would then take for a repetition.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use throughline_delivery::wire::{PutResponse, Refusal};
use throughline_store::Entry;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tonic::Status;
use uuid::Uuid;

/// Unit in which memory of the queue is counted.
const UNIT_BYTES: usize = 1024;
/// Memory for entries between their arrival and their commit, in units: 128 MiB.
pub(crate) const QUEUE_UNITS: usize = (128 << 20) / UNIT_BYTES;
/// Entries in a queue: not the bound that matters, but a channel wants one.
pub(crate) const QUEUE_ITEMS: usize = 16 * 1024;
/// Acknowledgements of one stream that its sender has not taken yet. One is made for each transaction, so
/// a sender that is this far behind does not read.
pub(crate) const ACKS_MAX: usize = 256;

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

/// An entry with what is needed to answer its sender.
pub(crate) struct QueuedEntry {
    pub entry: Entry,
    /// Encoded bytes.
    pub bytes: usize,
    /// Memory that it takes.
    pub decoded_bytes: usize,
    pub sender: Sender,
}

/// Whom to answer.
pub(crate) struct Sender {
    /// Number of the stream.
    pub stream: u64,
    pub acks: mpsc::Sender<Result<PutResponse, Status>>,
    /// Set when one of its entries was not stored: what it sent behind that must not be stored either, or the ledger
    /// would take the one that is sent again for a repetition.
    pub ended: Arc<AtomicBool>,
    /// Whether it understands that one entry is refused and its stream continues.
    pub takes_refusals: bool,
    /// The entry's part of the queue's memory; given back when it is done.
    pub _memory: OwnedSemaphorePermit,
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
