//! Metrics about delivery, and their place in the catalogue.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use throughline_daemon::{Condition, Labels};
use throughline_sample::catalogue::{self, Metric};
use throughline_spool::Stats;

use crate::{ClockExchange, Quarantine, Reason};

/// Counts of one [`ship`](crate::ship) loop, shared with the code that shows them.
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
    clock: OnceLock<ClockExchange>,
}

impl ShipStats {
    /// Failed sessions and attempts for this reason.
    pub fn failures(&self, reason: Reason) -> u64 {
        self.failures[reason as usize].load(Relaxed)
    }

    /// Has what the collector reports of this clock shown with delivery.
    pub fn show_clock(&self, clock: ClockExchange) {
        // The one that is set first; there is no other.
        _ = self.clock.set(clock);
    }

    /// What `/healthz` reports about refused entries and about the clock.
    pub fn conditions(&self) -> Vec<Condition> {
        let mut conditions = self.quarantine.get().map(Quarantine::conditions).unwrap_or_default();
        conditions.extend(self.clock.get().map(ClockExchange::conditions).unwrap_or_default());
        conditions
    }

    pub(crate) fn failed(&self, reason: Reason) {
        self.failures[reason as usize].fetch_add(1, Relaxed);
    }
}

/// The catalogue's metrics of a spool and its delivery: labels, metric, value. `now_ns` is UTC
/// nanoseconds. Set them before each look at `/metrics` and before each record of self-metrics.
#[allow(clippy::cast_precision_loss)] // Exact up to 2^53.
pub fn metrics(spool: &Stats, ship: &ShipStats, now_ns: i64) -> Vec<(Labels, &'static Metric, f64)> {
    let failures: u64 = Reason::ALL.iter().map(|r| ship.failures(*r)).sum();
    let errors = spool.no_space_errors + spool.write_errors + spool.read_errors + spool.meta_errors;
    let refused = ship.quarantine.get().map(|refused| (refused.stats(), refused.taken(), refused.dropped()));
    let (waiting, taken, lost) = refused.unwrap_or_default();
    let lag = spool.oldest_ns.map_or(0.0, |oldest| (now_ns.saturating_sub(oldest)).max(0) as f64 / 1e9);
    let of = |source: &'static str, metric, value| (Labels::from(source), metric, value);
    let discarded = |source: &'static str, reason: &'static str, count: u64| {
        (Labels::from((source, reason)), &catalogue::ENTRIES_DISCARDED, count as f64)
    };
    let clock = ship.clock.get().and_then(ClockExchange::offset_seconds);
    let clock = clock.map(|offset| of("delivery", &catalogue::CLOCK_OFFSET_SECONDS, offset));
    let all = [
        of("spool", &catalogue::RECORDS, spool.appended_entries as f64),
        of("spool", &catalogue::SPOOL_BYTES, (spool.memory_bytes + spool.disk_bytes) as f64),
        of("spool", &catalogue::SPOOL_ENTRIES, spool.backlog_entries as f64),
        discarded("spool", "evicted", spool.thinned_memory_entries + spool.thinned_disk_entries),
        discarded("spool", "memory_full", spool.dropped_memory_entries),
        discarded("spool", "disk_full", spool.dropped_disk_entries),
        discarded("spool", "damaged", spool.damaged_entries),
        discarded("spool", "size", spool.refused_entries),
        of("spool", &catalogue::SPOOL_ERRORS, errors as f64),
        of("spool", &catalogue::SPOOL_DAMAGED_SEGMENTS, spool.damaged_segments as f64),
        of("spool", &catalogue::SPOOL_DAMAGED_BYTES, spool.damaged_bytes as f64),
        of("delivery", &catalogue::DELIVERED_ENTRIES, ship.acked_entries.load(Relaxed) as f64),
        of("delivery", &catalogue::DELIVERY_FAILURES, failures as f64),
        of("delivery", &catalogue::DELIVERY_LAG_SECONDS, lag),
        (Labels::from(("delivery", "collector")), &catalogue::ENTRIES_REJECTED, taken as f64),
        of("quarantine", &catalogue::SPOOL_BYTES, (waiting.memory_bytes + waiting.disk_bytes) as f64),
        of("quarantine", &catalogue::SPOOL_ENTRIES, waiting.backlog_entries as f64),
        discarded("quarantine", "limit", lost),
        of("delivery", &catalogue::SOURCE_UP, f64::from(u8::from(ship.connected.load(Relaxed)))),
    ];
    all.into_iter().chain(clock).collect()
}
