//! The way out of a daemon that has records: its spool, the loop that delivers it, and their drain.

use crate::resend::send_again;
use crate::ship::{Cargo, deliver};
use crate::{Quarantine, ShipStats, Sink};
use serde::{Deserialize, Serialize};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use throughline_daemon::Failure;
use throughline_spool::{Error, Spool};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// `[spool]` of a daemon's configuration: what may wait for the collector.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SpoolSection {
    /// Largest size on disk. The default holds about a day of a node with 8 GPUs, or an hour of 5,000 fabric
    /// ports read each 5 s.
    pub bytes_max: u64,
    /// Largest size of what is not on disk yet, or of the whole spool with `memory_only`.
    pub memory_bytes_max: u64,
    /// For diskless nodes: what waits is lost with the process.
    pub memory_only: bool,
    /// Largest size on disk of entries that the collector refuses until its configuration or this node's certificate is
    /// corrected.
    pub refused_bytes_max: u64,
    /// How long such entries are kept.
    pub refused_retention_seconds: u64,
}

impl Default for SpoolSection {
    fn default() -> Self {
        Self {
            bytes_max: 1 << 30,
            memory_bytes_max: 32 << 20,
            memory_only: false,
            refused_bytes_max: 256 << 20,
            refused_retention_seconds: 7 * 24 * 3600,
        }
    }
}

impl SpoolSection {
    /// The spool on disk; in memory where that is configured, or where the disk is full or fails, which is
    /// logged. `owner` is whose spool it is: a folder copied to another owner gets a new identity.
    ///
    /// # Errors
    /// A bound out of range (64), a folder of another living process (69) or without permission (77).
    pub fn open(&self, folder: &Path, owner: String) -> Result<Spool, Failure> {
        let settings = throughline_spool::Config {
            memory_bytes_max: usize::try_from(self.memory_bytes_max).unwrap_or(usize::MAX),
            disk_bytes_max: self.bytes_max,
            owner,
            ..throughline_spool::Config::default()
        };
        self.open_with(folder, settings, ["memory_bytes_max", "bytes_max"])
    }

    /// The quarantine of what `from` holds, in this folder; in memory where the spool is.
    ///
    /// # Errors
    /// As [`SpoolSection::open`].
    pub fn quarantine(&self, folder: &Path, owner: String, from: &Spool) -> Result<Quarantine, Failure> {
        if self.refused_retention_seconds == 0 {
            let why = "must be at least 1; how long batches are kept that the collector refuses";
            return Err(Failure::usage(format!("configuration: spool.refused_retention_seconds {why}")));
        }
        let settings = throughline_spool::Config {
            memory_bytes_max: QUARANTINE_MEMORY_BYTES,
            disk_bytes_max: self.refused_bytes_max,
            owner,
            has_envelopes: true,
            ..throughline_spool::Config::default()
        };
        let spool = self.open_with(folder, settings, ["memory_bytes_max", "refused_bytes_max"])?;
        let keep = Duration::from_secs(self.refused_retention_seconds);
        let refused = Quarantine::new(spool, Some(folder.to_owned()), keep, from);
        refused.map_err(|error| Failure::unavailable(format!("{}: {error}", folder.display())))
    }

    /// `keys` are the configuration's names of the bounds in memory and on disk.
    fn open_with(
        &self,
        folder: &Path,
        settings: throughline_spool::Config,
        [memory_key, disk_key]: [&str; 2],
    ) -> Result<Spool, Failure> {
        let opened = if self.memory_only {
            Spool::in_memory(settings).map(|spool| (spool, None))
        } else {
            Spool::open_or_memory(folder, settings)
        };
        match opened {
            Ok((_, Some(Error::Folder { source, .. }))) if is_wrong_place(source.kind()) => {
                let remedy = "name a folder that this user may write with --state-dir";
                Err(Failure::from_io(format!("spool folder {}", folder.display()), &source, remedy))
            }
            Ok((spool, failure)) => {
                if let Some(error) = failure {
                    tracing::error!(%error, "the spool is kept in memory: what waits is lost with this process");
                }
                Ok(spool)
            }
            Err(Error::Config { key, why }) => {
                let key = match key {
                    "memory_bytes_max" => memory_key,
                    "disk_bytes_max" => disk_key,
                    other => other,
                };
                Err(Failure::usage(format!("configuration: spool.{key} {why}")))
            }
            Err(error) => Err(Failure::unavailable(error.to_string())),
        }
    }
}

/// Refused entries that are not on disk yet, or all of them without a disk: a few of the largest.
const QUARANTINE_MEMORY_BYTES: usize = 8 << 20;

/// Whether a person chose the wrong folder, other than a disk being full or broken.
fn is_wrong_place(kind: ErrorKind) -> bool {
    use ErrorKind::{AlreadyExists, NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem};
    matches!(kind, AlreadyExists | NotADirectory | NotFound | PermissionDenied | ReadOnlyFilesystem)
}

/// A spool that is being delivered.
pub struct Outbox {
    spool: Spool,
    shipped: Arc<ShipStats>,
    stop: CancellationToken,
    task: JoinHandle<()>,
    refused: JoinHandle<()>,
    quarantine: Quarantine,
}

impl Outbox {
    /// Starts to deliver what is in the spool, and whatever is appended later.
    #[must_use]
    pub fn start(spool: Spool, quarantine: Quarantine, sink: impl Sink + Clone + 'static) -> Self {
        let (shipped, stop) = (Arc::new(ShipStats::default()), CancellationToken::new());
        // The one that is set first; there is no other.
        _ = shipped.quarantine.set(quarantine.clone());
        let (from, keeper, counts, token) =
            (spool.clone(), quarantine.clone(), shipped.clone(), stop.clone());
        let (kept, again, end) = (quarantine.clone(), sink.clone(), stop.clone());
        let task = tokio::spawn(async move {
            deliver(Cargo::Spool(&from, Some(&keeper)), &sink, token, &counts).await;
        });
        let refused = tokio::spawn(async move { send_again(&kept, &again, end).await });
        Self { spool, shipped, stop, task, refused, quarantine }
    }

    /// Counts of the delivery.
    #[must_use]
    pub fn shipped(&self) -> Arc<ShipStats> {
        self.shipped.clone()
    }

    /// Syncs the spool, delivers what waits for a bounded time, closes the files. Nothing may be appended any
    /// more; what is left is delivered by the next run.
    pub async fn drain(self) {
        let synced = self.spool.clone();
        match tokio::task::spawn_blocking(move || synced.flush()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the spool could not be synced"),
            Err(error) => tracing::error!(%error, "syncing the spool"),
        }
        self.stop.cancel();
        if let Err(error) = self.task.await {
            tracing::error!(%error, "delivery ended badly");
        }
        if let Err(error) = self.refused.await {
            tracing::error!(%error, "the delivery of refused entries ended badly");
        }
        let quarantine = self.quarantine.clone();
        _ = tokio::task::spawn_blocking(move || quarantine.flush()).await;
        tracing::info!(left_in_spool = self.spool.stats().backlog_entries, "stopped");
        // The last handle closes the files and may wait for the disk.
        let _ = tokio::task::spawn_blocking(move || drop(self.spool)).await;
    }
}
