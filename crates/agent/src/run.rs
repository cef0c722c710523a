//! `throughline-agent run`: parse, build, spawn, drain. All tasks are owned here.
//!
//! Whatever a person can put right is found before anything is sent or reported. Order of the drain: sources
//! stop, the last batch is appended, the spool is synced, what waits is delivered for a bounded time.

use crate::batcher::{self, Batcher, CHANNEL_FRAGMENTS, Sender, TraceSpace};
use crate::config::{Config, Places};
use crate::control::Control;
use crate::detail::{Node, RECORDER_FOLDER};
use crate::health::AgentHealth;
use crate::latest::LastValues;
use crate::live::LiveJobs;
use crate::placement;
use crate::privileges::HiddenProcesses;
use crate::self_metrics::{self, AgentMetrics};
use crate::sources::{self, Sources};
use anyhow::Context;
use std::process::ExitCode;
use std::sync::Arc;
use throughline_daemon::{
    Clock, ClockSpans, Expose, GRACE, Health, Listening, SelfMetrics, give_back_free_memory, http, paths,
    stop_signal,
};
use throughline_delivery::wire::DetailRequest;
use throughline_delivery::{ClockExchange, GrpcSink, Outbox, Quarantine};
use throughline_detail::{Details, Recording, WAITING_MAX};
use throughline_sample::wire::Batch;
use throughline_spool::Spool;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Folder of the spool in the state folder.
const SPOOL_FOLDER: &str = "spool";

/// Folder of the batches that the collector refuses, in the state folder.
pub const REFUSED_FOLDER: &str = "refused";

/// Spans of this node's clock in the state folder.
const CLOCK_FILE: &str = "clock";

/// Runs the agent until SIGTERM or SIGINT.
///
/// # Errors
/// What keeps it from starting, each with its exit status; afterwards nothing does.
pub async fn run(config: &Config, places: &Places) -> anyhow::Result<ExitCode> {
    let stop = stop_signal().context("signal handlers")?;
    if !config.spool.memory_only {
        paths::create_dir(&places.state_dir)?;
    }
    let built = AgentResources::new(config, places)?;
    let started = RunningServices::new(config, places, &built).await?;
    let sources = started.sources.clone();
    let tasks = Tasks::spawn(config, places, built, started, &stop);
    tracing::info!(node = places.node, collector = %config.delivery.collector, "running");
    stop.cancelled().await;
    if timeout(GRACE, tasks.drain(&sources)).await.is_err() {
        tracing::warn!("stopped after {GRACE:?} with entries not delivered; they stay in the spool");
    }
    Ok(ExitCode::SUCCESS)
}

/// What is there before any source runs.
struct AgentResources {
    sink: GrpcSink,
    requested: mpsc::Receiver<DetailRequest>,
    spool: Spool,
    quarantine: Quarantine,
    recording: Recording,
    /// This node's clock, as the collector measures it.
    exchange: ClockExchange,
    metrics: SelfMetrics,
    last: Arc<LastValues>,
    live: LiveJobs,
}

impl AgentResources {
    fn new(config: &Config, places: &Places) -> anyhow::Result<AgentResources> {
        let delivery = &config.delivery;
        let sink = delivery.collector.sink(
            &places.run_dir,
            delivery.tls.as_ref(),
            delivery.token_file.as_deref(),
        )?;
        let (requests, requested) = mpsc::channel(WAITING_MAX);
        let spool = config.spool.open(&places.state_dir.join(SPOOL_FOLDER), places.node.clone())?;
        let refused = places.state_dir.join(REFUSED_FOLDER);
        let quarantine = config.spool.quarantine(&refused, places.node.clone(), &spool)?;
        let ring = places.state_dir.join(RECORDER_FOLDER);
        let recording = Recording::open(&config.recorder, &ring, config.spool.memory_only)?;
        let file = (!config.spool.memory_only).then(|| places.state_dir.join(CLOCK_FILE));
        let spans = ClockSpans::open(Arc::new(Clock::new()), file);
        let exchange = ClockExchange::new(Arc::new(spans), places.node.clone());
        let enabled = sources::names(config).filter(|(_, enabled)| *enabled).map(|(name, _)| name).collect();
        let last =
            LastValues::new(enabled, config.http.job_owners).with_row_rules(&sources::row_rules(config));
        Ok(AgentResources {
            sink: sink.with_detail(requests).with_clock(exchange.clone()),
            requested,
            spool,
            quarantine,
            recording,
            exchange,
            metrics: SelfMetrics::default(),
            last: Arc::new(last),
            live: LiveJobs::default(),
        })
    }
}

/// What has begun to measure and to listen.
struct RunningServices {
    sources: Sources,
    batcher: Batcher,
    /// Records of the agent about itself.
    records: mpsc::Sender<Batch>,
    control: Option<Control>,
    listening: Listening,
}

impl RunningServices {
    async fn new(
        config: &Config,
        places: &Places,
        built: &AgentResources,
    ) -> anyhow::Result<RunningServices> {
        let spans = built.exchange.spans();
        let sender = Sender::new(&places.node).with_spans(spans.clone());
        let mut batcher = Batcher::new(sender, built.last.clone(), built.metrics.clone())
            .with_row_rules(sources::row_rules(config))
            .with_folding(config.mpi.intervals())
            .with_recorder(built.recording.recorder().cloned())
            .with_live(built.live.clone());
        let sources =
            Sources::start(config, places, spans.clock(), |name, receiver| batcher.input(name, receiver));
        // Without it the agent measures all the same.
        let mode = config.control.socket_mode.map_or(0o600, |mode| mode.0);
        let control = Control::bind(&places.control_socket, mode);
        let control =
            control.inspect_err(|error| tracing::warn!("{error}; commands to this agent are not taken")).ok();
        // Last, as its line on standard output says that ranks find the agent now.
        let listening = match sources.mistake() {
            Some(mistake) => Err(mistake),
            None => Listening::begin("agent", config.http.listen, "http.listen").await.map_err(Into::into),
        };
        let listening = match listening {
            Ok(listening) => listening,
            Err(mistake) => {
                sources.stop().await;
                return Err(mistake);
            }
        };
        let (records, receiver) = mpsc::channel(CHANNEL_FRAGMENTS);
        batcher.input(batcher::NAME, receiver);
        Ok(RunningServices { sources, batcher, records, control, listening })
    }
}

/// Everything that runs.
struct Tasks {
    control: JoinHandle<()>,
    edges: JoinHandle<()>,
    placement: JoinHandle<()>,
    memory: JoinHandle<()>,
    batcher: JoinHandle<()>,
    self_metrics: JoinHandle<()>,
    details: Option<std::thread::JoinHandle<()>>,
    outbox: Outbox,
    http: JoinHandle<()>,
    http_stop: CancellationToken,
}

impl Tasks {
    fn spawn(
        config: &Config,
        places: &Places,
        built: AgentResources,
        started: RunningServices,
        stop: &CancellationToken,
    ) -> Tasks {
        let AgentResources { sink, requested, spool, quarantine, recording, exchange, metrics, last, live } =
            built;
        let RunningServices { sources, batcher, records, control, listening } = started;
        let edges = sources.clone().sample_at_edges(config.mpi.edge_samples_per_second, metrics.clone());
        let clock = exchange.spans().clock().clone();
        let sender = Sender::new(&places.node).with_spans(exchange.spans().clone());
        let node = Node { sender, live };
        let details = Details::new(recording.clone(), spool.clone(), node, metrics.clone(), stop.clone());
        // Without it the agent measures all the same.
        let details = details.start(requested);
        let details =
            details.inspect_err(|error| tracing::warn!(%error, "requests for detail are not answered")).ok();
        let outbox = Outbox::start(spool.clone(), quarantine, sink);
        let shipped = outbox.shipped();
        shipped.show_clock(exchange);
        let health = AgentHealth::new(
            sources.clone(),
            spool.clone(),
            shipped.clone(),
            clock.clone(),
            !config.spool.memory_only,
            config.mpi.enabled.then(|| places.mpi_socket.clone()),
            recording.clone(),
        );
        let own = AgentMetrics {
            metrics,
            clock,
            sources: sources.clone(),
            spool: spool.clone(),
            shipped,
            recording,
            health: health.clone(),
            http: listening.state(),
            last: last.clone(),
        };
        let http_stop = CancellationToken::new();
        let http = serve_pages(config, listening, health, &own, last.clone(), http_stop.clone());
        let interval = config.delivery.batch_interval_seconds.duration();
        let (node, config_now) = (places.node.clone(), config.clone());
        Tasks {
            control: tokio::spawn(serve_control(control, sources.clone())),
            edges: tokio::spawn(edges),
            placement: tokio::spawn(placement::run(sources, own.clock.clone(), config.sysfs.root.clone())),
            memory: tokio::spawn(give_back_free_memory()),
            batcher: tokio::spawn(batcher.run(spool, interval, TraceSpace::of(&config.spool))),
            self_metrics: tokio::spawn(self_metrics::run(own, last, node, config_now, records, stop.clone())),
            details,
            outbox,
            http,
            http_stop,
        }
    }

    /// Hands on what there is, in order, and ends everything.
    async fn drain(self, sources: &Sources) {
        self.control.abort();
        self.edges.abort();
        self.placement.abort();
        self.memory.abort();
        sources.stop().await;
        // Both end by themselves: the one on the stop signal, the other when all channels are closed.
        ended("self-metrics", self.self_metrics).await;
        ended("batcher", self.batcher).await;
        // On a thread that may wait. It appends nothing after the stop signal.
        if let Some(details) = self.details
            && let Ok(Err(_)) = tokio::task::spawn_blocking(|| details.join()).await
        {
            tracing::error!("the thread of detail ended badly");
        }
        self.outbox.drain().await;
        self.http_stop.cancel();
        ended("http", self.http).await;
    }
}

/// Serves the pages: of the agent itself and of the last values, and whether it is well.
fn serve_pages(
    config: &Config,
    listening: Listening,
    health: AgentHealth,
    own: &AgentMetrics,
    last: Arc<LastValues>,
    stop: CancellationToken,
) -> JoinHandle<()> {
    let pages: Arc<dyn Expose> = Arc::new(vec![Arc::new(own.clone()) as Arc<dyn Expose>, last]);
    let mut parts: Vec<Arc<dyn Health>> = vec![Arc::new(health)];
    if config.mpi.enabled {
        parts.push(Arc::new(HiddenProcesses::new(&config.proc.root)));
    }
    tokio::spawn(listening.serve(http::metrics_router(pages, Arc::new(parts)), stop))
}

async fn serve_control(control: Option<Control>, sources: Sources) {
    if let Some(control) = control {
        control.serve(sources).await;
    }
}

async fn ended<T>(name: &str, task: JoinHandle<T>) {
    if let Err(error) = task.await {
        tracing::error!(task = name, %error, "ended badly");
    }
}
