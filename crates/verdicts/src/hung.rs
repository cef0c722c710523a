//! *Hung*: ranks wait for what will not come.
//!
//! Needs the calls that go on, and which ranks have ended or are stopped. It speaks where at least one rank has been in MPI for
//! [`AGE_MIN`] seconds with each of its threads that have called it, and
//!
//! - every rank that has not ended is in such a call (nobody is left who could end it), or
//! - a rank that is missing there has ended, or
//! - all that are missing there, or one of a collective's, are stopped by a signal.
//!
//! All members of a communicator in one collective, or ranks in calls of files, are no hang: they move data, or wait for storage. Neither is a rank outside of MPI
//! that does nothing: it may go on, which is *awaited*; nor one that computes, which is *imbalanced work*.

use crate::evidence::{Evidence, OpenCall, Rank};
use crate::stuck::stuck;
use crate::text::{ranks, seconds};
use crate::waiting::capital;
use crate::{Confidence, Kind, Verdict, fact};
use std::collections::BTreeMap;

/// Shorter calls are what programs do while one of them reads its input.
pub const AGE_MIN: f64 = 10.0;

/// What requests a Wait waits for is not known: a large exchange takes as long as others' hangs.
const WAIT_AGE_MIN: f64 = 30.0;

/// A thread that has not called MPI yet may do so after it has computed for long.
const NEW_THREADS_AGE_MIN: f64 = 120.0;

/// A launcher that ends a job ends its ranks within this time: which of them was first says nothing then, milliseconds.
const TOGETHER_MS: i64 = 2_000;

pub(crate) fn judge(evidence: &Evidence) -> Vec<Verdict> {
    let of_ranks = stuck(evidence, AGE_MIN);
    let calls: Vec<&OpenCall> = of_ranks.values().flatten().copied().collect();
    if calls.is_empty() || (!evidence.is_running && !calls.iter().any(|call| call.has_ended)) {
        return Vec::new();
    }
    let age = calls.iter().map(|call| call.seconds).fold(0.0, f64::max);
    let missing: Vec<&Rank> =
        evidence.ranks.iter().filter(|rank| !of_ranks.contains_key(&rank.rank)).collect();
    let Some((why, confidence, remedy)) = reason(evidence, &calls, &missing) else { return Vec::new() };
    let open = who_is_where(&calls);
    vec![Verdict {
        kind: Kind::Hung,
        subject: "job".to_owned(),
        observation: format!("{open}; {why}."),
        remedy,
        confidence,
        cost: Some((age / evidence.seconds.max(age)).min(1.0)),
        other_job: None,
        facts: vec![
            fact("longest call", age, "s", Some(AGE_MIN)),
            fact("ranks in such calls", crate::statistics::number(of_ranks.len()), "1", None),
            fact("ranks missing", crate::statistics::number(missing.len()), "1", None),
        ],
    }]
}

/// Kinds of calls, and messages of single ranks, that are named.
const NAMED_MAX: usize = 4;

/// Who is in what, those with most ranks first; messages one by one, with both ends.
fn who_is_where(stuck: &[&OpenCall]) -> String {
    let mut by: BTreeMap<_, Vec<&OpenCall>> = BTreeMap::new();
    for &call in stuck {
        let message =
            Message::of(call).map(|message| (message.is_sent, message.peer, message.tag, call.rank));
        by.entry((&call.operation, &call.comm, message)).or_default().push(call);
    }
    let mut all: Vec<Vec<&OpenCall>> = by.into_values().collect();
    all.sort_by_key(|calls| (std::cmp::Reverse(calls.len()), calls[0].rank));
    let others = all.len().saturating_sub(NAMED_MAX);
    let named: Vec<String> = all.iter().take(NAMED_MAX).map(|calls| group(calls)).collect();
    let also = match others {
        0 => String::new(),
        1 => ", and one is in another call".to_owned(),
        others => format!(", and {others} are in other calls"),
    };
    format!("{}{also}", capital(&named.join(", ")))
}

/// Ranks that are in the same.
fn group(calls: &[&OpenCall]) -> String {
    let mut named: Vec<u32> = calls.iter().map(|call| call.rank).collect();
    named.dedup();
    let age = seconds(calls.iter().map(|call| call.seconds).fold(0.0, f64::max));
    let call = calls[0];
    let on = call.comm.as_ref().map_or_else(String::new, |comm| format!(" on {comm}"));
    let operation = capital(&call.operation);
    let message =
        Message::of(call).map_or_else(String::new, |message| message.text(call.is_wait(), call.requests));
    let (who, are) = (ranks(&named), if named.len() == 1 { "is" } else { "are" });
    if call.is_counted {
        return format!("{who} calls MPI_{operation} in vain for {age}{message}{on}");
    }
    format!("{who} {are} in MPI_{operation}{message} for {age}{on}")
}

/// What a call sends or waits for, as far as it is one message that is known.
#[derive(Clone, Copy)]
struct Message {
    is_sent: bool,
    /// `None`: any source, or not known.
    peer: Option<u32>,
    is_from_any: bool,
    /// `None`: any.
    tag: Option<u32>,
    /// It is the call's only one, and the thread has no other that is pending.
    is_alone: bool,
}

impl Message {
    fn of(call: &OpenCall) -> Option<Self> {
        let is_any = |of: &[&str], name: &str| of.contains(&name);
        if is_any(&RECEIVES, &call.operation) || is_any(&SENDS, &call.operation) {
            return Some(Self {
                is_sent: is_any(&SENDS, &call.operation),
                peer: call.peer,
                is_from_any: call.is_from_any,
                tag: call.tag,
                is_alone: call.pending_requests == 0,
            });
        }
        let begun_by = call.oldest_request.as_deref().filter(|_| call.is_wait())?;
        let is_sent = is_any(&STARTED_SENDS, begun_by);
        // Without a peer it may be any source, which is not said of requests.
        (is_sent || begun_by == "irecv").then_some(Self {
            is_sent,
            peer: call.oldest_peer,
            is_from_any: false,
            tag: call.oldest_tag,
            is_alone: call.requests == 1 && call.pending_requests == 1,
        })
    }

    /// ` to rank 1 with tag 11`, ` for a message from any rank`, ` for 2 requests, the oldest from rank 1 with tag 5`.
    fn text(self, is_waited_for: bool, requests: u32) -> String {
        let tag = self.tag.map_or_else(String::new, |tag| format!(" with tag {tag}"));
        let Some(peer) =
            self.peer.map(|peer| format!("rank {peer}")).or(self.is_from_any.then(|| "any rank".to_owned()))
        else {
            return tag;
        };
        let what = match (is_waited_for, requests) {
            (false, _) => String::new(),
            (true, 0 | 1) => " for a message".to_owned(),
            (true, requests) => format!(" for {requests} requests, the oldest"),
        };
        format!("{what} {} {peer}{tag}", if self.is_sent { "to" } else { "from" })
    }

    /// Whether it may be the message that another call sends or receives.
    fn may_be(self, rank: u32, other: Self, other_rank: u32) -> bool {
        self.is_sent != other.is_sent
            && self.peer.is_none_or(|peer| peer == other_rank)
            && other.peer.is_none_or(|peer| peer == rank)
            && self.tag.zip(other.tag).is_none_or(|(own, others)| own == others)
    }
}

/// Why nobody comes, how sure that is, and what to do; `None` where somebody may.
fn reason(
    evidence: &Evidence,
    stuck: &[&OpenCall],
    missing: &[&Rank],
) -> Option<(String, Confidence, String)> {
    let numbers = |of: &[&Rank]| ranks(&of.iter().map(|rank| rank.rank).collect::<Vec<_>>());
    let (ended, alive): (Vec<&Rank>, Vec<&Rank>) = missing.iter().partition(|rank| rank.has_ended);
    if let Some(stopped) = stopped(evidence, &alive) {
        return Some(stopped);
    }
    let unseen = (evidence.world_size as usize).saturating_sub(evidence.ranks.len());
    if alive.is_empty() && ended.is_empty() && unseen == 0 {
        let confidence = progress(evidence, stuck)?;
        let remedy = "Compare the calls above: ranks that wait for each other in a circle, a collective that not all of its \
                      communicator's ranks call, or a message that nobody sends. A debugger on one rank of each kind shows the lines.";
        let why = if stuck.iter().any(|call| call.threads_to_come > 0) {
            "no rank is left outside, so none of them can return unless a thread does that has not called MPI yet"
        } else {
            "no rank is left outside, so none of them can return"
        };
        return Some((why.into(), confidence, remedy.into()));
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
const RECEIVES: [&str; 6] = ["recv", "mrecv", "probe", "mprobe", "iprobe", "improbe"];
const SENDS: [&str; 4] = ["send", "bsend", "ssend", "rsend"];
const STARTED_SENDS: [&str; 4] = ["isend", "ibsend", "issend", "irsend"];

/// Collectives that a member may have left, and be in the next one, while others are in it: data still moves.
const LEFT_EARLY: [&str; 9] =
    ["bcast", "reduce", "gather", "gatherv", "scatter", "scatterv", "scan", "exscan", "alltoallw"];

/// How sure it is that none of the calls goes on, all ranks being in one; `None` where one of them may move data: a collective that all of
/// its members have called, a file. Of what is not known (requests that are pending, whether a send is what a receive waits for) only
/// time says that it does not go on.
fn progress(evidence: &Evidence, stuck: &[&OpenCall]) -> Option<Confidence> {
    let open: Vec<&OpenCall> = stuck.iter().copied().filter(|call| !call.has_ended).collect();
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
    let age = open.iter().map(|call| call.seconds).fold(f64::INFINITY, f64::min);
    if open.iter().any(|call| call.threads_to_come > 0) {
        return (age >= NEW_THREADS_AGE_MIN).then_some(Confidence::Likely);
    }
    if !open.iter().any(|call| may_move(call, &evidence.open_calls)) {
        return Some(Confidence::Certain);
    }
    (age >= WAIT_AGE_MIN).then_some(Confidence::Likely)
}

/// Whether a call may yet return, as far as it is known what it waits for.
fn may_move(call: &OpenCall, open: &[OpenCall]) -> bool {
    if let Some(message) = Message::of(call).filter(|message| message.is_alone) {
        let may_be =
            |other: &OpenCall| Message::of(other).is_some_and(|of| message.may_be(call.rank, of, other.rank));
        return call.is_counted || open.iter().any(may_be);
    }
    call.pending_requests > 0
        || call.is_wait()
        || call.is_counted
        || LEFT_EARLY.contains(&&*call.operation)
        || call.operation.starts_with("sendrecv")
}

fn is_collective(call: &OpenCall) -> bool {
    let is_message = |of: &[&str]| of.contains(&&*call.operation);
    !call.is_wait()
        && !call.is_counted
        && !is_message(&RECEIVES)
        && !is_message(&SENDS)
        && !call.operation.starts_with("sendrecv")
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
