//! SIGTERM and SIGINT end a one-shot command in an orderly way: exit handlers run (libumad2sim's removes its
//! folder).

use nix::sys::signal::{SigSet, Signal};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Set once the process was asked to stop.
#[derive(Clone, Default)]
pub struct Stop {
    flag: Arc<AtomicBool>,
    changed: Arc<(Mutex<()>, Condvar)>,
}

impl Stop {
    /// Takes both signals over. Call before any thread is started; a second signal ends the process at once.
    ///
    /// # Errors
    /// The signals can't be blocked or the thread can't be started.
    pub fn on_signals() -> anyhow::Result<Stop> {
        let signals = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT]);
        signals.thread_block()?;
        let stop = Stop::default();
        let told = stop.clone();
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            while signals.wait().is_ok() {
                if told.flag.swap(true, Ordering::Relaxed) {
                    std::process::exit(1);
                }
                told.changed.1.notify_all();
            }
        })?;
        Ok(stop)
    }

    /// The flag, for the engine.
    pub fn flag(&self) -> &AtomicBool {
        &self.flag
    }

    /// Whether it is set.
    pub fn is_set(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }

    /// Sleeps, at most until the process is asked to stop.
    pub fn sleep(&self, time: Duration) {
        let guard = self.changed.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The guarded unit can't be in a bad state; the flag decides.
        let _ = self.changed.1.wait_timeout_while(guard, time, |()| !self.is_set());
    }
}
