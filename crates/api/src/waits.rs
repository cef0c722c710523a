//! What of a job's time in MPI was waiting for other ranks (docs/WAITS.md). Seconds are summed over ranks, and where a rank has several
//! threads, over these.

use crate::jobs::AsOf;
use serde::{Deserialize, Serialize};

/// `GET /jobs/{job}/waits`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobWaits {
    /// The job's key.
    pub job_key: String,
    /// As of when its sums are while the job runs: rows of ranks come less often than those of nodes. Null of one that has ended.
    #[serde(default)]
    pub as_of: Option<AsOf>,
    /// How the seconds are known, but for those of [`Self::course`], which are estimated.
    #[serde(default)]
    pub basis: WaitBasis,
    /// Exact ones: clocks of ranks may be wrong by so much against each other, which the bounds are of.
    #[serde(default)]
    pub clock_error_seconds: Option<f64>,
    /// Why they are estimated though the job was traced.
    #[serde(default)]
    pub trace_unused: Option<String>,
    /// All operations together.
    pub total: WaitParts,
    /// By operation, all communicators; the one with most waiting first.
    pub operations: Vec<OperationWaits>,
    /// Collectives by operation and communicator; the one with most waiting first.
    pub communicators: Vec<OperationWaits>,
    /// By rank, in their order.
    pub ranks: Vec<RankWaits>,
    /// Who arrived last at collectives, the one that others waited for the longest first; at most 1,000.
    pub last_arrivals: Vec<LastArrivalWaits>,
    /// Waiting at collectives over time, in at most 120 steps.
    pub course: WaitCourse,
}

/// How waiting is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitBasis {
    /// From sums of each rank and sampled calls.
    #[default]
    Estimated,
    /// From a trace that has all calls of all ranks. A Wait is an operation of its own there.
    Exact,
}

/// Seconds, with the least and the most that they can be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WaitSeconds {
    /// The most probable value.
    pub seconds: f64,
    /// At least.
    pub low: f64,
    /// At most.
    pub high: f64,
}

/// Where time in MPI went. The kinds of waiting, progress and transfer add up to the elapsed seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WaitParts {
    /// Calls; of communicators an estimate from sampled ones.
    pub calls: u64,
    /// Time inside, that in Wait and Test calls for what they began included.
    pub elapsed_seconds: f64,
    /// All kinds of waiting for other ranks.
    pub waiting: WaitSeconds,
    /// Receives before their message was sent.
    pub late_sender: WaitSeconds,
    /// Sends before their receive was posted.
    pub late_receiver: WaitSeconds,
    /// Collectives before their last member arrived.
    pub at_collective: WaitSeconds,
    /// Broadcasts and scatters before their root arrived.
    pub late_root: WaitSeconds,
    /// Wait and Test calls in which a transfer went on that nothing drove before.
    pub progress: WaitSeconds,
    /// What remains.
    pub transfer: WaitSeconds,
}

/// Waiting within an operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OperationWaits {
    /// MPI name without the prefix.
    pub operation: String,
    /// World ranks of the communicator's members, as FIRST-LAST:DISTANCE; null in sums over all communicators.
    pub members: Option<String>,
    /// How many these are.
    pub group_size: Option<u32>,
    /// Seconds.
    #[serde(flatten)]
    pub parts: WaitParts,
}

/// Waiting of a rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RankWaits {
    /// In MPI_COMM_WORLD.
    pub rank: u32,
    /// Seconds.
    #[serde(flatten)]
    pub parts: WaitParts,
}

/// How often a rank was the last one at a communicator's collectives.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LastArrivalWaits {
    /// In MPI_COMM_WORLD.
    pub rank: u32,
    /// MPI name without the prefix.
    pub operation: String,
    /// World ranks of the communicator's members.
    pub members: String,
    /// Part of the calls in which it arrived last, 0 to 1.
    pub share: f64,
    /// Seconds that the others waited for it, summed over them.
    pub waited_seconds: f64,
}

/// Waiting at collectives over time, as columns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WaitCourse {
    /// Length of a step.
    pub step_ms: i64,
    /// Ends of steps in which something was sampled.
    pub time_ms: Vec<i64>,
    /// MPI name without the prefix.
    pub operation: Vec<String>,
    /// Seconds of waiting, summed over ranks.
    pub waiting_seconds: Vec<f64>,
    /// Seconds inside these calls.
    pub elapsed_seconds: Vec<f64>,
}
