//! The pace of sweeps: a jittered phase, missed ticks left out and reported.

use crate::stop::Stop;
use std::time::{Duration, Instant};

/// Ticks each period. The first tick comes at once, the second after a part of the period that differs by
/// process, so that crawlers of many subnets do not work in the same moment.
pub struct Pace {
    period: Duration,
    due: Option<Instant>,
}

impl Pace {
    pub fn new(period: Duration) -> Pace {
        Pace { period, due: None }
    }

    /// Waits for the next tick. `None` when the process stops; else whether ticks were missed.
    pub fn tick(&mut self, stop: &Stop) -> Option<bool> {
        let Some(due) = self.due else {
            self.due = Some(Instant::now() + self.period.mul_f64(phase()));
            return if stop.is_set() { None } else { Some(false) };
        };
        if stop.sleep(due.saturating_duration_since(Instant::now())) {
            return None;
        }
        let (next, missed) = after(due, Instant::now(), self.period);
        self.due = Some(next);
        Some(missed > 0)
    }
}

/// The tick after `now` in the rhythm of `due`, and how many were missed.
fn after(due: Instant, now: Instant, period: Duration) -> (Instant, u64) {
    let late = now.saturating_duration_since(due);
    let missed = (late.as_nanos() / period.as_nanos().max(1)).min(u128::from(u32::MAX)) as u32;
    (due + period * missed + period, u64::from(missed))
}

/// A share between one half and one that differs by process.
fn phase() -> f64 {
    let seed = u64::from(std::process::id()).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    0.5 + f64::from((seed >> 48) as u16) / f64::from(u16::MAX) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_ticks_are_left_out() {
        let due = Instant::now();
        let second = Duration::from_secs(1);
        assert_eq!(after(due, due, second), (due + second, 0));
        assert_eq!(after(due, due + second / 2, second), (due + second, 0));
        assert_eq!(after(due, due + second * 5 / 2, second), (due + second * 3, 2));
        assert!((0.5..=1.0).contains(&phase()));
    }

    #[test]
    fn it_ends_when_asked_to() {
        let stop = Stop::default();
        let mut pace = Pace::new(Duration::from_secs(3600));
        assert_eq!(pace.tick(&stop), Some(false));
        stop.set();
        assert_eq!(pace.tick(&stop), None);
    }
}
