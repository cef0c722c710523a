//! Jobs whose detail is requested without a person: those that ended badly, and those with a verdict that the full
//! resolution shows. Their judgements say so (`job_judgement.detail_after`); they wait in the turns in which they were judged.

use std::time::{Duration, SystemTime};

use tokio_postgres::{Client, Row};

use super::DetailReason;
use crate::error::Error;
use crate::turns::{Turn, TurnQueue};

/// What was refused is requested again after this time.
const AGAIN: Duration = Duration::from_secs(120);

/// Jobs that wait. Within an owner those that ran for a while come first.
const QUEUE: TurnQueue = TurnQueue {
    table: "internal.job_judgement",
    owner: "q.uid",
    is_waiting: "q.detail_after IS NOT NULL",
    due: "detail_after",
    comes_later: Some("is_brief"),
};

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
    /// Whose turn it is.
    pub turn: Turn,
}

/// Of a job that has ended once, and not later than its nodes' rings have it for certain; of one that runs once an hour, while it
/// is so.
fn triggers() -> String {
    format!(
        "SELECT t.job_id, d.is_final, j.start_time, j.end_time, t.node_id, t.uid,
             CASE WHEN d.is_final THEN coalesce(j.end_time > now() - interval '15 minutes', false)
                      AND NOT EXISTS (SELECT 1 FROM internal.detail_request r WHERE r.job_id = j.id AND r.reason = 'job_end')
                  ELSE j.end_time IS NULL AND d.judged_at > now() - internal.minutely_gap()
                      AND NOT EXISTS (SELECT 1 FROM internal.detail_request r WHERE r.job_id = j.id AND r.reason = 'verdict'
                                        AND r.requested_at > now() - interval '1 hour') END
         FROM ({}) t JOIN internal.job_judgement d ON d.job_id = t.job_id JOIN internal.run j ON j.id = t.job_id
         ORDER BY d.is_brief, t.place, t.due, t.job_id",
        QUEUE.select()
    )
}

/// Jobs whose judgements want detail that was not requested for the same reason, those that ran for a while first, then in turns of
/// senders and owners; at most `limit`.
///
/// # Errors
/// The database's.
pub async fn detail_triggers(client: &Client, limit: i64) -> Result<Vec<DetailTrigger>, Error> {
    let rows = client.query(&triggers(), &[&limit]).await;
    let rows = rows.map_err(Error::sql("looking for jobs that need detail"))?;
    let trigger = |row: &Row| {
        let is_final = row.get(1);
        DetailTrigger {
            job: row.get(0),
            reason: if is_final { DetailReason::JobEnd } else { DetailReason::Verdict },
            start: row.get(2),
            end: if is_final { row.get(3) } else { None },
            turn: Turn { node_id: row.get(4), uid: row.get(5) },
        }
    };
    let (wanted, over): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| row.get(6));
    for row in over {
        end_detail_turn(client, row.get(0), true).await?;
    }
    Ok(wanted.into_iter().map(trigger).collect())
}

/// The turn of a job is over. It waits for another one unless that is `settled`: detail was requested, or is not wanted any more.
///
/// # Errors
/// The database's.
pub async fn end_detail_turn(client: &Client, job: i64, settled: bool) -> Result<(), Error> {
    let sql = "UPDATE internal.job_judgement SET detail_after = CASE WHEN NOT $2 THEN now() + make_interval(secs => $3) END
               WHERE job_id = $1";
    let ended = client.execute(sql, &[&job, &settled, &AGAIN.as_secs_f64()]).await;
    ended.map(drop).map_err(Error::sql("noting whether detail of a job was requested"))
}
