//! Keeping one sampler running: the loop that every source of this crate has, whatever its sampler reads.
//!
//! It never waits for the receiver and never fails the agent: all that can go wrong is a state and a count. What a frame
//! means, and when to give way to others, is the [`Kind`]'s.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use throughline_sample::wire;
use tokio::sync::mpsc;

use crate::frame::Body;
use crate::poll::monotonic_nanoseconds;
use crate::session::{Session, SessionEvent};
use crate::status::{End, SourceStatus, State};

/// Turns `CLOCK_MONOTONIC` nanoseconds into UTC nanoseconds.
pub type Clock = Arc<dyn Fn(i64) -> i64 + Send + Sync>;

/// A sampler that lived this long was healthy: the next pause is short again.
const HEALTHY_AFTER: Duration = Duration::from_secs(60);
/// From one look at reasons to give way to the next: a profiler that starts gets the GPU within a second.
const LOOK: Duration = Duration::from_millis(200);
/// How long a sampler may take to give the GPUs back before it is killed.
const QUIT_WAIT: Duration = Duration::from_millis(500);
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
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            start_deadline: Duration::from_secs(60),
            silence: Duration::from_secs(10),
            first_pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(60),
            recheck: Duration::from_secs(60),
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

    /// Takes a frame; true where it is a reading.
    fn frame(&mut self, body: Body, outlet: &Outlet) -> bool;

    /// Why nothing may be read now; looked at again and again.
    fn reason_to_give_way(&self) -> Option<String> {
        None
    }
}

/// Where a source's records and its status go.
pub(crate) struct Outlet {
    status: Arc<Mutex<SourceStatus>>,
    clock: Clock,
    records: mpsc::Sender<wire::Batch>,
}

impl Outlet {
    /// UTC of `CLOCK_MONOTONIC`, both nanoseconds.
    pub(crate) fn utc(&self, monotonic: i64) -> i64 {
        (self.clock)(monotonic)
    }

    pub(crate) fn status(&self) -> MutexGuard<'_, SourceStatus> {
        lock(&self.status)
    }

    /// Hands a batch on, or drops and counts it; whether it was handed on.
    pub(crate) fn send(&self, batch: wire::Batch) -> bool {
        let sent = self.records.try_send(batch).is_ok();
        self.status().dropped_batches += u64::from(!sent);
        sent
    }
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
        let outlet = Outlet { status: Arc::clone(&status), clock, records };
        let silence = pace.silence.max(interval * 3);
        let keeper = Keeper { kind, pace: Pace { silence, ..pace }, outlet, requested, wedged: None };
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

/// Why a sampler's life ended.
enum SamplerEnd {
    By(End, String),
    /// The keeper wants it to end, for a time.
    GaveWay(String),
}

/// Keeps a sampler running until it has to stop.
struct Keeper<K> {
    kind: K,
    pace: Pace,
    outlet: Outlet,
    requested: UnixStream,
    wedged: Option<Child>,
}

impl<K: Kind> Keeper<K> {
    fn keep(mut self) {
        let mut pause = self.pace.first_pause;
        let mut last_end = None;
        loop {
            if let Some(reason) = self.kind.reason_to_give_way() {
                self.note_way(reason);
                if self.stopped_within(LOOK) {
                    return;
                }
                continue;
            }
            let begin = Instant::now();
            let ended = if self.is_wedged() {
                SamplerEnd::By(
                    End::Silent,
                    "a sampler that was killed is still held by the driver".to_owned(),
                )
            } else {
                self.run_sampler()
            };
            let (end, text) = match ended {
                SamplerEnd::GaveWay(reason) => {
                    self.outlet.status().gave_way += 1;
                    self.note_way(reason);
                    continue;
                }
                SamplerEnd::By(end, text) => (end, text),
            };
            self.note_end(end, &text, last_end);
            if end == End::Stopped {
                return;
            }
            if begin.elapsed() >= HEALTHY_AFTER {
                pause = self.pace.first_pause;
            }
            let wait = if end.is_nothing_to_read() { self.pace.recheck } else { pause };
            if self.stopped_within(wait) {
                return;
            }
            pause = (pause * 2).min(self.pace.longest_pause);
            last_end = Some(end);
        }
    }

    fn note_way(&self, reason: String) {
        let mut status = self.outlet.status();
        if status.state != State::Paused {
            tracing::info!(source = self.kind.name(), "gives way: {reason}");
        }
        status.state = if self.wedged.is_some() { State::Wedged } else { State::Paused };
        status.detail = Some(reason);
        status.pid = self.wedged.as_ref().map(Child::id);
    }

    /// Whether a killed sampler is still there; a second one would hang beside it.
    fn is_wedged(&mut self) -> bool {
        let is_there = matches!(self.wedged.as_mut().map(Child::try_wait), Some(Ok(None)));
        if !is_there {
            self.wedged = None;
        }
        is_there
    }

    /// One sampler from start to end.
    fn run_sampler(&mut self) -> SamplerEnd {
        let command = self.kind.command();
        let program = command.get_program().to_owned();
        let mut session = match Session::start(command) {
            Ok(session) => session,
            Err(error) => {
                let text = format!("cannot start {} for the sampler: {error}", program.display());
                return SamplerEnd::By(End::SpawnFailed, text);
            }
        };
        self.kind.started();
        {
            let mut status = self.outlet.status();
            status.starts += 1;
            status.state = State::Starting;
            status.pid = Some(session.pid());
        }
        let ended = self.listen(&mut session);
        if matches!(&ended, SamplerEnd::GaveWay(_) | SamplerEnd::By(End::Stopped, _)) {
            self.let_go(&mut session);
        }
        self.wedged = session.end();
        ended
    }

    /// Takes frames until the sampler ends or is to end.
    fn listen(&mut self, session: &mut Session) -> SamplerEnd {
        let mut deadline = Instant::now() + self.pace.start_deadline;
        loop {
            let until = if K::GIVES_WAY { deadline.min(Instant::now() + LOOK) } else { deadline };
            match session.next(until, self.requested.as_fd()) {
                SessionEvent::Requested => match self.orders() {
                    Some(orders) => orders.into_iter().for_each(|order| session.report(order)),
                    None => return SamplerEnd::By(End::Stopped, "the source is no longer wanted".to_owned()),
                },
                // `next` gives a problem as an end.
                SessionEvent::Frame(body) => {
                    if self.kind.frame(body, &self.outlet) {
                        deadline = Instant::now() + self.pace.silence;
                    }
                }
                // Only the time of a look is over.
                SessionEvent::End(End::Silent, _) if Instant::now() < deadline => {}
                SessionEvent::End(end, text) => return SamplerEnd::By(end, text),
            }
            if let Some(reason) = self.kind.reason_to_give_way() {
                return SamplerEnd::GaveWay(reason);
            }
        }
    }

    /// Has the sampler give the GPUs back by itself, for a bounded time.
    fn let_go(&self, session: &mut Session) {
        let Some(quit) = K::QUIT else { return };
        session.report(quit);
        let deadline = Instant::now() + QUIT_WAIT;
        // A socket on which nothing ever comes: the reason to end is known.
        let Ok((quiet, _other)) = UnixStream::pair() else { return };
        while Instant::now() < deadline {
            match session.next(deadline, quiet.as_fd()) {
                SessionEvent::Frame(Body::CuptiBye(bye)) => {
                    let seconds = bye.end_nanoseconds as f64 / 1e9;
                    tracing::info!(source = self.kind.name(), seconds, "the GPUs are given back");
                    self.outlet.status().end_seconds = Some(seconds);
                    return;
                }
                SessionEvent::Frame(_) | SessionEvent::Requested => {}
                SessionEvent::End(..) => return,
            }
        }
    }

    /// The source's orders since the last look, each order once; nothing where it is to stop.
    fn orders(&mut self) -> Option<Vec<u8>> {
        let mut bytes = [0; 64];
        let read = match self.requested.read(&mut bytes) {
            Ok(0) => return None,
            Ok(read) => read,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => 0,
            Err(_) => return None,
        };
        let mut orders: Vec<u8> = bytes[..read].iter().copied().filter(|byte| *byte != WAKE).collect();
        orders.sort_unstable();
        orders.dedup();
        Some(orders)
    }

    /// Counts an end, reports it once, and sends an event where it is a fault.
    fn note_end(&mut self, end: End, text: &str, last: Option<End>) {
        {
            let mut status = self.outlet.status();
            *status.ends.entry(end).or_default() += 1;
            status.pid = self.wedged.as_ref().map(Child::id);
            status.state = if self.wedged.is_some() { State::Wedged } else { end.state_after() };
            status.detail = Some(text.to_owned());
        }
        let (source, reason, repeated) = (self.kind.name(), end.name(), last == Some(end));
        match (end, end.is_nothing_to_read()) {
            (End::Stopped, _) => return,
            (_, true) if repeated => tracing::debug!(source, reason, "no GPU readings: {text}"),
            (_, true) => tracing::info!(source, reason, "no GPU readings: {text}"),
            (_, false) => tracing::warn!(source, reason, "GPU readings interrupted: {text}"),
        }
        if end.is_nothing_to_read() || repeated {
            return;
        }
        let event = wire::Event {
            time: self.outlet.utc(monotonic_nanoseconds()),
            source: source.to_owned(),
            kind: format!("source.{reason}"),
            severity: "warning".to_owned(),
            text: text.to_owned(),
            ..wire::Event::default()
        };
        self.outlet.send(wire::Batch { events: vec![event], ..wire::Batch::default() });
    }

    /// Waits, but not longer than until the source is dropped or there is a new reason to give way; true where it is
    /// dropped.
    fn stopped_within(&mut self, wait: Duration) -> bool {
        let deadline = Instant::now() + wait;
        let gives_way = self.kind.reason_to_give_way().is_some();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let milliseconds = u16::try_from(left.as_millis() + 1).unwrap_or(u16::MAX);
            let mut watched = [PollFd::new(self.requested.as_fd(), PollFlags::POLLIN)];
            // Orders that come while no sampler runs are for nobody.
            if let Ok(1..) = poll(&mut watched, PollTimeout::from(milliseconds)) {
                if self.orders().is_none() {
                    return true;
                }
                if self.kind.reason_to_give_way().is_some() != gives_way {
                    return false;
                }
            }
        }
    }
}
