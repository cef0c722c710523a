//! What was said of a job.

use crate::time::milliseconds;
use std::time::SystemTime;
use throughline_api::verdicts::{JobVerdict, VerdictFact};
use throughline_store::Error;
use tokio_postgres::{Client, Row};

/// When a job was judged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobJudgement {
    /// The last time, milliseconds since 1970; `None` where it was not yet.
    pub at: Option<i64>,
    /// It was after its end.
    pub is_final: bool,
    /// What `throughline job report` prints, of a job that has ended.
    pub report: Option<String>,
}

/// When a job was judged last.
///
/// # Errors
/// The database's.
pub async fn judged(client: &Client, job: i64) -> Result<JobJudgement, Error> {
    let sql = "SELECT judged_at, is_final, report FROM internal.job_judgement WHERE job_id = $1";
    let row = client.query_opt(sql, &[&job]).await.map_err(Error::sql("reading when a job was judged"))?;
    Ok(row.map_or_else(JobJudgement::default, |row| JobJudgement {
        at: Some(milliseconds(row.get(0))),
        is_final: row.get(1),
        report: row.get(2),
    }))
}

const VERDICTS: &str = "
    SELECT v.kind, v.subject, v.observation, v.remedy, v.confidence, v.cost, v.other_job, v.last_at = d.judged_at, v.first_at,
           v.last_at, v.facts
    FROM internal.job_verdict v JOIN internal.job_judgement d ON d.job_id = v.job_id
    WHERE v.job_id = $1 AND ($2 OR v.last_at = d.judged_at) ORDER BY v.last_at DESC, v.place, v.kind, v.subject LIMIT 200";

/// What is said of a job now, the most important one first; `with_earlier` also what was said before, the newest first.
///
/// # Errors
/// The database's.
pub async fn of_job(client: &Client, job: i64, with_earlier: bool) -> Result<Vec<JobVerdict>, Error> {
    let rows = client.query(VERDICTS, &[&job, &with_earlier]).await;
    let rows = rows.map_err(Error::sql("reading what is said of a job"))?;
    Ok(rows.iter().map(verdict).collect())
}

fn verdict(row: &Row) -> JobVerdict {
    let facts: serde_json::Value = row.get(10);
    JobVerdict {
        kind: row.get(0),
        subject: row.get(1),
        observation: row.get(2),
        remedy: row.get(3),
        confidence: row.get(4),
        cost: row.get(5),
        other_job: row.get(6),
        is_now: row.get(7),
        first_ms: milliseconds(row.get::<_, SystemTime>(8)),
        last_ms: milliseconds(row.get::<_, SystemTime>(9)),
        facts: serde_json::from_value::<Vec<VerdictFact>>(facts).unwrap_or_default(),
    }
}
