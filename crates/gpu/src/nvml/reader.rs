//! NVML as a reader: surveys, plans and polls of all GPUs of a session.

use std::time::Duration;

use super::gpm::GpmPcie;
use super::plan::GpuPlan;
use super::survey::survey;
use super::{ComputeProcess, Session};
use crate::code::Code;
use crate::frame::{GpuPoll, GpuProcesses, Hello, Poll, ProblemKind, Processes, Survey};
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
}

impl<'s> NvmlReader<'s> {
    /// A reader that has not yet looked at what there is.
    #[must_use]
    pub fn new(session: &'s Session<'s>, options: NvmlOptions) -> Self {
        Self { session, options, plans: Vec::new() }
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
        Ok(found)
    }

    fn poll(&mut self, poll: &mut Poll) {
        let begin = monotonic_nanoseconds();
        poll.gpus.resize_with(self.plans.len(), GpuPoll::default);
        for (plan, into) in self.plans.iter_mut().zip(&mut poll.gpus) {
            plan.poll(into, self.options.unfold_pcie);
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
