//! *Throttled*: a CPU quota keeps ranks from running.
//!
//! Needs how long the control groups of ranks were throttled, which the kernel counts by group: a rank's part is at least that, divided
//! among the ranks of the group. It speaks where these parts are [`COST_MIN`] of the ranks' time. It can't tell how much more of their waits
//! for a core the quota made.

use crate::evidence::{Evidence, Rank};
use crate::statistics::number;
use crate::text::{alike, percent, seconds};
use crate::{COST_MIN, Confidence, Kind, Verdict, fact};
use std::collections::BTreeMap;

pub(crate) fn judge(evidence: &Evidence) -> Vec<Verdict> {
    let mut hosts: BTreeMap<&str, Vec<&Rank>> = BTreeMap::new();
    for rank in evidence.ranks.iter().filter(|rank| rank.throttled_seconds() > 0.0) {
        hosts.entry(&rank.host).or_default().push(rank);
    }
    let of = |ranks: &[&Rank]| ranks.iter().map(|rank| rank.throttled_seconds()).sum::<f64>();
    let cost =
        hosts.values().map(|ranks| of(ranks)).sum::<f64>() / evidence.rank_seconds().max(f64::MIN_POSITIVE);
    let worst = hosts.iter().max_by(|one, other| of(one.1).total_cmp(&of(other.1)));
    let Some((host, ranks)) = worst.filter(|_| cost >= COST_MIN) else { return Vec::new() };
    let all = ranks.iter().map(|rank| rank.observed_seconds).sum::<f64>();
    let who =
        if ranks.len() == 1 { format!("Rank {}", ranks[0].rank) } else { format!("{} ranks", ranks.len()) };
    vec![Verdict {
        kind: Kind::Throttled,
        subject: (*host).to_owned(),
        observation: format!(
            "{who} on {host} could have run and were kept from it by a CPU quota for at least {} of their time ({} of {}){}.",
            percent(of(ranks) / all.max(f64::MIN_POSITIVE)),
            seconds(of(ranks)),
            seconds(all),
            alike(hosts.len() - 1),
        ),
        remedy: "Give the job's control group (container, pod, service) as many CPUs as it has ranks and threads (limits.cpu of \
                 Kubernetes, --cpus of Docker, CPUQuota of systemd), or start fewer ranks in it."
            .to_owned(),
        confidence: Confidence::certain_if(evidence.has_seen_enough()),
        cost: Some(cost.min(1.0)),
        other_job: None,
        facts: vec![
            fact("kept from running by a quota, at least", cost, "share", Some(COST_MIN)),
            fact("ranks", number(ranks.len()), "1", None),
        ],
    }]
}
