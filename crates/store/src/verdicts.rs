//! Which jobs are to be judged, in fair turns, and what was said of them.

use std::collections::HashSet;
use std::time::Duration;

use throughline_verdicts::{SECONDS_MIN, Verdict};
use tokio_postgres::{Client, Row};

use crate::error::Error;
use crate::turns::{Turn, TurnQueue};

/// A job is judged for the last time so long after its end: by then shares of links and the last reports are there.
const SETTLED: Duration = Duration::from_secs(45);

/// SQL for when job `j` is too old to be judged: its last report was stored longer ago than rows are kept, and at least a day. A node that
/// could not deliver for days has its jobs judged, too; their ends alone say nothing of what is there.
const IS_TOO_OLD: &str = "greatest(j.end_time, (SELECT max(o.reported_at) FROM internal.run_claim o WHERE o.job_id = j.id AND NOT o.is_excluded))
        < (SELECT internal.upkeep_time()) - coalesce(
            (SELECT greatest(p.keep, INTERVAL '1 day') FROM internal.retention_policy p WHERE p.hypertable = 'mpi_rank_rows'), INTERVAL '7 days')";

/// A call that goes on for so long has its job judged, if it was not since: it may hang, seconds. What a Wait waits for is not known, so that
/// verdicts on it come later.
const LONG_CALLS: [f64; 2] = [10.0, 30.0];

/// But not sooner after its last judgement, seconds.
const URGENT_AFTER: f64 = 4.0;

/// A job that ran for less is brief: detail of others is requested first.
const BRIEF: Duration = Duration::from_secs(60);

/// Jobs that wait for a verdict, by the nodes that report them. Within an owner those that had none come first.
const QUEUE: TurnQueue = TurnQueue {
    table: "internal.run_claim",
    owner: "coalesce(q.uid, -1)",
    is_waiting: "q.judge_after IS NOT NULL",
    due: "judge_after",
    comes_later: Some("was_judged"),
};

/// A job that is to be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobToJudge {
    /// Its number in the tables.
    pub id: i64,
    /// It has ended: this is the last time.
    pub is_final: bool,
    /// Whose turn it is.
    pub turn: Turn,
    /// Its place among the jobs of its sender, from 1.
    pub place: i64,
}

/// Jobs of a round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobsInTurns {
    /// In the order of turns.
    pub jobs: Vec<JobToJudge>,
    /// Whether more may wait.
    pub has_more: bool,
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
    /// Whether detail of it is to be requested without a person.
    pub wants_detail: bool,
}

/// The first time at which job `j` has run for long enough ($min seconds) by a node that reported it only after its last judgement `d`:
/// what was said of it until then is perhaps what another claimed. NULL where there is no such node.
fn first_of_new_node(min: &str) -> String {
    format!(
        "(SELECT min(o.first_seen) + make_interval(secs => {min}) FROM internal.run_claim o
          WHERE o.job_id = j.id AND NOT o.is_excluded AND o.first_seen + make_interval(secs => {min}) > d.judged_at)"
    )
}

/// Jobs that run and have a call that has become long since they were judged, or a rank that was stopped; at most so many at a time.
fn urgent() -> String {
    let [first, second] = LONG_CALLS;
    format!(
        "SELECT d.job_id FROM internal.job_judgement d JOIN internal.run j ON j.id = d.job_id
         WHERE j.end_time IS NULL AND NOT d.is_final AND d.judged_at < now() - make_interval(secs => {URGENT_AFTER})
             AND (EXISTS (SELECT FROM internal.mpi_open_call o WHERE o.job_id = d.job_id AND NOT o.has_returned
                      AND (o.start_time + make_interval(secs => {first}) BETWEEN d.judged_at AND now()
                          OR o.start_time + make_interval(secs => {second}) BETWEEN d.judged_at AND now()))
                  OR EXISTS (SELECT FROM internal.mpi_rank_scheduling s WHERE s.job_id = d.job_id AND s.stopped_since > d.judged_at))
             AND d.job_id IN (SELECT o.job_id FROM internal.mpi_open_call o WHERE NOT o.has_returned)
         LIMIT 1000"
    )
}

/// Has jobs judged now in which something may hang: see [`LONG_CALLS`].
///
/// # Errors
/// The database's.
pub async fn judge_sooner(client: &Client) -> Result<(), Error> {
    let sql = format!(
        "UPDATE internal.run_claim c SET judge_after = now() WHERE c.job_id IN ({}) AND c.judge_after > now()",
        urgent()
    );
    client.execute(&sql, &[]).await.map(drop).map_err(Error::sql("looking for jobs that may hang"))
}

/// By the checked clock (`clock_check`) a job that has ended is too old to be judged: what it said is lost otherwise.
///
/// A job that runs is judged once a minute, all at one time, so that one that holds another up is known together with it; and once when
/// another node has reported it for long enough.
fn to_judge() -> String {
    format!(
        "SELECT t.job_id, j.end_time IS NOT NULL, t.node_id, t.uid, t.place,
             CASE WHEN j.end_time IS NULL THEN coalesce(j.start_time, j.first_seen) <= now() - make_interval(secs => $3)
                      AND (d.judged_at IS NULL OR d.judged_at < date_trunc('minute', now()) OR coalesce({new_node} <= now(), false)
                           OR t.job_id IN ({urgent}))
                  ELSE j.end_time <= (SELECT internal.upkeep_time()) - make_interval(secs => $2)
                      AND NOT {IS_TOO_OLD} AND d.is_final IS NOT TRUE END
         FROM ({}) t JOIN internal.run j ON j.id = t.job_id LEFT JOIN internal.job_judgement d ON d.job_id = t.job_id
         ORDER BY t.place, t.due, t.job_id",
        QUEUE.select(),
        new_node = first_of_new_node("$3"),
        urgent = urgent(),
    )
}

/// Jobs that have run for long enough and were not judged in this minute, and those that have ended and were not judged since; at
/// most `limit`, in turns of senders and owners. Others whose turn it was wait for their time from then on.
///
/// # Errors
/// The database's.
pub async fn jobs_to_judge(client: &Client, limit: i64) -> Result<JobsInTurns, Error> {
    let rows = client.query(&to_judge(), &[&limit, &SETTLED.as_secs_f64(), &SECONDS_MIN]).await;
    let rows = rows.map_err(Error::sql("looking for jobs to be judged"))?;
    let has_more = i64::try_from(rows.len()).is_ok_and(|count| count >= limit);
    let job = |row: &Row| JobToJudge {
        id: row.get(0),
        is_final: row.get(1),
        turn: Turn { node_id: row.get(2), uid: row.get(3) },
        place: row.get(4),
    };
    let (due, early): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| row.get(5));
    let early: Vec<i64> = early.into_iter().map(|row| row.get(0)).collect();
    end_turns(client, &early, &[]).await?;
    Ok(JobsInTurns { jobs: due.into_iter().map(job).collect(), has_more })
}

/// When each row of these jobs waits next. A row that a writer changes at this moment keeps its time, and is looked at once more.
fn ending_turns() -> String {
    format!(
        "WITH next AS (
            SELECT c.job_id, c.node_id, d.job_id IS NOT NULL AS was_judged,
                CASE WHEN l.seconds IS NOT NULL THEN now() + make_interval(secs => l.seconds)
                     WHEN j.end_time IS NULL THEN coalesce({new_node}, greatest(
                         coalesce(j.start_time, j.first_seen) + make_interval(secs => $4),
                         date_trunc('minute', d.judged_at) + interval '1 minute'))
                     WHEN d.is_final OR {IS_TOO_OLD} THEN NULL
                     ELSE j.end_time + make_interval(secs => $3) END AS judge_after
            FROM internal.run_claim c JOIN internal.run j ON j.id = c.job_id LEFT JOIN internal.job_judgement d ON d.job_id = c.job_id
                LEFT JOIN unnest($2::bigint[], $5::float8[]) AS l (job_id, seconds) ON l.job_id = c.job_id
            WHERE c.job_id = ANY($1::bigint[] || $2::bigint[])
            FOR NO KEY UPDATE OF c SKIP LOCKED
        )
        UPDATE internal.run_claim c SET judge_after = next.judge_after, was_judged = next.was_judged
        FROM next WHERE c.job_id = next.job_id AND c.node_id = next.node_id
            AND ROW(c.judge_after, c.was_judged) IS DISTINCT FROM ROW(next.judge_after, next.was_judged)",
        new_node = first_of_new_node("$4"),
    )
}

/// The turns of jobs are over: each waits for its next time. Those in `later`, though they are due, wait for as long as stands beside
/// them: until then others have their turn.
///
/// # Errors
/// The database's.
pub async fn end_turns(client: &Client, jobs: &[i64], later: &[(i64, Duration)]) -> Result<(), Error> {
    if jobs.is_empty() && later.is_empty() {
        return Ok(());
    }
    let (waiting, seconds): (Vec<i64>, Vec<f64>) =
        later.iter().map(|(job, pause)| (*job, pause.as_secs_f64())).unzip();
    let settled = SETTLED.as_secs_f64();
    let ended = client.execute(&ending_turns(), &[&jobs, &waiting, &settled, &SECONDS_MIN, &seconds]).await;
    ended.map(drop).map_err(Error::sql("noting when jobs are judged next"))
}

const JUDGED: &str = "
    INSERT INTO internal.job_judgement AS d (job_id, judged_at, is_final, report, node_id, uid, detail_after, is_brief)
    SELECT w.job_id, now(), w.is_final, w.report, w.node_id, w.uid, CASE WHEN w.wants_detail THEN now() END,
        coalesce(coalesce(j.end_time, now()) - coalesce(j.start_time, j.first_seen) < make_interval(secs => $7), false)
    FROM unnest($1::bigint[], $2::boolean[], $3::text[], $4::bigint[], $5::bigint[], $6::boolean[])
        AS w(job_id, is_final, report, node_id, uid, wants_detail) JOIN internal.run j ON j.id = w.job_id
    ON CONFLICT (job_id) DO UPDATE SET judged_at = excluded.judged_at, is_final = excluded.is_final, report = excluded.report,
        node_id = excluded.node_id, uid = excluded.uid, is_brief = excluded.is_brief,
        detail_after = CASE WHEN excluded.detail_after IS NOT NULL THEN coalesce(d.detail_after, excluded.detail_after) END
    WHERE NOT (d.is_final AND excluded.is_final)
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
    INSERT INTO internal.report_post (job_id, node_id, uid) SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[])
    ON CONFLICT (job_id) DO NOTHING";

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
    let written = write_judged(&transaction, judgements).await.map_err(Error::sql(what))?;
    let judgements = || judgements.iter().filter(|one| written.contains(&one.job.id));
    let said = transaction.prepare(SAID).await.map_err(Error::sql(what))?;
    for one in judgements().filter(|one| !one.verdicts.is_empty()) {
        transaction.execute(&said, &[&one.job.id, &rows(&one.verdicts)]).await.map_err(Error::sql(what))?;
    }
    if posts_reports {
        let reported = judgements().filter(|one| one.job.is_final && one.report.is_some());
        let reported: Vec<JobToJudge> = reported.map(|one| one.job).collect();
        let (jobs, nodes, owners) = columns(&reported);
        transaction.execute(TO_POST, &[&jobs, &nodes, &owners]).await.map_err(Error::sql(what))?;
    }
    transaction.commit().await.map_err(Error::sql(what))
}

/// Jobs, their senders and their owners.
fn columns(jobs: &[JobToJudge]) -> (Vec<i64>, Vec<i64>, Vec<i64>) {
    let turns = || jobs.iter().map(|job| job.turn);
    (
        jobs.iter().map(|job| job.id).collect(),
        turns().map(|turn| turn.node_id).collect(),
        turns().map(|turn| turn.uid).collect(),
    )
}

/// Notes that jobs are judged; returns those that it was written for.
async fn write_judged(
    transaction: &tokio_postgres::Transaction<'_>,
    judgements: &[Judgement],
) -> Result<HashSet<i64>, tokio_postgres::Error> {
    let jobs: Vec<JobToJudge> = judgements.iter().map(|one| one.job).collect();
    let finals: Vec<bool> = jobs.iter().map(|job| job.is_final).collect();
    let (jobs, nodes, owners) = columns(&jobs);
    let reports: Vec<Option<&str>> = judgements.iter().map(|one| one.report.as_deref()).collect();
    let wanted: Vec<bool> = judgements.iter().map(|one| one.wants_detail).collect();
    let brief = BRIEF.as_secs_f64();
    let written =
        transaction.query(JUDGED, &[&jobs, &finals, &reports, &nodes, &owners, &wanted, &brief]).await?;
    Ok(written.iter().map(|row| row.get(0)).collect())
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
