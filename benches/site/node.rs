//! One node: its inventory, and what its agent sends each second.

use super::cluster::Cluster;
use super::ranks::{Ranks, SAMPLED, SECOND};
use crate::load::{HOST_PORT_METRICS, Load, NVLINK_METRICS, mix, record};
use std::time::Duration;
use throughline_agent::rounds::Rounds;
use throughline_sample::catalogue::{
    MPI_BYTES, MPI_CALLS, MPI_ELAPSED_SECONDS, MPI_LEAST_SECONDS, MPI_RECEIVED_BYTES, MPI_WAIT_SECONDS,
    Metric, PCIE_RECEIVE_BYTES, PCIE_TRANSMIT_BYTES,
};
use throughline_sample::wire::{
    Batch, Coverage, GpuInfo, GpuLinkInfo, GpuLinksSample, GpuPcieSample, HostPortSample, LinkValues,
    NodeInfo, RowRules, SelfStat,
};

/// An HDR port and an NVLink 2, one direction.
const PORT_RATE: u64 = 25_000_000_000;
const LINK_RATE: u64 = 25_781_250_000;

/// Default interval of an agent's sources.
const INTERVAL: Duration = Duration::from_secs(1);

/// Metrics of an agent about itself, counted on one: all of them once a minute, and those that change half a minute later.
const OWN: u64 = 45;
const OWN_CHANGING: u64 = 9;

/// And those of its totals of MPI, which change all the time: of each operation.
const MPI_TOTALS: [&Metric; 6] = [
    &MPI_CALLS,
    &MPI_BYTES,
    &MPI_ELAPSED_SECONDS,
    &MPI_WAIT_SECONDS,
    &MPI_RECEIVED_BYTES,
    &MPI_LEAST_SECONDS,
];
const MPI_OPERATIONS: [&str; 5] = ["allreduce", "isend", "irecv", "waitall", "bcast"];

/// Node GUIDs of adapters.
pub fn adapter_guid(node: u64, adapter: u32) -> u64 {
    0x0c42_a103_0000_0000 | node << 8 | u64::from(adapter)
}

struct Gpu {
    uuid: String,
    links: Vec<Load>,
    pcie: Load,
}

/// A node and its agent.
pub struct Node {
    /// n0 and so on.
    pub name: String,
    number: u64,
    begin: i64,
    /// Ranks that run here.
    pub ranks: Ranks,
    ports: Vec<Load>,
    gpus: Vec<Gpu>,
    rounds: Rounds,
    order: u64,
}

impl Node {
    /// The node of this number, which has counted since `begin`, UTC nanoseconds.
    pub fn new(number: u64, cluster: &Cluster, ranks: Ranks, begin: i64) -> Self {
        let adapters = u64::from(cluster.adapters);
        let ports = (0..adapters).map(|port| Load::new(number * adapters + port, PORT_RATE)).collect();
        let gpu = |gpu: u64| {
            let first = 1_000_000 + (number * 64 + gpu) * 32;
            Gpu {
                uuid: format!("GPU-{number:08x}-0000-4000-8000-{gpu:012x}"),
                links: (0..u64::from(cluster.links)).map(|link| Load::new(first + link, LINK_RATE)).collect(),
                pcie: Load::new(first + 31, 31_000_000_000),
            }
        };
        let gpus = if number < cluster.gpu_nodes { cluster.gpus } else { 0 };
        Self {
            name: format!("n{number}"),
            number,
            begin,
            ranks,
            ports,
            gpus: (0..u64::from(gpus)).map(gpu).collect(),
            rounds: Rounds::default(),
            order: 0,
        }
    }

    /// Signs a batch.
    pub fn sign(&mut self, batch: &mut Batch) {
        self.order += 1;
        batch.node.clone_from(&self.name);
        batch.boot_id = "bench".into();
        batch.order = self.order;
    }

    /// What exists here: the first batch.
    pub fn inventory(&mut self) -> Batch {
        let mut batch = Batch::default();
        batch.nodes.push(NodeInfo {
            name: self.name.clone(),
            boot_id: "bench".into(),
            boot_time: self.begin - 3600 * SECOND,
            hca_guids: (0u32..).zip(&self.ports).map(|(port, _)| adapter_guid(self.number, port)).collect(),
        });
        for (index, gpu) in (0u32..).zip(&self.gpus) {
            batch.gpus.push(GpuInfo {
                uuid: gpu.uuid.clone(),
                index,
                name: "GPU".into(),
                pci_bus_id: format!("00000000:{:02x}:00.0", 16 + index),
                source: "nvml".into(),
                link_count: u32::try_from(gpu.links.len()).unwrap_or(0),
                ..GpuInfo::default()
            });
            batch.gpu_link_infos.extend((0u32..).zip(&gpu.links).map(|(link, _)| GpuLinkInfo {
                gpu_uuid: gpu.uuid.clone(),
                link,
                active: true,
                version: Some(2),
                speed_bytes_per_second: Some(LINK_RATE),
                remote_type: "gpu".into(),
                ..GpuLinkInfo::default()
            }));
        }
        self.ranks.announce(&self.name, &mut batch);
        self.sign(&mut batch);
        batch
    }

    /// What it sends at this whole second; one in so many of its ranks pushes, in turns.
    pub fn second_of(&mut self, turns: u64, time: i64, now: i64) -> Batch {
        let mut batch = Batch::default();
        self.ranks.push_of(turns, time, now, &mut batch);
        if ((time / SECOND).unsigned_abs() + self.number).is_multiple_of(SAMPLED) {
            batch.mpi_sampled_calls.push(self.ranks.sampled(time));
        }
        self.self_stats(time, &mut batch);
        self.sign(&mut batch);
        batch
    }

    /// What it sends at this whole second.
    pub fn second(&mut self, time: i64, now: i64, is_push: bool) -> Batch {
        let mut batch = Batch::default();
        let seconds = time as f64 / 1e9;
        // Reads come within a moment of their tick.
        let read = time + i64::try_from(mix(self.number ^ time.unsigned_abs()) % 4_000_000).unwrap_or(0);
        for (number, load) in (0u32..).zip(&mut self.ports) {
            load.pass(seconds, 1.0);
            batch.host_ports.push(HostPortSample {
                time: read,
                epoch: self.begin,
                device: format!("mlx5_{number}"),
                port: 1,
                values: record(&HOST_PORT_METRICS, &load.port_values()),
                node_guid: adapter_guid(self.number, number),
                port_guid: adapter_guid(self.number, number) + 1,
                source: "sysfs".into(),
            });
        }
        if !self.ports.is_empty() {
            batch.coverage.push(round("sysfs", time, self.ports.len()));
        }
        for gpu in &mut self.gpus {
            read_gpu(gpu, (read, self.begin), seconds, &mut batch);
        }
        if !self.gpus.is_empty() {
            batch.coverage.push(round("nvml", time, self.gpus.len()));
        }
        // As the agent's batcher does.
        batch.coverage.iter_mut().for_each(|round| round.row_rules = Some(RowRules::unthinned(INTERVAL)));
        self.rounds.take(&mut batch);
        if is_push {
            self.ranks.push(time, now, &mut batch);
        }
        if ((time / SECOND).unsigned_abs() + self.number).is_multiple_of(SAMPLED) {
            batch.mpi_sampled_calls.push(self.ranks.sampled(time));
        }
        self.self_stats(time, &mut batch);
        self.sign(&mut batch);
        batch
    }

    /// Readings of its GPUs' links alone, at this time.
    pub fn links(&mut self, time: i64) -> Batch {
        let mut batch = Batch::default();
        for gpu in &mut self.gpus {
            read_gpu(gpu, (time, self.begin), time as f64 / 1e9, &mut batch);
        }
        batch.gpu_pcie.clear();
        self.sign(&mut batch);
        batch
    }

    fn self_stats(&self, time: i64, batch: &mut Batch) {
        // Nodes began at different times.
        let second = (time / SECOND).unsigned_abs() + self.number;
        let count = match second {
            second if second.is_multiple_of(60) => OWN,
            second if second.is_multiple_of(30) => OWN_CHANGING,
            _ => return,
        };
        // A clock that a time daemon keeps.
        batch.clock_error_nanoseconds = Some(20_000);
        batch.self_stats.extend((0..count).map(|number| SelfStat {
            time,
            source: ["delivery", "spool", "mpi", "sysfs"][usize::try_from(number % 4).unwrap_or(0)].into(),
            name: format!("records_{number}"),
            value: (second * (number + 1)) as f64,
            ..SelfStat::default()
        }));
        for operation in MPI_OPERATIONS {
            batch.self_stats.extend(MPI_TOTALS.map(|metric| SelfStat {
                time,
                source: "mpi".into(),
                label: operation.into(),
                name: metric.self_metric_name(),
                value: (second * 1000) as f64,
            }));
        }
    }
}

fn read_gpu(gpu: &mut Gpu, (read, begin): (i64, i64), seconds: f64, batch: &mut Batch) {
    let links = (0u32..).zip(&mut gpu.links).map(|(link, load)| {
        load.pass(seconds, 1.0);
        LinkValues { link, values: record(&NVLINK_METRICS, &load.link_values()) }
    });
    batch.gpu_links.push(GpuLinksSample {
        time: read,
        epoch: begin,
        gpu_uuid: gpu.uuid.clone(),
        source: "nvml".into(),
        links: links.collect(),
    });
    gpu.pcie.pass(seconds, 1.0);
    batch.gpu_pcie.push(GpuPcieSample {
        time: read,
        epoch: begin,
        gpu_uuid: gpu.uuid.clone(),
        source: "nvml".into(),
        values: record(&[&PCIE_TRANSMIT_BYTES, &PCIE_RECEIVE_BYTES], &gpu.pcie.bytes()),
    });
}

/// A round of a source that has read all.
pub fn round(source: &str, time: i64, read: usize) -> Coverage {
    let read = read as u64;
    Coverage {
        time,
        source: source.into(),
        expected: read,
        read,
        elapsed_seconds: 0.02,
        ..Coverage::default()
    }
}

/// The nodes of a cluster with their jobs.
pub fn nodes(cluster: &Cluster, begin: i64) -> Vec<Node> {
    let mut nodes = Vec::new();
    for (job, size) in (1u64..).zip(cluster.job_nodes()) {
        let world = cluster.ranks * u32::try_from(size).unwrap_or(u32::MAX);
        for place in 0..size {
            let first = cluster.ranks * u32::try_from(place).unwrap_or(u32::MAX);
            let mut ranks = Ranks::new(job, first, cluster.ranks, world, begin);
            ranks.has_account = cluster.has_account;
            nodes.push(Node::new(nodes.len() as u64, cluster, ranks, begin));
        }
    }
    nodes
}
