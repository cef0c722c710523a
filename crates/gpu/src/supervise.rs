//! Keeping one sampler running: the loop that every source of this crate has, whatever its sampler reads.
//!
//! It never waits for the receiver and never fails the agent: all that can go wrong is a state and a count. What a frame
//! means, and when to give way to others, is the [`Kind`]'s.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use throughline_sample::wire;
use tokio::sync::mpsc;

use crate::frame::Body;
use crate::status::{SourceStatus, State};
use keeper::Keeper;

mod incidents;
mod keeper;
mod outlet;
mod usage;

pub use outlet::{BUSY, PAUSED, RESUMED};
pub(crate) use outlet::{Interruption, Outlet};

/// Turns `CLOCK_MONOTONIC` nanoseconds into UTC nanoseconds.
pub type Clock = Arc<dyn Fn(i64) -> i64 + Send + Sync>;

/// A byte that only wakes the keeper.
const WAKE: u8 = b'w';

/// How long a sampler may be silent, and when the next one is started. The defaults suit an agent.
#[derive(Clone, Debug)]
pub struct Pace {
    /// How long the start may take: a driver that is not kept loaded takes seconds for each GPU.
    pub start_deadline: Duration,
    /// Longest silence of a running sampler before it is killed; at least 3 intervals are given.
    pub silence: Duration,
    /// Pause after a first failure; doubled with each further one.
    pub first_pause: Duration,
    /// Longest pause after failures.
    pub longest_pause: Duration,
    /// Pause before a node where there is nothing to read is looked at again.
    pub recheck: Duration,
    /// A sampler that gave readings for so long was healthy: the pause after it is the first one again.
    pub healthy_after: Duration,
    /// Processor time that a sampler may use until its first reading, before it is killed.
    pub start_processor_max: Duration,
    /// Memory that a sampler may occupy before it is killed and started anew: those of all sources and the agent together
    /// stay below the limit of the agent's unit (`MemoryMax` in deploy/systemd).
    pub memory_bytes_max: u64,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            start_deadline: Duration::from_secs(60),
            silence: Duration::from_secs(10),
            first_pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(60),
            recheck: Duration::from_secs(60),
            healthy_after: Duration::from_secs(60),
            start_processor_max: Duration::from_secs(20),
            memory_bytes_max: 192 << 20,
        }
    }
}

/// The source could not even be set up: the system is out of threads or descriptors.
#[derive(Debug, thiserror::Error)]
#[error("cannot start a source of GPUs: {0}; the process may be out of threads or file descriptors")]
pub struct StartError(#[from] std::io::Error);

/// One kind of sampler.
pub(crate) trait Kind: Send + 'static {
    /// A byte that orders the sampler to give all back and end; a kind without it is killed.
    const QUIT: Option<u8> = None;
    /// Whether there may be a reason to give way. A kind without one wakes nobody while it reads.
    const GIVES_WAY: bool = false;

    /// The name of the source in records.
    fn name(&self) -> &'static str;

    /// How to start a sampler.
    fn command(&self) -> Command;

    /// A sampler has been started.
    fn started(&mut self) {}

    /// Takes a frame.
    fn frame(&mut self, body: Body, outlet: &Outlet) -> FrameKind;

    /// Why nothing may be read now; looked at again and again.
    fn reason_to_give_way(&self, _outlet: &Outlet) -> Option<Interruption> {
        None
    }
}

/// What a frame says of its sampler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameKind {
    /// Nothing: it is no reading.
    Other,
    /// A reading in which no value could be read: the sampler lives.
    Empty,
    /// A reading.
    Reading,
}

/// A thread that panicked left numbers that are still numbers.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The thread that keeps a sampler running. Dropping it ends the sampler.
pub(crate) struct Supervisor {
    status: Arc<Mutex<SourceStatus>>,
    // Each byte is an order, or only wakes it; closing it is the signal to stop.
    query: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Supervisor {
    /// Starts it. `interval` is from one reading to the next.
    ///
    /// # Errors
    /// Only when the system gives no thread or socket.
    pub(crate) fn start<K: Kind>(
        kind: K,
        pace: Pace,
        interval: Duration,
        clock: Clock,
        records: mpsc::Sender<wire::Batch>,
    ) -> Result<Self, StartError> {
        let (query, requested) = UnixStream::pair()?;
        query.set_nonblocking(true)?;
        requested.set_nonblocking(true)?;
        let status = Arc::new(Mutex::new(SourceStatus::default()));
        let name = format!("gpu-{}", kind.name());
        let outlet = Outlet::new(kind.name(), Arc::clone(&status), clock, records);
        let silence = pace.silence.max(interval * 3);
        let keeper = Keeper::new(kind, Pace { silence, ..pace }, outlet, requested);
        // A thread of its own, for as long as the source: the kernel ends a sampler with the thread that
        // started it, so a runtime's worker will not do.
        let thread = std::thread::Builder::new().name(name).spawn(move || keeper.keep())?;
        Ok(Self { status, query: Some(query), thread: Some(thread) })
    }

    /// Hands an order on to the sampler; whether one runs that can take it. Waits for nothing.
    pub(crate) fn order(&self, order: u8) -> bool {
        // A full socket holds thousands of orders that wait already.
        let reported = self.query.as_ref().is_some_and(|mut query| query.write(&[order]).is_ok());
        reported && lock(&self.status).state == State::Running
    }

    /// Has reasons to give way looked at now.
    pub(crate) fn wake(&self) {
        self.order(WAKE);
    }

    pub(crate) fn status(&self) -> SourceStatus {
        lock(&self.status).clone()
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        drop(self.query.take());
        if let Some(thread) = self.thread.take() {
            // Bounded: it waits for the sampler's own end and for a killed one. A panic there has been reported.
            let _ = thread.join();
        }
    }
}
