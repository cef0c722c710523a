//! What the crawler says about itself, in `/metrics` and at intervals as records; the care of its clock; and
//! how long rows take from the fabric to their commit.

use super::shared::{Round, SharedState};
use crate::engine::Stats;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use throughline_daemon::{Expose, Page, SelfMetrics};
use throughline_delivery::ShipStats;
use throughline_infiniband::records::SOURCE;
use throughline_sample::catalogue::{
    LAST_ROUND_COMMIT_SECONDS, MAD_BUDGET_WAITS, MAD_RETRIES, MAD_TIMEOUTS, MAD_WIRE_BYTES, MADS_RECEIVED,
    MADS_SENT, REDIRECTIONS, SILENT_NODES, UNEXPECTED_MADS,
};
use throughline_sample::wire::Batch;
use throughline_spool::Class;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

/// From one set of `self_stats` rows to the next.
const FIGURES_INTERVAL: Duration = Duration::from_secs(10);
/// Stream of these records in the spool.
const STREAM: u16 = 2;
/// Sweeps whose commit is watched at once; more wait only while the collector is away.
pub const ROUNDS_WATCHED: usize = 64;
/// Between two checks of what is acknowledged, while a sweep is on its way: the precision of the measurement.
const ACK_LOOK: Duration = Duration::from_millis(1);

/// The parts that have metrics.
#[derive(Clone)]
pub struct CrawlerMetrics {
    pub shared: Arc<SharedState>,
    pub shipped: Arc<ShipStats>,
}

impl CrawlerMetrics {
    /// The metrics as of now.
    fn refreshed(&self) -> &SelfMetrics {
        let publisher = &self.shared.publisher;
        let internal =
            throughline_delivery::metrics(&publisher.spool.stats(), &self.shipped, publisher.clock.now());
        internal.into_iter().for_each(|(labels, metric, value)| publisher.metrics.set(labels, metric, value));
        publisher.recording.report(&publisher.metrics);
        &publisher.metrics
    }
}

impl Expose for CrawlerMetrics {
    fn expose(&self, page: &mut Page) {
        self.refreshed().expose(page);
    }
}

/// Writes an engine's counts into the metrics.
#[allow(clippy::cast_precision_loss)] // Exact up to 2^53.
pub fn report_stats(part: &'static str, stats: &Stats, metrics: &SelfMetrics) {
    metrics.set(part, &MADS_SENT, stats.sent as f64);
    metrics.set(part, &MAD_TIMEOUTS, stats.timeouts as f64);
    metrics.set(part, &MAD_RETRIES, stats.retries as f64);
    metrics.set(part, &MADS_RECEIVED, stats.received as f64);
    metrics.set(part, &MAD_WIRE_BYTES, stats.wire_bytes() as f64);
    metrics.set(part, &UNEXPECTED_MADS, stats.unexpected as f64);
    metrics.set(part, &SILENT_NODES, stats.silent_nodes as f64);
    metrics.set(part, &MAD_BUDGET_WAITS, stats.paced as f64);
    metrics.set(part, &REDIRECTIONS, stats.redirected as f64);
}

/// Appends the crawler's own records until `stop`, and once more then.
pub async fn run(own: CrawlerMetrics, stop: CancellationToken) {
    let mut tick = interval(FIGURES_INTERVAL);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        let stopping = tokio::select! {
            _ = tick.tick() => false,
            () = stop.cancelled() => true,
        };
        let publisher = &own.shared.publisher;
        if let Some((step, _)) = publisher.sender.spans().follow() {
            tracing::warn!(seconds = step / 1_000_000_000, "the system's clock was set");
        }
        let self_stats = own.refreshed().records(publisher.clock.now());
        if !self_stats.is_empty() {
            publisher.append(Batch { self_stats, ..Batch::default() }, Class::Cumulative(STREAM));
        }
        if stopping {
            return;
        }
    }
}

/// Measures the time from the beginning of a sweep to the acknowledged commit of its last rows.
pub async fn watch_commits(own: CrawlerMetrics, mut rounds: mpsc::Receiver<Round>) {
    let publisher = &own.shared.publisher;
    let mut waiting: VecDeque<Round> = VecDeque::new();
    loop {
        if waiting.is_empty() {
            match rounds.recv().await {
                Some(round) => waiting.push_back(round),
                None => return,
            }
        }
        while let Ok(round) = rounds.try_recv() {
            if waiting.len() < ROUNDS_WATCHED {
                waiting.push_back(round);
            }
        }
        let acked = publisher.spool.acked();
        while let Some((start, _)) = waiting.front().copied().filter(|(_, sequence)| *sequence <= acked) {
            waiting.pop_front();
            let elapsed = start.elapsed();
            publisher.metrics.set(SOURCE, &LAST_ROUND_COMMIT_SECONDS, elapsed.as_secs_f64());
            tracing::debug!(elapsed_seconds = elapsed.as_secs_f64(), "rows of a sweep are committed");
        }
        if !waiting.is_empty() {
            tokio::time::sleep(ACK_LOOK).await;
        }
    }
}
