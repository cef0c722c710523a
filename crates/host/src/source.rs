//! The source as the agent has it: reads the tree at an interval on a thread of its own and hands records on.
//!
//! A read of sysfs queries the adapter's firmware and can hang with it: nobody waits for this thread without a
//! bound, and a reading that does not come back is a state.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use throughline_sample::row_rules::is_rate;
use throughline_sample::wire;
use tokio::sync::mpsc;

use crate::convert::{Converter, SOURCE};
use crate::sysfs;

/// Gives UTC nanoseconds since 1970.
pub type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// A reading that takes longer than this is shown as stalled.
const STALLED_AFTER: Duration = Duration::from_secs(10);
/// How long a dropped source waits for a reading that is under way; after that the thread is left behind.
const STOP_WAIT: Duration = Duration::from_secs(1);

/// How the source works. The defaults suit an agent.
#[derive(Clone, Debug)]
pub struct SysfsConfig {
    /// Where sysfs is mounted.
    pub root: PathBuf,
    /// From one reading to the next.
    pub interval: Duration,
}

impl Default for SysfsConfig {
    fn default() -> Self {
        Self { root: PathBuf::from("/sys"), interval: Duration::from_secs(1) }
    }
}

/// The source could not even be set up: the system gives no thread.
#[derive(Debug, thiserror::Error)]
#[error("cannot start the source sysfs: {0}; the process may be out of threads")]
pub struct StartError(#[from] std::io::Error);

/// What the source is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Nothing has been read yet.
    #[default]
    Starting,
    /// Readings go on.
    Running,
    /// This host has no InfiniBand adapter. Looked for at every tick.
    NoAdapter,
    /// The tree can't be listed for another reason.
    Unreadable,
    /// A reading does not come back: the adapter's firmware or driver hangs.
    Stalled,
}

impl State {
    /// Name for people and labels.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            State::Starting => "starting",
            State::Running => "running",
            State::NoAdapter => "no_adapter",
            State::Unreadable => "unreadable",
            State::Stalled => "stalled",
        }
    }
}

/// A snapshot of the source. Counts are since its start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SysfsStatus {
    /// Its state.
    pub state: State,
    /// Why it does not deliver, for people, with the remedy.
    pub detail: Option<String>,
    /// Adapters in the last reading.
    pub adapters: usize,
    /// Ports in the last reading that had a value.
    pub ports: usize,
    /// Readings handed on.
    pub rounds: u64,
    /// Batches that found the channel full and were dropped.
    pub dropped_batches: u64,
    /// Ticks missed because a reading took too long.
    pub overruns: u64,
    /// Values that could not be read, by reason.
    pub absent_values: BTreeMap<&'static str, u64>,
    /// How long the last reading took.
    pub last_round_seconds: f64,
}

/// Readings of this host's InfiniBand ports. Dropping it ends them.
pub struct SysfsSource {
    shared: Arc<Mutex<SourceState>>,
    // A word requests a reading now; dropping it is the signal to stop.
    query: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct SourceState {
    status: SysfsStatus,
    reading_since: Option<Instant>,
}

impl SysfsSource {
    /// Starts the source. Each reading becomes one batch in `records`; its node, boot and order are left to the
    /// receiver. A full channel costs the batch, which is counted.
    ///
    /// # Errors
    /// Only when the system gives no thread. A host without adapters is no error but a status.
    pub fn start(
        config: SysfsConfig,
        clock: Clock,
        records: mpsc::Sender<wire::Batch>,
    ) -> Result<Self, StartError> {
        let shared = Arc::new(Mutex::new(SourceState::default()));
        // One word waits: several that come while a reading is under way request the same one.
        let (query, requested) = sync_channel::<()>(1);
        let mut reader = Reader {
            config,
            clock,
            records,
            converter: Converter::default(),
            sent: None,
            shared: Arc::clone(&shared),
        };
        let thread = std::thread::Builder::new().name("sysfs".into()).spawn(move || {
            let mut next = Instant::now() + phase(reader.config.interval);
            reader.round(false);
            loop {
                let wait = next.saturating_duration_since(Instant::now());
                match requested.recv_timeout(wait) {
                    Err(RecvTimeoutError::Timeout) => {
                        reader.round(false);
                        next = reader.after(next);
                    }
                    // Between two ticks, which stay where they are.
                    Ok(()) => reader.round(true),
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        })?;
        Ok(Self { shared, query: Some(query), thread: Some(thread) })
    }

    /// Requests a reading at once, beside the ticks. Waits for nothing.
    pub fn sample_now(&self) {
        if let Some(query) = &self.query {
            // Full: a reading that begins from now on is requested already.
            let _ = query.try_send(());
        }
    }

    /// What the source is doing and what was lost.
    #[must_use]
    pub fn status(&self) -> SysfsStatus {
        let shared = lock(&self.shared);
        let mut status = shared.status.clone();
        if shared.reading_since.is_some_and(|since| since.elapsed() > STALLED_AFTER) {
            status.state = State::Stalled;
            let remedy = "a read of sysfs does not come back; see the kernel's log for the adapter's driver";
            status.detail = Some(remedy.to_owned());
        }
        status
    }
}

impl Drop for SysfsSource {
    fn drop(&mut self) {
        drop(self.query.take());
        let Some(thread) = self.thread.take() else { return };
        let deadline = Instant::now() + STOP_WAIT;
        while !thread.is_finished() {
            if Instant::now() >= deadline {
                tracing::warn!("a reading of sysfs does not come back; its thread is left behind");
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        // It has ended; a panic there has been reported already.
        let _ = thread.join();
    }
}

/// A share of the interval of its own for each process, so that a thousand nodes started together do not all
/// read, and send, at the same instant.
fn phase(interval: Duration) -> Duration {
    let now = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.subsec_nanos());
    interval * ((now ^ std::process::id()) % 1009) / 1009
}

/// A thread that panicked left numbers that are still numbers.
fn lock(shared: &Mutex<SourceState>) -> MutexGuard<'_, SourceState> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Reader {
    config: SysfsConfig,
    clock: Clock,
    records: mpsc::Sender<wire::Batch>,
    converter: Converter,
    /// Of the last reading of ports that became rows: its time, and how long it took.
    sent: Option<(i64, Duration)>,
    shared: Arc<Mutex<SourceState>>,
}

impl Reader {
    /// One reading. One that was requested is of a job's edge, and becomes rows whenever it is.
    fn round(&mut self, is_requested: bool) {
        let begin = Instant::now();
        lock(&self.shared).reading_since = Some(begin);
        let before = (self.clock)();
        let tree = sysfs::read(&self.config.root);
        let elapsed = begin.elapsed();
        // The middle of the reading stands for all of it.
        let time = before + i64::try_from(elapsed.as_nanos() / 2).unwrap_or(0);
        let (state, detail) = match &tree {
            Ok(tree) if !tree.adapters.is_empty() => (State::Running, None),
            Ok(_) => (State::NoAdapter, Some(self.no_adapter())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                (State::NoAdapter, Some(self.no_adapter()))
            }
            Err(error) => {
                let class = self.config.root.join("class/infiniband");
                let text = format!("cannot list {}: {error}; the agent needs to read it", class.display());
                (State::Unreadable, Some(text))
            }
        };
        self.report_change(state, detail.as_deref());
        let tree = tree.unwrap_or_default();
        let adapters = tree.adapters.len();
        // Converted also when there is nothing: an adapter that went away is dropped.
        let mut converted = self.converter.convert(&tree, time, elapsed.as_secs_f64());
        let ports = converted.batch.host_ports.len();
        // If no rates may be taken since the last rows, the next ones have all of it.
        if !is_requested && self.sent.is_some_and(|sent| !is_rate(sent, (time, elapsed))) {
            converted.batch.host_ports.clear();
        } else if !converted.batch.host_ports.is_empty() {
            self.sent = Some((time, elapsed));
        }
        // Of a host without adapters there is nothing, but for those that have just gone.
        let is_nothing = adapters == 0 && converted.batch.events.is_empty();
        let sent = is_nothing || self.records.try_send(converted.batch).is_ok();
        let mut shared = lock(&self.shared);
        shared.reading_since = None;
        let status = &mut shared.status;
        (status.state, status.detail, status.adapters, status.ports) = (state, detail, adapters, ports);
        status.rounds += u64::from(adapters > 0);
        status.dropped_batches += u64::from(!sent);
        status.last_round_seconds = elapsed.as_secs_f64();
        for (reason, count) in converted.absent {
            *status.absent_values.entry(reason).or_default() += count;
        }
    }

    fn no_adapter(&self) -> String {
        let class = self.config.root.join("class/infiniband");
        format!("{} has no adapter: load its driver if this host has one", class.display())
    }

    fn report_change(&self, state: State, detail: Option<&str>) {
        let before = lock(&self.shared).status.state;
        if before != state {
            let reason = detail.unwrap_or_default();
            tracing::info!(source = SOURCE, state = state.name(), "{reason}");
        }
    }

    /// The tick after one that was due at `due`; ticks that have passed already are counted and left out.
    fn after(&self, due: Instant) -> Instant {
        let interval = self.config.interval.max(Duration::from_millis(1));
        let late = due.elapsed().as_nanos() / interval.as_nanos();
        if late > 0 {
            lock(&self.shared).status.overruns += u64::try_from(late).unwrap_or(u64::MAX);
        }
        due + interval * u32::try_from(late + 1).unwrap_or(u32::MAX)
    }
}
