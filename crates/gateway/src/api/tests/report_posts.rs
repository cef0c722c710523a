//! Reports of jobs, posted to the site's address: from the end of a job to the receiver, over its failures and a server's end.

use super::seed::{self, Run, SECOND, START_MS};
use super::*;
use crate::outbound::{Address, Receiver};
use crate::upkeep::{Round, VerdictMemory, judge_jobs, post_due};
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
    judge_jobs(&mut client, &SelfMetrics::default(), posts_reports, &mut VerdictMemory::default())
        .await
        .unwrap();
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
