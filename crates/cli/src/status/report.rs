//! What `status` knows, as one JSON document. Absent values are null, never 0.

use serde::Serialize;

/// The whole document.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// When it was read, RFC 3339, by the database's clock.
    pub time: String,
    /// Where it was read.
    pub database: String,
    /// Each source of each origin.
    pub sources: Vec<Source>,
    /// Each daemon's way to the database.
    pub delivery: Vec<Delivery>,
    /// Records that were rejected since yesterday, by sender and reason, most first.
    pub rejected: Vec<Rejected>,
    /// Jobs: running ones first, then the newest.
    pub jobs: Vec<Job>,
}

/// Records of one sender that were rejected for one reason; the rest of their batches was stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Rejected {
    /// `node:NAME` or `crawler:NAME`, as the sender's certificate or socket says.
    pub sender: String,
    /// One word, as in `throughline_rejected_records_total` (docs/SECURITY.md).
    pub reason: String,
    /// How many.
    pub records: u64,
    /// Kinds of record, with commas.
    pub kinds: String,
    /// When the last one was rejected, RFC 3339.
    pub last: String,
}

/// One source of one node or subnet.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Source {
    /// `mad`, `sysfs`, `nvml`, `mpi` and what later versions have.
    pub source: String,
    /// Node name, or subnet prefix of a fabric crawler.
    pub origin: String,
    /// Time of the newest row, RFC 3339; null when there is none of the last day.
    pub newest: Option<String>,
    /// Its age.
    pub age_seconds: Option<f64>,
    /// Rows of the last minute, per second.
    pub rows_per_second: f64,
    /// What the daemon says: delivers or can't be read; null when it said nothing lately, or has nothing to read.
    pub up: Option<bool>,
    /// The node has nothing of this kind, as its daemon said: no GPU, no adapter. That is no fault.
    pub absent: bool,
    /// Why a source that is down or absent is so, or which user is over quota, as its daemon said.
    pub reason: Option<String>,
    /// Records dropped since the daemon's start.
    pub dropped_records: Option<u64>,
    /// Values or messages that could not be read since the daemon's start.
    pub failed_reads: Option<u64>,
    /// Users whose ranks are over a quota now; null but for `mpi`.
    pub over_quota_users: Option<u64>,
}

/// One daemon's spool and delivery.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Delivery {
    /// Node name, or subnet prefix of a fabric crawler.
    pub origin: String,
    /// Entries that waited in the spool when it last told.
    pub spool_entries: Option<u64>,
    /// Age of the oldest of them.
    pub lag_seconds: Option<f64>,
    /// Entries delivered since the daemon's start.
    pub delivered_entries: Option<u64>,
    /// Records dropped from a full spool since the daemon's start.
    pub dropped_records: Option<u64>,
    /// Failed attempts to deliver since the daemon's start.
    pub delivery_failures: Option<u64>,
}

/// One job.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Job {
    /// The job's key.
    pub job_key: String,
    /// Who runs it.
    pub user: Option<String>,
    /// What runs.
    pub command: Option<String>,
    /// Ranks seen.
    pub ranks: u64,
    /// Ranks that the job has by its own account.
    pub world_size: Option<u64>,
    /// Nodes on which ranks were seen.
    pub nodes: u64,
    /// `running`, `ended`, or `silent`: not ended, and nothing came for a minute.
    pub state: String,
    /// When it began, RFC 3339.
    pub start: Option<String>,
    /// When it ended, RFC 3339.
    pub end: Option<String>,
    /// Seconds since the end of an ended job, since the newest row of another.
    pub age_seconds: Option<f64>,
    /// Share of the ranks' time that was spent inside MPI, 0 to 1.
    pub mpi_time_share: Option<f64>,
    /// Operations by time, all of them.
    pub operations: Vec<Operation>,
}

/// One MPI operation of a job, over all ranks.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Operation {
    /// Its name.
    pub operation: String,
    /// Calls.
    pub calls: u64,
    /// What callers passed to send.
    pub bytes: u64,
    /// Time inside it, summed over ranks.
    pub elapsed_seconds: f64,
}
