//! `GET /status`: what arrives in the database, and the newest jobs.

use crate::jobs::Job;
use serde::{Deserialize, Serialize};

/// The whole answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// When it was read, by the database's clock, milliseconds since 1970.
    pub time_ms: i64,
    /// Where the database is.
    pub database: String,
    /// The read replica of this server's readers; null where none is configured.
    #[serde(default)]
    pub replica: Option<Replica>,
    /// Whether the database's clock is believed; null where an older server answers.
    #[serde(default)]
    pub clock: Option<DatabaseClock>,
    /// How far history goes back; null where an older server answers.
    #[serde(default)]
    pub history: Option<StoredHistory>,
    /// Each source of each instance.
    pub sources: Vec<Source>,
    /// Each daemon's way to the database.
    pub delivery: Vec<Delivery>,
    /// Records that were rejected since yesterday, by sender and reason, most first.
    pub rejected: Vec<Rejected>,
    /// Nodes that report ranks that other nodes report too, since yesterday; those that were overruled first.
    #[serde(default)]
    pub contests: Vec<ContestingNode>,
    /// Programs of the last hour whose calls of MPI are not counted, or not all, the newest first.
    #[serde(default)]
    pub bypassed: Vec<BypassedProgram>,
    /// Servers whose clocks are off, and after them senders whose clocks are, the farthest first.
    #[serde(default)]
    pub clocks: Vec<ClockFault>,
    /// Jobs: running ones first, then those that ended last.
    pub jobs: Vec<StatusJob>,
}

/// `GET /clock`: whether the database's clock is believed. Without that nothing is dropped, thinned or packed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DatabaseClock {
    /// trusted, waiting, unchecked; unreported, unconfirmed, outvoted, jumped where it is not believed.
    pub state: String,
    /// Why nothing is dropped, as a sentence's part; null while all is as it should be.
    pub warning: Option<String>,
    /// What to do then.
    pub remedy: Option<String>,
    /// How far it is ahead of the witness against it; negative where it is behind.
    pub off_seconds: Option<f64>,
    /// Since when the state is so, by this clock, milliseconds since 1970.
    pub since_ms: i64,
    /// What it said when it was believed last, milliseconds since 1970.
    pub trusted_ms: Option<i64>,
    /// Senders whose clocks were measured lately.
    pub reporting: u32,
    /// Those of them that agree with it.
    pub agreeing: u32,
}

/// How far history goes back, by the begins of the oldest chunks, and what goes next.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredHistory {
    /// Of readings of ports and links, as rows or packed, milliseconds since 1970; null while there are none.
    pub readings_ms: Option<i64>,
    /// Of minutes of ports and links.
    pub minutes_ms: Option<i64>,
    /// Of shares of links.
    pub shares_ms: Option<i64>,
    /// When the first job that is stored began.
    pub jobs_ms: Option<i64>,
    /// Chunks that will be older than their retention 24 hours from now.
    pub next_day_chunks: u64,
    /// Their bytes on disk, as the database's statistics have them.
    pub next_day_bytes: u64,
    /// Whether a backup is in progress: nothing is dropped meanwhile.
    pub is_backup_running: bool,
}

/// A node that reports what others report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContestingNode {
    /// Its name.
    pub node: String,
    /// contested: it is not known who is right; overruled: what others report is against it.
    pub state: String,
    /// Jobs with such ranks.
    pub jobs: u64,
    /// Such ranks.
    pub ranks: u64,
    /// Some of the nodes that report the same.
    pub others: Vec<String>,
}

/// A program whose calls of MPI pass by the shim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BypassedProgram {
    /// The node that reports it.
    pub node: String,
    /// Which program of whom, why, and what to do.
    pub text: String,
    /// When it was reported, milliseconds since 1970.
    pub time_ms: i64,
}

/// A clock that is off.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClockFault {
    /// A node, a crawler or a server.
    pub instance: String,
    /// How far it is ahead: a sender's of the server's, a server's of those of its senders that agree; negative: behind.
    pub offset_seconds: f64,
    /// Of a server the senders that agree; null of a sender.
    pub senders_alike: Option<u64>,
    /// Of a server its senders in all; null of a sender.
    pub senders: Option<u64>,
}

/// A read replica, as this server observes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Replica {
    /// Where it is.
    pub place: String,
    /// Whether readers use it.
    pub state: ReplicaState,
    /// Age of the oldest change of the primary that it does not have; null where that is not known.
    pub lag_seconds: Option<f64>,
    /// With a larger lag readers use the primary.
    pub lag_seconds_max: f64,
    /// Why readers do not use it, or why its lag is not known.
    pub reason: Option<String>,
    /// Requests that went to the primary in its place, since this server's start.
    pub fallbacks: u64,
}

/// Whether readers use a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplicaState {
    /// They do.
    Used,
    /// It is too far behind.
    Behind,
    /// It does not answer, or is no standby.
    Away,
}

/// What a source does. Whether it is silent goes by the rules that its sender reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceState {
    /// Its daemon can read it, and rows come.
    Up,
    /// Its daemon can read it, and there are no rows.
    UpWithoutRows,
    /// Its daemon can't read it.
    Down,
    /// The node has nothing of this kind.
    Absent,
    /// It gives its devices to a profiler: nothing is read, and that is no fault.
    Paused,
    /// Another profiler has its devices: nothing can be read, and that is no fault.
    Busy,
    /// Rows come; its daemon does not report whether it can read it.
    Rows,
    /// The newest row is older than its sender's largest gap, or there is none.
    #[default]
    Silent,
}

impl SourceState {
    /// The word that people read.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            SourceState::Up => "up",
            SourceState::UpWithoutRows => "up, no rows",
            SourceState::Down => "down",
            SourceState::Absent => "absent",
            SourceState::Paused => "paused",
            SourceState::Busy => "busy",
            SourceState::Rows => "rows",
            SourceState::Silent => "silent",
        }
    }
}

/// One source of one node or subnet that reported within a day.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Source {
    /// `mad`, `sysfs`, `nvml`, `mpi` and what later versions have.
    pub source: String,
    /// Node name, or subnet prefix of a fabric crawler.
    pub instance: String,
    /// Time of the newest row; null when there is none of the last day.
    pub newest_ms: Option<i64>,
    /// Its age.
    pub age_seconds: Option<f64>,
    /// The largest gap between two rows, as the sender reported its rules: with an older newest row the source is silent.
    pub largest_gap_seconds: f64,
    /// What the source does.
    pub state: SourceState,
    /// Rows of the last minute, per second.
    pub rows_per_second: f64,
    /// Whether its daemon can read it; null when the daemon reported nothing lately, or has nothing to read.
    pub up: Option<bool>,
    /// The node has nothing of this kind, as its daemon reported: no GPU, no adapter. That is no fault.
    pub absent: bool,
    /// Why a source that is down, absent, paused or busy is so, or which user is over quota.
    pub reason: Option<String>,
    /// Since when it is paused or busy, milliseconds since 1970.
    #[serde(default)]
    pub since_ms: Option<i64>,
    /// When that ends by itself, where that is known, milliseconds since 1970.
    #[serde(default)]
    pub until_ms: Option<i64>,
    /// Records dropped since the daemon's start.
    pub records_discarded: Option<u64>,
    /// Values or messages that could not be read since the daemon's start.
    pub failed_reads: Option<u64>,
    /// Users whose ranks are over a quota now; null but for `mpi`.
    pub over_quota_users: Option<u64>,
}

/// One daemon's spool and delivery, as it reported last within a day.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Delivery {
    /// Node name, or subnet prefix of a fabric crawler.
    pub instance: String,
    /// Age of that report; daemons send one each half a minute.
    pub age_seconds: Option<f64>,
    /// Whether that is so old that the daemon is silent.
    pub is_silent: bool,
    /// Entries that waited in the spool.
    pub spool_entries: Option<u64>,
    /// Age of the oldest of them.
    pub lag_seconds: Option<f64>,
    /// Whether that is so old that it is not on its way: daemons deliver once a second.
    pub is_late: bool,
    /// Entries delivered since the daemon's start.
    pub delivered_entries: Option<u64>,
    /// Records dropped from a full spool since the daemon's start.
    pub records_discarded: Option<u64>,
    /// Failed attempts to deliver since the daemon's start.
    pub delivery_failures: Option<u64>,
}

/// Records of one sender that were rejected for one reason; the rest of their batches was stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejected {
    /// `node:NAME` or `crawler:NAME`, as the sender's certificate or socket says.
    pub sender: String,
    /// One word, as in `throughline_records_rejected_total` (docs/SECURITY.md).
    pub reason: String,
    /// How many.
    pub records: u64,
    /// Kinds of record, with commas.
    pub kinds: String,
    /// When the last one was rejected, milliseconds since 1970.
    pub last_ms: i64,
}

/// A job with its operations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StatusJob {
    /// The job, with totals.
    pub job: Job,
    /// Operations over all ranks, those with the most time first.
    pub operations: Vec<StatusOperation>,
}

/// One MPI operation of a job, over all ranks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StatusOperation {
    /// Its name.
    pub operation: String,
    /// Calls.
    pub calls: u64,
    /// What callers passed to send.
    pub bytes: u64,
    /// Time inside it, summed over ranks.
    pub elapsed_seconds: f64,
}
