//! What is known of jobs in one line each: identity, ranks and how they ended, and the sums of their MPI operations.

use crate::reader::SCHEMA;
use anyhow::Context;
use serde::Serialize;
use throughline_sample::to_rfc3339;
use tokio_postgres::{Client, Row};

/// A job that has not ended and sent nothing for this long is called silent.
pub const SILENT_SECONDS: f64 = 60.0;

/// One job.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Its number in the tables.
    #[serde(skip)]
    pub id: i32,
    /// `scheduler:id[.step]`, or `local:…`.
    pub job_key: String,
    /// slurm, pbs, lsf, flux or local.
    pub scheduler: Option<String>,
    /// The scheduler's own id.
    pub native_id: Option<String>,
    /// The step in it.
    pub step: Option<String>,
    /// Who runs it.
    pub user: Option<String>,
    /// What runs.
    pub command: Option<String>,
    /// Its name, as the scheduler told.
    pub name: Option<String>,
    /// Account or project.
    pub account: Option<String>,
    /// Partition or queue.
    pub queue: Option<String>,
    /// `running`, `ended`, `lost` (ended, and ranks of it without MPI_Finalize) or `silent`: nothing came for a
    /// minute, or its nodes went away before its end was seen.
    pub state: &'static str,
    /// When it began, RFC 3339.
    pub start: Option<String>,
    /// When its last rank ended, RFC 3339.
    pub end: Option<String>,
    /// From its start to its end, or to its newest row.
    pub duration_seconds: Option<f64>,
    /// Ranks seen.
    pub ranks: u64,
    /// Ranks that it has by its own account.
    pub world_size: Option<u64>,
    /// Nodes on which ranks were seen.
    pub nodes: u64,
    /// Ranks that run now.
    pub ranks_running: u64,
    /// Ranks that ended without MPI_Finalize.
    pub ranks_lost: u64,
    /// Ranks whose nodes went away.
    pub ranks_silent: u64,
    /// Calls of all operations.
    pub calls: Option<u64>,
    /// What callers passed to send.
    pub bytes: Option<u64>,
    /// Time inside MPI, summed over ranks.
    pub mpi_seconds: Option<f64>,
    /// Time that the ranks were observed, summed.
    pub observed_seconds: Option<f64>,
    /// The first divided by the second.
    pub mpi_time_share: Option<f64>,
    /// Time of the newest row, UTC nanoseconds.
    #[serde(skip)]
    pub newest: Option<i64>,
}

/// Which jobs.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only this one.
    pub id: Option<i32>,
    /// Of this user.
    pub user: Option<String>,
    /// Of this scheduler.
    pub scheduler: Option<String>,
    /// Begun or still running at this time, RFC 3339.
    pub since: Option<String>,
    /// That have not ended.
    pub running: bool,
}

/// Jobs that pass the filter, the newest first. Texts of programs are cut: a name may have a megabyte.
const JOBS: &str = "
    SELECT id, job_key, scheduler, native_id, step, left(user_name, 64) AS user_name, left(command, 2048) AS command, world_size, ranks, nodes, ranks_running,
           ranks_lost, ranks_silent, left(name, 256) AS name, left(account, 256) AS account, left(queue, 256) AS queue,
           (extract(epoch FROM start_time) * 1e9)::bigint AS start_ns,
           (extract(epoch FROM end_time) * 1e9)::bigint AS end_ns
    FROM job_summary
    WHERE ($1::integer IS NULL OR id = $1) AND ($2::text IS NULL OR user_name = $2)
      AND ($3::text IS NULL OR scheduler = $3)
      AND ($4::text IS NULL OR start_time >= $4::timestamptz OR end_time IS NULL OR end_time >= $4::timestamptz)
      AND (NOT $5 OR end_time IS NULL)
    ORDER BY coalesce(start_time, first_seen) DESC, id DESC
    LIMIT $6";

/// Sums over the ranks of some jobs.
const TOTALS: &str = "
    SELECT job_id, stored_total(sum(calls)) AS calls,
           stored_total(sum(bytes)) AS bytes, sum(elapsed_seconds) AS mpi_seconds,
           sum(observed_seconds) AS observed_seconds,
           (extract(epoch FROM max(last_time)) * 1e9)::bigint AS newest_ns,
           extract(epoch FROM now() - max(last_time))::double precision AS age
    FROM mpi_rank_totals WHERE job_id = ANY($1) GROUP BY job_id";

/// Reads the newest jobs that pass the filter.
///
/// # Errors
/// The database is gone, or has no schema of this build.
pub async fn read(client: &Client, filter: &Filter, limit: i64) -> anyhow::Result<Vec<Summary>> {
    let rows = client
        .query(JOBS, &[&filter.id, &filter.user, &filter.scheduler, &filter.since, &filter.running, &limit])
        .await
        .context(SCHEMA)?;
    let mut jobs = rows.iter().map(job).collect::<Result<Vec<Summary>, _>>()?;
    let ids: Vec<i32> = jobs.iter().map(|job| job.id).collect();
    let mut ages = std::collections::BTreeMap::new();
    for row in client.query(TOTALS, &[&ids]).await.context(SCHEMA)? {
        let id: i32 = row.try_get("job_id")?;
        ages.insert(id, row.try_get::<_, Option<f64>>("age")?);
        if let Some(job) = jobs.iter_mut().find(|job| job.id == id) {
            add_totals(job, &row)?;
        }
    }
    for job in &mut jobs {
        let age = ages.get(&job.id).copied().flatten();
        job.state = state(job, age);
    }
    Ok(jobs)
}

/// Reads one job.
///
/// # Errors
/// As [`read`]; the job is gone.
pub async fn one(client: &Client, id: i32) -> anyhow::Result<Summary> {
    let filter = Filter { id: Some(id), ..Filter::default() };
    read(client, &filter, 1).await?.pop().context("the job is gone from the database")
}

fn job(row: &Row) -> Result<Summary, tokio_postgres::Error> {
    Ok(Summary {
        id: row.try_get("id")?,
        job_key: row.try_get("job_key")?,
        scheduler: row.try_get("scheduler")?,
        native_id: row.try_get("native_id")?,
        step: row.try_get("step")?,
        user: row.try_get("user_name")?,
        command: row.try_get("command")?,
        start: row.try_get::<_, Option<i64>>("start_ns")?.map(to_rfc3339),
        end: row.try_get::<_, Option<i64>>("end_ns")?.map(to_rfc3339),
        duration_seconds: span(row.try_get("start_ns")?, row.try_get("end_ns")?),
        ranks: whole(row, "ranks")?.unwrap_or_default(),
        world_size: row.try_get::<_, Option<i32>>("world_size")?.and_then(|size| u64::try_from(size).ok()),
        nodes: whole(row, "nodes")?.unwrap_or_default(),
        ranks_running: whole(row, "ranks_running")?.unwrap_or_default(),
        ranks_lost: whole(row, "ranks_lost")?.unwrap_or_default(),
        ranks_silent: whole(row, "ranks_silent")?.unwrap_or_default(),
        name: row.try_get("name")?,
        account: row.try_get("account")?,
        queue: row.try_get("queue")?,
        ..Summary::default()
    })
}

fn add_totals(job: &mut Summary, row: &Row) -> Result<(), tokio_postgres::Error> {
    job.calls = whole(row, "calls")?;
    job.bytes = whole(row, "bytes")?;
    job.mpi_seconds = row.try_get("mpi_seconds")?;
    job.observed_seconds = row.try_get("observed_seconds")?;
    job.newest = row.try_get("newest_ns")?;
    job.mpi_time_share = share(job.mpi_seconds, job.observed_seconds);
    if job.duration_seconds.is_none() {
        let start = job.start.as_deref().and_then(throughline_sample::from_rfc3339);
        job.duration_seconds = span(start, job.newest);
    }
    Ok(())
}

/// Time inside MPI divided by time observed. Threads of one rank may be inside at the same time: at most 1.
pub fn share(inside: Option<f64>, observed: Option<f64>) -> Option<f64> {
    observed
        .filter(|observed| *observed > 0.0)
        .zip(inside)
        .map(|(observed, inside)| (inside / observed).min(1.0))
}

fn state(job: &Summary, age: Option<f64>) -> &'static str {
    match (&job.end, age) {
        (Some(_), _) if job.ranks_lost > 0 => "lost",
        (Some(_), _) if job.ranks_silent > 0 => "silent",
        (Some(_), _) => "ended",
        // One that has only begun has no row yet; one of which rows are gone by retention has none either.
        (None, None) if started_long_ago(job) => "silent",
        (None, Some(age)) if age > SILENT_SECONDS => "silent",
        (None, _) => "running",
    }
}

fn started_long_ago(job: &Summary) -> bool {
    let start = job.start.as_deref().and_then(throughline_sample::from_rfc3339);
    let now = throughline_daemon::Clock::new().now();
    span(start, Some(now)).is_none_or(|age| age > SILENT_SECONDS)
}

/// Seconds between two times.
#[allow(clippy::cast_precision_loss)] // centuries of nanoseconds, for people
fn span(start: Option<i64>, end: Option<i64>) -> Option<f64> {
    start.zip(end).map(|(start, end)| end.saturating_sub(start).max(0) as f64 / 1e9)
}

/// A count; the store's are signed.
///
/// # Errors
/// No such column.
pub fn whole(row: &Row, column: &str) -> Result<Option<u64>, tokio_postgres::Error> {
    Ok(row.try_get::<_, Option<i64>>(column)?.and_then(|value| u64::try_from(value).ok()))
}
