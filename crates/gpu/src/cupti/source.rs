//! The source of CUPTI as the agent has it: readings of the performance monitors, and when to give them to others.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use throughline_sample::wire;
use tokio::sync::mpsc;

use super::code::HARDWARE_BUSY;
use super::convert::{CuptiConverter, GPU_BUSY, GPU_SAMPLED, SOURCE};
use super::lease::Leases;
use super::profiling::Profiling;
use super::refusals::Refusals;
use super::sampler::{CUPTI_SUBCOMMAND, CuptiSamplerOptions, QUIT};
use super::wanted::MetricGroup;
use crate::cupti_frame::{CuptiHello, CuptiPoll};
use crate::frame::Body;
use crate::poll::monotonic_nanoseconds;
use crate::privileges;
use crate::status::{SourceStatus, State};
use crate::supervise::{Clock, FrameKind, Interruption, Kind, Outlet, Pace, StartError, Supervisor, lock};

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
    /// The metrics that the site chose beside bytes over NVLink and PCIe.
    pub metrics: Vec<MetricGroup>,
    /// The user and group that the sampler runs as; the agent's where absent.
    pub user: Option<(u32, u32)>,
    /// Where jobs take the GPUs for their own profilers.
    pub leases: Leases,
    /// Who profiles without one.
    pub profiling: Profiling,
    /// How long the sampler may be silent, and when the next one is started.
    pub pace: Pace,
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
            metrics: Vec::new(),
            user: None,
            leases: Leases {
                folder: PathBuf::from("/run/throughline/gpu-leases"),
                longest: Duration::from_secs(24 * 3600),
            },
            profiling: Profiling::default(),
            // CUDA's driver and the buffers of eight GPUs.
            pace: Pace { memory_bytes_max: 512 << 20, ..Pace::default() },
            program: PathBuf::from("/proc/self/exe"),
        }
    }
}

/// Readings of all GPUs through CUPTI. Dropping it ends the sampler.
pub struct CuptiSource {
    supervisor: Supervisor,
    paused_until: Arc<Mutex<Option<Instant>>>,
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
        let paused_until = Arc::default();
        let (pace, interval) = (config.pace.clone(), config.interval);
        let monitors = Monitors {
            config,
            paused_until: Arc::clone(&paused_until),
            converter: CuptiConverter::default(),
            was_busy: false,
            refusals: Refusals::default(),
        };
        let supervisor = Supervisor::start(monitors, pace, interval, clock, records)?;
        Ok(Self { supervisor, paused_until })
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
        *lock(&self.paused_until) = until;
        self.supervisor.wake();
    }

    /// What the source is doing and what was lost.
    #[must_use]
    pub fn status(&self) -> SourceStatus {
        self.supervisor.status()
    }
}

/// What is made of the frames of this kind of sampler.
struct Monitors {
    config: CuptiConfig,
    paused_until: Arc<Mutex<Option<Instant>>>,
    converter: CuptiConverter,
    /// Whether another profiler had every GPU in the last reading.
    was_busy: bool,
    refusals: Refusals,
}

impl Kind for Monitors {
    const QUIT: Option<u8> = Some(QUIT);
    const GIVES_WAY: bool = true;

    fn name(&self) -> &'static str {
        SOURCE
    }

    fn command(&self) -> Command {
        let options = CuptiSamplerOptions {
            cuda: self.config.cuda.clone(),
            cupti: self.config.cupti.clone(),
            interval: self.config.interval,
            sample_interval: self.config.sample_interval,
            parent: std::process::id(),
            groups: self.config.metrics.clone(),
        };
        let mut command = Command::new(&self.config.program);
        command.arg(CUPTI_SUBCOMMAND).args(options.to_arguments());
        // Of the thread that keeps this sampler alone: no other sampler gets them.
        privileges::hand_on(privileges::OF_PROFILERS);
        if let Some((user, group)) = self.config.user {
            command.uid(user).gid(group);
        }
        command
    }

    fn frame(&mut self, body: Body, outlet: &Outlet) -> FrameKind {
        match body {
            Body::CuptiHello(hello) => hello_from(&hello, outlet),
            Body::CuptiMetrics(planned) => {
                let events = self.refusals.take(planned, outlet.utc(monotonic_nanoseconds()));
                events.iter().for_each(|event| tracing::warn!("not sampled: {}", event.text));
                if !events.is_empty() {
                    outlet.send(wire::Batch { events, ..wire::Batch::default() });
                }
            }
            Body::CuptiPoll(poll) => {
                self.poll(&poll, outlet);
                // It is to wait for a device that another profiler has.
                let is_well = poll.gpus.iter().any(|gpu| gpu.code == 0 || gpu.code == HARDWARE_BUSY);
                return if is_well { FrameKind::Reading } else { FrameKind::Empty };
            }
            // Another kind of sampler's; a problem and the last word are ends.
            Body::Hello(_) | Body::Survey(_) | Body::Poll(_) | Body::Processes(_) => {}
            Body::CuptiBye(_) | Body::Problem(_) => {}
        }
        FrameKind::Other
    }

    fn reason_to_give_way(&self, outlet: &Outlet) -> Option<Interruption> {
        let (state, now) = (State::Paused, outlet.utc(monotonic_nanoseconds()));
        let after = |left: Duration| now.saturating_add(i64::try_from(left.as_nanos()).unwrap_or(i64::MAX));
        let until = *lock(&self.paused_until);
        if let Some(left) = until.and_then(|until| until.checked_duration_since(Instant::now())) {
            let reason =
                "`throughline-agent gpu pause` has the GPUs for a profiler; `gpu resume` ends it".to_owned();
            return Some(Interruption { state, reason, until: Some(after(left)) });
        }
        if let Some(lease) = self.config.leases.taken() {
            let (folder, name) = (self.config.leases.folder.display(), lease.name);
            let reason = format!("{folder}/{name} has the GPUs for a profiler; removing the file ends it");
            return Some(Interruption { state, reason, until: Some(after(lease.left)) });
        }
        self.config.profiling.who().map(|reason| Interruption { state, reason, until: None })
    }
}

fn hello_from(hello: &CuptiHello, outlet: &Outlet) {
    let seconds = hello.start_nanoseconds as f64 / 1e9;
    tracing::info!(cupti = hello.cupti_version, cuda = hello.cuda_version, seconds, "CUPTI is open");
    let mut status = outlet.status();
    status.library_version = Some(hello.cupti_version.to_string());
    status.start_seconds = Some(seconds);
}

impl Monitors {
    fn poll(&mut self, poll: &CuptiPoll, outlet: &Outlet) {
        let mut converted = self.converter.poll(poll, &|monotonic| outlet.utc(monotonic));
        let read = poll.gpus.iter().filter(|gpu| gpu.code == 0).count();
        let problem = poll.gpus.iter().find(|gpu| gpu.code != 0);
        let is_busy = poll.gpus.iter().any(|gpu| gpu.code == HARDWARE_BUSY);
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        // Before its records: who has them is to find it running.
        let mut status = outlet.status();
        status.state = match read {
            0 if is_busy => State::Busy,
            0 => State::BackingOff,
            _ => State::Running,
        };
        if status.state != State::BackingOff {
            status.fruitless = 0;
        }
        let problem = problem.map(|gpu| format!("GPU {}: {}", gpu.index, gpu.problem));
        status.detail = problem.or_else(|| self.refusals.detail());
        (status.gpus, status.unreadable_gpus) = (count(poll.gpus.len()), count(poll.gpus.len() - read));
        status.read(poll.overruns, poll.elapsed_nanoseconds, &converted.absent);
        drop(status);
        let busy = busy(poll);
        // Where it is all of them, one event of the source stands for one of each GPU.
        if busy.is_some() || std::mem::replace(&mut self.was_busy, busy.is_some()) {
            converted.batch.events.retain(|event| ![GPU_BUSY, GPU_SAMPLED].contains(&event.kind.as_str()));
        }
        self.was_busy = busy.is_some();
        outlet.interrupt(busy);
        outlet.send(converted.batch);
    }
}

/// Whether another profiler has every GPU that could be sampled. Of some GPUs only it is an event of each.
fn busy(poll: &CuptiPoll) -> Option<Interruption> {
    let is_any = |code| poll.gpus.iter().any(|gpu| gpu.code == code);
    if is_any(0) || !is_any(HARDWARE_BUSY) {
        return None;
    }
    let reason =
        "another profiler has the GPUs (Nsight, DCGM's profiling, CUPTI): they are tried again every 2 s";
    Some(Interruption { state: State::Busy, reason: reason.to_owned(), until: None })
}
