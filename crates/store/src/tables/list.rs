//! The entries of hypertables.

use throughline_sample::catalogue::Table;

use super::entry::{SiteEstimate, hypertable, rows};
use super::site::{
    ALL_VALUES, BLOCK_SECONDS, CONTRIBUTORS, FOLD_SECONDS, LISTED_ROW, MPI_TOTALS, NVLINK_HOURS, OWN_SECONDS,
    PCIE_HOUR, PEERS_PER_RANK, PORT_HOUR, ROUNDS_SECONDS, TRAFFIC_CELLS_PER_NODE, WINDOW_SECONDS, by_links,
    by_peers, by_values, own_values, rank_rows, traffic_cells,
};
use super::{Rule, StoredTable, TotalForm};

const NONE: SiteEstimate = |_| 0.0;
const OFF: &str = "off by default";

/// Steps of a node's rows.
const NODE_STEP: u32 = 300;

/// Steps of a rank's rows, which come each five minutes in a long run; the last row of a rank is the last of its step.
const RANK_STEP: u32 = 1800;

/// Steps of a job's course: the most that its pages draw of some hours.
const SERIES_STEP: u32 = 60;

/// Ten seconds of sampled calls in each of these steps; the readers of `query::waits` know both.
const SAMPLED_STEP: u32 = 60;

/// Less than the five minutes for which Prometheus takes a sample as current.
const METRICS_STEP: u32 = 240;

/// Ten of the rows that agents send. Readers of `coverage_rounds` look so far ahead, and as far as a row of an agent spans.
const ROUNDS_STEP: u32 = 300;

/// Hypertables.
pub(super) const HYPERTABLES: [StoredTable; 39] = [
    hypertable(
        "ib_port_counters",
        &["port_id", "time"],
        &["ib_ports"],
        rows(|s| s.ports() / s.port_seconds, |_| 293.0)
            .with_metrics(Table::IbPortCounters, "time, port_id, epoch, source, {metrics}, saturated"),
    ),
    hypertable(
        "ib_port_lane_counters",
        &["port_id", "time"],
        &["ib_port_lanes"],
        rows(NONE, |_| 202.0)
            .assuming(OFF)
            .with_metrics(Table::IbPortLaneCounters, "time, port_id, epoch, source, {metrics}")
            .columns("port_id", "time", NONE),
    ),
    hypertable(
        "host_port_counters",
        &["host_port_id", "time"],
        &["host_ports"],
        rows(|s| s.host_ports() / s.node_seconds, |_| 293.0)
            .with_metrics(Table::HostPortCounters, "time, host_port_id, epoch, source, {metrics}"),
    ),
    hypertable(
        "nvlink_counters",
        &["gpu_id", "time", "source"],
        &["gpu_links"],
        rows(|s| s.gpus() / s.node_seconds, |s| by_links(657.0, 1437.0, s.links()))
            .assuming("one library reads each link")
            .with_metrics(Table::NvlinkCounters, "time, gpu_id, epoch, source, {metrics}"),
    ),
    hypertable(
        "gpu_pcie_counters",
        &["gpu_id", "time", "source"],
        &["gpu_pcie"],
        rows(|s| s.gpus() / s.node_seconds, |_| 148.0)
            .with_metrics(Table::GpuPcieCounters, "time, gpu_id, epoch, source, {metrics}"),
    ),
    hypertable(
        "gpu_pm_counters",
        &["gpu_id", "time", "source"],
        &["gpu_pm"],
        rows(NONE, |_| 220.0)
            .assuming(OFF)
            .with_metrics(Table::GpuPmCounters, "time, gpu_id, epoch, source, {metrics}")
            .columns("gpu_id", "source, time", NONE),
    ),
    hypertable(
        "gpu_metrics",
        &["gpu_metric_id", "time", "source"],
        &["gpu_metrics"],
        rows(NONE, |_| 116.0)
            .assuming(OFF)
            .with_metrics(Table::GpuMetrics, "time, gpu_metric_id, epoch, source, {metrics}")
            .columns("gpu_metric_id", "source, time", NONE),
    ),
    hypertable(
        "mpi_pvars",
        &["job_id", "rank", "name", "element", "time", "node_id"],
        &["mpi_pvars"],
        rows(NONE, |_| 207.0)
            .assuming(OFF)
            .copied("time, job_id, rank, node_id, name, element, source, variable_class, value")
            .totals(TotalForm::Row)
            .columns("job_id", "rank, name, element, time", NONE),
    ),
    hypertable(
        "mpi_regions",
        &["job_id", "rank", "region", "time", "node_id"],
        &["mpi_regions"],
        rows(NONE, |_| 186.0)
            .assuming("programs without annotations")
            .with_metrics(Table::MpiRegions, "time, job_id, rank, node_id, region, epoch, source, {metrics}")
            .totals(TotalForm::Row)
            .columns("job_id", "rank, region, time", NONE),
    ),
    hypertable(
        "mpi_region_paths",
        &["job_id", "rank", "path", "time", "node_id"],
        &["mpi_regions"],
        rows(NONE, |_| 232.0)
            .assuming("programs without annotations")
            .with_metrics(Table::MpiRegionPaths, "time, job_id, rank, node_id, path, epoch, source, {metrics}")
            .totals(TotalForm::Row)
            .columns("job_id", "rank, path, time", NONE),
    ),
    hypertable(
        "mpi_sampled_calls",
        &["job_id", "time", "node_id", "comm_group", "operation", "size_class_bytes", "cell", "library"],
        &["mpi_sampled_calls"],
        rows(|s| s.mpi_nodes() / FOLD_SECONDS, |_| 640.0)
            .assuming("a node has one set of samples, of four calls a second")
            .copied(
                "time, job_id, node_id, comm_group, operation, size_class_bytes, cell, group_size, members, packed",
            )
            .thinned(Rule::Ticks, SAMPLED_STEP, |s| s.mpi_nodes() / 60.0, |_| 686.0)
            .columns("job_id", "time, node_id", |_| 423.0),
    ),
    hypertable(
        "mpi_rank_rows",
        &["job_id", "rank", "epoch", "time", "is_folded", "node_id"],
        &["mpi_rank_rows", "mpi_ops"],
        rows(rank_rows, |_| 402.0)
            .assuming("a rank has 10 cells and runs for hours")
            .copied("time, job_id, rank, node_id, epoch, source, is_folded, cells")
            .thinned_open(Rule::Last, RANK_STEP, |s| s.ranks() / 1800.0, |_| 408.0)
            .totals(TotalForm::Cells)
            .columns("job_id", "rank, epoch, time", |_| 286.0),
    ),
    hypertable(
        "mpi_node_rows",
        &["job_id", "node_id", "epoch", "time"],
        &["mpi_node_cells"],
        rows(|s| s.mpi_nodes() / FOLD_SECONDS, |_| 618.0)
            .assuming("a node's ranks have the same 10 cells")
            .copied("time, job_id, node_id, epoch, since, source, is_whole, cells, rounds, account")
            .thinned(Rule::Cells, SERIES_STEP, |s| s.mpi_nodes() * 61.0 / 3600.0, |_| 630.0)
            .totals(TotalForm::Cells)
            .columns("job_id", "node_id, epoch, time", |_| 467.0),
    ),
    hypertable(
        "mpi_node_traffic",
        &["job_id", "node_id", "operation", "kind", "direction", "epoch", "time", "library"],
        &["mpi_traffic"],
        rows(
            |s| s.mpi_nodes() / (traffic_cells(s) / TRAFFIC_CELLS_PER_NODE).max(FOLD_SECONDS),
            |s| by_peers(366.0, 2725.0, traffic_cells(s)),
        )
        .assuming("a rank sends to 4 peers by the same operation in each 10 s")
        .copied(
            "time, job_id, node_id, operation, kind, direction, epoch, since, source, is_whole, peers, bytes, messages",
        )
        .thinned(
            Rule::Peers { has_since: true },
            NODE_STEP,
            |s| s.mpi_nodes() * 13.0 / 3600.0,
            |s| by_peers(366.0, 2725.0, traffic_cells(s)),
        )
        .totals(TotalForm::Peers)
            .columns("job_id", "node_id, operation, kind, direction, epoch, time", |s| {
            by_peers(55.0, 1439.0, traffic_cells(s))
        }),
    ),
    hypertable(
        "mpi_rank_peers",
        &["job_id", "rank", "kind", "epoch", "time", "node_id", "library"],
        &["mpi_peers"],
        rows(rank_rows, |_| by_peers(282.0, 2597.0, PEERS_PER_RANK))
            .assuming("a rank sends to 4 peers and runs for hours")
            .copied("time, job_id, rank, node_id, kind, epoch, source, is_whole, peers, bytes, messages")
            .thinned_open(
                Rule::Peers { has_since: false },
                RANK_STEP,
                |s| s.ranks() / 1800.0,
                |_| by_peers(297.0, 2597.0, PEERS_PER_RANK),
            )
            .totals(TotalForm::Peers)
            .columns("job_id", "rank, kind, epoch, time", |_| by_peers(54.0, 1438.0, PEERS_PER_RANK)),
    ),
    hypertable(
        "mpi_trace",
        &["job_id", "rank", "epoch", "number", "time", "node_id"],
        &["mpi_traces"],
        rows(NONE, NONE)
            .assuming("only where requested")
            .copied(
                "time, job_id, rank, node_id, epoch, number, thread, kind, operation, region, start_ns, end_ns, peer, \
                 tag, bytes, comm, sequence",
            )
            .columns("job_id", "rank, epoch, number, time", NONE),
    ),
    hypertable(
        "mpi_clock",
        &["job_id", "rank", "epoch", "number", "time", "node_id"],
        &["mpi_clocks"],
        rows(NONE, NONE)
            .assuming("only where requested")
            .copied("time, job_id, rank, node_id, epoch, number, clock_ns, offset_ns, uncertainty_ns, round_trip_ns")
            .columns("job_id", "rank, epoch, number, time", NONE),
    ),
    hypertable(
        "events",
        &["time", "instance", "source", "kind"],
        &["events"],
        rows(NONE, |_| 400.0).events().hours(24).assuming("few").copied(
            "time, instance, source, kind, severity, text, ib_guid, ib_port, gpu_uuid, job_key, remote_ib_guid, \
             remote_ib_port, before, after",
        ),
    ),
    hypertable(
        "coverage",
        &["source", "instance", "time"],
        &["coverage"],
        rows(
            |s| (s.nodes() + s.gpu_nodes()) / ROUNDS_SECONDS.max(s.node_seconds) + s.fabrics() / s.port_seconds,
            |_| 162.0,
        )
        .hours(24)
        .assuming("one source of a node, two where it has GPUs, and one fabric whose switches all answer")
        .copied("time, instance, source, expected, read, failed, elapsed_seconds, reasons, rounds, first_time")
        .thinned(
            Rule::Rounds,
            ROUNDS_STEP,
            |s| (s.nodes() + s.gpu_nodes() + s.fabrics()) / 300.0,
            |_| 176.0,
        )
        .columns("instance", "source, time", |_| 19.0),
    ),
    hypertable(
        "self_stat_rows",
        &["instance", "time"],
        &["self_stats"],
        rows(|s| s.nodes() / OWN_SECONDS, |s| by_values(522.0, 2088.0, own_values(s)))
            .assuming("45 metrics of an agent about itself: 9 of them change, and totals of 5 MPI operations")
            .copied("time, instance, sources, labels, names, readings")
            .thinned(
                Rule::Metrics,
                METRICS_STEP,
                |s| s.nodes() / 240.0,
                |s| LISTED_ROW + 8.0 * (ALL_VALUES + if s.mpi_nodes() > 0.0 { MPI_TOTALS } else { 0.0 }),
            )
            .columns("instance", "time", |s| by_values(41.0, 212.0, own_values(s))),
    ),
    hypertable(
        "ib_port_minutes",
        &["port_id", "time", "epoch"],
        &[],
        rows(|s| s.ports() / 60.0, |_| 195.0).minutes().columns("port_id", "epoch, time", |_| 41.0),
    ),
    hypertable(
        "host_port_minutes",
        &["host_port_id", "time", "epoch"],
        &[],
        rows(|s| s.host_ports() / 60.0, |_| 186.0)
            .minutes()
            .columns("host_port_id", "epoch, time", |_| 37.0),
    ),
    hypertable(
        "nvlink_minutes",
        &["gpu_id", "time", "source", "epoch"],
        &[],
        rows(|s| s.gpus() / 60.0, |s| by_links(718.0, 1453.0, s.links()))
            .minutes()
            .columns("gpu_id", "source, epoch, time", |s| by_links(196.0, 570.0, s.links())),
    ),
    hypertable(
        "ib_port_blocks",
        &["port_id", "time"],
        &[],
        rows(|s| s.ports() / BLOCK_SECONDS, |s| PORT_HOUR / s.port_seconds).packed("ib_port_counters"),
    ),
    hypertable(
        "host_port_blocks",
        &["host_port_id", "time"],
        &[],
        rows(|s| s.host_ports() / BLOCK_SECONDS, |s| PORT_HOUR / s.node_seconds).packed("host_port_counters"),
    ),
    hypertable(
        "nvlink_blocks",
        &["gpu_id", "time", "source"],
        &[],
        rows(
            |s| s.gpus() / BLOCK_SECONDS,
            |s| by_links(NVLINK_HOURS.0, NVLINK_HOURS.1, s.links()) / s.node_seconds,
        )
        .packed("nvlink_counters"),
    ),
    hypertable(
        "gpu_pcie_blocks",
        &["gpu_id", "time", "source"],
        &[],
        rows(|s| s.gpus() / BLOCK_SECONDS, |s| PCIE_HOUR / s.node_seconds).packed("gpu_pcie_counters"),
    ),
    hypertable(
        "link_shares",
        &["port_id", "time"],
        &[],
        rows(|s| s.ports() * CONTRIBUTORS / WINDOW_SECONDS, |_| 182.0)
            .windows()
            .assuming("4 contributors on each port"),
    ),
    hypertable(
        "link_share_minutes",
        &["port_id", "time"],
        &[],
        rows(|s| s.ports() * CONTRIBUTORS / 60.0, |_| 191.0)
            .minutes()
            .hours(1)
            .assuming("4 contributors on each port, until they are packed"),
    ),
    hypertable(
        "link_share_hours",
        &["port_id", "time"],
        &[],
        rows(|s| s.ports() / BLOCK_SECONDS, |_| 3621.0)
            .packed("link_share_minutes")
            .hours(24)
            .assuming("4 contributors on each port in each minute"),
    ),
    hypertable(
        "detail_mpi_bins",
        &["job_id", "rank", "epoch", "time"],
        &["mpi_ops"],
        rows(NONE, |_| 14_600.0).on_demand().copied(
            "time, job_id, rank, epoch, source, since, node_id, request_id, attempt, operations, size_classes_bytes, \
             regions, algorithms, algorithm_sources, bins, cells, calls, bytes, elapsed_nanoseconds, longest_nanoseconds, \
             wait_nanoseconds, received_bytes, least_nanoseconds",
        ),
    ),
    hypertable(
        "detail_mpi_peers",
        &["job_id", "rank", "kind", "epoch", "time", "digest"],
        &["mpi_peers"],
        rows(NONE, |_| 341.0)
            .on_demand()
            .copied("time, job_id, rank, kind, epoch, source, peers, bytes, messages, digest"),
    ),
    hypertable(
        "detail_mpi_regions",
        &["job_id", "rank", "epoch", "time", "digest"],
        &["mpi_regions"],
        rows(NONE, NONE).on_demand().copied(
            "time, job_id, rank, epoch, source, regions, visits, elapsed_nanoseconds, own_nanoseconds, mpi_calls, \
             mpi_nanoseconds, digest",
        ),
    ),
    hypertable(
        "detail_mpi_pvars",
        &["job_id", "rank", "name", "element", "time"],
        &["mpi_pvars"],
        rows(NONE, NONE)
            .on_demand()
            .copied("time, job_id, rank, name, element, source, variable_class, value"),
    ),
    hypertable(
        "detail_host_ports",
        &["host_port_id", "time"],
        &["host_ports"],
        rows(NONE, |_| 375.0)
            .on_demand()
            .with_metrics(Table::HostPortCounters, "time, host_port_id, epoch, source, {metrics}"),
    ),
    hypertable(
        "detail_nvlink",
        &["gpu_id", "time", "source"],
        &["gpu_links"],
        rows(NONE, |_| 1442.0)
            .on_demand()
            .with_metrics(Table::NvlinkCounters, "time, gpu_id, epoch, source, {metrics}"),
    ),
    hypertable(
        "detail_gpu_pcie",
        &["gpu_id", "time", "source"],
        &["gpu_pcie"],
        rows(NONE, |_| 154.0)
            .on_demand()
            .with_metrics(Table::GpuPcieCounters, "time, gpu_id, epoch, source, {metrics}"),
    ),
    hypertable(
        "detail_gpu_pm",
        &["gpu_id", "time", "source"],
        &["gpu_pm"],
        rows(NONE, NONE)
            .on_demand()
            .with_metrics(Table::GpuPmCounters, "time, gpu_id, epoch, source, {metrics}"),
    ),
    hypertable(
        "detail_ib_ports",
        &["port_id", "time"],
        &["ib_ports"],
        rows(NONE, |_| 375.0)
            .on_demand()
            .with_metrics(Table::IbPortCounters, "time, port_id, epoch, source, {metrics}, saturated"),
    ),
];
