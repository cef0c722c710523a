//! The engine against a scripted fabric: windows, turns, repetitions, silence.

use super::*;
use crate::mad::{self, MAD_BYTES, Query, attribute};
use crate::transport::{Arrival, Destination, Transport};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What the scripted fabric does with a request to a LID.
#[derive(Clone, Copy, PartialEq)]
enum Behaviour {
    Answer,
    /// Answers every attempt after the first of each request.
    DropFirst,
    Never,
    /// The layer below gives each request up at once.
    GiveUp,
    Refuse,
    /// Answers twice.
    Twice,
}

#[derive(Default)]
struct Script {
    behaviour: HashMap<u16, Behaviour>,
    waiting: VecDeque<(Mad, Arrival)>,
    seen: HashMap<(u16, u32), u32>,
    order: Vec<u16>,
    outstanding: HashMap<u16, usize>,
    most_outstanding: usize,
    most_per_node: usize,
}

#[derive(Clone, Default)]
struct Scripted(Arc<Mutex<Script>>);

impl Transport for Scripted {
    fn send(&mut self, mad: &Mad, to: Destination, _timeout: Duration) -> Result<(), TransportError> {
        let mut script = self.0.lock().unwrap();
        let Destination::Lid { lid, .. } = to else { panic!("by LID only") };
        script.order.push(lid);
        let transaction = mad::reply_header(mad).transaction;
        let attempt = *script.seen.entry((lid, transaction)).and_modify(|count| *count += 1).or_insert(1);
        if attempt == 1 {
            *script.outstanding.entry(lid).or_default() += 1;
            script.most_per_node = script.most_per_node.max(script.outstanding[&lid]);
            script.most_outstanding = script.most_outstanding.max(script.outstanding.values().sum());
        }
        let mut reply = *mad;
        reply[3] = 0x81;
        match script.behaviour.get(&lid).copied().unwrap_or(Behaviour::Answer) {
            Behaviour::Answer => script.waiting.push_back((reply, Arrival::Reply)),
            Behaviour::DropFirst if attempt == 1 => {}
            Behaviour::DropFirst => script.waiting.push_back((reply, Arrival::Reply)),
            Behaviour::Never => {}
            Behaviour::GiveUp => script.waiting.push_back((*mad, Arrival::GivenUp)),
            Behaviour::Refuse => {
                reply[5] = 0x0C;
                script.waiting.push_back((reply, Arrival::Reply));
            }
            Behaviour::Twice => {
                script.waiting.push_back((reply, Arrival::Reply));
                script.waiting.push_back((reply, Arrival::Reply));
            }
        }
        Ok(())
    }

    fn receive(&mut self, mad: &mut Mad, wait: Duration) -> Result<Arrival, TransportError> {
        let next = self.0.lock().unwrap().waiting.pop_front();
        match next {
            Some((bytes, arrival)) => {
                *mad = bytes;
                Ok(arrival)
            }
            None => {
                std::thread::sleep(wait);
                Ok(Arrival::Nothing)
            }
        }
    }
}

/// Collects outcomes by tag, and tells the script that a request ended.
struct Collect {
    script: Scripted,
    outcomes: HashMap<u64, &'static str>,
}

impl Work for Collect {
    fn done(&mut self, queue: &mut Queue, node: NodeId, tag: u64, outcome: Outcome<'_>, _now: Instant) {
        let name = match outcome {
            Outcome::Reply(_) => "reply",
            Outcome::Refused(0x0C) => "refused",
            Outcome::Refused(_) => "refused otherwise",
            Outcome::Timeout => "timeout",
            Outcome::Silent => "silent",
            Outcome::NotSent => "not sent",
        };
        assert_eq!(self.outcomes.insert(tag, name), None, "{tag} ended twice");
        if let (Route::Lid { lid, .. }, false) = (queue.route(node), name == "silent") {
            *self.script.0.lock().unwrap().outstanding.get_mut(lid).unwrap() -= 1;
        }
    }
}

fn settings(window: usize, per_node: u8) -> Settings {
    Settings { window, per_node, timeout: Duration::from_millis(20), retries: 2 }
}

/// Asks nodes 1..=nodes for `each` things; tag is LID * 1000 + number.
fn fill(engine: &mut Engine, ids: &[NodeId], each: u64) {
    for (index, id) in ids.iter().enumerate() {
        for number in 0..each {
            let query = Query { attribute: attribute::PORT_COUNTERS, modifier: 0, port_select: 1 };
            let tag = (index as u64 + 1) * 1000 + number;
            engine.queue().push(*id, Request { query, tag });
        }
    }
}

fn setup(settings: Settings, behaviour: &[(u16, Behaviour)], nodes: u16) -> (Engine, Collect, Vec<NodeId>) {
    let script = Scripted::default();
    script.0.lock().unwrap().behaviour = behaviour.iter().copied().collect();
    let mut engine = Engine::new(Box::new(script.clone()), settings);
    let ids = (1..=nodes).map(|lid| engine.queue().add_node(Route::Lid { lid, service_level: 0 })).collect();
    (engine, Collect { script, outcomes: HashMap::new() }, ids)
}

fn run(engine: &mut Engine, work: &mut Collect) {
    engine.run(work, &AtomicBool::new(false)).unwrap();
}

#[test]
fn all_is_asked_within_the_windows_and_in_turn() {
    let (mut engine, mut work, ids) = setup(settings(8, 2), &[], 10);
    fill(&mut engine, &ids, 7);
    run(&mut engine, &mut work);
    assert_eq!(work.outcomes.len(), 70);
    assert!(work.outcomes.values().all(|name| *name == "reply"));
    let script = work.script.0.lock().unwrap();
    assert_eq!(script.most_outstanding, 8);
    assert!(script.most_per_node <= 2);
    let mut first: Vec<u16> = script.order[..10].to_vec();
    first.sort_unstable();
    assert_eq!(first, (1..=10).collect::<Vec<u16>>(), "one request at each node before the second");
    assert_eq!(engine.stats(), Stats { sent: 70, ..Stats::default() });
}

#[test]
fn a_lost_request_is_repeated() {
    let (mut engine, mut work, ids) = setup(settings(4, 1), &[(2, Behaviour::DropFirst)], 3);
    fill(&mut engine, &ids, 2);
    run(&mut engine, &mut work);
    assert!(work.outcomes.values().all(|name| *name == "reply"));
    assert_eq!(engine.stats().retries, 2);
    assert!(!engine.queue().is_silent(ids[1]));
}

#[test]
fn a_dead_node_costs_one_request_and_hides_no_other() {
    for behaviour in [Behaviour::Never, Behaviour::GiveUp] {
        let (mut engine, mut work, ids) = setup(settings(8, 2), &[(2, behaviour)], 3);
        fill(&mut engine, &ids, 20);
        run(&mut engine, &mut work);
        let count = |name| work.outcomes.values().filter(|outcome| **outcome == name).count();
        assert_eq!(count("reply"), 40);
        assert!((1..=2).contains(&count("timeout")), "at most the per-node window");
        assert_eq!(count("timeout") + count("silent"), 20);
        assert!(engine.queue().is_silent(ids[1]));

        // The next round asks one thing once.
        let before = engine.stats();
        work.outcomes.clear();
        fill(&mut engine, &ids, 20);
        run(&mut engine, &mut work);
        let after = engine.stats();
        assert_eq!((after.sent - before.sent, after.retries - before.retries), (41, 0));

        // Once it answers, all of it is read again.
        work.outcomes.clear();
        work.script.0.lock().unwrap().behaviour.clear();
        fill(&mut engine, &ids, 20);
        run(&mut engine, &mut work);
        assert!(work.outcomes.values().all(|name| *name == "reply"));
    }
}

#[test]
fn refusals_and_duplicates_are_told_apart() {
    let script = [(1, Behaviour::Refuse), (2, Behaviour::Twice)];
    let (mut engine, mut work, ids) = setup(settings(2, 1), &script, 3);
    fill(&mut engine, &ids, 5);
    run(&mut engine, &mut work);
    let count = |name| work.outcomes.values().filter(|outcome| **outcome == name).count();
    assert_eq!((count("refused"), count("reply")), (5, 10));
    assert_eq!(engine.stats().refused, 5);
    assert!(engine.stats().unexpected >= 4, "{:?}", engine.stats());
    assert!(!engine.queue().is_silent(ids[0]));
}

#[test]
fn a_stopped_engine_starts_afresh() {
    let (mut engine, mut work, ids) = setup(settings(4, 2), &[(1, Behaviour::Never)], 2);
    fill(&mut engine, &ids, 3);
    let stopped = engine.run(&mut work, &AtomicBool::new(true));
    assert!(matches!(stopped, Err(EngineError::Stopped)));
    work.outcomes.clear();
    work.script.0.lock().unwrap().behaviour.clear();
    fill(&mut engine, &ids, 3);
    run(&mut engine, &mut work);
    assert_eq!(work.outcomes.len(), 6);
}

/// Random replies, also to what is outstanding, never upset the engine.
#[test]
fn garbage_is_counted_and_ignored() {
    let (mut engine, mut work, ids) = setup(settings(4, 2), &[], 2);
    let mut state = 1u64;
    for _ in 0..2000 {
        let mut garbage = [0; MAD_BYTES];
        for byte in &mut garbage {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = (state >> 33) as u8;
        }
        garbage[15] &= 3; // the number of a slot in use
        work.script.0.lock().unwrap().waiting.push_back((garbage, Arrival::Reply));
    }
    fill(&mut engine, &ids, 5);
    run(&mut engine, &mut work);
    assert_eq!(work.outcomes.len(), 10);
    assert_eq!(engine.stats().unexpected, 2000);
}
