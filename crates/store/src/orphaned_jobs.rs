//! Orphaned jobs: no agent reports them any more, because the node or its agent died, and no end will be reported.
//!
//! Ranks that are closed here are marked `silent`. The writer reopens them when their node reports the job again.

use std::time::Duration;

use tokio_postgres::Client;

use crate::error::Error;
use crate::writer::SETTLE_JOBS;

/// What a call of [`close_orphaned_jobs`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrphanedJobs {
    /// Ranks that were closed.
    pub ranks: u64,
    /// Jobs that ended by it.
    pub jobs: u64,
}

/// Closes the ranks on each node that has reported nothing of their job for `limit`, by the checked clock of the database (`clock_check`).
/// A rank's end is when its node last knew that the job ran. Agents report each job once a minute.
///
/// # Errors
/// The database refuses.
pub async fn close_orphaned_jobs(client: &mut Client, limit: Duration) -> Result<OrphanedJobs, Error> {
    let what = "closing orphaned jobs";
    let seconds = limit.as_secs_f64();
    let transaction = client.transaction().await.map_err(Error::sql(what))?;
    let closed = transaction.query(CLOSE_RANKS, &[&seconds]).await.map_err(Error::sql(what))?;
    let mut jobs: Vec<i64> = closed.iter().map(|row| row.get(0)).collect();
    jobs.sort_unstable();
    jobs.dedup();
    let settled = transaction.execute(SETTLE_JOBS, &[&jobs]).await.map_err(Error::sql(what))?;
    let without =
        transaction.execute(CLOSE_JOBS_WITHOUT_RANKS, &[&seconds]).await.map_err(Error::sql(what))?;
    transaction.commit().await.map_err(Error::sql(what))?;
    Ok(OrphanedJobs { ranks: closed.len() as u64, jobs: settled + without })
}

/// The same order of locks as the writer's: jobs before ranks.
const CLOSE_RANKS: &str = "
WITH quiet AS (
    SELECT r.job_id, r.rank, r.start_time, r.node_id, greatest(r.start_time, n.last_seen) AS last_seen
    FROM internal.rank_claim r
    JOIN internal.run j ON j.id = r.job_id
    LEFT JOIN internal.run_claim n ON n.job_id = r.job_id AND n.node_id = r.node_id
    WHERE r.end_time IS NULL AND coalesce(n.reported_at, r.start_time) < (SELECT internal.upkeep_time()) - make_interval(secs => $1)
    ORDER BY r.job_id, r.rank, r.start_time
    FOR UPDATE OF j
)
UPDATE internal.rank_claim r SET end_time = q.last_seen, ending = 'silent'
FROM quiet q
WHERE r.job_id = q.job_id AND r.rank = q.rank AND r.start_time = q.start_time
    AND r.node_id IS NOT DISTINCT FROM q.node_id AND r.end_time IS NULL
RETURNING r.job_id";

/// Jobs with samples and without a record of any rank.
const CLOSE_JOBS_WITHOUT_RANKS: &str = "
UPDATE internal.run j SET end_time = coalesce((SELECT max(n.last_seen) FROM internal.run_claim n WHERE n.job_id = j.id), j.first_seen)
WHERE j.end_time IS NULL AND j.first_seen < (SELECT internal.upkeep_time()) - make_interval(secs => $1)
    AND NOT EXISTS (SELECT FROM internal.rank_claim r WHERE r.job_id = j.id)
    AND NOT EXISTS (SELECT FROM internal.run_claim n
        WHERE n.job_id = j.id AND n.reported_at >= (SELECT internal.upkeep_time()) - make_interval(secs => $1))";
