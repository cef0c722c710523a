//! The sources as the agent holds them: started one by one, queried for their state, stopped together.
//!
//! A source that fails to start, or fails later, is a reason and a count and never stops another.

mod cupti;
mod gpu;
mod mpi;
mod slot;
mod sysfs;

use crate::batcher::CHANNEL_FRAGMENTS;
use crate::config::{Config, Places as Folders};
use slot::{Slot, report};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use throughline_daemon::{Clock, Expose, Failure, Labels, Page, SelfMetrics};
use throughline_gpu::{GpuListing, Vendor};
use throughline_host::Roots;
use throughline_mpit_bridge::{JobEdge, Look};
use throughline_sample::catalogue::{EXTRA_SAMPLES, Metric};
use throughline_sample::wire::{Batch, Event, RowRules};
use tokio::sync::{Notify, mpsc};

pub use gpu::switched_on as gpu_sources;
pub use mpi::NAME as MPI;

/// How long one source may take to stop; what it still holds then is lost and the rest is delivered.
const STOP_DEADLINE: Duration = Duration::from_secs(3);

/// How long a source that has not found out yet what there is counts as neither delivering nor failing. A GPU
/// driver that is not kept loaded takes seconds; a device that hangs must show in the end.
const START_GRACE: Duration = Duration::from_secs(90);

/// Whether a source delivers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Health {
    /// It has not found out yet.
    #[default]
    Starting,
    /// It delivers.
    Up,
    /// It can't be read.
    Failing,
    /// The node has nothing of its kind, which is no fault: no GPU, no adapter.
    NotHere,
}

/// What a source says about itself. Counts are since its start; a figure that it does not keep is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Status {
    /// Whether it delivers.
    pub health: Health,
    /// What it does now: one word of a small set.
    pub state: String,
    /// Why it does not deliver, for people, with the remedy.
    pub reason: Option<String>,
    /// Whether it has found out that there is nothing to wait for.
    pub settled: bool,
    /// Records dropped because the channel was full.
    pub dropped: u64,
    /// Values or messages that it could not read.
    pub failed: u64,
    /// Rounds that began late.
    pub overruns: Option<u64>,
    /// How long the last round took.
    pub round_seconds: Option<f64>,
    /// Whether it gives way to a profiler, or another one has its devices; `None` of a source that never does.
    pub paused: Option<bool>,
    /// When that ends by itself, UTC nanoseconds, where that is known.
    pub paused_until: Option<i64>,
    /// Messages that did not follow the protocol.
    pub malformed: Option<u64>,
    /// Ranks now connected.
    pub connected: Option<u64>,
    /// Jobs with a rank here.
    pub jobs: Option<u64>,
    /// What a person should know though it delivers: users over their share.
    pub conditions: Vec<String>,
    /// Counts of its own, with the labels of their series.
    pub counts: Vec<(Labels, &'static Metric, u64)>,
}

/// GPUs with the processes on each, or why they are not known.
pub type Processes = Result<Vec<GpuListing>, &'static str>;

impl Status {
    /// Whether it delivers.
    pub fn is_up(&self) -> bool {
        self.health == Health::Up
    }
}

/// A source that was started.
pub trait Source: Send {
    /// What it says about itself now. Quick: reads no device.
    fn status(&self) -> Status;
    /// Reads once more, now, beside its interval; whether it will. Waits for nothing.
    fn sample_now(&self) -> bool {
        false
    }
    /// Process ids of the ranks that it knows, if it knows of ranks.
    fn ranks(&self) -> Vec<u32> {
        Vec::new()
    }
    /// Takes note of where processes compute, if it knows of ranks.
    fn place(&self, _look: &Look) {}
    /// Has the processes on each GPU listed, if it knows of GPUs. Waits for nothing.
    fn query_processes(&self) {}
    /// GPUs with the processes on each as last listed, or why they are not known; `None` if it knows nothing of GPUs.
    fn processes(&self) -> Option<Processes> {
        None
    }
    /// Gives GPUs to a profiler for so long, or takes them again without a time; whether it is of that kind.
    fn pause(&self, _duration: Option<Duration>) -> bool {
        false
    }
    /// Ends it and closes its channel. May block for a moment.
    fn stop(self: Box<Self>);
}

/// What several sources know of processes, each of its own GPUs: one that does not know leaves it open for all.
fn merged(all: impl Iterator<Item = Processes>) -> Processes {
    all.reduce(|before, more| {
        let mut before = before?;
        before.append(&mut more?);
        Ok(before)
    })
    .unwrap_or(Err("switched_off"))
}

/// What a source needs of the agent.
pub struct Start<'a> {
    /// The whole configuration.
    pub config: &'a Config,
    /// Folders and names.
    pub places: &'a Folders,
    /// The agent's time.
    pub clock: Arc<Clock>,
    /// Where its records go.
    pub records: mpsc::Sender<Batch>,
    /// To be reported when a job begins or ends here.
    pub job_edge: JobEdge,
}

/// Starts one source, or says why it can't.
type Starter = fn(Start) -> anyhow::Result<Box<dyn Source>>;

/// All sources with their name and whether the configuration switches them on.
fn all(config: &Config) -> [(&'static str, bool, Starter); 7] {
    [
        (gpu::NAME, config.nvml.enabled, gpu::start),
        (Vendor::Dcgm.name(), config.dcgm.enabled, gpu::start_dcgm),
        (Vendor::AmdSmi.name(), config.amd_smi.enabled, gpu::start_amd_smi),
        (Vendor::LevelZero.name(), config.level_zero.enabled, gpu::start_level_zero),
        (cupti::NAME, config.cupti.enabled, cupti::start),
        (sysfs::NAME, config.sysfs.enabled, sysfs::start),
        (mpi::NAME, config.mpi.enabled, mpi::start),
    ]
}

/// Names of all sources, and whether the configuration switches them on.
pub fn names(config: &Config) -> impl Iterator<Item = (&'static str, bool)> {
    all(config).into_iter().map(|(name, enabled, _)| (name, enabled))
}

/// By which rules the readings of each source become rows. Each reading does; ranks are no source of readings.
pub fn row_rules(config: &Config) -> BTreeMap<&'static str, RowRules> {
    let intervals = [
        (gpu::NAME, config.nvml.interval_seconds),
        (Vendor::Dcgm.name(), config.dcgm.interval_seconds),
        (Vendor::AmdSmi.name(), config.amd_smi.interval_seconds),
        (Vendor::LevelZero.name(), config.level_zero.interval_seconds),
        (cupti::NAME, config.cupti.interval_seconds),
        (sysfs::NAME, config.sysfs.interval_seconds),
    ];
    intervals.map(|(source, interval)| (source, RowRules::unthinned(interval.duration()))).into()
}

/// Where processes are looked up: control groups lie in sysfs.
fn roots(config: &Config) -> Roots {
    Roots { proc: config.proc.root.clone(), cgroup: config.sysfs.root.join("fs/cgroup") }
}

/// Turns `CLOCK_MONOTONIC`, in which samplers and ranks report times, into the agent's UTC.
fn monotonic_to_utc(clock: Arc<Clock>) -> impl Fn(i64) -> i64 + Send + Sync {
    move |monotonic| clock.of_monotonic(monotonic)
}

/// All sources that are switched on.
#[derive(Clone)]
pub struct Sources {
    slots: Arc<Mutex<Vec<Slot>>>,
    /// A job began or ended here.
    edge: Arc<Notify>,
    begun: Instant,
}

impl Sources {
    /// Starts every source that is switched on and hands each one's channel to `input`.
    pub fn start(
        config: &Config,
        places: &Folders,
        clock: &Arc<Clock>,
        mut input: impl FnMut(&'static str, mpsc::Receiver<Batch>),
    ) -> Self {
        let mut slots = Vec::new();
        let edge = Arc::new(Notify::new());
        for (name, _, starter) in all(config).into_iter().filter(|(_, enabled, _)| *enabled) {
            let (records, receiver) = mpsc::channel(CHANNEL_FRAGMENTS);
            let job_edge = JobEdge::new({
                let edge = edge.clone();
                move || edge.notify_one()
            });
            let started = starter(Start { config, places, clock: clock.clone(), records, job_edge });
            let (source, error, otherwise) = match started {
                Ok(source) => (Some(source), None, Status::default()),
                Err(error) => {
                    let (state, reason) = ("start_failed".to_owned(), Some(format!("{error:#}")));
                    let health = Health::Failing;
                    let status =
                        Status { health, state, reason, settled: true, failed: 1, ..Status::default() };
                    (None, Some(error), status)
                }
            };
            input(name, receiver);
            slots.push(Slot { name, source, error, reported: None, otherwise });
        }
        Self { slots: Arc::new(Mutex::new(slots)), edge, begun: Instant::now() }
    }

    /// Has links and ports read whenever a job begins or ends here, at most `per_second` times a second: edges in
    /// between share the next reading, so that each has one after it. For ever.
    pub async fn sample_at_edges(self, per_second: u32, metrics: SelfMetrics) {
        if per_second == 0 {
            return;
        }
        loop {
            self.edge.notified().await;
            for slot in self.lock().iter() {
                if slot.source.as_ref().is_some_and(|source| source.sample_now()) {
                    metrics.add(slot.name, &EXTRA_SAMPLES, 1);
                }
            }
            tokio::time::sleep(Duration::from_secs(1) / per_second).await;
        }
    }

    /// Process ids of the ranks on this node.
    pub fn ranks(&self) -> Vec<u32> {
        self.running(|source| source.ranks()).into_iter().flatten().collect()
    }

    /// Notes where processes compute.
    pub fn place(&self, look: &Look) {
        self.running(|source| source.place(look));
    }

    /// Has the processes on each GPU listed; [`Sources::gpu_processes`] has the answer a moment later.
    pub fn query_gpu_processes(&self) {
        self.running(|source| source.query_processes());
    }

    /// The GPUs with the processes on each, or why they are not known.
    pub fn gpu_processes(&self) -> Processes {
        merged(self.running(|source| source.processes()).into_iter().flatten())
    }

    /// Gives GPUs to a profiler for so long, or takes them again without a time; whether a source takes them at all.
    pub fn pause(&self, duration: Option<Duration>) -> bool {
        self.running(|source| source.pause(duration)).into_iter().any(|paused| paused)
    }

    fn running<T>(&self, query: impl Fn(&dyn Source) -> T) -> Vec<T> {
        self.lock().iter().filter_map(|slot| Some(query(slot.source.as_deref()?))).collect()
    }

    /// What only a person can put right, if a source failed to start for that reason: a socket that another
    /// agent has, a folder without permission. Other failures are logged, and the agent runs without them.
    pub fn mistake(&self) -> Option<anyhow::Error> {
        let mut slots = self.lock();
        let failed = slots.iter_mut().filter_map(|slot| Some((slot.name, slot.error.take()?)));
        let (mistakes, others): (Vec<_>, Vec<_>) = failed.partition(|(_, error)| error.is::<Failure>());
        for (source, error) in others {
            tracing::error!(source, "{error:#}; the agent runs without it");
        }
        mistakes.into_iter().next().map(|(_, error)| error)
    }

    /// The state of each source.
    pub fn statuses(&self) -> Vec<(&'static str, Status)> {
        self.lock().iter().map(|slot| (slot.name, slot.status())).collect()
    }

    /// Puts what each source says about itself into the metrics.
    pub fn report(&self, metrics: &SelfMetrics) {
        let is_beginning = self.begun.elapsed() < START_GRACE;
        self.statuses().iter().for_each(|(name, status)| report(metrics, name, status, is_beginning));
    }

    /// An event for each source that began or ceased to deliver or is not on this node, since the last call; for
    /// each that does not deliver again if `repeat`.
    pub fn changes(&self, time: i64, repeat: bool) -> Vec<Event> {
        self.lock().iter_mut().filter_map(|slot| slot.change(time, repeat)).collect()
    }

    /// Stops all sources at the same time, each on a thread of its own, for a bounded time.
    pub async fn stop(&self) {
        let sources: Vec<_> =
            self.lock().iter_mut().filter_map(|slot| Some((slot.name, slot.take()?))).collect();
        let stopping = sources.into_iter().map(|(name, source)| {
            (name, tokio::time::timeout(STOP_DEADLINE, tokio::task::spawn_blocking(|| source.stop())))
        });
        for (name, stopped) in stopping.collect::<Vec<_>>() {
            if stopped.await.is_err() {
                tracing::warn!(source = name, "did not stop within {STOP_DEADLINE:?}");
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Expose for Sources {
    fn expose(&self, page: &mut Page) {
        for (name, status) in self.statuses() {
            let labels = [("source", name), ("state", status.state.as_str())];
            page.info("throughline_source_info", "What a source is doing.", &labels);
        }
    }
}

#[cfg(test)]
mod tests;
