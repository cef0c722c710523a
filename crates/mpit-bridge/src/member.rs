//! Who a rank is, once it has said hello and was believed: its records as they begin. Pure.

use crate::hello::Hello;
use crate::identity::Identity;
use crate::process::Process;
use crate::shim_status::ShimStatus;
use throughline_sample::wire::{Job, JobRank};

/// A rank may have begun counting so much after its agent's present: clocks within one node are one clock.
const AHEAD_NANOSECONDS: i64 = 60_000_000_000;
/// MPI begins after its process; the kernel counts starts in hundredths of a second, and a clock may have been set.
const BEFORE_NANOSECONDS: i64 = 2_000_000_000;
/// A rank whose process is not known any more began at most this long before it connected.
const UNKNOWN_AGE_NANOSECONDS: i64 = 3_600_000_000_000;

/// Which run of MPI in which process: the same when a rank connects anew, another for each other rank.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RankKey {
    pub pid: u32,
    /// Start of the process in clock ticks since boot: a process id alone is given again.
    pub start_ticks: Option<u64>,
    /// When its MPI_Init ended, as it says.
    pub epoch: i64,
}

/// A rank that was believed.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub identity: Identity,
    pub hello: Hello,
    pub process: Process,
    pub host: String,
    pub start: i64,
    /// When its process started, as the kernel reports, UTC nanoseconds.
    pub process_start: Option<i64>,
    /// What of its shim's own sums is counted already: that of an earlier connection, where there was one.
    pub status: ShimStatus,
}

impl Member {
    pub(crate) fn new(identity: Identity, hello: Hello, process: Process, host: &str, now: i64) -> Self {
        let process_start = process.age_nanoseconds.map(|age| now.saturating_sub(age));
        let earliest = process_start.unwrap_or(now.saturating_sub(UNKNOWN_AGE_NANOSECONDS));
        let plausible = earliest.saturating_sub(BEFORE_NANOSECONDS)..now.saturating_add(AHEAD_NANOSECONDS);
        let start = if plausible.contains(&hello.epoch) { hello.epoch } else { now };
        Self {
            identity,
            hello,
            process,
            host: host.to_owned(),
            start,
            process_start,
            status: ShimStatus::default(),
        }
    }

    pub(crate) fn key(&self) -> RankKey {
        let Process { pid, start_ticks, .. } = self.process;
        RankKey { pid, start_ticks, epoch: self.hello.epoch }
    }

    /// The job as this node observes it.
    pub(crate) fn job(&self) -> Job {
        let about = &self.identity.about;
        Job {
            key: self.identity.job_key.clone(),
            scheduler: self.identity.scheduler.clone(),
            native_id: self.identity.native_id.clone(),
            step: self.identity.step.clone(),
            uid: self.process.uid,
            user: self.process.user.clone(),
            command: self.process.command.clone(),
            start: self.start,
            end: 0,
            world_size: self.hello.world_size,
            name: about.name.clone(),
            account: about.account.clone(),
            queue: about.queue.clone(),
            array_id: about.array_id.clone(),
            evidence: self.identity.evidence.to_owned(),
            seen: 0,
        }
    }

    /// The rank as it begins.
    pub(crate) fn rank(&self) -> JobRank {
        JobRank {
            job_key: self.identity.job_key.clone(),
            rank: self.hello.rank,
            pid: self.process.pid,
            world_size: self.hello.world_size,
            mpi_library: self.hello.library.clone(),
            start: self.start,
            end: 0,
            ending: String::new(),
            host: self.host.clone(),
            gpus: Vec::new(),
            gpu_evidence: String::new(),
            visible_devices: None,
            hca_ports: None,
            cpus: self.process.cpus.clone(),
            numa_nodes: self.process.numa_nodes.clone(),
            hca_numa_nodes: self.process.hca_numa_nodes.clone(),
        }
    }
}
