//! How fast somebody may send: a token bucket. A sender of more is read later.

use std::time::{Duration, Instant};

/// A bucket of tokens that fills at a steady rate and holds some seconds' worth.
#[derive(Debug)]
pub struct Throttle {
    per_second: f64,
    most: f64,
    tokens: f64,
    filled: Instant,
}

impl Throttle {
    /// A full bucket that holds so many seconds' worth.
    pub fn new(per_second: u32, seconds: u32, now: Instant) -> Self {
        let per_second = f64::from(per_second.max(1));
        let most = per_second * f64::from(seconds);
        Self { per_second, most, tokens: most, filled: now }
    }

    fn fill(&mut self, now: Instant) {
        let since = now.saturating_duration_since(self.filled).as_secs_f64();
        self.filled = now;
        self.tokens = (self.tokens + since * self.per_second).min(self.most);
    }

    /// Whether it holds all that it can.
    pub fn is_full(&mut self, now: Instant) -> bool {
        self.fill(now);
        self.tokens >= self.most
    }

    fn until(&self, tokens: f64) -> Duration {
        Duration::from_secs_f64((tokens - self.tokens).max(0.0) / self.per_second)
    }

    /// Takes one token; otherwise gives how long to wait for it.
    pub fn take(&mut self, now: Instant) -> Result<(), Duration> {
        self.ready(now)?;
        self.tokens -= 1.0;
        Ok(())
    }

    /// Whether a token is there; otherwise how long to wait for it.
    pub fn ready(&mut self, now: Instant) -> Result<(), Duration> {
        self.fill(now);
        if self.tokens >= 1.0 { Ok(()) } else { Err(self.until(1.0)) }
    }

    /// Takes tokens, there or not: what is owed has to be filled up first.
    pub fn charge(&mut self, tokens: usize) {
        self.tokens -= tokens as f64;
    }

    /// Takes as many tokens as are there, at most `wanted`.
    pub fn take_up_to(&mut self, wanted: usize, now: Instant) -> usize {
        self.fill(now);
        // Between 0 and `wanted`: the conversion only cuts the fraction.
        let taken = self.tokens.max(0.0).min(wanted as f64) as usize;
        self.tokens -= taken as f64;
        taken
    }

    /// Fills at another rate from now on, and holds a second's worth of it.
    pub fn set_rate(&mut self, per_second: f64, now: Instant) {
        self.fill(now);
        self.per_second = per_second.max(1.0);
        self.most = self.per_second;
        self.tokens = self.tokens.min(self.most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_seconds_at_once_and_then_the_rate() {
        let start = Instant::now();
        let mut throttle = Throttle::new(10, 2, start);
        assert_eq!((0..100).filter(|_| throttle.take(start).is_ok()).count(), 20);
        assert_eq!(throttle.take(start), Err(Duration::from_millis(100)));
        let later = start + Duration::from_millis(500);
        assert_eq!((0..100).filter(|_| throttle.take(later).is_ok()).count(), 5);
    }

    #[test]
    fn what_is_owed_is_filled_up_first() {
        let start = Instant::now();
        let mut throttle = Throttle::new(10, 1, start);
        throttle.charge(29);
        assert_eq!(throttle.ready(start), Err(Duration::from_secs(2)));
        assert_eq!(throttle.ready(start + Duration::from_secs(2)), Ok(()));
        assert_eq!(throttle.take_up_to(5, start + Duration::from_secs(2)), 1);
        assert_eq!(throttle.take_up_to(5, start + Duration::from_millis(2300)), 3);
    }
}
