//! Traced calls and messages of a job. Times that end in `_ns` are on each rank's own clock, in nanoseconds; to
//! compare ranks, line the clocks up with the comparisons.

use serde::{Deserialize, Serialize};

/// `GET /jobs/{job}/trace`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TracedRanks {
    /// The job's key.
    pub job_key: String,
    /// Traced processes, by rank and begin. A rank may have been several, one after the other.
    pub ranks: Vec<TracedRank>,
}

/// One traced process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TracedRank {
    /// In MPI_COMM_WORLD.
    pub rank: i32,
    /// When it began to count, microseconds since 1970: parameter `epoch_us` of its records.
    pub epoch_us: i64,
    /// Its node, where known.
    pub host: Option<String>,
    /// Records that there are.
    pub records: i64,
    /// Calls among them: records of kind call, send and receive.
    #[serde(default)]
    pub calls: i64,
    /// Records that were lost on their way, as far as numbers tell: all of them where `ending` is known.
    #[serde(default)]
    pub lost: i64,
    /// How its records end: `complete` with the rank, `limit` where a limit of records was reached; null while it runs, and
    /// where what it did last is not there.
    #[serde(default)]
    pub ending: Option<String>,
    /// Earliest begin of a record.
    pub first_ns: i64,
    /// Latest begin of a record.
    pub last_ns: i64,
    /// UTC of its node less its own clock, the smallest observed.
    pub utc_offset_ns: i64,
    /// The largest observed: UTC is adjusted while a program runs.
    pub utc_offset_max_ns: i64,
    /// Comparisons of its clock with rank 0's.
    pub comparisons: ComparisonColumns,
}

/// Comparisons of a rank's clock with rank 0's; columns of one length.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComparisonColumns {
    /// Running number: their order, whatever the clock did.
    pub number: Vec<i64>,
    /// The rank's own clock.
    pub clock_ns: Vec<i64>,
    /// To be added to it for rank 0's.
    pub offset_ns: Vec<i64>,
    /// The offset is not wrong by more.
    pub uncertainty_ns: Vec<i64>,
}

/// `GET /jobs/{job}/trace/{rank}`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceRecords {
    /// In the order of their numbers.
    pub records: RecordColumns,
    /// Parameter `after` of the following request; null in the last page.
    pub next: Option<i64>,
}

/// Records of one process; columns of one length.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordColumns {
    /// Running number of the rank's records; a gap is of records that were lost.
    pub number: Vec<i64>,
    /// Thread of the process, from 0.
    pub thread: Vec<i32>,
    /// call, send, receive, arrival, departure or end (`mpi_trace.kind`).
    pub kind: Vec<String>,
    /// MPI name without the prefix.
    pub operation: Vec<String>,
    /// Annotated region; empty outside of all.
    pub region: Vec<String>,
    /// Begin.
    pub start_ns: Vec<i64>,
    /// End.
    pub end_ns: Vec<i64>,
    /// Other side of a message.
    pub peer: Vec<Option<i32>>,
    /// Tag of a message.
    pub tag: Vec<Option<i32>>,
    /// Bytes.
    pub bytes: Vec<Option<i64>>,
    /// Communicator, as a number that is the same in all its members; 1 is MPI_COMM_WORLD.
    pub comm: Vec<Option<i64>>,
    /// Count of the message among those of its source, destination, communicator and tag.
    pub sequence: Vec<Option<i64>>,
}
