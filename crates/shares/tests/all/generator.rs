//! Fat trees with jobs, file systems and strangers: what really flowed, and from it what an observer gets: reported flows
//! with their errors, and the ports' counters.

use fastrand::Rng;
use std::collections::HashMap;
use throughline_shares::estimate::{Contributor, Flow, Kind};
use throughline_shares::network::{HostPort, Link, Path, Routes, Stage};

/// Two layers of switches; each leaf has a link to each spine.
pub struct FatTree {
    pub leaves: u32,
    pub hosts_a_leaf: u32,
    pub spines: u32,
    pub is_adaptive: bool,
    ports: Vec<HostPort>,
}

impl FatTree {
    pub fn new(leaves: u32, hosts_a_leaf: u32, spines: u32, is_adaptive: bool) -> Self {
        let hosts = leaves * hosts_a_leaf;
        let ports =
            (0..hosts).map(|host| HostPort { transmit: Link(host), receive: Link(hosts + host) }).collect();
        Self { leaves, hosts_a_leaf, spines, is_adaptive, ports }
    }

    pub fn hosts(&self) -> u32 {
        self.leaves * self.hosts_a_leaf
    }

    pub fn links(&self) -> usize {
        (2 * self.hosts() + 2 * self.leaves * self.spines) as usize
    }

    fn up(&self, leaf: u32, spine: u32) -> Link {
        Link(2 * self.hosts() + leaf * self.spines + spine)
    }

    fn down(&self, spine: u32, leaf: u32) -> Link {
        Link(2 * self.hosts() + self.leaves * self.spines + spine * self.leaves + leaf)
    }

    /// The links that a flow takes by this spine; all traffic to a host takes one spine where routing is static.
    fn by_spine(&self, from: u32, to: u32, spine: u32) -> Vec<Link> {
        let (a, b) = (from / self.hosts_a_leaf, to / self.hosts_a_leaf);
        let mut links = vec![self.ports[from as usize].transmit];
        if a != b {
            links.extend([self.up(a, spine), self.down(spine, b)]);
        }
        links.push(self.ports[to as usize].receive);
        links
    }
}

impl Routes for FatTree {
    fn ports(&self) -> &[HostPort] {
        &self.ports
    }

    fn path(&self, from: usize, to: usize) -> Option<Path> {
        let (from, to) = (from as u32, to as u32);
        let (a, b) = (from / self.hosts_a_leaf, to / self.hosts_a_leaf);
        if !self.is_adaptive || a == b {
            return Some(Path::fixed(self.by_spine(from, to, to % self.spines)));
        }
        let all = |link: &dyn Fn(u32) -> Link| Stage::AnyOf((0..self.spines).map(link).collect());
        Some(Path(vec![
            Stage::One(self.ports[from as usize].transmit),
            all(&|spine| self.up(a, spine)),
            all(&|spine| self.down(spine, b)),
            Stage::One(self.ports[to as usize].receive),
        ]))
    }
}

/// What really happened in a window, and what is observed of it.
pub struct Scene {
    pub tree: FatTree,
    pub flows: Vec<Flow>,
    pub counted: Vec<Option<f64>>,
    /// Bytes of each contributor on each link.
    pub truth: HashMap<(u32, Contributor), f64>,
}

/// What a scene is made of.
#[derive(Clone, Copy)]
pub struct Options {
    pub jobs: u32,
    pub strangers: u32,
    pub kind: Kind,
    /// Error of reported bytes, as a part of them.
    pub error: f64,
    pub is_adaptive: bool,
}

impl Scene {
    pub fn new(seed: u64, options: Options) -> Self {
        let mut rng = Rng::with_seed(seed);
        let tree = FatTree::new(rng.u32(2..8), rng.u32(2..9), rng.u32(1..5), options.is_adaptive);
        let mut scene =
            Self { counted: vec![Some(0.0); tree.links()], tree, flows: Vec::new(), truth: HashMap::new() };
        let mut hosts: Vec<u32> = (0..scene.tree.hosts()).collect();
        rng.shuffle(&mut hosts);
        // Strangers send from hosts that no job has, if there are any, to hosts of any kind.
        let strangers: Vec<u32> =
            hosts.split_off(hosts.len() - (options.strangers as usize).min(hosts.len() / 2));
        for job in 0..options.jobs {
            let size = rng.usize(2..=hosts.len().clamp(2, 16)).min(hosts.len());
            let first = rng.usize(0..=hosts.len() - size);
            let ranks = hosts[first..first + size].to_vec();
            scene.job(&mut rng, job, &ranks, options);
        }
        for stranger in strangers {
            let target = loop {
                let host = rng.u32(0..scene.tree.hosts());
                if host != stranger {
                    break host;
                }
            };
            let bytes = 1e9 * (0.2 + rng.f64() * 3.0);
            scene.flow(
                &mut rng,
                Contributor::Unreported { port: stranger as usize },
                stranger,
                target,
                bytes,
            );
        }
        // Management: a little on every link.
        for counted in scene.counted.iter_mut().flatten() {
            *counted += 10_000.0 * rng.f64();
        }
        scene
    }

    fn job(&mut self, rng: &mut Rng, job: u32, ranks: &[u32], options: Options) {
        let bytes = 1e8 * (0.05 + rng.f64() * 4.0);
        let pattern = rng.u32(0..3);
        for (place, from) in ranks.iter().enumerate() {
            let partners: Vec<u32> = match pattern {
                0 => vec![ranks[(place + 1) % ranks.len()]],
                1 => ranks.to_vec(),
                _ => (0..2).map(|_| ranks[rng.usize(0..ranks.len())]).collect(),
            };
            for to in partners.into_iter().filter(|to| to != from) {
                self.flow(rng, Contributor::Reported(job), *from, to, bytes);
                // Errors of a sum of many small ones: two thirds lie within half of the stated error.
                let noise = (rng.f64() + rng.f64() + rng.f64() - 1.5) / 1.5 * options.error;
                self.flows.push(Flow {
                    contributor: job,
                    from: *from as usize,
                    to: to as usize,
                    bytes: bytes * (1.0 + noise),
                    kind: options.kind,
                    error: options.error,
                });
            }
        }
    }

    /// Lays what really flowed on links: by one spine, or in random parts over all of them.
    fn flow(&mut self, rng: &mut Rng, contributor: Contributor, from: u32, to: u32, bytes: f64) {
        let spines = self.tree.spines;
        let mut parts: Vec<(u32, f64)> = if self.tree.is_adaptive {
            (0..spines).map(|spine| (spine, rng.f64().powi(2))).collect()
        } else {
            vec![(to % spines, 1.0)]
        };
        let sum: f64 = parts.iter().map(|(_, part)| part).sum();
        parts.iter_mut().for_each(|(_, part)| *part /= sum);
        let mut done = Vec::new();
        for (spine, part) in parts {
            for link in self.tree.by_spine(from, to, spine) {
                // The host's own links carry all of it, whatever the spine.
                let is_host = link.0 < 2 * self.tree.hosts();
                if is_host && done.contains(&link) {
                    continue;
                }
                done.push(link);
                let here = if is_host { bytes } else { bytes * part };
                *self.truth.entry((link.0, contributor)).or_default() += here;
                *self.counted[link.0 as usize].get_or_insert(0.0) += here;
            }
        }
    }

    /// The fullest link, bytes.
    pub fn fullest(&self) -> f64 {
        self.counted.iter().flatten().copied().fold(0.0, f64::max)
    }
}
