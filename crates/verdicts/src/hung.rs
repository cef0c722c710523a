//! *Hung*: ranks wait for what will not come.
//!
//! Needs the calls that go on, and which ranks have ended or are stopped. It speaks where at least one rank has been in one call for
//! [`AGE_MIN`] seconds, and
//!
//! - every rank that has not ended is in such a call (nobody is left who could end it), or
//! - a rank that is missing there has ended, or
//! - all that are missing there, or one of a collective's, are stopped by a signal.
//!
//! All members of a communicator in one collective, or ranks in calls of files, are no hang: they move data, or wait for storage. Neither is a rank outside of MPI
//! that does nothing: it may go on, which is *awaited*; nor one that computes, which is *imbalanced work*.

use crate::evidence::{Evidence, OpenCall, Rank};
use crate::text::{ranks, seconds};
use crate::waiting::capital;
use crate::{Confidence, Kind, Verdict, fact};
use std::collections::BTreeMap;

/// Shorter calls are what programs do while one of them reads its input.
pub const AGE_MIN: f64 = 10.0;

/// What requests a Wait waits for is not known: a large exchange takes as long as others' hangs.
const WAIT_AGE_MIN: f64 = 30.0;

/// A launcher that ends a job ends its ranks within this time: which of them was first says nothing then, milliseconds.
const TOGETHER_MS: i64 = 2_000;

pub(crate) fn judge(evidence: &Evidence) -> Vec<Verdict> {
    let mut stuck: BTreeMap<u32, &OpenCall> = BTreeMap::new();
    for call in &evidence.open_calls {
        if call.seconds >= AGE_MIN {
            // Of a rank with several threads the one that waits longest.
            let known = stuck.entry(call.rank).or_insert(call);
            if call.seconds > known.seconds {
                *known = call;
            }
        }
    }
    if stuck.is_empty() || (!evidence.is_running && !stuck.values().any(|call| call.has_ended)) {
        return Vec::new();
    }
    let age = stuck.values().map(|call| call.seconds).fold(0.0, f64::max);
    let missing: Vec<&Rank> = evidence.ranks.iter().filter(|rank| !stuck.contains_key(&rank.rank)).collect();
    let Some((why, confidence, remedy)) = reason(evidence, &missing) else { return Vec::new() };
    let heaviest = groups(&stuck).into_iter().next().map_or_else(String::new, |(text, _)| text);
    let others = groups(&stuck).len() - 1;
    let also = if others > 0 { format!(", and {others} other kinds of calls") } else { String::new() };
    vec![Verdict {
        kind: Kind::Hung,
        subject: "job".to_owned(),
        observation: format!("{heaviest}{also}; {why}."),
        remedy,
        confidence,
        cost: Some((age / evidence.seconds.max(age)).min(1.0)),
        other_job: None,
        facts: vec![
            fact("longest call", age, "s", Some(AGE_MIN)),
            fact("ranks in such calls", crate::statistics::number(stuck.len()), "1", None),
            fact("ranks missing", crate::statistics::number(missing.len()), "1", None),
        ],
    }]
}

/// Who is in what, those with most ranks first.
fn groups(stuck: &BTreeMap<u32, &OpenCall>) -> Vec<(String, usize)> {
    let mut by: BTreeMap<_, Vec<&OpenCall>> = BTreeMap::new();
    for call in stuck.values() {
        by.entry((&call.operation, &call.comm)).or_default().push(call);
    }
    let mut all: Vec<(String, usize)> = by.into_values().map(|calls| (group(&calls), calls.len())).collect();
    all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    all
}

/// Ranks that are in the same.
fn group(calls: &[&OpenCall]) -> String {
    let named: Vec<u32> = calls.iter().map(|call| call.rank).collect();
    let age = calls.iter().map(|call| call.seconds).fold(0.0, f64::max);
    let verb = if named.len() == 1 { "is" } else { "are" };
    let on = calls[0].comm.as_ref().map_or_else(String::new, |comm| format!(" on {comm}"));
    let peer = match calls {
        [call] => call.peer.map_or_else(String::new, |peer| format!(" with rank {peer}")),
        _ => String::new(),
    };
    let operation = capital(&calls[0].operation);
    format!("{} {verb} in MPI_{operation} for {}{on}{peer}", capital(&ranks(&named)), seconds(age))
}

/// Why nobody comes, how sure that is, and what to do; `None` where somebody may.
fn reason(evidence: &Evidence, missing: &[&Rank]) -> Option<(String, Confidence, String)> {
    let numbers = |of: &[&Rank]| ranks(&of.iter().map(|rank| rank.rank).collect::<Vec<_>>());
    let (ended, alive): (Vec<&Rank>, Vec<&Rank>) = missing.iter().partition(|rank| rank.has_ended);
    if let Some(stopped) = stopped(evidence, &alive) {
        return Some(stopped);
    }
    let unseen = (evidence.world_size as usize).saturating_sub(evidence.ranks.len());
    if alive.is_empty() && ended.is_empty() && unseen == 0 {
        let confidence = progress(evidence)?;
        let remedy = "Compare the calls above: ranks that wait for each other in a circle, a collective that not all of its \
                      communicator's ranks call, or a message that nobody sends. A debugger on one rank of each kind shows the lines.";
        return Some((
            "no rank is left outside, so none of them can return".into(),
            confidence,
            remedy.into(),
        ));
    }
    if let Some(first) = ended.first().filter(|rank| !ended_with_others(evidence, rank)) {
        let how =
            first.ending.as_deref().map_or("ended", |how| if how == "clean" { "ended" } else { "died" });
        let why = format!("{} {how} ({}) and will not come", numbers(&ended), first.host);
        let remedy = format!(
            "Look into the output of rank {} on {} for its end (a signal, out of memory, exit), and end the job.",
            first.rank, first.host
        );
        return Some((why, Confidence::Certain, remedy));
    }
    None
}

/// Ranks that are stopped while others wait.
fn stopped(evidence: &Evidence, alive: &[&Rank]) -> Option<(String, Confidence, String)> {
    let stopped: Vec<&Rank> =
        evidence.ranks.iter().filter(|rank| !rank.has_ended && rank.stopped_seconds.is_some()).collect();
    let numbers: Vec<u32> = stopped.iter().map(|rank| rank.rank).collect();
    let first = stopped.first().filter(|_| evidence.is_running)?;
    let why = format!("{} on {} is stopped by a signal", ranks(&numbers), first.host);
    let remedy = format!(
        "See who stopped rank {} (SIGSTOP, a debugger, suspend): kill -CONT on {} goes on with it.",
        first.rank, first.host
    );
    Some((why, Confidence::certain_if(alive.iter().all(|rank| rank.stopped_seconds.is_some())), remedy))
}

/// Operations that wait for a message of the rank that they name, or of any, and for one that takes theirs.
const RECEIVES: [&str; 4] = ["recv", "mrecv", "probe", "mprobe"];
const SENDS: [&str; 4] = ["send", "bsend", "ssend", "rsend"];

/// Collectives that a member may have left, and be in the next one, while others are in it: data still moves.
const LEFT_EARLY: [&str; 9] =
    ["bcast", "reduce", "gather", "gatherv", "scatter", "scatterv", "scan", "exscan", "alltoallw"];

/// How sure it is that none of the calls goes on, all ranks being in one; `None` where one of them may move data: a collective that all of
/// its members have called, a file. Of what is not known (requests that are pending, whether a send is what a receive waits for) only
/// time says that it does not go on.
fn progress(evidence: &Evidence) -> Option<Confidence> {
    let open: Vec<&OpenCall> = evidence.open_calls.iter().filter(|call| !call.has_ended).collect();
    let mut collectives: BTreeMap<_, Vec<&OpenCall>> = BTreeMap::new();
    for &call in open.iter().filter(|call| is_collective(call)) {
        collectives.entry((&call.operation, &call.comm, call.comm_size)).or_default().push(call);
    }
    // Communicators without a name look alike: there may be several of one size.
    let is_whole = |calls: &Vec<&OpenCall>| match calls[0].comm_size.map(|size| size as usize) {
        Some(size) if calls[0].comm.is_none() => calls.len().is_multiple_of(size),
        Some(size) => calls.len() >= size,
        None => calls.len() == open.len(),
    };
    if open.is_empty()
        || collectives.values().any(is_whole)
        || open.iter().any(|call| call.operation.starts_with("file_"))
    {
        return None;
    }
    let may_move = |call: &&OpenCall| {
        call.pending_requests > 0
            || is_wait(call)
            || LEFT_EARLY.contains(&&*call.operation)
            || call.operation.starts_with("sendrecv")
            || (RECEIVES.contains(&&*call.operation) && has_sender(call, &open))
    };
    if !open.iter().any(may_move) {
        return Some(Confidence::Certain);
    }
    let age = open.iter().map(|call| call.seconds).fold(f64::INFINITY, f64::min);
    (age >= WAIT_AGE_MIN).then_some(Confidence::Likely)
}

/// Whether a rank is in a send that a receive may be of: a message of many bytes, or two whose tags differ.
fn has_sender(call: &OpenCall, open: &[&OpenCall]) -> bool {
    open.iter().any(|other| {
        SENDS.contains(&&*other.operation)
            && call.peer.is_none_or(|peer| peer == other.rank)
            && other.peer.is_none_or(|peer| peer == call.rank)
    })
}

fn is_wait(call: &OpenCall) -> bool {
    ["wait", "test", "start"].iter().any(|prefix| call.operation.starts_with(prefix))
}

fn is_collective(call: &OpenCall) -> bool {
    let is_message = |of: &[&str]| of.contains(&&*call.operation);
    !is_wait(call) && !is_message(&RECEIVES) && !is_message(&SENDS) && !call.operation.starts_with("sendrecv")
}

/// Whether a rank ended when others did as well that did not end by themselves.
fn ended_with_others(evidence: &Evidence, rank: &Rank) -> bool {
    let together = |other: &&Rank| {
        other.rank != rank.rank
            && other.ending.as_deref().is_some_and(|ending| ending != "clean")
            && other.ended_ms.zip(rank.ended_ms).is_some_and(|(other, own)| other - own <= TOGETHER_MS)
    };
    rank.ending.as_deref() != Some("clean") && evidence.ranks.iter().filter(together).count() > 0
}
