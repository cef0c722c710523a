//! The collector behind its network: what a stream hands on, for simulations of everything around it. The queue, its
//! bounds and the writer are those of [`crate::run`].

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use throughline_daemon::SelfMetrics;
use throughline_delivery::wire::PutResponse;
use throughline_store::Entry;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::Committer;
use crate::queue::{ACKS_MAX, QUEUE_UNITS, QueuedEntry, Queues, Sender, units};
use crate::rejected_senders::RejectedSenders;

/// Answers to one stream: acknowledgements, then at most one error.
pub type Acks = mpsc::Receiver<Result<PutResponse, Status>>;

/// A collector without listener, certificates and decoding.
pub struct DirectCollector {
    queue: Queues,
    memory: Arc<Semaphore>,
    next_stream: AtomicU64,
}

impl DirectCollector {
    /// With the future that is its writer: who drops it has killed the collector.
    pub fn new<C: Committer>(
        committer: C,
        metrics: SelfMetrics,
    ) -> (DirectCollector, impl Future<Output = ()> + Send) {
        let (queue, items) = Queues::new(1);
        let memory = Arc::new(Semaphore::new(QUEUE_UNITS));
        let rejected = RejectedSenders::default();
        let writer = crate::writer::run(items, vec![committer], metrics, rejected, CancellationToken::new());
        (DirectCollector { queue, memory, next_stream: AtomicU64::new(0) }, writer)
    }

    /// A sender's stream and the answers to it.
    pub fn stream(&self) -> (DirectStream, Acks) {
        let (acks, answers) = mpsc::channel(ACKS_MAX);
        let (queue, memory) = (self.queue.clone(), self.memory.clone());
        let number = self.next_stream.fetch_add(1, Relaxed);
        (DirectStream { number, queue, memory, acks, ended: Arc::default() }, answers)
    }
}

/// One sender's stream.
pub struct DirectStream {
    number: u64,
    queue: Queues,
    memory: Arc<Semaphore>,
    acks: mpsc::Sender<Result<PutResponse, Status>>,
    ended: Arc<AtomicBool>,
}

impl DirectStream {
    /// Hands an entry of so many encoded bytes on; waits for memory of the queue. False once the stream or the collector has ended.
    pub async fn put(&self, entry: Entry, bytes: usize) -> bool {
        if self.ended.load(Relaxed) {
            return false;
        }
        let Ok(permit) = self.memory.clone().acquire_many_owned(units(bytes)).await else { return false };
        let (acks, ended) = (self.acks.clone(), self.ended.clone());
        let (stream, _memory) = (self.number, (permit, None));
        let sender = Sender { stream, certificate: None, acks, ended, takes_refusals: false, _memory };
        self.queue.send(QueuedEntry::new(entry, bytes, bytes, sender)).await.is_ok()
    }
}
