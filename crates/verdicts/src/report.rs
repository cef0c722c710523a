//! Some lines on a job for its owner: what it was, what is said of it, and where its time went.

use crate::evidence::Evidence;
use crate::text::{bytes, percent, seconds};
use crate::{Kind, Verdict};
use std::collections::{BTreeMap, BTreeSet};

/// Verdicts that are listed: each takes two lines.
const VERDICTS: usize = 3;

/// Operations and links that are listed.
const LISTED: usize = 3;

/// About ten lines. `heading` says which job it was.
#[must_use]
pub fn text(heading: &str, evidence: &Evidence, verdicts: &[Verdict]) -> String {
    let mut lines = vec![format!("{heading}, {}", size(evidence))];
    if verdicts.is_empty() {
        let why = match (evidence.is_running, evidence.rank_seconds() > 0.0) {
            (true, _) => "Nothing is said of it yet.",
            (false, true) => "Nothing is said of it: it ran too short.",
            (false, false) => "Nothing is said of it: nothing of it was recorded.",
        };
        lines.push(why.to_owned());
    }
    for verdict in verdicts.iter().take(VERDICTS) {
        let sure = if verdict.kind == Kind::NothingFound { "" } else { verdict.confidence.name() };
        let name = verdict.kind.name().replace('_', " ");
        let head =
            if sure.is_empty() { String::new() } else { format!("{} ({sure}): ", name.to_uppercase()) };
        lines.push(format!("{head}{}", verdict.observation));
        lines.push(format!("  What to do: {}", verdict.remedy));
    }
    if verdicts.len() > VERDICTS {
        lines.push(format!("  and {} more: throughline job show", verdicts.len() - VERDICTS));
    }
    lines.extend(time(evidence));
    lines.extend(operations(evidence));
    lines.extend(links(evidence));
    lines.extend(endings(evidence));
    lines.join("\n") + "\n"
}

fn size(evidence: &Evidence) -> String {
    let hosts: BTreeSet<&str> = evidence.ranks.iter().map(|rank| rank.host.as_str()).collect();
    format!(
        "{} on {}, {}",
        many(evidence.ranks.len(), "rank"),
        many(hosts.len(), "host"),
        if evidence.is_running {
            format!("runs for {}", seconds(evidence.seconds))
        } else {
            format!("ran for {}", seconds(evidence.seconds))
        }
    )
}

fn many(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

fn time(evidence: &Evidence) -> Option<String> {
    let (all, inside) = (evidence.rank_seconds(), evidence.mpi_seconds());
    if all <= 0.0 {
        return None;
    }
    let waiting =
        evidence.waiting.as_ref().map(|one| one.operations.iter().map(|one| one.seconds).sum::<f64>());
    let of_it = waiting
        .map_or_else(String::new, |waiting| format!(", of it {} waiting for other ranks", seconds(waiting)));
    Some(format!(
        "Time: MPI {} of the ranks' time ({} of {}{of_it}).",
        percent(inside / all),
        seconds(inside),
        seconds(all)
    ))
}

#[allow(clippy::cast_precision_loss)] // bytes below 2^53
fn operations(evidence: &Evidence) -> Option<String> {
    let mut by: BTreeMap<&str, (f64, u64, u64)> = BTreeMap::new();
    for one in &evidence.operations {
        let (time, calls, sent) = by.entry(&one.operation).or_default();
        *time += one.seconds;
        *calls += one.calls;
        *sent += one.bytes;
    }
    let mut all: Vec<(&str, (f64, u64, u64))> = by.into_iter().collect();
    all.sort_by(|one, other| other.1.0.total_cmp(&one.1.0));
    let line = |(name, (time, calls, sent)): &(&str, (f64, u64, u64))| {
        format!("{name} {} ({calls} calls, {})", seconds(*time), bytes(*sent as f64))
    };
    let listed: Vec<String> = all.iter().take(LISTED).map(line).collect();
    (!listed.is_empty()).then(|| format!("Operations: {}.", listed.join(", ")))
}

fn links(evidence: &Evidence) -> Option<String> {
    let used = |link: &crate::evidence::Link| {
        link.windows
            .iter()
            .map(|window| window.utilisation(link.bytes_per_second))
            .fold(0.0, f64::max)
            .min(1.0)
    };
    let mut all: Vec<(&str, f64)> =
        evidence.links.iter().map(|link| (link.name.as_str(), used(link))).collect();
    all.sort_by(|one, other| other.1.total_cmp(&one.1));
    let listed: Vec<String> =
        all.iter().take(LISTED).map(|(name, used)| format!("{name} {}", percent(*used))).collect();
    (!listed.is_empty()).then(|| format!("Links on its way, at their fullest: {}.", listed.join(", ")))
}

/// Ranks that did not end by themselves.
fn endings(evidence: &Evidence) -> Option<String> {
    let lost: Vec<u32> = evidence
        .ranks
        .iter()
        .filter(|rank| rank.ending.as_deref().is_some_and(|ending| ending != "clean"))
        .map(|rank| rank.rank)
        .collect();
    (!lost.is_empty()).then(|| format!("Ended without MPI_Finalize: {}.", crate::text::ranks(&lost)))
}
