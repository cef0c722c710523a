//! `run`: the crawler as a daemon. Parse, build, spawn, drain; all threads and tasks are owned here.
//!
//! Three threads speak MADs, one per management class: discovery, sweeps and subnet administration. A fourth one waits
//! for events of the local port where verbs are built in. They append to the spool, which waits for nobody; tasks
//! deliver it and serve `/metrics`.

pub mod config;
mod device;
mod discovery_thread;
mod exposition;
mod group_reading;
mod health;
mod heavy_sweep;
mod leader;
mod local_port;
mod manager;
mod pace;
mod publish;
mod recording;
mod reopen;
mod reports;
mod sa_thread;
mod self_metrics;
mod sender;
mod shared;
mod standby;
pub mod sweep_config;
mod sweeps;
mod thread_names;
mod topology_cache;
mod topology_source;
mod trigger;
mod trust;
mod verbs;

use crate::engine::Engine;
use crate::events::Interruptions;
use crate::port::{FabricPort, TransportKind};
use crate::sa::Client;
use crate::stop::Stop;
use crate::transport::{Class, Transport};
use anyhow::Context;
use config::Config;
pub use device::device_failure;
use exposition::Exposition;
use health::CrawlerHealth;
use self_metrics::CrawlerMetrics;
use sender::Sender;
use shared::{Publisher, Round, SharedState};
use standby::Standby;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use throughline_daemon::{
    Clock, ClockSpans, Failure, GRACE, Listening, SelfMetrics, give_back_free_memory, http, paths,
    stop_signal,
};
use throughline_delivery::{ClockExchange, GrpcSink, Outbox, Quarantine};
use throughline_detail::{Details, Recording, WAITING_MAX};
use throughline_infiniband::names::NameFile;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Folder of the spool in the state folder; an agent on the same node has another one.
const SPOOL_FOLDER: &str = "fabric-spool";
/// Folder of the recorder, in the state folder.
pub use recording::FOLDER as RECORDER_FOLDER;
/// Folder of the batches that the collector refuses, in the state folder.
pub const REFUSED_FOLDER: &str = "fabric-refused";

/// Spans of this machine's clock in the state folder; an agent on the same node has another one.
const CLOCK_FILE: &str = "fabric-clock";

/// Runs the daemon until SIGTERM or SIGINT.
///
/// # Errors
/// What keeps it from starting, each with its exit status; afterwards nothing does.
pub fn run(config: &Config, state_dir: Option<&Path>) -> anyhow::Result<ExitCode> {
    let explicit = state_dir.or(config.state_dir.as_deref());
    let state_dir = paths::state_dir(explicit)?;
    let (delivery, run_dir) = (&config.delivery, paths::run_dir(&state_dir, explicit.is_some()));
    let sink = delivery.collector.sink(&run_dir, delivery.tls.as_ref(), delivery.token_file.as_deref())?;
    let names = NameFile::open(config.discovery.node_name_map.as_deref())
        .map_err(|error| Failure::usage(error.to_string()))?;
    // The device first: without it there is nothing to listen for.
    let transports = Transports::open(config)?;
    let local = transports.port.local().clone();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let result = runtime.block_on(async {
        let stop = stop_signal().context("signal handlers")?;
        let built = CrawlerResources::new(config, &state_dir, &transports.port).await?;
        let shared = built.shared.clone();
        let threads = Threads::spawn(config, &state_dir, names, transports, &shared)?;
        let tasks = Tasks::spawn(config, sink, threads, built, &stop);
        tracing::info!(
            device = local.device,
            port = local.port,
            collector = %config.delivery.collector,
            "running"
        );
        // A process that is to stop is not executed again, whatever its device does meanwhile.
        let is_restart = tokio::select! {
            biased;
            () = stop.cancelled() => false,
            () = shared.device.restart_wanted() => true,
        };
        stop.cancel();
        if timeout(GRACE, tasks.drain()).await.is_err() {
            tracing::warn!("stopped after {GRACE:?} with entries not delivered; they stay in the spool");
        }
        anyhow::Ok(is_restart)
    });
    runtime.shutdown_background();
    match result? {
        true => Err(device::execute_again().into()),
        false => Ok(ExitCode::SUCCESS),
    }
}

/// The device, opened for each class of management datagrams.
struct Transports {
    port: Arc<FabricPort>,
    management: Box<dyn Transport>,
    performance: Box<dyn Transport>,
    /// Not needed to read the fabric: without it there are no traps.
    administration: Option<Box<dyn Transport>>,
}

impl Transports {
    /// All classes at once, so that a refusal shows now.
    fn open(config: &Config) -> Result<Transports, Failure> {
        let device = &config.device;
        let port =
            FabricPort::find(&device.transport, device.ca.as_deref(), device.port).map_err(device_failure)?;
        let management = port.open(Class::Management).map_err(device_failure)?;
        let performance = port.open(Class::Performance).map_err(device_failure)?;
        let administration = port.open(Class::Administration);
        let administration =
            administration.inspect_err(|error| tracing::warn!(%error, "no subnet administration")).ok();
        Ok(Transports { port: Arc::new(port), management, performance, administration })
    }
}

/// What threads and tasks share, and what is taken over by one of them.
struct CrawlerResources {
    shared: Arc<SharedState>,
    /// Sweeps whose commits are waited for.
    rounds: mpsc::Receiver<Round>,
    quarantine: Quarantine,
    listening: Listening,
}

impl CrawlerResources {
    async fn new(config: &Config, state_dir: &Path, port: &FabricPort) -> anyhow::Result<CrawlerResources> {
        paths::create_dir(state_dir)?;
        let subnet_prefix = port.local().subnet_prefix;
        let owner = format!("fabric {subnet_prefix:#018x}");
        let spool = config.spool.open(&state_dir.join(SPOOL_FOLDER), owner.clone())?;
        let ring = state_dir.join(recording::FOLDER);
        let recording = Recording::open(&config.recorder, &ring, config.spool.memory_only)?;
        let quarantine = config.spool.quarantine(&state_dir.join(REFUSED_FOLDER), owner, &spool)?;
        let listening = Listening::begin("fabric", config.http.listen, "http.listen").await?;
        let (commits, rounds) = mpsc::channel(self_metrics::ROUNDS_WATCHED);
        let file = (!config.spool.memory_only).then(|| state_dir.join(CLOCK_FILE));
        let clock = Arc::new(Clock::new());
        let spans = Arc::new(ClockSpans::open(clock.clone(), file));
        let publisher = Publisher {
            spool,
            sender: Sender::new(subnet_prefix, spans),
            metrics: SelfMetrics::default(),
            clock,
            rounds: commits,
            leader: Arc::default(),
            recording,
            interruptions: Mutex::new(Interruptions::new(config.discovery.explains_within())),
        };
        Ok(CrawlerResources { shared: Arc::new(SharedState::new(publisher)), rounds, quarantine, listening })
    }
}

/// The threads that speak MADs.
struct Threads {
    discovery_and_sweeps: Vec<JoinHandle<Option<Engine>>>,
    administrator: JoinHandle<Option<Client>>,
    verbs: Option<JoinHandle<()>>,
    stop: Stop,
}

impl Threads {
    fn spawn(
        config: &Config,
        state_dir: &Path,
        names: NameFile,
        transports: Transports,
        shared: &Arc<SharedState>,
    ) -> std::io::Result<Threads> {
        let Transports { port, management, performance, administration } = transports;
        let stop = Stop::default();
        let (administration, administrator) =
            sa_thread::spawn(config.clone(), port.clone(), administration, shared.clone(), stop.clone())?;
        let discovery_parts = discovery_thread::Parts {
            config: config.clone(),
            port: port.clone(),
            shared: shared.clone(),
            stop: stop.clone(),
            state_dir: state_dir.to_owned(),
            names,
            administration,
        };
        let discovery = discovery_thread::spawn(discovery_parts, management)?;
        let sweeps = sweeps::spawn(
            config.clone(),
            port.clone(),
            performance,
            shared.clone(),
            stop.clone(),
            state_dir,
        )?;
        let verbs = match config.device.transport {
            TransportKind::Umad => verbs::spawn(port.local(), shared.clone(), stop.clone())?,
            TransportKind::Sim(_) => None,
        };
        Ok(Threads { discovery_and_sweeps: vec![discovery, sweeps], administrator, verbs, stop })
    }

    /// Stops them, waits for their end, and closes the engines.
    async fn join(self) {
        self.stop.set();
        let joined = tokio::task::spawn_blocking(move || {
            // All first, then the engines are closed.
            let ended: Vec<_> = self.discovery_and_sweeps.into_iter().map(JoinHandle::join).collect();
            let administrator = self.administrator.join();
            let verbs = self.verbs.map_or(Ok(()), JoinHandle::join);
            ended.iter().all(Result::is_ok) && administrator.is_ok() && verbs.is_ok()
        });
        if !matches!(joined.await, Ok(true)) {
            tracing::error!("a crawler thread ended badly");
        }
    }
}

/// Everything that runs.
struct Tasks {
    threads: Threads,
    self_metrics: tokio::task::JoinHandle<()>,
    commits: tokio::task::JoinHandle<()>,
    standby: tokio::task::JoinHandle<()>,
    memory: tokio::task::JoinHandle<()>,
    delivered: CancellationToken,
    details: Option<JoinHandle<()>>,
    outbox: Outbox,
    http: tokio::task::JoinHandle<()>,
    http_stop: CancellationToken,
}

impl Tasks {
    fn spawn(
        config: &Config,
        sink: GrpcSink,
        threads: Threads,
        built: CrawlerResources,
        stop: &CancellationToken,
    ) -> Tasks {
        let CrawlerResources { shared, rounds, quarantine, listening } = built;
        let publisher = &shared.publisher;
        let (requests, requested) = mpsc::channel(WAITING_MAX);
        let details = Details::new(
            publisher.recording.clone(),
            publisher.spool.clone(),
            recording::Crawler(shared.clone()),
            publisher.metrics.clone(),
            stop.clone(),
        );
        // Without it the crawler measures all the same.
        let details = details.start(requested);
        let details =
            details.inspect_err(|error| tracing::warn!(%error, "requests for detail are not answered")).ok();
        let exchange = ClockExchange::new(publisher.sender.spans().clone(), String::new());
        let measured = sink.clone().with_detail(requests).with_clock(exchange.clone());
        let outbox = Outbox::start(publisher.spool.clone(), quarantine, measured);
        outbox.shipped().show_clock(exchange);
        let delivered = CancellationToken::new();
        let standby = Standby::new(config, sink, shared.clone());
        let own = CrawlerMetrics { shared: shared.clone(), shipped: outbox.shipped() };
        let interval = config.sweep.interval_seconds.duration();
        let pages = Exposition::new(shared.clone(), config.http.counters.choice().clone(), interval);
        let walks = config.discovery.interval_seconds.duration();
        let health = CrawlerHealth::new(shared.clone(), outbox.shipped(), walks, interval);
        let router = http::large_metrics_router(Arc::new(own.clone()), Arc::new(pages), Arc::new(health));
        let http_stop = CancellationToken::new();
        Tasks {
            threads,
            self_metrics: tokio::spawn(self_metrics::run(own.clone(), stop.clone())),
            commits: tokio::spawn(self_metrics::watch_commits(own, rounds)),
            standby: tokio::spawn(standby.run(stop.clone(), delivered.clone())),
            memory: tokio::spawn(give_back_free_memory()),
            delivered,
            details,
            outbox,
            http: tokio::spawn(listening.serve(router, http_stop.clone())),
            http_stop,
        }
    }

    /// Hands on what there is, in order, and ends everything.
    async fn drain(self) {
        self.threads.join().await;
        ended("self-metrics", self.self_metrics).await;
        // It appends nothing after the stop signal.
        if let Some(details) = self.details
            && !matches!(tokio::task::spawn_blocking(|| details.join()).await, Ok(Ok(())))
        {
            tracing::error!("the thread of detail ended badly");
        }
        self.outbox.drain().await;
        self.delivered.cancel();
        ended("standby", self.standby).await;
        self.commits.abort();
        self.memory.abort();
        self.http_stop.cancel();
        ended("http", self.http).await;
    }
}

async fn ended<T>(name: &str, task: tokio::task::JoinHandle<T>) {
    if let Err(error) = task.await {
        tracing::error!(task = name, %error, "ended badly");
    }
}
