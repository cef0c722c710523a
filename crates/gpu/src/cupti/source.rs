//! The source as the agent has it: keeps one sampler of CUPTI running, gives way, and hands records on.
//!
//! It never waits for the receiver and never fails the agent: all that can go wrong is a state and a count.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use throughline_sample::wire;
use tokio::sync::mpsc;

use super::code::HARDWARE_BUSY;
use super::convert::{CuptiConverter, SOURCE};
use super::frame::{CuptiHello, CuptiPoll};
use super::lease::Leases;
use super::sampler::{CUPTI_SUBCOMMAND, CuptiSamplerOptions, QUIT};
use crate::frame::Body;
use crate::poll::monotonic_nanoseconds;
use crate::session::{Next, Session};
use crate::source::{Clock, StartError};
use crate::status::{End, State};

/// From one look at leases and the pause to the next: a profiler that starts gets the GPU within a second.
const LOOK: Duration = Duration::from_millis(200);
/// How long a sampler may take to give the GPUs back before it is killed.
const QUIT_WAIT: Duration = Duration::from_millis(500);
/// A sampler that lived this long was healthy: the next pause is short again.
const HEALTHY_AFTER: Duration = Duration::from_secs(60);

/// How the source works. The defaults suit an agent.
#[derive(Clone, Debug)]
pub struct CuptiConfig {
    /// Path of libcuda, or a name that the dynamic loader finds.
    pub cuda: PathBuf,
    /// Path of libcupti, or a name that the dynamic loader finds.
    pub cupti: PathBuf,
    /// From one record to the next.
    pub interval: Duration,
    /// From one sample on the GPU to the next.
    pub sample_interval: Duration,
    /// The user and group that the sampler runs as; the agent's where absent.
    pub user: Option<(u32, u32)>,
    /// Where jobs take the GPUs for their own profilers.
    pub leases: Leases,
    /// How long the start may take: the driver, and a context on each GPU of Volta.
    pub start_deadline: Duration,
    /// Longest silence of a running sampler before it is killed; at least 3 intervals are given.
    pub silence: Duration,
    /// Pause after a first failure; doubled with each further one.
    pub first_pause: Duration,
    /// Longest pause after failures.
    pub longest_pause: Duration,
    /// Pause before a node where there is nothing to read is looked at again.
    pub recheck: Duration,
    /// The program that runs [`cupti_sampler_main`](super::cupti_sampler_main).
    pub program: PathBuf,
}

impl Default for CuptiConfig {
    fn default() -> Self {
        Self {
            cuda: PathBuf::from("libcuda.so.1"),
            cupti: PathBuf::from("libcupti.so"),
            interval: Duration::from_secs(1),
            sample_interval: Duration::from_millis(10),
            user: None,
            leases: Leases {
                folder: PathBuf::from("/run/throughline/gpu-leases"),
                longest: Duration::from_secs(24 * 3600),
            },
            start_deadline: Duration::from_secs(60),
            silence: Duration::from_secs(10),
            first_pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(60),
            recheck: Duration::from_secs(60),
            program: PathBuf::from("/proc/self/exe"),
        }
    }
}

/// A snapshot of the source.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CuptiStatus {
    /// What it is doing.
    pub state: State,
    /// What the last problem was or why it gives way, for people, with the remedy.
    pub detail: Option<String>,
    /// `cuptiGetVersion`, once known.
    pub cupti_version: Option<u32>,
    /// GPUs in the last reading, and those of them that were read.
    pub gpus: (u32, u32),
    /// The sampler's process, while there is one.
    pub pid: Option<u32>,
    /// Samplers started.
    pub starts: u64,
    /// How samplers ended, by reason. Giving way is none.
    pub ends: BTreeMap<End, u64>,
    /// Times that it gave way to a pause or a lease.
    pub gave_way: u64,
    /// Readings taken over.
    pub polls: u64,
    /// Batches that found the channel full and were dropped.
    pub dropped_batches: u64,
    /// Ticks missed because a reading took too long.
    pub overruns: u64,
    /// GPUs that could not be read, by reason, summed up over readings.
    pub absent: BTreeMap<&'static str, u64>,
    /// From opening the libraries until all GPUs were sampled, at the last start.
    pub start_seconds: Option<f64>,
    /// How long the last reading of all GPUs took.
    pub last_poll_seconds: f64,
    /// How long giving the GPUs back took, the last time that it was waited for.
    pub end_seconds: Option<f64>,
}

/// Readings of all GPUs through CUPTI. Dropping it ends the sampler.
pub struct CuptiSource {
    status: Arc<Mutex<CuptiStatus>>,
    paused_until: Arc<Mutex<Option<Instant>>>,
    // A byte wakes the keeper; closing it is the signal to stop.
    wake: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl CuptiSource {
    /// Starts the source. Each reading becomes one batch in `records`; a full channel costs the batch, which is counted.
    ///
    /// # Errors
    /// Only when the system gives no thread or socket. No NVIDIA software is no error but a status.
    pub fn start(
        config: CuptiConfig,
        clock: Clock,
        records: mpsc::Sender<wire::Batch>,
    ) -> Result<Self, StartError> {
        let (wake, woken) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        woken.set_nonblocking(true)?;
        let status = Arc::new(Mutex::new(CuptiStatus::default()));
        let paused_until = Arc::default();
        let keeper = Keeper {
            config,
            clock,
            records,
            status: Arc::clone(&status),
            paused_until: Arc::clone(&paused_until),
            woken,
            converter: CuptiConverter::default(),
            wedged: None,
        };
        // A thread of its own, for as long as the source: the kernel ends a sampler with the thread that started it.
        let thread = std::thread::Builder::new().name("gpu-cupti".into()).spawn(move || keeper.keep())?;
        Ok(Self { status, paused_until, wake: Some(wake), thread: Some(thread) })
    }

    /// Gives every GPU back for so long, within a second.
    pub fn pause(&self, duration: Duration) {
        self.set_pause(Instant::now().checked_add(duration));
    }

    /// Ends a pause; a lease still holds.
    pub fn resume(&self) {
        self.set_pause(None);
    }

    fn set_pause(&self, until: Option<Instant>) {
        *self.paused_until.lock().unwrap_or_else(PoisonError::into_inner) = until;
        // A full socket holds bytes that wake it as well.
        let _ = self.wake.as_ref().map(|mut wake| wake.write(b"w"));
    }

    /// What the source is doing and what was lost.
    #[must_use]
    pub fn status(&self) -> CuptiStatus {
        lock(&self.status).clone()
    }
}

impl Drop for CuptiSource {
    fn drop(&mut self) {
        drop(self.wake.take());
        if let Some(thread) = self.thread.take() {
            // Bounded: it waits for the sampler's own end and for a killed one. A panic there has been reported.
            let _ = thread.join();
        }
    }
}

/// A thread that panicked left numbers that are still numbers.
fn lock(status: &Mutex<CuptiStatus>) -> MutexGuard<'_, CuptiStatus> {
    status.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why a sampler's life ended.
enum Ended {
    By(End, String),
    /// The keeper wants it to end, for a time.
    GaveWay(String),
}

/// Keeps a sampler running until told to stop.
struct Keeper {
    config: CuptiConfig,
    clock: Clock,
    records: mpsc::Sender<wire::Batch>,
    status: Arc<Mutex<CuptiStatus>>,
    paused_until: Arc<Mutex<Option<Instant>>>,
    woken: UnixStream,
    converter: CuptiConverter,
    wedged: Option<Child>,
}

impl Keeper {
    fn keep(mut self) {
        let mut pause = self.config.first_pause;
        let mut last_end = None;
        loop {
            if let Some(reason) = self.reason_to_give_way() {
                self.note_way(reason);
                if self.stopped_within(LOOK) {
                    return;
                }
                continue;
            }
            let begin = Instant::now();
            let ended = if self.is_wedged() {
                Ended::By(End::Silent, "a sampler that was killed is still held by the driver".to_owned())
            } else {
                self.run_sampler()
            };
            let (end, text) = match ended {
                Ended::GaveWay(reason) => {
                    lock(&self.status).gave_way += 1;
                    self.note_way(reason);
                    continue;
                }
                Ended::By(end, text) => (end, text),
            };
            self.note_end(end, &text, last_end);
            if end == End::Stopped {
                return;
            }
            if begin.elapsed() >= HEALTHY_AFTER {
                pause = self.config.first_pause;
            }
            let wait = if end.is_nothing_to_read() { self.config.recheck } else { pause };
            if self.stopped_within(wait) {
                return;
            }
            pause = (pause * 2).min(self.config.longest_pause);
            last_end = Some(end);
        }
    }

    /// Why nothing may be sampled now.
    fn reason_to_give_way(&self) -> Option<String> {
        let until = *self.paused_until.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(left) = until.and_then(|until| until.checked_duration_since(Instant::now())) {
            return Some(format!(
                "paused for {} s; `throughline-agent gpu resume` ends it",
                left.as_secs() + 1
            ));
        }
        let name = self.config.leases.taken()?;
        let folder = self.config.leases.folder.display();
        Some(format!("{folder}/{name} has the GPUs for a profiler; removing the file ends it"))
    }

    fn note_way(&self, reason: String) {
        let mut status = lock(&self.status);
        if status.state != State::Paused {
            tracing::info!("GPU sampling gives way: {reason}");
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

    fn command(&self) -> Command {
        let options = CuptiSamplerOptions {
            cuda: self.config.cuda.clone(),
            cupti: self.config.cupti.clone(),
            interval: self.config.interval,
            sample_interval: self.config.sample_interval,
            parent: std::process::id(),
        };
        let mut command = Command::new(&self.config.program);
        command.arg(CUPTI_SUBCOMMAND).args(options.to_arguments());
        if let Some((user, group)) = self.config.user {
            command.uid(user).gid(group);
        }
        command
    }

    /// One sampler from start to end.
    fn run_sampler(&mut self) -> Ended {
        let mut session = match Session::of(self.command()) {
            Ok(session) => session,
            Err(error) => {
                let program = self.config.program.display();
                return Ended::By(
                    End::SpawnFailed,
                    format!("cannot start {program} for the sampler: {error}"),
                );
            }
        };
        {
            let mut status = lock(&self.status);
            status.starts += 1;
            status.state = State::Starting;
            status.pid = Some(session.pid());
        }
        let silence = self.config.silence.max(self.config.interval * 3);
        let mut deadline = Instant::now() + self.config.start_deadline;
        let ended = loop {
            match session.next(deadline.min(Instant::now() + LOOK), self.woken.as_fd()) {
                Next::Asked if self.is_to_stop() => {
                    break Ended::By(End::Stopped, "the source is no longer wanted".to_owned());
                }
                Next::Asked => {}
                Next::Frame(Body::CuptiHello(hello)) => self.hello(&hello),
                Next::Frame(Body::CuptiPoll(poll)) => {
                    self.poll(&poll);
                    deadline = Instant::now() + silence;
                }
                // Frames of another sampler's kind are nobody's here; `next` gives a problem as an end.
                Next::Frame(_) => {}
                Next::End(End::Silent, _) if Instant::now() < deadline => {}
                Next::End(end, text) => break Ended::By(end, text),
            }
            if let Some(reason) = self.reason_to_give_way() {
                break Ended::GaveWay(reason);
            }
        };
        if matches!(&ended, Ended::GaveWay(_) | Ended::By(End::Stopped, _)) {
            self.let_go(&mut session);
        }
        self.wedged = session.end();
        ended
    }

    /// Has the sampler give the GPUs back by itself, for a bounded time.
    fn let_go(&self, session: &mut Session) {
        session.tell(QUIT);
        let deadline = Instant::now() + QUIT_WAIT;
        // A socket on which nothing ever comes: the reason to end is known.
        let Ok((quiet, _other)) = UnixStream::pair() else { return };
        while Instant::now() < deadline {
            match session.next(deadline, quiet.as_fd()) {
                Next::Frame(Body::CuptiBye(bye)) => {
                    let seconds = bye.end_nanoseconds as f64 / 1e9;
                    tracing::info!(seconds, "the GPUs are given back");
                    lock(&self.status).end_seconds = Some(seconds);
                    return;
                }
                Next::Frame(_) | Next::Asked => {}
                Next::End(..) => return,
            }
        }
    }

    /// Takes bytes that woke it; true where the source was dropped.
    fn is_to_stop(&mut self) -> bool {
        let mut bytes = [0; 64];
        match self.woken.read(&mut bytes) {
            Ok(0) => true,
            Ok(_) => false,
            Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
        }
    }

    fn hello(&self, hello: &CuptiHello) {
        let seconds = hello.start_nanoseconds as f64 / 1e9;
        tracing::info!(cupti = hello.cupti_version, cuda = hello.cuda_version, seconds, "CUPTI is open");
        let mut status = lock(&self.status);
        status.cupti_version = Some(hello.cupti_version);
        status.start_seconds = Some(seconds);
    }

    fn poll(&mut self, poll: &CuptiPoll) {
        let converted = self.converter.poll(poll, &*self.clock);
        let sent = self.records.try_send(converted.batch).is_ok();
        let read = poll.gpus.iter().filter(|gpu| gpu.code == 0).count();
        let problem = poll.gpus.iter().find(|gpu| gpu.code != 0);
        let is_busy = poll.gpus.iter().any(|gpu| gpu.code == HARDWARE_BUSY);
        let mut status = lock(&self.status);
        status.state = match read {
            0 if is_busy => State::Busy,
            0 => State::BackingOff,
            _ => State::Running,
        };
        status.detail = problem.map(|gpu| format!("GPU {}: {}", gpu.index, gpu.problem));
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        status.gpus = (count(poll.gpus.len()), count(read));
        status.polls += 1;
        status.dropped_batches += u64::from(!sent);
        status.overruns = poll.overruns;
        status.last_poll_seconds = poll.elapsed_nanoseconds as f64 / 1e9;
        for (reason, count) in converted.absent {
            *status.absent.entry(reason).or_default() += count;
        }
    }

    /// Counts an end, tells of it once, and sends an event where it is a fault.
    fn note_end(&mut self, end: End, text: &str, last: Option<End>) {
        {
            let mut status = lock(&self.status);
            *status.ends.entry(end).or_default() += 1;
            status.pid = self.wedged.as_ref().map(Child::id);
            status.state = if self.wedged.is_some() { State::Wedged } else { end.state_after() };
            status.detail = Some(text.to_owned());
        }
        let repeated = last == Some(end);
        match (end, end.is_nothing_to_read()) {
            (End::Stopped, _) => return,
            (_, true) if repeated => tracing::debug!(reason = end.name(), "no GPU sampling: {text}"),
            (_, true) => tracing::info!(reason = end.name(), "no GPU sampling: {text}"),
            (_, false) => tracing::warn!(reason = end.name(), "GPU sampling interrupted: {text}"),
        }
        if end.is_nothing_to_read() || repeated {
            return;
        }
        let event = wire::Event {
            time: (self.clock)(monotonic_nanoseconds()),
            source: SOURCE.to_owned(),
            kind: format!("source.{}", end.name()),
            severity: "warning".to_owned(),
            text: text.to_owned(),
            ..wire::Event::default()
        };
        if self.records.try_send(wire::Batch { events: vec![event], ..wire::Batch::default() }).is_err() {
            lock(&self.status).dropped_batches += 1;
        }
    }

    /// Waits, but not longer than until the source is dropped or a pause is asked for.
    fn stopped_within(&mut self, wait: Duration) -> bool {
        let milliseconds = u16::try_from(wait.as_millis() + 1).unwrap_or(u16::MAX);
        let mut watched = [PollFd::new(self.woken.as_fd(), PollFlags::POLLIN)];
        matches!(poll(&mut watched, PollTimeout::from(milliseconds)), Ok(1..)) && self.is_to_stop()
    }
}
