//! *Link-bound*, *victim* and *aggressor*: a full link holds an operation up.
//!
//! Need the windows of the links on the job's way, with who had which part (`throughline-shares`), and the operations' times. A
//! window counts where the link was [`FULL`] used, or [`CONGESTED`] used while data waited half of the time. An operation is held
//! up there where it has at least [`OWN_MIN`] of the link's bytes by the lower bound: nobody is accused for, or hurt by, a link that
//! he hardly uses. Its time under full links is its time without waiting, by the part of its bytes that passed the link then.
//!
//! - *link-bound*: the job itself has most of the bytes. The cost is its time under the link.
//! - *victim*: others have most of them by the lower bound of what they have, and the operation takes [`SLOWER`] times as long as its
//!   bytes would at the speed of its hosts' ports. The cost is the time beyond that.
//! - *aggressor*: another job is a victim of this one ([`accuse`]).
//!
//! Which of several full links on one way holds it up most can't be seen: the fullest one is named.
//! On fabrics with adaptive routing shares are bounds, and the verdicts become rare.

use crate::evidence::{Contribution, Evidence, Link, LinkWindow};
use crate::text::{percent, seconds};
use crate::{COST_MIN, Confidence, Kind, Verdict, fact};
use std::collections::BTreeMap;

/// A link is full from this part of its speed on.
pub const FULL: f64 = 0.9;

/// Used so much while data waits half of the time, it is congested.
const CONGESTED: f64 = 0.6;

/// Part of the time that data waits.
const WAITS: f64 = 0.5;

/// Least part of a full link's bytes that an operation has.
pub const OWN_MIN: f64 = 0.02;

/// Who has so much of a full link fills it.
const MOST: f64 = 0.5;

/// A victim's operation takes so many times the seconds that its bytes need.
pub const SLOWER: f64 = 1.25;

/// What an operation does on a link while it is full.
struct FullLinkUse<'a> {
    link: &'a Link,
    operation: &'a str,
    /// Of the operation on this link: part of its bytes that passed while the link was full.
    part: f64,
    /// Of the job, of what the full link carried: part, at least, at most.
    own: (f64, f64, f64),
    /// How full it was then.
    utilisation: f64,
    /// The largest of the others: name, job, part, at least.
    largest: Option<(String, Option<String>, f64, f64)>,
    /// Seconds that it was full.
    seconds: f64,
}

impl FullLinkUse<'_> {
    /// The job that has most of it by its lower bound.
    fn culprit(&self) -> Option<&str> {
        self.largest.as_ref().filter(|one| one.3 >= MOST).and_then(|one| one.1.as_deref())
    }
}

fn is_full(link: &Link, window: &LinkWindow) -> bool {
    let used = window.utilisation(link.bytes_per_second);
    used >= FULL || (used >= CONGESTED && window.wait_ratio.is_some_and(|ratio| ratio >= WAITS))
}

/// Operations of the job that use a link while it is full.
fn held(link: &Link) -> Vec<FullLinkUse<'_>> {
    let full: Vec<&LinkWindow> = link.windows.iter().filter(|window| is_full(link, window)).collect();
    let counted: f64 = full.iter().map(|window| window.counted).sum();
    if counted <= 0.0 {
        return Vec::new();
    }
    let own =
        full.iter().flat_map(|window| &window.own).fold((0.0, 0.0, 0.0), |sum: (f64, f64, f64), one| {
            (sum.0 + one.bytes / counted, sum.1 + one.low / counted, sum.2 + one.high / counted)
        });
    let largest = largest_other(&full, counted);
    let mut by: BTreeMap<&str, (f64, f64, f64)> = BTreeMap::new();
    for window in &link.windows {
        for one in &window.own {
            let (all, in_full, low) = by.entry(&one.name).or_default();
            *all += one.bytes;
            if is_full(link, window) {
                *in_full += one.bytes;
                *low += one.low;
            }
        }
    }
    let seconds: f64 = full.iter().map(|window| window.seconds).sum();
    let uses = by.into_iter().filter(|(_, (all, _, low))| *all > 0.0 && low / counted >= OWN_MIN);
    uses.map(|(operation, (all, in_full, _))| FullLinkUse {
        link,
        operation,
        part: in_full / all,
        own,
        utilisation: counted / seconds / link.bytes_per_second,
        largest: largest.clone(),
        seconds,
    })
    .collect()
}

/// Of the others, by job and name, the one with most.
fn largest_other(full: &[&LinkWindow], counted: f64) -> Option<(String, Option<String>, f64, f64)> {
    let mut by: BTreeMap<(Option<&str>, &str), (f64, f64)> = BTreeMap::new();
    let mut jobs: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    let add = |sum: &mut (f64, f64), one: &Contribution| {
        *sum = (sum.0 + one.bytes / counted, sum.1 + one.low / counted)
    };
    for one in full.iter().flat_map(|window| &window.others) {
        add(by.entry((one.job.as_deref(), &one.name)).or_default(), one);
        if let Some(job) = one.job.as_deref() {
            add(jobs.entry(job).or_default(), one);
        }
    }
    let sum = |job: Option<&str>, own: (f64, f64)| job.map_or(own, |job| jobs[job]);
    // By its job's sum, of that the operation with most.
    let key = |((job, _), own): &((Option<&str>, &str), (f64, f64))| (sum(*job, *own).0, own.0);
    let most = by
        .into_iter()
        .max_by(|one, other| key(one).partial_cmp(&key(other)).unwrap_or(std::cmp::Ordering::Equal))?;
    let ((job, name), own) = most;
    let (share, low) = sum(job, own);
    Some((name.to_owned(), job.map(str::to_owned), share, low))
}

/// A full link can be distinguished from other full ones where it is this much fuller.
const DISTINCT: f64 = 0.03;

pub(crate) fn judge(evidence: &Evidence) -> Vec<Verdict> {
    let mut by_operation: BTreeMap<&str, Vec<(Kind, f64, FullLinkUse<'_>)>> = BTreeMap::new();
    for held in evidence.links.iter().flat_map(held) {
        if let Some((kind, cost)) = kind_and_cost(evidence, &held).filter(|(_, cost)| *cost >= COST_MIN) {
            by_operation.entry(held.operation).or_default().push((kind, cost, held));
        }
    }
    // One verdict a link and kind: that of the operation that it costs most.
    let mut by_link: BTreeMap<(Kind, &str), Verdict> = BTreeMap::new();
    for mut links in by_operation.into_values() {
        let most = links.iter().map(|one| one.2.utilisation).fold(0.0, f64::max);
        links.retain(|one| one.2.utilisation >= most - DISTINCT);
        // Where its own bytes fill one of them nobody else is accused.
        links.sort_by(|one, other| {
            one.0.cmp(&other.0).then(other.2.utilisation.total_cmp(&one.2.utilisation))
        });
        let (kind, cost, fullest) = &links[0];
        let culprit = fullest.culprit().filter(|_| *kind == Kind::Victim);
        let is_one = links.iter().all(|one| one.2.culprit() == culprit);
        let mut verdict = verdict(*kind, *cost, fullest);
        verdict.other_job = culprit.filter(|_| is_one).map(str::to_owned);
        let known = by_link.entry((*kind, &fullest.link.name)).or_insert_with(|| verdict.clone());
        if verdict.cost > known.cost {
            *known = verdict;
        }
    }
    by_link.into_values().collect()
}

/// What a full link is to an operation, and the part of the ranks' time that it costs.
fn kind_and_cost(evidence: &Evidence, held: &FullLinkUse<'_>) -> Option<(Kind, f64)> {
    let all = evidence.rank_seconds();
    let transfer = evidence.transfer_in(held.operation);
    if all <= 0.0 {
        return None;
    }
    if held.own.0 >= MOST {
        return Some((Kind::LinkBound, transfer * held.part / all));
    }
    let ideal: f64 =
        evidence.ideals.iter().filter(|one| one.operation == held.operation).map(|one| one.seconds).sum();
    let others_low = 1.0 - held.own.2;
    let is_slower = ideal > 0.0 && transfer >= SLOWER * ideal;
    (is_slower && others_low >= MOST).then(|| (Kind::Victim, (transfer - ideal) * held.part / all))
}

fn verdict(kind: Kind, cost: f64, held: &FullLinkUse<'_>) -> Verdict {
    let FullLinkUse { link, operation, own, .. } = held;
    let least = format!("{} or more", percent(FULL));
    let others = held.largest.as_ref().map_or_else(
        || "nobody else is known there".to_owned(),
        |(name, _, share, _)| format!("{name} has {} of its bytes", percent(*share)),
    );
    let is_victim = kind == Kind::Victim;
    let observation = if is_victim {
        format!(
            "{operation} is held up by others on {}: the link was {least} used for {}; this job has {} of its bytes, {others}. That \
             costs {} of the ranks' time.",
            link.name,
            seconds(held.seconds),
            percent(own.0),
            percent(cost),
        )
    } else {
        format!(
            "{operation} is bound by {}: {} of the ranks' time passes in it while that link is {least} used; {} of the bytes there are \
             this job's, {others}.",
            link.name,
            percent(cost),
            percent(own.0),
        )
    };
    let remedy = if is_victim {
        "Let the scheduler place the two jobs on different leaf switches, or run them at different times; ask the other's owner."
    } else {
        "Send less over it (another algorithm of the collective, ranks that talk much on one switch, fewer bytes), or overlap it with \
         computing. If it is a link between switches, the fabric is narrower than the job: use nodes of one leaf."
    };
    let (own_name, threshold) =
        if is_victim { ("others, at least", 1.0 - own.2) } else { ("own part", own.0) };
    Verdict {
        kind,
        subject: link.name.clone(),
        observation,
        remedy: remedy.to_owned(),
        confidence: Confidence::certain_if(if is_victim {
            held.largest.as_ref().is_some_and(|(_, _, _, low)| *low >= MOST)
        } else {
            own.1 >= MOST
        }),
        cost: Some(cost.min(1.0)),
        other_job: None,
        facts: vec![
            fact("ranks' time under the full link", cost, "share", Some(COST_MIN)),
            fact(own_name, threshold, "share", Some(MOST)),
            fact("the operation's bytes there while it is full", held.part, "share", None),
            fact("full for", held.seconds, "s", None),
        ],
    }
}

/// A job with what is said of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JudgedJob {
    /// Its key: what [`Contribution::job`] has.
    pub key: String,
    /// For people.
    pub name: String,
    /// What is said of it.
    pub verdicts: Vec<Verdict>,
}

/// Adds to the jobs that others are victims of that they are. `earlier` are jobs that were judged a little before these.
pub fn accuse<'a>(all: &mut [JudgedJob], earlier: impl Iterator<Item = &'a JudgedJob>) {
    let mut found: Vec<(String, Verdict)> = Vec::new();
    let mut judged: Vec<&JudgedJob> = earlier.collect();
    judged.retain(|job| all.iter().all(|one| one.key != job.key));
    judged.extend(all.iter());
    for job in judged {
        for victim in job.verdicts.iter().filter(|one| one.kind == Kind::Victim) {
            let Some(culprit) = victim.other_job.clone() else { continue };
            let cost = victim
                .cost
                .map_or_else(String::new, |cost| format!(" and costs it {} of its time", percent(cost)));
            let verdict = Verdict {
                kind: Kind::Aggressor,
                subject: victim.subject.clone(),
                observation: format!("Its bytes fill {}, which holds up {}{cost}.", victim.subject, job.name),
                remedy: "Nothing is wrong with the job itself. Where this repeats, give it nodes of its own leaf switches, or run the \
                         two at different times."
                    .to_owned(),
                confidence: victim.confidence,
                cost: None,
                other_job: Some(job.key.clone()),
                facts: victim.facts.clone(),
            };
            found.push((culprit, verdict));
        }
    }
    for (culprit, verdict) in found {
        if let Some(job) = all.iter_mut().find(|job| job.key == culprit) {
            job.verdicts.retain(|one| one.kind != Kind::NothingFound);
            // Of several that it holds up at one link the first stands for all.
            if !job.verdicts.iter().any(|one| one.kind == Kind::Aggressor && one.subject == verdict.subject) {
                job.verdicts.push(verdict);
            }
        }
    }
}
