//! One drain signal and one grace time for the whole process.

use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// How long a process that got a stop signal may take to hand on what it holds. Below the 10 s after which
/// `docker stop` kills, and far below systemd's 90 s.
pub const GRACE: Duration = Duration::from_secs(8);

/// Signals this close together are one request: timeout(1) and many launchers signal the process and then its
/// group, so it gets each signal twice.
const ONE_REQUEST: Duration = Duration::from_millis(500);

/// A token that is cancelled by SIGTERM or SIGINT. A second request ends the process at once with status 1. From here
/// on a file that reaches RLIMIT_FSIZE is a write that fails, as on a full disk; the kernel would end the process.
///
/// # Errors
/// The signal handlers can't be installed.
pub fn stop_signal() -> std::io::Result<CancellationToken> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    // Once taken a signal stays taken, and that is all that is needed of this one.
    drop(signal(SignalKind::from_raw(nix::sys::signal::Signal::SIGXFSZ as i32))?);
    let token = CancellationToken::new();
    let cancel = token.clone();
    tokio::spawn(async move {
        let mut stopped_at: Option<Instant> = None;
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            match stopped_at {
                None => {
                    tracing::info!("stopping");
                    stopped_at = Some(Instant::now());
                    cancel.cancel();
                }
                Some(first) if first.elapsed() < ONE_REQUEST => {}
                Some(_) => {
                    tracing::warn!("second signal: stopping at once");
                    std::process::exit(1);
                }
            }
        }
    });
    Ok(token)
}
