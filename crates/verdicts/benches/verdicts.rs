//! Precision and recall of verdicts over 500 seeds that no threshold was chosen by, silence over 200 healthy programs and as many
//! fabrics, and the time of a verdict. `cargo bench -p throughline-verdicts`, or with `-- notes` what was wrong or missed.
#![allow(clippy::unwrap_used, missing_docs, dead_code)]

#[path = "../../shares/tests/generator/mod.rs"]
mod generator;
#[path = "../tests/truth/mod.rs"]
mod truth;

use std::time::Instant;
use throughline_verdicts::{Kind, judge};
use truth::programs::{self, Fault};
use truth::runs;

const SEEDS: std::ops::Range<u64> = 10_000..10_500;

fn main() {
    let with_notes = std::env::args().any(|argument| argument == "notes");
    for (name, score) in [("programs", runs::programs(SEEDS)), ("fabrics", runs::scenes(SEEDS))] {
        println!("{name}, seeds {SEEDS:?}\n{}", score.table());
        if with_notes {
            score.notes.iter().for_each(|note| println!("{note}"));
        }
    }
    let healthy = runs::healthy(200, SEEDS.start);
    let accused =
        healthy.iter().filter(|(_, said)| said.iter().any(|one| one.kind != Kind::NothingFound)).count();
    println!("{} healthy jobs of 200 programs and 200 fabrics: {accused} accused", healthy.len());
    let cases: Vec<_> = (0..200).map(|seed| programs::case(seed, Fault::None)).collect();
    let begun = Instant::now();
    let said: usize = cases.iter().map(|case| judge(&case.evidence).len()).sum();
    println!("{said} verdicts on {} jobs: {:.1} ms", cases.len(), begun.elapsed().as_secs_f64() * 1e3);
}
