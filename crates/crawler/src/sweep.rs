//! The sweep: counters of all chosen ports, by LID from a known topology.
//!
//! What a node can do is requested once: ClassPortInfo before its first counters, the masks of
//! PortSamplesControl before its first optional ones. A reading may be partial: what could not be read is
//! absent, with a counted reason, and never hides another port. Nothing here writes to the fabric.

pub mod epochs;
pub mod plan;
mod planned;
mod silence;
mod sweeper;
mod target;

pub use silence::SilenceChanges;
pub use sweeper::{NodeClassifier, Sweeper, UNANSWERED};

use std::time::{Duration, Instant};

/// Nanoseconds of UTC at a moment of the monotonic clock, so that readings get a time of their own without
/// asking the system's clock each time.
#[derive(Clone, Copy, Debug)]
pub struct ClockPoint {
    /// The moment.
    pub instant: Instant,
    /// UTC nanoseconds since 1970 at that moment.
    pub unix_nanoseconds: i64,
}

impl ClockPoint {
    /// The system's clock now.
    #[must_use]
    pub fn now() -> ClockPoint {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let unix_nanoseconds = i64::try_from(since.as_nanos()).unwrap_or(i64::MAX);
        ClockPoint { instant: Instant::now(), unix_nanoseconds }
    }

    /// UTC nanoseconds at another moment.
    #[must_use]
    pub fn at(&self, instant: Instant) -> i64 {
        let nanoseconds = |duration: Duration| i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
        match instant.checked_duration_since(self.instant) {
            Some(later) => self.unix_nanoseconds.saturating_add(nanoseconds(later)),
            None => self.unix_nanoseconds.saturating_sub(nanoseconds(self.instant - instant)),
        }
    }
}
