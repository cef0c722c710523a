//! Who a process belongs to, as the kernel vouches for it: user, job, session.
//!
//! The agent uses this for the process at the other end of its socket (SO_PEERCRED gives the pid) and holds what
//! a rank claims against it. Nothing here believes the process's own environment or arguments.

use std::fs;

use throughline_sample::job_key::is_sluid;

use crate::cgroup;
pub use crate::cgroup::Scheduler;
pub use crate::process::Roots;
use crate::process::{self, ProcessError, parse_boot_seconds};
use crate::slurm;

/// What the kernel reports about a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobIdentity {
    /// Process id.
    pub pid: u32,
    /// Real user id.
    pub uid: u32,
    /// Session id.
    pub session: u32,
    /// When the process started, UTC nanoseconds; `None` where the boot time is not known.
    pub start_time: Option<i64>,
    /// When the leader of its session started; of the process itself where the leader has ended.
    pub session_start_time: Option<i64>,
    /// The scheduler that put it there; `None` where none did.
    pub scheduler: Option<Scheduler>,
    /// The scheduler's job id; `None` also where Slurm's SLUID is known and its number can't be read.
    pub job_id: Option<String>,
    /// Slurm's SLUID, which names one run of the job, since 26.05.
    pub sluid: Option<String>,
    /// The scheduler's step.
    pub step: Option<String>,
    /// The innermost container.
    pub container: Option<String>,
    /// The systemd login session.
    pub login_session: Option<String>,
    /// Command name.
    pub command: String,
}

impl JobIdentity {
    /// Whether a claim of a job, such as a rank reads in its environment, fits what the kernel reports. A claim
    /// can be shorter than the truth (PBS: without the server's name; an empty step), but never another job.
    #[must_use]
    pub fn agrees_with(&self, scheduler: Scheduler, job_id: &str, step: Option<&str>) -> ClaimAgreement {
        let Some(known) = self.scheduler else { return ClaimAgreement::NotKnown };
        // A node of a cluster can itself be a pod: that says nothing about the job on it.
        if known == Scheduler::Kubernetes && scheduler != Scheduler::Kubernetes {
            return ClaimAgreement::NotKnown;
        }
        let Some(id) = &self.job_id else {
            return if known == scheduler { ClaimAgreement::NotKnown } else { ClaimAgreement::Contradicts };
        };
        let same_id =
            id == job_id || (known == Scheduler::Pbs && id.split('.').next() == job_id.split('.').next());
        let same_step = match (&self.step, step) {
            (Some(known), Some(claimed)) => known == claimed,
            _ => true,
        };
        if known == scheduler && same_id && same_step {
            ClaimAgreement::Agrees
        } else {
            ClaimAgreement::Contradicts
        }
    }
}

/// What the kernel reports about a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimAgreement {
    /// The process is in that job.
    Agrees,
    /// The process is in another job.
    Contradicts,
    /// No scheduler put the process anywhere: the claim can be neither confirmed nor refuted.
    NotKnown,
}

/// Finds who a process belongs to.
///
/// # Errors
/// When the process has ended or its files cannot be read.
pub fn identify(roots: &Roots, pid: u32) -> Result<JobIdentity, ProcessError> {
    let process = process::read(&roots.proc, pid)?;
    let placement = cgroup::placement(&process.cgroup, process.uid);
    let boot = fs::read_to_string(roots.proc.join("stat")).ok().and_then(|stat| parse_boot_seconds(&stat));
    let time = |ticks: u64| ticks_to_utc(boot?, ticks);
    let leader = process::start_ticks(&roots.proc, process.session).unwrap_or(process.start_ticks);
    let (scheduler, job_id, sluid, step) = match placement.job {
        Some(job) if job.scheduler == Scheduler::Slurm && is_sluid(&job.id) => {
            let number = slurm::number_of_run(roots, &process.cgroup, &job.id);
            (Some(job.scheduler), number.map(|number| number.to_string()), Some(job.id), job.step)
        }
        Some(job) => (Some(job.scheduler), Some(job.id), None, job.step),
        None => (None, None, None, None),
    };
    Ok(JobIdentity {
        pid,
        uid: process.uid,
        session: process.session,
        start_time: time(process.start_ticks),
        session_start_time: time(leader),
        scheduler,
        job_id,
        sluid,
        step,
        container: placement.container,
        login_session: placement.login_session,
        command: process.name,
    })
}

/// Clock ticks after boot as UTC nanoseconds. `btime` has whole seconds only, so this is exact to one second.
fn ticks_to_utc(boot_seconds: i64, ticks: u64) -> Option<i64> {
    let per_second = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok()??;
    let since_boot = i128::from(ticks) * 1_000_000_000 / i128::from(per_second.max(1));
    i64::try_from(i128::from(boot_seconds) * 1_000_000_000 + since_boot).ok()
}

#[cfg(test)]
mod tests;
