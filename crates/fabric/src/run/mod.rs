//! `run`: the crawler as a daemon. Parse, build, spawn, drain; all threads and tasks are owned here.
//!
//! Two threads speak MADs, one per management class: discovery and sweeps. They append to the spool, which
//! waits for nobody; tasks deliver it and serve `/metrics`.

pub mod config;
mod exposition;
mod housekeeping;
mod pace;
mod sender;
mod shared;
mod survey;
mod sweeps;

use crate::cli::fabric::device_failure;
use anyhow::Context;
use config::Config;
use exposition::Exposition;
use housekeeping::Own;
use sender::Sender;
use shared::{Publisher, Shared};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::JoinHandle;
use throughline_daemon::{Clock, Expose, Failure, GRACE, SelfFigures, http, paths, stop_signal};
use throughline_delivery::{GrpcSink, ShipStats, ship};
use throughline_fabric::stop::Stop;
use throughline_fabric::transport::Class;
use throughline_fabric::umad::UmadPort;
use throughline_spool::Spool;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Folder of the spool in the state folder; an agent on the same node has another one.
const SPOOL_FOLDER: &str = "fabric-spool";

/// Runs the daemon until SIGTERM or SIGINT.
///
/// # Errors
/// What keeps it from starting, each with its exit status; afterwards nothing does.
pub fn run(config: &Config, state_dir: Option<&Path>) -> anyhow::Result<ExitCode> {
    let state_dir = paths::state_dir(state_dir.or(config.state_dir.as_deref()))?;
    let sink = GrpcSink::new(&config.delivery.collector)
        .map_err(|error| Failure::usage(format!("configuration: delivery.collector: {error}")))?;
    // The device first: without it there is nothing to listen for. Both classes, so that a refusal shows now.
    let port = UmadPort::find(config.device.ca.as_deref(), config.device.port).map_err(device_failure)?;
    let management = port.open(Class::Management).map_err(device_failure)?;
    let performance = port.open(Class::Performance).map_err(device_failure)?;
    let port = Arc::new(port);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let result = runtime.block_on(async {
        let stop = stop_signal().context("signal handlers")?;
        paths::create_dir(&state_dir)?;
        let spool = open_spool(config, &state_dir, port.local().subnet_prefix)?;
        let listener = http::listen("fabric", config.http.listen, "http.listen").await?;
        let (commits, rounds) = tokio::sync::mpsc::channel(housekeeping::ROUNDS_WATCHED);
        let publisher = Publisher {
            spool: spool.clone(),
            sender: Sender::new(port.local().subnet_prefix),
            figures: SelfFigures::default(),
            clock: Arc::new(Clock::new()),
            rounds: commits,
        };
        let shared = Arc::new(Shared::new(publisher));
        let crawl_stop = Stop::default();
        let threads = vec![
            survey::spawn(config.clone(), port.clone(), management, shared.clone(), crawl_stop.clone())?,
            sweeps::spawn(config.clone(), port.clone(), performance, shared.clone(), crawl_stop.clone())?,
        ];
        let shipped = Arc::new(ShipStats::default());
        let own = Own { shared: shared.clone(), shipped: shipped.clone() };
        let pages: Arc<dyn Expose> =
            Arc::new(vec![Arc::new(own.clone()) as Arc<dyn Expose>, Arc::new(Exposition(shared.clone()))]);
        let (ship_stop, http_stop) = (CancellationToken::new(), CancellationToken::new());
        let tasks = Tasks {
            threads,
            crawl_stop,
            housekeeping: tokio::spawn(housekeeping::run(own.clone(), stop.clone())),
            commits: tokio::spawn(housekeeping::watch_commits(own, rounds)),
            ship: tokio::spawn(deliver(spool.clone(), sink, ship_stop.clone(), shipped)),
            http: tokio::spawn(http::serve(listener, http::metrics_router(pages), http_stop.clone())),
            ship_stop,
            http_stop,
        };
        let local = port.local();
        tracing::info!(
            device = local.device,
            port = local.port,
            collector = config.delivery.collector,
            "running"
        );
        stop.cancelled().await;
        if timeout(GRACE, tasks.drain(spool)).await.is_err() {
            tracing::warn!("stopped after {GRACE:?} with entries not delivered; they stay in the spool");
        }
        Ok(ExitCode::SUCCESS)
    });
    runtime.shutdown_background();
    result
}

async fn deliver(spool: Spool, sink: GrpcSink, stop: CancellationToken, shipped: Arc<ShipStats>) {
    ship(&spool, &sink, stop, &shipped).await;
}

/// Everything that runs.
struct Tasks {
    threads: Vec<JoinHandle<()>>,
    crawl_stop: Stop,
    housekeeping: tokio::task::JoinHandle<()>,
    commits: tokio::task::JoinHandle<()>,
    ship: tokio::task::JoinHandle<()>,
    http: tokio::task::JoinHandle<std::io::Result<()>>,
    ship_stop: CancellationToken,
    http_stop: CancellationToken,
}

impl Tasks {
    /// Hands on what there is, in order, and ends everything.
    async fn drain(self, spool: Spool) {
        self.crawl_stop.set();
        let threads = self.threads;
        let joined = tokio::task::spawn_blocking(move || threads.into_iter().all(|t| t.join().is_ok()));
        if !matches!(joined.await, Ok(true)) {
            tracing::error!("a crawler thread ended badly");
        }
        ended("housekeeping", self.housekeeping).await;
        let synced = spool.clone();
        match tokio::task::spawn_blocking(move || synced.flush()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the spool could not be synced"),
            Err(error) => tracing::error!(%error, "syncing the spool"),
        }
        self.ship_stop.cancel();
        ended("delivery", self.ship).await;
        self.commits.abort();
        self.http_stop.cancel();
        ended("http", self.http).await;
        tracing::info!(left_in_spool = spool.stats().backlog_entries, "stopped");
    }
}

async fn ended<T>(name: &str, task: tokio::task::JoinHandle<T>) {
    if let Err(error) = task.await {
        tracing::error!(task = name, %error, "ended badly");
    }
}

/// The spool on disk; in memory where that is configured, or where the disk is full or fails.
fn open_spool(config: &Config, state_dir: &Path, subnet_prefix: u64) -> anyhow::Result<Spool> {
    use throughline_spool::Error;
    let settings = throughline_spool::Config {
        memory_bytes_max: usize::try_from(config.spool.memory_limit_bytes).unwrap_or(usize::MAX),
        disk_bytes_max: config.spool.limit_bytes,
        owner: format!("fabric {subnet_prefix:#018x}"),
        ..throughline_spool::Config::default()
    };
    let folder: PathBuf = state_dir.join(SPOOL_FOLDER);
    if config.spool.memory_only {
        return Ok(Spool::in_memory(settings).map_err(|error| Failure::usage(error.to_string()))?);
    }
    match Spool::open_or_memory(&folder, settings) {
        Ok((spool, None)) => Ok(spool),
        Ok((_, Some(Error::Folder { source, .. })))
            if source.kind() == std::io::ErrorKind::PermissionDenied =>
        {
            let remedy = "name a folder that this user may write with --state-dir";
            Err(Failure::from_io(format!("spool folder {}", folder.display()), &source, remedy).into())
        }
        Ok((spool, Some(error))) => {
            tracing::error!(%error, "the spool is kept in memory: what waits is lost with this process");
            Ok(spool)
        }
        Err(error @ Error::Config { .. }) => Err(Failure::usage(format!("configuration: {error}")).into()),
        Err(error) => Err(Failure::unavailable(error.to_string()).into()),
    }
}
