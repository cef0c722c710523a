//! The sources as the agent holds them: started one by one, asked for their state, stopped together.
//!
//! A source that fails to start, or fails later, is a reason and a count and never stops another.

mod cupti;
mod mpi;
mod nvml;
mod sysfs;

use crate::batcher::CHANNEL_FRAGMENTS;
use crate::config::{Config, Places as Folders};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use throughline_daemon::{Clock, Expose, Failure, Page, SelfFigures};
use throughline_gpu::Vendor;
use throughline_mpit_bridge::{JobEdge, Places};
use throughline_sample::catalogue::{
    CONNECTED_RANKS, DROPPED_RECORDS, EXTRA_SAMPLES, FAILED_READS, MALFORMED_MESSAGES, Metric, OVERRUNS,
    ROUND_SECONDS, RUNNING_JOBS, SOURCE_UP,
};
use throughline_sample::wire::{Batch, Event};
use tokio::sync::{Notify, mpsc};

pub use mpi::NAME as MPI;
pub use nvml::settings as nvml_settings;

/// How long one source may take to stop; what it still holds then is lost and the rest is delivered.
const STOP_DEADLINE: Duration = Duration::from_secs(3);

/// How long a source that has not found out yet what there is counts as neither delivering nor failing. A GPU
/// driver that is not kept loaded takes seconds; a device that hangs must show in the end.
const START_GRACE: Duration = Duration::from_secs(90);

/// Whether a source does what it is for.
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
    /// What it is doing, in one word of a small set.
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
    /// Messages that did not follow the protocol.
    pub malformed: Option<u64>,
    /// Ranks now connected.
    pub connected: Option<u64>,
    /// Jobs of which a rank runs here.
    pub jobs: Option<u64>,
    /// Counts of its own, some of them by a reason that stands in the place of the source.
    pub counts: Vec<(&'static str, &'static Metric, u64)>,
}

/// For each process the UUIDs of its GPUs, or why that is not known.
pub type Processes = Result<BTreeMap<u32, Vec<String>>, &'static str>;

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
    fn place(&self, _places: &BTreeMap<u32, Places>) {}
    /// Has the processes on each GPU listed, if it knows of GPUs. Waits for nothing.
    fn ask_processes(&self) {}
    /// The GPUs of each process as last listed, or why that is not known; `None` if it knows nothing of GPUs.
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
    /// To be told when a job begins or ends here.
    pub job_edge: JobEdge,
}

/// Starts one source, or says why it can't.
type Starter = fn(Start) -> anyhow::Result<Box<dyn Source>>;

/// All sources with their name and whether the configuration switches them on.
fn all(config: &Config) -> [(&'static str, bool, Starter); 7] {
    [
        (nvml::NAME, config.nvml.enabled, nvml::start),
        (Vendor::Dcgm.name(), config.dcgm.enabled, nvml::start_dcgm),
        (Vendor::AmdSmi.name(), config.amd_smi.enabled, nvml::start_amd_smi),
        (Vendor::LevelZero.name(), config.level_zero.enabled, nvml::start_level_zero),
        (cupti::NAME, config.cupti.enabled, cupti::start),
        (sysfs::NAME, config.sysfs.enabled, sysfs::start),
        (mpi::NAME, config.mpi.enabled, mpi::start),
    ]
}

/// Names of all sources, and whether the configuration switches them on.
pub fn names(config: &Config) -> impl Iterator<Item = (&'static str, bool)> {
    all(config).into_iter().map(|(name, enabled, _)| (name, enabled))
}

/// Turns `CLOCK_MONOTONIC`, in which samplers and ranks tell times, into the agent's UTC.
fn monotonic_to_utc(clock: Arc<Clock>) -> impl Fn(i64) -> i64 + Send + Sync {
    move |monotonic| {
        // Linux always has this clock; 0 would show at once.
        let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC)
            .map_or(0, |t| t.tv_sec() * 1_000_000_000 + t.tv_nsec());
        clock.now() - (now - monotonic)
    }
}

/// One source's place.
struct Slot {
    name: &'static str,
    source: Option<Box<dyn Source>>,
    /// Why it did not start.
    error: Option<anyhow::Error>,
    /// What was last told about it: how it is, and its state.
    told: Option<(Health, String)>,
    /// What is told when it does not run.
    otherwise: Status,
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
            slots.push(Slot { name, source, error, told: None, otherwise });
        }
        Self { slots: Arc::new(Mutex::new(slots)), edge, begun: Instant::now() }
    }

    /// Has links and ports read whenever a job begins or ends here, at most `per_second` times a second: edges in
    /// between share the next reading, so that each has one after it. For ever.
    pub async fn sample_at_edges(self, per_second: u32, figures: SelfFigures) {
        if per_second == 0 {
            return;
        }
        loop {
            self.edge.notified().await;
            for slot in self.lock().iter() {
                if slot.source.as_ref().is_some_and(|source| source.sample_now()) {
                    figures.add(slot.name, &EXTRA_SAMPLES, 1);
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
    pub fn place(&self, places: &BTreeMap<u32, Places>) {
        self.running(|source| source.place(places));
    }

    /// Has the processes on each GPU listed; [`Sources::gpu_processes`] has the answer a moment later.
    pub fn ask_gpu_processes(&self) {
        self.running(|source| source.ask_processes());
    }

    /// The GPUs of each process, or why that is not known.
    pub fn gpu_processes(&self) -> Processes {
        self.running(|source| source.processes()).into_iter().flatten().next().unwrap_or(Err("switched_off"))
    }

    /// Gives GPUs to a profiler for so long, or takes them again without a time; whether a source takes them at all.
    pub fn pause(&self, duration: Option<Duration>) -> bool {
        self.running(|source| source.pause(duration)).into_iter().any(|paused| paused)
    }

    fn running<T>(&self, ask: impl Fn(&dyn Source) -> T) -> Vec<T> {
        self.lock().iter().filter_map(|slot| Some(ask(slot.source.as_deref()?))).collect()
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

    /// Puts what each source says about itself into the figures.
    pub fn tell(&self, figures: &SelfFigures) {
        let is_beginning = self.begun.elapsed() < START_GRACE;
        self.statuses().iter().for_each(|(name, status)| tell(figures, name, status, is_beginning));
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

impl Slot {
    fn status(&self) -> Status {
        self.source.as_ref().map_or_else(|| self.otherwise.clone(), |source| source.status())
    }

    fn change(&mut self, time: i64, repeat: bool) -> Option<Event> {
        let status = self.status();
        if !status.is_up() && !status.settled {
            return None; // It is still starting, or tries again.
        }
        let now = (status.health, status.state);
        let before = self.told.replace(now.clone());
        let is_news = match &before {
            Some(before) => *before != now,
            None => now.0 != Health::Up,
        };
        let (health, state) = now;
        let up = health == Health::Up;
        if !is_news && (up || !repeat) {
            return None;
        }
        let (kind, severity) = match health {
            Health::Up => ("source.up", "info"),
            Health::NotHere => ("source.absent", "info"),
            Health::Starting | Health::Failing => ("source.down", "warning"),
        };
        let reason = status.reason.filter(|_| !up).map_or_else(String::new, |reason| format!(": {reason}"));
        Some(Event {
            time,
            source: self.name.to_owned(),
            kind: kind.to_owned(),
            severity: severity.to_owned(),
            text: format!("{state}{reason}"),
            ..Event::default()
        })
    }

    fn take(&mut self) -> Option<Box<dyn Source>> {
        let source = self.source.take()?;
        let before = source.status();
        // What was not here is not failing now.
        let health = if before.health == Health::NotHere { Health::NotHere } else { Health::Failing };
        self.otherwise = Status { health, state: "stopped".to_owned(), settled: true, ..before };
        Some(source)
    }
}

/// Puts one source's state into the figures.
fn tell(figures: &SelfFigures, name: &'static str, status: &Status, is_beginning: bool) {
    // Exact up to 2^53, which no count of a process reaches.
    #[allow(clippy::cast_precision_loss)]
    let number = |count: u64| count as f64;
    // Absent is not zero: a node without GPUs has no failing source. One that was told of before and is gone has.
    let told_before = figures.get(name, &SOURCE_UP).is_some();
    let up = match status.health {
        Health::Up => Some(1.0),
        Health::NotHere if !told_before => None,
        Health::Starting if !told_before && is_beginning => None,
        Health::NotHere | Health::Starting | Health::Failing => Some(0.0),
    };
    if let Some(up) = up {
        figures.set(name, &SOURCE_UP, up);
    }
    figures.set(name, &DROPPED_RECORDS, number(status.dropped));
    figures.set(name, &FAILED_READS, number(status.failed));
    let optional = [
        (&OVERRUNS, status.overruns.map(number)),
        (&ROUND_SECONDS, status.round_seconds),
        (&MALFORMED_MESSAGES, status.malformed.map(number)),
        (&CONNECTED_RANKS, status.connected.map(number)),
        (&RUNNING_JOBS, status.jobs.map(number)),
    ];
    for (metric, value) in optional {
        if let Some(value) = value {
            figures.set(name, metric, value);
        }
    }
    status.counts.iter().for_each(|(source, metric, count)| figures.set(source, metric, number(*count)));
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
mod tests {
    use super::*;

    struct Fake(Arc<Mutex<bool>>);

    impl Source for Fake {
        fn status(&self) -> Status {
            let state = "running".to_owned();
            Status { health: Health::Up, state, dropped: 4, connected: Some(2), ..Status::default() }
        }

        fn stop(self: Box<Self>) {
            *self.0.lock().unwrap() = true;
        }
    }

    fn sources(stopped: &Arc<Mutex<bool>>) -> Sources {
        let failed = Status {
            health: Health::Failing,
            state: "start_failed".into(),
            settled: true,
            failed: 1,
            ..Status::default()
        };
        let good: Box<dyn Source> = Box::new(Fake(stopped.clone()));
        let error = Some(anyhow::anyhow!("no thread"));
        let slots = vec![
            Slot { name: "good", source: Some(good), error: None, told: None, otherwise: Status::default() },
            Slot { name: "bad", source: None, error, told: None, otherwise: failed },
        ];
        Sources { slots: Arc::new(Mutex::new(slots)), edge: Arc::default(), begun: Instant::now() }
    }

    #[tokio::test]
    async fn one_failed_source_leaves_the_other_up() {
        let stopped = Arc::default();
        let sources = sources(&stopped);
        let figures = SelfFigures::default();
        sources.tell(&figures);
        assert_eq!(figures.get("good", &SOURCE_UP), Some(1.0));
        assert_eq!(figures.get("good", &DROPPED_RECORDS), Some(4.0));
        assert_eq!(figures.get("good", &CONNECTED_RANKS), Some(2.0));
        assert_eq!(figures.get("good", &OVERRUNS), None);
        assert_eq!(figures.get("bad", &SOURCE_UP), Some(0.0));
        assert_eq!(figures.get("bad", &FAILED_READS), Some(1.0));
        assert!(sources.mistake().is_none());
        sources.stop().await;
        assert!(*stopped.lock().unwrap());
        sources.tell(&figures);
        assert_eq!(figures.get("good", &SOURCE_UP), Some(0.0));
        assert_eq!(figures.get("good", &DROPPED_RECORDS), Some(4.0));
    }

    #[tokio::test]
    async fn a_source_that_ceases_to_deliver_is_an_event() {
        let sources = sources(&Arc::default());
        let kinds = |events: Vec<Event>| {
            events.into_iter().map(|event| (event.source, event.kind)).collect::<Vec<_>>()
        };
        let down = |source: &str| (source.to_owned(), "source.down".to_owned());
        assert_eq!(kinds(sources.changes(1, false)), [down("bad")]);
        assert!(sources.changes(2, false).is_empty());
        assert_eq!(kinds(sources.changes(3, true)), [down("bad")]);
        sources.stop().await;
        let events = sources.changes(4, false);
        assert_eq!(events[0].text, "stopped");
        assert_eq!(kinds(events), [down("good")]);
    }

    #[test]
    fn what_the_node_does_not_have_is_absent_until_it_was_there() {
        let figures = SelfFigures::default();
        let up_after = |health, is_beginning| {
            tell(&figures, "nvml", &Status { health, ..Status::default() }, is_beginning);
            figures.get("nvml", &SOURCE_UP)
        };
        assert_eq!(up_after(Health::Starting, true), None);
        assert_eq!(up_after(Health::NotHere, false), None);
        assert_eq!(up_after(Health::Starting, false), Some(0.0), "a start that takes too long shows");
        assert_eq!(up_after(Health::Up, false), Some(1.0));
        assert_eq!(up_after(Health::NotHere, false), Some(0.0), "it was there");
    }

    #[test]
    fn what_the_node_does_not_have_is_an_event_that_is_no_warning() {
        let absent =
            Status { health: Health::NotHere, state: "no_gpu".into(), settled: true, ..Status::default() };
        let slot = Slot { name: "nvml", source: None, error: None, told: None, otherwise: absent };
        let sources =
            Sources { slots: Arc::new(Mutex::new(vec![slot])), edge: Arc::default(), begun: Instant::now() };
        let event = sources.changes(1, false).remove(0);
        assert_eq!((event.kind.as_str(), event.severity.as_str()), ("source.absent", "info"));
        assert!(sources.changes(2, false).is_empty());
    }

    #[test]
    fn states_are_exposed() {
        let mut page = Page::default();
        sources(&Arc::default()).expose(&mut page);
        let text = page.encode(throughline_daemon::Format::Text);
        assert!(text.contains("throughline_source_info{source=\"bad\",state=\"start_failed\"} 1"), "{text}");
    }
}
