//! What slows a job down, and what to do about it.
//!
//! Each verdict is a pure function over [`Evidence`], in a module of its own that states what it needs, from which threshold
//! on it speaks, and what it can't distinguish. Below its threshold, or without its evidence, it is silent. Nothing here knows
//! where the evidence comes from.

pub mod account;
mod affinity;
mod awaited;
pub mod course;
pub mod evidence;
mod hung;
mod imbalance;
mod latency;
mod link;
mod nothing;
mod oversubscribed;
mod placement;
pub mod report;
mod ring;
mod slow_link;
mod slow_rank;
mod statistics;
mod stuck;
mod text;
mod throttled;
mod waiting;

pub use evidence::Evidence;
pub use link::{JudgedJob, accuse};

use serde::{Deserialize, Serialize};

/// A job that ran for less is not judged: its start is most of it.
pub const SECONDS_MIN: f64 = 5.0;

/// What costs a smaller part of the ranks' time is not worth a verdict.
pub const COST_MIN: f64 = 0.05;

/// What is said of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Ranks wait for what will not come.
    Hung,
    /// A full link holds an operation up, by the job's own bytes.
    LinkBound,
    /// A full link holds an operation up, by bytes of others.
    Victim,
    /// Its bytes fill a link that others need.
    Aggressor,
    /// Ranks have fewer cores than they are.
    Oversubscribed,
    /// A CPU quota keeps ranks from running.
    Throttled,
    /// A rank or host does the same slower than others.
    SlowRank,
    /// A link carries less than its peers, or damages data.
    SlowLink,
    /// Ranks have different amounts of work.
    ImbalancedWork,
    /// The others wait for a rank that does not compute.
    Awaited,
    /// Time goes into starting many small messages.
    LatencyBound,
    /// Another order of ranks would send less through the fabric.
    Placement,
    /// Ranks run on other CPUs than in a faster run before.
    AffinityChanged,
    /// A ring of GPUs uses one direction of its links.
    OneDirectionalRing,
    /// Ranks wait for each other, and nothing of the above says why.
    Waiting,
    /// None of these, with enough evidence to have seen them.
    NothingFound,
}

impl Kind {
    /// All, in the order of [`Kind`].
    pub const ALL: [Kind; 16] = [
        Kind::Hung,
        Kind::LinkBound,
        Kind::Victim,
        Kind::Aggressor,
        Kind::Oversubscribed,
        Kind::Throttled,
        Kind::SlowRank,
        Kind::SlowLink,
        Kind::ImbalancedWork,
        Kind::Awaited,
        Kind::LatencyBound,
        Kind::Placement,
        Kind::AffinityChanged,
        Kind::OneDirectionalRing,
        Kind::Waiting,
        Kind::NothingFound,
    ];

    /// Whether what it costs is time in which ranks wait for others.
    fn explains_waiting(self) -> bool {
        matches!(self, Kind::SlowRank | Kind::ImbalancedWork | Kind::Awaited | Kind::LinkBound | Kind::Victim)
    }

    /// As in the database and the API.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Hung => "hung",
            Kind::LinkBound => "link_bound",
            Kind::Victim => "victim",
            Kind::Aggressor => "aggressor",
            Kind::Oversubscribed => "oversubscribed",
            Kind::Throttled => "throttled",
            Kind::SlowRank => "slow_rank",
            Kind::SlowLink => "slow_link",
            Kind::ImbalancedWork => "imbalanced_work",
            Kind::Awaited => "awaited",
            Kind::LatencyBound => "latency_bound",
            Kind::Placement => "placement",
            Kind::AffinityChanged => "affinity_changed",
            Kind::OneDirectionalRing => "one_directional_ring",
            Kind::Waiting => "waiting",
            Kind::NothingFound => "nothing_found",
        }
    }
}

/// How sure a verdict is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// The evidence is measured, and the least that it can be is above the threshold.
    Certain,
    /// The most probable value is above the threshold, or a part of the chain is inferred.
    Likely,
}

impl Confidence {
    /// As in the database and the API.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Confidence::Certain => "certain",
            Confidence::Likely => "likely",
        }
    }

    fn certain_if(is_certain: bool) -> Self {
        if is_certain { Self::Certain } else { Self::Likely }
    }
}

/// A figure that a verdict rests on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fact {
    /// Its name, for people.
    pub name: String,
    /// The value.
    pub value: f64,
    /// Its unit: `s`, `share`, `B/s`, `1`.
    pub unit: String,
    /// From which value on the verdict speaks; absent for what is only said along.
    pub threshold: Option<f64>,
}

/// One thing that is said of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// What.
    pub kind: Kind,
    /// Of whom: a rank, host, link, operation or region. With the kind it names the verdict from one minute to the next.
    pub subject: String,
    /// What was observed, with its figures: one or two sentences.
    pub observation: String,
    /// What to do.
    pub remedy: String,
    /// How sure it is.
    pub confidence: Confidence,
    /// Part of the ranks' time that it costs, at most 1; absent where it can't be said.
    pub cost: Option<f64>,
    /// The other job that it is about: of a victim, whose bytes they are; of an aggressor, who is held up.
    pub other_job: Option<String>,
    /// What it rests on.
    pub facts: Vec<Fact>,
}

fn fact(name: &str, value: f64, unit: &str, threshold: Option<f64>) -> Fact {
    Fact { name: name.to_owned(), value, unit: unit.to_owned(), threshold }
}

/// All that is to be said of a job: what stops it first, then what costs most. Never empty where there is enough evidence:
/// then [`Kind::NothingFound`].
#[must_use]
pub fn judge(evidence: &Evidence) -> Vec<Verdict> {
    let mut found = hung::judge(evidence);
    if evidence.seconds >= SECONDS_MIN {
        let oversubscribed = oversubscribed::judge(evidence);
        found.extend(link::judge(evidence));
        found.extend(slow_rank::judge(evidence));
        found.extend(slow_link::judge(evidence));
        found.extend(imbalance::judge(evidence));
        found.extend(awaited::judge(evidence));
        found.extend(latency::judge(evidence));
        found.extend(placement::judge(evidence));
        found.extend(affinity::judge(evidence));
        found.extend(ring::judge(evidence));
        found.extend(throttled::judge(evidence));
        found.extend(oversubscribed);
    }
    // Where a link is slow, that is why it is full.
    let slow: Vec<String> =
        found.iter().filter(|one| one.kind == Kind::SlowLink).map(|one| one.subject.clone()).collect();
    found.retain(|one| one.kind != Kind::LinkBound || !slow.contains(&one.subject));
    // A hang explains the waiting: whatever else is said of it would be its consequence.
    if found.iter().any(|verdict| verdict.kind == Kind::Hung) {
        found.retain(|verdict| verdict.kind == Kind::Hung);
    }
    found.sort_by(|one, other| {
        let cost = |verdict: &Verdict| verdict.cost.unwrap_or(0.0);
        cost(other).total_cmp(&cost(one)).then_with(|| one.kind.cmp(&other.kind))
    });
    // What remains of the waiting when the causes are taken off; a hang is the cause of all of it.
    if evidence.seconds >= SECONDS_MIN && found.iter().all(|verdict| verdict.kind != Kind::Hung) {
        let explained = found.iter().filter(|verdict| verdict.kind.explains_waiting());
        let explained = explained.filter_map(|verdict| verdict.cost).sum();
        found.extend(waiting::judge(evidence, explained));
    }
    if found.is_empty() {
        found.extend(nothing::judge(evidence));
    }
    found
}
