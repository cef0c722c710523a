//! Collectives: arrivals are drawn, and with them what each member waited.

use std::collections::HashMap;
use throughline_waits::{
    Counters, NodeSample, RankOperation, TracedCall, WaitStates, estimate, exact, merge,
};

const RANKS: u32 = 8;
const CALLS: u64 = 400;
/// What a call takes once all are there.
const TRANSFER: f64 = 20e-6;

/// Calls as a trace has them: `late` is who begins how much later than the others.
fn traced(operation: &str, root: Option<u32>, late: impl Fn(u64, u32) -> f64) -> Vec<TracedCall> {
    let mut calls = Vec::new();
    for number in 0..CALLS {
        let start = number as f64;
        let begins: Vec<f64> = (0..RANKS).map(|rank| start + late(number, rank)).collect();
        let until = match root.filter(|_| operation == "bcast") {
            Some(root) => begins[root as usize],
            None => begins.iter().copied().fold(0.0, f64::max),
        };
        for (rank, begin) in (0..RANKS).zip(begins) {
            let end = begin.max(until) + TRANSFER;
            let operation = operation.to_owned();
            calls.push(TracedCall {
                rank,
                operation,
                begin,
                end,
                comm: Some(7),
                root,
                ..TracedCall::default()
            });
        }
    }
    calls
}

fn truth(calls: &[TracedCall]) -> WaitStates {
    exact(calls, &[], &HashMap::from([(7, RANKS)]))
}

/// The same as counters have it: every `every`-th call is sampled, by nodes of two ranks.
fn counted(calls: &[TracedCall], every: u64) -> Counters {
    let mut counters = Counters::default();
    for rank in 0..RANKS {
        let own: Vec<&TracedCall> = calls.iter().filter(|call| call.rank == rank).collect();
        let times = || own.iter().map(|call| call.end - call.begin);
        let least = times().fold(f64::INFINITY, f64::min);
        counters.operations.push(RankOperation {
            rank,
            operation: own[0].operation.clone(),
            size_class_bytes: 64,
            calls: CALLS,
            elapsed_seconds: times().sum(),
            least_seconds: Some(CALLS as f64 * least),
            ..RankOperation::default()
        });
    }
    let mut samples = Vec::new();
    for (number, call) in calls.chunks(RANKS as usize).enumerate().step_by(every as usize) {
        for node in call.chunks(2) {
            let times: Vec<f64> = node.iter().map(|call| call.end - call.begin).collect();
            let at = usize::from(times[1] < times[0]);
            samples.push(NodeSample {
                group: 7,
                group_size: RANKS,
                operation: node[0].operation.clone(),
                size_class_bytes: 64,
                call: number as u64,
                ranks: 2,
                seconds: times[0] + times[1],
                least_seconds: times[at],
                least_rank: node[at].rank,
                weight: every as f64,
                ..NodeSample::default()
            });
        }
    }
    counters.samples = merge(samples);
    counters
}

fn assert_near(value: f64, expected: f64, part: f64, what: &str) {
    assert!(
        (value - expected).abs() <= part * expected.abs().max(1e-9),
        "{what}: {value}, expected {expected}"
    );
}

#[test]
fn one_slow_rank_is_the_last_and_waits_for_nobody() {
    let calls = traced("allreduce", None, |_, rank| if rank == 3 { 0.01 } else { 0.0 });
    let expected = CALLS as f64 * f64::from(RANKS - 1) * 0.01;
    for states in [truth(&calls), estimate(&counted(&calls, 1)), estimate(&counted(&calls, 16))] {
        let waited = states.operations[0].parts.at_collective;
        assert_near(waited.seconds, expected, 1e-6, "waiting");
        assert!(waited.low <= waited.seconds && waited.seconds <= waited.high);
        let last = &states.last_arrivals[0];
        assert_eq!((last.rank, last.operation.as_str(), last.group), (3, "allreduce", 7));
        assert_near(last.share, 1.0, 1e-9, "share");
        assert_near(last.waited_seconds, expected, 1e-6, "waited for rank 3");
        assert_near(states.ranks[0].parts.at_collective.seconds, expected / 7.0, 1e-6, "of rank 0");
        assert!(states.ranks[3].parts.at_collective.seconds < 1e-6);
        assert_eq!((states.communicators[0].group, states.communicators[0].group_size), (Some(7), Some(8)));
        assert_near(
            states.communicators[0].parts.at_collective.seconds,
            expected,
            1e-6,
            "of the communicator",
        );
    }
}

/// A program in which each call has another last rank.
fn late_in_turn(seed: u64) -> Vec<TracedCall> {
    let mut random = fastrand::Rng::with_seed(seed);
    let draws: Vec<(u32, f64)> = (0..CALLS).map(|_| (random.u32(..RANKS), 1e-4 * random.f64())).collect();
    traced("barrier", None, |number, rank| {
        let (last, seconds) = draws[number as usize];
        if last == rank { seconds } else { 0.0 }
    })
}

/// Sums alone can't see this: all ranks spend the same.
#[test]
fn ranks_late_in_turn_are_found_by_samples() {
    let calls = late_in_turn(11);
    let exact = truth(&calls).operations[0].parts.at_collective.seconds;
    let all = estimate(&counted(&calls, 1));
    let waited = all.operations[0].parts.at_collective;
    assert_near(waited.seconds, exact, 1e-6, "all sampled");
    assert!(waited.high - waited.low < 1e-9, "nothing is left open");
    let shares = all.last_arrivals.iter().map(|last| last.share).sum::<f64>();
    assert_near(shares, 1.0, 1e-9, "shares");
    assert_eq!(all.last_arrivals.len(), 8);
    // Without samples the truth lies within the bounds, which are far apart.
    let sums = Counters { samples: Vec::new(), ..counted(&calls, 1) };
    let blind = estimate(&sums).operations[0].parts.at_collective;
    assert!(blind.seconds < 0.2 * exact && exact <= blind.high * 1.001, "{blind:?}");
}

#[test]
fn what_sampling_leaves_open_is_within_the_bounds() {
    let seeds = 100;
    let is_within = |seed: &u64| {
        let calls = late_in_turn(*seed);
        let exact = truth(&calls).operations[0].parts.at_collective.seconds;
        let some = estimate(&counted(&calls, 13)).operations[0].parts.at_collective;
        assert_near(some.seconds, exact, 0.2, "one of 13");
        some.low <= exact && exact <= some.high
    };
    let within = (0..seeds).filter(is_within).count();
    assert!(within >= 88, "{within} of {seeds}: 95 of 100 are expected");
}

#[test]
fn a_late_root_is_waited_for_and_an_early_one_is_not() {
    let late = traced("bcast", Some(2), |_, rank| if rank == 2 { 0.005 } else { 0.0 });
    let expected = CALLS as f64 * 7.0 * 0.005;
    for states in [truth(&late), estimate(&counted(&late, 4))] {
        assert_near(states.operations[0].parts.late_root.seconds, expected, 1e-6, "late root");
        assert_eq!(states.operations[0].parts.at_collective.seconds, 0.0);
        assert_eq!(states.last_arrivals[0].rank, 2);
    }
    let early = traced("bcast", Some(2), |_, rank| if rank == 2 { 0.0 } else { 0.005 });
    for states in [truth(&early), estimate(&counted(&early, 4))] {
        assert!(states.operations[0].parts.waiting().seconds < 1e-6);
    }
}

#[test]
fn a_call_that_a_node_did_not_sample_is_left_out() {
    let part = |ranks, call, least_rank| NodeSample {
        group_size: 4,
        operation: "barrier".into(),
        call,
        ranks,
        seconds: 1.0,
        least_seconds: f64::from(least_rank),
        least_rank,
        weight: 1.0,
        ..NodeSample::default()
    };
    let whole = merge(vec![part(2, 1, 3), part(2, 1, 2), part(2, 2, 0), part(3, 3, 1), part(2, 3, 0)]);
    assert_eq!(whole.len(), 1);
    assert_eq!((whole[0].call, whole[0].ranks, whole[0].least_rank, whole[0].seconds), (1, 4, 2, 2.0));
}

#[test]
fn members_of_an_incomplete_collective_wait_for_nobody_known() {
    let mut calls = traced("allreduce", None, |_, rank| f64::from(rank) * 0.001);
    calls.pop();
    let states = truth(&calls);
    assert_near(
        states.operations[0].parts.at_collective.seconds,
        (CALLS - 1) as f64 * 0.028,
        1e-6,
        "the others",
    );
}
