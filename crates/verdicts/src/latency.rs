//! *Latency-bound*: time goes into starting many small messages, and bandwidth is idle.
//!
//! Needs operations by size class, and what of their time was waiting. It speaks where calls of at most [`SMALL`] bytes take
//! [`SHARE_MIN`] of the ranks' time without their waiting, are most of what is left of MPI, and come [`CALLS_MIN`] times a
//! second and rank. Where waiting was not measured it is taken as half of the time, and the verdict is likely at best.

use crate::evidence::{Evidence, Operation};
use crate::text::{bytes, percent, seconds};
use crate::{Confidence, Kind, Verdict, fact};

/// Largest message that counts as small: below it the time is latency on every fabric of today.
pub const SMALL: u64 = 1024;

/// Part of the ranks' time.
pub const SHARE_MIN: f64 = 0.1;

/// Calls a second of a rank.
pub const CALLS_MIN: f64 = 1000.0;

/// Part of MPI's time without waiting.
const MOST: f64 = 0.6;

/// Part of the time of a call that is waiting, where it is not known.
const WAITING_ASSUMED: f64 = 0.5;

/// Operations that move nothing themselves: their time is waiting, or belongs to the call that they complete.
const NO_TRANSFER: [&str; 14] = [
    "wait", "waitall", "waitany", "waitsome", "test", "testall", "testany", "testsome", "probe", "iprobe",
    "mprobe", "improbe", "finalize", "init",
];

/// An operation's time without waiting, by the part of it that this size class has.
fn transfer(evidence: &Evidence, one: &Operation) -> f64 {
    let all = evidence.seconds_in(&one.operation);
    let waiting = match evidence.waiting_in(&one.operation) {
        Some(waiting) if all > 0.0 => (waiting / all).min(1.0),
        Some(_) => 0.0,
        None => WAITING_ASSUMED,
    };
    one.seconds * (1.0 - waiting)
}

#[allow(clippy::cast_precision_loss)] // calls and bytes below 2^53
pub(crate) fn judge(evidence: &Evidence) -> Vec<Verdict> {
    let moving: Vec<&Operation> =
        evidence.operations.iter().filter(|one| !NO_TRANSFER.contains(&one.operation.as_str())).collect();
    let small = || moving.iter().filter(|one| one.size_class_bytes <= SMALL && one.calls > 0);
    let all: f64 = moving.iter().map(|one| transfer(evidence, one)).sum();
    let in_small: f64 = small().map(|one| transfer(evidence, one)).sum();
    let (calls, sent) = small().fold((0, 0), |sum: (u64, u64), one| (sum.0 + one.calls, sum.1 + one.bytes));
    let rank_seconds = evidence.rank_seconds();
    if rank_seconds <= 0.0 || all <= 0.0 {
        return Vec::new();
    }
    let (cost, rate) = (in_small / rank_seconds, calls as f64 / rank_seconds);
    let Some(first) =
        small().max_by(|one, other| transfer(evidence, one).total_cmp(&transfer(evidence, other)))
    else {
        return Vec::new();
    };
    if cost < SHARE_MIN || rate < CALLS_MIN || in_small / all < MOST {
        return Vec::new();
    }
    vec![Verdict {
        kind: Kind::LatencyBound,
        subject: first.operation.clone(),
        observation: format!(
            "{} of the ranks' time starts messages of at most {SMALL} bytes: {rate:.0} calls a second of each rank, {} each in the \
             mean, mostly {} of {} a call; all of them carry {} a second.",
            percent(cost),
            seconds(in_small / calls.max(1) as f64),
            first.operation,
            bytes(first.bytes as f64 / first.calls.max(1) as f64),
            bytes(sent as f64 / evidence.seconds.max(f64::MIN_POSITIVE)),
        ),
        remedy: "Send fewer, larger messages: gather what goes to one rank, exchange several steps' halos at once, replace loops of \
                 sends by a collective, or a datatype for what is scattered in memory."
            .to_owned(),
        confidence: Confidence::certain_if(evidence.waiting.is_some() && cost >= 1.5 * SHARE_MIN),
        cost: Some(cost.min(1.0)),
        other_job: None,
        facts: vec![
            fact("time in small messages, without waiting", cost, "share", Some(SHARE_MIN)),
            fact("small messages of a rank", rate, "1/s", Some(CALLS_MIN)),
            fact("part of MPI without waiting", in_small / all, "share", Some(MOST)),
        ],
    }]
}
