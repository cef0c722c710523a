//! Which counters a port has, in the order of [`counter_metrics`].

use throughline_sample::catalogue::{Kind, Metric, Table};

/// Counters of a port; a test holds it against the catalogue.
pub(super) const METRICS: usize = 41;
/// Numbers up to this one are counters; then come two gauges, and counters again.
const LAST_BEFORE_GAUGES: usize = 22;
/// Gauges of the table: the rate of the link and the length of a tick.
pub(super) const GAUGES: usize = 2;

/// The counters of a port: index i of [`Counters`](super::Counters) is entry i of this list.
#[must_use]
pub fn counter_metrics() -> &'static [&'static Metric] {
    &COUNTERS
}

static COUNTERS: [&Metric; METRICS] = {
    let all = Table::IbPortCounters.metrics();
    let mut counters = [all[0]; METRICS];
    let (mut from, mut to) = (0, 0);
    while from < all.len() {
        if matches!(all[from].kind, Kind::Counter) {
            counters[to] = all[from];
            to += 1;
        }
        from += 1;
    }
    counters
};

/// Position of a metric in [`counter_metrics`]; `None` for gauges and metrics of other tables.
#[must_use]
pub const fn counter_index(metric: &Metric) -> Option<usize> {
    // Numbers begin at 1 and have no gaps but the gauges (a test checks it).
    let id = metric.id as usize;
    let index = if id <= LAST_BEFORE_GAUGES { id.wrapping_sub(1) } else { id - 1 - GAUGES };
    let is_one = matches!(metric.kind, Kind::Counter) && matches!(metric.table, Table::IbPortCounters);
    if is_one && index < METRICS { Some(index) } else { None }
}
