//! What the kernel reports about the job of a process: queried of the agent, which can read control groups.

use std::fmt;
use std::sync::Arc;

/// A job as a scheduler names it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScheduledJob {
    /// slurm, pbs, lsf, flux, sge.
    pub scheduler: String,
    /// The scheduler's own id.
    pub id: String,
    /// The step in the job, where the scheduler has steps and it is known.
    pub step: Option<String>,
    /// Jobs that it consists of, whose numbers follow this one: more than 1 in a heterogeneous job of Slurm.
    pub components: u32,
}

impl ScheduledJob {
    /// Whether a job's id is this one's, or that of a component of it.
    #[must_use]
    pub fn has_component(&self, id: &str) -> bool {
        let numbers = self.id.parse::<u64>().ok().zip(id.parse::<u64>().ok());
        self.id == id
            || numbers.is_some_and(|(own, id)| (own..own + u64::from(self.components.max(1))).contains(&id))
    }
}

/// The kernel's word about a process and its claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The kernel knows of no job, or of none that can be held against the claim.
    Unknown,
    /// The process lies in the job that it claims.
    Confirms,
    /// The process lies in this job, which it did not claim.
    In(ScheduledJob),
    /// The process lies in another job than it claims.
    Contradicts,
}

type Query = dyn Fn(u32, Option<&ScheduledJob>) -> Verdict + Send + Sync;

/// Queries about a process id and what it claims. May read files; is never called on a thread that polls sockets.
#[derive(Clone)]
pub struct Kernel(Arc<Query>);

impl Kernel {
    /// Answers by this function.
    pub fn new(query: impl Fn(u32, Option<&ScheduledJob>) -> Verdict + Send + Sync + 'static) -> Self {
        Self(Arc::new(query))
    }

    /// The kernel's word about this process.
    #[must_use]
    pub fn query(&self, pid: u32, claim: Option<&ScheduledJob>) -> Verdict {
        (self.0)(pid, claim)
    }
}

impl Default for Kernel {
    /// Knows of no job: claims are taken as they are.
    fn default() -> Self {
        Self::new(|_, _| Verdict::Unknown)
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Kernel")
    }
}
