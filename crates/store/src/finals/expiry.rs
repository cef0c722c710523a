//! What of jobs goes: claims of ranks once rows of the job's time are gone, and the job itself after `retention.jobs_seconds`. Only with the
//! permission of the checked clock (`internal.expiry_time()`), some jobs at a time, each batch in a transaction of its own.

use std::time::Duration;

use tokio_postgres::Client;

use crate::error::Error;
use crate::retention::Retention;
use crate::tables::{PlainRetention, plain_tables};

/// Jobs of one transaction.
const JOBS: i64 = 100;

/// Transactions of one call.
const BATCHES: u32 = 50;

/// A job stays where anything of it was stored later: a writer may know its number for a day until it looks it up again.
const UNTOUCHED: Duration = Duration::from_secs(3 * 86_400);

/// What a call did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpiredJobs {
    /// Jobs.
    pub jobs: u64,
    /// Whether more are to go.
    pub is_behind: bool,
}

/// Jobs whose claims go: packed as they are, with all rows of their time gone. $1: hypertables with rows of ranks; $2 the limit.
const RELEASED: &str = "
SELECT f.job_id FROM internal.job_final f JOIN internal.run j ON j.id = f.job_id
WHERE NOT f.is_released AND j.end_time = f.ended_at
  AND f.ended_at < internal.expiry_time() - (SELECT max(p.keep) FROM internal.retention_policy p WHERE p.hypertable = ANY ($1))
  AND NOT EXISTS (SELECT FROM internal.job_final_wanted w WHERE w.job_id = f.job_id)
ORDER BY f.ended_at, f.job_id LIMIT $2";

/// Hypertables whose rows are read with the claims of ranks.
const ROWS_OF_RANKS: [&str; 6] = [
    "mpi_rank_rows",
    "mpi_node_rows",
    "mpi_rank_peers",
    "mpi_node_traffic",
    "mpi_regions",
    "mpi_region_paths",
];

/// Removes claims of ranks of jobs that are packed, once rows of their time are gone; claims that others are against stay.
///
/// # Errors
/// The database's.
pub async fn release_claims(client: &mut Client) -> Result<ExpiredJobs, Error> {
    let what = "removing the claims of ranks that are packed";
    let mut done = ExpiredJobs::default();
    let tables: Vec<&str> = ROWS_OF_RANKS.to_vec();
    for _ in 0..BATCHES {
        let transaction = client.transaction().await.map_err(Error::sql(what))?;
        let jobs = transaction.query(RELEASED, &[&tables, &JOBS]).await.map_err(Error::sql(what))?;
        let jobs: Vec<i64> = jobs.iter().map(|row| row.get(0)).collect();
        if jobs.is_empty() {
            return Ok(ExpiredJobs { is_behind: false, ..done });
        }
        // The order of locks is the writer's: jobs, then their ranks.
        let lock = "SELECT FROM internal.run WHERE id = ANY ($1) ORDER BY id FOR UPDATE";
        transaction.execute(lock, &[&jobs]).await.map_err(Error::sql(what))?;
        // A job that began again meanwhile stays.
        let mark = "UPDATE internal.job_final f SET is_released = true FROM internal.run j
                    WHERE f.job_id = ANY ($1) AND j.id = f.job_id AND j.end_time = f.ended_at
                      AND NOT EXISTS (SELECT FROM internal.rank_claim r WHERE r.job_id = f.job_id AND r.end_time IS NULL)
                    RETURNING f.job_id";
        let marked = transaction.query(mark, &[&jobs]).await.map_err(Error::sql(what))?;
        let released: Vec<i64> = marked.iter().map(|row| row.get(0)).collect();
        for delete in [
            "DELETE FROM internal.rank_gpu g WHERE job_id = ANY ($1) AND EXISTS (
                 SELECT FROM internal.rank_claim r WHERE r.job_id = g.job_id AND r.rank = g.rank AND r.node_id = g.node_id
                 AND r.start_time = g.start_time AND r.contest IS NULL)",
            "DELETE FROM internal.rank_claim WHERE job_id = ANY ($1) AND contest IS NULL",
            "DELETE FROM internal.mpi_open_call WHERE job_id = ANY ($1)",
            "DELETE FROM internal.mpi_rank_scheduling WHERE job_id = ANY ($1)",
            "DELETE FROM internal.job_comm WHERE job_id = ANY ($1)",
        ] {
            transaction.execute(delete, &[&released]).await.map_err(Error::sql(what))?;
        }
        transaction.commit().await.map_err(Error::sql(what))?;
        done.jobs += released.len() as u64;
        if released.is_empty() {
            return Ok(done);
        }
    }
    Ok(ExpiredJobs { is_behind: true, ..done })
}

/// Removes jobs that ended longer ago than `retention.jobs_seconds`, with all that is known of them.
///
/// # Errors
/// The database's.
pub async fn expire_jobs(client: &mut Client, retention: &Retention) -> Result<ExpiredJobs, Error> {
    let what = "removing jobs older than retention.jobs_seconds";
    let mut done = ExpiredJobs::default();
    let old = "SELECT j.id FROM internal.run j
               WHERE j.end_time < internal.expiry_time() - make_interval(secs => $1)
                 AND NOT EXISTS (SELECT FROM internal.run_claim c
                     WHERE c.job_id = j.id AND c.reported_at > internal.expiry_time() - make_interval(secs => $2))
               ORDER BY j.end_time, j.id LIMIT $3 FOR UPDATE OF j SKIP LOCKED";
    let (keep, untouched) = (retention.jobs().as_secs_f64(), UNTOUCHED.min(retention.jobs()).as_secs_f64());
    for _ in 0..BATCHES {
        let transaction = client.transaction().await.map_err(Error::sql(what))?;
        let jobs = transaction.query(old, &[&keep, &untouched, &JOBS]).await.map_err(Error::sql(what))?;
        let jobs: Vec<i64> = jobs.iter().map(|row| row.get(0)).collect();
        if jobs.is_empty() {
            return Ok(ExpiredJobs { is_behind: false, ..done });
        }
        for delete in deletes() {
            transaction.execute(&delete, &[&jobs]).await.map_err(Error::sql(what))?;
        }
        transaction.commit().await.map_err(Error::sql(what))?;
        done.jobs += jobs.len() as u64;
    }
    Ok(ExpiredJobs { is_behind: true, ..done })
}

/// A statement for each table that has rows of jobs; the jobs themselves go last.
fn deletes() -> Vec<String> {
    let mut tables: Vec<(&str, &str)> = plain_tables()
        .filter_map(|(table, plain)| match plain.keep {
            PlainRetention::Job(column) | PlainRetention::Rank(column) => Some((table.name, column)),
            _ => None,
        })
        .collect();
    tables.sort_by_key(|(table, _)| *table == "run");
    tables
        .iter()
        .map(|(table, column)| format!("DELETE FROM internal.{table} WHERE {column} = ANY ($1)"))
        .collect()
}
