//! Where the time of a job's ranks went, in lines that add up to all of it (docs/ACCOUNT.md).

use serde::{Deserialize, Serialize};

/// `GET /jobs/{job}/account`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobAccount {
    /// The job's key.
    pub job_key: String,
    /// The oldest and the newest reading of its ranks' clocks that this is made of, milliseconds since 1970; null without any.
    pub oldest_ms: Option<i64>,
    /// The newest.
    pub newest_ms: Option<i64>,
    /// Ranks of it, all together.
    pub ranks: u32,
    /// Ranks whose account is not known: of an older shim, or without a reading yet.
    pub ranks_without: u32,
    /// From the end of `MPI_Init` to its reading, summed over ranks.
    pub elapsed_seconds: f64,
    /// All ranks; their seconds add up to the elapsed ones.
    pub lines: Vec<AccountLine>,
    /// By node, those with the least computing first.
    pub nodes: Vec<NodeAccount>,
    /// By rank, those with the least computing first; at most 1,000.
    pub by_rank: Vec<RankAccount>,
}

/// A line of an account.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AccountLine {
    /// `computing`, `waiting_for_core`, `in_file` and so on.
    pub line: String,
    /// The most probable value.
    pub seconds: f64,
    /// At least.
    pub low: f64,
    /// At most.
    pub high: f64,
}

/// The account of a job's ranks on one node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeAccount {
    /// Its name.
    pub node: String,
    /// Ranks there whose account is known.
    pub ranks: u32,
    /// Seconds, summed over them.
    pub elapsed_seconds: f64,
    /// As of the job.
    pub lines: Vec<AccountLine>,
}

/// The account of a rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RankAccount {
    /// In MPI_COMM_WORLD.
    pub rank: u32,
    /// Where it runs.
    pub node: String,
    /// Seconds.
    pub elapsed_seconds: f64,
    /// As of the job.
    pub lines: Vec<AccountLine>,
}
