//! What is a gap of readings. Pure. How long one may be is the sender's rule (`throughline_sample::row_rules`), which the caller has.
//!
//! Samples are as they were read: what fills the gaps of counters that stand still is made when they are read back, and
//! only where there is a gap, so that neither the border of a block nor the range of a query changes an answer.

/// What a gap is filled up with, so that `rate(…[1m])` has what it has over a scraped series: the interval of scrapes
/// in deploy/prometheus. Milliseconds.
pub const FILL_EVERY: i64 = 15_000;

/// How long a counter did not change between two readings, if these are far enough apart to be filled. Milliseconds. Whether they
/// are near enough is left to the sender's rule.
pub fn standstill(before: (i64, f64), now: (i64, f64)) -> Option<i64> {
    let length = now.0 - before.0;
    (before.1 == now.1 && length > FILL_EVERY).then_some(length)
}

/// Whether a counter did not change between two readings that are so far apart that they are filled, and not more than `largest`:
/// rows of what does not change are left out. In a longer gap the thing was not read.
pub fn is_gap(before: (i64, f64), now: (i64, f64), largest: i64) -> bool {
    standstill(before, now).is_some_and(|length| length <= largest)
}

/// Whether a time without readings is filled where the counter stood still.
pub fn is_long(length: i64, largest: i64) -> bool {
    length > FILL_EVERY && length <= largest
}
