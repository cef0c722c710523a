//! The crawler's device: whether each part of the crawler can use it.

use crate::port::PortError;
use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use throughline_daemon::Failure;
use tokio_util::sync::CancellationToken;

/// What is known of one part's descriptor.
#[derive(Default)]
pub(super) struct Part {
    /// Tries since it worked; 0 while it works.
    pub tries: u32,
    pub is_lost: bool,
    /// When it last worked.
    pub worked: Option<Instant>,
}

/// The device, for all threads.
#[derive(Default)]
pub struct Device {
    parts: Mutex<BTreeMap<&'static str, Part>>,
    /// The process is to be executed again.
    pub(super) restart: CancellationToken,
}

impl Device {
    pub(super) fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, Part>> {
        // Plain values: a panic elsewhere leaves old ones at worst.
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a part of the crawler can't use it.
    pub fn is_lost(&self) -> bool {
        self.lock().values().any(|part| part.is_lost)
    }

    /// How long ago a part last worked; `None` if it never did.
    pub fn idle(&self, name: &str) -> Option<Duration> {
        self.lock().get(name)?.worked.map(|at| at.elapsed())
    }

    /// Waits until the process is to be executed again.
    pub async fn restart_wanted(&self) {
        self.restart.cancelled().await;
    }
}

/// Executes this program again with the same arguments, in the same process. Everything must have ended in order.
pub fn execute_again() -> Failure {
    if let Err(error) = umad_sys::close_descriptors_on_exec() {
        tracing::debug!(%error, "descriptors stay open");
    }
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_else(|| "throughline-fabric".into());
    let error = Command::new("/proc/self/exe").arg0(name).args(arguments).exec();
    Failure::unavailable(format!("executing the crawler again: {error}; start it again"))
}

/// The failure of a device that can't be opened, with its exit status.
#[must_use]
pub fn device_failure(error: PortError) -> Failure {
    match error {
        PortError::Umad(umad_sys::Error::NoPermission { .. }) => Failure::permission(error.to_string()),
        other => Failure::unavailable(other.to_string()),
    }
}
