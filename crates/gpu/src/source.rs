//! The source of a vendor's library as the agent has it: readings of all GPUs, and the processes on them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use throughline_sample::wire;
use tokio::sync::mpsc;

use crate::code::Code;
use crate::convert::{Converter, GPU_LOST, GPU_RETURNED};
use crate::frame::{Body, Hello, Poll, Processes, Survey};
use crate::place;
use crate::poll::{is_answered, monotonic_nanoseconds};
use crate::sampler::{Order, SUBCOMMAND, SamplerOptions};
use crate::status::{SourceStatus, State};
use crate::supervise::{Clock, FrameKind, Kind, Outlet, Pace, StartError, Supervisor, lock};
use crate::vendor::Vendor;

/// What is there is reported anew this often, so that a receiver that lost it has it again.
const INVENTORY_REPEAT: Duration = Duration::from_secs(600);

/// How long a list of processes is current: they are requested more often while it matters.
const PROCESSES_AGE: Duration = Duration::from_secs(30);

/// A GPU, or a partition of one, and the processes on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuListing {
    /// UUID of the whole GPU.
    pub gpu_uuid: String,
    /// UUID of the partition; empty for the whole.
    pub partition_uuid: String,
    /// N of the GPU's device file `/dev/nvidiaN`, where the library says.
    pub minor: Option<u32>,
    /// The GPU's place on the PCI bus; empty where the library does not say.
    pub pci_bus_id: String,
    /// Ids of processes with a compute context on it, or why they are not known, in one word.
    pub processes: Result<Vec<u32>, &'static str>,
}

/// When the processes were listed, and those on each GPU.
type ProcessListing = (Instant, Vec<GpuListing>);

/// How the source works. The defaults suit an agent.
#[derive(Clone, Debug)]
pub struct GpuConfig {
    /// Whose library is read.
    pub vendor: Vendor,
    /// Whether what there is is reported; not where another source reports the same GPUs.
    pub reports_inventory: bool,
    /// Path of the library, or a name that the dynamic loader finds.
    pub library: PathBuf,
    /// Where sysfs is mounted: it reports where GPUs and adapters stand.
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
    /// How long the sampler may be silent, and when the next one is started.
    pub pace: Pace,
    /// The program that runs [`sampler_main`](crate::sampler_main) for `gpu-sampler`.
    pub program: PathBuf,
}

impl Default for GpuConfig {
    fn default() -> Self {
        Self {
            vendor: Vendor::Nvml,
            reports_inventory: true,
            library: PathBuf::from(Vendor::Nvml.library()),
            sysfs: PathBuf::from("/sys"),
            interval: Duration::from_secs(1),
            survey_interval: Duration::from_secs(60),
            unfold_pcie: false,
            gpm: true,
            pace: Pace::default(),
            program: PathBuf::from("/proc/self/exe"),
        }
    }
}

/// Readings of all GPUs through a vendor's library. Dropping it kills the sampler.
pub struct GpuSource {
    supervisor: Supervisor,
    processes: Arc<Mutex<Option<ProcessListing>>>,
}

impl GpuSource {
    /// Starts the source. Each reading becomes one batch in `records`; its node, boot and order are left to
    /// the receiver. A full channel costs the batch, which is counted.
    ///
    /// # Errors
    /// Only when the system gives no thread or socket. No library is no error but a status.
    pub fn start(
        config: GpuConfig,
        clock: Clock,
        records: mpsc::Sender<wire::Batch>,
    ) -> Result<Self, StartError> {
        let processes = Arc::default();
        let converter = Converter::new(config.vendor.name());
        let (pace, interval) = (config.pace.clone(), config.interval);
        let readings =
            Readings { config, processes: Arc::clone(&processes), converter, inventory_reported: None };
        let supervisor = Supervisor::start(readings, pace, interval, clock, records)?;
        Ok(Self { supervisor, processes })
    }

    /// Requests a reading at once, beside the ticks; whether a sampler runs that can be queried. Waits for nothing.
    pub fn sample_now(&self) -> bool {
        self.supervisor.order(Order::Sample as u8)
    }

    /// Queries which processes use which GPU; [`GpuSource::processes`] has the answer a moment later.
    pub fn query_processes(&self) -> bool {
        self.supervisor.order(Order::Processes as u8)
    }

    /// The GPUs and their partitions with the processes that have a compute context on each, as last requested.
    ///
    /// # Errors
    /// Why nothing is known of them, in one word.
    pub fn processes(&self) -> Result<Vec<GpuListing>, &'static str> {
        let state = self.supervisor.status().state;
        if state != State::Running {
            return Err(state.name());
        }
        match &*lock(&self.processes) {
            Some((at, listed)) if at.elapsed() < PROCESSES_AGE => Ok(listed.clone()),
            _ => Err("not_listed_yet"),
        }
    }

    /// What the source is doing and what was lost.
    #[must_use]
    pub fn status(&self) -> SourceStatus {
        self.supervisor.status()
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

/// How often each code occurs.
fn counted(codes: impl Iterator<Item = u32>) -> BTreeMap<u32, u32> {
    let mut counts = BTreeMap::new();
    codes.for_each(|code| *counts.entry(code).or_default() += 1);
    counts
}

/// What is made of the frames of this kind of sampler.
struct Readings {
    config: GpuConfig,
    processes: Arc<Mutex<Option<ProcessListing>>>,
    converter: Converter,
    inventory_reported: Option<Instant>,
}

impl Kind for Readings {
    fn name(&self) -> &'static str {
        self.config.vendor.name()
    }

    fn command(&self) -> Command {
        let options = SamplerOptions {
            vendor: self.config.vendor,
            library: self.config.library.clone(),
            interval: self.config.interval,
            survey_interval: self.config.survey_interval,
            unfold_pcie: self.config.unfold_pcie,
            gpm: self.config.gpm,
            parent: std::process::id(),
        };
        let mut command = Command::new(&self.config.program);
        command.arg(SUBCOMMAND).args(options.to_arguments());
        command
    }

    fn started(&mut self) {
        self.converter.new_sampler();
        // A node without a GPU is looked at each minute.
        if !self.converter.has_no_gpu() {
            self.inventory_reported = None;
        }
    }

    fn frame(&mut self, body: Body, outlet: &Outlet) -> FrameKind {
        match body {
            Body::Processes(processes) => self.list(processes),
            Body::Hello(hello) => self.hello(hello, outlet),
            Body::Survey(survey) => self.survey(&survey, outlet),
            Body::Poll(poll) => {
                let is_reading = is_answered(&poll);
                self.poll(&poll, is_reading, outlet);
                return if is_reading { FrameKind::Reading } else { FrameKind::Empty };
            }
            // Another kind of sampler's; a problem is an end.
            Body::CuptiHello(_) | Body::CuptiMetrics(_) | Body::CuptiPoll(_) => {}
            Body::CuptiBye(_) | Body::Problem(_) => {}
        }
        FrameKind::Other
    }
}

impl Readings {
    /// Stores the answer for those who requested it.
    fn list(&mut self, processes: Processes) {
        let listed = processes.gpus.into_iter().map(|gpu| {
            let (gpu_uuid, partition_uuid) = match gpu.parent_uuid.is_empty() {
                true => (gpu.uuid, String::new()),
                false => (gpu.parent_uuid, gpu.uuid),
            };
            let processes = match Code(gpu.code) {
                Code::SUCCESS => Ok(gpu.pids),
                code => Err(code.reason()),
            };
            let (minor, pci_bus_id) = (gpu.minor, gpu.pci_bus_id);
            GpuListing { gpu_uuid, partition_uuid, minor, pci_bus_id, processes }
        });
        *lock(&self.processes) = Some((Instant::now(), listed.collect()));
    }

    fn hello(&self, hello: Hello, outlet: &Outlet) {
        let (driver, library) = (&hello.driver_version, &hello.library_version);
        tracing::info!(source = self.name(), %driver, %library, "the vendor's library is open");
        let known = |version: String| (!version.is_empty()).then_some(version);
        let mut status = outlet.status();
        status.driver_version = known(hello.driver_version);
        status.library_version = known(hello.library_version);
        status.missing_functions = hello.missing_functions;
    }

    fn survey(&mut self, survey: &Survey, outlet: &Outlet) {
        {
            let mut status = outlet.status();
            status.gpus = u32::try_from(survey.gpus.len()).unwrap_or(u32::MAX);
            status.unreadable_gpus = survey.unreadable;
            status.refusals.clone_from(&survey.refusals);
            status.gpm = counted(survey.gpus.iter().filter_map(|gpu| gpu.gpm));
            status.xids = counted(survey.gpus.iter().filter_map(|gpu| gpu.xids));
        }
        if self.converter.survey(survey) {
            let (source, gpus) = (self.name(), survey.gpus.len());
            let links: usize = survey.gpus.iter().map(|gpu| gpu.links.len()).sum();
            tracing::info!(source, gpus, links, unreadable = survey.unreadable, "GPUs found");
            self.inventory_reported = None;
        }
        // Nothing is polled where there is none: what was there ends with this.
        if self.converter.has_no_gpu() && self.is_inventory_due() {
            let batch = self.converter.nothing_here(outlet.utc(monotonic_nanoseconds()));
            if outlet.send(batch) {
                self.inventory_reported = Some(Instant::now());
            }
        }
    }

    fn is_inventory_due(&self) -> bool {
        self.config.reports_inventory
            && self.inventory_reported.is_none_or(|reported| reported.elapsed() >= INVENTORY_REPEAT)
    }

    fn poll(&mut self, poll: &Poll, is_reading: bool, outlet: &Outlet) {
        let mut converted = self.converter.poll(poll, &|monotonic| outlet.utc(monotonic));
        // What there is has changed.
        if converted.batch.events.iter().any(|event| [GPU_LOST, GPU_RETURNED].contains(&event.kind.as_str()))
        {
            self.inventory_reported = None;
        }
        let repeat = self.is_inventory_due();
        if repeat {
            // Before all that this poll has read.
            let begin = poll
                .gpus
                .iter()
                .map(|gpu| gpu.links_monotonic_nanoseconds.min(gpu.pcie_monotonic_nanoseconds))
                .min();
            let time = outlet.utc(begin.unwrap_or_else(monotonic_nanoseconds));
            let mut inventory = self.converter.inventory(time);
            let places = inventory.gpus.iter().map(|gpu| gpu.pci_bus_id.as_str());
            let here = place::places(&self.config.sysfs, places);
            here.note(&mut inventory.gpus);
            inventory.into_batch(&mut converted.batch);
        }
        {
            // Before its records: who has them is to find it running.
            let mut status = outlet.status();
            if is_reading {
                (status.state, status.detail, status.fruitless) = (State::Running, None, 0);
            } else {
                let text = "no counter of any GPU can be read; the reasons are in its coverage";
                (status.state, status.detail) = (State::BackingOff, Some(text.to_owned()));
            }
            status.read(poll.overruns, poll.elapsed_nanoseconds, &converted.absent);
        }
        if outlet.send(converted.batch) && repeat {
            self.inventory_reported = Some(Instant::now());
        }
    }
}
