//! Errors of estimated shares against a scene's truth.

use super::{CAPACITY, Options, Scene};
use std::collections::BTreeSet;
use throughline_shares::estimate::{Contributor, LinkShares, Share, estimate};

/// Links that carry this part of their capacity or more are judged.
const BUSY: f64 = 0.2;

/// Errors of shares in points of a link, and how many of the true shares lie within their bounds.
#[derive(Default)]
pub struct Errors {
    pub jobs: Vec<f64>,
    pub strangers: Vec<f64>,
    pub inside: usize,
    pub outside: usize,
    /// Widths of the bounds, in points.
    pub widths: Vec<f64>,
    /// A share of a job that sends nothing there, in points, the largest.
    pub false_job: f64,
}

impl Errors {
    /// Of many scenes.
    pub fn over(seeds: std::ops::Range<u64>, options: Options) -> Self {
        let mut errors = Self::default();
        for seed in seeds {
            let scene = Scene::new(seed, options);
            errors.add(&scene, &estimate(&scene.fabric, &scene.flows, &scene.counted));
        }
        errors.sort();
        errors
    }

    pub fn add(&mut self, scene: &Scene, shares: &[LinkShares]) {
        for (link, found) in shares.iter().enumerate() {
            let Some(counted) = scene.counted[link] else { continue };
            adds_up(found, counted);
            if counted < CAPACITY * BUSY {
                continue;
            }
            let all: BTreeSet<Contributor> = scene.truth[link].keys().copied().collect();
            let found_ones = found.shares.iter().map(|share| share.contributor);
            for who in all.iter().copied().chain(found_ones).collect::<BTreeSet<_>>() {
                let truth = scene.truth[link].get(&who).copied().unwrap_or(0.0);
                let share = found.shares.iter().find(|share| share.contributor == who);
                self.judge(who, truth, share, counted);
            }
        }
    }

    fn judge(&mut self, who: Contributor, truth: f64, share: Option<&Share>, counted: f64) {
        let points = (share.map_or(0.0, |share| share.bytes) - truth).abs() / counted * 100.0;
        // A thousandth of a link is no matter.
        let slack = counted * 0.001;
        let is_inside = match share {
            Some(share) => {
                assert!(share.low <= share.bytes && share.bytes <= share.high, "{share:?}");
                self.widths.push((share.high - share.low) / counted * 100.0);
                (share.low - slack..=share.high + slack).contains(&truth)
            }
            None => truth <= slack,
        };
        if is_inside {
            self.inside += 1
        } else {
            self.outside += 1
        }
        match who {
            Contributor::Reported(_) => {
                if truth == 0.0 {
                    self.false_job = self.false_job.max(points);
                }
                self.jobs.push(points);
            }
            Contributor::Unreported { .. } => self.strangers.push(points),
        }
    }

    fn sort(&mut self) {
        for values in [&mut self.jobs, &mut self.strangers, &mut self.widths] {
            values.sort_by(f64::total_cmp);
        }
    }

    /// Part of the true shares that lie within their bounds.
    pub fn inside(&self) -> f64 {
        self.inside as f64 / (self.inside + self.outside).max(1) as f64
    }
}

/// The value that a part of the sorted ones does not exceed.
pub fn at(sorted: &[f64], part: f64) -> f64 {
    if sorted.is_empty() { 0.0 } else { sorted[((sorted.len() - 1) as f64 * part).round() as usize] }
}

fn adds_up(found: &LinkShares, counted: f64) {
    let sum: f64 = found.shares.iter().map(|share| share.bytes).sum::<f64>() + found.rest;
    assert!((sum - counted).abs() <= counted * 1e-9 + 1.0, "shares and rest {sum}, counted {counted}");
}
