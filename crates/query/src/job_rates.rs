//! What running jobs do with MPI now.

use crate::open_calls;
use crate::time::now;
use std::collections::BTreeMap;
use throughline_api::jobs::{JobRate, JobRates, OpenCalls, mpi_rate_share};
use throughline_store::Error;
use tokio_postgres::{Client, Row};

/// Most jobs, the newest.
const JOBS_MAX: i64 = 1000;

/// Cells of each job that has not ended, as of its newest row and as of a window before, and the time in calls that go on.
/// Jobs without a row or such a call in the last minute are left out: they have no rate now.
const RATES: &str = "
    WITH running AS MATERIALIZED (
        SELECT * FROM public.job_summary
        WHERE id IN (SELECT id FROM internal.run_visible WHERE end_time IS NULL AND ($2::text IS NULL OR user_name = $2)
                     ORDER BY coalesce(start_time, first_seen) DESC LIMIT $3)
    ), cells AS MATERIALIZED (
        SELECT r.id, c.* FROM running r CROSS JOIN LATERAL (
            SELECT operation, calls, bytes, elapsed_seconds, last_time, NULL::timestamptz AS since FROM internal.mpi_overflow_cells(r.id)
            UNION ALL
            SELECT operation, calls, bytes, elapsed_seconds, last_time, since FROM internal.mpi_node_op_cells(r.id)) c
    ), open AS MATERIALIZED (
        SELECT r.id, o.operation, o.start_time, o.reported_at FROM running r JOIN internal.mpi_open_calls o ON o.job_id = r.id
        WHERE o.rank_end_time IS NULL AND NOT o.is_counted
    ), newest AS MATERIALIZED (
        -- Folded rows come at an interval: their rate is over whole ones.
        SELECT id, last_time, ceil($1 / folded - 0.01) * folded AS seconds
        FROM (SELECT id, max(last_time) AS last_time,
                     greatest(max(extract(epoch FROM last_time - since)) FILTER (WHERE since IS NOT NULL), 1)::float8 AS folded
              FROM (SELECT id, last_time, since FROM cells UNION ALL SELECT id, reported_at, NULL FROM open) reported
              GROUP BY id) of_job
    ), steps AS (
        SELECT id, operation, calls, bytes, elapsed_seconds FROM cells
        UNION ALL
        SELECT n.id, c.operation, -c.calls, -c.bytes, -c.elapsed_seconds
        FROM newest n CROSS JOIN LATERAL (
            SELECT * FROM (SELECT n.last_time - make_interval(secs => n.seconds) AS time) before CROSS JOIN LATERAL (
                SELECT operation, calls, bytes, elapsed_seconds FROM internal.mpi_overflow_cells(n.id, before.time)
                UNION ALL
                SELECT operation, calls, bytes, elapsed_seconds FROM internal.mpi_node_op_cells(n.id, before.time)) b) c
        UNION ALL
        SELECT o.id, o.operation, 0, 0,
               extract(epoch FROM n.last_time - greatest(o.start_time, n.last_time - make_interval(secs => n.seconds)))
        FROM open o JOIN newest n ON n.id = o.id WHERE o.start_time < n.last_time
    )
    SELECT r.id, r.job_key, left(r.name, 256), left(r.user_name, 64), left(r.command, 2048), r.ranks, r.nodes, s.operation,
           extract(epoch FROM now() - r.start_time)::double precision,
           extract(epoch FROM now() - n.last_time)::double precision,
           least(n.seconds, extract(epoch FROM n.last_time - r.start_time))::double precision,
           sum(s.calls)::double precision, sum(s.bytes)::double precision, sum(s.elapsed_seconds)::double precision
    FROM running r JOIN newest n ON n.id = r.id JOIN steps s ON s.id = r.id
    WHERE n.last_time > now() - internal.default_gap()
    GROUP BY r.id, r.job_key, r.name, r.user_name, r.command, r.ranks, r.nodes, r.start_time, n.last_time, n.seconds, s.operation";

/// Rates of running jobs over the last `window_seconds` up to each one's newest row, in the order of their numbers; of one
/// user where one is given.
///
/// # Errors
/// The database's.
pub async fn rates(client: &Client, window_seconds: f64, user: Option<&str>) -> Result<JobRates, Error> {
    let what = "reading what running jobs do";
    let rows = client.query(RATES, &[&window_seconds, &user, &JOBS_MAX]).await.map_err(Error::sql(what))?;
    let mut jobs: BTreeMap<i64, (JobRate, ShareBasis)> = BTreeMap::new();
    for row in &rows {
        let (job, rated) = jobs.entry(row.get(0)).or_insert_with(|| (job(row), ShareBasis::default()));
        let seconds = row.get::<_, Option<f64>>(10).unwrap_or(window_seconds).max(f64::EPSILON);
        let per_second = |place: usize| row.get::<_, Option<f64>>(place).unwrap_or(0.0).max(0.0) / seconds;
        let inside = per_second(13);
        job.calls_per_second += per_second(11);
        job.bytes_per_second += per_second(12);
        job.mpi_seconds_per_second += inside;
        rated.window_seconds = seconds;
        if inside > rated.most {
            rated.most = inside;
            job.top_operation = Some(row.get(7));
        }
    }
    let ids: Vec<i64> = jobs.keys().copied().collect();
    let open = open_calls::of_jobs(client, &ids).await?;
    for calls in open.chunk_by(|one, other| one.job_id == other.job_id) {
        let Some((job, _)) = calls.first().and_then(|call| jobs.get_mut(&call.job_id)) else { continue };
        let longest =
            |one: &OpenCalls, other: &OpenCalls| one.longest_seconds.total_cmp(&other.longest_seconds);
        job.open_call =
            open_calls::grouped(calls).into_iter().filter(|group| !group.have_ended).max_by(longest);
    }
    let jobs = jobs.into_values().map(|(job, rated)| with_shares(job, &rated)).collect();
    Ok(JobRates { as_of_ms: now(client).await?, window_seconds, jobs })
}

/// What shares of a job's rates are made from.
#[derive(Default)]
struct ShareBasis {
    /// Time that the rates are over.
    window_seconds: f64,
    /// Seconds in MPI a second of the operation with most.
    most: f64,
}

fn job(row: &Row) -> JobRate {
    JobRate {
        job_key: row.get(1),
        name: row.get(2),
        user: row.get(3),
        command: row.get(4),
        ranks: row.get(5),
        nodes: row.get(6),
        running_seconds: row.get(8),
        age_seconds: row.get(9),
        ..JobRate::default()
    }
}

#[allow(clippy::cast_precision_loss)] // shares
fn with_shares(mut job: JobRate, rated: &ShareBasis) -> JobRate {
    let inside = job.mpi_seconds_per_second;
    job.mpi_time_share = mpi_rate_share(inside, job.ranks as f64, rated.window_seconds);
    job.top_operation_share = (inside > 0.0).then(|| rated.most / inside);
    job
}
