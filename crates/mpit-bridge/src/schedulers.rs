//! What a rank's variables say about its job. A claim only: the user who starts a program sets its variables.
//!
//! Facts of each scheduler stand beside its rule; those of Slurm were observed on running ones (22.05, 25.11, 26.05), the others
//! are documented by their makers.

use crate::hello::Hello;
use crate::kernel::ScheduledJob;
use throughline_sample::admission::{NAME_BYTES_MAX, clean_text};
use throughline_sample::job_key::{cluster_name, is_sluid, is_step_number};

/// Longest scheduler id: PBS ids carry a host name.
const ID_CHARACTERS: usize = 128;
/// Most components of a heterogeneous job; Slurm allows 128.
const COMPONENTS_MAX: u32 = 128;

/// What a scheduler's variables report beside the id; empty where they do not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// The job's name.
    pub name: String,
    /// Account or project.
    pub account: String,
    /// Partition or queue.
    pub queue: String,
    /// Array and number in it.
    pub array_id: String,
}

/// A job that a rank says to be in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Claim {
    pub job: ScheduledJob,
    pub about: About,
}

/// The job that a rank's scheduler variables name.
pub(crate) fn claim(hello: &Hello) -> Option<Claim> {
    slurm(hello).or_else(|| pbs(hello)).or_else(|| lsf(hello)).or_else(|| flux(hello)).or_else(|| sge(hello))
}

fn job(scheduler: &str, id: String, step: Option<String>) -> Option<ScheduledJob> {
    let step = step.filter(|step| is_id(step));
    let job =
        ScheduledJob { scheduler: scheduler.to_owned(), id, step, components: 1, ..ScheduledJob::default() };
    is_id(&job.id).then_some(job)
}

/// In a heterogeneous job every task has the first component's id in SLURM_JOB_ID, and steps are numbered through
/// all components; control groups have the component's own id, which follows the first one's.
///
/// `srun` may start processes that each are a world of their own (MPICH under `--mpi=pmix`, any MPI under
/// `--mpi=none`): each is a job, distinguished by the number of its task.
///
/// The batch script (since 26.05 it has a variable, too) and the shell of `salloc` are parts of the job that have names and no
/// numbers: no steps of their own. Each component of a heterogeneous job has a SLUID of its own, which its ranks do not share.
fn slurm(hello: &Hello) -> Option<Claim> {
    let id = hello.variable(&["SLURM_JOB_ID", "SLURM_JOBID"]).filter(|id| is_number(id))?;
    let step = hello.variable(&["SLURM_STEP_ID", "SLURM_STEPID"]);
    let mut step = step.filter(|step| is_step_number(step)).map(str::to_owned);
    let tasks: u32 =
        hello.variable(&["SLURM_STEP_NUM_TASKS"]).and_then(|tasks| tasks.parse().ok()).unwrap_or(1);
    if let (Some(step), Some(task)) = (&mut step, hello.variable(&["SLURM_PROCID"]))
        && hello.world_size == 1
        && tasks > 1
        && is_number(task)
    {
        step.push('.');
        step.push_str(task);
    }
    let components = hello.variable(&["SLURM_HET_SIZE"]).and_then(|size| size.parse().ok()).unwrap_or(1);
    let array = hello.variable(&["SLURM_ARRAY_JOB_ID"]).zip(hello.variable(&["SLURM_ARRAY_TASK_ID"]));
    let about = About {
        array_id: array.map(|(array, task)| format!("{array}_{task}")).unwrap_or_default(),
        ..about(hello, "SLURM_JOB_NAME", "SLURM_JOB_ACCOUNT", "SLURM_JOB_PARTITION")
    };
    let job = ScheduledJob {
        components: components.clamp(1, COMPONENTS_MAX),
        sluid: hello.variable(&["SLURM_JOB_SLUID"]).filter(|sluid| is_sluid(sluid)).map(str::to_owned),
        cluster: hello.variable(&["SLURM_CLUSTER_NAME"]).and_then(cluster_name),
        ..job("slurm", id.to_owned(), step)?
    };
    Some(Claim { job, about })
}

/// PBS Professional, OpenPBS and Torque: `12.server`, in an array `12[3].server` or `12-3.server`.
fn pbs(hello: &Hello) -> Option<Claim> {
    let id = hello.variable(&["PBS_JOBID"])?;
    let number = id.split('.').next().unwrap_or(id);
    let about = About {
        array_id: if number.contains(['[', '-']) { number.to_owned() } else { String::new() },
        ..about(hello, "PBS_JOBNAME", "PBS_ACCOUNT", "PBS_QUEUE")
    };
    Some(Claim { job: job("pbs", id.to_owned(), None)?, about })
}

/// LSF: all elements of an array have one LSB_JOBID, and LSB_JOBINDEX is 0 outside of arrays.
fn lsf(hello: &Hello) -> Option<Claim> {
    let id = hello.variable(&["LSB_JOBID"]).filter(|id| is_number(id))?;
    let index = hello.variable(&["LSB_JOBINDEX"]).filter(|index| is_number(index) && *index != "0");
    let array_id = index.map(|index| format!("{id}[{index}]")).unwrap_or_default();
    let id = if array_id.is_empty() { id.to_owned() } else { array_id.clone() };
    let about = About { array_id, ..about(hello, "LSB_JOBNAME", "LSB_PROJECT_NAME", "LSB_QUEUE") };
    Some(Claim { job: job("lsf", id, None)?, about })
}

/// Flux: the id in base 58, behind an f or, in UTF-8 locales, a florin sign. Instances nest, and each numbers its
/// jobs anew: where the whole path is reported, that is the id.
fn flux(hello: &Hello) -> Option<Claim> {
    let id = hello.variable(&["FLUX_JOB_ID_PATH", "FLUX_JOB_ID"])?;
    let id = id.replace('\u{192}', "f").trim_start_matches('/').replace('/', "-");
    Some(Claim { job: job("flux", id, None)?, about: About::default() })
}

/// Grid Engine: JOB_ID could be anybody's variable; SGE_TASK_ID is there in each of its jobs, `undefined` outside of
/// arrays.
fn sge(hello: &Hello) -> Option<Claim> {
    let task = hello.variable(&["SGE_TASK_ID"])?;
    let id = hello.variable(&["JOB_ID"]).filter(|id| is_number(id))?;
    let array_id = if is_number(task) { format!("{id}.{task}") } else { String::new() };
    let id = if array_id.is_empty() { id.to_owned() } else { array_id.clone() };
    let about = About { array_id, ..about(hello, "JOB_NAME", "SGE_ACCOUNT", "QUEUE") };
    Some(Claim { job: job("sge", id, None)?, about })
}

fn about(hello: &Hello, name: &str, account: &str, queue: &str) -> About {
    let text = |variable: &str| {
        clean_text(hello.variable(&[variable]).unwrap_or_default(), NAME_BYTES_MAX).into_owned()
    };
    About { name: text(name), account: text(account), queue: text(queue), array_id: String::new() }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.len() <= 20 && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// No `@`: what follows it in a job key is the user, and the kernel's word.
fn is_id(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= ID_CHARACTERS
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-[]+".contains(&byte))
}

#[cfg(test)]
mod tests;
