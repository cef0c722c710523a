//! NVML as a reader: surveys, plans and polls of all GPUs of a session.

use std::time::Duration;

use super::gpm::GpmPcie;
use super::plan::GpuPlan;
use super::survey::{MAX_GPUS, survey};
use super::xid::XidEvents;
use super::{ComputeProcess, Session};
use crate::code::Code;
use crate::frame::{GpuPoll, GpuProcesses, Hello, Poll, ProblemKind, Processes, Survey, Xid};
use crate::poll::monotonic_nanoseconds;
use crate::reader::{GivenUp, Reader};

/// What a site chooses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NvmlOptions {
    /// Whether a 32-bit PCIe counter is read often enough to unfold it.
    pub unfold_pcie: bool,
    /// Whether PCIe is read by GPM where the counter is too narrow and is not unfolded.
    pub gpm: bool,
}

/// All GPUs of a session.
pub struct NvmlReader<'s> {
    session: &'s Session<'s>,
    options: NvmlOptions,
    plans: Vec<GpuPlan<'s, 's>>,
    xids: Option<XidEvents<'s>>,
    /// Indices of GPUs that the last survey could not read.
    unreadable: Vec<u32>,
    /// GPUs that the driver listed then, and the most that it ever did.
    listed: (u32, u32),
}

impl<'s> NvmlReader<'s> {
    /// A reader that has not yet looked at what there is.
    #[must_use]
    pub fn new(session: &'s Session<'s>, options: NvmlOptions) -> Self {
        Self {
            session,
            options,
            plans: Vec::new(),
            xids: XidEvents::new(session),
            unreadable: Vec::new(),
            listed: (0, 0),
        }
    }
}

impl Reader for NvmlReader<'_> {
    fn hello(&self) -> Hello {
        Hello {
            driver_version: self.session.driver_version().unwrap_or_default(),
            library_version: self.session.nvml_version().unwrap_or_default(),
        }
    }

    /// Keeps the PCIe sums of GPUs that are still there.
    fn survey(&mut self) -> Result<Survey, GivenUp> {
        let (found, mut fresh) = survey(self.session).map_err(|code| {
            let text = format!("cannot list the GPUs: {code}; {}", code.remedy());
            (ProblemKind::DriverUnavailable, text)
        })?;
        if found.gpus.is_empty() {
            return Err(match found.unreadable {
                0 => (ProblemKind::NoGpu, "NVML works and there is no GPU".to_owned()),
                lost => {
                    let text = format!("none of {lost} GPUs can be read; {}", Code::GPU_IS_LOST.remedy());
                    (ProblemKind::Unreadable, text)
                }
            });
        }
        for plan in &mut fresh {
            if let Some(old) = self.plans.iter_mut().find(|old| old.uuid == plan.uuid) {
                (plan.unfold, plan.pcie_is_narrow, plan.turn) = (old.unfold, old.pcie_is_narrow, old.turn);
                plan.gpm = old.gpm.take();
            } else if self.options.gpm && !self.options.unfold_pcie {
                plan.gpm = GpmPcie::new(&plan.gpu);
            }
        }
        self.plans = fresh;
        if let Some(xids) = &mut self.xids {
            xids.register(self.plans.iter().map(|plan| (plan.uuid.as_str(), plan.gpu)));
        }
        let listed = u32::try_from(found.gpus.len()).unwrap_or(MAX_GPUS) + found.unreadable;
        self.listed = (listed, listed.max(self.listed.1));
        let is_read = |index: &u32| found.gpus.iter().any(|gpu| gpu.index == *index);
        self.unreadable = (0..listed).filter(|index| !is_read(index)).collect();
        Ok(found)
    }

    fn has_returned(&mut self) -> bool {
        let (session, (listed, most)) = (self.session, self.listed);
        self.unreadable.iter().any(|index| session.gpu(*index).and_then(|gpu| gpu.uuid()).is_ok())
            || listed < most && session.gpu_count().is_ok_and(|count| count > listed)
    }

    fn poll(&mut self, poll: &mut Poll) {
        let begin = monotonic_nanoseconds();
        poll.gpus.resize_with(self.plans.len(), GpuPoll::default);
        for (plan, into) in self.plans.iter_mut().zip(&mut poll.gpus) {
            plan.poll(into, self.options.unfold_pcie);
        }
        poll.xids.clear();
        if let Some(xids) = &self.xids {
            xids.take(|device, number| {
                let place = self.plans.iter().position(|plan| plan.gpu.handle == device);
                if let Some(place) = place.and_then(|place| u32::try_from(place).ok()) {
                    poll.xids.push(Xid { place, number });
                }
            });
        }
        poll.elapsed_nanoseconds = u64::try_from(monotonic_nanoseconds() - begin).unwrap_or(0);
    }

    fn between(&self) -> Option<Duration> {
        let soonest = self.plans.iter().filter_map(GpuPlan::pcie_interval_nanoseconds).min();
        soonest.map(Duration::from_nanos)
    }

    fn read_between(&mut self) {
        for plan in self.plans.iter_mut().filter(|plan| plan.pcie_is_narrow) {
            plan.read_pcie(self.options.unfold_pcie);
        }
    }

    fn processes(&mut self) -> Processes {
        let gpus = self.plans.iter().flat_map(|plan| match plan.gpu.compute_processes() {
            Ok(processes) => by_part(plan, &processes),
            Err(code) => vec![GpuProcesses { uuid: plan.uuid.clone(), pids: Vec::new(), code: code.0 }],
        });
        Processes { gpus: gpus.collect() }
    }
}

/// The processes of a GPU, those on a partition under the partition's UUID.
fn by_part(plan: &GpuPlan<'_, '_>, processes: &[ComputeProcess]) -> Vec<GpuProcesses> {
    let part_of = |process: &ComputeProcess| {
        let instances = process.instances?;
        plan.parts.iter().position(|part| (part.gpu_instance, part.compute_instance) == instances)
    };
    let listed = |uuid: &str, wanted: Option<usize>| {
        let of = processes.iter().filter(|process| part_of(process) == wanted);
        GpuProcesses {
            uuid: uuid.to_owned(),
            pids: of.map(|process| process.pid).collect(),
            code: Code::SUCCESS.0,
        }
    };
    let parts = plan.parts.iter().enumerate().map(|(at, part)| listed(&part.uuid, Some(at)));
    std::iter::once(listed(&plan.uuid, None)).chain(parts).collect()
}
