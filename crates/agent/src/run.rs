//! `throughline-agent run`: parse, build, spawn, drain. All tasks are owned here.
//!
//! Whatever a person can put right is found before anything is sent or told. Order of the drain: sources
//! stop, the last batch is appended, the spool is synced, what waits is delivered for a bounded time.

use crate::batcher::{Batcher, CHANNEL_FRAGMENTS, Sender};
use crate::config::{Config, Places};
use crate::housekeeping::{self, Own};
use crate::last::LastValues;
use crate::sources::Sources;
use anyhow::Context;
use std::io::ErrorKind;
use std::process::ExitCode;
use std::sync::Arc;
use throughline_daemon::{Clock, Expose, Failure, GRACE, SelfFigures, http, paths, stop_signal};
use throughline_delivery::{GrpcSink, ShipStats, ship};
use throughline_spool::Spool;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Folder of the spool in the state folder.
const SPOOL_FOLDER: &str = "spool";

/// Runs the agent until SIGTERM or SIGINT.
///
/// # Errors
/// What keeps it from starting, each with its exit status; afterwards nothing does.
pub async fn run(config: &Config, places: &Places) -> anyhow::Result<ExitCode> {
    let stop = stop_signal().context("signal handlers")?;
    if !config.spool.memory_only {
        paths::create_dir(&places.state_dir)?;
    }
    let sink = config.delivery.collector.sink().map_err(Failure::usage)?;
    let spool = open_spool(config, places)?;
    let (clock, figures, last) =
        (Arc::new(Clock::new()), SelfFigures::default(), Arc::new(LastValues::default()));
    let mut batcher = Batcher::new(Sender::new(&places.node), last.clone(), figures.clone());
    let sources = Sources::start(config, places, &clock, |name, receiver| batcher.input(name, receiver));
    // Last, as its line on standard output says that ranks find the agent now.
    let listening = match sources.mistake() {
        Some(mistake) => Err(mistake),
        None => http::listen("agent", config.http.listen, "http.listen").await.map_err(Into::into),
    };
    let listener = match listening {
        Ok(listener) => listener,
        Err(mistake) => {
            sources.stop().await;
            return Err(mistake);
        }
    };
    let (records, receiver) = mpsc::channel(CHANNEL_FRAGMENTS);
    batcher.input(housekeeping::NAME, receiver);
    let shipped = Arc::new(ShipStats::default());
    let own =
        Own { figures, clock, sources: sources.clone(), spool: spool.clone(), shipped: shipped.clone() };

    let pages: Arc<dyn Expose> = Arc::new(vec![Arc::new(own.clone()) as Arc<dyn Expose>, last.clone()]);
    let (ship_stop, http_stop) = (CancellationToken::new(), CancellationToken::new());
    let tasks = Tasks {
        batcher: tokio::spawn(batcher.run(spool.clone(), config.delivery.batch_interval_seconds.duration())),
        housekeeping: tokio::spawn(housekeeping::run(
            own,
            last.clone(),
            places.node.clone(),
            config.clone(),
            records,
            stop.clone(),
        )),
        ship: tokio::spawn(deliver(spool.clone(), sink, ship_stop.clone(), shipped)),
        http: tokio::spawn(http::serve(listener, http::metrics_router(pages), http_stop.clone())),
        ship_stop,
        http_stop,
    };
    tracing::info!(node = places.node, collector = %config.delivery.collector, "running");
    stop.cancelled().await;
    if timeout(GRACE, tasks.drain(&sources, spool)).await.is_err() {
        tracing::warn!("stopped after {GRACE:?} with entries not delivered; they stay in the spool");
    }
    Ok(ExitCode::SUCCESS)
}

async fn deliver(spool: Spool, sink: GrpcSink, stop: CancellationToken, shipped: Arc<ShipStats>) {
    ship(&spool, &sink, stop, &shipped).await;
}

/// Everything that runs.
struct Tasks {
    batcher: JoinHandle<()>,
    housekeeping: JoinHandle<()>,
    ship: JoinHandle<()>,
    http: JoinHandle<std::io::Result<()>>,
    ship_stop: CancellationToken,
    http_stop: CancellationToken,
}

impl Tasks {
    /// Hands on what there is, in order, and ends everything.
    async fn drain(self, sources: &Sources, spool: Spool) {
        sources.stop().await;
        // Both end by themselves: the one on the stop signal, the other when all channels are closed.
        ended("housekeeping", self.housekeeping).await;
        ended("batcher", self.batcher).await;
        let synced = spool.clone();
        match tokio::task::spawn_blocking(move || synced.flush()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the spool could not be synced"),
            Err(error) => tracing::error!(%error, "syncing the spool"),
        }
        self.ship_stop.cancel();
        ended("delivery", self.ship).await;
        self.http_stop.cancel();
        ended("http", self.http).await;
        let left = spool.stats().backlog_entries;
        tracing::info!(left_in_spool = left, "stopped");
        // The last handle: closes the files, and may wait for the disk.
        let _ = tokio::task::spawn_blocking(move || drop(spool)).await;
    }
}

async fn ended<T>(name: &str, task: JoinHandle<T>) {
    if let Err(error) = task.await {
        tracing::error!(task = name, %error, "ended badly");
    }
}

/// The spool on disk; in memory where that is configured, or where the disk is full or fails.
fn open_spool(config: &Config, places: &Places) -> anyhow::Result<Spool> {
    let settings = throughline_spool::Config {
        memory_bytes_max: usize::try_from(config.spool.memory_limit_bytes).unwrap_or(usize::MAX),
        disk_bytes_max: config.spool.limit_bytes,
        owner: places.node.clone(),
        ..throughline_spool::Config::default()
    };
    let folder = places.state_dir.join(SPOOL_FOLDER);
    let opened = if config.spool.memory_only {
        Spool::in_memory(settings.clone())
    } else {
        Spool::open(&folder, settings.clone())
    };
    use throughline_spool::Error;
    match opened {
        Ok(spool) => Ok(spool),
        Err(Error::Config { key, why }) => {
            let key = match key {
                "memory_bytes_max" => "memory_limit_bytes",
                "disk_bytes_max" => "limit_bytes",
                other => other,
            };
            Err(Failure::usage(format!("configuration: spool.{key} {why}")).into())
        }
        Err(error @ Error::Locked { .. }) => Err(Failure::unavailable(error.to_string()).into()),
        Err(Error::Folder { source, .. }) if is_wrong_place(source.kind()) => {
            let remedy = "name a folder that this user may write with --state-dir";
            Err(Failure::from_io(format!("spool folder {}", folder.display()), &source, remedy).into())
        }
        Err(error) => {
            tracing::error!(%error, "the spool is kept in memory: what waits is lost with this process");
            Spool::in_memory(settings).context("spool in memory")
        }
    }
}

/// Whether a person chose the wrong folder, other than a disk being full or broken.
fn is_wrong_place(kind: ErrorKind) -> bool {
    use ErrorKind::{AlreadyExists, NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem};
    matches!(kind, AlreadyExists | NotADirectory | NotFound | PermissionDenied | ReadOnlyFilesystem)
}
