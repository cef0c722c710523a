//! Verdicts against hidden truths. `cargo bench -p throughline-verdicts` prints the table, over other seeds.
#![allow(clippy::unwrap_used, missing_docs, dead_code)]

#[path = "../../../shares/tests/generator/mod.rs"]
mod generator;
#[path = "../truth/mod.rs"]
mod truth;

mod rules;

use throughline_verdicts::Kind;
use truth::runs;
use truth::score::Score;

/// Seeds of generated programs and fabrics; one takes 10 ms without optimization.
const SEEDS: u64 = 30;

/// `make soak` sets the variable.
fn seeds() -> u64 {
    std::env::var("THROUGHLINE_SEEDS").map_or(SEEDS, |text| text.parse().unwrap())
}

/// Precision and recall of each.
fn reaches_goals(score: &Score, kinds: &[Kind]) {
    let notes = score.notes.join("\n");
    assert_eq!(score.by.keys().copied().collect::<Vec<_>>(), kinds, "each was to be found: {notes}");
    for (kind, counts) in &score.by {
        assert!(counts.precision() >= 0.95 && counts.recall() >= 0.9, "{kind:?}: {counts:?}\n{notes}");
    }
}

#[test]
fn programs_with_one_thing_wrong() {
    let kinds = [
        Kind::Hung,
        Kind::Oversubscribed,
        Kind::SlowRank,
        Kind::SlowLink,
        Kind::ImbalancedWork,
        Kind::LatencyBound,
        Kind::Placement,
        Kind::AffinityChanged,
        Kind::OneDirectionalRing,
    ];
    reaches_goals(&runs::programs(0..seeds()), &kinds);
}

#[test]
fn jobs_that_share_a_fabric() {
    reaches_goals(&runs::scenes(0..seeds()), &[Kind::LinkBound, Kind::Victim, Kind::Aggressor]);
}

#[test]
fn healthy_jobs_are_accused_of_nothing() {
    for (case, said) in runs::healthy(usize::try_from(seeds()).unwrap(), 1000) {
        assert_eq!(said.len(), 1, "{}: {said:#?}", case.evidence.job);
        // How much of the time is waiting accuses nobody.
        let is_right = matches!(said[0].kind, Kind::NothingFound | Kind::Waiting);
        assert!(is_right, "{}: {said:#?}", case.evidence.job);
    }
}
