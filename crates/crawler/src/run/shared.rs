//! What the crawler's threads and tasks share: the newest topology, the last sweep, and the way to the spool.

use super::device::Device;
use super::heavy_sweep::HeavySweep;
use super::leader::LeaderState;
use super::sender::Sender;
use super::trigger::{DiscoveryRequest, Trigger};
use crate::events::{FabricEvent, Interruptions, Severity};
use crate::stop::Stop;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use throughline_daemon::{Clock, SelfMetrics};
use throughline_detail::Recording;
use throughline_infiniband::reading::PortReading;
use throughline_infiniband::records::SOURCE;
use throughline_infiniband::topology::Topology;
use throughline_sample::Message;
use throughline_sample::catalogue::{DISCOVERY_REQUESTS, TOPOLOGY_EVENTS};
use throughline_sample::wire::{Batch, FabricFingerprint};
use throughline_spool::{Class, Spool};

/// The part of the crawler that looks at the topology, in metrics.
pub const DISCOVERY: &str = "discovery";

/// How long an inventory waits in all for the spool's disk: twice what a slow one takes for the largest subnet's 150 MB.
const INVENTORY_WAIT_MAX: Duration = Duration::from_secs(10);
/// From one look to the next.
const INVENTORY_PAUSE: Duration = Duration::from_millis(10);
/// Longest wait between two checks of a stop request.
const LOOK: Duration = Duration::from_millis(200);

/// A sweep whose rows are on their way: when it began, and the last spool entry with its rows.
pub type Round = (Instant, u64);

/// The way to the spool.
pub struct Publisher {
    pub spool: Spool,
    pub sender: Sender,
    pub metrics: SelfMetrics,
    pub clock: Arc<Clock>,
    pub rounds: tokio::sync::mpsc::Sender<Round>,
    pub leader: Arc<LeaderState>,
    /// What stays here of sweeps.
    pub recording: Recording,
    /// Rises of LinkDownedCounter that events may explain.
    pub interruptions: Mutex<Interruptions>,
}

impl Publisher {
    /// Reports events: log, metrics by kind, records.
    pub fn emit(&self, events: &[FabricEvent]) {
        if events.is_empty() {
            return;
        }
        let time = self.clock.now();
        self.interruptions().explain(events, Instant::now());
        for event in events {
            self.metrics.add((DISCOVERY, event.kind.id), &TOPOLOGY_EVENTS, 1);
            match event.kind.severity {
                Severity::Info => tracing::info!(kind = event.kind.id, "{}", event.text),
                Severity::Warning | Severity::Error => tracing::warn!(kind = event.kind.id, "{}", event.text),
            }
        }
        let events = events.iter().map(|event| event.record(time, SOURCE)).collect();
        self.append(Batch { events, ..Batch::default() }, Class::Precious);
    }

    /// What the sweeps noted of short interruptions.
    pub fn interruptions(&self) -> MutexGuard<'_, Interruptions> {
        // A panic elsewhere leaves a rise untold at worst.
        self.interruptions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends the batches of an inventory, each made when there is a place for it in the spool's memory: an inventory may
    /// be larger than that. Discovery may wait for the disk, as sweeps do not wait for it; beyond
    /// [`INVENTORY_WAIT_MAX`] in all, the spool drops what is oldest.
    pub fn append_inventory(&self, batches: impl Iterator<Item = Batch>) -> usize {
        let mut records = 0;
        let mut wait = INVENTORY_WAIT_MAX;
        for batch in batches {
            while self.spool.is_memory_short() && !wait.is_zero() && !self.leader.is_passive() {
                std::thread::sleep(INVENTORY_PAUSE);
                wait = wait.saturating_sub(INVENTORY_PAUSE);
            }
            records += batch.ib_nodes.len() + batch.ib_topology_marks.len() + batch.ib_multicast_tables.len();
            self.append(batch, Class::Precious);
        }
        records
    }

    /// Appends a batch; its sequence, or `None` when the spool refused it, which it has counted, or while another
    /// crawler of the fabric records, or no fabric has been seen yet.
    pub fn append(&self, mut batch: Batch, class: Class) -> Option<u64> {
        if self.leader.is_passive() {
            return None;
        }
        self.sender.sign(&mut batch);
        batch.fabric.as_ref()?;
        match self.spool.append(batch.encode_to_vec(), class) {
            Ok(sequence) => Some(sequence),
            Err(error) => {
                tracing::warn!(%error, "a batch is lost");
                None
            }
        }
    }
}

/// A topology, its signature, and the fabric that it is of.
#[derive(Clone)]
pub struct SignedTopology {
    pub topology: Arc<Topology>,
    pub signature: u64,
    pub fabric: Option<Arc<FabricFingerprint>>,
}

/// The last sweep.
#[derive(Clone)]
pub struct LastSweep {
    pub topology: Arc<Topology>,
    pub readings: Arc<Vec<PortReading>>,
    /// When it began, UTC nanoseconds since 1970, on the clock of the readings' times.
    pub began_nanoseconds: i64,
    /// How long it took.
    pub elapsed: Duration,
    /// When it ended.
    pub at: Instant,
}

#[derive(Default)]
struct State {
    found: Option<SignedTopology>,
    last: Option<LastSweep>,
    wanted: DiscoveryRequest,
}

/// What threads and tasks share.
pub struct SharedState {
    pub publisher: Publisher,
    pub leader: Arc<LeaderState>,
    pub device: Device,
    /// Whether the subnet manager runs a heavy sweep.
    pub heavy_sweep: HeavySweep,
    state: Mutex<State>,
    changed: Condvar,
}

impl SharedState {
    pub fn new(publisher: Publisher) -> SharedState {
        let leader = publisher.leader.clone();
        let heavy_sweep = HeavySweep::default();
        let device = Device::default();
        SharedState {
            publisher,
            leader,
            device,
            heavy_sweep,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each field is replaced as a whole: a panic elsewhere leaves an old value at worst.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest topology.
    pub fn found(&self) -> Option<SignedTopology> {
        self.lock().found.clone()
    }

    /// Replaces the newest topology; the one before.
    pub fn set_found(&self, found: SignedTopology) -> Option<SignedTopology> {
        let before = self.lock().found.replace(found);
        self.changed.notify_all();
        before
    }

    /// Waits for the first topology; `None` when the process stops.
    pub fn wait_for_topology(&self, stop: &Stop) -> Option<SignedTopology> {
        let mut state = self.lock();
        while !stop.is_set() {
            if let Some(found) = &state.found {
                return Some(found.clone());
            }
            state = self.changed.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        None
    }

    /// The last sweep.
    pub fn last(&self) -> Option<LastSweep> {
        self.lock().last.clone()
    }

    /// Replaces the last sweep.
    pub fn set_last(&self, last: LastSweep) {
        self.lock().last = Some(last);
    }

    /// Forgets topology and readings: another crawler has newer ones.
    pub fn discard(&self) {
        *self.lock() = State::default();
    }

    /// Requests a look at the subnet before its time, and counts the reason.
    pub fn want_discovery(&self, trigger: &Trigger) {
        self.publisher.metrics.add((DISCOVERY, trigger.name()), &DISCOVERY_REQUESTS, 1);
        self.lock().wanted.add(trigger);
        self.changed.notify_all();
    }

    /// Waits until a discovery is requested, the interval is over, or the process stops; what is requested.
    pub fn wait_for_discovery(&self, interval: Duration, stop: &Stop) -> DiscoveryRequest {
        let until = Instant::now() + interval;
        let mut state = self.lock();
        while !stop.is_set() && state.wanted.is_nothing() {
            let rest = until.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                break;
            }
            state =
                self.changed.wait_timeout(state, rest.min(LOOK)).unwrap_or_else(PoisonError::into_inner).0;
        }
        std::mem::take(&mut state.wanted)
    }
}
