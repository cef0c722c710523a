//! Metrics about delivery, and their place in the catalogue.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use throughline_daemon::Condition;
use throughline_sample::catalogue::{self, Metric};
use throughline_spool::Stats;

use crate::{Quarantine, Reason};

/// Counts of one [`ship`](crate::ship) loop; shared with whoever shows them.
#[derive(Default)]
pub struct ShipStats {
    /// Whether there is a session now.
    pub connected: AtomicBool,
    /// Sessions opened.
    pub connections: AtomicU64,
    /// Entries handed to a session, repeated ones included.
    pub sent_entries: AtomicU64,
    /// Their payload.
    pub sent_bytes: AtomicU64,
    /// Entries whose commit was acknowledged.
    pub acked_entries: AtomicU64,
    /// Reads of the spool that failed.
    pub read_errors: AtomicU64,
    failures: [AtomicU64; Reason::ALL.len()],
    /// Where refused entries are, if they are kept.
    pub(crate) quarantine: OnceLock<Quarantine>,
}

impl ShipStats {
    /// Failed sessions and attempts for this reason.
    pub fn failures(&self, reason: Reason) -> u64 {
        self.failures[reason as usize].load(Relaxed)
    }

    /// What `/healthz` reports about refused entries.
    pub fn conditions(&self) -> Vec<Condition> {
        self.quarantine.get().map(Quarantine::conditions).unwrap_or_default()
    }

    pub(crate) fn failed(&self, reason: Reason) {
        self.failures[reason as usize].fetch_add(1, Relaxed);
    }
}

/// The catalogue's metrics of a spool and its delivery: part of the daemon, metric, value. `now_ns` is UTC
/// nanoseconds. Set them before each look at `/metrics` and before each record of self-statistics.
#[allow(clippy::cast_precision_loss)] // Exact up to 2^53.
pub fn metrics(spool: &Stats, ship: &ShipStats, now_ns: i64) -> Vec<(&'static str, &'static Metric, f64)> {
    let failures: u64 = Reason::ALL.iter().map(|r| ship.failures(*r)).sum();
    let dropped = spool.dropped_memory_entries
        + spool.dropped_disk_entries
        + spool.damaged_entries
        + spool.refused_entries;
    let errors = spool.no_space_errors + spool.write_errors + spool.read_errors + spool.meta_errors;
    let refused = ship.quarantine.get().map(|refused| (refused.stats(), refused.taken(), refused.dropped()));
    let (waiting, taken, lost) = refused.unwrap_or_default();
    let lag = spool.oldest_ns.map_or(0.0, |oldest| (now_ns.saturating_sub(oldest)).max(0) as f64 / 1e9);
    vec![
        ("spool", &catalogue::RECORDS, spool.appended_entries as f64),
        ("spool", &catalogue::SPOOL_BYTES, (spool.memory_bytes + spool.disk_bytes) as f64),
        ("spool", &catalogue::SPOOL_ENTRIES, spool.backlog_entries as f64),
        (
            "spool",
            &catalogue::THINNED_RECORDS,
            (spool.thinned_memory_entries + spool.thinned_disk_entries) as f64,
        ),
        ("spool", &catalogue::DROPPED_RECORDS, dropped as f64),
        ("spool", &catalogue::SPOOL_ERRORS, errors as f64),
        ("spool", &catalogue::SPOOL_DAMAGED_SEGMENTS, spool.damaged_segments as f64),
        ("spool", &catalogue::SPOOL_LOST_ENTRIES, spool.damaged_entries as f64),
        ("spool", &catalogue::SPOOL_DAMAGED_BYTES, spool.damaged_bytes as f64),
        ("delivery", &catalogue::DELIVERED_ENTRIES, ship.acked_entries.load(Relaxed) as f64),
        ("delivery", &catalogue::DELIVERY_FAILURES, failures as f64),
        ("delivery", &catalogue::DELIVERY_LAG_SECONDS, lag),
        ("quarantine", &catalogue::QUARANTINED_ENTRIES, taken as f64),
        ("quarantine", &catalogue::SPOOL_BYTES, (waiting.memory_bytes + waiting.disk_bytes) as f64),
        ("quarantine", &catalogue::SPOOL_ENTRIES, waiting.backlog_entries as f64),
        ("quarantine", &catalogue::DROPPED_RECORDS, lost as f64),
        ("delivery", &catalogue::SOURCE_UP, f64::from(u8::from(ship.connected.load(Relaxed)))),
    ]
}
