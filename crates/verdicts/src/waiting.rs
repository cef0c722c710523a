//! *Waiting*: ranks wait for each other, and no other verdict says why: they may be late in turn, or work one after the other.
//!
//! Needs what of the time in MPI was waiting, or the calls that go on. It speaks where waiting that nothing else explains is
//! [`COST_MIN`] of the ranks' time and at least half of all waiting, or where a call has gone on for [`OPEN_MIN`] seconds. Which
//! rank is late when is not divided further here.

use crate::awaited::OPEN_MIN;
use crate::evidence::{Evidence, OpenCall};
use crate::imbalance::hands_out;
use crate::text::{percent, seconds};
use crate::{COST_MIN, Confidence, Kind, Verdict, fact};

/// `explained` is the part of the ranks' time that other verdicts explain.
pub(crate) fn judge(evidence: &Evidence, explained: f64) -> Option<Verdict> {
    let all = evidence.rank_seconds();
    let waiting = evidence.waiting.clone().unwrap_or_default();
    let sum =
        |of: fn(&crate::evidence::OperationWaiting) -> f64| waiting.operations.iter().map(of).sum::<f64>();
    // A master waits for work to hand out: nothing is lost by that.
    let masters = evidence.ranks.iter().filter(|rank| hands_out(evidence, rank));
    let is_for_work = masters.map(|rank| rank.receive_seconds).sum::<f64>();
    let likely = (sum(|one| one.seconds).min(all) - is_for_work).max(0.0);
    let share = likely / all.max(f64::MIN_POSITIVE);
    let rest = share - explained;
    let open = oldest(evidence);
    let is_said = rest >= COST_MIN.max(share / 2.0) || (explained < COST_MIN && open.is_some());
    if !is_said || all <= 0.0 {
        return None;
    }
    let call = open.map(|call| {
        format!(
            "Rank {} has been in MPI_{} for {}",
            call.rank,
            capital(&call.operation),
            seconds(call.seconds)
        )
    });
    let most = waiting.operations.iter().max_by(|one, other| one.seconds.total_cmp(&other.seconds));
    let place = most
        .filter(|one| one.seconds > 0.0)
        .map_or_else(String::new, |one| format!(", most of it in {}", one.operation));
    let observation = match call {
        Some(call) if rest < COST_MIN => format!("{call}, and nothing says why."),
        call => format!(
            "Waiting for other ranks takes {} of the ranks' time ({} of {}){place}: not divided further.{}",
            percent(share),
            seconds(likely),
            seconds(all),
            call.map_or_else(String::new, |call| format!(" {call}.")),
        ),
    };
    let remedy = if rest < COST_MIN {
        "See the calls that have not returned (throughline job show): with whom each is, and what these ranks do."
    } else {
        "No rank is late all the time: see whether ranks work one after the other, or each is late at times (throughline job \
         trace shows who waits for whom)."
    };
    Some(Verdict {
        kind: Kind::Waiting,
        subject: "job".to_owned(),
        observation,
        remedy: remedy.to_owned(),
        // Of short calls the least that durations say is more than it is.
        confidence: Confidence::Likely,
        cost: Some(rest.clamp(0.0, 1.0)),
        other_job: None,
        facts: vec![fact("waiting that nothing else explains", rest.max(0.0), "share", Some(COST_MIN))],
    })
}

/// The call that has gone on for longest, if it is long.
fn oldest(evidence: &Evidence) -> Option<&OpenCall> {
    let open = evidence
        .open_calls
        .iter()
        .filter(|call| evidence.is_running && !call.has_ended && call.seconds >= OPEN_MIN);
    open.max_by(|one, other| one.seconds.total_cmp(&other.seconds))
}

/// As programs write it: `Comm_split`.
pub(crate) fn capital(operation: &str) -> String {
    let mut characters = operation.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}
