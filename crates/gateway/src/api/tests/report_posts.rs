//! Reports of jobs, posted to the site's address: from the end of a job to the receiver, over its failures and a server's end.

use super::seed::{self, Run, SECOND, START_MS};
use super::*;
use crate::outbound::{Address, Receiver};
use crate::upkeep::{AfterJudgement, Round, VerdictMemory, judge_jobs, post_due};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use std::sync::{Arc, Mutex};
use throughline_daemon::SelfMetrics;
use throughline_sample::catalogue::{WEBHOOK_REPORTS, WEBHOOK_WAITING_REPORTS};

/// Ids and bodies that arrived.
type Got = Arc<Mutex<Vec<(String, Value)>>>;

/// A receiver that answers with these statuses in turn and then takes all, and what it got.
async fn receiver(statuses: Vec<u16>) -> (Receiver, Got) {
    let got = Got::default();
    let (noted, statuses) = (Arc::clone(&got), Arc::new(Mutex::new(statuses.into_iter())));
    let handler = move |headers: HeaderMap, axum::Json(body): axum::Json<Value>| async move {
        let id = headers["throughline-report-id"].to_str().unwrap().to_owned();
        noted.lock().unwrap().push((id, body));
        StatusCode::from_u16(statuses.lock().unwrap().next().unwrap_or(204)).unwrap()
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hooks/s3cret", listener.local_addr().unwrap());
    tokio::spawn(
        async move { axum::serve(listener, Router::new().route("/hooks/s3cret", post(handler))).await },
    );
    (Address { url, ..Address::default() }.receiver("report", "webhook").unwrap(), got)
}

/// A database in which so many jobs have ended and were judged for the last time.
async fn ended(jobs: u32, posts_reports: bool) -> Database {
    let database = seed::fabric().await;
    let now = throughline_daemon::Clock::new().now() / SECOND - START_MS / 1000;
    for number in 1..=jobs {
        let run = Run { number, user: "ada", start: now - 300, end: Some(now - 60), hosts: vec!["n2"] };
        let mut batch = seed::run(&run);
        batch.jobs[0].end = seed::at(now - 60);
        seed::write(&database, 100 + u128::from(number), vec![batch]).await;
    }
    let mut client = database.connect().await.unwrap();
    let after = AfterJudgement { posts_reports, ..AfterJudgement::default() };
    judge_jobs(&mut client, &SelfMetrics::default(), after, &mut VerdictMemory::default()).await.unwrap();
    database
}

/// Lets everything be due.
async fn later(database: &Database, set: &str) {
    let client = database.connect().await.unwrap();
    client.execute(&format!("UPDATE internal.report_post SET {set}"), &[]).await.unwrap();
}

async fn rows(database: &Database) -> Vec<String> {
    let sql = "SELECT state || ' ' || tries || ' ' || coalesce(error, '-') FROM internal.report_post ORDER BY job_id";
    let client = database.connect().await.unwrap();
    client.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

#[tokio::test]
async fn a_report_waits_in_the_database_until_it_is_taken() {
    let database = ended(1, true).await;
    let (receiver, got) = receiver(vec![503, 429]).await;
    let metrics = SelfMetrics::default();
    // The server that judged is gone: another one posts.
    let client = database.connect().await.unwrap();
    for tries in 1..=2 {
        let Round::NotTaken(why) = post_due(&client, &receiver, &metrics).await.unwrap() else { panic!() };
        assert!(why.starts_with("it answers "), "{why}");
        assert_eq!(metrics.get("webhook", &WEBHOOK_WAITING_REPORTS), Some(1.0));
        assert_eq!(rows(&database).await, [format!("waiting {tries} {why}")]);
        assert_eq!(post_due(&client, &receiver, &metrics).await.unwrap(), Round::Done, "not due yet");
        later(&database, "next_try = now()").await;
    }
    assert_eq!(post_due(&client, &receiver, &metrics).await.unwrap(), Round::Done);
    assert_eq!(rows(&database).await, Vec::<String>::new());
    assert_eq!(post_due(&client, &receiver, &metrics).await.unwrap(), Round::Done, "posted once");
    let outcome = |name: &'static str| metrics.get(("webhook", name), &WEBHOOK_REPORTS);
    assert_eq!((outcome("sent"), outcome("failed")), (Some(1.0), Some(0.0)));
    assert_eq!(metrics.get("webhook", &WEBHOOK_WAITING_REPORTS), Some(0.0));
    let got = got.lock().unwrap().clone();
    let ids: std::collections::BTreeSet<_> = got.iter().map(|(id, _)| id.clone()).collect();
    assert_eq!((got.len(), ids.len()), (3, 1), "{got:?}");
    let router = api_on(database);
    let text = get(&router, "/jobs/slurm%3A1.0%401000/report").await;
    assert_eq!(got[2].1, text, "what the API answers");
}

#[tokio::test]
async fn what_is_refused_or_a_day_old_is_not_posted_again() {
    let database = ended(3, true).await;
    let (receiver, got) = receiver(vec![404, 200, 503]).await;
    let (client, metrics) = (database.connect().await.unwrap(), SelfMetrics::default());
    let round = post_due(&client, &receiver, &metrics).await.unwrap();
    assert!(matches!(round, Round::NotTaken(_)), "{round:?}");
    later(&database, "next_try = now(), created_at = now() - INTERVAL '25 hours'").await;
    assert_eq!(post_due(&client, &receiver, &metrics).await.unwrap(), Round::Done);
    let left = rows(&database).await;
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(left.iter().all(|row| row.starts_with("failed 1 it answers ")), "{left:?}");
    assert_eq!(got.lock().unwrap().len(), 3);
    let outcome = |name: &'static str| metrics.get(("webhook", name), &WEBHOOK_REPORTS);
    assert_eq!((outcome("sent"), outcome("failed")), (Some(1.0), Some(2.0)));
}

#[tokio::test]
async fn without_an_address_no_report_waits() {
    let database = ended(1, false).await;
    assert_eq!(rows(&database).await, Vec::<String>::new());
}

/// A flood of short jobs that was there before two other jobs ended.
#[tokio::test]
async fn attack_29_others_are_judged_and_their_reports_posted_in_the_first_round() {
    let database = seed::fabric().await;
    let flood = "
        WITH job AS (
            INSERT INTO internal.run (key, uid, start_time, end_time)
            SELECT 'slurm:9' || n || '@1001', 1001, now() - interval '62 s', now() - interval '60 s' FROM generate_series(1, 5000) n RETURNING id
        )
        INSERT INTO internal.run_claim (job_id, node_id, uid, first_seen, last_seen, judge_after)
        SELECT job.id, k.id, 1001, now(), now(), now() - interval '1 minute' FROM job, internal.node_key k WHERE k.name = 'n2'";
    let mut client = database.connect().await.unwrap();
    client.execute(flood, &[]).await.unwrap();
    let now = throughline_daemon::Clock::new().now() / SECOND - START_MS / 1000;
    for (number, host) in [(1, "n2"), (2, "n10")] {
        let run = Run { number, user: "ada", start: now - 300, end: Some(now - 60), hosts: vec![host] };
        let mut batch = seed::run(&run);
        batch.jobs[0].end = seed::at(now - 60);
        seed::write(&database, 100 + u128::from(number), vec![batch]).await;
    }
    let after = AfterJudgement { posts_reports: true, ..AfterJudgement::default() };
    let known = &mut VerdictMemory::default();
    let has_more = judge_jobs(&mut client, &SelfMetrics::default(), after, known).await.unwrap();
    assert!(has_more, "the flood has the rest");
    for number in [1, 2] {
        let sql = "SELECT d.is_final FROM internal.run j JOIN internal.job_judgement d ON d.job_id = j.id WHERE j.key = $1";
        assert!(client.query_one(sql, &[&seed::key(number)]).await.unwrap().get::<_, bool>(0));
    }
    // The flood's reports have waited for longer. The address takes theirs, but none of the flood's.
    later(&database, "next_try = now() - interval '1 minute' WHERE uid = 1001").await;
    let (receiver, got) = receiver(vec![204; 3]).await;
    post_due(&client, &receiver, &SelfMetrics::default()).await.unwrap();
    let first: Vec<String> = got
        .lock()
        .unwrap()
        .iter()
        .take(3)
        .map(|(_, body)| body["job_key"].as_str().unwrap().to_owned())
        .collect();
    assert!([1, 2].iter().all(|number| first.contains(&seed::key(*number))), "{first:?}");
}

/// The receiver fails at whatever one owner's report has in it.
#[tokio::test]
async fn attack_29_a_report_that_the_address_fails_at_holds_up_its_owner_only() {
    let database = ended(3, true).await;
    // The first two are another owner's.
    later(
        &database,
        "uid = 7 WHERE job_id IN (SELECT job_id FROM internal.report_post ORDER BY job_id LIMIT 2)",
    )
    .await;
    later(&database, "next_try = now() - interval '1 minute' WHERE uid = 7").await;
    let (receiver, got) = receiver(vec![500]).await;
    let client = database.connect().await.unwrap();
    let round = post_due(&client, &receiver, &SelfMetrics::default()).await.unwrap();
    assert!(matches!(round, Round::NotTaken(_)), "{round:?}");
    let left = rows(&database).await;
    assert!(
        left.len() == 2 && left[0].starts_with("waiting 1") && left[1].starts_with("waiting 0"),
        "{left:?}"
    );
    assert_eq!(got.lock().unwrap()[1].1["job_key"], seed::key(3));
}
