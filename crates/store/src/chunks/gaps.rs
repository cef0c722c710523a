//! What is a gap of readings. Pure.
//!
//! Samples are as they were read: what fills the gaps of counters that stand still is made when they are read back, and
//! only where there is a gap, so that neither the border of a block nor the range of a query changes an answer.

/// Rows of counters that did not change are left out, but for one a minute and the last before a change. A gap up to
/// so long is such a one; in a longer one the thing was not read. Milliseconds.
pub const UNCHANGED_MAX: i64 = 75_000;

/// What a gap is filled up with, so that `rate(…[1m])` has what it has over a scraped series: the interval of scrapes
/// in deploy/prometheus. Milliseconds.
pub const FILL_EVERY: i64 = 15_000;

/// Whether a counter did not change between two readings, far enough apart to be filled.
pub fn is_gap(before: (i64, f64), now: (i64, f64)) -> bool {
    before.1 == now.1 && is_long(now.0 - before.0)
}

/// Whether a time without readings is filled where the counter stood still.
pub fn is_long(length: i64) -> bool {
    length > FILL_EVERY && length <= UNCHANGED_MAX
}
