//! Shares of links against what really flowed.

use crate::generator::{FatTree, Options, Scene};
use throughline_shares::estimate::{Contributor, Flow, Kind, LinkShares, estimate};
use throughline_shares::network::Routes;

/// Errors of shares, in points of a link, of links that carry at least a fifth of the fullest one; and how many of the
/// true shares lie within their bounds.
#[derive(Default)]
struct Errors {
    points: Vec<f64>,
    inside: usize,
    outside: usize,
}

impl Errors {
    fn add(&mut self, scene: &Scene, shares: &[LinkShares]) {
        for (link, found) in shares.iter().enumerate() {
            let counted = scene.counted[link].unwrap();
            adds_up(found, counted);
            if counted < scene.fullest() / 5.0 {
                continue;
            }
            let contributors = scene.truth.keys().filter(|(of, _)| *of as usize == link).map(|(_, who)| *who);
            let all: std::collections::BTreeSet<_> =
                contributors.chain(found.shares.iter().map(|share| share.contributor)).collect();
            for who in all {
                let truth = scene.truth.get(&(link as u32, who)).copied().unwrap_or(0.0);
                let share = found.shares.iter().find(|share| share.contributor == who);
                self.points.push((share.map_or(0.0, |share| share.bytes) - truth).abs() / counted * 100.0);
                let is_inside = share.is_some_and(|share| {
                    assert!(share.low <= share.bytes && share.bytes <= share.high, "{share:?}");
                    let slack = counted * 0.001;
                    (share.low - slack..=share.high + slack).contains(&truth)
                });
                if is_inside { self.inside += 1 } else { self.outside += 1 }
            }
        }
    }

    fn at(&mut self, part: f64) -> f64 {
        self.points.sort_by(f64::total_cmp);
        self.points[((self.points.len() - 1) as f64 * part) as usize]
    }

    fn inside(&self) -> f64 {
        self.inside as f64 / (self.inside + self.outside) as f64
    }
}

fn adds_up(found: &LinkShares, counted: f64) {
    let sum: f64 = found.shares.iter().map(|share| share.bytes).sum::<f64>() + found.rest;
    assert!((sum - counted).abs() <= counted * 1e-9 + 1.0, "shares and rest {sum}, counted {counted}");
}

fn over(seeds: std::ops::Range<u64>, options: Options) -> Errors {
    let mut errors = Errors::default();
    for seed in seeds {
        let scene = Scene::new(seed, options);
        errors.add(&scene, &estimate(&scene.tree, &scene.flows, &scene.counted));
    }
    errors
}

const MEASURED: Options =
    Options { jobs: 4, strangers: 0, kind: Kind::Measured, error: 0.03, is_adaptive: false };

#[test]
fn measured_traffic_without_strangers_is_within_a_point() {
    let mut errors = over(0..200, MEASURED);
    assert!(errors.at(0.5) < 0.5 && errors.at(0.99) < 2.0, "{} {}", errors.at(0.5), errors.at(0.99));
    assert!(errors.inside() > 0.99, "{}", errors.inside());
}

#[test]
fn a_stranger_is_found_and_given_to_no_job() {
    let options = Options { strangers: 1, ..MEASURED };
    let mut errors = over(0..300, options);
    assert!(errors.at(0.5) < 0.5 && errors.at(0.99) < 3.0, "{} {}", errors.at(0.5), errors.at(0.99));
    assert!(errors.inside() > 0.99, "{}", errors.inside());
    let mut errors = over(0..300, Options { kind: Kind::Modelled, error: 0.06, ..options });
    assert!(errors.at(0.5) < 1.0 && errors.at(0.95) < 3.0, "{} {}", errors.at(0.5), errors.at(0.95));
    assert!(errors.inside() > 0.99, "{}", errors.inside());
}

#[test]
fn bounds_under_adaptive_routing_hold_the_truth() {
    let errors = over(0..200, Options { is_adaptive: true, strangers: 1, ..MEASURED });
    assert!(errors.inside() > 0.99, "{}", errors.inside());
}

#[test]
fn a_job_that_sends_nothing_over_a_link_has_no_share_of_it() {
    let tree = FatTree::new(2, 4, 2, false);
    let mut counted = vec![Some(0.0); tree.links()];
    // Host 0 sends to host 5 and nobody reports it; job 7 sends from 1 to 2, below one leaf.
    for stage in &tree.path(0, 5).unwrap().0 {
        counted[stage.links()[0].0 as usize] = Some(8e9);
    }
    for stage in &tree.path(1, 2).unwrap().0 {
        counted[stage.links()[0].0 as usize] = Some(1e9);
    }
    let flow = Flow { contributor: 7, from: 1, to: 2, bytes: 1e9, kind: Kind::Measured, error: 0.03 };
    let shares = estimate(&tree, &[flow], &counted);
    let up = tree.path(0, 5).unwrap().0[1].links()[0].0 as usize;
    assert_eq!(shares[up].shares.len(), 1, "{:?}", shares[up]);
    let stranger = shares[up].shares[0];
    assert_eq!(stranger.contributor, Contributor::Unreported { port: 0 });
    assert_eq!(stranger.kind, Kind::Unreported);
    assert!((stranger.bytes - 8e9).abs() < 1e7, "{stranger:?}");
    assert!(stranger.low > 7.9e9, "a single stranger has all that no job can have: {stranger:?}");
}

#[test]
fn what_was_not_read_is_not_fitted_and_nothing_is_made_of_nothing() {
    let tree = FatTree::new(2, 2, 1, false);
    let flow = Flow { contributor: 1, from: 0, to: 2, bytes: 5e8, kind: Kind::Logical, error: 1.0 };
    let shares = estimate(&tree, &[flow], &vec![None; tree.links()]);
    assert_eq!(shares[0].counted, None);
    assert_eq!((shares[0].shares[0].bytes, shares[0].rest), (5e8, 0.0));
    assert!(shares[1].shares.is_empty());
    // Logical bytes of four times what was counted: the counter has the last word.
    let mut counted = vec![Some(0.0); tree.links()];
    for stage in &tree.path(0, 2).unwrap().0 {
        counted[stage.links()[0].0 as usize] = Some(1.25e8);
    }
    let shares = estimate(&tree, &[flow], &counted);
    let share = shares[0].shares[0];
    assert!((share.bytes - 1.25e8).abs() < 1e6 && share.kind == Kind::Logical, "{share:?}");
    // A flow between ports that do not exist adds nothing, and does not fail.
    let flow = Flow { from: 0, to: 0, ..flow };
    assert!(
        estimate(&tree, &[flow], &counted)
            .iter()
            .flat_map(|link| &link.shares)
            .all(|share| share.bytes >= 0.0)
    );
}

#[test]
#[ignore = "prints a table of errors; benches run it"]
fn table_of_errors() {
    for (name, options) in [
        ("measured", MEASURED),
        ("measured, a stranger", Options { strangers: 1, ..MEASURED }),
        ("measured, three strangers", Options { strangers: 3, ..MEASURED }),
        ("modelled, a stranger", Options { strangers: 1, kind: Kind::Modelled, error: 0.06, ..MEASURED }),
        ("adaptive, a stranger", Options { strangers: 1, is_adaptive: true, ..MEASURED }),
        ("logical, factor 2", Options { strangers: 1, kind: Kind::Logical, error: 1.0, ..MEASURED }),
    ] {
        let mut errors = over(0..500, options);
        println!(
            "{name:26} {:6} shares: median {:.2}, 95 % {:.2}, 99 % {:.2}, most {:.1} points; {:.2} % within their bounds",
            errors.points.len(),
            errors.at(0.5),
            errors.at(0.95),
            errors.at(0.99),
            errors.at(1.0),
            errors.inside() * 100.0
        );
    }
}

/// As large sites are: jobs side by side, each with traffic between all pairs of its hosts, and three operations.
#[test]
#[ignore = "measures; in release: cargo test --release -p throughline-shares -- --ignored --nocapture"]
fn time_of_large_fabrics() {
    for (leaves, hosts_a_leaf, spines, jobs) in [(84, 17, 18, 200), (286, 28, 24, 1000)] {
        let tree = FatTree::new(leaves, hosts_a_leaf, spines, false);
        let mut rng = fastrand::Rng::with_seed(1);
        let mut counted = vec![0.0; tree.links()];
        let mut flows = Vec::new();
        let mut hosts: Vec<usize> = (0..tree.hosts() as usize).collect();
        rng.shuffle(&mut hosts);
        for (job, ranks) in hosts.chunks(tree.hosts() as usize / jobs).enumerate() {
            let pairs = ranks.iter().flat_map(|from| ranks.iter().map(move |to| (*from, *to)));
            for (from, to) in pairs.filter(|(from, to)| from != to) {
                for operation in 0..3 {
                    let bytes = 1e6 * (1.0 + rng.f64());
                    let contributor = job as u32 * 3 + operation;
                    flows.push(Flow { contributor, from, to, bytes, kind: Kind::Measured, error: 0.03 });
                    for stage in &tree.path(from, to).unwrap().0 {
                        counted[stage.links()[0].0 as usize] += bytes * (1.0 + 0.02 * (rng.f64() - 0.5));
                    }
                }
            }
        }
        let counted: Vec<_> = counted.into_iter().map(Some).collect();
        let start = std::time::Instant::now();
        let shares = estimate(&tree, &flows, &counted);
        let number: usize = shares.iter().map(|link| link.shares.len()).sum();
        let seconds = start.elapsed().as_secs_f64();
        println!(
            "{} hosts, {jobs} jobs: {} flows on {} links in {seconds:.3} s, {number} shares",
            tree.hosts(),
            flows.len(),
            tree.links()
        );
    }
}
