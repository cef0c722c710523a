//! What waits and what is moved, without streams.

use super::*;
use std::sync::atomic::{AtomicI64, Ordering};
use throughline_sample::wire::EarlierTimes;

const SECOND: i64 = 1_000_000_000;

fn clocks(settle: Duration) -> (Clocks, Arc<AtomicI64>) {
    let (ahead, truth) = (Arc::new(AtomicI64::new(0)), Clock::new());
    let shift = ahead.clone();
    let clock = Arc::new(Clock::reading(Arc::new(move || truth.now() + shift.load(Ordering::Relaxed))));
    let plan = ClockPlan { interval: Duration::from_secs(10), settle };
    let clocks = Clocks::new(clock, plan, OwnClock::default(), "server".into(), None, SelfMetrics::default());
    (clocks, ahead)
}

fn span(id: u64, from: i64, to: i64, utc_less_boot: i64) -> ClockSpan {
    ClockSpan { id, from: from * SECOND, to: to * SECOND, utc_less_boot: utc_less_boot * SECOND }
}

async fn measured(
    clocks: &Clocks,
    stream: u64,
    sender: &str,
    spans: &[ClockSpan],
    offset: i64,
) -> ClockReport {
    let sender: Arc<str> = sender.into();
    assert!(clocks.list(stream, (&sender, &sender), spans.to_vec()));
    let best = Exchange { round_trip: 1000, offset: offset * SECOND, server_time: 1, sender_time: 1 };
    clocks.measured(stream, &sender, best, clocks.generation()).await.unwrap()
}

fn of(span: u64, earlier: &[u64]) -> BatchClock {
    let earlier = earlier.iter().map(|span| EarlierTimes { span: *span, time: Vec::new() }).collect();
    BatchClock { span, earlier }
}

fn known(look: Look) -> Option<(i64, i64)> {
    match look {
        Look::Known((own, earlier)) => Some((own.offset / SECOND, earlier.values().sum::<i64>() / SECOND)),
        _ => None,
    }
}

#[tokio::test]
async fn offsets_of_all_spans_of_a_boot_come_from_one_measurement() {
    let (clocks, _) = clocks(Duration::ZERO);
    let spans = [span(1, 0, 1300, 300), span(2, 1040, 1100, 40), span(3, 1063, 0, 3)];
    let look = |span, earlier: &[u64]| clocks.look("node:n1", &of(span, earlier), Instant::now());
    assert!(matches!(look(3, &[]), Look::Wait));
    let report = measured(&clocks, 1, "node:n1", &spans, 4).await;
    assert_eq!((report.fault.as_str(), report.begin_span), ("", false));
    assert_eq!((known(look(3, &[1])), known(look(2, &[]))), (Some((0, 300)), Some((40, 0))));
    let Look::Known((own, _)) = look(3, &[]) else { panic!("not known") };
    // The span before ended at 1060 by the moved clock, this one began at 1063.
    assert_eq!((own.slew, own.from), (0, 1063 * SECOND));
    assert_eq!(clocks.present_offset("node:n1"), Some(0));
}

#[tokio::test]
async fn a_sender_alone_is_found_off_once_others_had_time_to_come_back() {
    let (clocks, _) = clocks(Duration::from_secs(3600));
    let spans = [span(1, 0, 0, 0)];
    let look = |sender: &str| known(clocks.look(sender, &of(1, &[]), Instant::now()));
    measured(&clocks, 1, "node:n1", &spans, 300).await;
    assert_eq!(look("node:n1"), None);
    for (stream, sender) in [(2, "node:n2"), (3, "node:n3"), (4, "node:n4")] {
        measured(&clocks, stream, sender, &spans, 0).await;
        assert_eq!(look(sender), Some((0, 0)), "right by this server's clock");
    }
    let report = measured(&clocks, 1, "node:n1", &spans, 300).await;
    assert_eq!(look("node:n1"), Some((300, 0)));
    assert!(report.fault.contains("300 s ahead"), "{report:?}");
}

#[tokio::test]
async fn the_server_comes_first_and_is_measured_anew_when_it_was_set() {
    let (clocks, ahead) = clocks(Duration::ZERO);
    let spans = [span(1, 0, 0, 0)];
    let senders = ["node:n1", "node:n2", "node:n3"];
    for (stream, sender) in (0..).zip(senders) {
        measured(&clocks, stream, sender, &spans, 0).await;
    }
    let look = |sender: &str| known(clocks.look(sender, &of(1, &[]), Instant::now()));
    assert_eq!(look("node:n1"), Some((0, 0)));
    assert!(clocks.own_time().is_some());
    ahead.store(-240 * SECOND, Ordering::Relaxed);
    clocks.follow();
    assert_eq!(clocks.own_time(), None, "nor of itself");
    assert!(senders.iter().all(|sender| look(sender).is_none()), "nothing is known of them");
    for (stream, sender) in (0..).zip(senders) {
        measured(&clocks, stream, sender, &spans, 240).await;
    }
    assert!(senders.iter().all(|sender| look(sender).is_none()));
    assert_eq!(clocks.own_time(), None);
    let fault = clocks.0.own.fault().unwrap();
    assert!(fault.starts_with("this server's clock is 240 s behind 3 of 3 senders"), "{fault}");
    assert_eq!(clocks.0.metrics.get(SOURCE, &SERVER_CLOCK_OFFSET_SECONDS), Some(-240.0));
    let waits = tokio::time::timeout(Duration::from_millis(10), clocks.server_is_right());
    assert!(waits.await.is_err());
    // What was begun before the clock was set says nothing.
    let generation = clocks.generation();
    ahead.store(0, Ordering::Relaxed);
    clocks.follow();
    let old = Exchange { round_trip: 0, offset: 240 * SECOND, server_time: 1, sender_time: 1 };
    assert_eq!(clocks.measured(0, &senders[0].into(), old, generation).await, None);
    assert_eq!(look("node:n1"), None);
    for (stream, sender) in (0..).zip(senders) {
        measured(&clocks, stream, sender, &spans, 0).await;
    }
    assert_eq!((look("node:n1"), clocks.0.own.fault()), (Some((0, 0)), None));
    clocks.server_is_right().await;
}

#[tokio::test]
async fn attack_38_one_certificate_counts_once_however_many_names_it_has() {
    let (clocks, _) = clocks(Duration::ZERO);
    let spans = [span(1, 0, 0, 0)];
    for (stream, sender) in (0..).zip(["node:a", "node:b", "node:c", "node:d"]) {
        let sender: Arc<str> = sender.into();
        clocks.list(stream, (&sender, "evil"), spans.to_vec());
        let best = Exchange { round_trip: 0, offset: 240 * SECOND, server_time: 1, sender_time: 1 };
        clocks.measured(stream, &sender, best, clocks.generation()).await.unwrap();
    }
    assert_eq!(clocks.0.own.fault(), None);
}

#[tokio::test]
async fn a_clock_that_drifted_gets_another_span() {
    let (clocks, _) = clocks(Duration::ZERO);
    let first = span(1, 0, 0, 0);
    assert!(!measured(&clocks, 1, "node:n1", &[first], 0).await.begin_span);
    assert!(measured(&clocks, 1, "node:n1", &[first], 8).await.begin_span);
    let look = |span| known(clocks.look("node:n1", &of(span, &[]), Instant::now()));
    assert_eq!(look(1), None, "its rows wait for the next one");
    let spans = [span(1, 0, 1000, 0), span(2, 1000, 0, 0)];
    assert!(!measured(&clocks, 1, "node:n1", &spans, 8).await.begin_span);
    assert_eq!((look(1), look(2)), (Some((0, 0)), Some((10, 0))));
    let Look::Known((own, _)) = clocks.look("node:n1", &of(2, &[]), Instant::now()) else { panic!() };
    assert_eq!(own.slew, 10 * SECOND, "rows stay in their order");
}

#[tokio::test(start_paused = true)]
async fn what_is_not_known_in_time_stays_with_its_sender() {
    let (clocks, _) = clocks(Duration::ZERO);
    let put_off = clocks.admit("node:n1", &of(1, &[])).await.unwrap_err();
    assert_eq!(put_off.reason, UNMEASURED);
    assert_eq!(clocks.0.metrics.get((SOURCE, UNMEASURED), &ENTRIES_PUT_OFF), Some(1.0));
}
