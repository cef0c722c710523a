//! Where the time of a job's ranks went, in lines that add up to all of it (docs/ACCOUNT.md).

use crate::jobs::AsOf;
use serde::{Deserialize, Serialize};

/// `GET /jobs/{job}/account`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobAccount {
    /// The job's key.
    pub job_key: String,
    /// As of when the job and its nodes are, where nodes reported it; null of a job that has ended, in its first seconds, and while all
    /// readings of its ranks are newer: then these are what this is made of.
    pub as_of: Option<AsOf>,
    /// The oldest and the newest reading of its ranks' clocks that is in their rows, milliseconds since 1970; null without any.
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
    /// By rank as of its newest reading, those with the least computing first; at most 1,000.
    pub by_rank: Vec<RankAccount>,
    /// What changed over the run, where that is sure.
    pub trends: Vec<AccountTrend>,
    /// In which annotated regions the calls were that returned, all threads' calls, most time first; empty where the program names none.
    pub regions: Vec<RegionAccount>,
}

/// The time in MPI in a region.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RegionAccount {
    /// The innermost annotated region; empty outside of all.
    pub region: String,
    /// In calls that have returned.
    pub mpi_seconds: f64,
    /// Of these: in calls that only begin something.
    pub starting_seconds: f64,
}

/// What a line does over a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AccountTrend {
    /// As of the job; `in_mpi` is all time in MPI.
    pub line: String,
    /// `grows`: it takes more of the ranks' time since `time_ms`. `only_at_start`: all that it costs lies before that.
    pub trend: String,
    /// When, milliseconds since 1970: of a step of the run.
    pub time_ms: i64,
    /// Its part of the ranks' time before.
    pub before: f64,
    /// And since.
    pub since: f64,
}

/// `GET /jobs/{job}/account-steps`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AccountSteps {
    /// The job's key.
    pub job_key: String,
    /// The node that it is of; null: all.
    pub node: Option<String>,
    /// Begin of the first step.
    pub from_ms: i64,
    /// Length of a step.
    pub step_ms: i64,
    /// Ends of the steps.
    pub time_ms: Vec<i64>,
    /// The ranks' time in each step; 0 where nothing is known of it.
    pub elapsed_seconds: Vec<f64>,
    /// Those with any time; their seconds add up to the elapsed ones.
    pub lines: Vec<AccountLineSteps>,
    /// Of the time in MPI: off the processor.
    pub off_in_mpi_seconds: Vec<f64>,
    /// Of this: could have run, and no core was free.
    pub waiting_for_core_in_mpi_seconds: Vec<f64>,
}

/// A line over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AccountLineSteps {
    /// As of a job; the time in MPI is one.
    pub line: String,
    /// As of a line of a job.
    pub group: String,
    /// In each step.
    pub seconds: Vec<f64>,
}

/// A line of an account.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AccountLine {
    /// `computing`, `waiting_for_core`, `in_file` and so on.
    pub line: String,
    /// `computing`, `waiting_for_core`, `off_processor` or `in_mpi`; the first three are outside of MPI.
    pub group: String,
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
