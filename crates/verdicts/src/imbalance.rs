//! *Imbalanced work*: ranks compute for different times, and those with less wait.
//!
//! Needs each rank's time outside of MPI. Load balance is the mean of it over the largest (as the POP centre's metrics define it);
//! the verdict speaks where 1 - balance, as a part of the ranks' time, is [`COST_MIN`] or more, and where the ranks with less work
//! were in MPI for longer. It names the region of the program that differs most, where there are regions. What *slow rank* or
//! *oversubscribed* explains is left to these. A program that divides its work on purpose (a master that hands it out, ranks for
//! input and output) looks the same.

use crate::evidence::{Evidence, Rank};
use crate::oversubscribed::{by_host, is_short_of_cores};
use crate::slow_rank;
use crate::statistics::number;
use crate::text::{percent, seconds};
use crate::{COST_MIN, Confidence, Kind, Verdict, fact};
use std::collections::BTreeMap;

pub(crate) fn judge(evidence: &Evidence) -> Vec<Verdict> {
    let ranks = &evidence.ranks;
    if ranks.len() < 2 || is_explained(evidence) {
        return Vec::new();
    }
    let most = ranks.iter().max_by(|one, other| one.compute_seconds().total_cmp(&other.compute_seconds()));
    let Some(most) = most else { return Vec::new() };
    let mean = ranks.iter().map(Rank::compute_seconds).sum::<f64>() / number(ranks.len());
    let lost: f64 = ranks.iter().map(|rank| most.compute_seconds() - rank.compute_seconds()).sum();
    let cost = lost / evidence.rank_seconds().max(f64::MIN_POSITIVE);
    // What a rank does less than another it spends in MPI, or the rank ended earlier and nobody waited.
    let is_waited = lost <= 1.5 * evidence.mpi_seconds();
    if cost < COST_MIN || !is_waited {
        return Vec::new();
    }
    let region = heaviest_region(evidence);
    let place = region.as_ref().map_or_else(String::new, |(name, most, mean)| {
        format!(" Most of it in region {name}: at most {}, in the mean {}.", seconds(*most), seconds(*mean))
    });
    vec![Verdict {
        kind: Kind::ImbalancedWork,
        subject: region.map_or_else(|| "job".to_owned(), |(name, _, _)| name),
        observation: format!(
            "Ranks have different amounts of work: rank {} on {} computes for {}, the mean rank for {}; {} of the ranks' time is \
             waiting for the busiest.{place}",
            most.rank,
            most.host,
            seconds(most.compute_seconds()),
            seconds(mean),
            percent(cost),
        ),
        remedy: "Divide the work of that part anew: smaller pieces, weights by cost, or pieces handed out as ranks become free. \
                 If it is meant to be so (a master, ranks for files), nothing is wrong."
            .to_owned(),
        // Times outside of MPI are measured; that they are work is inferred.
        confidence: Confidence::certain_if(cost >= 2.0 * COST_MIN),
        cost: Some(cost.min(1.0)),
        other_job: None,
        facts: vec![
            fact("waiting for the busiest rank", cost, "share", Some(COST_MIN)),
            fact("load balance", mean / most.compute_seconds().max(f64::MIN_POSITIVE), "share", None),
        ],
    }]
}

fn is_explained(evidence: &Evidence) -> bool {
    !slow_rank::judge(evidence).is_empty() || by_host(evidence).values().any(|ranks| is_short_of_cores(ranks))
}

/// The region whose times differ most, with the most and the mean seconds of a rank.
fn heaviest_region(evidence: &Evidence) -> Option<(String, f64, f64)> {
    let mut regions: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for one in &evidence.regions {
        let (most, sum) = regions.entry(&one.region).or_default();
        *most = most.max(one.compute_seconds);
        *sum += one.compute_seconds;
    }
    let ranks = number(evidence.ranks.len());
    let all = regions.into_iter().map(|(name, (most, sum))| (name.to_owned(), most, sum / ranks));
    all.max_by(|one, other| (one.1 - one.2).total_cmp(&(other.1 - other.2)))
        .filter(|(_, most, mean)| most > mean)
}
