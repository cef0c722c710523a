//! The engine against a scripted fabric: windows, turns, repetitions, silence. All times are the script's.

mod pace;
mod scripted;

use super::*;
use crate::transport::Arrival;
use proptest::prelude::*;
use scripted::{Behaviour, Bench, Collect};
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use throughline_infiniband::mad::{MAD_BYTES, Query, attribute};

fn settings(window: usize, per_node: u8) -> Settings {
    Settings { window, per_node, ..Settings::default() }
}

const fn milliseconds(number: u64) -> Duration {
    Duration::from_millis(number)
}

#[test]
fn all_is_requested_within_the_windows_and_in_turn() {
    let mut bench = Bench::new(settings(8, 2), 10, &[]);
    let (work, _, elapsed) = bench.round(7);
    assert_eq!(work.count("reply"), 70);
    let script = bench.fabric.script();
    assert_eq!(script.most_waiting, 8);
    assert!(script.most_per_node <= 2);
    let mut first: Vec<u16> = script.sent[..10].iter().map(|(_, lid)| *lid).collect();
    first.sort_unstable();
    assert_eq!(first, (1..=10).collect::<Vec<u16>>(), "one request at each node before the second");
    drop(script);
    assert_eq!(bench.engine.stats(), Stats { sent: 70, received: 70, ..Stats::default() });
    assert_eq!(bench.engine.stats().wire_bytes(), 140 * 290);
    // 70 requests, 8 at a time, 100 µs each.
    assert_eq!(elapsed, Duration::from_micros(900));
}

/// What a reply says is of some time since the attempt that it answers.
#[test]
fn how_long_a_reply_took_is_since_its_own_attempt() {
    let behaviour = [(2, Behaviour::DropFirst), (3, Behaviour::Late(700)), (4, Behaviour::Never)];
    let (work, ..) = Bench::new(settings(8, 1), 4, &behaviour).round(1);
    let took: Vec<_> = work.took.into_iter().map(|(tag, took)| (tag / 1000, took.as_micros())).collect();
    assert_eq!(took, [(1, 100), (2, 100), (3, 800)]);
}

#[test]
fn a_lost_request_is_repeated_soon() {
    let mut bench = Bench::new(settings(4, 1), 3, &[(2, Behaviour::DropFirst)]);
    let (work, _, elapsed) = bench.round(2);
    assert_eq!(work.count("reply"), 6);
    let stats = bench.engine.stats();
    assert_eq!((stats.retries, stats.lost, stats.timeouts), (2, 2, 0));
    assert!(!bench.engine.queue().is_silent(bench.ids[1]));
    assert!(elapsed <= milliseconds(14), "two repetitions after 5 ms each, not 200: {elapsed:?}");
}

/// The node answered a later request: what was queried before is lost, and there is nothing to wait for.
#[test]
fn a_node_that_answers_later_requests_is_requested_again_at_once() {
    let mut bench = Bench::new(settings(16, 2), 1, &[(1, Behaviour::Lossy(50))]);
    bench.round(400);
    let (before, (work, _, elapsed)) = (bench.engine.stats(), bench.round(400));
    assert_eq!(work.count("reply"), 400);
    let losses = (bench.engine.stats().retries - before.retries) as u32;
    assert!(losses > 5, "{losses}");
    assert!(elapsed < milliseconds(20) + losses * milliseconds(2), "{losses} losses: {elapsed:?}");
}

#[test]
fn one_percent_of_loss_costs_less_than_twice_the_time() {
    let all: Vec<(u16, Behaviour)> = (1..=1500).map(|lid| (lid, Behaviour::Lossy(10))).collect();
    let mut lossy = Bench::new(settings(32, 2), 1500, &all);
    let mut clean = Bench::new(settings(32, 2), 1500, &[]);
    for bench in [&mut lossy, &mut clean] {
        bench.fabric.script().service = Duration::from_micros(20);
        bench.round(6);
    }
    let (_, _, ideal) = clean.round(6);
    for _ in 0..20 {
        let (work, _, elapsed) = lossy.round(6);
        assert_eq!(work.count("reply"), 9000);
        assert!(elapsed < ideal * 2, "{elapsed:?} against {ideal:?}");
    }
    assert_eq!(lossy.engine.silent_nodes(), 0, "losses make nobody silent");
    assert!(lossy.engine.window() >= 16, "{}", lossy.engine.window());
}

#[test]
fn dead_nodes_hold_up_nobody() {
    let dead: Vec<(u16, Behaviour)> = (1..=75).map(|number| (number * 20, Behaviour::Never)).collect();
    let mut clean = Bench::new(settings(32, 2), 1500, &[]);
    let mut bench = Bench::new(settings(32, 2), 1500, &dead);
    clean.round(4);
    let (_, ideal, _) = clean.round(4);

    // Found dead, all at the same time: one deadline, while the others are read.
    let (work, replied, end) = bench.round(4);
    assert_eq!(work.count("reply"), 1425 * 4);
    let timeouts = work.count("timeout");
    assert!((75..80).contains(&timeouts), "about one request each: {timeouts}");
    assert!(replied < ideal * 3 / 2, "{replied:?} against {ideal:?}");
    assert!(end < milliseconds(300), "{end:?}");
    assert_eq!(bench.engine.silent_nodes(), 75);

    // From then on one MAD each, and nobody waits for them.
    let before = bench.engine.stats();
    let (work, replied, end) = bench.round(4);
    assert_eq!((work.count("reply"), work.count("silent")), (1425 * 4, 75 * 4));
    let after = bench.engine.stats();
    assert_eq!((after.sent - before.sent, after.probes - before.probes), (1425 * 4 + 75, 75));
    assert!(replied < ideal * 11 / 10 && end < ideal + milliseconds(6), "{replied:?}, {end:?}, {ideal:?}");

    // Once they answer, all is read in the same round.
    bench.fabric.script().behaviour.clear();
    bench.fabric.script().now += milliseconds(300);
    let (work, ..) = bench.round(4);
    assert_eq!(work.count("reply"), 6000);
    assert_eq!(bench.engine.silent_nodes(), 0);
}

/// More than there are slots for, next to each other: they get their turns, and the live ones are all read.
#[test]
fn a_dead_half_of_a_fabric_is_borne() {
    let dead: Vec<(u16, Behaviour)> = (1..=600).map(|lid| (lid, Behaviour::Never)).collect();
    let mut bench = Bench::new(settings(32, 2), 1200, &dead);
    for _ in 0..3 {
        let (work, ..) = bench.round(3);
        assert_eq!(work.count("reply"), 1800);
        assert_eq!(bench.engine.silent_nodes(), 600);
    }
    bench.fabric.script().behaviour.clear();
    // At most 128 are probed at a time, each in its turn.
    for _ in 0..=600 / 128 {
        bench.fabric.script().now += milliseconds(300);
        bench.round(3);
    }
    assert_eq!(bench.engine.silent_nodes(), 0);
}

#[test]
fn a_node_that_can_not_be_reached_is_silent_sooner() {
    let mut bench = Bench::new(settings(8, 2), 3, &[(2, Behaviour::GiveUp)]);
    let (work, _, end) = bench.round(20);
    assert_eq!(work.count("reply"), 40);
    assert!((1..=2).contains(&work.count("timeout")), "at most the per-node window");
    assert_eq!(work.count("timeout") + work.count("silent"), 20);
    assert!(bench.engine.queue().is_silent(bench.ids[1]));
    assert!(end < milliseconds(60), "{end:?}");
    let before = bench.engine.stats();
    let (work, ..) = bench.round(20);
    assert_eq!(work.count("silent"), 20);
    assert_eq!(bench.engine.stats().sent - before.sent, 41);
}

#[test]
fn a_trial_is_sent_once_and_not_waited_for_long() {
    let mut bench = Bench::new(settings(8, 2), 3, &[]);
    bench.round(2);
    bench.fabric.script().behaviour.insert(2, Behaviour::Never);
    let (sent, start) = (bench.engine.stats().sent, bench.fabric.script().now);
    let query = Query { attribute: attribute::PORT_SAMPLES_CONTROL, modifier: 2000, port_select: 1 };
    bench.engine.queue().push(bench.ids[1], Request::trial(query, 2000));
    let mut work = Collect::default();
    bench.engine.run(&mut work, &AtomicBool::new(false)).unwrap();
    assert_eq!((work.count("timeout"), bench.engine.stats().sent - sent), (1, 1));
    let waited = bench.fabric.script().now - start;
    assert!((milliseconds(20)..milliseconds(25)).contains(&waited), "4 times 5 ms, not 200: {waited:?}");
}

#[test]
fn an_answer_after_the_round_lets_a_node_in_again() {
    let mut bench = Bench::new(settings(8, 2), 3, &[(2, Behaviour::Never)]);
    bench.round(2);
    assert_eq!(bench.engine.silent_nodes(), 1);
    bench.fabric.script().behaviour.insert(2, Behaviour::Late(50_000));
    let (work, _, end) = bench.round(2);
    assert_eq!(work.count("silent"), 2);
    assert!(end < milliseconds(10), "nobody waits for the 50 ms: {end:?}");
    bench.fabric.script().now += milliseconds(100);
    let (work, ..) = bench.round(2);
    assert_eq!(work.count("reply"), 6);
    assert_eq!(bench.engine.silent_nodes(), 0);
}

#[test]
fn refusals_and_duplicates_are_told_apart() {
    let script = [(1, Behaviour::Refuse), (2, Behaviour::Twice)];
    let mut bench = Bench::new(settings(2, 1), 3, &script);
    let (work, ..) = bench.round(5);
    assert_eq!((work.count("refused"), work.count("reply")), (5, 10));
    let stats = bench.engine.stats();
    assert_eq!((stats.refused, stats.retries), (5, 0));
    assert!(stats.unexpected >= 4, "{stats:?}");
}

/// Answers that come after the repetition was sent are used, and the second answer harms nobody.
#[test]
fn late_answers_are_used_and_teach_patience() {
    let mut bench = Bench::new(settings(8, 1), 4, &[]);
    bench.round(30);
    bench.fabric.script().behaviour.insert(3, Behaviour::Late(12_000));
    let (work, ..) = bench.round(30);
    assert_eq!(work.count("reply"), 120);
    let stats = bench.engine.stats();
    assert!(stats.late >= 1 && stats.lost == 0, "{stats:?}");
    assert!(stats.late < 15, "the round-trip time was learned: {stats:?}");
    assert_eq!(bench.engine.window(), 8, "nothing was lost");
    assert!(stats.unexpected <= stats.late);
}

#[test]
fn a_busy_agent_gets_time() {
    let mut bench = Bench::new(settings(8, 1), 3, &[(2, Behaviour::Busy(2)), (3, Behaviour::Busy(9))]);
    let (work, _, end) = bench.round(2);
    assert_eq!((work.count("reply"), work.count("refused otherwise")), (4, 2));
    assert_eq!(bench.engine.stats().busy, 2 * 2 + 2 * 4);
    assert!(bench.engine.window() < 8);
    assert!(end > milliseconds(2 * (5 + 10 + 20)), "{end:?}");
    assert_eq!(bench.engine.silent_nodes(), 0);
}

/// When nobody answers for a while, the reader or the fabric is held up: no flood, and nobody is called silent.
#[test]
fn a_stall_is_waited_out() {
    let mut bench = Bench::new(settings(32, 2), 200, &[]);
    bench.round(4);
    let sent = bench.fabric.script().sent.len();
    let stalled_until = bench.fabric.script().now + milliseconds(150);
    bench.fabric.script().stalled_until = stalled_until;
    let (work, ..) = bench.round(4);
    assert_eq!(work.count("reply"), 800);
    let script = bench.fabric.script();
    let during = script.sent[sent..].iter().filter(|(at, _)| *at < stalled_until).count();
    assert!(during <= 200, "{during}: what queues below can hold");
    drop(script);
    assert_eq!(bench.engine.silent_nodes(), 0);
}

#[test]
fn what_can_not_be_sent_is_reported() {
    let mut bench = Bench::new(settings(4, 2), 3, &[(2, Behaviour::Unsendable)]);
    let (work, ..) = bench.round(3);
    assert_eq!((work.count("reply"), work.count("not sent")), (6, 3));
    assert_eq!(bench.engine.stats().transport_failures, 3);
}

#[test]
fn a_broken_transport_ends_the_round() {
    let mut bench = Bench::new(settings(4, 2), 3, &[]);
    bench.fill(3);
    bench.fabric.script().receive_fails = true;
    let broken = bench.engine.run(&mut Collect::default(), &AtomicBool::new(false));
    assert!(matches!(broken, Err(EngineError::Transport(_))));
    bench.fabric.script().receive_fails = false;
    let (work, ..) = bench.round(3);
    assert_eq!(work.count("reply"), 9);
}

#[test]
fn a_stopped_engine_starts_afresh() {
    let mut bench = Bench::new(settings(4, 2), 2, &[(1, Behaviour::Never)]);
    bench.fill(3);
    let stopped = bench.engine.run(&mut Collect::default(), &AtomicBool::new(true));
    assert!(matches!(stopped, Err(EngineError::Stopped)));
    bench.fabric.script().behaviour.clear();
    let (work, ..) = bench.round(3);
    assert_eq!(work.count("reply"), 6);
}

#[test]
fn nodes_are_forgotten_with_their_probes() {
    let mut bench = Bench::new(settings(8, 2), 3, &[(1, Behaviour::Never)]);
    bench.round(2);
    bench.round(2);
    bench.engine.clear_nodes();
    assert_eq!(bench.engine.silent_nodes(), 0);
    bench.ids = vec![bench.engine.queue().add_node(Route::Lid { lid: 1, service_level: 0 })];
    bench.fabric.script().behaviour.clear();
    let (work, ..) = bench.round(2);
    assert_eq!(work.count("reply"), 2);
}

/// Random replies, also to what is outstanding, never upset the engine.
#[test]
fn garbage_is_counted_and_ignored() {
    let mut bench = Bench::new(settings(4, 2), 2, &[]);
    let mut script = bench.fabric.script();
    let now = script.now;
    for number in 0..2000 {
        let mut garbage = [0; MAD_BYTES];
        garbage.iter_mut().for_each(|byte| *byte = script.random(256) as u8);
        garbage[15] &= 3; // the number of a slot in use
        script.arrivals.insert((now, number), (garbage, Arrival::Reply));
    }
    drop(script);
    let (work, ..) = bench.round(5);
    assert_eq!(work.count("reply"), 10);
    assert_eq!(bench.engine.stats().unexpected, 2000);
}

fn behaviour() -> impl Strategy<Value = Behaviour> {
    prop_oneof![
        4 => Just(Behaviour::Answer),
        1 => Just(Behaviour::DropFirst),
        1 => Just(Behaviour::Never),
        1 => Just(Behaviour::GiveUp),
        1 => Just(Behaviour::Refuse),
        1 => Just(Behaviour::Twice),
        1 => Just(Behaviour::Unsendable),
        1 => (0u64..400_000).prop_map(Behaviour::Late),
        1 => (0u8..5).prop_map(Behaviour::Busy),
        1 => (0u32..300).prop_map(Behaviour::Lossy),
    ]
}

proptest! {
    /// Whatever nodes do, each request ends once (`Collect` checks it), with its own answer; who answers is
    /// never silent; and nothing stays behind for the next round.
    #[test]
    fn each_request_ends_once(
        nodes in prop::collection::vec(behaviour(), 1..40),
        window in 1usize..40,
        per_node in 1u8..4,
        retries in 0u8..5,
        each in 1u64..6,
    ) {
        // A round in which nothing can be sent ends as a broken transport, and to silent nodes nothing is.
        prop_assume!(
            nodes.iter().any(|node| matches!(node, Behaviour::Answer | Behaviour::Twice | Behaviour::Refuse))
        );
        let script: Vec<(u16, Behaviour)> =
            nodes.iter().enumerate().map(|(index, behaviour)| (index as u16 + 1, *behaviour)).collect();
        let settings = Settings { retries, ..settings(window, per_node) };
        let mut bench = Bench::new(settings, nodes.len() as u16, &script);
        for _ in 0..3 {
            let (work, _, elapsed) = bench.round(each);
            for (tag, outcome) in &work.outcomes {
                let behaviour = nodes[(*tag / 1000 - 1) as usize];
                let is_right = match behaviour {
                    Behaviour::Answer | Behaviour::Twice => *outcome == "reply",
                    Behaviour::Refuse => *outcome == "refused",
                    Behaviour::Unsendable => *outcome == "not sent",
                    Behaviour::Never | Behaviour::GiveUp => matches!(*outcome, "timeout" | "silent"),
                    Behaviour::Late(delay) if delay < 150_000 => *outcome == "reply",
                    _ => true,
                };
                prop_assert!(is_right, "{behaviour:?}: {outcome}");
            }
            prop_assert!(elapsed < Duration::from_secs(60), "{elapsed:?}");
        }
        bench.fabric.script().behaviour.clear();
        bench.fabric.script().now += Duration::from_secs(1);
        // What is still on its way is received in this round; the next one is as if nothing had been.
        bench.round(each);
        let (work, ..) = bench.round(each);
        prop_assert_eq!(work.count("reply"), nodes.len() * each as usize);
    }
}
