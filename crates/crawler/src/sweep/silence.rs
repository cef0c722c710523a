//! Nodes that never answered a request for counters: how often they are requested, and how many of their ports have a
//! reading. Pure.
//!
//! A fabric can show any number of ports behind which nobody answers. Requested in each sweep they would cost a time-out
//! each, and a reading each would be most of the crawler's memory.

use crate::events::NamedEnd;
use std::time::{Duration, Instant};
use throughline_sample::Guid;

/// Ports of nodes that never answered which have a reading all the same, so that each is listed with its reason: far
/// more than a fabric has that works. Those beyond are counted in the coverage alone until their node answers.
pub(super) const UNANSWERED_READINGS_MAX: usize = 1 << 14;
/// Nodes that never answered which one sweep requests again: what they do not answer takes part of the window for a time-out.
pub(super) const RETRIES_MAX: usize = 16;
/// Sweeps in a row in which such a node is requested like any other: MADs get lost.
const MISSES_MAX: u32 = 3;
/// The first pause after them; each is twice the one before.
const PAUSE_MIN: Duration = Duration::from_secs(10);
/// The longest pause: a node whose agent comes to life is read within five minutes.
const PAUSE_MAX: Duration = Duration::from_secs(300);

/// What names a node that is requested, over topologies: its GUID, its end port and its LID.
pub(super) type TargetKey = (Guid, u8, u16);

/// How long a node that never answered has not done so.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Silence {
    misses: u32,
    until: Option<Instant>,
}

impl Silence {
    /// Whether it is not to be requested now.
    pub fn is_resting(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    /// Whether it is requested at growing intervals.
    pub fn is_known(&self) -> bool {
        self.until.is_some()
    }

    /// It did not answer; `true` where it is requested more rarely from now on.
    pub fn missed(&mut self, now: Instant) -> bool {
        self.misses = self.misses.saturating_add(1);
        let Some(doublings) = self.misses.checked_sub(MISSES_MAX) else { return false };
        let pause = PAUSE_MIN.saturating_mul(1 << doublings.min(16)).min(PAUSE_MAX);
        self.until.replace(now + pause).is_none()
    }
}

/// Who came to be requested more rarely in a sweep, and who of those answered, with the number of their ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SilenceChanges {
    /// Nodes that never answered and are requested at growing intervals from now on.
    pub silent: Vec<(NamedEnd, usize)>,
    /// Such nodes that answered.
    pub answering: Vec<(NamedEnd, usize)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_never_answers_is_requested_ever_more_rarely() {
        let start = Instant::now();
        let mut silence = Silence::default();
        assert!((1..MISSES_MAX).all(|_| !silence.missed(start)) && !silence.is_resting(start));
        assert!(silence.missed(start) && silence.is_resting(start) && silence.is_known());
        let mut now = start + PAUSE_MIN;
        assert!(!silence.is_resting(now));
        assert!(!silence.missed(now), "it is reported once");
        assert!(silence.is_resting(now + PAUSE_MIN) && !silence.is_resting(now + 2 * PAUSE_MIN));
        for _ in 0..50 {
            silence.missed(now);
            now += PAUSE_MAX;
            assert!(!silence.is_resting(now), "never more rarely than each five minutes");
        }
    }
}
