//! Fat trees of two or three layers, with one or several ports a host, static or adaptive routing.

use fastrand::Rng;
use throughline_shares::network::{HostPort, Link, Path, PathStage, Routes};

/// Sizes of a fat tree. With one pod it has two layers: each leaf has a link to each switch above.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub pods: u32,
    pub leaves_a_pod: u32,
    pub hosts_a_leaf: u32,
    /// Switches above the leaves of a pod.
    pub spines_a_pod: u32,
    /// Core switches that each spine has a link to; the spines of one number in all pods share them.
    pub cores_a_spine: u32,
    /// Ports of each host, all at its leaf.
    pub rails: u32,
    pub is_adaptive: bool,
}

impl Shape {
    pub fn hosts(self) -> u32 {
        self.pods * self.leaves_a_pod * self.hosts_a_leaf
    }

    /// A small one of any form.
    pub fn random(rng: &mut Rng, rails: u32, is_adaptive: bool) -> Self {
        let pods = if rng.u32(0..3) == 0 { rng.u32(2..4) } else { 1 };
        let (leaves_a_pod, hosts_a_leaf) = (rng.u32(2..8).div_ceil(pods).max(2), rng.u32(2..9));
        let (spines_a_pod, cores_a_spine) = (rng.u32(1..5), rng.u32(1..4));
        Self { pods, leaves_a_pod, hosts_a_leaf, spines_a_pod, cores_a_spine, rails, is_adaptive }
    }
}

pub struct Fabric {
    pub shape: Shape,
    ports: Vec<HostPort>,
    /// Ports of each host, by any of its ports.
    rails: Vec<Vec<usize>>,
}

/// What a way uses above the leaves: the spine's number and the core's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Via {
    pub spine: u32,
    pub core: u32,
}

impl Fabric {
    pub fn new(shape: Shape) -> Self {
        let ports = shape.hosts() * shape.rails;
        let links = |port| HostPort { transmit: Link(port), receive: Link(ports + port) };
        let all = |host| (host * shape.rails..(host + 1) * shape.rails).map(|port| port as usize).collect();
        let rails = (0..ports).map(|port| all(port / shape.rails)).collect();
        Self { shape, ports: (0..ports).map(links).collect(), rails }
    }

    fn spines(&self) -> u32 {
        self.shape.pods * self.shape.leaves_a_pod * self.shape.spines_a_pod
    }

    fn cores(&self) -> u32 {
        if self.shape.pods < 2 {
            0
        } else {
            self.shape.pods * self.shape.spines_a_pod * self.shape.cores_a_spine
        }
    }

    pub fn links(&self) -> usize {
        2 * (self.ports.len() + self.spines() as usize + self.cores() as usize)
    }

    fn leaf(&self, port: u32) -> u32 {
        port / self.shape.rails / self.shape.hosts_a_leaf
    }

    /// Between a leaf and a spine of its pod, up or down.
    fn at_leaf(&self, leaf: u32, spine: u32, is_up: bool) -> Link {
        let first = 2 * self.ports.len() as u32;
        Link(first + 2 * (leaf * self.shape.spines_a_pod + spine) + u32::from(!is_up))
    }

    /// Between a pod's spine and a core, up or down.
    fn at_spine(&self, pod: u32, via: Via, is_up: bool) -> Link {
        let first = 2 * (self.ports.len() as u32 + self.spines());
        let spine = pod * self.shape.spines_a_pod + via.spine;
        Link(first + 2 * (spine * self.shape.cores_a_spine + via.core) + u32::from(!is_up))
    }

    /// All traffic to a port takes this way where routing is static.
    fn fixed(&self, to: u32) -> Via {
        let Shape { spines_a_pod, cores_a_spine, .. } = self.shape;
        Via { spine: to % spines_a_pod, core: to / spines_a_pod % cores_a_spine }
    }

    /// Ways between two leaves.
    pub fn vias(&self, from: u32, to: u32) -> Vec<Via> {
        let (a, b) = (self.leaf(from), self.leaf(to));
        if a == b || !self.shape.is_adaptive {
            return vec![self.fixed(to)];
        }
        let is_near = a / self.shape.leaves_a_pod == b / self.shape.leaves_a_pod;
        let cores = if is_near { 1 } else { self.shape.cores_a_spine };
        let all =
            (0..self.shape.spines_a_pod).flat_map(|spine| (0..cores).map(move |core| Via { spine, core }));
        all.collect()
    }

    /// The links from one port to another by a way.
    pub fn by(&self, from: u32, to: u32, via: Via) -> Vec<Link> {
        let (a, b) = (self.leaf(from), self.leaf(to));
        let (pod_a, pod_b) = (a / self.shape.leaves_a_pod, b / self.shape.leaves_a_pod);
        let mut links = vec![self.ports[from as usize].transmit];
        if a != b {
            links.push(self.at_leaf(a, via.spine, true));
            if pod_a != pod_b {
                links.extend([self.at_spine(pod_a, via, true), self.at_spine(pod_b, via, false)]);
            }
            links.push(self.at_leaf(b, via.spine, false));
        }
        links.push(self.ports[to as usize].receive);
        links
    }
}

impl Routes for Fabric {
    fn ports(&self) -> &[HostPort] {
        &self.ports
    }

    fn path(&self, from: usize, to: usize) -> Option<Path> {
        let (from, to) = (from as u32, to as u32);
        let ways: Vec<Vec<Link>> =
            self.vias(from, to).into_iter().map(|via| self.by(from, to, via)).collect();
        let stage = |hop: usize| {
            let mut links: Vec<Link> = ways.iter().map(|way| way[hop]).collect();
            links.dedup();
            links.sort_unstable();
            links.dedup();
            if let [link] = links[..] { PathStage::One(link) } else { PathStage::AnyOf(links) }
        };
        Some(Path((0..ways[0].len()).map(stage).collect()))
    }

    fn rails(&self, port: usize) -> &[usize] {
        &self.rails[port]
    }
}
