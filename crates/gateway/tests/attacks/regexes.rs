//! Attack 7: regular expressions in remote-reads that are small as text and large once compiled, or slow.

use crate::MEMORY;
use crate::site::{Site, status};
use prost::Message;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use throughline_gateway::access::Access;
use throughline_gateway::read::message::{LabelMatcher, MatchType, Query, ReadRequest};
use throughline_store::testing;

/// What the attack may take, with everything else in this process: it took 7 GB. One reader has four requests at a time.
const MEMORY_MB: f32 = 300.0;

/// An answer of `/healthz` comes within so many ticks while requests are attacked with.
const TICKS: u32 = 100;
const TICK: Duration = Duration::from_millis(50);

fn request(queries: usize, patterns: &[&str]) -> Vec<u8> {
    let matcher = |pattern: &&str| LabelMatcher {
        kind: MatchType::Regex as i32,
        name: "source".into(),
        value: (*pattern).into(),
    };
    let name = LabelMatcher {
        kind: MatchType::Regex as i32,
        name: "__name__".into(),
        value: "throughline_(records|source_up).*".into(),
    };
    let query = Query {
        start_timestamp_ms: 1,
        end_timestamp_ms: 9_000_000_000_000,
        matchers: std::iter::once(name).chain(patterns.iter().map(matcher)).collect(),
        hints: None,
    };
    let request = ReadRequest { queries: vec![query; queries], accepted_response_types: vec![1] };
    snap::raw::Encoder::new().compress_vec(&request.encode_to_vec()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attack_07_regexes_are_bounded_and_others_are_answered() {
    let database = testing::database().await;
    let writer = database.connect().await.unwrap();
    // Values that an expression takes long to be held against.
    let metrics = "
        INSERT INTO internal.self_stat_series (name, source, label, instance) SELECT 'records', repeat('ab', 100) || n, '', 'n' || n FROM generate_series(1, 2000) n;
        INSERT INTO internal.self_stat_rows (time, instance, sources, labels, names, readings)
            SELECT now(), instance, ARRAY[source], ARRAY[label], ARRAY[name], '{1}' FROM internal.self_stat_series";
    writer.batch_execute(metrics).await.unwrap();
    let site = Arc::new(Site::new(database, Default::default(), Access::default()).await);
    let classes = "\\pL".repeat(1300);
    let large: Vec<&str> = vec!["(\\pL{30}\\pN{30}){9}"; 63];
    let deep = "(".repeat(2000) + &")".repeat(2000);
    let bodies = Arc::new([
        request(16, &large),
        request(16, &["\\pL{100}"; 63]),
        request(1, &[classes.as_str(); 31]),
        request(4, &["(?i)(\\pL|\\w|[a-z]){40}"; 7]),
        request(1, &[&deep, "((((a{1,99}){1,99}){1,99}){1,99})"]),
        request(1, &["(a|b|ab|ba|.){60}x"; 4]),
    ]);
    let host = format!("Host: {}", site.address);
    MEMORY.reset_peak_usage();
    let before = MEMORY.current_usage_as_mb();
    let done = Arc::new(AtomicBool::new(false));
    let attackers: Vec<_> = (0..16)
        .map(|number| {
            let (site, bodies, host) = (Arc::clone(&site), Arc::clone(&bodies), host.clone());
            tokio::spawn(async move {
                let body = &bodies[number % bodies.len()];
                let lines = [&host, "Content-Type: application/x-protobuf", "Content-Encoding: snappy"];
                status(&site.send("POST /api/v1/read", &lines, body).await)
            })
        })
        .collect();
    let healthy = {
        let (site, done) = (Arc::clone(&site), Arc::clone(&done));
        tokio::spawn(async move {
            let mut slowest = 0;
            while !done.load(Ordering::Relaxed) {
                let mut answer = std::pin::pin!(site.get("/healthz", &[]));
                let mut ticks = 0;
                let answer = loop {
                    match tokio::time::timeout(TICK, answer.as_mut()).await {
                        Ok(answer) => break answer,
                        Err(_) => ticks += 1,
                    }
                    assert!(ticks < TICKS, "/healthz does not answer");
                };
                assert_eq!(status(&answer), 200);
                slowest = slowest.max(ticks);
            }
            slowest
        })
    };
    let mut statuses = Vec::new();
    for attacker in attackers {
        statuses.push(attacker.await.unwrap());
    }
    done.store(true, Ordering::Relaxed);
    let slowest = healthy.await.unwrap();
    let peak = MEMORY.peak_usage_as_mb();
    eprintln!(
        "attack 7: peak {peak:.0} MB of {before:.0} before, /healthz within {slowest} ticks, {statuses:?}"
    );
    assert!(peak < MEMORY_MB, "{peak} MB");
    assert!(statuses.iter().all(|status| [400, 422, 429, 200].contains(status)), "{statuses:?}");
    // Afterwards everything is as before.
    let usual = request(1, &["ab.*"]);
    let lines = [&host, "Content-Type: application/x-protobuf", "Content-Encoding: snappy"];
    let answer = site.send("POST /api/v1/read", &lines, &usual).await;
    assert_eq!(status(&answer), 200, "{answer}");
}
