//! The clusters, and their jobs.

use clap::ValueEnum;

/// Which cluster.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Name {
    /// The papers': 1,428 nodes of 32 ranks in 200 mixed jobs, 4,830 ports read each second, 160 nodes with 4 GPUs of 6 links
    A,
    /// For AI: 1,000 nodes of 8 ranks, 8 GPUs of 18 links and 8 rails, in 50 jobs
    B,
    /// Large: 8,008 nodes of 32 ranks in 400 jobs
    C,
    /// Looked at: 1,400 nodes of 64 ranks in 9 jobs
    D,
    /// Many small jobs: 5,000 of 8 ranks on 2 nodes each, without adapters and GPUs
    E,
    /// One job: 1,428 nodes of 32 ranks, without adapters and GPUs
    F,
}

/// What a cluster has.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// Nodes with an agent.
    pub nodes: u64,
    /// Ranks of each.
    pub ranks: u32,
    /// Jobs that run.
    pub jobs: u64,
    /// Ends of the fabric's cables.
    pub ports: u64,
    /// Seconds from one reading of a port to the next.
    pub port_seconds: f64,
    /// Nodes with GPUs.
    pub gpu_nodes: u64,
    /// GPUs of such a node.
    pub gpus: u32,
    /// Links of each.
    pub links: u32,
    /// Adapters of a node, of one port each.
    pub adapters: u32,
    /// Its jobs have the same number of nodes.
    pub is_even: bool,
    /// Its ranks report where their time went.
    pub has_account: bool,
}

impl Cluster {
    /// The cluster, its numbers divided by `scale`.
    pub fn new(name: Name, scale: u64) -> Self {
        let part = |number: u64| number.div_ceil(scale);
        let all = match name {
            Name::A => Self {
                nodes: 1428,
                ranks: 32,
                jobs: 200,
                ports: 4830,
                port_seconds: 1.0,
                gpu_nodes: 160,
                gpus: 4,
                links: 6,
                adapters: 1,
                is_even: false,
                has_account: true,
            },
            Name::B => Self {
                nodes: 1000,
                ranks: 8,
                jobs: 50,
                ports: 32_000,
                port_seconds: 5.0,
                gpu_nodes: 1000,
                gpus: 8,
                links: 18,
                adapters: 8,
                is_even: false,
                has_account: true,
            },
            Name::C => Self {
                nodes: 8008,
                ranks: 32,
                jobs: 400,
                ports: 29_768,
                port_seconds: 5.0,
                gpu_nodes: 0,
                gpus: 0,
                links: 0,
                adapters: 1,
                is_even: false,
                has_account: true,
            },
            Name::D => Self {
                nodes: 1400,
                ranks: 64,
                jobs: 9,
                ports: 2800,
                port_seconds: 5.0,
                gpu_nodes: 0,
                gpus: 0,
                links: 0,
                adapters: 1,
                is_even: false,
                has_account: true,
            },
            Name::E => Self {
                nodes: 10_000,
                ranks: 4,
                jobs: 5000,
                ports: 2,
                port_seconds: 60.0,
                gpu_nodes: 0,
                gpus: 0,
                links: 0,
                adapters: 0,
                is_even: true,
                has_account: true,
            },
            Name::F => Self {
                nodes: 1428,
                ranks: 32,
                jobs: 1,
                ports: 2,
                port_seconds: 60.0,
                gpu_nodes: 0,
                gpus: 0,
                links: 0,
                adapters: 0,
                is_even: true,
                has_account: true,
            },
        };
        let nodes = part(all.nodes);
        let ports = part(all.ports).max(2 * nodes * u64::from(all.adapters));
        Self {
            nodes,
            ports: ports / 2 * 2,
            jobs: part(all.jobs).min(nodes),
            gpu_nodes: if all.gpu_nodes == 0 { 0 } else { part(all.gpu_nodes) },
            ..all
        }
    }

    /// GPUs of all nodes.
    pub fn all_gpus(&self) -> u64 {
        self.gpu_nodes * u64::from(self.gpus)
    }

    /// Nodes of each job, the largest first: where it is not even, one job in 25 has 64 shares, others 16, 4, 2 and 1.
    pub fn job_nodes(&self) -> Vec<u64> {
        const SHARES: [u64; 25] =
            [64, 16, 16, 16, 16, 4, 4, 4, 4, 4, 4, 4, 4, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1];
        let places = 0..usize::try_from(self.jobs).unwrap_or(usize::MAX);
        let shares: Vec<u64> =
            places.map(|job| if self.is_even { 1 } else { SHARES[job % SHARES.len()] }).collect();
        let all: u64 = shares.iter().sum();
        let mut sizes: Vec<u64> = shares.iter().map(|share| (share * self.nodes / all).max(1)).collect();
        sizes.sort_unstable_by_key(|size| std::cmp::Reverse(*size));
        // What rounding took or gave.
        let mut at = 0;
        while sizes.iter().sum::<u64>() < self.nodes {
            sizes[at] += 1;
            at = (at + 1) % sizes.len();
        }
        while sizes.iter().sum::<u64>() > self.nodes {
            if let Some(largest) = sizes.iter_mut().max() {
                *largest -= 1;
            }
        }
        sizes
    }
}
