//! Messages: pairs of ranks with known beginnings on both sides.

use std::collections::HashMap;
use throughline_waits::{
    Counters, Parts, RankOperation, TracedCall, TracedMessage, WaitStates, estimate, exact,
};

const MESSAGES: u64 = 100;
const BYTES: u64 = 1 << 20;
/// Of one message that both sides are there for.
const TRANSFER: f64 = 300e-6;

fn rank_operation(rank: u32, operation: &str, each: f64, wait: Option<f64>) -> RankOperation {
    RankOperation {
        rank,
        operation: operation.into(),
        size_class_bytes: BYTES,
        calls: MESSAGES,
        elapsed_seconds: each * MESSAGES as f64,
        wait_seconds: wait.map(|each| each * MESSAGES as f64),
        least_seconds: wait.is_none().then_some(each * MESSAGES as f64),
    }
}

fn of(operations: Vec<RankOperation>) -> WaitStates {
    estimate(&Counters { operations, samples: Vec::new() })
}

fn parts(states: &WaitStates, operation: &str) -> Parts {
    states.operations.iter().find(|one| one.operation == operation).unwrap().parts
}

fn assert_near(value: f64, expected: f64) {
    assert!((value - expected).abs() <= 0.01 * expected.abs() + 1e-9, "{value}, expected {expected}");
}

fn traced(send_late: f64, receive_late: f64) -> WaitStates {
    let (mut calls, mut messages) = (Vec::new(), Vec::new());
    for number in 0..MESSAGES {
        let (send, receive) = (number as f64 + send_late, number as f64 + receive_late);
        let end = send.max(receive) + TRANSFER;
        let at = calls.len();
        calls.push(TracedCall { operation: "send".into(), begin: send, end, ..TracedCall::default() });
        calls.push(TracedCall {
            rank: 1,
            operation: "recv".into(),
            begin: receive,
            end,
            ..TracedCall::default()
        });
        messages.push(TracedMessage { send: at, receive: at + 1, ..TracedMessage::default() });
    }
    exact(&calls, &messages, &HashMap::new())
}

#[test]
fn a_late_sender_is_named_though_every_receive_waits() {
    let expected = 0.01 * MESSAGES as f64;
    let sums =
        vec![rank_operation(0, "send", TRANSFER, None), rank_operation(1, "recv", 0.01 + TRANSFER, None)];
    for states in [of(sums), traced(0.01, 0.0)] {
        assert_near(parts(&states, "recv").late_sender.seconds, expected);
        assert_near(parts(&states, "recv").transfer.seconds, TRANSFER * MESSAGES as f64);
        assert_eq!(parts(&states, "send").waiting().seconds, 0.0);
        assert_near(states.ranks[1].parts.waiting().seconds, expected);
        assert_eq!(states.operations[0].operation, "recv", "the one with most waiting first");
    }
}

#[test]
fn a_late_receiver_holds_up_its_sender() {
    let sums =
        vec![rank_operation(0, "send", 0.01 + TRANSFER, None), rank_operation(1, "recv", TRANSFER, None)];
    for states in [of(sums), traced(0.0, 0.01)] {
        assert_near(parts(&states, "send").late_receiver.seconds, 0.01 * MESSAGES as f64);
        assert!(parts(&states, "recv").waiting().seconds < 1e-9);
    }
}

/// The library takes a copy: the send returns at once, and its time is no measure of the transfer.
#[test]
fn a_buffered_send_does_not_make_healthy_receives_late() {
    let states = of(vec![rank_operation(0, "send", 0.2e-6, None), rank_operation(1, "recv", 1.5e-6, None)]);
    let received = parts(&states, "recv");
    assert_eq!(received.late_sender.seconds, 0.0);
    assert_near(received.late_sender.high, 1.3e-6 * MESSAGES as f64);
    // It returned before the receive was posted.
    let calls = [
        TracedCall { operation: "send".into(), begin: 0.0, end: 1e-6, ..TracedCall::default() },
        TracedCall { rank: 1, operation: "recv".into(), begin: 5.0, end: 5.1, ..TracedCall::default() },
    ];
    let message = TracedMessage { send: 0, receive: 1, ..TracedMessage::default() };
    assert_eq!(exact(&calls, &[message], &HashMap::new()).total().waiting().seconds, 0.0);
}

/// Two clocks that may be wrong by 1 and 2 ms: what is waited is known to 3 ms, and is none of what the call did not take.
#[test]
fn clocks_bound_what_a_trace_shows() {
    let call = |rank, operation: &str, begin, end, clock_error| TracedCall {
        rank,
        operation: operation.into(),
        begin,
        end,
        clock_error,
        ..TracedCall::default()
    };
    let of = |received: f64| {
        let calls = [call(0, "send", 1.0, 1.001, 0.001), call(1, "recv", received, 1.002, 0.002)];
        let message = TracedMessage { send: 0, receive: 1, ..TracedMessage::default() };
        exact(&calls, &[message], &HashMap::new()).total().late_sender
    };
    let near = |one: f64, other: f64| (one - other).abs() < 1e-9;
    let waited = of(0.5);
    assert!(near(waited.seconds, 0.5) && near(waited.low, 0.497) && near(waited.high, 0.502), "{waited:?}");
    let waited = of(0.999);
    assert!(near(waited.seconds, 0.001) && near(waited.low, 0.0) && near(waited.high, 0.003), "{waited:?}");
}

#[test]
fn transfers_that_go_on_only_in_wait_are_progress() {
    let posted = 1e-6;
    let states = of(vec![
        rank_operation(0, "isend", posted, Some(TRANSFER)),
        rank_operation(1, "irecv", posted, Some(TRANSFER)),
    ]);
    for operation in ["isend", "irecv"] {
        assert_near(parts(&states, operation).progress.seconds, TRANSFER * MESSAGES as f64);
        assert_eq!(parts(&states, operation).waiting().seconds, 0.0);
    }
    let late = of(vec![
        rank_operation(0, "isend", posted, Some(TRANSFER)),
        rank_operation(1, "irecv", posted, Some(TRANSFER + 0.02)),
    ]);
    assert_near(parts(&late, "irecv").late_sender.seconds, 0.02 * MESSAGES as f64);
    assert_near(parts(&late, "irecv").progress.seconds, TRANSFER * MESSAGES as f64);
}

/// A wait that completes several requests counts half for each: the rank that waits least says what is the transfer's.
#[test]
fn in_an_exchange_the_late_rank_waits_for_nobody() {
    let mut all = Vec::new();
    for rank in 0..4 {
        let waited = if rank == 2 { TRANSFER } else { 0.005 };
        all.push(rank_operation(rank, "isend", 1e-6, Some(waited)));
        all.push(rank_operation(rank, "irecv", 1e-6, Some(waited)));
    }
    all.push(rank_operation(0, "waitall", 0.01, None));
    let states = of(all);
    assert_near(states.ranks[0].parts.waiting().seconds, 2.0 * (0.005 - TRANSFER) * MESSAGES as f64);
    assert_eq!(states.ranks[2].parts.waiting().seconds, 0.0);
    assert!(
        states.operations.iter().all(|one| one.operation != "waitall"),
        "it is part of what it completes"
    );
    let total = states.total();
    let sum = total.waiting().seconds + total.progress.seconds + total.transfer.seconds;
    assert_near(sum, total.elapsed);
}

#[test]
fn a_wait_that_completes_an_early_receive_waits_for_its_sender() {
    let call = |rank, operation: &str, begin, end| TracedCall {
        rank,
        operation: operation.into(),
        begin,
        end,
        ..TracedCall::default()
    };
    let calls = [call(0, "send", 3.0, 3.5), call(1, "irecv", 0.0, 0.1), call(1, "wait", 1.0, 3.6)];
    let message =
        TracedMessage { send: 0, receive: 1, receive_completed: Some(2), ..TracedMessage::default() };
    let states = exact(&calls, &[message], &HashMap::new());
    assert_near(parts(&states, "wait").late_sender.seconds, 2.0);
    assert_near(states.ranks[1].parts.late_sender.seconds, 2.0);
}
