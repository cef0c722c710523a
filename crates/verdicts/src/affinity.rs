//! *Affinity changed*: ranks run on other CPUs than in the run before, and that run was faster.
//!
//! Needs the last run before of the same command, user and number of ranks. It speaks where CPUs of ranks differ and the operation that
//! takes most of the time takes [`SLOWER`] times as long a call as before, over at least [`CALLS_MIN`] calls in both. Other
//! causes of the difference are not excluded, so it is likely at best, unless ranks share CPUs now and did not before.

use crate::evidence::{Evidence, Operation};
use crate::statistics::number;
use crate::text::{ranks, seconds};
use crate::{Confidence, Kind, Verdict, fact};
use std::collections::BTreeMap;

/// Seconds a call, of those before.
pub const SLOWER: f64 = 1.25;

/// Calls of both runs.
pub const CALLS_MIN: u64 = 100;

pub(crate) fn judge(evidence: &Evidence) -> Vec<Verdict> {
    let Some(before) = &evidence.before else { return Vec::new() };
    let then: BTreeMap<u32, &Vec<u32>> = before.cpus.iter().map(|(rank, cpus)| (*rank, cpus)).collect();
    let differs = |rank: u32, cpus: &Vec<u32>| {
        !cpus.is_empty() && then.get(&rank).is_some_and(|then| !then.is_empty() && *then != cpus)
    };
    let moved: Vec<u32> =
        evidence.ranks.iter().filter(|rank| differs(rank.rank, &rank.cpus)).map(|rank| rank.rank).collect();
    let Some((operation, ratio, now, then_mean)) = slower(&evidence.operations, &before.operations) else {
        return Vec::new();
    };
    if moved.is_empty() || ratio < SLOWER {
        return Vec::new();
    }
    let shared_now = shared(evidence.ranks.iter().map(|rank| (rank.host.as_str(), rank.cpus.as_slice())));
    let hosts: BTreeMap<u32, &str> =
        evidence.ranks.iter().map(|rank| (rank.rank, rank.host.as_str())).collect();
    let shared_then = shared(
        before
            .cpus
            .iter()
            .map(|(rank, cpus)| (hosts.get(rank).copied().unwrap_or_default(), cpus.as_slice())),
    );
    let collision = if shared_now > shared_then {
        format!(" {shared_now} of them share their only CPU with another, before {shared_then}.")
    } else {
        String::new()
    };
    vec![Verdict {
        kind: Kind::AffinityChanged,
        subject: "job".to_owned(),
        observation: format!(
            "{} of {} run on other CPUs than in job {}, where {operation} took {} a call; now {}.{collision}",
            ranks(&moved),
            evidence.ranks.len(),
            before.job,
            seconds(then_mean),
            seconds(now),
        )
        .replacen("rank", "Rank", 1),
        remedy: format!(
            "Bind ranks as then (job diff {} {} lists the CPUs of both): srun --cpu-bind, mpirun --bind-to, or the pinning of the MPI library.",
            before.job, evidence.job
        ),
        confidence: Confidence::certain_if(shared_now > shared_then),
        cost: None,
        other_job: Some(before.job.clone()),
        facts: vec![
            fact("seconds a call, of those before", ratio, "1", Some(SLOWER)),
            fact("ranks on other CPUs", number(moved.len()), "1", None),
        ],
    }]
}

/// The operation with most time now that both runs have: its name, ratio, and seconds a call now and before.
#[allow(clippy::cast_precision_loss)] // calls below 2^53
fn slower<'a>(now: &'a [Operation], then: &[Operation]) -> Option<(&'a str, f64, f64, f64)> {
    let most = now
        .iter()
        .filter(|one| one.calls >= CALLS_MIN)
        .max_by(|one, other| one.seconds.total_cmp(&other.seconds))?;
    let is_same =
        |one: &&Operation| one.operation == most.operation && one.size_class_bytes == most.size_class_bytes;
    let same = then.iter().find(is_same).filter(|same| same.calls >= CALLS_MIN && same.seconds > 0.0)?;
    let mean = |one: &Operation| one.seconds / one.calls as f64;
    Some((&most.operation, mean(most) / mean(same), mean(most), mean(same)))
}

/// Ranks that are bound to one CPU which another one of the host is bound to as well.
fn shared<'a>(ranks: impl Iterator<Item = (&'a str, &'a [u32])>) -> usize {
    let mut by: BTreeMap<(&str, u32), usize> = BTreeMap::new();
    for (host, cpus) in ranks {
        if let [one] = cpus {
            *by.entry((host, *one)).or_default() += 1;
        }
    }
    by.values().filter(|count| **count > 1).sum()
}
