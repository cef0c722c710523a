//! Batches of valid and invalid records of all kinds in any order, through the collector and a real database: exactly the
//! valid ones are stored. `THROUGHLINE_SEED` replays one order.

use crate::maker::*;
use crate::site::*;
use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use throughline_sample::wire::*;
use uuid::Uuid;

/// Entries of one run, of each of the two senders.
const ENTRIES: u64 = 8;

fn node_entry(random: &mut Random, ledger: &mut Ledger, number: u64, base: i64) -> Vec<u8> {
    let mut entry = Entry { records: Vec::new(), ledger };
    let e = &mut entry;
    let mut t = base;
    let key = "slurm:1";
    let trace = |time: i64| MpiRankTrace {
        job_key: key.into(),
        // The rank's clock began at 0.
        utc_offset: time,
        records: vec![MpiTraceRecord { kind: "call".into(), operation: "wait".into(), ..Default::default() }],
        ..Default::default()
    };
    let clock = |time: i64| MpiRankClock {
        job_key: key.into(),
        utc_offset: time,
        points: vec![MpiClockPoint::default()],
        ..Default::default()
    };
    let host = |time| HostPortSample {
        time,
        device: "mlx5_0".into(),
        port: 1,
        source: "sysfs".into(),
        ..Default::default()
    };
    let links =
        |time| GpuLinksSample { time, gpu_uuid: "GPU-1".into(), source: "nvml".into(), ..Default::default() };
    let pcie =
        |time| GpuPcieSample { time, gpu_uuid: "GPU-1".into(), source: "nvml".into(), ..Default::default() };
    let pm =
        |time| GpuPmSample { time, gpu_uuid: "GPU-1".into(), source: "cupti".into(), ..Default::default() };
    let ops = |time| bin(key, 0, time);
    let peers = |time| MpiRankPeers {
        time,
        job_key: key.into(),
        kind: "logical".into(),
        source: "pmpi".into(),
        cells: vec![MpiPeerCell { peer: 1, bytes: 1, messages: 1 }],
        ..Default::default()
    };
    let pvar = |time| MpiPvarSample {
        time,
        job_key: key.into(),
        name: "queue".into(),
        source: "mpit".into(),
        ..Default::default()
    };
    let regions = |time| MpiRankRegions {
        time,
        job_key: key.into(),
        source: "pmpi".into(),
        cells: vec![MpiRegionCell { region: "solve".into(), ..Default::default() }],
        paths: vec![MpiPathCell { path: "p".repeat(2000), ..Default::default() }],
        ..Default::default()
    };
    let traffic = |time| MpiNodeTraffic {
        time,
        job_key: key.into(),
        operation: "allreduce".into(),
        kind: "modelled".into(),
        direction: "transmit".into(),
        source: "pmpi".into(),
        cells: vec![MpiPeerCell { peer: 1, bytes: 1, messages: 1 }],
        ..Default::default()
    };
    let event_at = |time| event(time, "text");
    let round = |time| Coverage { time, source: "nvml".into(), ..Default::default() };
    let stat = |time| SelfStat { time, source: "nvml".into(), name: "records".into(), value: 1.0 };
    timed!(
        e,
        random,
        t,
        host_ports,
        "host_port_counters",
        host,
        [
            |r: &mut HostPortSample, _: &mut Random| r.port = 256,
            |r: &mut HostPortSample, _: &mut Random| r.node_guid = 0x20,
            |r: &mut HostPortSample, x: &mut Random| r.device = bad_name(x),
        ]
    );
    timed!(
        e,
        random,
        t,
        gpu_links,
        "nvlink_counters",
        links,
        [
            |r: &mut GpuLinksSample, _: &mut Random| r.links = vec![LinkValues { link: 64, values: None }],
            |r: &mut GpuLinksSample, _: &mut Random| r.gpu_uuid = "GPU-2".into(),
        ]
    );
    timed!(
        e,
        random,
        t,
        gpu_pcie,
        "gpu_pcie_counters",
        pcie,
        [
            |r: &mut GpuPcieSample, _: &mut Random| r.gpu_uuid = "GPU-2".into(),
            |r: &mut GpuPcieSample, x: &mut Random| r.source = bad_name(x),
        ]
    );
    timed!(
        e,
        random,
        t,
        gpu_pm,
        "gpu_pm_counters",
        pm,
        [
            |r: &mut GpuPmSample, _: &mut Random| r.epoch = i64::MAX,
            |r: &mut GpuPmSample, _: &mut Random| r.gpu_uuid.clear(),
        ]
    );
    timed!(
        e,
        random,
        t,
        mpi_ops,
        "mpi_ops",
        ops,
        [
            |r: &mut MpiRankBin, _: &mut Random| r.rank = 1,
            |r: &mut MpiRankBin, _: &mut Random| r.rank = u32::MAX,
            |r: &mut MpiRankBin, _: &mut Random| r.job_key = "slurm:2".into(),
            |r: &mut MpiRankBin, _: &mut Random| r.cells[0].bytes = u64::MAX,
            |r: &mut MpiRankBin, x: &mut Random| r.cells[0].operation = bad_name(x),
        ]
    );
    timed!(
        e,
        random,
        t,
        mpi_peers,
        "mpi_peers",
        peers,
        [
            |r: &mut MpiRankPeers, _: &mut Random| r.cells[0].peer = u32::MAX,
            |r: &mut MpiRankPeers, _: &mut Random| r.kind.clear(),
        ]
    );
    timed!(
        e,
        random,
        t,
        mpi_pvars,
        "mpi_pvars",
        pvar,
        [
            |r: &mut MpiPvarSample, _: &mut Random| r.value = f64::NAN,
            |r: &mut MpiPvarSample, _: &mut Random| r.element = u32::MAX,
            |r: &mut MpiPvarSample, x: &mut Random| r.name = bad_name(x),
        ]
    );
    timed!(
        e,
        random,
        t,
        mpi_regions,
        "mpi_regions",
        regions,
        [
            |r: &mut MpiRankRegions, x: &mut Random| r.cells[0].region = bad_name(x),
            |r: &mut MpiRankRegions, _: &mut Random| r.paths[0].path = "p".repeat(2001),
            |r: &mut MpiRankRegions, _: &mut Random| r.paths[0].path = "a/\u{202e}b".into(),
            |r: &mut MpiRankRegions, _: &mut Random| r.rank = 1,
        ]
    );
    timed!(
        e,
        random,
        t,
        mpi_traffic,
        "mpi_traffic",
        traffic,
        [
            |r: &mut MpiNodeTraffic, _: &mut Random| r.job_key = "slurm:2".into(),
            |r: &mut MpiNodeTraffic, _: &mut Random| r.kind = "wire".into(),
            |r: &mut MpiNodeTraffic, _: &mut Random| r.direction.clear(),
            |r: &mut MpiNodeTraffic, _: &mut Random| r.since = r.time + 1,
            |r: &mut MpiNodeTraffic, _: &mut Random| r.cells[0].peer = u32::MAX,
            |r: &mut MpiNodeTraffic, x: &mut Random| r.operation = bad_name(x),
        ]
    );
    timed!(
        e,
        random,
        t,
        mpi_traces,
        "mpi_trace",
        trace,
        [
            |r: &mut MpiRankTrace, _: &mut Random| r.number = u64::MAX,
            |r: &mut MpiRankTrace, _: &mut Random| r.records[0].thread = u32::MAX,
            |r: &mut MpiRankTrace, _: &mut Random| r.records[0].start = i64::MAX,
        ]
    );
    timed!(
        e,
        random,
        t,
        mpi_clocks,
        "mpi_clock",
        clock,
        [
            |r: &mut MpiRankClock, _: &mut Random| r.number = u64::MAX,
            |r: &mut MpiRankClock, _: &mut Random| r.job_key = "slurm:2".into(),
        ]
    );
    timed!(
        e,
        random,
        t,
        events,
        "events",
        event_at,
        [
            |r: &mut Event, _: &mut Random| r.ib_guid = 0x20,
            |r: &mut Event, _: &mut Random| r.gpu_uuid = "GPU-2".into(),
            |r: &mut Event, _: &mut Random| r.job_key = "slurm:2".into(),
            |r: &mut Event, _: &mut Random| r.remote_ib_guid = 0x50,
            |r: &mut Event, x: &mut Random| r.kind = bad_name(x),
        ]
    );
    timed!(
        e,
        random,
        t,
        coverage,
        "coverage",
        round,
        [
            |r: &mut Coverage, _: &mut Random| r.elapsed_seconds = f64::INFINITY,
            |r: &mut Coverage, x: &mut Random| r.reasons = [(bad_name(x), 1)].into(),
        ]
    );
    timed!(
        e,
        random,
        t,
        self_stats,
        "self_stats",
        stat,
        [
            |r: &mut SelfStat, _: &mut Random| r.value = f64::NEG_INFINITY,
            |r: &mut SelfStat, x: &mut Random| r.name = bad_name(x),
        ]
    );
    // Inventory.
    let other = format!("slurm:{}", 100 + number);
    e.valid("job", other.clone(), Batch { jobs: vec![job(&other, 7, "cgroup")], ..Batch::default() });
    e.invalid(Batch { jobs: vec![job("slurm:2", 7, "cgroup")], ..Batch::default() });
    e.invalid(Batch { jobs: vec![Job { end: i64::MAX, ..job(&other, 7, "cgroup") }], ..Batch::default() });
    e.invalid(Batch { jobs: vec![Job { key: bad_name(random), ..job("", 7, "") }], ..Batch::default() });
    e.invalid(Batch { job_ranks: vec![rank("slurm:1", 0, "n2")], ..Batch::default() });
    e.invalid(Batch { job_ranks: vec![rank("slurm:2", 0, "n1")], ..Batch::default() });
    e.invalid(Batch { job_ranks: vec![rank("slurm:1", 1 << 24, "n1")], ..Batch::default() });
    let uuid = format!("GPU-own-{number}");
    let info = |uuid: &str| GpuInfo { uuid: uuid.into(), ..GpuInfo::default() };
    e.valid("gpu", uuid.clone(), Batch { gpus: vec![info(&uuid)], ..Batch::default() });
    e.invalid(Batch { gpus: vec![info("GPU-2")], ..Batch::default() });
    e.invalid(Batch { gpus: vec![GpuInfo { index: u32::MAX, ..info("GPU-1") }], ..Batch::default() });
    e.invalid(Batch {
        nodes: vec![NodeInfo { name: "n2".into(), ..NodeInfo::default() }],
        ..Batch::default()
    });
    let comm =
        JobComm { job_key: key.into(), comm: number as u32, name: "rows".into(), ..JobComm::default() };
    e.valid("job_comm", number.to_string(), Batch { job_comms: vec![comm.clone()], ..Batch::default() });
    e.invalid(Batch { job_comms: vec![JobComm { comm: u32::MAX, ..comm }], ..Batch::default() });
    let open = MpiOpenCall {
        time: t,
        job_key: key.into(),
        thread: number as u32,
        operation: "barrier".into(),
        start: t - 1,
        ..MpiOpenCall::default()
    };
    e.valid(
        "mpi_open_call",
        number.to_string(),
        Batch { mpi_open_calls: vec![open.clone()], ..Batch::default() },
    );
    let wrong: [fn(&mut MpiOpenCall); 6] = [
        |call| call.rank = 1 << 24,
        |call| call.job_key = "slurm:2".into(),
        |call| call.start = call.time + 1,
        |call| call.thread = u32::MAX,
        |call| call.peer = Some(u32::MAX),
        |call| call.operation.clear(),
    ];
    for change in wrong {
        let mut call = open.clone();
        change(&mut call);
        e.invalid(Batch { mpi_open_calls: vec![call], ..Batch::default() });
    }
    let scheduling = MpiRankScheduling {
        time: t,
        job_key: key.into(),
        cpu_nanoseconds: Some(number),
        ..MpiRankScheduling::default()
    };
    // One row, of the newest.
    e.valid(
        "mpi_rank_scheduling",
        "0".into(),
        Batch { mpi_scheduling: vec![scheduling.clone()], ..Batch::default() },
    );
    let wrong: [fn(&mut MpiRankScheduling); 3] = [
        |reading| reading.rank = 1 << 24,
        |reading| reading.job_key = "slurm:2".into(),
        |reading| reading.runqueue_wait_nanoseconds = Some(u64::MAX),
    ];
    for change in wrong {
        let mut reading = scheduling.clone();
        change(&mut reading);
        e.invalid(Batch { mpi_scheduling: vec![reading], ..Batch::default() });
    }
    let setting = JobSetting { job_key: key.into(), name: format!("s{number}"), ..JobSetting::default() };
    e.valid(
        "job_setting",
        format!("s{number}"),
        Batch { job_settings: vec![setting.clone()], ..Batch::default() },
    );
    e.invalid(Batch {
        job_settings: vec![JobSetting { job_key: "slurm:2".into(), ..setting }],
        ..Batch::default()
    });
    // The fabric is no node's.
    e.invalid(Batch {
        ib_nodes: vec![IbNodeInfo { guid: 0x77, ..IbNodeInfo::default() }],
        ..Batch::default()
    });
    e.invalid(Batch {
        ib_topology_marks: vec![IbTopologyMark { generation: t, ..Default::default() }],
        ..Batch::default()
    });
    finish(random, entry, Batch { node: "n1".into(), ..Batch::default() })
}

fn crawler_entry(random: &mut Random, ledger: &mut Ledger, number: u64, base: i64) -> Vec<u8> {
    let mut entry = Entry { records: Vec::new(), ledger };
    let e = &mut entry;
    let mut t = base;
    let port =
        |time| IbPortSample { time, node_guid: 0x50, port: 1, source: "mad".into(), ..Default::default() };
    let lanes = |time| IbPortLanesSample {
        time,
        node_guid: 0x50,
        port: 1,
        source: "mad".into(),
        ..Default::default()
    };
    let round = |time| Coverage { time, source: "mad".into(), ..Default::default() };
    timed!(
        e,
        random,
        t,
        ib_ports,
        "ib_port_counters",
        port,
        [
            |r: &mut IbPortSample, _: &mut Random| r.port = u32::MAX,
            |r: &mut IbPortSample, _: &mut Random| r.epoch = i64::MIN,
        ]
    );
    timed!(
        e,
        random,
        t,
        ib_port_lanes,
        "ib_port_lane_counters",
        lanes,
        [
            |r: &mut IbPortLanesSample, _: &mut Random| r.lanes = vec![LinkValues { link: 99, values: None }],
            |r: &mut IbPortLanesSample, x: &mut Random| r.source = bad_name(x),
        ]
    );
    timed!(
        e,
        random,
        t,
        coverage,
        "coverage",
        round,
        [|r: &mut Coverage, _: &mut Random| r.elapsed_seconds = f64::NAN,]
    );
    let guid = 0x100 + number;
    let node = IbNodeInfo { generation: base, guid, r#type: "switch".into(), ..IbNodeInfo::default() };
    e.valid("ib_node", format!("{guid:#018x}"), Batch { ib_nodes: vec![node.clone()], ..Batch::default() });
    let lid = IbNodeInfo { guid: 0x99, lid: u32::MAX, ..node.clone() };
    e.invalid(Batch { ib_nodes: vec![lid], ..Batch::default() });
    let table = IbNodeInfo { guid: 0x99, linear_forwarding_table: vec![0; 50_000], ..node };
    e.invalid(Batch { ib_nodes: vec![table], ..Batch::default() });
    let far = IbTopologyMark { generation: i64::MAX, time: i64::MAX, ..IbTopologyMark::default() };
    e.invalid(Batch { ib_topology_marks: vec![far], ..Batch::default() });
    // Nodes, GPUs and jobs are no crawler's.
    e.invalid(Batch { mpi_ops: vec![bin("slurm:1", 0, t)], ..Batch::default() });
    e.invalid(Batch { jobs: vec![job("slurm:3", 1, "cgroup")], ..Batch::default() });
    e.invalid(Batch {
        events: vec![Event { gpu_uuid: "GPU-2".into(), ..event(t, "x") }],
        ..Batch::default()
    });
    finish(random, entry, Batch { subnet_prefix: PREFIX, ..Batch::default() })
}

const TIMED: [&str; 16] = [
    "ib_port_counters",
    "ib_port_lane_counters",
    "host_port_counters",
    "nvlink_counters",
    "gpu_pcie_counters",
    "gpu_pm_counters",
    "mpi_ops",
    "mpi_peers",
    "mpi_pvars",
    "mpi_regions",
    "mpi_traffic",
    "mpi_trace",
    "mpi_clock",
    "events",
    "coverage",
    "self_stats",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_fuzzed_batch_stores_exactly_its_valid_records() {
    let seed = std::env::var("THROUGHLINE_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| RandomState::new().hash_one(0));
    println!("THROUGHLINE_SEED={seed}");
    let mut random = Random(seed);
    let site = Site::start().await;
    let introduced = |node: &str, key: &str, uid, gpu: &str, hca| Batch {
        node: node.into(),
        nodes: vec![NodeInfo { name: node.into(), hca_guids: vec![hca], ..NodeInfo::default() }],
        gpus: vec![GpuInfo { uuid: gpu.into(), ..GpuInfo::default() }],
        jobs: vec![job(key, uid, "cgroup")],
        job_ranks: vec![rank(key, 0, node)],
        ..Batch::default()
    };
    site.batch("n1", &introduced("n1", "slurm:1", 1000, "GPU-1", 0x10)).await.unwrap();
    site.batch("n2", &introduced("n2", "slurm:2", 2000, "GPU-2", 0x20)).await.unwrap();
    let mut ledger = Ledger::default();
    for key in ["slurm:1", "slurm:2"] {
        ledger.valid.insert(("job", key.into()));
    }
    for uuid in ["GPU-1", "GPU-2"] {
        ledger.valid.insert(("gpu", uuid.into()));
    }
    let (spool, crawler) = (Uuid::new_v4(), Uuid::new_v4());
    let began = now() / 1000 * 1000;
    for number in 1..=ENTRIES {
        let base = began + number as i64 * 1_000_000;
        let entry = node_entry(&mut random, &mut ledger, number, base);
        site.put("n1", &[(spool, number, entry)]).await.unwrap();
        let entry = crawler_entry(&mut random, &mut ledger, number, base);
        site.put("fab1", &[(crawler, number, entry)]).await.unwrap();
    }
    let mut found: BTreeSet<(&'static str, String)> = BTreeSet::new();
    for table in TIMED {
        // The server's own metrics stand beside the senders'.
        let of = if matches!(table, "events" | "coverage" | "self_stats") {
            "WHERE instance <> 'server'"
        } else {
            ""
        };
        let times =
            format!("SELECT round(extract(epoch FROM time) * 1000000)::bigint::text FROM {table} {of}");
        for time in site.texts(&times).await {
            assert!(found.insert((table, time)), "{table}: seed {seed}");
        }
    }
    for (table, keys) in [
        ("job", "SELECT key FROM job WHERE uid IS NOT NULL"),
        ("gpu", "SELECT uuid FROM gpu"),
        ("job_comm", "SELECT comm::text FROM job_comm"),
        ("job_setting", "SELECT name FROM job_setting"),
        ("mpi_open_call", "SELECT thread::text FROM mpi_open_call"),
        ("mpi_rank_scheduling", "SELECT rank::text FROM mpi_rank_scheduling"),
        ("ib_node", "SELECT guid FROM ib_node"),
    ] {
        found.extend(site.texts(keys).await.into_iter().map(|key| (table, key)));
    }
    let missing: Vec<_> = ledger.valid.difference(&found).collect();
    let surplus: Vec<_> = found.difference(&ledger.valid).collect();
    assert!(
        missing.is_empty() && surplus.is_empty(),
        "seed {seed}: missing {missing:?}, surplus {surplus:?}"
    );
    let listed = site.number("SELECT sum(records)::bigint FROM record_quarantine").await;
    assert_eq!(listed as u64, ledger.invalid, "seed {seed}");
    assert_eq!(site.number("SELECT count(*) FROM batch_quarantine").await, 0);
    assert_eq!(site.number("SELECT count(*) FROM job_rank").await, 2);
    site.end().await;
}
