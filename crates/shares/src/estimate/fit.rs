//! The fit of all flows to the counters of all links.

use super::Kind;
use super::model::{Bundle, Class, Model};

/// Passes over all links at most, where there are few uses of links.
const PASSES: usize = 40;
/// Where there are many, so many uses are visited in all: of 8,008 hosts, shares change by a hundredth of a point after it.
const VISITS: usize = 60_000_000;
/// But at least so many passes.
const FEWEST_PASSES: usize = 12;
/// A pass that changes no link by more than this part of it is the last.
const CLOSE: f64 = 3e-4;
/// A single step multiplies by this at most, so that one odd counter upsets nothing.
const STEP: f64 = 4.0;

/// How far a flow of a kind follows a link's counter in one step: certain ones hardly move, so that others do first.
fn follows(kind: Kind) -> f64 {
    match kind {
        Kind::Measured => 0.1,
        Kind::Modelled => 0.2,
        Kind::Logical => 0.7,
        Kind::Unreported => 1.0,
    }
}

const KINDS: [Kind; 4] = [Kind::Measured, Kind::Modelled, Kind::Logical, Kind::Unreported];

/// Multiplies a bundle's classes by the factor of their kind, within the bounds of what was reported.
fn multiply(bundle: &mut Bundle, classes: &mut [Class], factors: [f64; 4]) {
    let mut sum = 0.0;
    for class in &mut classes[bundle.classes.start as usize..bundle.classes.end as usize] {
        class.bytes *= factors[class.kind as usize];
        if class.kind != Kind::Unreported {
            class.bytes = class.bytes.clamp(class.low, class.high);
        }
        sum += class.bytes;
    }
    bundle.bytes = sum;
}

/// Moves the flows' bytes, within the bounds of those that were reported, and their parts on links where they use any of several.
pub(super) fn to_counters(model: &mut Model<'_>, counted: &[Option<f64>]) {
    let passes = (VISITS / model.uses().max(1)).clamp(FEWEST_PASSES, PASSES);
    for _ in 0..passes {
        let mut largest = 0.0_f64;
        for (link, target) in counted.iter().enumerate() {
            let Some(target) = *target else { continue };
            let sum = model.sum(link);
            if sum <= 0.0 || target <= 0.0 && sum <= 1.0 {
                continue;
            }
            let ratio = (target / sum).clamp(1.0 / STEP, STEP);
            if (ratio - 1.0).abs() > CLOSE / 3.0 {
                let moved = step(model, link, ratio);
                largest = largest.max(moved.abs() / target.max(1.0));
            }
        }
        settle(model);
        if largest < CLOSE {
            break;
        }
    }
}

/// What uses a link follows the ratio of its counter to the sum. Returns by how many bytes the link's sum changed.
fn step(model: &mut Model<'_>, link: usize, ratio: f64) -> f64 {
    let factors = KINDS.map(|kind| ratio.powf(follows(kind)));
    let Model { certain, chosen, branches, bundles, classes, choices, .. } = model;
    let mut moved = 0.0;
    for number in certain.of(link) {
        let branch = &mut branches[*number as usize];
        let bundle = &mut bundles[branch.bundle as usize];
        if bundle.branches.len() > 1 {
            // Which ports a host uses is quite unknown: the part follows the counter whole.
            branch.weight *= ratio;
        } else {
            multiply(bundle, classes, factors);
        }
        let bytes = bundle.bytes * branch.weight;
        moved += bytes - branch.bytes;
        branch.bytes = bytes;
    }
    for (choice, place) in chosen.of(link) {
        let choice = &mut choices[*choice as usize];
        let part = &mut choice.parts[*place as usize];
        moved += choice.bytes * *part * (ratio - 1.0);
        *part *= ratio;
    }
    moved
}

/// Parts add up to the whole again. By how much they did not is what the counters of all their links say of the whole.
fn settle(model: &mut Model<'_>) {
    let Model { branches, bundles, classes, choices, .. } = model;
    for choice in choices {
        let sum: f64 = choice.parts.iter().sum();
        if sum <= 0.0 {
            let even = 1.0 / choice.parts.len() as f64;
            choice.parts.iter_mut().for_each(|part| *part = even);
            continue;
        }
        choice.parts.iter_mut().for_each(|part| *part /= sum);
    }
    for bundle in bundles.iter_mut().filter(|bundle| bundle.branches.len() > 1) {
        let own = &mut branches[bundle.branches.start as usize..bundle.branches.end as usize];
        let sum: f64 = own.iter().map(|branch| branch.weight).sum();
        let even = 1.0 / own.len() as f64;
        own.iter_mut().for_each(|branch| branch.weight = if sum > 0.0 { branch.weight / sum } else { even });
        // A branch met the counters of some four links.
        let ratio = sum.powf(0.25).clamp(1.0 / STEP, STEP);
        multiply(bundle, classes, KINDS.map(|kind| ratio.powf(follows(kind))));
        own.iter_mut().for_each(|branch| branch.bytes = bundle.bytes * branch.weight);
    }
    model.sum_choices();
}
