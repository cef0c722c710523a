//! The server's metrics about itself, as records beside those of the agents: `status` and dashboards read them
//! from the database.

use std::sync::Arc;
use std::time::Duration;

use throughline_daemon::{SelfMetrics, Ticker};
use throughline_sample::Message;
use throughline_sample::wire::Batch;
use throughline_store::{Content, Entry, Sender as From};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::clocks::Clocks;
use crate::queue::{QueuedEntry, Queues, Sender, units};
use crate::quota::SenderQuotas;
use crate::refused::RefusedSenders;

/// As often as agents and crawlers send theirs.
const INTERVAL: Duration = Duration::from_secs(10);

/// Sends the metrics, and events about senders, until `stop`. Where the queue has no memory left, a round is left out: they are cumulative.
#[allow(clippy::too_many_arguments)] // Each once, from where all of them are made.
pub(crate) async fn send(
    node: String,
    metrics: SelfMetrics,
    refused: Arc<RefusedSenders>,
    quotas: SenderQuotas,
    clocks: Clocks,
    queue: Queues,
    memory: Arc<Semaphore>,
    stop: CancellationToken,
) {
    // A spool of nothing: lives and ends with this process.
    let spool_id = Uuid::new_v4();
    let mut ticker = Ticker::new(INTERVAL);
    // Those that are not handed on yet.
    let mut events = Vec::new();
    // Nobody waits for the acknowledgement.
    let (acks, _) = mpsc::channel(1);
    for sequence in 1.. {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticker.tick() => {}
        }
        // By a clock that may be off there is no time for them; they are cumulative.
        let Some(now) = clocks.own_time() else { continue };
        events.append(&mut quotas.report(now));
        let self_stats = metrics.records(now);
        let batch = Batch { node: node.clone(), self_stats, events: events.clone(), ..Batch::default() };
        let bytes = batch.encoded_len();
        // A name and two numbers each.
        let decoded_bytes = 4 * bytes;
        let Ok(permit) = memory.clone().try_acquire_many_owned(units(decoded_bytes)) else { continue };
        let sender = From { rejected: refused.take(), ..From::default() };
        let entry = Entry { spool_id, sequence, content: Content::Batch(batch), sender };
        // Streams are numbered from 0 and never get so far.
        let sender = Sender {
            stream: u64::MAX,
            certificate: None,
            acks: acks.clone(),
            ended: Arc::default(),
            takes_refusals: false,
            _memory: (permit, None),
        };
        let queued = QueuedEntry::new(entry, bytes, decoded_bytes, sender);
        match queue.of(spool_id).try_send(queued) {
            Ok(()) => events.clear(),
            Err(error) => refused.put_back(error.into_inner().entry.sender.rejected),
        }
    }
}
