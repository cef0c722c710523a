//! UTC from a monotonic clock plus a measured offset.
//!
//! A clock that jumps must not fold time: between two measurements of the offset, times follow the monotonic
//! clock; a step is taken over at the next measurement and returned to the caller.
#![allow(unsafe_code)] // clock_gettime through nix is safe; adjtimex has no safe wrapper there.

use nix::time::{ClockId, clock_gettime};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// A change of the offset above this is a step and no slew: NTP slews both clocks alike.
pub(crate) const STEP_NANOSECONDS: i64 = 100_000_000;

/// Reads UTC nanoseconds since 1970.
pub type UtcReading = Arc<dyn Fn() -> i64 + Send + Sync>;

/// The clock of one process.
pub struct Clock {
    /// UTC minus CLOCK_BOOTTIME, in nanoseconds.
    offset: AtomicI64,
    /// CLOCK_REALTIME.
    utc: UtcReading,
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock").field("offset", &self.offset).finish_non_exhaustive()
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock {
    /// Measures the offset now.
    #[must_use]
    pub fn new() -> Self {
        Self::reading(Arc::new(|| read(ClockId::CLOCK_REALTIME)))
    }

    /// A clock that reads UTC from elsewhere: a test sets it.
    #[must_use]
    pub fn reading(utc: UtcReading) -> Self {
        Self { offset: AtomicI64::new(measure(&*utc)), utc }
    }

    /// UTC less CLOCK_BOOTTIME as it was measured last, nanoseconds.
    pub(crate) fn offset(&self) -> i64 {
        self.offset.load(Ordering::Relaxed)
    }

    /// UTC nanoseconds since 1970.
    #[must_use]
    pub fn now(&self) -> i64 {
        boot_nanoseconds().wrapping_add(self.offset())
    }

    /// The same of a moment by CLOCK_MONOTONIC, which has no time in which the machine was suspended.
    #[must_use]
    pub fn of_monotonic(&self, monotonic: i64) -> i64 {
        monotonic.wrapping_add(apart(&|| read(ClockId::CLOCK_MONOTONIC))).wrapping_add(self.offset())
    }

    /// Measures the offset again; call about once a minute. Returns the step in nanoseconds if the system's
    /// clock was set in between, so that the caller can log it.
    pub fn measure_again(&self) -> Option<i64> {
        let new = measure(&*self.utc);
        let change = new.wrapping_sub(self.offset.swap(new, Ordering::Relaxed));
        (change.abs() > STEP_NANOSECONDS).then_some(change)
    }

    /// The kernel's estimate of this clock's error in nanoseconds; `None` when no time daemon keeps it.
    #[must_use]
    pub fn error_nanoseconds() -> Option<i64> {
        // SAFETY: timex is plain data for which all zeros is valid; with modes = 0 the call only reads.
        let (state, timex) = unsafe {
            let mut timex: libc::timex = std::mem::zeroed();
            (libc::adjtimex(&raw mut timex), timex)
        };
        (state >= 0 && state != libc::TIME_ERROR).then(|| timex.esterror.saturating_mul(1000))
    }
}

/// UTC minus CLOCK_BOOTTIME.
fn measure(utc: &dyn Fn() -> i64) -> i64 {
    -apart(utc)
}

/// CLOCK_BOOTTIME minus another clock: of three tries the one in which both were read closest together. Between two readings this thread
/// may have to wait for a processor.
fn apart(other: &dyn Fn() -> i64) -> i64 {
    let tries = (0..3).map(|_| {
        let before = boot_nanoseconds();
        let other = other();
        let after = boot_nanoseconds();
        (after - before, before + (after - before) / 2 - other)
    });
    tries.min().map_or(0, |(_, apart)| apart)
}

/// CLOCK_BOOTTIME in nanoseconds.
pub(crate) fn boot_nanoseconds() -> i64 {
    read(ClockId::CLOCK_BOOTTIME)
}

fn read(clock: ClockId) -> i64 {
    // Linux always has both clocks; 0 would show at once.
    clock_gettime(clock).map_or(0, |t| t.tv_sec() * 1_000_000_000 + t.tv_nsec())
}

/// Time since this machine's boot, also that in which it was suspended (CLOCK_BOOTTIME). Nobody sets it.
#[must_use]
pub fn since_boot() -> std::time::Duration {
    std::time::Duration::from_nanos(boot_nanoseconds().try_into().unwrap_or_default())
}

/// The identity of this boot, from `/proc/sys/kernel/random/boot_id`; empty when it can't be read.
#[must_use]
pub fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    #[test]
    fn agrees_with_the_system_clock() {
        let clock = Clock::new();
        let before = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos();
        let now = u128::try_from(clock.now()).unwrap();
        assert!(now.abs_diff(before) < 10_000_000_000, "{now} against {before}");
    }

    #[test]
    fn a_step_is_reported_once() {
        let clock = Clock::new();
        clock.offset.fetch_add(3_000_000_000, Ordering::Relaxed);
        let step = clock.measure_again().unwrap();
        assert!(step < -2_000_000_000, "{step}");
        assert_eq!(clock.measure_again(), None);
    }
}
