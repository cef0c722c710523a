//! *Awaited*: the others wait for a rank that does not compute: it is off the processor outside of MPI, in a file, asleep, at a lock,
//! stopped, or for a reason that is not known.
//!
//! Needs the ranks' account ([`RankTimes`]) or the calls that go on. It speaks where what the others lose by a rank's being off
//! the processor is [`COST_MIN`] of the ranks' time, or where they have been in a call for [`OPEN_MIN`] seconds and a rank that is not in
//! one has hardly run. It can't tell what is meant to be so: a rank that writes files for all, or sleeps until a time.

use crate::account::RankTimes;
use crate::evidence::{Evidence, Rank};
use crate::imbalance::{Late, late};
use crate::stuck::stuck;
use crate::text::{percent, ranks, seconds};
use crate::{COST_MIN, Confidence, Kind, Verdict, fact};

/// Calls that are as old say that others wait.
pub const OPEN_MIN: f64 = 10.0;

/// A rank that uses a smaller part of a core does nothing.
const IDLE: f64 = 0.02;

pub(crate) fn judge(evidence: &Evidence) -> Vec<Verdict> {
    let found = by_sums(evidence).or_else(|| by_calls(evidence));
    found.into_iter().collect()
}

/// Of the whole job: a rank is later than the others by its time off the processor.
fn by_sums(evidence: &Evidence) -> Option<Verdict> {
    let Late { rank, times, mean, cost, excess } = late(evidence)?;
    let (times, mean) = (times?, mean?);
    let cost = cost * excess.off;
    if cost < COST_MIN {
        return None;
    }
    let why =
        times.found.most().map_or_else(|| "for a reason that is not known".to_owned(), ToOwned::to_owned);
    let seconds_of = |times: &RankTimes| seconds(times.off);
    Some(Verdict {
        kind: Kind::Awaited,
        subject: format!("rank {}", rank.rank),
        observation: format!(
            "The others wait for rank {} on {}, which does not compute: it was off the processor for {} outside of MPI, {why}, the mean \
             rank for {}; {} of the ranks' time is waiting for that.",
            rank.rank,
            rank.host,
            seconds_of(&times),
            seconds_of(&mean),
            percent(cost),
        ),
        remedy: remedy(times.found.most(), rank),
        confidence: Confidence::certain_if(cost >= 2.0 * COST_MIN && evidence.has_seen_enough()),
        cost: Some(cost.min(1.0)),
        other_job: None,
        facts: vec![
            fact("waiting for a rank that is off the processor", cost, "share", Some(COST_MIN)),
            fact("off the processor", times.off / times.elapsed.max(f64::MIN_POSITIVE), "share", None),
        ],
    })
}

fn remedy(why: Option<&str>, rank: &Rank) -> String {
    match why {
        Some("in a file") => format!(
            "See which file rank {} reads or writes (strace -f -e trace=file, lsof -p), and let all ranks do it (MPI-IO), a thread, or \
             do it more rarely.",
            rank.rank
        ),
        Some("stopped by a signal") => {
            format!(
                "Rank {} was stopped (SIGSTOP, a debugger, suspend): kill -CONT goes on with it.",
                rank.rank
            )
        }
        Some("at a lock") => {
            format!("See which lock rank {} waits at, and who holds it: gdb -p on {}.", rank.rank, rank.host)
        }
        Some("asleep") => {
            format!("See why rank {} sleeps: its stack (gdb -p, py-spy) on {}.", rank.rank, rank.host)
        }
        _ => format!(
            "See what rank {} waits for on {}: its stack (gdb -p), /proc/PID/wchan, a file system, input.",
            rank.rank, rank.host
        ),
    }
}

/// At this moment: the others are in a call, and those that are not have hardly run since.
fn by_calls(evidence: &Evidence) -> Option<Verdict> {
    if !evidence.is_running || evidence.world_size as usize != evidence.ranks.len() {
        return None;
    }
    let stuck = stuck(evidence, OPEN_MIN);
    let waiting = |rank: &Rank| {
        let calls = stuck.get(&rank.rank).into_iter().flatten();
        calls.map(|call| call.seconds).fold(0.0, f64::max)
    };
    let (inside, outside): (Vec<&Rank>, Vec<&Rank>) =
        evidence.ranks.iter().filter(|rank| !rank.has_ended).partition(|rank| waiting(rank) >= OPEN_MIN);
    if inside.is_empty() || outside.is_empty() || inside.len() < outside.len() {
        return None;
    }
    let age = inside.iter().map(|rank| waiting(rank)).fold(f64::INFINITY, f64::min);
    let is_idle = |rank: &&Rank| rank.recent_cpu_share.is_some_and(|share| share < IDLE);
    if !outside.iter().all(is_idle) {
        return None;
    }
    let numbers: Vec<u32> = outside.iter().map(|rank| rank.rank).collect();
    let first = outside[0];
    let why = first.times.and_then(|times| times.found.most());
    let cost =
        inside.iter().map(|rank| waiting(rank)).sum::<f64>() / evidence.rank_seconds().max(f64::MIN_POSITIVE);
    Some(Verdict {
        kind: Kind::Awaited,
        subject: format!("rank {}", first.rank),
        observation: format!(
            "{} of {} ranks have been in MPI for at least {}, and {} on {} is not in MPI and uses no core{}.",
            inside.len(),
            evidence.ranks.len(),
            seconds(age),
            ranks(&numbers),
            first.host,
            why.map_or_else(String::new, |why| format!(": {why}")),
        ),
        remedy: remedy(why, first),
        confidence: Confidence::Likely,
        cost: Some(cost.min(1.0)),
        other_job: None,
        facts: vec![
            fact("shortest call of the others", age, "s", Some(OPEN_MIN)),
            fact("ranks that wait", crate::statistics::number(inside.len()), "1", None),
        ],
    })
}
