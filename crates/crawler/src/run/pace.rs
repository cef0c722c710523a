//! The pace of sweeps: at whole multiples of the period since 1970, missed ticks left out and reported.
//!
//! Edges of windows, of 10 s for shares of links and of minutes, are then read and not interpolated, and ports and MPI ranks
//! are read at the same seconds (a rank pushes at whole seconds of UTC, too). Two crawlers that sweep in the same moment read
//! different subnets.

use crate::stop::Stop;
use std::time::Duration;
use throughline_daemon::Clock;

/// Ticks each period. The first tick comes at once.
pub struct Pace {
    /// Nanoseconds.
    period: i64,
    /// Number of the last tick, counted from 1970.
    last: Option<i64>,
}

impl Pace {
    pub fn new(period: Duration) -> Pace {
        Pace { period: i64::try_from(period.as_nanos()).unwrap_or(i64::MAX).max(1), last: None }
    }

    /// Waits for the next tick. `None` when the process stops; else whether ticks were missed.
    pub fn tick(&mut self, clock: &Clock, stop: &Stop) -> Option<bool> {
        let Some(last) = self.last else {
            self.last = Some(clock.now().div_euclid(self.period));
            return if stop.is_set() { None } else { Some(false) };
        };
        let next = after(last, clock.now(), self.period);
        if stop.sleep(next.wait) {
            return None;
        }
        self.last = Some(next.number);
        Some(next.missed > 0)
    }
}

/// A tick to come.
#[derive(Debug, PartialEq, Eq)]
struct NextTick {
    number: i64,
    wait: Duration,
    missed: i64,
}

/// The tick after that with number `last`, and how many were missed.
fn after(last: i64, now: i64, period: i64) -> NextTick {
    let passed = now.div_euclid(period);
    // A clock that was set back by more than a period begins anew.
    let last = if passed < last - 1 { passed } else { last };
    let missed = (passed - (last + 1)).max(0);
    let number = last + 1 + missed;
    let wait = number.saturating_mul(period).saturating_sub(now).max(0);
    NextTick { number, wait: Duration::from_nanos(wait.unsigned_abs()), missed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_whole_multiples_and_missed_ones_are_left_out() {
        let next = |number, wait, missed| NextTick { number, wait: Duration::from_nanos(wait), missed };
        assert_eq!(after(10, 1000, 100), next(11, 100, 0));
        assert_eq!(after(10, 1099, 100), next(11, 1, 0));
        // Late by less than a period: at once.
        assert_eq!(after(10, 1150, 100), next(11, 0, 0));
        assert_eq!(after(10, 1250, 100), next(12, 0, 1));
        // Woken a little early, it doesn't tick twice.
        assert_eq!(after(11, 1099, 100), next(12, 101, 0));
    }

    #[test]
    fn a_clock_that_jumps_stops_nothing() {
        assert_eq!(after(10, 550, 100), NextTick { number: 6, wait: Duration::from_nanos(50), missed: 0 });
        assert_eq!(after(10, 100_050, 100).wait, Duration::ZERO);
    }

    #[test]
    fn it_ends_when_asked_to() {
        let (stop, clock) = (Stop::default(), Clock::new());
        let mut pace = Pace::new(Duration::from_secs(3600));
        assert_eq!(pace.tick(&clock, &stop), Some(false));
        stop.set();
        assert_eq!(pace.tick(&clock, &stop), None);
    }
}
