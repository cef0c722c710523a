//! A small site: two leaf switches under a spine, an aggregation node on it, three hosts, and what they did.

use throughline_sample::catalogue::*;
use throughline_sample::wire::*;
use throughline_store::{Content, Database, Entry, Sender, Writer, testing};

pub const SECOND: i64 = 1_000_000_000;

/// 2026-01-01T00:00:00Z, milliseconds: the discovery. Rows begin with it.
pub const START_MS: i64 = 1_767_225_600_000;

pub const SUBNET: &str = "0xfe80000000000000";
const PREFIX: u64 = 0xfe80_0000_0000_0000;

/// Node GUIDs: leaves, the spine, the aggregation node, adapters of `n2`, `n10` and of a host without an agent.
pub const LEAF_1: u64 = 0x11;
pub const LEAF_2: u64 = 0x12;
pub const SPINE: u64 = 0x21;
const AGGREGATION: u64 = 0x31;
pub const N2: u64 = 0x102;
pub const N10: u64 = 0x110;
pub const STRANGER: u64 = 0x1ff;

/// HDR: 200 Gbit/s.
pub const SPEED: u64 = 25_000_000_000;

/// Cables by GUID and port of both ends.
const CABLES: [(u64, u32, u64, u32); 6] = [
    (N2, 1, LEAF_1, 1),
    (N10, 1, LEAF_1, 2),
    (STRANGER, 1, LEAF_2, 1),
    (LEAF_1, 3, SPINE, 1),
    (LEAF_2, 3, SPINE, 2),
    (AGGREGATION, 1, SPINE, 3),
];

/// A GUID as text.
pub fn guid(guid: u64) -> String {
    format!("0x{guid:016x}")
}

/// Writes batches of one sender, in order, each in a transaction of its own.
pub async fn write(database: &Database, spool: u128, batches: Vec<Batch>) {
    let mut writer = Writer::new(database.clone());
    for (place, batch) in batches.into_iter().enumerate() {
        let entry = Entry {
            spool_id: uuid::Uuid::from_u128(spool),
            sequence: place as u64 + 1,
            content: Content::Batch(batch),
            sender: Sender::default(),
        };
        let outcome = writer.write(&[entry]).await.unwrap();
        assert_eq!((outcome.quarantined, outcome.unknown_values), (0, 0));
    }
}

/// Nanoseconds of a time so many seconds after the start.
pub fn at(seconds: i64) -> i64 {
    START_MS * 1_000_000 + seconds * SECOND
}

pub fn values(pairs: &[(&'static Metric, u64)]) -> Option<Values> {
    let mut values = Values::default();
    for (metric, value) in pairs {
        values.put(metric, *value);
    }
    Some(values)
}

fn ib_node(guid: u64, kind: &str, description: &str, lid: u32, without: &[(u64, u32)]) -> IbNodeInfo {
    let mut ports = Vec::new();
    for (a, port_a, b, port_b) in CABLES {
        for (own, port, other, other_port) in [(a, port_a, b, port_b), (b, port_b, a, port_a)] {
            if own != guid {
                continue;
            }
            let is_up = !without.contains(&(own, port)) && !without.contains(&(other, other_port));
            ports.push(IbPortInfo {
                port,
                port_guid: guid + 0x1000,
                lid,
                state: if is_up { "Active" } else { "Down" }.into(),
                width: "4x".into(),
                speed: "50.0 Gbps".into(),
                rate_bytes_per_second: if is_up { SPEED } else { 0 },
                remote_guid: is_up.then_some(other),
                remote_port: is_up.then_some(other_port),
                physical_state: if is_up { "LinkUp" } else { "Polling" }.into(),
                ..IbPortInfo::default()
            });
        }
    }
    // LID i leaves by the port of this entry: the leaves send down what is theirs and all else up.
    let linear_forwarding_table = match guid {
        LEAF_1 => vec![255, 0, 3, 3, 3, 1, 2, 3],
        LEAF_2 => vec![255, 3, 0, 3, 3, 3, 3, 1],
        SPINE => vec![255, 1, 2, 0, 3, 1, 1, 2],
        _ => Vec::new(),
    };
    IbNodeInfo {
        generation: 0,
        guid,
        r#type: kind.into(),
        description: description.into(),
        lid,
        device_id: if guid == AGGREGATION { 0xCF09 } else { 0x1017 },
        vendor_id: 0x15b3,
        system_guid: guid,
        port_count: ports.len() as u32,
        ports,
        linear_forwarding_table,
        ..IbNodeInfo::default()
    }
}

/// The fabric as a discovery at `seconds` finds it, without some cables.
pub fn discovery(seconds: i64, without: &[(u64, u32)]) -> Batch {
    let generation = at(seconds);
    let mut nodes = vec![
        ib_node(LEAF_1, "switch", "leaf1", 1, without),
        ib_node(LEAF_2, "switch", "leaf2", 2, without),
        ib_node(SPINE, "switch", "spine", 3, without),
        ib_node(AGGREGATION, "ca", "Mellanox Technologies Aggregation Node", 4, without),
        ib_node(N2, "ca", "n2 mlx5_0", 5, without),
        ib_node(N10, "ca", "n10 mlx5_0", 6, without),
        ib_node(STRANGER, "ca", "", 7, without),
    ];
    nodes.iter_mut().for_each(|node| node.generation = generation);
    let mark = IbTopologyMark { generation, time: generation, nodes: 7, links: 6 };
    Batch {
        fabric: throughline_store::testing::fabric(PREFIX),
        ib_nodes: nodes,
        ib_topology_marks: vec![mark],
        ..Batch::default()
    }
}

/// Hosts with an agent.
pub fn hosts() -> Batch {
    let host = |name: &str, guid| NodeInfo {
        name: name.into(),
        boot_id: "b".into(),
        boot_time: at(-3600),
        hca_guids: vec![guid],
    };
    Batch {
        node: "n2".into(),
        nodes: vec![host("n2", N2), host("n10", N10)],
        coverage: vec![round("sysfs", 0, 1, 1)],
        ..Batch::default()
    }
}

fn round(source: &str, seconds: i64, expected: u64, read: u64) -> Coverage {
    Coverage {
        time: at(seconds),
        source: source.into(),
        expected,
        read,
        failed: expected - read,
        elapsed_seconds: 0.0,
        ..Coverage::default()
    }
}

/// What a port sent and received until a time.
pub struct Port {
    pub guid: u64,
    pub port: u32,
    pub sent: u64,
    pub received: u64,
    pub waited: u64,
    pub errors: u64,
}

/// A sweep that read these ports, and whether some did not answer.
pub fn sweep(seconds: i64, epoch: i64, ports: &[Port], failed: u64) -> Batch {
    let sample = |port: &Port| IbPortSample {
        time: at(seconds),
        epoch: at(epoch),
        node_guid: port.guid,
        port: port.port,
        values: values(&[
            (&TRANSMIT_DATA_BYTES, port.sent),
            (&RECEIVE_DATA_BYTES, port.received),
            (&TRANSMIT_WAIT, port.waited),
            (&TRANSMIT_WAIT_TICK_BYTES, 8),
            (&SYMBOL_ERROR, port.errors),
            (&RECEIVE_ERRORS, port.errors),
            (&PORT_RATE_BYTES_PER_SECOND, SPEED),
        ]),
        saturated: vec![],
        source: "mad".into(),
    };
    Batch {
        fabric: throughline_store::testing::fabric(PREFIX),
        ib_ports: ports.iter().map(sample).collect(),
        coverage: vec![round("mad", seconds, 11, 11 - failed)],
        ..Batch::default()
    }
}

/// The fabric with its hosts, and nothing that happened.
pub async fn fabric() -> Database {
    let database = testing::database().await;
    write(&database, 1, vec![discovery(0, &[])]).await;
    write(&database, 2, vec![hosts()]).await;
    database
}

/// A job of ranks, two on each host: `slurm:NUMBER.0@1000`. Times in seconds; `end` in none of those that run.
pub struct Run {
    pub number: u32,
    pub user: &'static str,
    pub start: i64,
    pub end: Option<i64>,
    pub hosts: Vec<&'static str>,
}

pub fn key(number: u32) -> String {
    format!("slurm:{number}.0@1000")
}

/// The batch in which the hosts of a job report it and its ranks.
pub fn run(run: &Run) -> Batch {
    let world = run.hosts.len() as u32 * 2;
    let end = run.end.map_or(0, at);
    let job = Job {
        key: key(run.number),
        scheduler: "slurm".into(),
        native_id: run.number.to_string(),
        step: "0".into(),
        uid: 1000,
        user: run.user.into(),
        command: "./solve".into(),
        start: at(run.start),
        end,
        world_size: world,
        name: format!("name{}", run.number),
        seen: at(run.end.unwrap_or(run.start)),
        ..Job::default()
    };
    let gpu = |uuid: &str, since: i64| RankGpu {
        gpu_uuid: uuid.into(),
        evidence: "driver".into(),
        first_seen: since,
        ..RankGpu::default()
    };
    let rank = |rank: u32| JobRank {
        job_key: key(run.number),
        rank,
        pid: 100 + rank,
        world_size: world,
        mpi_library: "Open MPI 4.1.4".into(),
        start: at(run.start),
        end,
        ending: if run.end.is_some() { "clean" } else { "" }.into(),
        host: run.hosts[rank as usize / 2].into(),
        gpus: (rank == 0).then(|| gpu("GPU-a", at(run.start))).into_iter().collect(),
        gpu_evidence: if rank == 0 { "driver".into() } else { String::new() },
        visible_devices: None,
        hca_ports: Some(Names { name: vec!["mlx5_0/1".into()] }),
        cpus: if rank == 0 { "0-3".into() } else { String::new() },
        numa_nodes: vec![0],
        hca_numa_nodes: vec![],
    };
    Batch {
        node: run.hosts[0].into(),
        jobs: vec![job],
        job_ranks: (0..world).map(rank).collect(),
        ..Batch::default()
    }
}

/// Cumulative operations of one rank as of a time: name, size class, calls, bytes, milliseconds inside.
pub fn operations(run: &Run, seconds: i64, rank: u32, cells: &[(&str, u64, u64, u64, u64)]) -> Batch {
    let cell = |(operation, size_class_bytes, calls, bytes, inside): &(&str, u64, u64, u64, u64)| MpiOpCell {
        operation: (*operation).into(),
        size_class_bytes: *size_class_bytes,
        calls: *calls,
        bytes: *bytes,
        elapsed_nanoseconds: inside * 1_000_000,
        longest_nanoseconds: 1_000_000,
        algorithm: if *operation == "allreduce" { "ring" } else { "" }.into(),
        algorithm_source: if *operation == "allreduce" { "observed" } else { "" }.into(),
        ..MpiOpCell::default()
    };
    let bin = MpiRankBin {
        time: at(seconds),
        epoch: at(run.start),
        job_key: key(run.number),
        rank,
        source: "pmpi".into(),
        cells: cells.iter().map(cell).collect(),
    };
    Batch { node: run.hosts[0].into(), mpi_ops: vec![bin], ..Batch::default() }
}

/// The same, all cells of the rank in one row.
pub fn rank_row(run: &Run, seconds: i64, rank: u32, cells: &[(&str, u64, u64, u64, u64)]) -> Batch {
    let batch = operations(run, seconds, rank, cells);
    Batch { mpi_rank_rows: batch.mpi_ops, mpi_ops: Vec::new(), ..batch }
}

/// The same, of the ranks on the job's first node together, counted from the start of the job.
pub fn folded(run: &Run, since: i64, seconds: i64, cells: &[(&str, u64, u64, u64, u64)]) -> Batch {
    let batch = operations(run, seconds, 0, cells);
    let cell = |cell: &MpiOpCell| MpiNodeCell {
        sums: Some(cell.clone()),
        ranks: 2,
        least_rank: 0,
        least_rank_nanoseconds: 1,
        most_rank: 1,
        most_rank_nanoseconds: 2,
    };
    let all = MpiNodeCells {
        time: at(seconds),
        epoch: at(run.start),
        job_key: key(run.number),
        since: at(since),
        source: "pmpi".into(),
        cells: batch.mpi_ops[0].cells.iter().map(cell).collect(),
        is_whole: true,
        account: None,
    };
    Batch { mpi_node_cells: vec![all], mpi_ops: Vec::new(), ..batch }
}

/// Cumulative traffic of one rank as of a time: peer, bytes, messages.
pub fn peers(run: &Run, seconds: i64, rank: u32, kind: &str, cells: &[(u32, u64, u64)]) -> Batch {
    let cell = |(peer, bytes, messages): &(u32, u64, u64)| MpiPeerCell {
        peer: *peer,
        bytes: *bytes,
        messages: *messages,
    };
    let all = MpiRankPeers {
        time: at(seconds),
        epoch: at(run.start),
        job_key: key(run.number),
        rank,
        kind: kind.into(),
        source: "pmpi".into(),
        cells: cells.iter().map(cell).collect(),
        is_whole: false,
    };
    Batch { node: run.hosts[0].into(), mpi_peers: vec![all], ..Batch::default() }
}
