//! *Hung*: ranks wait for what will not come.
//!
//! Needs the calls that go on, and how each rank's time was spent. It speaks where at least one rank has been in one call for
//! [`AGE_MIN`] seconds, and
//!
//! - every rank that has not ended is in such a call (certain: nobody is left who could end it), or
//! - a rank that is missing there has ended (certain), or
//! - none of the ranks that are missing there has used a core for as long (likely: they sleep, wait for input, or are stopped).
//!
//! It can't tell a program that waits for something outside of MPI on purpose (a file, a person) from one that hangs there.
//! Ranks that compute while others wait are no hang: that is *imbalanced work*.

use crate::evidence::{Evidence, OpenCall, Rank};
use crate::text::{ranks, seconds};
use crate::{Confidence, Kind, Verdict, fact};
use std::collections::BTreeMap;

/// Shorter calls are what programs do while one of them reads its input.
pub const AGE_MIN: f64 = 30.0;

/// A rank that uses a smaller part of a core does nothing.
const IDLE: f64 = 0.02;

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
    let Some((why, confidence, remedy)) = reason(evidence, &missing, age) else { return Vec::new() };
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
fn reason(evidence: &Evidence, missing: &[&Rank], age: f64) -> Option<(String, Confidence, String)> {
    let numbers = |of: &[&Rank]| ranks(&of.iter().map(|rank| rank.rank).collect::<Vec<_>>());
    let (ended, alive): (Vec<&Rank>, Vec<&Rank>) = missing.iter().partition(|rank| rank.has_ended);
    let unseen = (evidence.world_size as usize).saturating_sub(evidence.ranks.len());
    if alive.is_empty() && ended.is_empty() && unseen == 0 {
        let remedy = "Compare the calls above: ranks that wait for each other in a circle, a collective that not all of its \
                      communicator's ranks call, or a message that nobody sends. A debugger on one rank of each kind shows the lines.";
        return Some((
            "no rank is left outside, so none of them can return".into(),
            Confidence::Certain,
            remedy.into(),
        ));
    }
    if !ended.is_empty() {
        let first = ended[0];
        let how =
            first.ending.as_deref().map_or("ended", |how| if how == "clean" { "ended" } else { "died" });
        let why = format!("{} {how} ({}) and will not come", numbers(&ended), first.host);
        let remedy = format!(
            "Look into the output of rank {} on {} for its end (a signal, out of memory, exit), and end the job.",
            first.rank, first.host
        );
        return Some((why, Confidence::Certain, remedy));
    }
    let idle: Vec<&Rank> = alive.iter().copied().filter(|rank| is_idle(rank, age)).collect();
    if idle.is_empty() || idle.len() < alive.len() || unseen > 0 {
        return None;
    }
    let why = format!("{} on {} is not in MPI and uses no core", numbers(&idle), idle[0].host);
    let remedy = format!(
        "See what rank {} waits for on {}: its stack (gdb -p, or /proc/PID/stack), a file system, input, a stopped process.",
        idle[0].rank, idle[0].host
    );
    Some((why, Confidence::Likely, remedy))
}

/// Has hardly run since the others wait.
fn is_idle(rank: &Rank, age: f64) -> bool {
    rank.recent_cpu_share.is_some_and(|share| share < IDLE) && age >= AGE_MIN
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
