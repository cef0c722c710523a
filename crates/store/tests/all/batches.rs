//! Batches for the tests of the writer and of what reads its rows. No database here.
#![allow(dead_code)] // Each test file uses some of it.

use throughline_sample::catalogue::*;
use throughline_sample::wire::*;
use throughline_store::{Content, Entry, Sender};
use uuid::Uuid;

/// 2026-09-21T14:13:20Z in nanoseconds.
pub const START: i64 = 1_790_000_000_000_000_000;

/// One second in nanoseconds.
pub const SECOND: i64 = 1_000_000_000;

/// The subnet of all batches here.
pub const PREFIX: u64 = 0xfe80_0000_0000_0000;

/// Where the time of a node's ranks went.
pub fn account() -> MpiNodeAccount {
    let sums = |second: u64| MpiAccountSums {
        elapsed_nanoseconds: 8 * second,
        mpi_nanoseconds: 3 * second,
        off_outside_nanoseconds: 2 * second,
        queued_outside_nanoseconds: second / 2,
        file_nanoseconds: second,
        ..MpiAccountSums::default()
    };
    let second = SECOND.unsigned_abs();
    MpiNodeAccount { behind_nanoseconds: second, grown: Some(sums(second)), before: Some(sums(100 * second)) }
}

/// A switch.
pub const SWITCH: u64 = 0x0002_c903_0000_0001;

pub fn entry(spool_id: Uuid, sequence: u64, batch: Batch) -> Entry {
    Entry { spool_id, sequence, content: Content::Batch(batch), sender: Sender::default() }
}

/// Values from pairs.
pub fn values(pairs: &[(&'static Metric, u64)]) -> Option<Values> {
    let mut values = Values::default();
    for (metric, value) in pairs {
        values.put(metric, *value);
    }
    Some(values)
}

/// One reading of a port, `seconds` after the start.
pub fn port_sample(port: u32, seconds: i64, epoch: i64, pairs: &[(&'static Metric, u64)]) -> IbPortSample {
    IbPortSample {
        time: START + seconds * SECOND,
        epoch: START + epoch * SECOND,
        node_guid: SWITCH,
        port,
        values: values(pairs),
        saturated: vec![],
        source: "mad".to_owned(),
    }
}

/// A sweep of `ports` ports, the `n`th.
pub fn port_batch(n: u64, ports: u32) -> Batch {
    let seconds = i64::try_from(n).unwrap();
    let sample =
        |port| port_sample(port, seconds, 0, &[(&TRANSMIT_DATA_BYTES, n * 1000), (&SYMBOL_ERROR, 1)]);
    Batch {
        fabric: throughline_store::testing::fabric(PREFIX),
        ib_ports: (1..=ports).map(sample).collect(),
        ..Batch::default()
    }
}

/// One record of each kind, of one node and one port.
pub fn batch_of_everything() -> Batch {
    let source = |name: &str| name.to_owned();
    let (time, epoch) = (START, START - SECOND);
    let job_key = "slurm:42.0".to_owned();
    let mut port = port_sample(7, 0, -1, &[(&TRANSMIT_DATA_BYTES, 0), (&RECEIVE_PACKETS, 9)]);
    port.saturated = vec![SYMBOL_ERROR.id];
    let mut unknown = values(&[(&PORT_DATA_TRANSMITTED_BYTES, 77)]);
    unknown.as_mut().unwrap().metric.push(4_000_000);
    unknown.as_mut().unwrap().value.push(1);
    let cell = |operation: &str, calls| MpiOpCell {
        operation: operation.to_owned(),
        size_class_bytes: 8192,
        calls,
        bytes: calls * 8192,
        elapsed_nanoseconds: 1_500_000_000,
        longest_nanoseconds: 250_000_000,
        region: "solve".to_owned(),
        algorithm: "ring".to_owned(),
        algorithm_source: "observed".to_owned(),
        wait_nanoseconds: Some(500_000_000),
        received_bytes: None,
        least_nanoseconds: Some(40_000_000),
    };
    Batch {
        node: "node1".to_owned(),
        fabric: throughline_store::testing::fabric(PREFIX),
        boot_id: "b".to_owned(),
        order: 1,
        clock_error_nanoseconds: Some(2_500_000),
        ib_ports: vec![port],
        host_ports: vec![HostPortSample {
            time,
            epoch,
            device: "mlx5_0".to_owned(),
            port: 1,
            values: unknown,
            node_guid: 0x10,
            port_guid: 0,
            source: source("sysfs"),
        }],
        gpu_links: vec![GpuLinksSample {
            time,
            epoch,
            gpu_uuid: "GPU-1".to_owned(),
            source: source("nvml"),
            links: vec![
                LinkValues {
                    link: 3,
                    values: values(&[(&NVLINK_TRANSMIT_BYTES, 5), (&NVLINK_CRC_ERRORS, 1)]),
                },
                LinkValues {
                    link: 0,
                    values: values(&[(&NVLINK_TRANSMIT_BYTES, 100), (&NVLINK_RECEIVE_BYTES, 200)]),
                },
            ],
        }],
        gpu_pcie: vec![GpuPcieSample {
            time,
            epoch,
            gpu_uuid: "GPU-1".to_owned(),
            source: source("nvml"),
            values: values(&[(&PCIE_TRANSMIT_BYTES, 11)]),
        }],
        gpu_pm: vec![GpuPmSample {
            time,
            epoch,
            gpu_uuid: "GPU-1".to_owned(),
            source: source("cupti"),
            values: values(&[(&PM_PCIE_READ_BYTES, 12), (&PM_PCIE_READ_PEAK, 13)]),
        }],
        gpu_metrics: vec![GpuMetricsSample {
            time,
            epoch,
            gpu_uuid: "GPU-1".to_owned(),
            source: source("cupti"),
            metrics: vec![
                GpuMetricValue { name: "dram__bytes_read.sum".to_owned(), sum: Some(14), value: None },
                GpuMetricValue { name: "lts__t_sector_hit_rate.pct".to_owned(), sum: None, value: None },
            ],
        }],
        mpi_ops: vec![MpiRankBin {
            time,
            epoch,
            job_key: job_key.clone(),
            rank: 2,
            source: source("pmpi"),
            cells: vec![cell("allreduce", 10), cell("barrier", 1)],
        }],
        mpi_peers: vec![MpiRankPeers {
            time,
            epoch,
            job_key: job_key.clone(),
            rank: 2,
            kind: "logical".to_owned(),
            source: source("pmpi"),
            cells: vec![MpiPeerCell { peer: 3, bytes: 81920, messages: 10 }],
            is_whole: false,
        }],
        mpi_pvars: vec![MpiPvarSample {
            time,
            job_key: job_key.clone(),
            rank: 2,
            name: "pml_ob1_unexpected_msgq_length".to_owned(),
            element: 0,
            value: 4.0,
            source: source("mpit"),
            variable_class: "level".to_owned(),
        }],
        mpi_traces: vec![MpiRankTrace {
            epoch,
            job_key: job_key.clone(),
            rank: 2,
            utc_offset: time - 5_000,
            number: 7,
            records: vec![
                MpiTraceRecord {
                    kind: source("send"),
                    operation: source("isend"),
                    start: 5_000,
                    nanoseconds: 1_500,
                    thread: 1,
                    region: source("solve"),
                    peer: Some(3),
                    tag: Some(-1),
                    bytes: 64,
                    comm: u64::MAX,
                    sequence: Some(0),
                },
                MpiTraceRecord {
                    kind: source("call"),
                    operation: source("wait"),
                    start: 7_000,
                    ..Default::default()
                },
            ],
        }],
        mpi_clocks: vec![MpiRankClock {
            epoch,
            job_key: job_key.clone(),
            rank: 2,
            utc_offset: time - 5_000,
            number: 3,
            points: vec![MpiClockPoint { time: 5_000, offset: -50, uncertainty: 6, round_trip: 12 }],
        }],
        mpi_regions: vec![MpiRankRegions {
            time,
            epoch,
            job_key: job_key.clone(),
            rank: 2,
            source: source("pmpi"),
            cells: vec![MpiRegionCell {
                region: "solve".to_owned(),
                visits: 3,
                elapsed_nanoseconds: 2_000_000_000,
                own_nanoseconds: 1_000_000_000,
                mpi_calls: 11,
                mpi_nanoseconds: 500_000_000,
            }],
            paths: vec![MpiPathCell {
                path: "main/solve".to_owned(),
                visits: 2,
                elapsed_nanoseconds: 1_500_000_000,
                own_nanoseconds: 1_000_000_000,
                mpi_calls: 9,
                mpi_nanoseconds: 250_000_000,
            }],
        }],
        mpi_traffic: vec![MpiNodeTraffic {
            time,
            epoch,
            job_key: job_key.clone(),
            since: time - 1_000_000_000,
            operation: "allreduce".to_owned(),
            kind: "modelled".to_owned(),
            direction: "transmit".to_owned(),
            source: source("pmpi"),
            cells: vec![MpiPeerCell { peer: 3, bytes: 81920, messages: 20 }],
            is_whole: false,
        }],
        mpi_rank_rows: vec![MpiRankBin {
            time,
            epoch,
            job_key: job_key.clone(),
            rank: 2,
            source: source("pmpi"),
            cells: vec![cell("allreduce", 11), MpiOpCell { region: "a\0b".to_owned(), ..cell("scan", 2) }],
        }],
        mpi_node_cells: vec![MpiNodeCells {
            time,
            epoch,
            job_key: job_key.clone(),
            since: time - 10_000_000_000,
            source: source("pmpi"),
            cells: vec![MpiNodeCell {
                sums: Some(cell("allreduce", 11)),
                ranks: 3,
                least_rank: 2,
                least_rank_nanoseconds: 250_000_000,
                most_rank: 5,
                most_rank_nanoseconds: 750_000_000,
            }],
            is_whole: false,
            account: Some(account()),
        }],
        mpi_sampled_calls: vec![MpiSampledCalls {
            time,
            job_key: job_key.clone(),
            comm_group: -7,
            group_size: 8,
            members: "0-7".to_owned(),
            operation: "allreduce".to_owned(),
            size_class_bytes: 8192,
            cell: 3,
            calls: vec![MpiSampledCall {
                call: 21,
                ranks: 2,
                elapsed_nanoseconds: 5_000_000,
                least_nanoseconds: 1_000_000,
                least_rank: 2,
                level: 1,
            }],
        }],
        mpi_open_calls: vec![MpiOpenCall {
            time,
            epoch,
            job_key: job_key.clone(),
            rank: 2,
            thread: 0,
            operation: "bcast\0".to_owned(),
            start: time - 138_000_000_000,
            has_returned: false,
            is_on_world: false,
            comm: Some(1),
            comm_size: Some(2),
            peer: Some(3),
            pending_requests: 4,
            oldest_request: "irecv".to_owned(),
            tag: None,
            is_from_any: false,
            requests: 4,
            oldest_peer: Some(1),
            oldest_tag: Some(12),
            threads_elsewhere: 1,
            threads_to_come: 2,
        }],
        mpi_scheduling: vec![MpiRankScheduling {
            time,
            epoch,
            job_key: job_key.clone(),
            rank: 2,
            cpu_nanoseconds: Some(1_500_000_000),
            runqueue_wait_nanoseconds: Some(7),
            involuntary_switches: None,
            cpu_hertz: Some(2_400_000_000),
            elapsed_nanoseconds: Some(9_000_000_000),
            mpi_nanoseconds: Some(2_000_000_000),
            off_outside_nanoseconds: Some(1_000_000_000),
            queued_outside_nanoseconds: Some(3),
            off_inside_nanoseconds: Some(4),
            queued_inside_nanoseconds: Some(2),
            throttled_nanoseconds: Some(1),
            file_samples: 1,
            sleep_samples: 2,
            lock_samples: 3,
            stopped_samples: 4,
            other_samples: 5,
            is_stopped: true,
        }],
        job_comms: vec![JobComm {
            time,
            epoch,
            job_key: job_key.clone(),
            rank: 2,
            comm: 1,
            name: "rows\0".to_owned(),
            size: 2,
            rank_in_comm: Some(1),
        }],
        job_settings: vec![JobSetting {
            time,
            job_key: job_key.clone(),
            rank: 2,
            name: "coll_tuned_allreduce_algorithm".to_owned(),
            value: "4".to_owned(),
        }],
        events: vec![Event {
            time,
            source: source("mad"),
            kind: "link.down".to_owned(),
            severity: "warning".to_owned(),
            text: "a\0b".to_owned(),
            ib_guid: SWITCH,
            ib_port: 7,
            ..Event::default()
        }],
        coverage: vec![Coverage {
            time,
            source: source("mad"),
            expected: 10,
            read: 7,
            failed: 3,
            elapsed_seconds: 0.25,
            reasons: [("timeout".to_owned(), 3)].into(),
            rounds: 3,
            first_time: time - 2_000_000_000,
            ..Coverage::default()
        }],
        self_stats: vec![SelfStat {
            time,
            source: source("mad"),
            name: RECORDS.name.to_owned(),
            value: 1.0,
            ..SelfStat::default()
        }],
        nodes: vec![NodeInfo {
            name: "node1".to_owned(),
            boot_id: "b".to_owned(),
            boot_time: epoch,
            hca_guids: vec![0x10],
        }],
        gpus: (1..=2)
            .map(|n| GpuInfo {
                uuid: format!("GPU-{n}"),
                index: n - 1,
                name: "H200".to_owned(),
                pci_bus_id: format!("0000:0{n}:00.0"),
                source: source("nvml"),
                link_count: 18,
                parent_uuid: String::new(),
                numa_node: Some(n),
                nearest_hcas: vec![format!("mlx5_{n}")],
                fabric_cluster_uuid: "5d2b9c4e-7a10-4c3f-9e68-1f0a2b3c4d5e".to_owned(),
                fabric_clique_id: Some(7),
                fabric_state: "completed".to_owned(),
                pcie_bytes_per_second: Some(63_015_384_615),
            })
            .collect(),
        gpu_link_infos: vec![GpuLinkInfo {
            gpu_uuid: "GPU-1".to_owned(),
            link: 0,
            active: true,
            version: Some(4),
            speed_bytes_per_second: Some(25_000_000_000),
            remote_type: "gpu".to_owned(),
            remote_pci_bus_id: "0000:02:00.0".to_owned(),
            remote_gpu_uuid: "GPU-2".to_owned(),
            remote_link: Some(1),
        }],
        jobs: vec![Job {
            key: job_key.clone(),
            scheduler: "slurm".to_owned(),
            native_id: "42".to_owned(),
            step: "0".to_owned(),
            uid: 1000,
            user: "ada".to_owned(),
            command: "./solver".to_owned(),
            start: START,
            end: 0,
            world_size: 4,
            name: "spectrum".to_owned(),
            account: "phys".to_owned(),
            queue: "long".to_owned(),
            array_id: "40_2".to_owned(),
            evidence: "cgroup".to_owned(),
            seen: START,
        }],
        job_ranks: vec![JobRank {
            job_key,
            rank: 2,
            pid: 4242,
            world_size: 4,
            mpi_library: "Open MPI 4.1.4".to_owned(),
            start: START,
            end: 0,
            ending: String::new(),
            host: "node1".to_owned(),
            gpus: vec![RankGpu {
                gpu_uuid: "GPU-1".to_owned(),
                partition_uuid: String::new(),
                evidence: "driver".to_owned(),
                minor: Some(0),
                first_seen: time,
                last_seen: 0,
                nearest_distance: "switch".to_owned(),
                has_others: false,
            }],
            gpu_evidence: "driver".to_owned(),
            visible_devices: Some("GPU-1".to_owned()),
            hca_ports: Some(Names { name: vec!["mlx5_0/1".to_owned()] }),
            cpus: "0-3".to_owned(),
            numa_nodes: vec![0],
            hca_numa_nodes: vec![1],
        }],
        ..Batch::default()
    }
}
