//! Reports of jobs that wait to be posted to the site's address: written with the report itself, in one transaction, and removed
//! when the address has taken them. A server that ends in between leaves them to the next one.

use std::time::Duration;

use tokio_postgres::Client;
use uuid::Uuid;

use crate::error::Error;
use crate::turns::{Turn, TurnQueue};

/// A report that is not taken for so long is not posted again: its readers have read the job's page.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(86_400);

/// Pause after the first failure; each further one is twice as long.
const PAUSE_FIRST_SECONDS: f64 = 1.0;

/// Longest pause.
const PAUSE_LONGEST_SECONDS: f64 = 600.0;

/// A report that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportPost {
    /// The job, in the tables.
    pub job_id: i64,
    /// Of the report: the same at each try.
    pub id: Uuid,
    /// The job's key.
    pub job_key: String,
    /// What `throughline job report` prints.
    pub report: String,
    /// Whose turn it is.
    pub turn: Turn,
}

/// What becomes of a report that was posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostOutcome<'a> {
    /// It was taken.
    Taken,
    /// It was not, and may be later.
    Later(&'a str),
    /// It is never taken.
    Refused(&'a str),
}

/// Reports that wait, in the turns in which their jobs were judged.
const QUEUE: TurnQueue = TurnQueue {
    table: "internal.report_post",
    owner: "q.uid",
    is_waiting: "q.state = 'waiting'",
    due: "next_try",
    comes_later: None,
};

/// Reports that are due, in turns of senders and owners, of each the one that has waited longest first; at most `limit`.
///
/// # Errors
/// The database's.
pub async fn reports_to_post(client: &Client, limit: i64) -> Result<Vec<ReportPost>, Error> {
    let sql = format!(
        "SELECT p.job_id, p.id, j.key, d.report, t.node_id, t.uid
         FROM ({}) t JOIN internal.report_post p ON p.job_id = t.job_id JOIN internal.run j ON j.id = p.job_id
             JOIN internal.job_judgement d ON d.job_id = p.job_id
         WHERE d.report IS NOT NULL ORDER BY t.place, t.due, t.job_id",
        QUEUE.select()
    );
    let rows = client.query(&sql, &[&limit]).await.map_err(Error::sql("looking for reports to be posted"))?;
    let due = |row: &tokio_postgres::Row| ReportPost {
        job_id: row.get(0),
        id: row.get(1),
        job_key: row.get(2),
        report: row.get(3),
        turn: Turn { node_id: row.get(4), uid: row.get(5) },
    };
    Ok(rows.iter().map(due).collect())
}

/// Takes note of what became of a report.
///
/// # Errors
/// The database's.
pub async fn note_report_post(client: &Client, job: i64, outcome: PostOutcome<'_>) -> Result<(), Error> {
    const LATER: &str = "
        UPDATE internal.report_post SET tries = tries + 1, error = $2,
            next_try = now() + make_interval(secs => least($3 * power(2, least(tries, 30)), $4))
        WHERE job_id = $1";
    let noted = match outcome {
        PostOutcome::Taken => {
            client.execute("DELETE FROM internal.report_post WHERE job_id = $1", &[&job]).await
        }
        PostOutcome::Later(why) => {
            client.execute(LATER, &[&job, &why, &PAUSE_FIRST_SECONDS, &PAUSE_LONGEST_SECONDS]).await
        }
        PostOutcome::Refused(why) => {
            let refused = "UPDATE internal.report_post SET tries = tries + 1, error = $2, state = 'failed' WHERE job_id = $1";
            client.execute(refused, &[&job, &why]).await
        }
    };
    noted.map_err(Error::sql("noting that a report was posted"))?;
    Ok(())
}

/// Gives up reports that were not taken within a day; returns how many.
///
/// # Errors
/// The database's.
pub async fn give_up_report_posts(client: &Client) -> Result<u64, Error> {
    let sql = "UPDATE internal.report_post SET state = 'failed'
               WHERE state = 'waiting' AND created_at < (SELECT internal.expiry_time()) - make_interval(secs => $1)";
    let given_up = client.execute(sql, &[&GIVEN_UP_AFTER.as_secs_f64()]).await;
    given_up.map_err(Error::sql("giving up reports that nobody takes"))
}

/// Reports that wait, due or not.
///
/// # Errors
/// The database's.
pub async fn waiting_report_posts(client: &Client) -> Result<i64, Error> {
    let sql = "SELECT count(*) FROM internal.report_post WHERE state = 'waiting'";
    let row = client.query_one(sql, &[]).await.map_err(Error::sql("counting reports to be posted"))?;
    Ok(row.get(0))
}
