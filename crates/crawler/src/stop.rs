//! A request to stop that wakes sleepers: for threads that work with MADs and are no async tasks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Set once the process is to stop. Clones are the same request.
#[derive(Clone, Default)]
pub struct Stop {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    flag: AtomicBool,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Stop {
    /// Requests the stop and wakes all sleepers. Returns whether it had been requested before.
    pub fn set(&self) -> bool {
        let before = self.inner.flag.swap(true, Ordering::Relaxed);
        // Under the lock, so that no sleeper is between its look at the flag and its wait.
        drop(self.lock());
        self.inner.changed.notify_all();
        before
    }

    /// The flag, for the engine.
    #[must_use]
    pub fn flag(&self) -> &AtomicBool {
        &self.inner.flag
    }

    /// Whether it is set.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.inner.flag.load(Ordering::Relaxed)
    }

    /// Sleeps, at most until the process is to stop; `true` if it is.
    pub fn sleep(&self, time: Duration) -> bool {
        let guard = self.lock();
        drop(self.inner.changed.wait_timeout_while(guard, time, |()| !self.is_set()));
        self.is_set()
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        // The guarded unit can't be in a bad state.
        self.inner.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleeper_wakes() {
        let stop = Stop::default();
        assert!(!stop.sleep(Duration::from_millis(1)));
        let sleeper = stop.clone();
        let thread = std::thread::spawn(move || sleeper.sleep(Duration::from_secs(3600)));
        assert!(!stop.set());
        assert!(thread.join().unwrap());
        assert!(stop.set());
    }
}
