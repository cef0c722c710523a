//! Threads that read the emulated fabric.

use anyhow::anyhow;
use std::thread::JoinHandle;

/// Waits for the end of a thread, if it was not waited for before.
pub(super) fn join(thread: &mut Option<JoinHandle<anyhow::Result<()>>>) -> anyhow::Result<()> {
    match thread.take().map(JoinHandle::join) {
        None => Ok(()),
        Some(Ok(result)) => result,
        Some(Err(_panic)) => Err(anyhow!("a thread that reads the emulated fabric broke off")),
    }
}
