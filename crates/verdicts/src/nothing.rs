//! *Nothing found*: there was enough evidence for the other verdicts, and none of them spoke. It says which part of the time
//! communication has at all, so that a reader knows how much there is to gain, and what of the evidence was missing.

use crate::evidence::Evidence;
use crate::text::{percent, seconds};
use crate::{Confidence, Kind, SECONDS_MIN, Verdict, fact};

/// Below this part nothing is to be gained in communication.
const SMALL: f64 = 0.1;

pub(crate) fn judge(evidence: &Evidence) -> Vec<Verdict> {
    let (all, inside) = (evidence.rank_seconds(), evidence.mpi_seconds());
    if evidence.seconds < SECONDS_MIN || all <= 0.0 {
        return Vec::new();
    }
    let share = (inside / all).min(1.0);
    let waiting = evidence
        .waiting
        .as_ref()
        .map(|waiting| waiting.operations.iter().map(|one| one.seconds).sum::<f64>());
    let of_it = waiting
        .map_or_else(String::new, |waiting| format!(", of it {} waiting for other ranks", seconds(waiting)));
    let mut missing = Vec::new();
    if evidence.waiting.is_none() {
        missing.push("what of it is waiting");
    }
    if evidence.links.is_empty() {
        missing.push("the links on its way");
    }
    if evidence.ranks.iter().all(|rank| rank.scheduling.is_none()) {
        missing.push("whether ranks wait for cores");
    }
    let unknown =
        if missing.is_empty() { String::new() } else { format!(" Not known: {}.", missing.join(", ")) };
    let remedy = if share < SMALL {
        "Nothing to gain here: what takes time is outside of MPI."
    } else {
        "Nothing stands out. The largest operations and the waiting by rank say where the rest goes."
    };
    vec![Verdict {
        kind: Kind::NothingFound,
        subject: "job".to_owned(),
        observation: format!(
            "Nothing found that slows it down. Communication takes {} of the ranks' time{of_it}.{unknown}",
            percent(share)
        ),
        remedy: remedy.to_owned(),
        confidence: Confidence::certain_if(missing.is_empty()),
        cost: None,
        other_job: None,
        facts: vec![fact("communication", share, "share", None)],
    }]
}
