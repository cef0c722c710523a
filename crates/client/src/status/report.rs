//! What `status` knows, as one JSON document. Absent values are null, never 0.

use crate::job::summary::{share, time, title};
use serde::Serialize;
use throughline_api::JobState;
use throughline_api::status::{self, Status};

/// The whole document.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// When it was read, RFC 3339, by the database's clock.
    pub time: String,
    /// The server that was queried.
    pub server: String,
    /// Where its database is.
    pub database: String,
    /// The read replica of its readers; null where none is configured.
    pub replica: Option<status::Replica>,
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
    /// One word, as in `throughline_records_rejected_total` (docs/SECURITY.md).
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
    /// The largest gap between two rows, as the sender reported its rules: with an older newest row the source is silent.
    pub largest_gap_seconds: f64,
    /// What the source does, as the server judges by these rules.
    pub state: status::SourceState,
    /// Rows of the last minute, per second.
    pub rows_per_second: f64,
    /// Whether its daemon can read it; null when the daemon reported nothing lately, or has nothing to read.
    pub up: Option<bool>,
    /// The node has nothing of this kind, as its daemon reported: no GPU, no adapter. That is no fault.
    pub absent: bool,
    /// Why a source that is down or absent is so, or which user is over quota, as its daemon reported.
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
    /// Age of its last report; daemons send one each half a minute.
    pub age_seconds: Option<f64>,
    /// Whether that is so old that the daemon is silent.
    pub is_silent: bool,
    /// Entries that waited in the spool then.
    pub spool_entries: Option<u64>,
    /// Age of the oldest of them.
    pub lag_seconds: Option<f64>,
    /// Whether that is so old that it is not on its way: daemons deliver once a second.
    pub is_late: bool,
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
    /// The scheduler's name of it.
    pub name: Option<String>,
    /// Ranks observed.
    pub ranks: u64,
    /// Ranks that the job has by its own account.
    pub world_size: Option<u64>,
    /// Nodes on which ranks were observed.
    pub nodes: u64,
    /// As `job list` has it.
    pub state: JobState,
    /// When it began, RFC 3339.
    pub start: Option<String>,
    /// When it ended, RFC 3339.
    pub end: Option<String>,
    /// Seconds since the end of an ended job, since the last report on another.
    pub age_seconds: Option<f64>,
    /// Share of the ranks' time that was spent inside MPI, 0 to 1.
    pub mpi_time_share: Option<f64>,
    /// Operations by time, all of them.
    pub operations: Vec<status::StatusOperation>,
}

impl Report {
    /// What a server answered.
    #[must_use]
    pub fn new(status: Status, server: &str) -> Self {
        Self {
            time: time(status.time_ms),
            server: server.to_owned(),
            database: status.database,
            replica: status.replica,
            sources: status.sources.into_iter().map(Source::from).collect(),
            delivery: status.delivery.into_iter().map(Delivery::from).collect(),
            rejected: status.rejected.into_iter().map(Rejected::from).collect(),
            jobs: status.jobs.into_iter().map(|job| Job::new(job, status.time_ms)).collect(),
        }
    }
}

impl From<status::Source> for Source {
    fn from(source: status::Source) -> Self {
        Self {
            source: source.source,
            origin: source.instance,
            newest: source.newest_ms.map(time),
            age_seconds: source.age_seconds,
            largest_gap_seconds: source.largest_gap_seconds,
            state: source.state,
            rows_per_second: source.rows_per_second,
            up: source.up,
            absent: source.absent,
            reason: source.reason,
            dropped_records: source.dropped_records,
            failed_reads: source.failed_reads,
            over_quota_users: source.over_quota_users,
        }
    }
}

impl From<status::Delivery> for Delivery {
    fn from(delivery: status::Delivery) -> Self {
        Self {
            origin: delivery.instance,
            age_seconds: delivery.age_seconds,
            is_silent: delivery.is_silent,
            spool_entries: delivery.spool_entries,
            lag_seconds: delivery.lag_seconds,
            is_late: delivery.is_late,
            delivered_entries: delivery.delivered_entries,
            dropped_records: delivery.dropped_records,
            delivery_failures: delivery.delivery_failures,
        }
    }
}

impl From<status::Rejected> for Rejected {
    fn from(rejected: status::Rejected) -> Self {
        Self {
            sender: rejected.sender,
            reason: rejected.reason,
            records: rejected.records,
            kinds: rejected.kinds,
            last: time(rejected.last_ms),
        }
    }
}

impl Job {
    fn new(status::StatusJob { job, operations }: status::StatusJob, now_ms: i64) -> Self {
        let whole = |count: i64| u64::try_from(count).unwrap_or_default();
        let since = job.end_ms.or(job.reported_ms).or(job.start_ms);
        #[allow(clippy::cast_precision_loss)] // milliseconds
        let age_seconds = since.map(|since| (now_ms - since).max(0) as f64 / 1e3);
        let totals = job.totals.filter(|_| !operations.is_empty());
        Self {
            job_key: job.job_key,
            user: job.user,
            command: job.command,
            name: job.name,
            ranks: whole(job.ranks),
            world_size: job.world_size.map(|size| whole(size.into())),
            nodes: whole(job.nodes),
            state: job.state,
            start: job.start_ms.map(time),
            end: job.end_ms.map(time),
            age_seconds,
            mpi_time_share: totals
                .and_then(|totals| share(Some(totals.mpi_seconds), totals.observed_seconds)),
            operations,
        }
    }

    /// The scheduler's name, and what runs.
    #[must_use]
    pub fn title(&self) -> Option<String> {
        title(self.name.as_deref(), self.command.as_deref())
    }
}
