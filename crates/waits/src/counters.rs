//! What is always recorded of a job's ranks.

use crate::NodeSample;

/// What a rank's calls of an operation and size class add up to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RankOperation {
    /// In MPI_COMM_WORLD.
    pub rank: u32,
    /// MPI name without the prefix, in lower case.
    pub operation: String,
    /// Largest message of the class, bytes.
    pub size_class_bytes: u64,
    /// Calls.
    pub calls: u64,
    /// Time inside them.
    pub elapsed_seconds: f64,
    /// Time in Wait and Test calls for the requests that they began; `None` for blocking ones.
    pub wait_seconds: Option<f64>,
    /// What the calls would have taken, had each been as short as the shortest of its bin of 0.1 s; absent where that is not known.
    pub least_seconds: Option<f64>,
}

impl RankOperation {
    /// All of its time, that in Wait and Test calls included.
    pub(crate) fn elapsed(&self) -> f64 {
        self.elapsed_seconds + self.wait_seconds.unwrap_or(0.0)
    }
}

/// What is always recorded of a job, over the time in question.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// By rank, operation and size class.
    pub operations: Vec<RankOperation>,
    /// Calls that all members sampled ([`crate::merge`]).
    pub samples: Vec<NodeSample>,
}
