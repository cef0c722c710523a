//! The seed with everything driven that an alert is for, each thing once and from a known tick on.

use super::{SECOND, Seed, TICK_SECONDS, TICKS, node, tick_time};
use throughline_sample::catalogue::{self as c, Metric};
use throughline_sample::wire::{Batch, Event, Job, JobRank, NodeInfo, Values};

/// A job over the spine: on n0 of leaf 1 and n5 of leaf 2.
pub const TRUNK_JOB: &str = "slurm:4712";

/// What the trouble of an inventory or a daemon begins with.
pub const TROUBLE: i64 = 20;
/// A link's or a source's own trouble.
pub const LATE_TROUBLE: i64 = 40;

/// The tick of a sample.
fn tick_of(seed_end: i64, time: i64) -> i64 {
    TICKS - 1 - (seed_end - time) / (TICK_SECONDS * SECOND)
}

/// Replaces a value.
fn set(values: &mut Option<Values>, metric: &Metric, value: u64) {
    let values = values.get_or_insert_default();
    match values.metric.iter().position(|id| *id == metric.id) {
        Some(at) => values.value[at] = value,
        None => values.put(metric, value),
    }
}

impl Seed {
    /// The usual seed with its troubles.
    pub fn driven() -> Self {
        let mut seed = Self::make();
        let end = seed.end;
        for batch in &mut seed.batches {
            ports(batch, end);
            gpus(batch, end);
            daemons(batch, end);
        }
        let topology = seed.batches.iter().find(|batch| !batch.ib_topology_marks.is_empty()).unwrap().clone();
        seed.batches.push(without_host_7(topology, end));
        seed.batches.push(degraded(end));
        seed.batches.extend(node_5(end));
        seed
    }
}

fn ports(batch: &mut Batch, end: i64) {
    for sample in &mut batch.ib_ports {
        let tick = tick_of(end, sample.time).cast_unsigned();
        let values = &mut sample.values;
        match (sample.node_guid, sample.port) {
            // Half of the time, in ticks of 64 bytes of EDR.
            (0xa2, 1) => set(values, &c::TRANSMIT_WAIT, tick * 10 * 12_121_212_121 / 128),
            // 6,000 symbol errors; IBTA allows 350 in an hour.
            (0xc4, 1) => set(values, &c::SYMBOL_ERROR, tick * 100),
            (0xc5, 1) => set(values, &c::FEC_CORRECTED_SYMBOLS, tick * 1_000_000_000),
            (0xa1, 3) => set(values, &c::LINK_DOWNED, tick.saturating_sub(TROUBLE as u64).min(4)),
            _ => {}
        }
    }
}

fn gpus(batch: &mut Batch, end: i64) {
    let is_gone = |gpu: &str, time| gpu == "GPU-00000001-0001" && tick_of(end, time) >= TROUBLE;
    batch.gpu_links.retain(|sample| !is_gone(&sample.gpu_uuid, sample.time));
    batch.gpu_pcie.retain(|sample| !is_gone(&sample.gpu_uuid, sample.time));
    for sample in &mut batch.gpu_links {
        let tick = tick_of(end, sample.time);
        for link in &mut sample.links {
            let values = &mut link.values;
            match (sample.gpu_uuid.as_str(), link.link) {
                ("GPU-00000001-0000", 2) => {
                    set(values, &c::NVLINK_TRANSMIT_BYTES, (60 + tick * 10).cast_unsigned() * 24_000_000_000)
                }
                ("GPU-00000000-0001", 1) => set(values, &c::NVLINK_REPLAY_ERRORS, tick.cast_unsigned()),
                ("GPU-00000001-0000", 0) if tick >= TROUBLE => {
                    set(values, &c::NVLINK_EFFECTIVE_BER, 5_000_000)
                }
                ("GPU-00000000-0000", 2) if tick >= LATE_TROUBLE => set(values, &c::NVLINK_UP, 0),
                _ => {}
            }
        }
    }
}

fn daemons(batch: &mut Batch, end: i64) {
    let node = batch.node.clone();
    let is_silent = |source: &str, name: &str, time| {
        node == "n1" && source == "nvml" && name == c::SOURCE_UP.name && tick_of(end, time) >= TROUBLE
    };
    batch.self_stats.retain(|stat| !is_silent(&stat.source, &stat.name, stat.time));
    for stat in batch.self_stats.iter_mut().filter(|_| node == "n0") {
        let tick = tick_of(end, stat.time);
        if stat.source == "mpi" && stat.name == c::SOURCE_UP.name && tick >= TROUBLE {
            stat.value = 0.0;
        }
        if stat.source == "spool" && stat.name == c::ENTRIES_DISCARDED.name && tick >= LATE_TROUBLE {
            stat.value = 7.0;
        }
        if stat.name == c::RECORDS_REJECTED.name && tick >= LATE_TROUBLE {
            stat.value = 13.0;
        }
        // The replica of the server there falls behind.
        if stat.name == c::REPLICA_LAG_SECONDS.name && tick >= TROUBLE {
            stat.value = 25.0;
        }
        if stat.name == c::REPLICA_FALLBACKS.name {
            stat.value = (tick - TROUBLE).max(0) as f64;
        }
        // Its batches of another name are refused.
        if stat.source == "quarantine" && tick >= TROUBLE {
            stat.value = 3.0;
        }
    }
}

/// The topology once more, without host 7 on port 4 of leaf 2.
fn without_host_7(mut batch: Batch, end: i64) -> Batch {
    let generation = tick_time(end, LATE_TROUBLE);
    batch.ib_nodes.retain(|node| node.guid != 0xc7);
    for node in &mut batch.ib_nodes {
        node.generation = generation;
        for port in node.ports.iter_mut().filter(|port| port.remote_guid == Some(0xc7)) {
            (port.remote_guid, port.remote_port) = (None, None);
            (port.state, port.physical_state) = (String::from("Down"), String::from("Polling"));
            port.rate_bytes_per_second = 0;
        }
    }
    for mark in &mut batch.ib_topology_marks {
        (mark.generation, mark.time, mark.nodes, mark.links) =
            (generation, generation, mark.nodes - 1, mark.links - 1);
    }
    batch
}

/// The crawler's word about the cable from spine 2 to leaf 2.
fn degraded(end: i64) -> Batch {
    let event = Event {
        time: tick_time(end, TROUBLE),
        source: String::from("discovery"),
        kind: String::from("link.width_degraded"),
        severity: String::from("warning"),
        text: String::from("leaf 2 port 6 - spine 2 port 2: 1xEDR, and could be 4xEDR"),
        ib_guid: 0xa2,
        ib_port: 6,
        remote_ib_guid: 0xb2,
        remote_ib_port: 2,
        ..Event::default()
    };
    Batch {
        fabric: throughline_store::testing::fabric(0xfe80_0000_0000_0000),
        events: vec![event],
        ..Batch::default()
    }
}

/// A node that runs a part of a job and dies.
fn node_5(end: i64) -> Vec<Batch> {
    let name = || String::from("n5");
    let start = end - 1200 * SECOND;
    let mut first = Batch { node: name(), ..Batch::default() };
    first.nodes.push(NodeInfo {
        name: name(),
        boot_id: String::from("boot of n5"),
        boot_time: end - 86_400 * SECOND,
        hca_guids: vec![0xc5],
    });
    let job = Job {
        key: TRUNK_JOB.to_owned(),
        scheduler: String::from("slurm"),
        native_id: String::from("4712"),
        user: String::from("bob"),
        start,
        world_size: 2,
        ..Job::default()
    };
    let rank = |host: &str, rank: u32| JobRank {
        job_key: TRUNK_JOB.to_owned(),
        rank,
        pid: 2000 + rank,
        world_size: 2,
        start,
        host: host.to_owned(),
        ..JobRank::default()
    };
    (first.jobs, first.job_ranks) = (vec![job.clone()], vec![rank("n5", 1)]);
    let here = Batch {
        node: String::from("n0"),
        jobs: vec![job],
        job_ranks: vec![rank("n0", 0)],
        ..Batch::default()
    };
    let mut batches = vec![first, here];
    batches.extend((0..TROUBLE).map(|tick| {
        let time = tick_time(end, tick);
        let host_ports = vec![node::host_port(time, start, tick, 0xc5)];
        Batch { node: name(), host_ports, self_stats: node::spool(time, tick).into(), ..Batch::default() }
    }));
    batches
}
