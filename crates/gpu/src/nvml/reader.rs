//! NVML as a reader: surveys, plans and polls of all GPUs of a session.

use std::time::Duration;

use super::gpm::GpmPcie;
use super::plan::GpuPlan;
use super::survey::{MAX_GPUS, duplicates, survey};
use super::xid::XidEvents;
use super::{ComputeProcess, Session};
use crate::code::Code;
use crate::frame::{GpuPoll, GpuProcesses, Hello, Poll, ProblemKind, Processes, Refusal, Survey};
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
    xids: Result<XidEvents<'s>, Code>,
    /// The last survey: what it had stays where the driver refuses to answer.
    found: Survey,
    /// Indices of GPUs that the last survey could not read.
    unreadable: Vec<u32>,
    /// GPUs that the driver listed then.
    listed: u32,
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
            found: Survey::default(),
            unreadable: Vec::new(),
            listed: 0,
        }
    }
}

impl Reader for NvmlReader<'_> {
    fn hello(&self) -> Hello {
        Hello {
            driver_version: self.session.driver_version().unwrap_or_default(),
            library_version: self.session.nvml_version().unwrap_or_default(),
            missing_functions: self.session.library.missing().into_iter().map(str::to_owned).collect(),
        }
    }

    /// Keeps the PCIe sums of GPUs that are still there.
    fn survey(&mut self) -> Result<Survey, GivenUp> {
        let (mut found, mut fresh) = match survey(self.session, &self.found, &self.plans) {
            Ok(found) => found,
            // It is tried again; meanwhile what is known is read on.
            Err(code)
                if !self.plans.is_empty()
                    && ![Code::DRIVER_NOT_LOADED, Code::UNINITIALIZED].contains(&code) =>
            {
                let call = "nvmlDeviceGetCount_v2".to_owned();
                let refusals = vec![Refusal { index: 0, call, code: code.0, values: 1 }];
                return Ok(Survey { refusals, ..self.found.clone() });
            }
            Err(code) => {
                let text = format!("cannot list the GPUs: {code}; {}", code.remedy());
                return Err((ProblemKind::DriverUnavailable, text));
            }
        };
        if found.gpus.is_empty() {
            return Err(match found.unreadable {
                0 => (ProblemKind::NoGpu, "NVML works and there is no GPU".to_owned()),
                lost => {
                    let texts = distinct(&found.refusals);
                    (kind_of(&found.refusals), format!("none of {lost} GPUs can be read: {texts}"))
                }
            });
        }
        for plan in &mut fresh {
            if let Some(old) = self.plans.iter_mut().find(|old| old.uuid == plan.uuid) {
                (plan.unfold, plan.pcie_is_narrow, plan.turn) = (old.unfold, old.pcie_is_narrow, old.turn);
                plan.gpm = old.gpm.take();
            }
        }
        if self.options.gpm && !self.options.unfold_pcie {
            for (plan, described) in fresh.iter_mut().zip(&mut found.gpus) {
                described.gpm = Some(begin_gpm(plan));
            }
        }
        if self.xids.is_err() {
            self.xids = XidEvents::new(self.session);
        }
        for (plan, described) in fresh.iter().zip(&mut found.gpus) {
            described.xids = Some(match &mut self.xids {
                Ok(xids) => xids.register(&plan.gpu, described),
                Err(code) => code.0,
            });
        }
        self.plans = fresh;
        let listed = u32::try_from(found.gpus.len()).unwrap_or(MAX_GPUS)
            + found.unreadable
            + duplicates(&found.refusals);
        self.listed = listed;
        let is_read = |index: &u32| found.gpus.iter().any(|gpu| gpu.index == *index);
        // One whose UUID is another's answers, and is not read all the same.
        let is_second = |index: &u32| {
            let mut refusals = found.refusals.iter();
            refusals.any(|one| one.index == *index && Code(one.code) == Code::DUPLICATE_UUID)
        };
        self.unreadable = (0..listed).filter(|index| !is_read(index) && !is_second(index)).collect();
        self.found.clone_from(&found);
        Ok(found)
    }

    fn has_changed(&mut self) -> bool {
        let (session, listed) = (self.session, self.listed);
        self.unreadable.iter().any(|index| session.gpu(*index).and_then(|gpu| gpu.uuid()).is_ok())
            || session.gpu_count().is_ok_and(|count| count.min(MAX_GPUS) != listed)
    }

    fn poll(&mut self, poll: &mut Poll) {
        let begin = monotonic_nanoseconds();
        poll.gpus.resize_with(self.plans.len(), GpuPoll::default);
        for (plan, into) in self.plans.iter_mut().zip(&mut poll.gpus) {
            plan.poll(into, self.options.unfold_pcie);
        }
        poll.xids.clear();
        if let Ok(xids) = &self.xids {
            xids.take(&mut poll.xids);
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
            Err(code) => vec![GpuProcesses { code: code.0, ..unlisted(plan) }],
        });
        Processes { gpus: gpus.collect() }
    }
}

/// Begins to read a GPU by GPM where it does not yet; NVML's code.
fn begin_gpm(plan: &mut GpuPlan<'_, '_>) -> u32 {
    if plan.gpm.is_some() {
        return Code::SUCCESS.0;
    }
    match GpmPcie::new(&plan.gpu) {
        Ok(gpm) => {
            plan.gpm = Some(gpm);
            Code::SUCCESS.0
        }
        Err(code) => code.0,
    }
}

/// What refusals say, each reason once.
fn distinct(refusals: &[Refusal]) -> String {
    let mut texts: Vec<String> = Vec::new();
    for (at, one) in refusals.iter().enumerate() {
        let is_known = refusals[..at].iter().any(|known| (&known.call, known.code) == (&one.call, one.code));
        if !is_known {
            let code = Code(one.code);
            texts.push(format!("{} answers {code}; {}", one.call, code.remedy()));
        }
    }
    texts.join("; ")
}

/// Why no GPU can be opened.
fn kind_of(refusals: &[Refusal]) -> ProblemKind {
    let all = |wanted: Code| !refusals.is_empty() && refusals.iter().all(|one| Code(one.code) == wanted);
    if all(Code::NO_PERMISSION) {
        ProblemKind::NotPermitted
    } else if all(Code::DRIVER_NOT_LOADED) || all(Code::UNINITIALIZED) {
        ProblemKind::DriverUnavailable
    } else {
        ProblemKind::Unreadable
    }
}

/// The processes of a GPU, those on a partition under the partition's UUID.
fn by_part(plan: &GpuPlan<'_, '_>, processes: &[ComputeProcess]) -> Vec<GpuProcesses> {
    let part_of = |process: &ComputeProcess| {
        let instances = process.instances?;
        plan.parts.iter().position(|part| (part.gpu_instance, part.compute_instance) == instances)
    };
    let of_gpu = unlisted(plan);
    let listed = |wanted: Option<usize>| {
        let of = processes.iter().filter(|process| part_of(process) == wanted);
        GpuProcesses { pids: of.map(|process| process.pid).collect(), ..of_gpu.clone() }
    };
    let parts = plan.parts.iter().enumerate().map(|(at, part)| GpuProcesses {
        uuid: part.uuid.clone(),
        parent_uuid: plan.uuid.clone(),
        ..listed(Some(at))
    });
    std::iter::once(listed(None)).chain(parts).collect()
}

/// A GPU by its names, without processes.
fn unlisted(plan: &GpuPlan<'_, '_>) -> GpuProcesses {
    GpuProcesses {
        uuid: plan.uuid.clone(),
        minor: plan.gpu.minor().ok(),
        pci_bus_id: plan.gpu.pci_bus_id().unwrap_or_default(),
        ..GpuProcesses::default()
    }
}
