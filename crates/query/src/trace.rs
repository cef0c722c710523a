//! Traced calls and messages of a job. A trace may have many millions of records: they are read page by page, down the
//! primary key.

use crate::job_span::Span;
use std::collections::HashMap;
use throughline_api::trace::{ComparisonColumns, RecordColumns, TraceRecords, TracedRank};
use throughline_store::Error;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row};

const RANKS: &str = "
    SELECT t.rank, (extract(epoch FROM t.epoch) * 1000000)::bigint, count(*), min(t.start_ns), max(t.start_ns),
           min((extract(epoch FROM t.time) * 1000000)::bigint * 1000 - t.start_ns),
           max((extract(epoch FROM t.time) * 1000000)::bigint * 1000 - t.start_ns),
           (SELECT host FROM internal.job_ranks($1) r WHERE r.rank = t.rank ORDER BY r.start_time DESC LIMIT 1),
           count(*) FILTER (WHERE t.kind IN ('call', 'send', 'receive')), max(t.number) + 1 - count(*),
           CASE max(t.bytes) FILTER (WHERE t.kind = 'end') WHEN 0 THEN 'limit' ELSE max('complete') FILTER (WHERE t.kind = 'end') END
    FROM internal.mpi_trace t WHERE t.job_id = $1 AND t.time >= SINCE AND t.time <= UNTIL
      AND NOT EXISTS (SELECT FROM internal.rank_claim x WHERE x.contest IS NOT NULL AND x.job_id = t.job_id AND x.rank = t.rank AND x.node_id = t.node_id)
    GROUP BY t.rank, t.epoch ORDER BY t.rank, t.epoch";

const COMPARISONS: &str = "
    SELECT rank, (extract(epoch FROM epoch) * 1000000)::bigint, number, clock_ns, offset_ns, uncertainty_ns
    FROM internal.mpi_clock WHERE job_id = $1 AND time >= SINCE AND time <= UNTIL ORDER BY rank, epoch, number";

/// The traced processes of a job, by rank and begin.
///
/// # Errors
/// The database's.
pub async fn ranks(client: &Client, job: i64) -> Result<Vec<TracedRank>, Error> {
    let what = "reading the traced ranks of a job";
    let mut comparisons: HashMap<(i32, i64), ComparisonColumns> = HashMap::new();
    let span = Span::of_job(client, job).await?;
    for row in client.query(&span.within(COMPARISONS), &[&job]).await.map_err(Error::sql(what))? {
        let columns = comparisons.entry((row.get(0), row.get(1))).or_default();
        columns.number.push(row.get(2));
        columns.clock_ns.push(row.get(3));
        columns.offset_ns.push(row.get(4));
        columns.uncertainty_ns.push(row.get(5));
    }
    let rows = client.query(&span.within(RANKS), &[&job]).await.map_err(Error::sql(what))?;
    let rank = |row: &Row| {
        let (rank, epoch_us) = (row.get(0), row.get(1));
        TracedRank {
            rank,
            epoch_us,
            host: row.get(7),
            records: row.get(2),
            calls: row.get(8),
            lost: row.get(9),
            ending: row.get(10),
            first_ns: row.get(3),
            last_ns: row.get(4),
            utc_offset_ns: row.get(5),
            utc_offset_max_ns: row.get(6),
            comparisons: comparisons.remove(&(rank, epoch_us)).unwrap_or_default(),
        }
    };
    Ok(rows.iter().map(rank).collect())
}

/// Which records of a process.
#[derive(Clone, Copy, Debug)]
pub struct RecordQuery {
    /// In MPI_COMM_WORLD.
    pub rank: i32,
    /// Which start of it, microseconds since 1970.
    pub epoch_us: i64,
    /// Records that end before are left out, nanoseconds of the rank's clock.
    pub from_ns: i64,
    /// Records that begin after are left out.
    pub to_ns: i64,
    /// No record has a later time, milliseconds since 1970 in UTC: chunks beyond are not read.
    pub to_ms: Option<i64>,
    /// Only records with a larger number.
    pub after: i64,
    /// Most records.
    pub limit: i64,
}

/// In the order of the primary key.
const RECORDS: &str = "
    SELECT number, thread, kind, operation, region, start_ns, end_ns, peer, tag, bytes, comm, sequence
    FROM internal.mpi_trace
    WHERE job_id = $1 AND rank = $2 AND epoch = TIMESTAMPTZ 'epoch' + $3::bigint * INTERVAL '1 microsecond'
      AND start_ns <= $4 AND end_ns >= $5 AND number > $7 AND time >= SINCE AND time <= UNTIL
      AND time <= coalesce(TIMESTAMPTZ 'epoch' + $6::bigint * INTERVAL '1 millisecond', 'infinity')
    ORDER BY number LIMIT $8";

/// One page of the records of a process.
///
/// # Errors
/// The database's.
pub async fn records(client: &Client, job: i64, query: &RecordQuery) -> Result<TraceRecords, Error> {
    let limit = query.limit + 1;
    let parameters: [&(dyn ToSql + Sync); 8] = [
        &job,
        &query.rank,
        &query.epoch_us,
        &query.to_ns,
        &query.from_ns,
        &query.to_ms,
        &query.after,
        &limit,
    ];
    let sql = Span::of_job(client, job).await?.within(RECORDS);
    let rows = client.query(&sql, &parameters).await.map_err(Error::sql("reading a trace"))?;
    let page = &rows[..rows.len().min(usize::try_from(query.limit).unwrap_or(0))];
    let mut records = RecordColumns::default();
    for row in page {
        records.number.push(row.get(0));
        records.thread.push(row.get(1));
        records.kind.push(row.get(2));
        records.operation.push(row.get(3));
        records.region.push(row.get(4));
        records.start_ns.push(row.get(5));
        records.end_ns.push(row.get(6));
        records.peer.push(row.get(7));
        records.tag.push(row.get(8));
        records.bytes.push(row.get(9));
        records.comm.push(row.get(10));
        records.sequence.push(row.get(11));
    }
    let next = records.number.last().copied().filter(|_| rows.len() > page.len());
    Ok(TraceRecords { records, next })
}
