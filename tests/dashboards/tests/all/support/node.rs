//! Two hosts with two GPUs each, and a job of four ranks on them that began before the first sample.

use super::{SECOND, TICK_SECONDS, TICKS, host, jobs, tick_time};
use throughline_sample::catalogue as c;
use throughline_sample::wire::{
    Batch, GpuInfo, GpuLinkInfo, GpuLinksSample, GpuPcieSample, GpuPmSample, HostPortSample, Job, JobRank,
    LinkValues, MpiAccountSums, MpiNodeAccount, MpiNodeCells, MpiOpCell, MpiPeerCell, MpiPvarSample,
    MpiRankBin, MpiRankPeers, Names, NodeInfo, RankGpu, SelfStat, Values,
};

pub const JOB: &str = "slurm:4711";
const NODES: [&str; 2] = ["n0", "n1"];
const GPUS_PER_NODE: u32 = 2;
const LINKS: u32 = 4;
const LINK_SPEED: u64 = 25_000_000_000;
const RANKS: u32 = 4;

pub fn batches(end: i64) -> Vec<Batch> {
    let mut batches = Vec::new();
    for (at, name) in NODES.iter().enumerate() {
        let node = u32::try_from(at).unwrap();
        batches.push(inventory(end, node, name));
        batches.extend(jobs::ended(end, node, name));
        batches.extend((0..TICKS).map(|tick| round(end, tick, node, name)));
        batches.extend(host::batches(end, node, name));
        batches.push(jobs::details(end, name, ranks_of(node)));
    }
    batches.extend((0..TICKS).map(|tick| server(end, tick)));
    batches
}

fn gpu(node: u32, index: u32) -> String {
    format!("GPU-0000000{node}-000{index}")
}

fn ranks_of(node: u32) -> std::ops::Range<u32> {
    node * RANKS / 2..(node + 1) * RANKS / 2
}

fn inventory(end: i64, node: u32, name: &str) -> Batch {
    let boot = end - 86_400 * SECOND;
    let start = end - 1200 * SECOND;
    let mut batch = Batch { node: name.to_owned(), ..Batch::default() };
    batch.nodes.push(NodeInfo {
        name: name.to_owned(),
        boot_id: format!("boot of {name}"),
        boot_time: boot,
        hca_guids: vec![0xc0 + u64::from(node)],
    });
    for index in 0..GPUS_PER_NODE {
        batch.gpus.push(GpuInfo {
            uuid: gpu(node, index),
            index,
            name: String::from("Test GPU"),
            pci_bus_id: format!("0000:{index:02x}:00.0"),
            source: String::from("nvml"),
            link_count: LINKS,
            nearest_hcas: vec![String::from("mlx5_0")],
            ..GpuInfo::default()
        });
        batch.gpu_link_infos.extend((0..LINKS).map(|link| GpuLinkInfo {
            gpu_uuid: gpu(node, index),
            link,
            active: true,
            speed_bytes_per_second: Some(LINK_SPEED),
            remote_type: String::from("gpu"),
            remote_gpu_uuid: gpu(node, 1 - index),
            remote_link: Some(link),
            ..GpuLinkInfo::default()
        }));
    }
    batch.jobs.push(Job {
        key: JOB.to_owned(),
        scheduler: String::from("slurm"),
        native_id: String::from("4711"),
        user: String::from("ada"),
        command: String::from("./solver"),
        start,
        world_size: RANKS,
        ..Job::default()
    });
    batch.job_ranks.extend(ranks_of(node).map(|rank| JobRank {
        job_key: JOB.to_owned(),
        rank,
        pid: 1000 + rank,
        world_size: RANKS,
        mpi_library: String::from("Open MPI v4.1.4"),
        start,
        host: name.to_owned(),
        gpus: vec![RankGpu {
            gpu_uuid: gpu(node, rank % GPUS_PER_NODE),
            evidence: String::from("driver"),
            first_seen: start,
            ..RankGpu::default()
        }],
        gpu_evidence: String::from("driver"),
        hca_ports: Some(Names { name: vec![String::from("mlx5_0/1")] }),
        cpus: format!("{}-{}", 8 * rank, 8 * rank + 7),
        ..JobRank::default()
    }));
    batch
}

fn round(end: i64, tick: i64, node: u32, name: &str) -> Batch {
    let time = tick_time(end, tick);
    let epoch = end - 1200 * SECOND;
    let mut batch = Batch { node: name.to_owned(), ..Batch::default() };
    for index in 0..GPUS_PER_NODE {
        let gpu_uuid = gpu(node, index);
        let source = String::from("nvml");
        let links =
            (0..LINKS).map(|link| LinkValues { link, values: Some(nvlink_values(tick, index, link)) });
        batch.gpu_links.push(GpuLinksSample {
            time,
            epoch,
            gpu_uuid: gpu_uuid.clone(),
            source: source.clone(),
            links: links.collect(),
        });
        let mut values = Values::default();
        values.put(&c::PCIE_TRANSMIT_BYTES, count(tick, 2_000_000_000 + u64::from(index)));
        values.put(&c::PCIE_RECEIVE_BYTES, count(tick, 3_000_000_000));
        batch.gpu_pcie.push(GpuPcieSample { time, epoch, gpu_uuid, source, values: Some(values) });
    }
    monitors(&mut batch, time, epoch, tick, node);
    for rank in ranks_of(node) {
        mpi(&mut batch, time, epoch, tick, rank);
    }
    batch.mpi_node_cells.push(account(time, epoch, ranks_of(node).len() as u64));
    for source in ["nvml", "mpi"] {
        for (metric, value) in [(&c::SOURCE_UP, 1.0), (&c::RECORDS, (tick + 1) as f64)] {
            let name = metric.name.to_owned();
            batch.self_stats.push(SelfStat {
                time,
                source: source.to_owned(),
                name,
                value,
                ..SelfStat::default()
            });
        }
    }
    let [records, _] = spool(time, tick);
    batch.self_stats.push(records);
    let (source, name) = (String::from("quarantine"), c::SPOOL_ENTRIES.name.to_owned());
    batch.self_stats.push(SelfStat { time, source, name, value: 0.0, ..SelfStat::default() });
    if node == 0 {
        // A server runs there, and has a replica.
        for (metric, value) in [(&c::REPLICA_LAG_SECONDS, 0.5), (&c::REPLICA_FALLBACKS, 0.0)] {
            let (source, name) = (String::from("query"), metric.name.to_owned());
            batch.self_stats.push(SelfStat { time, source, name, value, ..SelfStat::default() });
        }
        // Clocks are right.
        for (source, metric, value) in [
            ("delivery", &c::CLOCK_OFFSET_SECONDS, 0.1),
            ("collector", &c::SERVER_CLOCK_OFFSET_SECONDS, 0.0),
            ("clock", &c::EXPIRY_STOPPED, 0.0),
            ("clock", &c::DATABASE_CLOCK_OFF_SECONDS, 0.0),
        ] {
            let (source, name) = (source.to_owned(), metric.name.to_owned());
            batch.self_stats.push(SelfStat { time, source, name, value, ..SelfStat::default() });
        }
        // Each daemon counts from its start what it rejects.
        for (source, metric, label) in [
            ("mpi", &c::RECORDS_REJECTED, "time_past"),
            ("mpi", &c::MESSAGES_REJECTED, "malformed"),
            ("collector", &c::SENDER_RECORDS_REJECTED, "quota"),
            ("collector", &c::ENTRIES_REJECTED, "sender"),
            ("collector", &c::CONNECTIONS_REJECTED, "handshake_failed"),
            ("query", &c::REQUESTS_REJECTED, "token"),
            ("discovery", &c::DISCOVERIES_REJECTED, "truncated"),
            ("mad", &c::REPLIES_REJECTED, "contradiction"),
            ("export", &c::EXPORT_SAMPLES_REJECTED, "remote_write"),
        ] {
            let (source, label, name) = (source.to_owned(), label.to_owned(), metric.name.to_owned());
            batch.self_stats.push(SelfStat { time, source, label, name, value: 0.0 });
        }
    }
    batch
}

/// The adapter of a node that is not in [`NODES`].
pub fn host_port(time: i64, epoch: i64, tick: i64, node_guid: u64) -> HostPortSample {
    let mut values = Values::default();
    values.put(&c::PORT_DATA_TRANSMITTED_BYTES, count(tick, 1_000_000_000));
    values.put(&c::PORT_DATA_RECEIVED_BYTES, count(tick, 1_000_000_000));
    let (device, source) = (String::from("mlx5_0"), String::from("sysfs"));
    HostPortSample { time, epoch, device, port: 1, values: Some(values), node_guid, source, port_guid: 0 }
}

/// Internal metrics of a spool.
pub fn spool(time: i64, tick: i64) -> [SelfStat; 2] {
    let of = [(&c::RECORDS, "", (tick + 1) as f64), (&c::ENTRIES_DISCARDED, "disk_full", 0.0)];
    of.map(|(metric, label, value)| SelfStat {
        time,
        source: String::from("spool"),
        label: label.to_owned(),
        name: metric.name.to_owned(),
        value,
    })
}

/// Internal metrics of the server.
fn server(end: i64, tick: i64) -> Batch {
    let time = tick_time(end, tick);
    let stat = |source: &str, metric: &c::Metric, value: f64| SelfStat {
        time,
        source: source.to_owned(),
        name: metric.name.to_owned(),
        value,
        ..SelfStat::default()
    };
    let self_stats = vec![
        stat("collector", &c::SOURCE_UP, 1.0),
        SelfStat { label: "long-term".into(), ..stat("export", &c::EXPORT_RECEIVER_UP, 1.0) },
        stat("collector", &c::COMMITS, (tick + 1) as f64),
        stat("collector", &c::COMMIT_FAILURES, 0.0),
        stat("upkeep", &c::SOURCE_UP, 1.0),
        stat("upkeep", &c::DATABASE_BYTES, 2e7 + tick as f64 * 1e4),
    ];
    Batch { node: String::from("db0"), self_stats, ..Batch::default() }
}

/// What the performance monitors of the node's GPUs were sampled for: bursts of twice the mean.
fn monitors(batch: &mut Batch, time: i64, epoch: i64, tick: i64, node: u32) {
    for index in 0..GPUS_PER_NODE {
        let mut values = Values::default();
        for (sum, peak, rate) in [
            (&c::PM_NVLINK_TRANSMIT_BYTES, &c::PM_NVLINK_TRANSMIT_PEAK, 40_000_000_000),
            (&c::PM_NVLINK_RECEIVE_BYTES, &c::PM_NVLINK_RECEIVE_PEAK, 20_000_000_000),
            (&c::PM_PCIE_READ_BYTES, &c::PM_PCIE_READ_PEAK, 3_000_000_000),
            (&c::PM_PCIE_WRITE_BYTES, &c::PM_PCIE_WRITE_PEAK, 2_000_000_000),
        ] {
            values.put(sum, count(tick, rate));
            values.put(peak, 2 * rate);
        }
        values.put(&c::PM_SAMPLES, count(tick, 100));
        values.put(&c::PM_VOID_SAMPLES, 1);
        values.put(&c::PM_OVERFLOWS, 0);
        let (gpu_uuid, source) = (gpu(node, index), String::from("cupti"));
        batch.gpu_pm.push(GpuPmSample { time, epoch, gpu_uuid, source, values: Some(values) });
    }
}

/// A counter that has grown by this much a second for a minute before the first tick.
fn count(tick: i64, per_second: u64) -> u64 {
    (60 + tick * TICK_SECONDS).cast_unsigned() * per_second
}

fn nvlink_values(tick: i64, index: u32, link: u32) -> Values {
    let mut values = Values::default();
    let rate = u64::from(link + 1) * 5_000_000_000 + u64::from(index);
    values.put(&c::NVLINK_TRANSMIT_BYTES, count(tick, rate));
    values.put(&c::NVLINK_RECEIVE_BYTES, count(tick, rate / 2));
    for metric in [
        &c::NVLINK_REPLAY_ERRORS,
        &c::NVLINK_RECOVERY_ERRORS,
        &c::NVLINK_CRC_ERRORS,
        &c::NVLINK_RECOVERY_FAILURES,
        &c::NVLINK_EFFECTIVE_BER,
    ] {
        values.put(metric, 0);
    }
    if tick % 10 == 0 {
        // One poll of ten reads these.
        for metric in [&c::NVLINK_SYMBOL_ERRORS, &c::NVLINK_FEC_CORRECTED_BLOCKS] {
            values.put(metric, tick.cast_unsigned());
        }
        values.put(&c::NVLINK_EFFECTIVE_ERRORS, 0);
    }
    values.put(&c::NVLINK_SPEED_BYTES_PER_SECOND, LINK_SPEED);
    values.put(&c::NVLINK_UP, 1);
    values
}

/// Where the time of the node's ranks went: half of it computing.
fn account(time: i64, epoch: i64, ranks: u64) -> MpiNodeCells {
    let percent = |part: u64| (time - epoch).unsigned_abs() / 100 * part * ranks;
    let grown = MpiAccountSums {
        elapsed_nanoseconds: percent(100),
        mpi_nanoseconds: percent(30),
        off_outside_nanoseconds: percent(20),
        queued_outside_nanoseconds: percent(5),
        file_nanoseconds: percent(15),
        ..MpiAccountSums::default()
    };
    MpiNodeCells {
        time,
        epoch,
        job_key: JOB.to_owned(),
        since: time - 10 * SECOND,
        source: String::from("pmpi"),
        account: Some(MpiNodeAccount { grown: Some(grown), ..MpiNodeAccount::default() }),
        ..MpiNodeCells::default()
    }
}

fn mpi(batch: &mut Batch, time: i64, epoch: i64, tick: i64, rank: u32) {
    let (job_key, source) = (JOB.to_owned(), String::from("pmpi"));
    let cell = |operation: &str, size_class_bytes: u64, calls: u64, nanoseconds: u64| MpiOpCell {
        operation: operation.to_owned(),
        size_class_bytes,
        calls: count(tick, calls),
        bytes: count(tick, calls) * size_class_bytes,
        elapsed_nanoseconds: count(tick, calls) * nanoseconds,
        longest_nanoseconds: nanoseconds * 50,
        received_bytes: Some(count(tick, calls) * size_class_bytes),
        ..MpiOpCell::default()
    };
    batch.mpi_ops.push(MpiRankBin {
        time,
        epoch,
        job_key: job_key.clone(),
        rank,
        source: source.clone(),
        cells: vec![
            cell("allreduce", 8192, 100, 2_000_000),
            cell("allreduce", 64, 200, 500_000),
            cell("isend", 1 << 20, 50, 100_000),
            cell("waitall", 0, 50, 3_000_000),
        ],
    });
    let peer = |peer: u32| MpiPeerCell {
        peer,
        bytes: count(tick, u64::from(rank + peer) * 1_000_000),
        messages: count(tick, 10),
    };
    batch.mpi_peers.push(MpiRankPeers {
        time,
        epoch,
        job_key: job_key.clone(),
        rank,
        kind: String::from("logical"),
        source: source.clone(),
        cells: (0..RANKS).filter(|other| *other != rank).map(peer).collect(),
        is_whole: true,
    });
    batch.mpi_pvars.extend((0..RANKS).map(|element| MpiPvarSample {
        time,
        job_key: job_key.clone(),
        rank,
        name: String::from("pml_ob1_unexpected_msgq_length"),
        element,
        value: (tick % 7) as f64,
        source: String::from("mpit"),
        variable_class: String::from("level"),
    }));
}
