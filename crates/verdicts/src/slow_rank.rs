//! *Slow rank*: one rank or host does the same work slower than the others, who wait for it.
//!
//! Needs each rank's time outside of MPI. A rank is late where that is [`LATE_MIN`] of its time more than the middle rank's, and
//! the others are in MPI for longer than it. Being late alone is no fault: it may have more work. So the verdict
//! speaks only where something measured differs at the rank from all that are not late: time waited for a core, clock, the socket of its
//! adapter, width of its port, errors, GPU links; or where all ranks of one host, and none of others, are late.
//!
//! The rank's lateness is certain where the collectives' last arrivals name it too; that what differs is the cause never is.

use crate::account::{RankTimes, mean};
use crate::evidence::{Evidence, Rank};
use crate::oversubscribed::{by_host, is_short_of_cores};
use crate::statistics::{median, number};
use crate::text::{bytes, percent, ranks, seconds};
use crate::{COST_MIN, Confidence, Kind, Verdict, fact};

/// Part of its time that a late rank computes more than the middle one.
pub const LATE_MIN: f64 = 0.1;

/// More late ranks than this part of all are not single ones.
const LATE_MOST: f64 = 0.34;

/// A value below this part of the others' is slower.
const SLOWER: f64 = 0.9;

/// Part of a rank's lateness from which on waiting for a core is a cause of it.
const CORE_PART_MIN: f64 = 0.25;

/// Ranks that are bound to each of its CPUs, and as many times as many as elsewhere: three ranks on
/// two CPUs.
const BOUND_MIN: f64 = 1.5;

/// Errors of a link below this are no cause: a few stand on each.
const ERRORS_MIN: f64 = 100.0;

/// Part of the calls in which a late rank is the last one to arrive.
const LAST_MIN: f64 = 0.5;

/// Time that a rank computes more than the middle one, as a part of the job's.
fn excess(rank: &Rank, middle: f64) -> f64 {
    if rank.observed_seconds > 0.0 { (rank.outside_seconds() - middle) / rank.observed_seconds } else { 0.0 }
}

/// The ranks that others wait for, and the middle rank's seconds of computing; none where they are many.
pub(crate) fn late(evidence: &Evidence) -> Option<(Vec<&Rank>, f64)> {
    let middle =
        median(evidence.ranks.iter().map(Rank::outside_seconds)).filter(|_| evidence.ranks.len() >= 2)?;
    let late: Vec<&Rank> = evidence.ranks.iter().filter(|rank| excess(rank, middle) >= LATE_MIN).collect();
    let most = (number(evidence.ranks.len()) * LATE_MOST).max(1.0);
    (!late.is_empty() && number(late.len()) <= most).then_some((late, middle))
}

pub(crate) fn judge(evidence: &Evidence) -> Vec<Verdict> {
    let Some(found) = find(evidence) else { return Vec::new() };
    vec![verdict(evidence, &found)]
}

/// Whether what differs at the slow rank is why it computes longer, and not only that it waits for a core.
pub(crate) fn explains_work(evidence: &Evidence) -> bool {
    let explains = |found: Found<'_>| {
        // Without an account the two are not known apart.
        let is_apart = found.waits_for_core && found.worst.times.is_some();
        found.is_host || found.causes.len() > usize::from(is_apart)
    };
    find(evidence).is_some_and(explains)
}

/// What differs at a rank, and what to do.
type Cause = (String, &'static str);

/// The ranks that others wait for, and what differs there.
struct Found<'a> {
    worst: &'a Rank,
    late: Vec<&'a Rank>,
    is_host: bool,
    /// One of the causes is that it waits for a core.
    waits_for_core: bool,
    causes: Vec<Cause>,
    middle: f64,
    cost: f64,
}

fn find(evidence: &Evidence) -> Option<Found<'_>> {
    let (late, middle) = late(evidence)?;
    let hosts = by_host(evidence);
    // A host whose ranks wait for cores is said to be oversubscribed.
    let late: Vec<&Rank> =
        late.into_iter().filter(|rank| !is_short_of_cores(&hosts[rank.host.as_str()])).collect();
    let others: Vec<&Rank> =
        evidence.ranks.iter().filter(|rank| !late.iter().any(|one| one.rank == rank.rank)).collect();
    let worst =
        *late.iter().max_by(|one, other| one.outside_seconds().total_cmp(&other.outside_seconds()))?;
    let lost = (worst.outside_seconds() - middle) * number(others.len());
    let cost = lost / evidence.rank_seconds().max(f64::MIN_POSITIVE);
    let is_host = hosts.len() >= 3
        && hosts[worst.host.as_str()].len() >= 2
        && late.len() == hosts[worst.host.as_str()].len()
        && late.iter().all(|rank| rank.host == worst.host);
    // Nothing of its node makes it slow where it does not even want to run.
    if worst.times.is_some() && excess_part(worst, &others, |times| times.off) >= 0.5 {
        return None;
    }
    let core = core_wait(worst, &others);
    let waits_for_core = core.is_some();
    let causes: Vec<Cause> = core.into_iter().chain(differences(worst, &others)).collect();
    if causes.is_empty() && !is_host {
        return None;
    }
    // What it computes longer is no consequence of waiting for a core.
    let is_only_core = waits_for_core && causes.len() == 1 && !is_host;
    let part = if is_only_core { excess_part(worst, &others, |times| times.queued) } else { 1.0 };
    Some(Found { worst, late, is_host, waits_for_core, causes, middle, cost: cost * part })
        .filter(|found| found.cost >= COST_MIN)
}

fn verdict(evidence: &Evidence, found: &Found<'_>) -> Verdict {
    let Found { worst, late, is_host, causes, middle, cost, .. } = found;
    let (is_host, middle, cost) = (*is_host, *middle, *cost);
    let numbers: Vec<u32> = late.iter().map(|rank| rank.rank).collect();
    let who = if is_host { format!("the ranks on {}", worst.host) } else { ranks(&numbers) };
    let observation = format!(
        "The others wait for {who}{}: {} outside of MPI, the middle rank {}. {}.",
        if is_host { String::new() } else { format!(" on {}", worst.host) },
        seconds(worst.outside_seconds()),
        seconds(middle),
        match causes.as_slice() {
            [] => "No rank of another host is late".to_owned(),
            some =>
                format!("There, {}", some.iter().map(|cause| cause.0.as_str()).collect::<Vec<_>>().join("; ")),
        }
    );
    let remedy = causes.first().map_or(
        "Compare that node with another: clock and temperature (turbostat), memory errors (ras-mc-ctl), what else runs there; \
         leave it out of the next run.",
        |cause| cause.1,
    );
    let last = last_share(evidence, late);
    let mut facts = vec![
        fact("computes longer than the middle rank", excess(worst, middle), "share", Some(LATE_MIN)),
        fact("time of all that waits for it", cost, "share", Some(COST_MIN)),
    ];
    facts.extend(last.map(|share| fact("last to arrive at collectives", share, "share", None)));
    Verdict {
        kind: Kind::SlowRank,
        subject: if is_host { worst.host.clone() } else { format!("rank {}", worst.rank) },
        observation,
        remedy: remedy.to_owned(),
        confidence: Confidence::certain_if(!causes.is_empty() && last.is_some_and(|share| share >= LAST_MIN)),
        cost: Some(cost.min(1.0)),
        other_job: None,
        facts,
    }
}

fn last_share(evidence: &Evidence, late: &[&Rank]) -> Option<f64> {
    let waiting = evidence.waiting.as_ref()?;
    let of = |one: &&crate::evidence::LastArrival| late.iter().any(|rank| rank.rank == one.rank);
    let shares: Vec<f64> = waiting.last_arrivals.iter().filter(of).map(|one| one.share).collect();
    (!shares.is_empty()).then(|| shares.iter().sum::<f64>().min(1.0))
}

/// What is worse at a rank than at each other one where it is known.
fn differences(rank: &Rank, others: &[&Rank]) -> Vec<Cause> {
    let mut causes = of_cpus(rank, others);
    causes.extend(of_ports(rank, others));
    causes.extend(of_gpus(rank, others));
    causes
}

/// A rank's value, and the least (`f64::min`) or the most of the others'; `None` where either is not known.
fn beside(
    rank: &Rank,
    others: &[&Rank],
    of: impl Fn(&Rank) -> Option<f64>,
    pick: fn(f64, f64) -> f64,
) -> Option<(f64, f64)> {
    of(rank).zip(others.iter().filter_map(|other| of(other)).reduce(pick))
}

/// The part of what a rank is outside of MPI longer than the others that is this part of its time; all of it where its account is not known.
fn excess_part(rank: &Rank, others: &[&Rank], of: fn(&RankTimes) -> f64) -> f64 {
    let known: Option<Vec<RankTimes>> = others.iter().map(|other| other.times).collect();
    let Some((own, known)) = rank.times.zip(known).filter(|(_, known)| !known.is_empty()) else { return 1.0 };
    let mean = mean(known.iter());
    ((of(&own) - of(&mean)) / (own.outside() - mean.outside()).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0)
}

fn core_wait(rank: &Rank, others: &[&Rank]) -> Option<Cause> {
    let (own, most) = beside(rank, others, Rank::runqueue_share, f64::max)?;
    let is_cause = own >= COST_MIN
        && own > 2.0 * most
        && excess_part(rank, others, |times| times.queued) >= CORE_PART_MIN;
    is_cause.then(|| {
        (
            format!("it waited for a core for {} of its time, the others for at most {}", percent(own), percent(most)),
            "Something else runs on its core: see what (ps -eLo psr,pid,comm on that node), and bind ranks to cores of their own.",
        )
    })
}

fn of_cpus(rank: &Rank, others: &[&Rank]) -> Vec<Cause> {
    let mut causes = Vec::new();
    if let Some((own, most)) = beside(rank, others, |rank| rank.ranks_a_cpu, f64::max)
        && own >= BOUND_MIN
        && own >= BOUND_MIN * most
    {
        let jobs = match rank.cpus_shared_with.as_slice() {
            [] => String::new(),
            jobs => format!(", those of job {} among them", jobs.join(", ")),
        };
        causes.push((
            format!("{own:.1} ranks are bound to each of its CPUs{jobs}, elsewhere at most {most:.1}"),
            "Bind ranks to cores of their own (srun --cpu-bind, mpirun --bind-to); jobs that share a node need disjoint CPUs.",
        ));
    }
    if let Some((own, least)) = beside(rank, others, |rank| rank.cpu_hertz, f64::min)
        && own < SLOWER * least
    {
        causes.push((
            format!("the clock is {:.2} GHz, elsewhere {:.2} GHz or more", own / 1e9, least / 1e9),
            "Look for heat, a power limit or a governor on that node (turbostat, ipmitool sensor), and leave it out of the next run.",
        ));
    }
    if rank.is_far_from_adapter == Some(true)
        && others.iter().all(|other| other.is_far_from_adapter == Some(false))
    {
        causes.push((
            "its CPUs are on another socket than its adapter, unlike all others'".to_owned(),
            "Bind the rank to the adapter's socket (numactl, --map-by, or the scheduler's distribution of tasks).",
        ));
    }
    causes
}

fn of_ports(rank: &Rank, others: &[&Rank]) -> Vec<Cause> {
    let mut causes = Vec::new();
    if let Some((own, least)) = beside(rank, others, |rank| rank.port_bytes_per_second, f64::min)
        && own < SLOWER * least
    {
        causes.push((
            format!("its port runs at {}/s, elsewhere at {}/s or more", bytes(own), bytes(least)),
            "Reseat or replace the cable of that port, and bring the link up again at full width.",
        ));
    }
    if let Some((own, most)) = beside(rank, others, |rank| rank.port_errors.map(figure), f64::max)
        && own >= ERRORS_MIN
        && own > 10.0 * most
    {
        causes.push((
            format!("its port's link had {own:.0} errors, elsewhere at most {most:.0}"),
            "Replace the cable of that port, or clean its connectors.",
        ));
    }
    causes
}

fn of_gpus(rank: &Rank, others: &[&Rank]) -> Vec<Cause> {
    let mut causes = Vec::new();
    if let Some((own, least)) = beside(rank, others, |rank| rank.gpu_link_bytes_per_second, f64::min)
        && own < SLOWER * least
    {
        causes.push((
            format!("the links of its GPU carry {}/s, elsewhere {}/s or more", bytes(own), bytes(least)),
            "A link of that GPU is down or slower: see nvidia-smi nvlink -s, reset or replace the GPU.",
        ));
    }
    if let Some((own, most)) = beside(rank, others, |rank| rank.gpu_link_errors.map(figure), f64::max)
        && own >= ERRORS_MIN
        && own > 10.0 * most
    {
        causes.push((
            format!("the links of its GPU had {own:.0} errors, elsewhere at most {most:.0}"),
            "See nvidia-smi nvlink -e on that node; reset the GPU, and have it looked at if they come again.",
        ));
    }
    if let Some(report) = &rank.gpu_slowed
        && others.iter().all(|other| other.gpu_slowed.is_none())
    {
        causes.push((
            format!("{report}, unlike all others'"),
            "Look at that GPU's temperature, fans and inlet (nvidia-smi -q -d TEMPERATURE,PERFORMANCE), and leave the node out of the \
             next run.",
        ));
    }
    causes
}

#[allow(clippy::cast_precision_loss)] // below 2^53
fn figure(count: u64) -> f64 {
    count as f64
}
