//! One drain signal and one grace time for the whole process.

use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// How long a process that was asked to stop may take to hand on what it holds. Below the 10 s after which
/// `docker stop` kills, and far below systemd's 90 s.
pub const GRACE: Duration = Duration::from_secs(8);

/// A token that is cancelled by SIGTERM or SIGINT. A second signal ends the process at once with status 1.
///
/// # Errors
/// The signal handlers can't be installed.
pub fn stop_signal() -> std::io::Result<CancellationToken> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let token = CancellationToken::new();
    let cancel = token.clone();
    tokio::spawn(async move {
        for asked in 1.. {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if asked > 1 {
                tracing::warn!("second signal: stopping at once");
                std::process::exit(1);
            }
            tracing::info!("stopping");
            cancel.cancel();
        }
    });
    Ok(token)
}
