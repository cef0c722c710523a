//! Fair turns: a flood of one sender or owner delays only its own verdicts, reports and detail, and a round reads few rows.

use std::time::Duration;

use throughline_store::{
    DetailLimits, DetailReason, DetailRefusal, DetailSubject, JobToJudge, JobsInTurns, Judgement, NewDetail,
    detail_triggers, end_detail_turn, end_turns, jobs_to_judge, judge_sooner, reports_to_post,
    request_detail, testing, write_judgements,
};
use tokio_postgres::Client;

/// The owner whose jobs are a flood, and another one.
const FLOOD: i64 = 1001;
const VICTIM: i64 = 1000;

struct Site {
    client: Client,
}

impl Site {
    /// With nodes 1 and 2.
    async fn new() -> Self {
        let client = testing::database().await.connect().await.unwrap();
        client.batch_execute("INSERT INTO internal.node_key (name) VALUES ('n1'), ('n2')").await.unwrap();
        Self { client }
    }

    /// Jobs of an owner on some nodes, which began and ended so many seconds ago; the first one's number.
    async fn jobs(&self, count: i64, owner: i64, nodes: &[i64], began: i32, ended: Option<i32>) -> i64 {
        let sql = "
            WITH job AS (
                INSERT INTO internal.run (key, uid, start_time, end_time)
                SELECT 'slurm:' || gen_random_uuid() || '@' || $2::bigint, $2, now() - make_interval(secs => $4::integer),
                    now() - make_interval(secs => $5::integer)
                FROM generate_series(1, $1::bigint) RETURNING id
            ), claim AS (
                INSERT INTO internal.run_claim (job_id, node_id, uid, first_seen, last_seen)
                SELECT id, node, $2, now() - make_interval(secs => $4::integer), now() FROM job, unnest($3::bigint[]) node RETURNING job_id
            ), rank AS (
                INSERT INTO internal.job_rank (job_id, rank, node_id, host, pid, world_size, mpi_library, start_time, end_time, ending)
                SELECT id, 0, ($3::bigint[])[1], 'n', 1, 1, '', now(), now(), 'lost' FROM job RETURNING job_id
            )
            SELECT min(id) FROM job";
        self.client.query_one(sql, &[&count, &owner, &nodes, &began, &ended]).await.unwrap().get(0)
    }

    /// Another node reports a job since so many seconds.
    async fn join(&self, job: i64, node: i64, seconds: i32) {
        let sql = "INSERT INTO internal.run_claim (job_id, node_id, first_seen, last_seen)
                   VALUES ($1, $2, now() - make_interval(secs => $3::integer), now())";
        self.client.execute(sql, &[&job, &node, &seconds]).await.unwrap();
    }

    async fn round(&self, limit: i64) -> JobsInTurns {
        jobs_to_judge(&self.client, limit).await.unwrap()
    }

    /// Judges these.
    async fn judge(&mut self, jobs: &[JobToJudge]) {
        let judgement = |job: &JobToJudge| Judgement {
            job: *job,
            verdicts: Vec::new(),
            report: job.is_final.then(|| "a report".to_owned()),
            wants_detail: true,
        };
        let judgements: Vec<Judgement> = jobs.iter().map(judgement).collect();
        write_judgements(&mut self.client, &judgements, true).await.unwrap();
        let ids: Vec<i64> = jobs.iter().map(|job| job.id).collect();
        end_turns(&self.client, &ids, &[]).await.unwrap();
    }

    /// Rank 0 of a job is in a call since so many seconds.
    async fn call(&self, job: i64, seconds: i32) {
        let sql = "INSERT INTO internal.mpi_open_call (job_id, rank, thread, epoch, operation, start_time, reported_at, has_returned, is_on_world, pending_requests, is_from_any, requests,
                       threads_elsewhere, threads_to_come)
                   VALUES ($1, 0, 0, now(), 'recv', now() - make_interval(secs => $2::integer), now(), false, true, 0, false, 0, 0, 0)";
        self.client.execute(sql, &[&job, &seconds]).await.unwrap();
    }

    async fn number(&self, sql: &str) -> i64 {
        self.client.query_one(sql, &[]).await.unwrap().get(0)
    }

    /// Requests detail of all jobs that want it; how many requests were made for each owner, and the last refusal.
    async fn request_all(&mut self) -> (usize, usize, Option<DetailRefusal>) {
        let (mut flood, mut victim, mut last) = (0, 0, None);
        for one in detail_triggers(&self.client, 100).await.unwrap() {
            let new = NewDetail {
                requested_by: "server".into(),
                turn: Some(one.turn),
                reason: one.reason,
                subject: DetailSubject::Job(one.job),
                from: 0,
                to: 1000,
                resolution: 0.0,
            };
            assert_eq!(one.reason, DetailReason::JobEnd);
            let requested = request_detail(&mut self.client, &new, &DetailLimits::default()).await.unwrap();
            end_detail_turn(&self.client, one.job, requested.is_ok()).await.unwrap();
            match requested {
                Ok(_) if one.turn.uid == FLOOD => flood += 1,
                Ok(_) => victim += 1,
                Err(refusal) => last = Some(refusal),
            }
        }
        (flood, victim, last)
    }
}

fn numbers(jobs: &[JobToJudge]) -> Vec<i64> {
    jobs.iter().map(|job| job.id).collect()
}

#[tokio::test]
async fn a_job_that_may_hang_is_judged_at_once_and_once() {
    let mut site = Site::new().await;
    let job = site.jobs(3, VICTIM, &[1], 600, None).await;
    let judged = site.round(10).await.jobs;
    site.judge(&judged).await;
    // All were judged 12 s ago, in this minute.
    let past = "UPDATE internal.job_judgement SET judged_at = now() - interval '12 seconds';
                UPDATE internal.run_claim SET judge_after = now() + interval '1 minute'";
    site.client.batch_execute(past).await.unwrap();
    let due = async |site: &Site| {
        judge_sooner(&site.client).await.unwrap();
        let sql = "SELECT coalesce(min(job_id), 0) FROM internal.run_claim WHERE judge_after <= now()";
        site.number(sql).await
    };
    site.call(job, 5).await;
    site.call(job + 1, 100).await;
    assert_eq!(due(&site).await, 0, "one is young, the other was long when the job was judged");
    site.call(job + 2, 15).await;
    assert_eq!(due(&site).await, job + 2);
    let jobs = site.round(10).await.jobs;
    assert_eq!(jobs.iter().map(|job| job.id).collect::<Vec<_>>(), [job + 2]);
    site.judge(&jobs).await;
    assert_eq!(due(&site).await, 0, "it was judged since");
}

#[tokio::test]
async fn a_job_whose_records_come_days_after_its_end_is_judged() {
    let site = Site::new().await;
    let days = |days: i32| Some(days * 86_400);
    let late = site.jobs(1, VICTIM, &[1, 2], 220_000, days(2)).await;
    let later = site.jobs(1, VICTIM, &[1], 900_000, days(9)).await;
    // One whose records were all stored long ago, as after an upgrade.
    let old = site.jobs(1, VICTIM, &[1], 900_000, days(9)).await;
    let stored = "UPDATE internal.run_claim SET reported_at = now() - interval '8 days' WHERE job_id = $1";
    site.client.execute(stored, &[&old]).await.unwrap();
    let judged = site.round(10).await.jobs;
    assert_eq!(
        judged.iter().map(|job| (job.id, job.is_final)).collect::<Vec<_>>(),
        [(late, true), (later, true)]
    );
    let waiting = "SELECT count(*) FROM internal.run_claim WHERE judge_after IS NOT NULL";
    assert_eq!(site.number(waiting).await, 3, "the old one waits for nothing");
    // Where rows are kept for longer, it has some.
    let longer =
        "INSERT INTO internal.retention_policy (hypertable, keep) VALUES ('mpi_rank_rows', '30 days');
                  UPDATE internal.run_claim SET judge_after = now()";
    site.client.batch_execute(longer).await.unwrap();
    assert_eq!(site.round(10).await.jobs.len(), 3);
}

#[tokio::test]
async fn attack_29_a_flood_of_ended_jobs_delays_nobody_elses_verdict_or_report() {
    let mut site = Site::new().await;
    site.jobs(5000, FLOOD, &[1], 120, Some(60)).await;
    // Their jobs come last, and are of another node, another owner on the same node, and both nodes.
    let mut victims = Vec::new();
    for nodes in [&[2][..], &[1], &[1, 2]] {
        victims.push(site.jobs(1, VICTIM, nodes, 120, Some(60)).await);
    }
    let first = site.round(20).await;
    assert!(
        first.has_more && victims.iter().all(|job| numbers(&first.jobs).contains(job)),
        "{:?}",
        first.jobs
    );
    // A job of two nodes goes in the turn of the one that has less to do.
    let of_both = first.jobs.iter().find(|job| job.id == victims[2]).unwrap();
    assert_eq!(of_both.turn.node_id, 2);
    let mut all = first.jobs;
    while all.len() < 200 {
        site.judge(&all[all.len().saturating_sub(20)..]).await;
        let next = site.round(20).await.jobs;
        assert!(next.iter().all(|job| !numbers(&all).contains(&job.id)), "a job is judged once");
        all.extend(next);
    }
    // Reports: the flood's were written first.
    let flood: Vec<JobToJudge> = all.iter().filter(|job| job.turn.uid == FLOOD).copied().collect();
    site.client
        .execute(
            "UPDATE internal.report_post SET next_try = now() - interval '1 hour' WHERE uid = $1",
            &[&FLOOD],
        )
        .await
        .unwrap();
    let due = reports_to_post(&site.client, 20).await.unwrap();
    assert!(flood.len() > 150 && due.len() == 20);
    assert!(victims.iter().all(|job| due.iter().any(|report| report.job_id == *job)), "{due:?}");
}

#[tokio::test]
async fn attack_29_invented_owners_of_one_node_delay_nobody_on_another_one() {
    let site = Site::new().await;
    for owner in 2000..2300 {
        site.jobs(1, owner, &[1], 120, Some(60)).await;
    }
    let victim = site.jobs(1, VICTIM, &[2], 120, Some(60)).await;
    assert!(numbers(&site.round(2).await.jobs).contains(&victim));
}

#[tokio::test]
async fn of_one_owner_jobs_without_a_verdict_come_first_and_neither_starve_the_others() {
    let mut site = Site::new().await;
    let running = site.jobs(10, VICTIM, &[1], 120, None).await;
    let judged = site.round(100).await.jobs;
    assert_eq!(judged.len(), 10);
    site.judge(&judged).await;
    assert_eq!(site.round(100).await, JobsInTurns::default(), "judged in this minute");
    // A minute later, with jobs that ended meanwhile.
    site.client
        .batch_execute(
            "UPDATE internal.job_judgement SET judged_at = judged_at - interval '1 minute';
             UPDATE internal.run_claim SET judge_after = judge_after - interval '1 minute'",
        )
        .await
        .unwrap();
    site.jobs(10, VICTIM, &[1], 120, Some(60)).await;
    let order: Vec<bool> = site.round(9).await.jobs.iter().map(|job| job.id < running + 10).collect();
    assert_eq!(order, [false, false, true, false, false, true, false, false, true]);
}

/// Somebody else may have claimed its name before: it need not wait for the next minute.
#[tokio::test]
async fn a_job_is_judged_again_once_another_node_has_reported_it_for_a_while() {
    let mut site = Site::new().await;
    let job = site.jobs(1, VICTIM, &[1], 120, None).await;
    let claimed = site.round(10).await.jobs;
    site.judge(&claimed).await;
    site.join(job, 2, 1).await;
    let early = "SELECT count(*) FROM internal.run_claim
                 WHERE node_id = 2 AND judge_after BETWEEN now() + interval '1 s' AND now() + interval '4 s'";
    assert_eq!((site.round(10).await, site.number(early).await), (JobsInTurns::default(), 1));
    site.client
        .batch_execute(
            "UPDATE internal.run_claim SET judge_after = judge_after - interval '4 s', first_seen = first_seen - interval '4 s'
             WHERE node_id = 2; UPDATE internal.job_judgement SET judged_at = judged_at - interval '1 s'",
        )
        .await
        .unwrap();
    let joined = site.round(10).await.jobs;
    assert_eq!(numbers(&joined), [job]);
    site.judge(&joined).await;
    assert_eq!(site.round(10).await, JobsInTurns::default(), "once");
}

#[tokio::test]
async fn a_job_is_judged_when_it_has_run_for_a_while_each_minute_and_once_after_its_end() {
    let mut site = Site::new().await;
    let job = site.jobs(1, VICTIM, &[1, 2], 1, None).await;
    let left = "SELECT count(*) FROM internal.run_claim WHERE judge_after > now() AND judge_after <= now() + interval '1 minute'";
    assert_eq!(
        (site.round(10).await, site.number(left).await),
        (JobsInTurns::default(), 2),
        "it has just begun"
    );
    let later = "UPDATE internal.run_claim SET judge_after = now()";
    site.client
        .batch_execute(&format!("{later}; UPDATE internal.run SET start_time = now() - interval '10 s'"))
        .await
        .unwrap();
    let first = site.round(10).await.jobs;
    assert_eq!(first.iter().map(|job| (job.id, job.is_final)).collect::<Vec<_>>(), [(job, false)]);
    // What fails waits for a minute, though it is due.
    end_turns(&site.client, &[], &[(job, Duration::from_secs(60))]).await.unwrap();
    assert_eq!((site.round(10).await, site.number(left).await), (JobsInTurns::default(), 2));
    site.judge(&first).await;
    site.client.batch_execute(&format!("{later}; UPDATE internal.run SET end_time = now()")).await.unwrap();
    assert_eq!(
        (site.round(10).await, site.number(left).await),
        (JobsInTurns::default(), 2),
        "reports still come"
    );
    site.client
        .batch_execute(&format!("{later}; UPDATE internal.run SET end_time = now() - interval '46 s'"))
        .await
        .unwrap();
    let last = site.round(10).await.jobs;
    assert_eq!(last.iter().map(|job| (job.id, job.is_final)).collect::<Vec<_>>(), [(job, true)]);
    site.judge(&last).await;
    let waiting = "SELECT count(*) FROM internal.run_claim WHERE judge_after IS NOT NULL";
    assert_eq!(site.number(waiting).await, 0, "it waits for nothing any more");
}

#[tokio::test]
async fn attack_29_the_crashes_of_one_owner_leave_detail_for_another_one() {
    let mut site = Site::new().await;
    site.jobs(100, FLOOD, &[1], 62, Some(60)).await;
    let flood = site.round(1000).await.jobs;
    site.judge(&flood).await;
    // One of them begins again: it has no end now.
    site.client
        .execute("UPDATE internal.run SET end_time = NULL WHERE id = $1", &[&flood[0].id])
        .await
        .unwrap();
    // Half of the hour's requests are the server's, and of these one owner may have as many as are left.
    let (requested, _, refusal) = site.request_all().await;
    assert_eq!(requested, 30);
    let refusal = refusal.unwrap();
    assert_eq!((refusal.reason, refusal.limit), ("requests", Some("detail.requests_per_hour")), "{refusal}");
    let mut victims = vec![
        site.jobs(1, VICTIM, &[2], 600, Some(60)).await,
        site.jobs(1, VICTIM, &[1, 2], 600, Some(60)).await,
    ];
    // Five more of the flood, which are due again; the other owner's ran for a while and come first.
    let again = "UPDATE internal.job_judgement SET detail_after = now() WHERE detail_after IS NOT NULL";
    let jobs = site.round(1000).await.jobs;
    site.judge(&jobs).await;
    site.client.batch_execute(again).await.unwrap();
    let wanted = detail_triggers(&site.client, 100).await.unwrap();
    let mut first: Vec<i64> = wanted.iter().take(2).map(|one| one.job).collect();
    first.sort_unstable();
    victims.sort_unstable();
    assert_eq!(first, victims);
    let (flood, victim, _) = site.request_all().await;
    assert_eq!((flood, victim), (0, 2));
    // Another owner on the flood's node, though, has what is left to that node.
    site.jobs(1, VICTIM, &[1], 600, Some(60)).await;
    let jobs = site.round(1000).await.jobs;
    site.judge(&jobs).await;
    assert_eq!(site.request_all().await.1, 0, "owners are the node's word");
}

/// Rows and entries of indexes that this transaction read.
async fn read(client: &Client) -> i64 {
    let sql = "SELECT coalesce(sum(pg_stat_get_xact_tuples_returned(c.oid)), 0)::bigint FROM pg_class c
               WHERE c.relnamespace = 'internal'::regnamespace AND c.relkind IN ('r', 'i')";
    client.query_one(sql, &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn attack_29_a_round_reads_few_rows_however_many_jobs_wait() {
    let site = Site::new().await;
    site.jobs(100_000, FLOOD, &[1], 120, Some(60)).await;
    for owner in 0..20 {
        site.jobs(5, owner, &[1, 2], 120, Some(60)).await;
    }
    for statistics in ["SELECT 1", "ANALYZE internal.run, internal.run_claim, internal.job_judgement"] {
        site.client.batch_execute(statistics).await.unwrap();
        site.client.batch_execute("BEGIN").await.unwrap();
        let jobs = site.round(100).await.jobs;
        let rows = read(&site.client).await;
        site.client.batch_execute("COMMIT").await.unwrap();
        println!("a round of {} jobs reads {rows} rows", jobs.len());
        assert!(jobs.len() == 100 && rows < 5000, "{} jobs: {rows} rows", jobs.len());
    }
    // Judged, their detail and reports wait in turns, too.
    let all = "INSERT INTO internal.job_judgement (job_id, judged_at, is_final, report, node_id, uid, detail_after)
                   SELECT DISTINCT ON (job_id) job_id, now(), true, 'report', node_id, uid, now() FROM internal.run_claim;
               INSERT INTO internal.report_post (job_id, node_id, uid) SELECT job_id, node_id, uid FROM internal.job_judgement";
    site.client.batch_execute(all).await.unwrap();
    for statistics in ["SELECT 1", "ANALYZE internal.report_post, internal.job_judgement"] {
        site.client.batch_execute(statistics).await.unwrap();
        site.client.batch_execute("BEGIN").await.unwrap();
        let due = reports_to_post(&site.client, 100).await.unwrap().len();
        let triggers = detail_triggers(&site.client, 100).await.unwrap().len();
        let rows = read(&site.client).await;
        site.client.batch_execute("COMMIT").await.unwrap();
        println!("{due} reports and {triggers} triggers: {rows} rows read");
        assert!(due == 100 && triggers == 100 && rows < 10_000, "{due} {triggers} {rows}");
    }
}
