//! Which times a rank's records may have. Pure.
//!
//! A rank's own start is what the kernel knows of its process. Records from it on are admitted, since a shim that had no
//! agent for a while sends what it counted then; a user's clock or will must not make a chunk of the database for each
//! hour of a year, so the hours before the last one are counted by user.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use throughline_sample::admission::{FUTURE, PAST, Rejection, TimeWindow};

/// The furthest back that anything is admitted, however long its process runs: the longest call in a trace.
const OLDEST_NANOSECONDS: i64 = 31 * 24 * HOUR_NANOSECONDS;
/// A chunk of the tables of samples covers no less.
const HOUR_NANOSECONDS: i64 = 3_600_000_000_000;
/// Different past hours that one user's records may name in an hour: an agent that was away for two days.
const HOURS_OF_USER: usize = 48;
/// When these hours are counted anew.
const HOURS_RESET: Duration = Duration::from_secs(3600);

/// How far from the present a record's time may lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowLimits {
    /// Before the start of the rank's process.
    pub past: Duration,
    /// After the agent's present.
    pub future: Duration,
}

impl Default for WindowLimits {
    fn default() -> Self {
        Self { past: PAST, future: FUTURE }
    }
}

/// The past hours that a user's records named lately.
#[derive(Debug)]
pub(crate) struct PastHours {
    hours: BTreeSet<i64>,
    since: Instant,
}

impl PastHours {
    pub fn new(now: Instant) -> Self {
        Self { hours: BTreeSet::new(), since: now }
    }

    /// Whether a time in the past may be named.
    pub fn admit(&mut self, time: i64, now: Instant) -> Result<(), Rejection> {
        if now.saturating_duration_since(self.since) >= HOURS_RESET {
            *self = Self::new(now);
        }
        let hour = time.div_euclid(HOUR_NANOSECONDS);
        if self.hours.contains(&hour) || (self.hours.len() < HOURS_OF_USER && self.hours.insert(hour)) {
            return Ok(());
        }
        Err(Rejection::TimePast)
    }
}

/// The window of one rank.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    started: i64,
    limits: WindowLimits,
}

impl Window {
    /// Of a rank whose process started then, UTC nanoseconds.
    pub fn new(started: i64, limits: WindowLimits) -> Self {
        Self { started, limits }
    }

    /// Whether a time is admitted, and whether it lies so far back that [`PastHours`] has a say.
    pub fn check(&self, time: i64, now: i64) -> Result<bool, Rejection> {
        let around = TimeWindow::around(now, self.limits.past, self.limits.future);
        if around.check(time).is_ok() {
            return Ok(false);
        }
        let of_rank = TimeWindow::around(self.started.min(now), self.limits.past, Duration::ZERO);
        let oldest = now.saturating_sub(OLDEST_NANOSECONDS);
        TimeWindow { earliest: of_rank.earliest.max(oldest), ..around }.check(time).map(|()| true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_790_000_000_000_000_000;

    #[test]
    fn from_an_hour_before_the_start_until_two_minutes_ahead() {
        let day = 24 * HOUR_NANOSECONDS;
        let window = Window::new(NOW - day, WindowLimits::default());
        assert_eq!(window.check(NOW, NOW), Ok(false));
        assert_eq!(window.check(NOW - HOUR_NANOSECONDS, NOW), Ok(false));
        assert_eq!(window.check(NOW - day - HOUR_NANOSECONDS, NOW), Ok(true));
        assert_eq!(window.check(NOW - day - HOUR_NANOSECONDS - 1, NOW), Err(Rejection::TimePast));
        assert_eq!(window.check(NOW + 120_000_000_000, NOW), Ok(false));
        assert_eq!(window.check(NOW + 120_000_000_001, NOW), Err(Rejection::TimeFuture));
        assert_eq!(window.check(i64::MAX, NOW), Err(Rejection::TimeFuture));
        assert_eq!(window.check(0, NOW), Err(Rejection::TimePast));
        let old = Window::new(NOW - 400 * day, WindowLimits::default());
        assert_eq!(old.check(NOW - 32 * day, NOW), Err(Rejection::TimePast));
        let ahead = Window::new(NOW + day, WindowLimits::default());
        assert_eq!(ahead.check(NOW - HOUR_NANOSECONDS, NOW), Ok(false));
        assert_eq!(ahead.check(NOW + 3 * HOUR_NANOSECONDS, NOW), Err(Rejection::TimeFuture));
    }

    #[test]
    fn past_hours_of_a_user_are_few() {
        let start = Instant::now();
        let mut hours = PastHours::new(start);
        let taken = (0..1000).filter(|hour| hours.admit(NOW - hour * HOUR_NANOSECONDS, start).is_ok());
        assert_eq!(taken.count(), HOURS_OF_USER);
        assert_eq!(hours.admit(NOW, start), Ok(()), "one that was named already");
        let later = start + HOURS_RESET;
        assert_eq!(hours.admit(NOW - 999 * HOUR_NANOSECONDS, later), Ok(()));
    }
}
