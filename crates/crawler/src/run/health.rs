//! What the crawler's `/healthz` reports: device, discovery, sweeps, spool, recorder and delivery.
//!
//! A crawler that reads nothing, or whose readings get nowhere, is failing, however well it answers. One that stands by
//! for another one of the fabric that it sees is not.

use super::leader::Role;
use super::shared::SharedState;
use super::thread_names::DISCOVERY;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use throughline_daemon::{Condition, Health};
use throughline_delivery::{Reason, ShipStats};
use throughline_infiniband::records::SOURCE;

/// How long a loss or a refusal stays on the page after it was last observed: a check every few minutes sees it.
const RECENT: Duration = Duration::from_secs(600);
/// Time beyond its intervals that a part may take: a walk with many silent nodes, a start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// Intervals without success after which a part is failing.
const INTERVALS: u32 = 3;

/// A counter, and when it last rose.
#[derive(Debug, Default)]
struct Rising {
    count: u64,
    rose: Option<Instant>,
}

impl Rising {
    /// Whether it rose lately.
    fn observe(&mut self, count: u64, now: Instant) -> bool {
        if count > self.count {
            self.rose = Some(now);
        }
        self.count = count;
        self.rose.is_some_and(|rose| now.saturating_duration_since(rose) < RECENT)
    }
}

/// What the page is made of.
pub struct CrawlerHealth {
    shared: Arc<SharedState>,
    shipped: Arc<ShipStats>,
    /// Parts with the interval at which each has something to do.
    parts: [(&'static str, Duration); 2],
    began: Instant,
    losses: Mutex<[Rising; 4]>,
}

impl CrawlerHealth {
    /// Of these parts.
    pub fn new(
        shared: Arc<SharedState>,
        shipped: Arc<ShipStats>,
        discovery: Duration,
        sweep: Duration,
    ) -> CrawlerHealth {
        let parts = [(DISCOVERY, discovery), (SOURCE, sweep)];
        CrawlerHealth { shared, shipped, parts, began: Instant::now(), losses: Mutex::default() }
    }

    /// Spool, recorder and delivery.
    fn ways_out(&self) -> Vec<Condition> {
        let (stats, now) = (self.shared.publisher.spool.stats(), Instant::now());
        let mut losses = self.losses.lock().unwrap_or_else(PoisonError::into_inner);
        let [dropped, disk, refused, recorder] = &mut *losses;
        let mut conditions = Vec::new();
        let thinned = stats.thinned_memory_entries + stats.thinned_disk_entries;
        if dropped.observe(stats.lost_entries() + thinned, now) {
            let losses = stats.losses().into_iter().map(|why| format!("spool: entries are lost: {why}"));
            let evictions = stats.evictions().into_iter();
            let evictions = evictions.map(|why| format!("spool: every second entry is left out: {why}"));
            conditions.extend(losses.chain(evictions).map(Condition::failing));
        }
        let errors = stats.no_space_errors + stats.write_errors + stats.meta_errors;
        if disk.observe(errors, now) {
            conditions.push(Condition::failing(format!(
                "spool: its disk can't be written ({errors} errors since the start); free space or repair it"
            )));
        }
        let recording = &self.shared.publisher.recording;
        conditions.extend(recording.condition(recorder.observe(recording.dropped(), now)));
        let is_refused = refused.observe(self.shipped.failures(Reason::Refused), now);
        if is_refused && !self.shipped.connected.load(Relaxed) {
            conditions.push(Condition::failing(format!(
                "delivery: the collector refuses this crawler, {} entries wait; see the log of both for the reason",
                stats.backlog_entries
            )));
        }
        conditions
    }

    fn device(&self) -> Vec<Condition> {
        let device = &self.shared.device;
        let mut conditions = Vec::new();
        let identity = &self.shared.publisher.sender.identity;
        let role = self.shared.leader.role();
        match role {
            // Only while its own walks see that fabric.
            Role::Standby if !device.is_lost() => {
                let name = identity.name();
                conditions
                    .push(Condition::notice(format!("standing by for another crawler of the fabric {name}")));
            }
            Role::Waiting => {
                conditions.push(Condition::failing(format!("fabric: {}", identity.waiting_for())));
            }
            _ => {}
        }
        if device.is_lost() {
            conditions.push(Condition::failing(
                "device: it does not work any more and is opened again until it does; see the adapter, its driver and the simulator",
            ));
        }
        // Only an active one sweeps.
        let parts = self.parts.iter().filter(|(name, _)| *name != SOURCE || !self.shared.leader.is_passive());
        for (name, interval) in parts {
            let idle = device.idle(name).unwrap_or_else(|| self.began.elapsed());
            if idle > interval.saturating_mul(INTERVALS).saturating_add(PATIENCE) {
                conditions.push(Condition::failing(format!(
                    "{name}: nothing was read for {} s; see the log, the local port's state and the subnet manager",
                    idle.as_secs()
                )));
            }
        }
        let found = self.shared.found();
        if let Some(limit) = found.and_then(|found| found.topology.truncated) {
            conditions.push(Condition::degraded(format!(
                "discovery: it ended at discovery.{}; look for a switch that is no real one, or raise the bound",
                limit.name()
            )));
        }
        conditions
    }
}

impl Health for CrawlerHealth {
    fn conditions(&self) -> Vec<Condition> {
        let mut conditions = self.device();
        conditions.extend(self.ways_out());
        conditions.extend(self.shipped.conditions());
        conditions
    }
}
