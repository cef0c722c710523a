//! Quotas of a certificate, on a collector with TLS and a real database.

use crate::site::*;
use std::time::Instant;
use throughline_collector::{Access, QuotaLimits};
use throughline_sample::Message;
use throughline_sample::catalogue::{OVER_QUOTA_SENDERS, QUOTA_LIMITED};
use throughline_sample::wire::*;
use throughline_store::{Writer, testing};
use uuid::Uuid;

const STREAMS: u64 = 8;
const ENTRIES: u64 = 10;
const EVENTS: u64 = 1000;

/// Events of a certificate in a second, and as many at once.
const EVENTS_PER_SECOND: u32 = 200;

async fn site(quotas: QuotaLimits) -> Site {
    let database = testing::database().await;
    let writers = (0..2).map(|_| Writer::new(database.clone())).collect();
    Site::start_as(database, writers, Access { quotas, ..Access::default() }).await
}

fn events(node: &str, from: i64, count: i64) -> Batch {
    let events = (0..count).map(|n| event(from + n * 1000, "noise")).collect();
    Batch { node: node.into(), events, ..Batch::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_22_eight_streams_of_events_by_one_certificate() {
    let quotas = QuotaLimits {
        rows_per_second_of_sender: 100_000_000,
        events_per_second_of_sender: EVENTS_PER_SECOND,
        burst_seconds: 1,
        ..QuotaLimits::default()
    };
    let site = site(quotas).await;
    let (began, started) = (now(), Instant::now());
    let honest = site.ship("good");
    let attack = (0..STREAMS).map(|stream| {
        let spool = Uuid::new_v4();
        let from = began + stream.cast_signed() * SECOND;
        let entry = |n: u64| {
            let from = from + (n * EVENTS).cast_signed() * 1000;
            (spool, n + 1, events("evil", from, EVENTS.cast_signed()).encode_to_vec())
        };
        (0..ENTRIES).map(entry).collect::<Vec<_>>()
    });
    let attack: Vec<_> = attack.collect();
    let flood = async {
        let sinks: Vec<_> = attack.iter().map(|_| site.sink("evil")).collect();
        for answer in
            futures_join(attack.iter().zip(&sinks).map(|(all, sink)| Site::put_through(sink, all))).await
        {
            answer.unwrap();
        }
    };
    let others = async {
        for n in 0..20 {
            honest.append(&events("good", began + n * SECOND / 100, 5));
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::join!(flood, others);
    honest.end().await;
    let seconds = started.elapsed().as_secs() + 1;
    let stored = site.number("SELECT count(*) FROM internal.events WHERE instance = 'evil'").await;
    let bound = u64::from(EVENTS_PER_SECOND) * (seconds + 1);
    assert!(stored > 0 && stored.cast_unsigned() <= bound, "{stored} events in {seconds} s");
    // Each that is not stored is counted, with who sent it.
    let all = (STREAMS * ENTRIES * EVENTS).cast_signed();
    assert_eq!(site.rejected("quota").cast_signed(), all - stored);
    let listed = "SELECT sender || ' ' || reason || ' ' || kinds FROM internal.rejected_records";
    assert_eq!(site.texts(listed).await, ["node:evil quota events"]);
    let counted = "SELECT records FROM internal.rejected_records";
    assert_eq!(site.number(counted).await, all - stored);
    assert_eq!(site.metrics.get(("collector", "sender_events"), &QUOTA_LIMITED), Some((all - stored) as f64));
    // Nothing of the honest one is missing.
    let of_good = "SELECT count(*) FROM internal.events WHERE instance = 'good'";
    assert_eq!(site.number(of_good).await, 100);
    // An event says so.
    let reported = "SELECT text FROM internal.events WHERE kind = 'sender.quota'";
    let end = Instant::now() + DEADLINE;
    while site.texts(reported).await.is_empty() {
        assert!(Instant::now() < end, "no event");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let texts = site.texts(reported).await;
    assert!(texts.len() == 1 && texts[0].starts_with("node:evil sends more events"), "{texts:?}");
    assert!(site.metrics.get("collector", &OVER_QUOTA_SENDERS).is_some());
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_22_rows_beyond_the_quota_wait_and_none_is_lost() {
    let quotas = QuotaLimits { rows_per_second_of_sender: 100, burst_seconds: 1, ..QuotaLimits::default() };
    let site = site(quotas).await;
    let began = now();
    let (key, node) = ("slurm:1", "busy");
    let sender = site.ship(node);
    let introduced = Batch {
        node: node.into(),
        jobs: vec![job(key, 1000, "cgroup")],
        job_ranks: vec![rank(key, 0, node)],
        ..Batch::default()
    };
    sender.append(&introduced);
    for n in 0..20 {
        let bins = (0..50).map(|k| bin(key, 0, began + (n * 50 + k) * 1000)).collect();
        sender.append(&Batch { node: node.into(), mpi_ops: bins, ..Batch::default() });
    }
    sender.end().await;
    assert_eq!(site.number("SELECT count(*) FROM internal.mpi_op_rows").await, 1000);
    assert!(site.metrics.get(("collector", "sender_rows"), &QUOTA_LIMITED).unwrap() > 0.0, "it had to wait");
    assert_eq!(site.number("SELECT count(*) FROM internal.record_quarantine").await, 0);
    site.end().await;
}

/// Runs all of them at once.
async fn futures_join<T: Send + 'static>(all: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut all: Vec<_> = all.map(Box::pin).collect();
    let mut answers: Vec<Option<T>> = all.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (one, answer) in all.iter_mut().zip(&mut answers) {
            if answer.is_none()
                && let std::task::Poll::Ready(done) = one.as_mut().poll(context)
            {
                *answer = Some(done);
            }
        }
        match answers.iter().all(Option::is_some) {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
    answers.into_iter().flatten().collect()
}
