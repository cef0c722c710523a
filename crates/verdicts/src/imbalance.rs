//! *Imbalanced work*: ranks compute for different times, and those with less wait.
//!
//! Needs each rank's time outside of MPI; with the ranks' account also what of it was computing. Load balance is the mean of it over
//! the largest (as the POP centre's metrics define it); the verdict speaks where 1 - balance, as a part of the ranks' time, is
//! [`COST_MIN`] or more by what the busiest rank computes longer than the others, and where the ranks with less work were in MPI for
//! longer. It names the region of the program that differs most, where there are regions. What *slow rank* explains is left to it, and
//! what a rank is off the processor to *awaited*.
//!
//! A rank that does little else than receive, and for which nobody waits, hands work out: it is left aside. Ranks that have less to do on purpose
//! otherwise (ranks for files) look like imbalanced ones.

use crate::account::{RankTimes, mean};
use crate::evidence::{Evidence, Rank};
use crate::slow_rank;
use crate::statistics::number;
use crate::text::{percent, seconds};
use crate::{COST_MIN, Confidence, Kind, Verdict, fact};
use std::collections::BTreeMap;

/// A rank that is for so much of its time in MPI in receives and probes is one that waits for work to hand out.
const RECEIVES_MIN: f64 = 0.8;
/// Nobody waits for it where the others are in MPI for no more than this part of their time, without waits for a core there.
const OTHERS_IN_MPI_MOST: f64 = 0.1;
/// It is outside of MPI for no more than this part of its time: one that works on what it receives has less work than the others.
const OWN_WORK_MOST: f64 = 0.1;

/// Parts of what the latest rank is outside of MPI longer than the mean rank; the rest is waiting for a core.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Excess {
    pub computing: f64,
    pub off: f64,
}

/// The rank that the others wait for.
pub(crate) struct Late<'a> {
    pub rank: &'a Rank,
    /// Its account, and the mean one; absent where one of a rank is not known.
    pub times: Option<RankTimes>,
    pub mean: Option<RankTimes>,
    /// Part of the ranks' time that the others lose.
    pub cost: f64,
    /// By what.
    pub excess: Excess,
}

/// The rank that the others wait for, as sums say it; `None` where they lose nothing by it.
pub(crate) fn late(evidence: &Evidence) -> Option<Late<'_>> {
    let ranks: Vec<&Rank> = evidence.ranks.iter().filter(|rank| !hands_out(evidence, rank)).collect();
    if ranks.len() < 2 {
        return None;
    }
    let rank =
        *ranks.iter().max_by(|one, other| one.outside_seconds().total_cmp(&other.outside_seconds()))?;
    let lost: f64 = ranks.iter().map(|other| rank.outside_seconds() - other.outside_seconds()).sum();
    // What a rank does less than another it spends in MPI, or the rank ended earlier and nobody waited.
    if lost > 1.5 * evidence.mpi_seconds() {
        return None;
    }
    let cost = lost / evidence.rank_seconds().max(f64::MIN_POSITIVE);
    let known: Option<Vec<RankTimes>> = ranks.iter().map(|rank| rank.times).collect();
    let mean = known.map(|times| mean(times.iter()));
    let excess = rank.times.zip(mean).map_or(Excess { computing: 1.0, off: 0.0 }, |(own, mean)| {
        let more = |of: fn(&RankTimes) -> f64| (of(&own) - of(&mean)).max(0.0);
        let (computing, queued, off) =
            (more(|one| one.computing), more(|one| one.queued), more(|one| one.off));
        let all = (computing + queued + off).max(f64::MIN_POSITIVE);
        Excess { computing: computing / all, off: off / all }
    });
    Some(Late { rank, times: rank.times, mean, cost, excess })
}

/// A master that waits for any worker, while none of these waits for it.
pub(crate) fn hands_out(evidence: &Evidence, rank: &Rank) -> bool {
    let others = evidence.ranks.iter().filter(|other| other.rank != rank.rank);
    let (inside, all) = others.fold((0.0, 0.0), |(inside, all), one| {
        let without_core = one.times.map_or(0.0, |times| times.queued_in_mpi).min(one.mpi_seconds);
        (inside + one.mpi_seconds - without_core, all + one.observed_seconds)
    });
    rank.mpi_seconds > 0.0
        && rank.receive_seconds >= RECEIVES_MIN * rank.mpi_seconds
        && rank.outside_seconds() <= OWN_WORK_MOST * rank.observed_seconds
        && inside <= OTHERS_IN_MPI_MOST * all
}

pub(crate) fn judge(evidence: &Evidence) -> Vec<Verdict> {
    if slow_rank::explains_work(evidence) {
        return Vec::new();
    }
    let Some(Late { rank: most, times, mean, cost, excess }) = late(evidence) else { return Vec::new() };
    let cost = cost * excess.computing;
    if cost < COST_MIN {
        return Vec::new();
    }
    let all = number(evidence.ranks.len());
    let own = times.map_or_else(|| most.outside_seconds(), |times| times.computing);
    let mean = mean.map_or_else(
        || evidence.ranks.iter().map(Rank::outside_seconds).sum::<f64>() / all,
        |mean| mean.computing,
    );
    let region = heaviest_region(evidence);
    let place = region.as_ref().map_or_else(String::new, |(name, most, mean)| {
        format!(" Most of it in region {name}: at most {}, in the mean {}.", seconds(*most), seconds(*mean))
    });
    // Without an account it is not known that it computes.
    let computes = if times.is_some() { "computes" } else { "is outside of MPI" };
    vec![Verdict {
        kind: Kind::ImbalancedWork,
        subject: region.map_or_else(|| "job".to_owned(), |(name, _, _)| name),
        observation: format!(
            "Ranks have different amounts of work: rank {} on {} {computes} for {}, the mean rank for {}; {} of the ranks' time is \
             waiting for the busiest.{place}",
            most.rank,
            most.host,
            seconds(own),
            seconds(mean),
            percent(cost),
        ),
        remedy: "Divide the work of that part anew: smaller pieces, weights by cost, or pieces handed out as ranks become free. \
                 If it is meant to be so (a master, ranks for files), nothing is wrong."
            .to_owned(),
        confidence: Confidence::certain_if(cost >= 2.0 * COST_MIN && evidence.has_seen_enough()),
        cost: Some(cost.min(1.0)),
        other_job: None,
        facts: vec![
            fact("waiting for the busiest rank", cost, "share", Some(COST_MIN)),
            fact("load balance", mean / own.max(f64::MIN_POSITIVE), "share", None),
        ],
    }]
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
