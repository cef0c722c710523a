//! Which job a rank belongs to.
//!
//! The key is the same on every node of the job: scheduler, cluster, job id and step; else the launcher, which identifies
//! all its ranks the same about itself; else the one process. What a rank claims is held against what the
//! kernel reports, and each key ends in the user that the kernel reports: whatever a rank claims, its rows are never
//! another user's. How a key is written: `throughline_sample::job_key`.

use crate::hello::Hello;
use crate::kernel::{Kernel, ScheduledJob, Verdict};
use crate::process::Process;
use crate::schedulers::{About, Claim, claim};
use throughline_sample::job_key;

/// The job of a rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// `slurm:demo:123.0@1000`, `pbs:12.host@1000`, `local:…@1000`: the same on each node of the job.
    pub job_key: String,
    /// slurm, pbs, lsf, flux, sge, or local.
    pub scheduler: String,
    /// The scheduler's own id, empty without one and where only its SLUID is known.
    pub native_id: String,
    /// The step in the job, empty without one.
    pub step: String,
    /// What the scheduler's variables report beside.
    pub about: About,
    /// What says so: cgroup, environment, launcher or process.
    pub evidence: &'static str,
}

/// Why an identity is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The process lies in the cgroup of another job.
    WrongJob,
}

/// Finds the job of a rank: the kernel's word before its own. `node` is this node's name.
///
/// # Errors
/// The claim is contradicted by the kernel.
pub(crate) fn identify(
    hello: &Hello,
    process: &Process,
    node: &str,
    kernel: &Kernel,
) -> Result<Identity, Refusal> {
    let Claim { job, about } = claim(hello).unwrap_or_default();
    let claimed = (!job.id.is_empty()).then_some(job);
    let (job, evidence) = match kernel.query(process.pid, claimed.as_ref()) {
        Verdict::Contradicts => return Err(Refusal::WrongJob),
        Verdict::In(job) => (Some(job), "cgroup"),
        Verdict::Confirms => (claimed, "cgroup"),
        Verdict::Unknown => (claimed, "environment"),
    };
    let Some(job) = job else { return Ok(local(hello, process, node)) };
    // What root has set on the node counts before what the rank's variables say; others have their server in the id.
    let is_slurm = job.scheduler == "slurm";
    let cluster = is_slurm.then(|| kernel.cluster().or_else(|| job.cluster.clone())).flatten();
    let run = job.run().to_owned();
    let ScheduledJob { scheduler, id, step, .. } = job;
    // One allocation may run several programs. Slurm numbers those that it starts; those of mpirun or mpiexec
    // are distinguished by their launcher, as on remote nodes they also carry the number of the launcher's own step.
    let launcher =
        hello.own_launcher().map(|launcher| format!("m{:08x}", hash(launcher.as_bytes()) & 0xffff_ffff));
    let step = launcher.or(step).unwrap_or_default();
    let job_key = job_key::scheduled(&scheduler, cluster.as_deref(), &run, &step, process.uid);
    Ok(Identity { job_key, scheduler, native_id: id, step, about, evidence })
}

/// A job that no scheduler vouches for.
pub(crate) fn local(hello: &Hello, process: &Process, node: &str) -> Identity {
    let (name, evidence) = match &hello.launcher {
        Some(launcher) => (format!("{:016x}", hash(launcher.as_bytes())), "launcher"),
        None => {
            let ticks =
                process.start_ticks.map_or_else(|| format!("e{}", hello.epoch), |ticks| ticks.to_string());
            (format!("{node}:{}:{ticks}", process.pid), "process")
        }
    };
    let job_key = job_key::local(&name, process.uid);
    Identity { job_key, scheduler: "local".into(), evidence, ..Identity::default() }
}

/// FNV-1a, 64 bits: the same on every node and in every version, which std's hasher does not promise.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests;
