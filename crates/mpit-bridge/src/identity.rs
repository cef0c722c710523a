//! Which job a rank belongs to.
//!
//! The key is the same on every node of the job: scheduler, job id and step; else the launcher, which identifies
//! all its ranks the same about itself; else the one process. What a rank claims is held against what the
//! kernel reports, and each key ends in the user that the kernel reports: whatever a rank claims, its rows are never
//! another user's.

use crate::frame::{Field, number};
use crate::kernel::{Kernel, ScheduledJob, Verdict};
use crate::process::Process;
use crate::schedulers::{About, Claim, claim};
use crate::status::Malformed;
use throughline_sample::admission::{NAME_BYTES_MAX, clean_text};

/// Largest world: as many ranks as the shim keeps peers for.
const WORLD_MAX: u64 = 1 << 20;
/// Longest text stored of a HELLO, in bytes.
const TEXT_BYTES: usize = NAME_BYTES_MAX;
/// Longest launcher's name for itself, and longest variable, in bytes: only their beginnings are used.
const LONG_TEXT_BYTES: usize = 4 * NAME_BYTES_MAX;
/// Most variables of a HELLO: a shim knows some thirty.
const VARIABLES_MAX: usize = 128;
/// What a rank says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// Process id as the process sees it; 0 where it is not sent.
    pub pid: u32,
    /// Rank in `MPI_COMM_WORLD`.
    pub rank: u32,
    /// Ranks in `MPI_COMM_WORLD`.
    pub world_size: u32,
    /// UTC nanoseconds of MPI_Init: its counting began.
    pub epoch: i64,
    /// First line of the library's description.
    pub library: String,
    /// Scheduler's and launcher's variables.
    pub variables: Vec<(String, String)>,
    /// The same for all ranks that one launcher started.
    pub launcher: Option<String>,
}

impl Hello {
    /// Reads the fields of a HELLO frame.
    ///
    /// # Errors
    /// A needed field is missing or impossible.
    pub fn read(fields: &[Field<'_>]) -> Result<Self, Malformed> {
        let mut hello = Self::default();
        let (mut rank, mut size, mut epoch) = (None, None, None);
        for (tag, data) in fields {
            match tag {
                1 => hello.pid = u32::try_from(number(data)?).unwrap_or(0),
                2 => rank = Some(number(data)?),
                3 => size = Some(number(data)?),
                4 => epoch = Some(number(data)?),
                6 => hello.library = clean(data, TEXT_BYTES),
                8 if hello.variables.len() < VARIABLES_MAX => hello.variables.extend(variable(data)),
                9 => hello.launcher = Some(clean(data, LONG_TEXT_BYTES)).filter(|text| !text.is_empty()),
                _ => {}
            }
        }
        let (rank, size) = (rank.ok_or(Malformed::Field)?, size.ok_or(Malformed::Field)?);
        if rank >= size || size > WORLD_MAX {
            return Err(Malformed::Rank);
        }
        // Both are below WORLD_MAX.
        hello.rank = u32::try_from(rank).map_err(|_| Malformed::Rank)?;
        hello.world_size = u32::try_from(size).map_err(|_| Malformed::Rank)?;
        hello.epoch = i64::try_from(epoch.ok_or(Malformed::Field)?).map_err(|_| Malformed::Field)?;
        Ok(hello)
    }

    pub(crate) fn variable(&self, names: &[&str]) -> Option<&str> {
        let value = |name: &&str| self.variables.iter().find(|(known, _)| known == name);
        names.iter().find_map(value).map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// The launcher, unless it is the scheduler's own (`srun --mpi=pmix`), which the step names already.
    fn own_launcher(&self) -> Option<&str> {
        self.launcher.as_deref().filter(|launcher| !launcher.starts_with("pmix slurm."))
    }
}

/// The job of a rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// `slurm:123.0@1000`, `pbs:12.host@1000`, `local:…@1000`: the same on each node of the job.
    pub job_key: String,
    /// slurm, pbs, lsf, flux, sge, or local.
    pub scheduler: String,
    /// The scheduler's own id, empty without one.
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
    let Some(ScheduledJob { scheduler, id, step, .. }) = job else { return Ok(local(hello, process, node)) };
    // One allocation may run several programs. Slurm numbers those that it starts; those of mpirun or mpiexec
    // are distinguished by their launcher, as on remote nodes they also carry the number of the launcher's own step.
    let launcher =
        hello.own_launcher().map(|launcher| format!("m{:08x}", hash(launcher.as_bytes()) & 0xffff_ffff));
    let step = launcher.or(step).unwrap_or_default();
    let dot = if step.is_empty() { "" } else { "." };
    let job_key = format!("{scheduler}:{id}{dot}{step}@{}", process.uid);
    Ok(Identity { job_key, scheduler, native_id: id, step, about, evidence })
}

/// A job that no scheduler vouches for.
pub(crate) fn local(hello: &Hello, process: &Process, node: &str) -> Identity {
    let uid = process.uid;
    let (job_key, evidence) = match &hello.launcher {
        Some(launcher) => (format!("local:{:016x}@{uid}", hash(launcher.as_bytes())), "launcher"),
        None => {
            let ticks =
                process.start_ticks.map_or_else(|| format!("e{}", hello.epoch), |ticks| ticks.to_string());
            (format!("local:{node}:{}:{ticks}@{uid}", process.pid), "process")
        }
    };
    Identity { job_key, scheduler: "local".into(), evidence, ..Identity::default() }
}

/// FNV-1a, 64 bits: the same on every node and in every version, which std's hasher does not promise.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn variable(data: &[u8]) -> Option<(String, String)> {
    let text = clean(data, LONG_TEXT_BYTES);
    text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()))
}

/// Text without control characters or others that deceive, cut to a length.
fn clean(data: &[u8], bytes: usize) -> String {
    let text = String::from_utf8_lossy(data);
    let plain: String = text.chars().filter(|c| !c.is_control()).take(bytes).collect();
    clean_text(&plain, bytes).into_owned()
}

#[cfg(test)]
#[path = "identity_tests.rs"]
mod tests;
