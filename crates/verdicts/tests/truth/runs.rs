//! Runs over seeds.

use super::programs::{self, Fault};
use super::score::Score;
use super::{Case, links};
use crate::generator::{CAPACITY, MEASURED, Options, Scene};
use std::ops::Range;
use throughline_verdicts::{Verdict, judge};

/// Each seed's program with each fault.
pub fn programs(seeds: Range<u64>) -> Score {
    let mut score = Score::default();
    for seed in seeds {
        for fault in Fault::ALL {
            let case = programs::case(seed, fault);
            score.add(&format!("{fault:?} {seed}"), &case, &judge(&case.evidence));
        }
    }
    score
}

/// Each seed's fabric with four jobs, up to two unmonitored senders and a file system or none.
pub fn scenes(seeds: Range<u64>) -> Score {
    let mut score = Score::default();
    for seed in seeds {
        let (strangers, file_systems) = ((seed % 3) as u32, (seed % 2) as u32);
        let options = Options { strangers, file_systems, is_coupled: true, ..MEASURED };
        for (number, (case, said)) in links::of_scene(&Scene::new(seed, options)).into_iter().enumerate() {
            score.add(&format!("scene {seed} job {number}"), &case, &said);
        }
    }
    score
}

/// Jobs of so many programs, and so many fabrics on which no link is full, with what is said of each.
pub fn healthy(count: usize, first: u64) -> Vec<(Case, Vec<Verdict>)> {
    let programs = (first..).take(count).map(|seed| {
        let case = programs::case(seed, Fault::None);
        let said = judge(&case.evidence);
        (case, said)
    });
    let options = Options { jobs: 2, strangers: 1, is_coupled: true, ..MEASURED };
    let is_wide = |scene: &Scene| scene.truth.iter().all(|link| link.values().sum::<f64>() < 0.85 * CAPACITY);
    let scenes = (first..).map(|seed| Scene::new(seed, options)).filter(is_wide).take(count);
    programs.chain(scenes.flat_map(|scene| links::of_scene(&scene))).collect()
}
