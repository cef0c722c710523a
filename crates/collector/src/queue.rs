//! The way of an entry through the collector, and the bounds of that way.

use throughline_delivery::wire::PutResponse;
use throughline_store::Entry;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tonic::Status;

/// Unit in which room in the queue is counted.
const UNIT_BYTES: usize = 1024;
/// Memory for entries between their arrival and their commit, in units: 128 MiB.
pub(crate) const QUEUE_UNITS: usize = (128 << 20) / UNIT_BYTES;
/// A decoded batch takes a few times its encoded size.
const DECODED_FACTOR: usize = 4;
/// Entries in the queue: not the bound that matters, but a channel wants one.
pub(crate) const QUEUE_ITEMS: usize = 16 * 1024;
/// Acknowledgements of one stream that its sender has not taken yet. One is made for each transaction, so
/// a sender that is this far behind does not read.
pub(crate) const ACKS_MAX: usize = 256;

/// An entry with what is needed to answer its sender.
pub(crate) struct Queued {
    pub entry: Entry,
    /// Encoded bytes.
    pub bytes: usize,
    pub sender: Sender,
}

/// Whom to answer.
pub(crate) struct Sender {
    /// Number of the stream.
    pub stream: u64,
    pub acks: mpsc::Sender<Result<PutResponse, Status>>,
    /// The entry's part of the queue's memory; given back when it is done.
    pub _room: OwnedSemaphorePermit,
}

/// Units of room that an entry of so many bytes takes.
pub(crate) fn units(bytes: usize) -> u32 {
    u32::try_from(bytes * DECODED_FACTOR / UNIT_BYTES + 1).unwrap_or(u32::MAX)
}
