//! What the agent says about itself, in `/metrics` and at intervals as records: its metrics and its node; and
//! the care of its clock.

use crate::batcher::NAME;
use crate::config::Config;
use crate::health::AgentHealth;
use crate::latest::LastValues;
use crate::node;
use crate::sources::Sources;
use std::sync::Arc;
use std::time::Duration;
use throughline_daemon::{BoundState, Clock, Expose, Page, SelfMetrics};
use throughline_delivery::ShipStats;
use throughline_detail::Recording;
use throughline_host::sysfs::Tree;
use throughline_sample::catalogue::{CELLS_DISCARDED, HTTP_BOUND, RECORDS_DISCARDED};
use throughline_sample::wire::Batch;
use throughline_spool::Spool;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

/// From one round to the next.
const FIGURES_INTERVAL: Duration = Duration::from_secs(10);
/// Rounds from one report of figures to the next: half a minute, so that two are within the gap after which a daemon is silent.
const REPORT_ROUNDS: u64 = 3;
/// Rounds from one report of all figures to the next, between which only those that changed are reported: a minute, so that a
/// series does not end for those who read it back.
const ALL_ROUNDS: u64 = 6;
/// Rounds between two node records, and two reminders that a source does not deliver: one hour.
const NODE_ROUNDS: u64 = 360;

/// The parts of the agent that have metrics.
#[derive(Clone)]
pub struct AgentMetrics {
    /// The metrics; sources, spool and delivery are written into them when they are looked at.
    pub metrics: SelfMetrics,
    /// The agent's time.
    pub clock: Arc<Clock>,
    /// The sources' states.
    pub sources: Sources,
    /// What waits.
    pub spool: Spool,
    /// What was sent.
    pub shipped: Arc<ShipStats>,
    /// What stays here.
    pub recording: Recording,
    /// What is wrong now.
    pub health: AgentHealth,
    /// Whether `/metrics` has its address.
    pub http: BoundState,
    /// What the sources last sent.
    pub last: Arc<LastValues>,
}

impl AgentMetrics {
    /// The metrics as of now.
    fn refreshed(&self) -> &SelfMetrics {
        self.sources.report(&self.metrics);
        let reported = throughline_delivery::metrics(&self.spool.stats(), &self.shipped, self.clock.now());
        reported.into_iter().for_each(|(labels, metric, value)| self.metrics.set(labels, metric, value));
        self.recording.report(&self.metrics);
        self.metrics.set(NAME, &HTTP_BOUND, f64::from(u8::from(self.http.is_bound())));
        #[allow(clippy::cast_precision_loss)] // Exact up to 2^53.
        self.metrics.set((NAME, "user_share"), &CELLS_DISCARDED, self.last.left_out_cells() as f64);
        self.health.observe();
        &self.metrics
    }
}

impl Expose for AgentMetrics {
    fn expose(&self, page: &mut Page) {
        self.refreshed().expose(page);
        self.sources.expose(page);
    }
}

/// Sends the agent's own records until `stop`, and its metrics once more then.
pub async fn run(
    own: AgentMetrics,
    last: Arc<LastValues>,
    node: String,
    config: Config,
    records: mpsc::Sender<Batch>,
    stop: CancellationToken,
) {
    let mut tick = interval(FIGURES_INTERVAL);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut paused_before = Vec::new();
    for round in 0.. {
        let stopping = tokio::select! {
            _ = tick.tick() => false,
            () = stop.cancelled() => true,
        };
        let (now, all) = (own.clock.now(), stopping || round % ALL_ROUNDS == 0);
        let metrics = own.refreshed();
        let mut batch = Batch::default();
        // Whether a source is paused, and until when, is known soon.
        let paused: Vec<_> = own
            .sources
            .statuses()
            .into_iter()
            .map(|(name, status)| (name, status.paused, status.paused_until))
            .collect();
        let has_changed = std::mem::replace(&mut paused_before, paused.clone()) != paused;
        if all || round % REPORT_ROUNDS == 0 || has_changed {
            batch.self_stats = metrics.changes(now, all);
            batch.self_stats.extend(last.mpi_records(now, all));
        }
        if !stopping {
            batch.events = own.sources.changes(own.clock.now(), round % NODE_ROUNDS == NODE_ROUNDS - 1);
        }
        if round % NODE_ROUNDS == 0 {
            let adapters = if config.sysfs.enabled {
                node::adapters(config.sysfs.root.clone()).await
            } else {
                Tree::default()
            };
            batch.nodes.push(node::info(&node, &own.clock, &config.hca_guids, &adapters));
            last.set_adapters(adapters);
        }
        // The batcher empties this channel at once; a full one would be its defect, and costs metrics only.
        if records.try_send(batch).is_err() {
            own.metrics.add((NAME, "queue_full"), &RECORDS_DISCARDED, 1);
        }
        if stopping {
            return;
        }
    }
}
