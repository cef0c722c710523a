//! By which rules sources leave out rows of what does not change. Senders report theirs with each round
//! ([`wire::Coverage`]), the store keeps them, and readers use those.
//!
//! This is the one place that decides how old is silent. SQL has the same numbers from here (`schema/rules.rs` of the store);
//! a test of the store (`tests/all/ages.rs`) finds any other age in the sources.

use std::time::Duration;

use crate::wire::RowRules;

/// At least one row in this time of a thing that is read: the heartbeat of sources that leave out rows.
pub const HEARTBEAT: Duration = Duration::from_secs(60);

/// Slack of a heartbeat: rounds begin late, and one of them may fail.
const SLACK: Duration = Duration::from_secs(15);

/// The largest gap that a sender may report, in seconds: a day. Readers look for a row's predecessor that far back.
pub const LARGEST_GAP_SECONDS_MAX: f64 = 86_400.0;

/// What readers assume of a sender that has not reported its rules, or none that can be true: a heartbeat a minute, and 64 KiB on
/// fabric ports.
pub const DEFAULT: RowRules =
    RowRules { heartbeat_seconds: 60.0, largest_gap_seconds: 75.0, quiet_bytes: 65_536 };

/// What agents report once a minute, whether it changed or not: that a job runs, and what the kernel counted of its ranks; and
/// that a running job was judged. No configuration changes this interval.
pub const MINUTELY: RowRules =
    RowRules { heartbeat_seconds: 60.0, largest_gap_seconds: 180.0, quiet_bytes: 0 };

/// Whether a rate may be taken between two readings, each with its time (nanoseconds since 1970) and how long it took: that, within which a
/// reading may be of any moment, is at most 1 % of their distance. Between readings a heartbeat apart always: there is no row otherwise;
/// and where the clock was set back, after which nothing would be far enough for long.
#[must_use]
pub fn is_rate(before: (i64, Duration), after: (i64, Duration)) -> bool {
    let nanoseconds = u64::try_from(after.0.saturating_sub(before.0)).unwrap_or(u64::MAX);
    let distance = Duration::from_nanos(nanoseconds);
    distance >= before.1.max(after.1) * 100 || distance >= HEARTBEAT
}

impl RowRules {
    /// The largest gap as a duration.
    #[must_use]
    pub fn largest_gap(&self) -> Duration {
        Duration::from_secs_f64(self.largest_gap_seconds.clamp(0.0, LARGEST_GAP_SECONDS_MAX))
    }

    /// Whether something that was last reported so many seconds ago is silent. What was never reported is, too.
    #[must_use]
    pub fn is_silent(&self, age_seconds: Option<f64>) -> bool {
        age_seconds.is_none_or(|age| age > self.largest_gap_seconds)
    }

    /// The rules of a source that leaves out unchanged rows but for a heartbeat, and reads each thing once in `interval`.
    #[must_use]
    pub fn thinned(heartbeat: Duration, interval: Duration, quiet_bytes: u64) -> RowRules {
        RowRules {
            heartbeat_seconds: (heartbeat + interval).as_secs_f64(),
            largest_gap_seconds: (heartbeat + SLACK.max(interval * 2)).as_secs_f64(),
            quiet_bytes,
        }
    }

    /// The rules of a source that writes a row for each reading. Where that is much more often than once a minute, the
    /// largest gap is still that of a heartbeat: a short pause of the source is bridged, not a hole.
    #[must_use]
    pub fn unthinned(interval: Duration) -> RowRules {
        RowRules {
            heartbeat_seconds: interval.as_secs_f64(),
            largest_gap_seconds: (HEARTBEAT + SLACK).max(interval * 3).as_secs_f64(),
            quiet_bytes: 0,
        }
    }

    /// Whether the numbers can be rules: finite, positive, the gap not smaller than the heartbeat and at most
    /// [`LARGEST_GAP_SECONDS_MAX`].
    #[must_use]
    pub fn are_plausible(&self) -> bool {
        let gap = self.largest_gap_seconds;
        self.heartbeat_seconds > 0.0 && gap >= self.heartbeat_seconds && gap <= LARGEST_GAP_SECONDS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_taken_between_readings_that_are_far_apart() {
        let at = |milliseconds: i64, took: u64| (milliseconds * 1_000_000, Duration::from_millis(took));
        let of = |distance: i64, took: u64| {
            let both = [is_rate(at(7, took), at(7 + distance, 0)), is_rate(at(7, 0), at(7 + distance, took))];
            assert_eq!(both[0], both[1], "the longer one counts");
            both[0]
        };
        assert!(of(1_000, 10) && !of(1_000, 11) && of(0, 0));
        assert!(!of(59_999, 5_000) && of(60_000, 5_000), "there is no row otherwise");
        assert!(of(-1, 5_000), "the clock was set back");
    }

    #[test]
    fn a_gap_is_larger_than_a_heartbeat_and_a_missed_round() {
        let seconds = Duration::from_secs;
        let usual = RowRules::thinned(HEARTBEAT, seconds(5), 65_536);
        assert_eq!((usual.heartbeat_seconds, usual.largest_gap_seconds), (65.0, 75.0));
        let slow = RowRules::thinned(HEARTBEAT, seconds(300), 0);
        assert_eq!(slow.largest_gap_seconds, 660.0);
        assert_eq!(RowRules::unthinned(seconds(1)).largest_gap_seconds, DEFAULT.largest_gap_seconds);
        assert_eq!(RowRules::unthinned(HEARTBEAT), MINUTELY);
        assert_eq!(DEFAULT.heartbeat_seconds, HEARTBEAT.as_secs_f64());
        assert_eq!(DEFAULT.largest_gap(), HEARTBEAT + SLACK);
        let ages = [None, Some(0.0), Some(180.0), Some(180.1)];
        assert_eq!(ages.map(|age| MINUTELY.is_silent(age)), [true, false, false, true]);
        assert!(usual.are_plausible() && slow.are_plausible() && DEFAULT.are_plausible());
        for (heartbeat_seconds, largest_gap_seconds) in
            [(0.0, 5.0), (60.0, 59.0), (1.0, f64::NAN), (f64::NAN, 1.0), (1.0, 1e9), (-1.0, 1.0)]
        {
            assert!(!RowRules { heartbeat_seconds, largest_gap_seconds, quiet_bytes: 0 }.are_plausible());
        }
    }
}
