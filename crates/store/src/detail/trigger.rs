//! Jobs whose detail is requested without a person: those that ended badly, and those with a verdict that the full
//! resolution shows.

use std::time::SystemTime;

use tokio_postgres::Client;

use super::DetailReason;
use crate::error::Error;

/// A job whose detail is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DetailTrigger {
    /// Its number in the tables.
    pub job: i64,
    /// Why.
    pub reason: DetailReason,
    /// When it began.
    pub start: Option<SystemTime>,
    /// When it ended; `None` while it runs.
    pub end: Option<SystemTime>,
}

/// Jobs that ended within a quarter of an hour and have a rank that ended without MPI_Finalize, and jobs that run and have a
/// verdict of these kinds now. Jobs whose detail was requested for the same reason are left out; for a job that runs, only
/// requests of the last hour count.
///
/// # Errors
/// The database's.
pub async fn detail_triggers(client: &Client, verdicts: &[&str]) -> Result<Vec<DetailTrigger>, Error> {
    const SQL: &str = "
        SELECT j.id, true, j.start_time, j.end_time FROM internal.run j
        WHERE j.end_time > now() - interval '15 minutes'
          AND EXISTS (SELECT 1 FROM internal.job_rank r WHERE r.job_id = j.id AND r.ending = 'lost')
          AND NOT EXISTS (SELECT 1 FROM internal.detail_request d WHERE d.job_id = j.id AND d.reason = 'job_end')
        UNION ALL
        SELECT j.id, false, j.start_time, NULL FROM internal.run j
        WHERE j.end_time IS NULL
          AND EXISTS (SELECT 1 FROM internal.job_verdict v WHERE v.job_id = j.id AND v.kind = ANY($1)
                        AND v.last_at > now() - internal.minutely_gap())
          AND NOT EXISTS (SELECT 1 FROM internal.detail_request d WHERE d.job_id = j.id AND d.reason = 'verdict'
                            AND d.requested_at > now() - interval '1 hour')
        LIMIT 100";
    let rows =
        client.query(SQL, &[&verdicts]).await.map_err(Error::sql("looking for jobs that need detail"))?;
    let trigger = |row: &tokio_postgres::Row| DetailTrigger {
        job: row.get(0),
        reason: if row.get(1) { DetailReason::JobEnd } else { DetailReason::Verdict },
        start: row.get(2),
        end: row.get(3),
    };
    Ok(rows.iter().map(trigger).collect())
}
