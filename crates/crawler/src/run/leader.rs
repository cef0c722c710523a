//! Whether this crawler leads, for its threads.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

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
    /// No fabric is seen, or it isn't clear or not allowed which one: nothing is recorded.
    Waiting,
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
}

impl LeaderState {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Each field is replaced as a whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What this crawler does.
    pub fn role(&self) -> Role {
        self.lock().role
    }

    /// Whether nothing is to be recorded: another one sweeps, or it isn't clear whose fabric that would be.
    pub fn is_passive(&self) -> bool {
        matches!(self.role(), Role::Standby | Role::Waiting)
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
        before
    }
}
