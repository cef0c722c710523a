//! Shares of fitted flows, with the bounds within which each must lie.

use super::{Contributor, Kind, LinkShares, Parts, Share};
use std::collections::HashMap;

/// A port's own counter is believed to this part of it: readings of two ports are not of the same moment.
const COUNTER_ERROR: f64 = 0.005;

#[derive(Clone, Copy)]
struct Sum {
    bytes: f64,
    low: f64,
    high: f64,
    kind: Kind,
    is_bound: bool,
}

/// What each contributor has on each link.
pub(super) fn shares(parts: &Parts, counted: &[Option<f64>]) -> Vec<LinkShares> {
    let mut sums: Vec<HashMap<Contributor, Sum>> = vec![HashMap::new(); counted.len()];
    // What the links of a stage counted: what a flow can't have sent over the others, it sent over this one.
    let mut capacity = vec![(0.0, 0_u32); parts.stages as usize];
    for used in &parts.uses {
        let (bytes, links) = &mut capacity[used.stage as usize];
        *bytes += counted.get(used.link as usize).copied().flatten().unwrap_or(f64::INFINITY);
        *links += 1;
    }
    for used in &parts.uses {
        let Some(link) = sums.get_mut(used.link as usize) else { continue };
        let flow = &parts.flows[used.flow as usize];
        let here = counted[used.link as usize].unwrap_or(f64::INFINITY);
        let (all, links) = capacity[used.stage as usize];
        let (low, high) = match flow.kind {
            Kind::Unreported => (0.0, f64::INFINITY),
            _ if links > 1 => ((flow.low() - (all - here)).max(0.0), flow.high()),
            _ => (flow.low(), flow.high()),
        };
        let sum = link.entry(flow.contributor).or_insert(Sum {
            bytes: 0.0,
            low: 0.0,
            high: 0.0,
            kind: flow.kind,
            is_bound: false,
        });
        sum.bytes += flow.bytes * used.part;
        sum.low += if low.is_finite() { low } else { 0.0 };
        sum.high += high.min(here);
        sum.kind = sum.kind.max(flow.kind);
        sum.is_bound |= links > 1;
    }
    sums.into_iter().zip(counted).map(|(sums, counted)| of_link(sums, *counted)).collect()
}

fn of_link(sums: HashMap<Contributor, Sum>, counted: Option<f64>) -> LinkShares {
    let total: f64 = sums.values().map(|sum| sum.bytes).sum();
    // More than was counted can't have passed: all are scaled down alike.
    let scale =
        counted.filter(|counted| total > *counted && total > 0.0).map_or(1.0, |counted| counted / total);
    let most = counted.map_or(f64::INFINITY, |counted| counted * (1.0 + COUNTER_ERROR));
    let least = counted.map_or(0.0, |counted| counted * (1.0 - COUNTER_ERROR));
    let is_reported = |contributor: &Contributor| matches!(contributor, Contributor::Reported(_));
    let of_reported = |value: fn(&Sum) -> f64| -> f64 {
        sums.iter().filter(|(contributor, _)| is_reported(contributor)).map(|(_, sum)| value(sum)).sum()
    };
    let (reported_low, reported_high) = (of_reported(|sum| sum.low), of_reported(|sum| sum.high));
    let unreported = sums.keys().filter(|contributor| !is_reported(contributor)).count();
    let mut shares: Vec<Share> = sums
        .iter()
        .map(|(contributor, sum)| {
            let bytes = sum.bytes * scale;
            let (low, high) = if is_reported(contributor) {
                (sum.low.min(most), sum.high.min(most))
            } else {
                // What reported traffic can't have been; a single unreported sender has all of it.
                let alone = if unreported == 1 { least - reported_high } else { 0.0 };
                (alone.max(0.0), (most - reported_low).clamp(0.0, sum.high.max(bytes)))
            };
            Share {
                contributor: *contributor,
                bytes,
                low: low.min(bytes),
                high: high.max(bytes),
                kind: sum.kind,
                is_bound: sum.is_bound,
            }
        })
        .collect();
    shares.sort_by(|one, other| {
        other.bytes.total_cmp(&one.bytes).then(one.contributor.cmp(&other.contributor))
    });
    let rest = counted.map_or(0.0, |counted| (counted - total * scale).max(0.0));
    LinkShares { counted, shares, rest }
}
