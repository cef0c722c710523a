//! The source as the agent has it: keeps one sampler running and hands records on.
//!
//! It never waits for the receiver and never fails the agent: all that can go wrong is a state and a count.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Child;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use throughline_sample::wire;
use tokio::sync::mpsc;

use crate::code::Code;
use crate::convert::Converter;
use crate::frame::{Body, Hello, Poll, Processes, Survey};
use crate::place;
use crate::poll::monotonic_nanoseconds;
use crate::sampler::{Order, SamplerOptions};
use crate::session::{Next, Session};
use crate::status::{End, NvmlStatus, State};
use crate::vendor::Vendor;

/// Turns `CLOCK_MONOTONIC` nanoseconds into UTC nanoseconds.
pub type Clock = Arc<dyn Fn(i64) -> i64 + Send + Sync>;

/// What is there is told anew this often, so that a receiver that lost it has it again.
const INVENTORY_REPEAT: Duration = Duration::from_secs(600);
/// A sampler that lived this long was healthy: the next pause is short again.
const HEALTHY_AFTER: Duration = Duration::from_secs(60);

/// How long a list of processes tells the present: they are asked for more often while it matters.
const PROCESSES_AGE: Duration = Duration::from_secs(30);

/// When the processes were listed, and the GPUs of each, or why they are not known.
type Listed = (Instant, Result<BTreeMap<u32, Vec<String>>, &'static str>);

/// How the source works. The defaults suit an agent.
#[derive(Clone, Debug)]
pub struct NvmlConfig {
    /// Whose library is read.
    pub vendor: Vendor,
    /// Whether what there is is told; not where another source tells of the same GPUs.
    pub tells_inventory: bool,
    /// Path of the library, or a name that the dynamic loader finds.
    pub library: PathBuf,
    /// Where sysfs is mounted: it tells where GPUs and adapters stand.
    pub sysfs: PathBuf,
    /// From one reading to the next.
    pub interval: Duration,
    /// From one look at what there is to the next; a link that changes its state causes one at once.
    pub survey_interval: Duration,
    /// Whether a 32-bit PCIe counter is read some 20 times a second (on Gen5) to unfold it. Without it such a
    /// counter is absent.
    pub unfold_pcie: bool,
    /// Whether PCIe is read by GPM where its counter is too narrow and not unfolded (Hopper and later).
    pub gpm: bool,
    /// How long the start may take: a driver that is not kept loaded takes seconds for each GPU.
    pub start_deadline: Duration,
    /// Longest silence of a running sampler before it is killed; at least 3 intervals are given.
    pub silence: Duration,
    /// Pause after a first failure; doubled with each further one.
    pub first_pause: Duration,
    /// Longest pause after failures.
    pub longest_pause: Duration,
    /// Pause before a node without library, driver or GPU is looked at again.
    pub recheck: Duration,
    /// The program that runs [`sampler_main`](crate::sampler_main) for `gpu-sampler`.
    pub program: PathBuf,
}

impl Default for NvmlConfig {
    fn default() -> Self {
        Self {
            vendor: Vendor::Nvml,
            tells_inventory: true,
            library: PathBuf::from(Vendor::Nvml.library()),
            sysfs: PathBuf::from("/sys"),
            interval: Duration::from_secs(1),
            survey_interval: Duration::from_secs(60),
            unfold_pcie: false,
            gpm: false,
            start_deadline: Duration::from_secs(60),
            silence: Duration::from_secs(10),
            first_pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(60),
            recheck: Duration::from_secs(60),
            program: PathBuf::from("/proc/self/exe"),
        }
    }
}

/// The source could not even be set up: the system is out of threads or descriptors.
#[derive(Debug, thiserror::Error)]
#[error("cannot start a source of GPUs: {0}; the process may be out of threads or file descriptors")]
pub struct StartError(#[from] std::io::Error);

/// Readings of all GPUs through NVML. Dropping it kills the sampler.
pub struct NvmlSource {
    status: Arc<Mutex<NvmlStatus>>,
    processes: Arc<Mutex<Option<Listed>>>,
    // Each byte is an order; closing it is the signal to stop.
    ask: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl NvmlSource {
    /// Starts the source. Each reading becomes one batch in `records`; its node, boot and order are left to
    /// the receiver. A full channel costs the batch, which is counted.
    ///
    /// # Errors
    /// Only when the system gives no thread or socket. No NVIDIA software is no error but a status.
    pub fn start(
        config: NvmlConfig,
        clock: Clock,
        records: mpsc::Sender<wire::Batch>,
    ) -> Result<Self, StartError> {
        let (ask, asked) = UnixStream::pair()?;
        ask.set_nonblocking(true)?;
        asked.set_nonblocking(true)?;
        let processes = Arc::default();
        let converter = Converter::new(config.vendor.name());
        let name = format!("gpu-{}", config.vendor.name());
        let status = Arc::new(Mutex::new(NvmlStatus::default()));
        let keeper = Keeper {
            config,
            clock,
            records,
            status: Arc::clone(&status),
            processes: Arc::clone(&processes),
            asked,
            converter,
            inventory_told: None,
            wedged: None,
        };
        // A thread of its own, for as long as the source: the kernel ends a sampler with the thread that
        // started it, so a runtime's worker will not do.
        let thread = std::thread::Builder::new().name(name).spawn(move || keeper.keep())?;
        Ok(Self { status, processes, ask: Some(ask), thread: Some(thread) })
    }

    /// Asks for a reading at once, beside the ticks; whether a sampler runs that can be asked. Waits for nothing.
    pub fn sample_now(&self) -> bool {
        self.order(Order::Sample)
    }

    /// Asks which processes use which GPU; [`NvmlSource::processes`] has the answer a moment later.
    pub fn ask_processes(&self) -> bool {
        self.order(Order::Processes)
    }

    fn order(&self, order: Order) -> bool {
        // A full socket holds thousands of orders that wait already.
        let told = self.ask.as_ref().is_some_and(|mut ask| ask.write(&[order as u8]).is_ok());
        told && lock(&self.status).state == State::Running
    }

    /// UUIDs of the GPUs on which each process has a compute context, as last asked for.
    ///
    /// # Errors
    /// Why that is not known, in one word.
    pub fn processes(&self) -> Result<BTreeMap<u32, Vec<String>>, &'static str> {
        let state = lock(&self.status).state;
        if state != State::Running {
            return Err(state.name());
        }
        match &*self.processes.lock().unwrap_or_else(PoisonError::into_inner) {
            Some((at, listed)) if at.elapsed() < PROCESSES_AGE => listed.clone(),
            _ => Err("not_listed_yet"),
        }
    }

    /// What the source is doing and what was lost.
    #[must_use]
    pub fn status(&self) -> NvmlStatus {
        lock(&self.status).clone()
    }
}

impl Drop for NvmlSource {
    fn drop(&mut self) {
        drop(self.ask.take());
        if let Some(thread) = self.thread.take() {
            // Bounded: it waits for a killed sampler for 2 s at most. A panic there has been reported already.
            let _ = thread.join();
        }
    }
}

/// UTC by the system's clock as it is now; for tests and one-shot commands. The agent has a steadier one.
#[must_use]
pub fn default_clock() -> Clock {
    Arc::new(|monotonic| {
        let utc = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let offset = i64::try_from(utc).unwrap_or(i64::MAX) - monotonic_nanoseconds();
        monotonic + offset
    })
}

/// A thread that panicked left numbers that are still numbers.
fn lock(status: &Mutex<NvmlStatus>) -> MutexGuard<'_, NvmlStatus> {
    status.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps a sampler running until told to stop.
struct Keeper {
    config: NvmlConfig,
    clock: Clock,
    records: mpsc::Sender<wire::Batch>,
    status: Arc<Mutex<NvmlStatus>>,
    processes: Arc<Mutex<Option<Listed>>>,
    asked: UnixStream,
    converter: Converter,
    inventory_told: Option<Instant>,
    wedged: Option<Child>,
}

impl Keeper {
    fn keep(mut self) {
        let mut pause = self.config.first_pause;
        let mut last_end = None;
        loop {
            let begin = Instant::now();
            let (end, text) = if self.is_wedged() {
                (End::Silent, "a sampler that was killed is still held by the driver".to_owned())
            } else {
                self.run_sampler()
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

    /// Whether a killed sampler is still there; a second one would hang beside it.
    fn is_wedged(&mut self) -> bool {
        match self.wedged.as_mut().map(Child::try_wait) {
            None => false,
            Some(Ok(None)) => true,
            Some(Ok(Some(_)) | Err(_)) => {
                self.wedged = None;
                false
            }
        }
    }

    /// One sampler from start to end.
    fn run_sampler(&mut self) -> (End, String) {
        let options = SamplerOptions {
            vendor: self.config.vendor,
            library: self.config.library.clone(),
            interval: self.config.interval,
            survey_interval: self.config.survey_interval,
            unfold_pcie: self.config.unfold_pcie,
            gpm: self.config.gpm,
            parent: std::process::id(),
        };
        let mut session = match Session::start(&self.config.program, &options) {
            Ok(session) => session,
            Err(error) => {
                let program = self.config.program.display();
                return (End::SpawnFailed, format!("cannot start {program} for the sampler: {error}"));
            }
        };
        self.converter.new_sampler();
        {
            let mut status = lock(&self.status);
            status.starts += 1;
            status.state = State::Starting;
            status.pid = Some(session.pid());
        }
        let silence = self.config.silence.max(self.config.interval * 3);
        let mut deadline = Instant::now() + self.config.start_deadline;
        let end = loop {
            match session.next(deadline, self.asked.as_fd()) {
                Next::Asked => match self.orders() {
                    Some(orders) => orders.into_iter().for_each(|order| session.order(order)),
                    None => break (End::Stopped, "the source is no longer wanted".to_owned()),
                },
                Next::Frame(Body::Processes(processes)) => self.list(&processes),
                Next::Frame(Body::Hello(hello)) => self.hello(hello),
                Next::Frame(Body::Survey(survey)) => self.survey(&survey),
                Next::Frame(Body::Poll(poll)) => {
                    self.poll(&poll);
                    deadline = Instant::now() + silence;
                }
                // Another kind of sampler's.
                Next::Frame(Body::CuptiHello(_) | Body::CuptiPoll(_) | Body::CuptiBye(_)) => {}
                // `next` gives a problem as an end.
                Next::Frame(Body::Problem(problem)) => break (End::from(problem.kind()), problem.text),
                Next::End(end, text) => break (end, text),
            }
        };
        self.wedged = session.end();
        end
    }

    /// What the source was told since the last look; nothing where it is to stop.
    fn orders(&mut self) -> Option<Vec<Order>> {
        let mut bytes = [0; 64];
        let read = match self.asked.read(&mut bytes) {
            Ok(0) => return None,
            Ok(read) => read,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => 0,
            Err(_) => return None,
        };
        // Several orders of one kind that wait are one.
        let ordered = |order: Order| bytes[..read].contains(&(order as u8)).then_some(order);
        Some([Order::Sample, Order::Processes].into_iter().filter_map(ordered).collect())
    }

    /// Keeps the answer for whoever asked.
    fn list(&mut self, processes: &Processes) {
        let mut listed: Result<BTreeMap<u32, Vec<String>>, &'static str> = Ok(BTreeMap::new());
        for gpu in &processes.gpus {
            // One GPU that does not tell leaves it open whether a process uses it.
            if Code(gpu.code) != Code::SUCCESS {
                listed = Err(Code(gpu.code).reason());
            }
            if let Ok(listed) = &mut listed {
                gpu.pids.iter().for_each(|pid| listed.entry(*pid).or_default().push(gpu.uuid.clone()));
            }
        }
        *self.processes.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), listed));
    }

    fn hello(&mut self, hello: Hello) {
        tracing::info!(driver = %hello.driver_version, library = %hello.library_version, "the vendor's library is open");
        let known = |version: String| (!version.is_empty()).then_some(version);
        let mut status = lock(&self.status);
        status.driver_version = known(hello.driver_version);
        status.library_version = known(hello.library_version);
    }

    fn survey(&mut self, survey: &Survey) {
        {
            let mut status = lock(&self.status);
            status.gpus = u32::try_from(survey.gpus.len()).unwrap_or(u32::MAX);
            status.unreadable_gpus = survey.unreadable;
        }
        if self.converter.survey(survey) {
            let links: usize = survey.gpus.iter().map(|gpu| gpu.links.len()).sum();
            tracing::info!(gpus = survey.gpus.len(), links, unreadable = survey.unreadable, "GPUs found");
            self.inventory_told = None;
        }
    }

    fn poll(&mut self, poll: &Poll) {
        let mut converted = self.converter.poll(poll, &*self.clock);
        let repeat = self.config.tells_inventory
            && self.inventory_told.is_none_or(|told| told.elapsed() >= INVENTORY_REPEAT);
        if repeat {
            let (mut gpus, links) = self.converter.inventory();
            let here = place::places(&self.config.sysfs, gpus.iter().map(|gpu| gpu.pci_bus_id.as_str()));
            here.note(&mut gpus);
            (converted.batch.gpus, converted.batch.gpu_link_infos) = (gpus, links);
        }
        let sent = self.records.try_send(converted.batch).is_ok();
        if repeat && sent {
            self.inventory_told = Some(Instant::now());
        }
        let mut status = lock(&self.status);
        status.state = State::Running;
        status.detail = None;
        status.polls += 1;
        status.dropped_batches += u64::from(!sent);
        status.overruns = poll.overruns;
        status.last_poll_seconds = poll.elapsed_nanoseconds as f64 / 1e9;
        for (reason, count) in converted.absent {
            *status.absent_values.entry(reason).or_default() += count;
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
            (_, true) if repeated => tracing::debug!(reason = end.name(), "no GPU readings: {text}"),
            (_, true) => tracing::info!(reason = end.name(), "no GPU readings: {text}"),
            (_, false) => tracing::warn!(reason = end.name(), "GPU readings interrupted: {text}"),
        }
        if end.is_nothing_to_read() || repeated {
            return;
        }
        let event = wire::Event {
            time: (self.clock)(monotonic_nanoseconds()),
            source: self.config.vendor.name().to_owned(),
            kind: format!("source.{}", end.name()),
            severity: "warning".to_owned(),
            text: text.to_owned(),
            ..wire::Event::default()
        };
        if self.records.try_send(wire::Batch { events: vec![event], ..wire::Batch::default() }).is_err() {
            lock(&self.status).dropped_batches += 1;
        }
    }

    /// Waits, but not longer than until the source is dropped.
    fn stopped_within(&mut self, wait: Duration) -> bool {
        let deadline = Instant::now() + wait;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let milliseconds = u16::try_from(left.as_millis() + 1).unwrap_or(u16::MAX);
            let mut watched = [PollFd::new(self.asked.as_fd(), PollFlags::POLLIN)];
            // Orders that come while no sampler runs are for nobody.
            if let Ok(1..) = poll(&mut watched, PollTimeout::from(milliseconds))
                && self.orders().is_none()
            {
                return true;
            }
        }
    }
}
