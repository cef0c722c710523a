//! Shares of fitted flows, with the bounds within which each must lie.

use super::model::Model;
use super::{Contributor, Kind, LinkShares, Share};

/// A port's own counter is believed to this part of it: readings of two ports are not of the same moment.
const COUNTER_ERROR: f64 = 0.005;

/// A contributor's part of a link, or of a set of links.
#[derive(Clone, Copy)]
struct Part {
    contributor: Contributor,
    bytes: f64,
    low: f64,
    high: f64,
    kind: Kind,
    is_bound: bool,
}

/// One part for each contributor.
fn merge(mut parts: Vec<Part>) -> Vec<Part> {
    parts.sort_unstable_by_key(|part| part.contributor);
    parts.dedup_by(|later, first| {
        let is_same = later.contributor == first.contributor;
        if is_same {
            first.bytes += later.bytes;
            first.low += later.low;
            first.high += later.high;
            first.kind = first.kind.max(later.kind);
            first.is_bound |= later.is_bound;
        }
        is_same
    });
    parts
}

/// What each contributor has on each link.
pub(super) fn shares(model: &Model<'_>, counted: &[Option<f64>]) -> Vec<LinkShares> {
    let choices: Vec<Vec<Part>> =
        model.choices.iter().map(|choice| of_branches(model, &choice.branches)).collect();
    let links = counted.iter().enumerate();
    links
        .map(|(link, counted_here)| {
            let mut parts = of_branches(model, model.certain.of(link));
            let is_single = parts.is_empty() || model.chosen.of(link).is_empty();
            for (number, place) in model.chosen.of(link) {
                let choice = &model.choices[*number as usize];
                let here = counted_here.unwrap_or(f64::INFINITY);
                // What a flow can't have sent over the others, it sent over this one.
                let others = choice.links.iter().filter(|other| **other as usize != link);
                let others: f64 = others.map(|other| counted[*other as usize].unwrap_or(f64::INFINITY)).sum();
                parts.extend(choices[*number as usize].iter().map(|part| Part {
                    bytes: part.bytes * choice.parts[*place as usize],
                    low: (part.low - others * (1.0 + COUNTER_ERROR)).max(0.0),
                    high: part.high.min(here * (1.0 + COUNTER_ERROR)),
                    is_bound: true,
                    ..*part
                }));
            }
            if !is_single || model.chosen.of(link).len() > 1 {
                parts = merge(parts);
            }
            of_link(parts, *counted_here)
        })
        .collect()
}

/// Parts of all that some branches carry.
fn of_branches(model: &Model<'_>, branches: &[u32]) -> Vec<Part> {
    let mut parts = Vec::with_capacity(branches.len());
    for run in branches
        .chunk_by(|one, other| model.branches[*one as usize].bundle == model.branches[*other as usize].bundle)
    {
        let bundle = &model.bundles[model.branches[run[0] as usize].bundle as usize];
        let weight: f64 = run.iter().map(|branch| model.branches[*branch as usize].weight).sum();
        // A bundle with only some of its branches here may be here with nothing, or with all.
        let is_whole = run.len() == bundle.branches.len();
        for class in &model.classes[bundle.classes.start as usize..bundle.classes.end as usize] {
            for (contributor, part) in model.contributors(class) {
                parts.push(Part {
                    contributor,
                    bytes: class.bytes * part * weight,
                    low: if is_whole { class.low * part } else { 0.0 },
                    high: class.high * part,
                    kind: class.kind,
                    is_bound: !is_whole,
                });
            }
        }
    }
    merge(parts)
}

fn of_link(parts: Vec<Part>, counted: Option<f64>) -> LinkShares {
    let total: f64 = parts.iter().map(|part| part.bytes).sum();
    // More than was counted can't have passed: all are scaled down alike.
    let scale =
        counted.filter(|counted| total > *counted && total > 0.0).map_or(1.0, |counted| counted / total);
    let most = counted.map_or(f64::INFINITY, |counted| counted * (1.0 + COUNTER_ERROR));
    let least = counted.map_or(0.0, |counted| counted * (1.0 - COUNTER_ERROR));
    let (low, high) = parts.iter().fold((0.0, 0.0), |(low, high), part| (low + part.low, high + part.high));
    let mut shares: Vec<Share> = parts
        .iter()
        .map(|part| {
            let bytes = part.bytes * scale;
            // What the others can't have been; but a part of a link may belong to nobody known.
            let at_most = part.high.min((most - (low - part.low)).max(0.0));
            let at_least = match part.kind {
                Kind::Unreported => part.low.max(least - (high - part.high)),
                _ => part.low,
            };
            Share {
                contributor: part.contributor,
                bytes,
                low: at_least.min(at_most).clamp(0.0, bytes),
                high: at_most.max(bytes),
                kind: part.kind,
                is_bound: part.is_bound,
            }
        })
        .collect();
    shares.sort_unstable_by(|one, other| {
        other.bytes.total_cmp(&one.bytes).then(one.contributor.cmp(&other.contributor))
    });
    let rest = counted.map_or(0.0, |counted| (counted - total * scale).max(0.0));
    LinkShares { counted, shares, rest }
}
