//! Whether the subnet manager runs a heavy sweep, from its signs; what pauses meanwhile, and for how long at most.
//!
//! A manager that sets a subnet up needs the agents of all nodes for itself: a walk beside it makes both slower.
//! Signs: a burst of traps, the local port not yet Active, a request to register again, and the manager's own
//! count of what it sends. The signs are pure; only waiting is not.

use super::thread_names::DISCOVERY;
use crate::engine::Backpressure;
use crate::stop::Stop;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use throughline_daemon::SelfMetrics;
use throughline_sample::catalogue::HEAVY_SWEEP_WAIT_SECONDS;

/// Traps that are a burst. One cable makes two to four.
const BURST_TRAPS: usize = 8;
/// Within this time.
const BURST_WINDOW: Duration = Duration::from_secs(2);
/// How long a sign counts. opensm sets a fabric of 1,428 hosts up in 1 to 5 s, and traps on while it does.
const SIGN_HOLDS: Duration = Duration::from_secs(1);
/// Longest time to pause without a break: after it the subnet is looked at whatever the signs say, and they
/// count again when there were none for [`SIGN_HOLDS`].
const LONGEST: Duration = Duration::from_secs(30);
/// Between two checks of the signs.
const LOOK: Duration = Duration::from_millis(100);
/// Requests of the manager per node between two checks of it that are a heavy sweep: it queries each port of each
/// node then, and in a light sweep each switch once.
const REQUESTS_PER_NODE: u64 = 4;

/// The signs.
#[derive(Debug, Default)]
struct HeavySweepSigns {
    traps: VecDeque<Instant>,
    /// Until when the last sign counts.
    until: Option<Instant>,
    /// When giving way began.
    since: Option<Instant>,
    is_port_ready: Option<bool>,
}

impl HeavySweepSigns {
    fn trap(&mut self, now: Instant) {
        while self.traps.front().is_some_and(|first| now.duration_since(*first) > BURST_WINDOW) {
            self.traps.pop_front();
        }
        self.traps.push_back(now);
        if self.traps.len() >= BURST_TRAPS {
            self.traps.pop_front();
            self.sign(now);
        }
    }

    fn sign(&mut self, now: Instant) {
        self.until = Some(now + SIGN_HOLDS);
    }

    fn port(&mut self, state: u8, now: Instant) {
        // Initialize and Armed: the manager is about to make it Active. A port that is down says nothing.
        let is_ready = !matches!(state, 2 | 3);
        if self.is_port_ready.replace(is_ready) != Some(is_ready) || !is_ready {
            // Also the moment in which it became Active: the rest of the subnet follows.
            if !is_ready || self.until.is_some() {
                self.sign(now);
            }
        }
    }

    fn is_hard(&mut self, now: Instant) -> bool {
        if self.until.is_none_or(|until| now >= until) {
            (self.until, self.since) = (None, None);
            return false;
        }
        now.duration_since(*self.since.get_or_insert(now)) < LONGEST
    }
}

/// The signs, shared by who sees them and who pauses.
#[derive(Default)]
pub struct HeavySweep {
    signs: Mutex<HeavySweepSigns>,
    /// For the engines.
    pub hint: Backpressure,
}

impl HeavySweep {
    fn lock(&self) -> MutexGuard<'_, HeavySweepSigns> {
        // Each field is replaced as a whole.
        self.signs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A trap that reports a change was reported.
    pub fn trap(&self) {
        self.lock().trap(Instant::now());
    }

    /// The local port has this logical state.
    pub fn port(&self, state: u8) {
        self.lock().port(state, Instant::now());
    }

    /// The manager requests that its clients register again: it begins anew.
    pub fn registers_again(&self) {
        self.lock().sign(Instant::now());
    }

    /// The manager sent so many requests to a subnet of so many nodes since it was looked at last.
    pub fn activity(&self, requests: u32, nodes: usize) {
        if u64::from(requests) > REQUESTS_PER_NODE * nodes as u64 {
            self.lock().sign(Instant::now());
        }
    }

    /// Looks at the signs and informs the engines.
    pub fn look(&self) -> bool {
        let is_hard = self.lock().is_hard(Instant::now());
        self.hint.set(is_hard);
        is_hard
    }

    /// Waits until the manager is done, at most [`LONGEST`], and counts the time.
    pub fn wait(&self, metrics: &SelfMetrics, stop: &Stop) {
        let start = Instant::now();
        while self.look() && start.elapsed() < LONGEST && !stop.sleep(LOOK) {}
        let waited = start.elapsed();
        if waited >= LOOK {
            let before = metrics.get(DISCOVERY, &HEAVY_SWEEP_WAIT_SECONDS).unwrap_or(0.0);
            metrics.set(DISCOVERY, &HEAVY_SWEEP_WAIT_SECONDS, before + waited.as_secs_f64());
            tracing::info!(seconds = waited.as_secs_f64(), "gave way to the subnet manager");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_of_traps_is_a_sign_and_single_ones_are_not() {
        let (mut signs, start) = (HeavySweepSigns::default(), Instant::now());
        for number in 0..20 {
            signs.trap(start + Duration::from_secs(number));
        }
        assert!(!signs.is_hard(start + Duration::from_secs(19)));
        let burst = start + Duration::from_secs(30);
        for number in 0..BURST_TRAPS as u64 {
            signs.trap(burst + Duration::from_millis(number));
        }
        assert!(signs.is_hard(burst + Duration::from_millis(500)));
        assert!(!signs.is_hard(burst + Duration::from_secs(3)));
        assert!(signs.traps.len() <= BURST_TRAPS);
    }

    #[test]
    fn a_port_that_stays_in_initialize_holds_up_for_a_bound_only() {
        let (mut signs, start) = (HeavySweepSigns::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        signs.port(4, at(0));
        assert!(!signs.is_hard(at(0)), "Active from the beginning");
        for seconds in 1..=40 {
            signs.port(2, at(seconds));
            assert_eq!(signs.is_hard(at(seconds)), seconds < 31, "{seconds}");
        }
        signs.port(4, at(41));
        assert!(!signs.is_hard(at(60)));
        signs.port(3, at(61));
        assert!(signs.is_hard(at(61)), "after a pause signs count again");
    }
}
