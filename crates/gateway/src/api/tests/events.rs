//! Events, health and range.

use super::seed::{self, LEAF_1, SPINE, START_MS, SUBNET};
use super::*;
use serde_json::json;
use throughline_sample::wire::{Batch, Event, SelfStat};

#[tokio::test]
async fn events_by_what_they_are_about_page_by_page() {
    let database = seed::fabric().await;
    // Three at each of two times.
    let event = |n: i64| Event {
        time: seed::at(n / 3 * 10),
        source: "mad".into(),
        kind: if n % 2 == 0 { "link.down" } else { "counter.cleared" }.into(),
        severity: "warning".into(),
        text: format!("number {n}"),
        ib_guid: if n == 4 { SPINE } else { LEAF_1 },
        ib_port: 3,
        remote_ib_guid: if n == 4 { LEAF_1 } else { 0 },
        remote_ib_port: 3,
        ..Event::default()
    };
    let batch = Batch {
        subnet_prefix: 0xfe80_0000_0000_0000,
        events: (0..6).map(event).collect(),
        ..Batch::default()
    };
    seed::write(&database, 1, vec![Default::default(), batch]).await;
    let router = api_on(database);
    let range = format!("from={}&to={}", START_MS - 1, START_MS + 60_000);
    let texts = async |query: &str| {
        let (mut found, mut next) = (Vec::new(), String::new());
        loop {
            let body = get(&router, &format!("/events?{range}&{query}{next}")).await;
            found.extend(
                body["events"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|e| e["text"].as_str().unwrap().replace("number ", "")),
            );
            match body["next"].as_str() {
                Some(place) => next = format!("&next={place}"),
                None => return found.join(" "),
            }
        }
    };
    // Of one time by kind.
    assert_eq!(texts("").await, "3 5 4 1 0 2");
    for limit in 1..=6 {
        assert_eq!(texts(&format!("limit={limit}")).await, "3 5 4 1 0 2");
    }
    assert_eq!(texts("kind=link.").await, "4 0 2");
    assert_eq!(texts(&format!("guid={}&port=3", seed::guid(SPINE))).await, "4");
    assert_eq!(
        texts(&format!("guid={}&port=3&kind=link.down", seed::guid(LEAF_1))).await,
        "4 0 2",
        "either end"
    );
    assert_eq!(texts(&format!("instance={SUBNET}&limit=2")).await, "3 5 4 1 0 2");
    assert_eq!(texts("job=x").await, "");
    let body = get(&router, &format!("/events?{range}&kind=link.&limit=1")).await;
    assert_eq!(body["events"][0]["time_ms"], json!(START_MS + 10_000));
}

#[tokio::test]
async fn sources_and_ranges() {
    let database = seed::fabric().await;
    let now = throughline_daemon::Clock::new().now();
    let stat = |time, value| SelfStat {
        time,
        source: "nvml".into(),
        name: "source_up".into(),
        value,
        ..SelfStat::default()
    };
    let mut fresh = seed::hosts();
    fresh.coverage[0].time = now - 30 * seed::SECOND;
    fresh.self_stats = vec![stat(now - 20 * seed::SECOND, 1.0), stat(now - 10 * seed::SECOND, 0.0)];
    seed::write(&database, 3, vec![fresh]).await;
    let router = api_on(database);
    let body = get(&router, "/health").await;
    let sources = body["sources"].as_array().unwrap();
    let names: Vec<_> = sources
        .iter()
        .map(|source| (source["source"].as_str().unwrap(), source["instance"].as_str().unwrap()))
        .collect();
    assert_eq!(names, [("nvml", "n2"), ("sysfs", "n2")]);
    assert_eq!((&sources[0]["up"], &sources[0]["newest_ms"]), (&json!(false), &json!(null)));
    let age = sources[1]["age_seconds"].as_f64().unwrap();
    assert!((30.0..600.0).contains(&age) && sources[1]["up"].is_null() && sources[1]["read"] == 1, "{body}");
    let range = get(&router, "/range").await;
    assert!(range["from_ms"].as_i64().unwrap() <= START_MS && range["to_ms"].as_i64().unwrap() > START_MS);
    assert!(range["tables"].as_array().unwrap().iter().any(|table| table["table"] == "coverage"));
}

#[tokio::test]
async fn a_clock_that_is_not_believed_has_a_reason_and_a_remedy() {
    let database = seed::fabric().await;
    let client = database.connect().await.unwrap();
    let router = api_on(database);
    let believed = get(&router, "/clock").await;
    assert_eq!((&believed["state"], &believed["warning"]), (&json!("trusted"), &json!(null)));
    let doubt = "UPDATE internal.clock_check SET state = 'outvoted', reason = 'the clocks of 3 of 4 senders are 8 d 0 h behind it', \
                 off_seconds = 691200, reporting = 4, agreeing = 1, trusted_at = now()";
    client.batch_execute(doubt).await.unwrap();
    for path in ["/clock", "/status"] {
        let body = get(&router, path).await;
        let clock = if path == "/status" { &body["clock"] } else { &body };
        assert!(clock["warning"].as_str().unwrap().contains("8 d 0 h behind it"), "{clock}");
        assert!(clock["remedy"].as_str().unwrap().contains("throughline db clock accept"), "{clock}");
        assert_eq!((&clock["reporting"], &clock["agreeing"]), (&json!(4), &json!(1)));
    }
}
