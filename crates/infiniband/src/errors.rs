//! Which error counters of a port stand above their thresholds, as totals or as what came within an interval.
//! Pure. What can't be known is said as such and never taken for no error: a saturated counter counted at least
//! to its end.

mod thresholds;

pub use thresholds::{BadThreshold, COMMON, ERROR_COUNTERS, Thresholds, find};

use crate::mad::{ClassPortInfo, Counters, PortCounterSet, counter_metrics};
use crate::reading::PortReading;
use throughline_sample::catalogue::{Metric, RECEIVE_ERRORS, TRANSMIT_DISCARDS};

/// Nanoseconds in a second.
const NANOSECONDS: f64 = 1e9;

/// Counters that a second attribute takes apart (IBTA volume 1, 16.1.4.1 and 16.1.4.2).
const DETAILS: [(&Metric, PortCounterSet); 2] = [
    (&RECEIVE_ERRORS, PortCounterSet::ReceiveErrorDetails),
    (&TRANSMIT_DISCARDS, PortCounterSet::DiscardDetails),
];
/// Width of each of its fields.
const DETAIL_BITS: u32 = 16;

/// An error counter above its threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CounterExcess {
    /// The counter.
    pub metric: &'static Metric,
    /// How much it counted: since it was cleared, or within the interval.
    pub count: u128,
    /// Whether it may have counted more: it stands at its end, or was cleared in between.
    pub at_least: bool,
    /// Count in one second; `None` in totals, and where the counter stood at its end all the time.
    pub per_second: Option<f64>,
    /// The threshold that it exceeds.
    pub threshold: u64,
}

/// What a counter says: how much it counted, whether it may be more, and how much in one second.
type ErrorCount = (u128, bool, Option<f64>);

/// Counters above their thresholds since they were cleared.
#[must_use]
pub fn totals(counters: &Counters, thresholds: &Thresholds) -> Vec<CounterExcess> {
    judged(thresholds, |index, bits| total(counters, index, bits))
}

/// Counters whose increase from one reading to the next is above their thresholds.
#[must_use]
pub fn increases(before: &PortReading, after: &PortReading, thresholds: &Thresholds) -> Vec<CounterExcess> {
    judged(thresholds, |index, bits| increase(before, after, index, bits))
}

/// What the error counters consist of that have a second attribute for that, as far as the device reports: the
/// reasons for which it received errors or discarded packets. With a reading before, what came since then.
#[must_use]
pub fn details(of: &Metric, before: Option<&PortReading>, after: &PortReading) -> Vec<CounterExcess> {
    let set = DETAILS.into_iter().find(|(metric, _)| metric.id == of.id);
    let fields = set.map_or(0, |(_, set)| set.metrics(&ClassPortInfo::default()));
    let metrics = counter_metrics().iter().enumerate().filter(|(index, _)| fields >> index & 1 == 1);
    let parts = metrics.filter_map(|(index, metric)| {
        let counted = match before {
            Some(before) => increase(before, after, index, DETAIL_BITS),
            None => total(&after.counters, index, DETAIL_BITS),
        };
        let (count, at_least, per_second) = counted.filter(|(count, ..)| *count > 0)?;
        Some(CounterExcess { metric, count, at_least, per_second, threshold: 0 })
    });
    parts.collect()
}

fn total(counters: &Counters, index: usize, bits: u32) -> Option<ErrorCount> {
    if counters.is_saturated(index) {
        return Some((end(bits), true, None));
    }
    Some((counters.exact(index)?, false, None))
}

fn increase(before: &PortReading, after: &PortReading, index: usize, bits: u32) -> Option<ErrorCount> {
    let seconds = (after.time - before.time) as f64 / NANOSECONDS;
    let rate = |count: u128| (seconds > 0.0).then(|| count as f64 / seconds);
    let (old, new) = (before.counters.exact(index), after.counters.exact(index));
    let (was_full, is_full) = (before.counters.is_saturated(index), after.counters.is_saturated(index));
    match (old, new) {
        (Some(old), Some(new)) if new >= old => Some((new - old, false, rate(new - old))),
        // Cleared in between: it counted at least what stands there now.
        (Some(_), Some(new)) => Some((new, true, rate(new))),
        (None, Some(new)) if was_full => Some((new, true, rate(new))),
        (Some(old), None) if is_full => {
            let count = end(bits).saturating_sub(old).max(1);
            Some((count, true, rate(count)))
        }
        // At its end all the time: whatever comes is not counted.
        (None, None) if was_full && is_full => Some((end(bits), true, None)),
        _ => None,
    }
}

/// The largest value of a counter of so many bits.
fn end(bits: u32) -> u128 {
    (1 << bits) - 1
}

fn judged(thresholds: &Thresholds, count: impl Fn(usize, u32) -> Option<ErrorCount>) -> Vec<CounterExcess> {
    let mut found = Vec::new();
    for (metric, bits) in ERROR_COUNTERS {
        let Some(threshold) = thresholds.of(metric) else { continue };
        let Some(index) = counter_metrics().iter().position(|known| known.name == metric.name) else {
            continue;
        };
        let Some((count, at_least, per_second)) = count(index, bits) else { continue };
        if count > u128::from(threshold) {
            let metric = counter_metrics()[index];
            found.push(CounterExcess { metric, count, at_least, per_second, threshold });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mad::{NodeKind, PMA_DATA_BYTES};
    use throughline_sample::Guid;
    use throughline_sample::catalogue::{LINK_DOWNED, SYMBOL_ERROR};

    /// A reading at second `at` with these values of SymbolErrorCounter and LinkDownedCounter.
    fn reading(at: i64, symbol: u16, downed: u8) -> PortReading {
        let mut data = [0; PMA_DATA_BYTES];
        data[4..6].copy_from_slice(&symbol.to_be_bytes());
        data[7] = downed;
        let mut counters = Counters::default();
        counters.decode(PortCounterSet::Classic, &data, &ClassPortInfo::default()).unwrap();
        PortReading {
            time: at * 1_000_000_000,
            counters,
            ..PortReading::new(0, Guid(1), NodeKind::Switch, 1, 1)
        }
    }

    fn short(found: &[CounterExcess]) -> Vec<(&str, u128, bool, Option<f64>)> {
        found.iter().map(|e| (e.metric.name, e.count, e.at_least, e.per_second)).collect()
    }

    #[test]
    fn totals_are_told_above_their_threshold() {
        let (limits, _) = Thresholds::parse("SymbolErrorCounter=10").unwrap();
        let of = |symbol, downed| totals(&reading(0, symbol, downed).counters, &limits);
        assert_eq!(short(&of(10, 0)), []);
        assert_eq!(short(&of(11, 1)), [("symbol_error", 11, false, None), ("link_downed", 1, false, None)]);
        assert_eq!(short(&of(u16::MAX, 0)), [("symbol_error", 65_535, true, None)]);
        assert_eq!(of(11, 0)[0].threshold, 10);
    }

    #[test]
    fn increases_know_clears_and_ends() {
        let limits = Thresholds::default();
        let of = |before: (u16, u8), after: (u16, u8)| {
            increases(&reading(0, before.0, before.1), &reading(4, after.0, after.1), &limits)
        };
        assert_eq!(short(&of((7, 3), (7, 3))), [], "old errors are no change");
        assert_eq!(short(&of((7, 3), (9, 3))), [("symbol_error", 2, false, Some(0.5))]);
        assert_eq!(short(&of((7, 3), (4, 3))), [("symbol_error", 4, true, Some(1.0))], "cleared");
        assert_eq!(short(&of((65_531, 0), (65_535, 0))), [("symbol_error", 4, true, Some(1.0))]);
        assert_eq!(short(&of((65_535, 0), (65_535, 0))), [("symbol_error", 65_535, true, None)]);
        assert_eq!(short(&of((65_535, 0), (8, 0))), [("symbol_error", 8, true, Some(2.0))]);
    }

    #[test]
    fn what_is_left_out_is_not_told() {
        let mut limits = Thresholds::default();
        limits.suppress(&SYMBOL_ERROR);
        let found = totals(&reading(0, 50, 2).counters, &limits);
        assert_eq!(short(&found), [("link_downed", 2, false, None)]);
        assert_eq!(found[0].metric, &LINK_DOWNED);
    }
}
