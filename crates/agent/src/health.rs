//! What the agent's `/healthz` reports: spool, delivery, sources, the socket for ranks, users over their share.

use crate::sources::{self, Health as SourceHealth, Sources};
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use throughline_daemon::{Clock, Condition, Health};
use throughline_delivery::{Reason, ShipStats};
use throughline_detail::Recording;
use throughline_spool::{Spool, Stats};

/// How long a loss stays on the page after it was last observed: long enough for a check every few minutes.
const RECENT: Duration = Duration::from_secs(600);

/// The collector may be restarted without this being worth a line.
const AWAY_AFTER: Duration = Duration::from_secs(60);

/// What the page is made of.
#[derive(Clone)]
pub struct AgentHealth {
    parts: Arc<Parts>,
}

struct Parts {
    sources: Sources,
    spool: Spool,
    shipped: Arc<ShipStats>,
    clock: Arc<Clock>,
    /// Whether the spool is meant to be on disk.
    wants_disk: bool,
    /// The socket for ranks, if they may connect.
    mpi_socket: Option<PathBuf>,
    recording: Recording,
    losses: Mutex<Losses>,
}

/// When each kind of loss last rose.
#[derive(Debug, Default)]
struct Losses {
    dropped: Rising,
    thinned: Rising,
    disk: Rising,
    refused: Rising,
    recorder: Rising,
}

/// A counter, and when it last rose.
#[derive(Debug, Default)]
struct Rising {
    count: u64,
    rose: Option<Instant>,
}

impl Rising {
    fn observe(&mut self, count: u64, now: Instant) {
        if count > self.count {
            self.rose = Some(now);
        }
        self.count = count;
    }

    fn is_recent(&self, now: Instant) -> bool {
        self.rose.is_some_and(|rose| now.saturating_duration_since(rose) < RECENT)
    }
}

impl AgentHealth {
    /// Of these parts.
    pub fn new(
        sources: Sources,
        spool: Spool,
        shipped: Arc<ShipStats>,
        clock: Arc<Clock>,
        wants_disk: bool,
        mpi_socket: Option<PathBuf>,
        recording: Recording,
    ) -> Self {
        let losses = Mutex::default();
        let parts = Parts { sources, spool, shipped, clock, wants_disk, mpi_socket, recording, losses };
        Self { parts: Arc::new(parts) }
    }

    /// Takes note of what was lost since the last call; called at intervals, so that a loss has its time.
    pub fn observe(&self) {
        let stats = self.parts.spool.stats();
        self.parts.observe(&stats, Instant::now());
    }
}

impl Health for AgentHealth {
    fn conditions(&self) -> Vec<Condition> {
        let parts = &self.parts;
        let (now, stats) = (Instant::now(), parts.spool.stats());
        parts.observe(&stats, now);
        let mut conditions = parts.spool_conditions(&stats, now);
        conditions.extend(parts.delivery(&stats, now));
        conditions.extend(parts.shipped.conditions());
        conditions.extend(parts.recording.condition(parts.recorder_is_losing(now)));
        conditions.extend(parts.source_conditions());
        conditions
    }
}

impl Parts {
    fn observe(&self, stats: &Stats, now: Instant) {
        let mut losses = self.losses.lock().unwrap_or_else(PoisonError::into_inner);
        losses.dropped.observe(stats.lost_entries(), now);
        losses.thinned.observe(stats.thinned_memory_entries + stats.thinned_disk_entries, now);
        losses.disk.observe(stats.no_space_errors + stats.write_errors + stats.meta_errors, now);
        losses.recorder.observe(self.recording.dropped(), now);
        losses.refused.observe(self.shipped.failures(Reason::Refused), now);
    }

    fn recorder_is_losing(&self, now: Instant) -> bool {
        self.losses.lock().unwrap_or_else(PoisonError::into_inner).recorder.is_recent(now)
    }

    fn spool_conditions(&self, stats: &Stats, now: Instant) -> Vec<Condition> {
        let losses = self.losses.lock().unwrap_or_else(PoisonError::into_inner);
        let mut conditions = Vec::new();
        if losses.dropped.is_recent(now) {
            let why = stats.losses().into_iter();
            conditions
                .extend(why.map(|why| Condition::failing(format!("spool: entries are being lost: {why}"))));
        } else if losses.thinned.is_recent(now) {
            let why = stats.evictions().into_iter();
            conditions.extend(why.map(|why| {
                Condition::degraded(format!(
                    "spool: full, every second entry of cumulative values is left out: {why}"
                ))
            }));
        }
        if losses.disk.is_recent(now) {
            conditions.push(Condition::failing(format!(
                "spool: the disk can't be written ({} errors since the start); entries wait in memory; free space or repair it",
                losses.disk.count
            )));
        }
        if self.wants_disk && !self.spool.is_on_disk() {
            let bytes = stats.memory_bytes;
            conditions.push(Condition::degraded(format!(
                "spool: its folder can't be used, entries wait in memory only ({bytes} bytes) and are lost with this process"
            )));
        }
        conditions
    }

    fn delivery(&self, stats: &Stats, now: Instant) -> Option<Condition> {
        if self.shipped.connected.load(Relaxed) {
            return None;
        }
        let waits = stats.oldest_ns.map_or(0, |oldest| self.clock.now().saturating_sub(oldest).max(0));
        let waits = Duration::from_nanos(waits.unsigned_abs());
        let losses = self.losses.lock().unwrap_or_else(PoisonError::into_inner);
        let (entries, seconds) = (stats.backlog_entries, waits.as_secs());
        if losses.refused.is_recent(now) {
            return Some(Condition::failing(format!(
                "delivery: the collector refuses this agent; {entries} entries wait, the oldest for {seconds} s; see the log of both for the reason"
            )));
        }
        (waits > AWAY_AFTER).then(|| {
            Condition::degraded(format!(
                "delivery: the collector can't be reached; {entries} entries wait, the oldest for {seconds} s"
            ))
        })
    }

    fn source_conditions(&self) -> Vec<Condition> {
        let mut conditions = Vec::new();
        for (name, status) in self.sources.statuses() {
            if status.health == SourceHealth::Failing {
                let why = status.reason.unwrap_or(status.state);
                let text = format!("source {name}: {why}");
                let is_mpi = name == sources::MPI;
                conditions.push(if is_mpi { Condition::failing(text) } else { Condition::degraded(text) });
            }
            conditions.extend(status.conditions.into_iter().map(Condition::notice));
        }
        if let Some(socket) = &self.mpi_socket
            && std::fs::symlink_metadata(socket).is_err()
        {
            conditions.push(Condition::failing(format!(
                "source mpi: the socket {} is gone, no rank can connect; restart the agent, and exempt the folder from cleaning",
                socket.display()
            )));
        }
        conditions
    }
}
