//! The delivery of the quarantine: refused entries are sent again from time to time, until the collector stores them.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use throughline_spool::Reader;
use tokio_util::sync::CancellationToken;

use crate::quarantine::Quarantine;
use crate::ship::{Cargo, session};
use crate::sink::Sink;
use crate::stats::ShipStats;

/// From one attempt to send refused entries to the next: doubled from the first to the longest. The main delivery finds
/// out by itself that it is accepted again, and wakes the quarantine; the attempts are for entries of other names.
const FIRST_PAUSE: Duration = Duration::from_secs(15);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// Sends what is in the quarantine again and again until `stop`.
pub(crate) async fn send_again(quarantine: &Quarantine, sink: &dyn Sink, stop: CancellationToken) {
    let (spool, stats) = (quarantine.spool(), ShipStats::default());
    let mut reader: Option<Reader> = Some(spool.reader());
    let mut pause = FIRST_PAUSE;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = spool.wait_after(spool.acked()) => {}
        }
        let this = quarantine.clone();
        if let Ok(Err(error)) = tokio::task::spawn_blocking(move || this.trim()).await {
            tracing::warn!(%error, "the quarantine of refused entries");
        }
        let before = stats.acked_entries.load(Relaxed);
        let result = session(Cargo::Quarantine(spool), sink, &mut reader, &stop, &stats, false).await;
        if stop.is_cancelled() {
            return;
        }
        let stored = stats.acked_entries.load(Relaxed) - before;
        if stored > 0 {
            tracing::info!(stored, "entries that the collector had refused are stored");
            pause = FIRST_PAUSE;
        }
        if let Err(error) = result {
            tracing::debug!(%error, "refused entries wait on");
            quarantine.note_refused_again(error);
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = quarantine.accepted_again() => pause = FIRST_PAUSE,
            () = tokio::time::sleep(jittered(pause)) => pause = (pause * 2).min(LONGEST_PAUSE),
        }
    }
}

/// Between half of this pause and one and a half: daemons that were refused at once do not come back at once.
fn jittered(pause: Duration) -> Duration {
    pause * fastrand::u32(500..1500) / 1000
}
