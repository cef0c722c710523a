//! Which jobs are to be judged, and what was said of them.

use std::collections::HashSet;
use std::time::Duration;

use throughline_verdicts::{SECONDS_MIN, Verdict};
use tokio_postgres::Client;

use crate::error::Error;

/// A job is judged for the last time so long after its end: by then shares of links and the last reports are there.
const SETTLED: Duration = Duration::from_secs(45);

/// Jobs that ended before are not judged: after an upgrade there may be years of them.
const OLDEST: Duration = Duration::from_secs(86_400);

/// A job that is to be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobToJudge {
    /// Its number in the tables.
    pub id: i64,
    /// It has ended: this is the last time.
    pub is_final: bool,
}

/// What is said of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// The job.
    pub job: JobToJudge,
    /// The most important one first.
    pub verdicts: Vec<Verdict>,
    /// For a job that has ended.
    pub report: Option<String>,
}

const TO_JUDGE: &str = "
    SELECT j.id, j.end_time IS NOT NULL FROM internal.run j LEFT JOIN internal.job_judgement d ON d.job_id = j.id
    WHERE (j.end_time IS NULL AND coalesce(j.start_time, j.first_seen) <= now() - make_interval(secs => $4)
           AND (d.judged_at IS NULL OR d.judged_at < date_trunc('minute', now())))
       OR (j.end_time BETWEEN now() - make_interval(secs => $1) AND now() - make_interval(secs => $2)
           AND d.is_final IS NOT TRUE)
    ORDER BY d.judged_at NULLS FIRST, j.id LIMIT $3";

/// Jobs that have run for long enough and were not judged in this minute, and those that have ended and were not judged since; at most `limit`. All
/// that run are judged at one time, so that one that holds another up is known together with it.
///
/// # Errors
/// The database's.
pub async fn jobs_to_judge(client: &Client, limit: i64) -> Result<Vec<JobToJudge>, Error> {
    let (oldest, settled) = (OLDEST.as_secs_f64(), SETTLED.as_secs_f64());
    let rows = client.query(TO_JUDGE, &[&oldest, &settled, &limit, &SECONDS_MIN]).await;
    let rows = rows.map_err(Error::sql("looking for jobs to be judged"))?;
    Ok(rows.iter().map(|row| JobToJudge { id: row.get(0), is_final: row.get(1) }).collect())
}

const JUDGED: &str = "
    INSERT INTO internal.job_judgement (job_id, judged_at, is_final, report)
    SELECT * FROM unnest($1::bigint[], array_fill(now(), ARRAY[cardinality($1)]), $2::boolean[], $3::text[])
    ON CONFLICT (job_id) DO UPDATE SET judged_at = excluded.judged_at, is_final = excluded.is_final, report = excluded.report
    WHERE NOT (job_judgement.is_final AND excluded.is_final)
    RETURNING job_id";

const SAID: &str = "
    INSERT INTO internal.job_verdict (job_id, kind, subject, first_at, last_at, place, observation, remedy, confidence, cost, other_job, facts)
    SELECT $1, v.kind, v.subject, now(), now(), v.place, v.observation, v.remedy, v.confidence, v.cost, v.other_job, v.facts
    FROM jsonb_to_recordset($2::jsonb) AS v (kind text, subject text, place smallint, observation text, remedy text,
         confidence text, cost float8, other_job text, facts jsonb)
    ON CONFLICT (job_id, kind, subject) DO UPDATE SET last_at = excluded.last_at, place = excluded.place,
        observation = excluded.observation, remedy = excluded.remedy, confidence = excluded.confidence, cost = excluded.cost,
        other_job = excluded.other_job, facts = excluded.facts";

/// Reports that are to be posted. One that was posted before, of a job that has ended twice, is posted anew.
const TO_POST: &str = "
    INSERT INTO internal.report_post (job_id) SELECT * FROM unnest($1::bigint[]) ON CONFLICT (job_id) DO NOTHING";

/// Writes what is said of jobs, in one transaction: all have one time. With `posts_reports`, reports wait from then on to be posted.
/// A job's last judgement is made once: where another server was first, nothing of it is written.
///
/// # Errors
/// The database's.
pub async fn write_judgements(
    client: &mut Client,
    judgements: &[Judgement],
    posts_reports: bool,
) -> Result<(), Error> {
    let what = "writing what is said of jobs";
    let transaction = client.transaction().await.map_err(Error::sql(what))?;
    let jobs: Vec<i64> = judgements.iter().map(|one| one.job.id).collect();
    let finals: Vec<bool> = judgements.iter().map(|one| one.job.is_final).collect();
    let reports: Vec<Option<&str>> = judgements.iter().map(|one| one.report.as_deref()).collect();
    let written = transaction.query(JUDGED, &[&jobs, &finals, &reports]).await.map_err(Error::sql(what))?;
    let written: HashSet<i64> = written.iter().map(|row| row.get(0)).collect();
    let judgements = || judgements.iter().filter(|one| written.contains(&one.job.id));
    let said = transaction.prepare(SAID).await.map_err(Error::sql(what))?;
    for one in judgements().filter(|one| !one.verdicts.is_empty()) {
        transaction.execute(&said, &[&one.job.id, &rows(&one.verdicts)]).await.map_err(Error::sql(what))?;
    }
    if posts_reports {
        let reported = judgements().filter(|one| one.job.is_final && one.report.is_some());
        let jobs: Vec<i64> = reported.map(|one| one.job.id).collect();
        transaction.execute(TO_POST, &[&jobs]).await.map_err(Error::sql(what))?;
    }
    transaction.commit().await.map_err(Error::sql(what))
}

/// Verdicts as the rows' columns; one of each kind and subject.
fn rows(verdicts: &[Verdict]) -> serde_json::Value {
    let mut rows: Vec<serde_json::Value> = Vec::new();
    let mut known = HashSet::new();
    for one in verdicts.iter().filter(|one| known.insert((one.kind, one.subject.as_str()))) {
        rows.push(serde_json::json!({
            "kind": one.kind.name(), "subject": one.subject, "place": rows.len(), "observation": one.observation,
            "remedy": one.remedy, "confidence": one.confidence.name(), "cost": one.cost, "other_job": one.other_job,
            "facts": one.facts,
        }));
    }
    serde_json::Value::Array(rows)
}
