//! What the database holds of a traced job. Queries only.

use super::align::Point;
use crate::reader::SCHEMA;
use anyhow::Context;
use futures::{Stream, TryStreamExt};
use std::collections::HashMap;
use std::time::SystemTime;
use tokio_postgres::{Client, Row};

/// One traced process of the job. A rank may have been several, one after the other.
#[derive(Clone, Debug)]
pub struct TracedRank {
    /// Rank in `MPI_COMM_WORLD`.
    pub rank: i32,
    /// When it began to count.
    pub epoch: SystemTime,
    /// Its node, where known.
    pub host: Option<String>,
    /// Records there are.
    pub records: i64,
    /// Earliest beginning by its own clock, nanoseconds.
    pub first: i64,
    /// Latest beginning.
    pub last: i64,
    /// UTC as its node had it, less its own clock, nanoseconds; to the microsecond.
    pub utc_offset: i64,
    /// Comparisons with rank 0.
    pub points: Vec<Point>,
}

/// One record.
#[derive(Clone, Debug)]
pub struct Record {
    pub number: i64,
    pub thread: i32,
    pub kind: String,
    pub operation: String,
    pub region: String,
    pub start: i64,
    pub end: i64,
    pub peer: Option<i32>,
    pub tag: Option<i32>,
    pub bytes: Option<i64>,
    pub comm: Option<i64>,
    pub sequence: Option<i64>,
}

const RANKS: &str = "
    SELECT t.rank, t.epoch, count(*) AS records, min(t.start_ns) AS first, max(t.start_ns) AS last,
           min((extract(epoch FROM t.time) * 1000000)::bigint * 1000 - t.start_ns) AS utc_offset,
           (SELECT host FROM job_rank r WHERE r.job_id = $1 AND r.rank = t.rank
            ORDER BY r.start_time DESC LIMIT 1) AS host
    FROM mpi_trace t WHERE t.job_id = $1 GROUP BY t.rank, t.epoch ORDER BY t.rank, t.epoch";

const POINTS: &str = "
    SELECT rank, epoch, number, clock_ns, offset_ns, uncertainty_ns
    FROM mpi_clock WHERE job_id = $1";

/// In the order of the primary key. The range is by the rank's own clock, and by time so that chunks outside of it
/// are not read.
const RECORDS: &str = "
    SELECT number, thread, kind, operation, region, start_ns, end_ns, peer, tag, bytes, comm, sequence
    FROM mpi_trace
    WHERE job_id = $1 AND rank = $2 AND epoch = $3 AND start_ns <= $4 AND end_ns >= $5 AND time <= $6
    ORDER BY number";

/// The traced processes of a job, by rank.
///
/// # Errors
/// The database is gone or has no such tables.
pub async fn ranks(client: &Client, job: i32) -> anyhow::Result<Vec<TracedRank>> {
    let mut points: HashMap<(i32, SystemTime), Vec<Point>> = HashMap::new();
    for row in client.query(POINTS, &[&job]).await.context(SCHEMA)? {
        let point = Point {
            number: row.try_get("number")?,
            clock: row.try_get("clock_ns")?,
            offset: row.try_get("offset_ns")?,
            uncertainty: row.try_get("uncertainty_ns")?,
        };
        points.entry((row.try_get("rank")?, row.try_get("epoch")?)).or_default().push(point);
    }
    let rows = client.query(RANKS, &[&job]).await.context(SCHEMA)?;
    let rank = |row: Row| -> anyhow::Result<TracedRank> {
        let key = (row.try_get("rank")?, row.try_get("epoch")?);
        Ok(TracedRank {
            rank: key.0,
            epoch: key.1,
            host: row.try_get("host")?,
            records: row.try_get("records")?,
            first: row.try_get("first")?,
            last: row.try_get("last")?,
            utc_offset: row.try_get("utc_offset")?,
            points: points.remove(&key).unwrap_or_default(),
        })
    };
    rows.into_iter().map(rank).collect()
}

/// A range of a rank's own clock, nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// Records that end before are left out.
    pub from: i64,
    /// Records that begin after are left out.
    pub until: i64,
}

/// Records of one process, in the order of their numbers, as they arrive from the database.
///
/// # Errors
/// The database is gone or has no such table.
pub async fn records(
    client: &Client,
    job: i32,
    of: &TracedRank,
    range: Range,
) -> anyhow::Result<impl Stream<Item = anyhow::Result<Record>>> {
    // Times are kept to the microsecond below.
    let latest = time(range.until.min(of.last).saturating_add(of.utc_offset));
    let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 6] =
        [&job, &of.rank, &of.epoch, &range.until, &range.from, &latest];
    let rows = client.query_raw(RECORDS, parameters).await.context(SCHEMA)?;
    Ok(rows.map_err(anyhow::Error::from).and_then(|row| std::future::ready(record(&row))))
}

fn time(nanoseconds: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + std::time::Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(0))
}

fn record(row: &Row) -> anyhow::Result<Record> {
    Ok(Record {
        number: row.try_get("number")?,
        thread: row.try_get("thread")?,
        kind: row.try_get("kind")?,
        operation: row.try_get("operation")?,
        region: row.try_get("region")?,
        start: row.try_get("start_ns")?,
        end: row.try_get("end_ns")?,
        peer: row.try_get("peer")?,
        tag: row.try_get("tag")?,
        bytes: row.try_get("bytes")?,
        comm: row.try_get("comm")?,
        sequence: row.try_get("sequence")?,
    })
}
