//! Equal rounds of a source in one record: what a record may stand for, and when two make one. A record never stands for a
//! round that was missed, so that a reader may take its whole time as read.

use std::time::Duration;

use crate::wire::Coverage;

/// From the first to the last round of one record, at most. Readers of a range of time look that far beyond its end.
pub const SPAN_MAX: Duration = Duration::from_secs(60);

/// Rounds of one record, at most: ten a second and some between.
pub const ROUNDS_MAX: u32 = 1_000;

/// A round that comes later than this many intervals after the one before it: one between them was missed.
const MISSED: f64 = 1.5;

impl Coverage {
    /// How many rounds it stands for.
    #[must_use]
    pub fn rounds(&self) -> u32 {
        self.rounds.max(1)
    }

    /// When the first of its rounds was.
    #[must_use]
    pub fn begins(&self) -> i64 {
        if self.rounds() > 1 { self.first_time } else { self.time }
    }

    /// Whether its rounds can be so: in order, within [`SPAN_MAX`] and [`ROUNDS_MAX`].
    #[must_use]
    pub fn is_run_plausible(&self) -> bool {
        let span = i64::try_from(SPAN_MAX.as_nanos()).unwrap_or(i64::MAX);
        self.rounds <= ROUNDS_MAX
            && self.time.checked_sub(self.begins()).is_some_and(|length| (0..=span).contains(&length))
    }

    /// Whether `next` is the round after this, at the usual interval of the source: none between them was missed.
    #[must_use]
    pub fn is_followed_by(&self, next: &Coverage, interval_seconds: f64) -> bool {
        #[allow(clippy::cast_precision_loss)] // exact far beyond an interval
        let seconds = next.begins().saturating_sub(self.time) as f64 / 1e9;
        seconds > 0.0 && seconds <= interval_seconds * MISSED
    }

    /// Whether the rounds read the same and failed for the same reasons, by the same rules.
    #[must_use]
    pub fn is_equal_round(&self, other: &Coverage) -> bool {
        (self.expected, self.read, self.failed) == (other.expected, other.read, other.failed)
            && self.source == other.source
            && self.reasons == other.reasons
            && self.row_rules == other.row_rules
    }

    /// Makes it stand for the rounds of `next`, too, which follow and are equal.
    pub fn extend(&mut self, next: &Coverage) {
        self.first_time = self.begins();
        self.rounds = self.rounds().saturating_add(next.rounds());
        self.time = next.time;
        self.elapsed_seconds = self.elapsed_seconds.max(next.elapsed_seconds);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn round(second: i64) -> Coverage {
        Coverage { time: second * SECOND, expected: 4, read: 4, elapsed_seconds: 0.1, ..Coverage::default() }
    }

    #[test]
    fn rounds_in_a_row_are_one_record_with_its_time() {
        let mut run = round(10);
        assert_eq!((run.rounds(), run.begins(), run.is_run_plausible()), (1, 10 * SECOND, true));
        assert!(run.is_followed_by(&round(11), 1.0) && run.is_equal_round(&round(11)));
        run.extend(&Coverage { elapsed_seconds: 0.3, ..round(11) });
        run.extend(&round(12));
        assert_eq!((run.rounds(), run.begins(), run.time), (3, 10 * SECOND, 12 * SECOND));
        assert_eq!(run.elapsed_seconds, 0.3);
        assert!(run.is_run_plausible());
    }

    #[test]
    fn a_missed_round_a_clock_set_back_and_other_values_do_not_join() {
        assert!(!round(10).is_followed_by(&round(12), 1.0));
        assert!(!round(10).is_followed_by(&round(10), 1.0) && !round(10).is_followed_by(&round(9), 1.0));
        assert!(!round(10).is_equal_round(&Coverage { read: 3, failed: 1, ..round(11) }));
        assert!(!round(10).is_equal_round(&Coverage { reasons: [("x".into(), 1)].into(), ..round(11) }));
    }

    #[test]
    fn what_no_source_does_is_not_plausible() {
        let of = |rounds, first_time| Coverage { rounds, first_time, ..round(100) }.is_run_plausible();
        assert!(of(2, 40 * SECOND) && of(ROUNDS_MAX, 99 * SECOND) && of(1, 7));
        assert!(!of(2, 39 * SECOND) && !of(2, 101 * SECOND) && !of(ROUNDS_MAX + 1, 99 * SECOND));
        assert!(!of(2, i64::MIN) && !of(2, 0));
    }
}
