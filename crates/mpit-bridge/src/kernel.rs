//! What the kernel reports about the job of a process: queried of the agent, which can read control groups.

use std::fmt;
use std::sync::Arc;

/// A job as a scheduler names it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScheduledJob {
    /// slurm, pbs, lsf, flux, sge.
    pub scheduler: String,
    /// The scheduler's own id; empty where only the SLUID is known.
    pub id: String,
    /// Slurm's name of one run of a job, since 26.05; a requeued job has the same id and another one.
    pub sluid: Option<String>,
    /// The cluster that numbers its jobs so, where the scheduler has clusters and it is known.
    pub cluster: Option<String>,
    /// The step in the job, where the scheduler counts steps and it is known.
    pub step: Option<String>,
    /// Jobs that it consists of, whose numbers follow this one: more than 1 in a heterogeneous job of Slurm.
    pub components: u32,
}

impl ScheduledJob {
    /// What names this run of the job in its cluster, the same for all its ranks: the SLUID where there is one, else the id. Each
    /// component of a heterogeneous job has a SLUID of its own, and a world may have ranks in several: there it is the id.
    #[must_use]
    pub fn run(&self) -> &str {
        self.sluid.as_deref().filter(|_| self.components <= 1).unwrap_or(&self.id)
    }

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
    /// The process lies in this job: it claimed none, or less than the kernel knows of it.
    In(ScheduledJob),
    /// The process lies in another job than it claims.
    Contradicts,
}

type Query = dyn Fn(u32, Option<&ScheduledJob>) -> Verdict + Send + Sync;
type ClusterQuery = dyn Fn() -> Option<String> + Send + Sync;

/// Queries about a process id and what it claims, and about the node. May read files; is never called on a thread that polls
/// sockets.
#[derive(Clone)]
pub struct Kernel {
    query: Arc<Query>,
    cluster: Arc<ClusterQuery>,
}

impl Kernel {
    /// Answers by this function.
    pub fn new(query: impl Fn(u32, Option<&ScheduledJob>) -> Verdict + Send + Sync + 'static) -> Self {
        Self { query: Arc::new(query), cluster: Arc::new(|| None) }
    }

    /// With a function that gives the name of the node's Slurm cluster, as root has set it.
    #[must_use]
    pub fn with_cluster(self, cluster: impl Fn() -> Option<String> + Send + Sync + 'static) -> Self {
        Self { cluster: Arc::new(cluster), ..self }
    }

    /// The kernel's word about this process.
    #[must_use]
    pub fn query(&self, pid: u32, claim: Option<&ScheduledJob>) -> Verdict {
        (self.query)(pid, claim)
    }

    /// The node's Slurm cluster; `None` where root's files do not name it.
    #[must_use]
    pub fn cluster(&self) -> Option<String> {
        (self.cluster)()
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
