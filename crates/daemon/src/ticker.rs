//! Ticks of a polling source: phase jittered, missed ticks skipped, overruns counted by the caller.

use std::time::Duration;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

/// A periodic tick whose phase is random, so that a thousand nodes do not poll in the same millisecond.
#[derive(Debug)]
pub struct Ticker {
    interval: Interval,
    period: Duration,
    due: Instant,
}

impl Ticker {
    /// Ticks each `period`; the first tick comes at once, later ones at a phase that differs by process.
    #[must_use]
    pub fn new(period: Duration) -> Self {
        // The process id and the address of a local spread phases well enough, without a random generator.
        let seed = u64::from(std::process::id()).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let share = f64::from(u16::try_from(seed >> 48).unwrap_or(0)) / f64::from(u16::MAX);
        let start = Instant::now() + period.mul_f64(share);
        let mut interval = interval_at(start, period);
        interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
        Self { interval, period, due: start }
    }

    /// Waits for the next tick; `true` if at least one whole tick was missed since the last: an overrun.
    pub async fn tick(&mut self) -> bool {
        let tick = self.interval.tick().await;
        let overrun = tick > self.due + self.period / 2;
        self.due = tick + self.period;
        overrun
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_missed_tick_is_an_overrun() {
        let mut ticker = Ticker::new(Duration::from_secs(1));
        assert!(!ticker.tick().await);
        assert!(!ticker.tick().await);
        tokio::time::sleep(Duration::from_millis(2500)).await;
        assert!(ticker.tick().await || ticker.tick().await);
        assert!(!ticker.tick().await);
    }
}
