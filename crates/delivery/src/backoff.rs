//! Pauses between attempts: growing, bounded, and different in each process.

use std::time::Duration;

/// The longest first pause. Short, since a restarted collector is back within a second.
const FIRST: Duration = Duration::from_millis(200);
/// The longest pause: an outage is noticed to be over within this time, and 8,000 senders that come back
/// spread over it make 1,600 connections a second.
const LONGEST: Duration = Duration::from_secs(5);

/// The pauses of one series of attempts.
#[derive(Debug)]
pub struct Backoff {
    bound: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { bound: FIRST }
    }
}

impl Backoff {
    /// The next pause: anything between a tenth of the present bound and the bound, which then doubles.
    pub fn next_pause(&mut self) -> Duration {
        // The generator of this thread has a seed of the system, which keeps processes apart.
        let pause = self.bound * fastrand::u32(100..1000) / 1000;
        self.bound = (self.bound * 2).min(LONGEST);
        pause
    }

    /// After a success the next pause is short again.
    pub fn reset(&mut self) {
        self.bound = FIRST;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_start_again() {
        let mut backoff = Backoff::default();
        let mut pauses: Vec<Duration> = (0..50).map(|_| backoff.next_pause()).collect();
        assert!(pauses[0] >= FIRST / 10 && pauses[0] <= FIRST);
        assert!(pauses.iter().all(|p| *p <= LONGEST));
        pauses.dedup();
        assert!(pauses.len() > 25, "they differ");
        backoff.reset();
        assert!(backoff.next_pause() <= FIRST);
    }
}
