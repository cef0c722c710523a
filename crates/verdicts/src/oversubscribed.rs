//! *Oversubscribed*: ranks have fewer cores than they are.
//!
//! Needs what the kernel counted of each rank: the time in which it could have run and waited for a core. It is said of a host
//! where at least half of its ranks, and two of them, waited for [`WAIT_MIN`] of their time. Where the ranks' own CPUs are
//! known and fewer than ranks it is certain that they take each other's; else something beside the job may run there.
//! A single rank that waits is *slow rank*.

use crate::evidence::{Evidence, Rank};
use crate::statistics::number;
use crate::text::{alike, percent};
use crate::{Confidence, Kind, Verdict, fact};
use std::collections::{BTreeMap, BTreeSet};

/// Part of a rank's time that it waits for a core.
pub const WAIT_MIN: f64 = 0.1;

/// Ranks by host.
pub(crate) fn by_host(evidence: &Evidence) -> BTreeMap<&str, Vec<&Rank>> {
    let mut hosts: BTreeMap<&str, Vec<&Rank>> = BTreeMap::new();
    for rank in &evidence.ranks {
        hosts.entry(&rank.host).or_default().push(rank);
    }
    hosts
}

/// Whether a host's ranks wait for cores, most of them.
pub(crate) fn is_short_of_cores(ranks: &[&Rank]) -> bool {
    let waiting =
        ranks.iter().filter(|rank| rank.runqueue_share().is_some_and(|share| share >= WAIT_MIN)).count();
    waiting >= 2 && waiting * 2 >= ranks.len()
}

pub(crate) fn judge(evidence: &Evidence) -> Vec<Verdict> {
    let hosts: Vec<(&str, Vec<&Rank>)> =
        by_host(evidence).into_iter().filter(|(_, ranks)| is_short_of_cores(ranks)).collect();
    let Some((host, worst)) = hosts.iter().max_by(|one, other| waited(&one.1).total_cmp(&waited(&other.1)))
    else {
        return Vec::new();
    };
    let all: Vec<&Rank> = hosts.iter().flat_map(|(_, ranks)| ranks.iter().copied()).collect();
    let cost = all.iter().map(|rank| rank.queued_seconds().unwrap_or_default()).sum::<f64>();
    let cpus: BTreeSet<u32> = worst.iter().flat_map(|rank| rank.cpus.iter().copied()).collect();
    let is_own = !cpus.is_empty() && cpus.len() < worst.len();
    let cores = if cpus.is_empty() {
        String::new()
    } else {
        format!(" and may run on {} CPU{}", cpus.len(), if cpus.len() == 1 { "" } else { "s" })
    };
    let elsewhere = alike(hosts.len() - 1);
    let remedy = if is_own {
        "Start fewer ranks a node, or let the launcher bind each rank to a core of its own."
    } else {
        "See what else runs on the node (another job, a daemon, threads of the ranks), and bind ranks to cores."
    };
    vec![Verdict {
        kind: Kind::Oversubscribed,
        subject: (*host).to_owned(),
        observation: format!(
            "The {} ranks on {host} waited for a core for {} of their time{cores}{elsewhere}.",
            worst.len(),
            percent(waited(worst)),
        ),
        remedy: remedy.to_owned(),
        confidence: Confidence::certain_if(is_own && waited(worst) >= WAIT_MIN),
        cost: Some((cost / evidence.rank_seconds().max(f64::MIN_POSITIVE)).min(1.0)),
        other_job: None,
        facts: vec![
            fact("time waited for a core", waited(worst), "share", Some(WAIT_MIN)),
            fact("ranks", number(worst.len()), "1", None),
            fact("CPUs", number(cpus.len()), "1", None),
        ],
    }]
}

/// Mean part of their time.
fn waited(ranks: &[&Rank]) -> f64 {
    let known: Vec<f64> = ranks.iter().filter_map(|rank| rank.runqueue_share()).collect();
    if known.is_empty() { 0.0 } else { known.iter().sum::<f64>() / number(known.len()) }
}
