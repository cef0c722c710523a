//! What the sender of a node may send, and what it may not.

use crate::maker::*;
use crate::site::*;
use throughline_sample::wire::*;

pub fn node_entry(random: &mut Random, ledger: &mut Ledger, number: u64, base: i64) -> Vec<u8> {
    let mut entry = Entry { records: Vec::new(), ledger };
    let e = &mut entry;
    let mut t = base;
    let key = "slurm:1@1000";
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
    let chosen = |time| GpuMetricsSample {
        time,
        gpu_uuid: "GPU-1".into(),
        source: "cupti".into(),
        metrics: vec![GpuMetricValue { name: "dram__bytes_read.sum".into(), sum: Some(1), value: None }],
        ..Default::default()
    };
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
    let stat = |time| SelfStat {
        time,
        source: "nvml".into(),
        name: "records".into(),
        value: 1.0,
        ..SelfStat::default()
    };
    timed!(
        e,
        random,
        t,
        host_ports,
        "host_port_counters",
        host,
        [
            |r: &mut HostPortSample, _: &mut Random| r.port = 256,
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
        [|r: &mut GpuLinksSample, _: &mut Random| r.links = vec![LinkValues { link: 64, values: None }],]
    );
    timed!(
        e,
        random,
        t,
        gpu_pcie,
        "gpu_pcie_counters",
        pcie,
        [|r: &mut GpuPcieSample, x: &mut Random| r.source = bad_name(x),]
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
        gpu_metrics,
        "gpu_metrics",
        chosen,
        [
            |r: &mut GpuMetricsSample, _: &mut Random| r.metrics[0].name.clear(),
            |r: &mut GpuMetricsSample, _: &mut Random| r.metrics[0].value = Some(f64::NAN),
            |r: &mut GpuMetricsSample, x: &mut Random| r.source = bad_name(x),
        ]
    );
    timed!(
        e,
        random,
        t,
        mpi_ops,
        "mpi_rank_rows",
        ops,
        [
            |r: &mut MpiRankBin, _: &mut Random| r.rank = 1,
            |r: &mut MpiRankBin, _: &mut Random| r.rank = u32::MAX,
            |r: &mut MpiRankBin, _: &mut Random| r.job_key = "slurm:2@2000".into(),
            |r: &mut MpiRankBin, _: &mut Random| r.cells[0].bytes = u64::MAX,
            |r: &mut MpiRankBin, x: &mut Random| r.cells[0].operation = bad_name(x),
        ]
    );
    timed!(
        e,
        random,
        t,
        mpi_peers,
        "mpi_rank_peers",
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
        "mpi_node_traffic",
        traffic,
        [
            |r: &mut MpiNodeTraffic, _: &mut Random| r.job_key = "slurm:2@2000".into(),
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
            |r: &mut MpiRankClock, _: &mut Random| r.job_key = "slurm:2@2000".into(),
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
            |r: &mut Event, _: &mut Random| r.job_key = "slurm:2@2000".into(),
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
            |r: &mut Coverage, _: &mut Random| r.rounds = 1_000_000,
            |r: &mut Coverage, _: &mut Random| (r.rounds, r.first_time) = (2, r.time + 1),
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
    let other = format!("slurm:{}@7", 100 + number);
    e.valid("job", other.clone(), Batch { jobs: vec![job(&other, 7, "cgroup")], ..Batch::default() });
    e.invalid(Batch { jobs: vec![job("slurm:2@2000", 7, "cgroup")], ..Batch::default() });
    e.invalid(Batch { jobs: vec![Job { end: i64::MAX, ..job(&other, 7, "cgroup") }], ..Batch::default() });
    e.invalid(Batch { jobs: vec![Job { key: bad_name(random), ..job("", 7, "") }], ..Batch::default() });
    e.invalid(Batch { job_ranks: vec![rank("slurm:1@1000", 0, "n2")], ..Batch::default() });
    e.invalid(Batch { job_ranks: vec![rank("slurm:2@2000", 0, "n1")], ..Batch::default() });
    e.invalid(Batch { job_ranks: vec![rank("slurm:1@1000", 1 << 24, "n1")], ..Batch::default() });
    let uuid = format!("GPU-own-{number}");
    let info = |uuid: &str| GpuInfo { uuid: uuid.into(), ..GpuInfo::default() };
    e.valid("gpu", uuid.clone(), Batch { gpus: vec![info(&uuid)], ..Batch::default() });
    e.invalid(Batch { gpus: vec![GpuInfo { index: u32::MAX, ..info("GPU-1") }], ..Batch::default() });
    let domain = |cluster: &str| GpuInfo {
        fabric_cluster_uuid: cluster.into(),
        fabric_clique_id: Some(1),
        ..info("GPU-1")
    };
    e.invalid(Batch { gpus: vec![domain("no UUID")], ..Batch::default() });
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
        |call| call.job_key = "slurm:2@2000".into(),
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
        |reading| reading.job_key = "slurm:2@2000".into(),
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
        job_settings: vec![JobSetting { job_key: "slurm:2@2000".into(), ..setting }],
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
