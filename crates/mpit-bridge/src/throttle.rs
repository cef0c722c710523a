//! How fast one connection may send: a token bucket. A rank that sends more is read later, never closed.

use std::time::{Duration, Instant};

/// A bucket that fills at a steady rate and holds two seconds' worth.
#[derive(Debug)]
pub(crate) struct Throttle {
    per_second: f64,
    tokens: f64,
    filled: Instant,
}

impl Throttle {
    pub(crate) fn new(per_second: u32, now: Instant) -> Self {
        let per_second = f64::from(per_second.max(1));
        Self { per_second, tokens: 2.0 * per_second, filled: now }
    }

    /// Takes one token; otherwise says how long to wait for it.
    pub(crate) fn take(&mut self, now: Instant) -> Result<(), Duration> {
        let since = now.saturating_duration_since(self.filled).as_secs_f64();
        self.filled = now;
        self.tokens = (self.tokens + since * self.per_second).min(2.0 * self.per_second);
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            return Ok(());
        }
        Err(Duration::from_secs_f64((1.0 - self.tokens) / self.per_second))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_seconds_at_once_and_then_the_rate() {
        let start = Instant::now();
        let mut throttle = Throttle::new(10, start);
        assert_eq!((0..100).filter(|_| throttle.take(start).is_ok()).count(), 20);
        assert_eq!(throttle.take(start), Err(Duration::from_millis(100)));
        let later = start + Duration::from_millis(500);
        assert_eq!((0..100).filter(|_| throttle.take(later).is_ok()).count(), 5);
    }
}
