//! Whether this crawler leads, for its threads.

use crate::stop::Stop;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Longest wait between two checks of a stop request.
const LOOK: Duration = Duration::from_millis(200);

/// What this crawler does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Not queried yet.
    #[default]
    Unknown,
    /// Sweeps, with a lease or because no collector could be queried.
    Active,
    /// Another one sweeps.
    Standby,
}

#[derive(Default)]
struct State {
    role: Role,
    /// When a sweep last came to its end, or the role began.
    progress: Option<Instant>,
}

/// Whether this crawler leads, for its threads.
#[derive(Default)]
pub struct LeaderState {
    state: Mutex<State>,
    changed: Condvar,
}

impl LeaderState {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Each field is replaced as a whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until this crawler is to sweep; false when the process stops.
    pub fn wait(&self, stop: &Stop) -> bool {
        let mut state = self.lock();
        while !stop.is_set() {
            if state.role == Role::Active {
                return true;
            }
            state = self.changed.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        false
    }

    /// Whether another one sweeps: nothing is to be recorded then.
    pub fn is_standby(&self) -> bool {
        self.lock().role == Role::Standby
    }

    /// Whether no role was taken yet.
    pub fn is_undecided(&self) -> bool {
        self.lock().role == Role::Unknown
    }

    /// A sweep came to its end.
    pub fn progress(&self) {
        self.lock().progress = Some(Instant::now());
    }

    /// How long an active crawler's sweeps have not come to their end.
    pub fn idle(&self) -> Duration {
        let state = self.lock();
        let progress = state.progress.filter(|_| state.role == Role::Active);
        progress.map_or(Duration::ZERO, |progress| progress.elapsed())
    }

    pub fn set(&self, role: Role) -> Role {
        let mut state = self.lock();
        let before = std::mem::replace(&mut state.role, role);
        if before != role {
            state.progress = Some(Instant::now());
        }
        self.changed.notify_all();
        before
    }
}
