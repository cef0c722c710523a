//! The fit of all flows to the counters of all links.

use super::{Kind, Parts};

/// Passes over all links. Shares change by less than a thousandth of a link after some ten.
const PASSES: usize = 40;
/// A pass that changes no link by more than this part of it is the last.
const CLOSE: f64 = 1e-4;
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

/// Moves the flows' bytes, within the bounds of those that were reported, and their parts on links of which they use any.
pub(super) fn to_counters(parts: &mut Parts, counted: &[Option<f64>]) {
    let mut by_link = vec![Vec::new(); counted.len()];
    let mut stage_sizes = vec![0_u32; parts.stages as usize];
    for (number, used) in parts.uses.iter().enumerate() {
        stage_sizes[used.stage as usize] += 1;
        if let Some(uses) = by_link.get_mut(used.link as usize) {
            uses.push(u32::try_from(number).unwrap_or(u32::MAX));
        }
    }
    let is_choice = |stage: u32| stage_sizes[stage as usize] > 1;
    for _ in 0..PASSES {
        let mut largest = 0.0_f64;
        for (link, uses) in by_link.iter().enumerate() {
            let Some(target) = counted[link] else { continue };
            let sum: f64 = uses
                .iter()
                .map(|number| {
                    let used = parts.uses[*number as usize];
                    parts.flows[used.flow as usize].bytes * used.part
                })
                .sum();
            if sum <= 0.0 || target <= 0.0 && sum <= 1.0 {
                continue;
            }
            let ratio = (target / sum).clamp(1.0 / STEP, STEP);
            largest = largest.max((ratio - 1.0).abs());
            let factors = KINDS.map(|kind| ratio.powf(follows(kind)));
            for number in uses {
                let used = &mut parts.uses[*number as usize];
                if is_choice(used.stage) {
                    // Which of its links a flow takes is quite unknown: the part follows the counter whole.
                    used.part *= ratio;
                    continue;
                }
                let flow = &mut parts.flows[used.flow as usize];
                flow.bytes *= factors[flow.kind as usize];
                if flow.kind != Kind::Unreported {
                    flow.bytes = flow.bytes.clamp(flow.low(), flow.high());
                }
            }
        }
        normalise(parts, &stage_sizes);
        if largest < CLOSE {
            break;
        }
    }
}

/// The parts of a stage add up to the flow.
fn normalise(parts: &mut Parts, stage_sizes: &[u32]) {
    if stage_sizes.iter().all(|size| *size < 2) {
        return;
    }
    let mut sums = vec![0.0; stage_sizes.len()];
    for used in &parts.uses {
        sums[used.stage as usize] += used.part;
    }
    for used in &mut parts.uses {
        if stage_sizes[used.stage as usize] > 1 {
            let sum = sums[used.stage as usize];
            used.part =
                if sum > 0.0 { used.part / sum } else { 1.0 / f64::from(stage_sizes[used.stage as usize]) };
        }
    }
}
