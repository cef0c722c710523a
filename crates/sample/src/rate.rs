//! Rates of stored counters, as the database's `counter_increase` and `counter_rate` make them.
//!
//! Only for two readings of one epoch: nothing can be said across epochs.

use crate::catalogue::STORED_BITS;

/// How much a counter grew from one stored reading to the next, modulo the width of stored counters.
#[must_use]
pub fn increase(before: u64, after: u64) -> u64 {
    after.wrapping_sub(before) & ((1 << STORED_BITS) - 1)
}

/// The same per second; `None` where no time passed.
#[must_use]
pub fn rate(before: u64, after: u64, seconds: f64) -> Option<f64> {
    (seconds > 0.0).then(|| increase(before, after) as f64 / seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_counter_begins_again_after_63_bits() {
        assert_eq!(increase(5, 12), 7);
        assert_eq!(increase((1 << 63) - 3, 4), 7);
        assert_eq!(rate(5, 12, 2.0), Some(3.5));
        assert_eq!(rate(5, 12, 0.0), None);
    }
}
