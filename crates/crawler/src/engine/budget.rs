//! How many MADs the process may send in a second: a promise to the site, kept over all engines and repetitions.
//!
//! A token bucket as one number (the generic cell rate algorithm, ITU-T I.371): the time at which the bucket
//! would be full again. Engines on several threads take from it without a lock. In any second at most the
//! promised number is *sent*, not only granted: see [`SLACK`].

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// MADs in a row at most, where the limit allows it: one window. Fewer at low limits, see [`Budget::new`].
pub const MAX_BURST: u32 = 32;
/// A MAD that was granted may be sent this much later (the thread lost its processor, a transport gathered it)
/// without a second ever holding more than the promise: grants are spaced for a second that is longer by this.
pub const SLACK: Duration = Duration::from_millis(20);

/// A rate shared by the engines of a process.
#[derive(Debug)]
pub struct Budget {
    base: Instant,
    per_second: u32,
    /// Between two MADs in a long row.
    interval_nanoseconds: u64,
    /// How far the bucket may be filled ahead: the burst less one.
    tolerance_nanoseconds: u64,
    /// When the bucket is full again, nanoseconds after `base`.
    full_at: AtomicU64,
}

impl PartialEq for Budget {
    fn eq(&self, other: &Budget) -> bool {
        std::ptr::eq(self, other)
    }
}
impl Eq for Budget {}

/// The one of this process. `--mads-per-second-max` is a promise of the process: engines are made, closed and made
/// anew on several threads, and all take from it.
static OF_PROCESS: OnceLock<Budget> = OnceLock::new();

impl Budget {
    /// The budget of this process; `None` where 0 says that there is no limit. The first limit holds: a process has
    /// one configuration.
    pub fn of_process(per_second: u32) -> Option<&'static Budget> {
        (per_second > 0).then(|| OF_PROCESS.get_or_init(|| Budget::new(per_second)))
    }

    /// At most so many MADs in any second; 0 counts as 1. A burst is a twentieth of it, at most [`MAX_BURST`].
    #[must_use]
    pub fn new(per_second: u32) -> Budget {
        let per_second = per_second.max(1);
        let burst = (per_second / 20).clamp(1, MAX_BURST);
        // In a second: the burst, and what the spacing lets through beside it.
        let spaced = u64::from(per_second - (burst - 1));
        let second = (Duration::from_secs(1) + SLACK).as_nanos() as u64;
        let interval_nanoseconds = second.div_ceil(spaced);
        Budget {
            base: Instant::now(),
            per_second,
            interval_nanoseconds,
            tolerance_nanoseconds: interval_nanoseconds * u64::from(burst - 1),
            full_at: AtomicU64::new(0),
        }
    }

    /// The promise.
    #[must_use]
    pub fn per_second(&self) -> u32 {
        self.per_second
    }

    /// Takes one MAD out of the budget.
    ///
    /// # Errors
    /// The time from which one will be there.
    pub fn take(&self, now: Instant) -> Result<(), Instant> {
        let now = now.saturating_duration_since(self.base).as_nanos() as u64;
        let mut full_at = self.full_at.load(Ordering::Relaxed);
        loop {
            if full_at > now + self.tolerance_nanoseconds {
                return Err(self.base + Duration::from_nanos(full_at - self.tolerance_nanoseconds));
            }
            let next = full_at.max(now) + self.interval_nanoseconds;
            match self.full_at.compare_exchange_weak(full_at, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(other) => full_at = other,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Most grants in any second.
    fn most_in_a_second(times: &[u64]) -> usize {
        let second = 1_000_000_000;
        times
            .iter()
            .enumerate()
            .map(|(first, start)| times.partition_point(|time| *time < start + second) - first)
            .max()
            .unwrap_or(0)
    }

    proptest! {
        /// However requests come, and however late within the slack each is sent.
        #[test]
        fn no_second_holds_more_than_the_promise(
            per_second in 1u32..3000,
            gaps in prop::collection::vec((0u64..200_000_000, 1usize..80), 1..60),
            delays in prop::collection::vec(0u64..20_000_000, 16),
        ) {
            let budget = Budget::new(per_second);
            let (mut now, mut sent, mut granted) = (0, Vec::new(), 0usize);
            for (gap, wanted) in gaps {
                now += gap;
                for _ in 0..wanted {
                    match budget.take(budget.base + Duration::from_nanos(now)) {
                        Ok(()) => {}
                        Err(at) => {
                            now = (at - budget.base).as_nanos() as u64;
                            prop_assert!(budget.take(at).is_ok(), "there is one at the time that was said");
                        }
                    }
                    sent.push(now + delays[granted % delays.len()]);
                    granted += 1;
                }
            }
            sent.sort_unstable();
            prop_assert!(most_in_a_second(&sent) <= per_second as usize, "{per_second}: {}", most_in_a_second(&sent));
        }
    }

    #[test]
    fn nearly_all_of_it_can_be_used() {
        for per_second in [1, 10, 100, 1000, 100_000] {
            let budget = Budget::new(per_second);
            let (mut now, mut granted) = (budget.base, 0u32);
            let end = budget.base + Duration::from_secs(10);
            while now < end {
                match budget.take(now) {
                    Ok(()) => granted += 1,
                    Err(at) => now = at,
                }
            }
            assert!(f64::from(granted) >= 9.2 * f64::from(per_second), "{per_second}: {granted}");
        }
    }

    #[test]
    fn threads_share_it() {
        let budget = Budget::new(1000);
        let now = budget.base;
        let granted: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| (0..1000).filter(|_| budget.take(now).is_ok()).count()))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(granted, MAX_BURST as usize);
    }
}
