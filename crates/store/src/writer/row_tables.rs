//! The hypertables that batches fill, and their columns in the order of the rows.

use throughline_sample::catalogue::Table;

/// A hypertable and its columns in the order of the rows.
pub(super) struct TableSpec {
    pub name: &'static str,
    before: &'static [&'static str],
    metrics: Option<Table>,
    after: &'static [&'static str],
}

impl TableSpec {
    /// Whether its rows were requested, and may be there from an earlier request. Those of operations hold many records each, and
    /// are removed when a later answer has all that they have.
    pub fn may_be_there(&self) -> bool {
        self.name.starts_with("detail_") && self.name != "detail_mpi_bins"
    }

    /// All columns, for COPY.
    pub fn column_list(&self) -> String {
        self.columns().join(", ")
    }

    pub fn columns(&self) -> Vec<&'static str> {
        let metrics = self.metrics.map_or(&[][..], Table::metrics).iter().map(|metric| metric.name);
        self.before.iter().copied().chain(metrics).chain(self.after.iter().copied()).collect()
    }
}

pub(super) const IB_PORTS: usize = 0;
pub(super) const HOST_PORTS: usize = 1;
pub(super) const NVLINK: usize = 2;
pub(super) const PCIE: usize = 3;
pub(super) const MPI_PVARS: usize = 4;
pub(super) const EVENTS: usize = 5;
pub(super) const COVERAGE: usize = 6;
pub(super) const SELF_STATS: usize = 7;
pub(super) const IB_PORT_LANES: usize = 8;
pub(super) const MPI_REGIONS: usize = 9;
pub(super) const MPI_TRACE: usize = 10;
pub(super) const MPI_CLOCK: usize = 11;
pub(super) const PM: usize = 12;
pub(super) const MPI_SAMPLED_CALLS: usize = 13;
pub(super) const MPI_REGION_PATHS: usize = 14;
pub(super) const MPI_RANK_ROWS: usize = 15;
pub(super) const MPI_NODE_TRAFFIC: usize = 16;
pub(super) const MPI_RANK_PEERS: usize = 17;
pub(super) const DETAIL_MPI_BINS: usize = 18;
pub(super) const DETAIL_MPI_PEERS: usize = 19;
pub(super) const DETAIL_MPI_REGIONS: usize = 20;
pub(super) const DETAIL_MPI_PVARS: usize = 21;
pub(super) const DETAIL_HOST_PORTS: usize = 22;
pub(super) const DETAIL_NVLINK: usize = 23;
pub(super) const DETAIL_PCIE: usize = 24;
pub(super) const DETAIL_PM: usize = 25;
pub(super) const MPI_NODE_ROWS: usize = 26;
pub(super) const DETAIL_IB_PORTS: usize = 27;

/// The tables that batches fill.
pub(super) static TABLES: [TableSpec; 28] = [
    TableSpec {
        name: "ib_port_counters",
        before: &["time", "port_id", "epoch", "source"],
        metrics: Some(Table::IbPortCounters),
        after: &["saturated"],
    },
    TableSpec {
        name: "host_port_counters",
        before: &["time", "host_port_id", "epoch", "source"],
        metrics: Some(Table::HostPortCounters),
        after: &[],
    },
    TableSpec {
        name: "nvlink_counters",
        before: &["time", "gpu_id", "epoch", "source"],
        metrics: Some(Table::NvlinkCounters),
        after: &[],
    },
    TableSpec {
        name: "gpu_pcie_counters",
        before: &["time", "gpu_id", "epoch", "source"],
        metrics: Some(Table::GpuPcieCounters),
        after: &[],
    },
    TableSpec {
        name: "mpi_pvars",
        before: &[
            "time",
            "job_id",
            "rank",
            "node_id",
            "name",
            "element",
            "source",
            "variable_class",
            "value",
        ],
        metrics: None,
        after: &[],
    },
    TableSpec {
        name: "events",
        before: &[
            "time",
            "instance",
            "source",
            "kind",
            "severity",
            "text",
            "ib_guid",
            "ib_port",
            "gpu_uuid",
            "job_key",
            "remote_ib_guid",
            "remote_ib_port",
            "before",
            "after",
        ],
        metrics: None,
        after: &[],
    },
    TableSpec {
        name: "coverage",
        before: &[
            "time",
            "instance",
            "source",
            "expected",
            "read",
            "failed",
            "elapsed_seconds",
            "reasons",
            "rounds",
            "first_time",
        ],
        metrics: None,
        after: &[],
    },
    TableSpec {
        name: "self_stat_rows",
        before: &["time", "instance", "sources", "names", "readings"],
        metrics: None,
        after: &[],
    },
    TableSpec {
        name: "ib_port_lane_counters",
        before: &["time", "port_id", "epoch", "source"],
        metrics: Some(Table::IbPortLaneCounters),
        after: &[],
    },
    TableSpec {
        name: "mpi_regions",
        before: &["time", "job_id", "rank", "node_id", "region", "epoch", "source"],
        metrics: Some(Table::MpiRegions),
        after: &[],
    },
    TableSpec {
        name: "mpi_trace",
        before: &[
            "time",
            "job_id",
            "rank",
            "node_id",
            "epoch",
            "number",
            "thread",
            "kind",
            "operation",
            "region",
            "start_ns",
            "end_ns",
            "peer",
            "tag",
            "bytes",
            "comm",
            "sequence",
        ],
        metrics: None,
        after: &[],
    },
    TableSpec {
        name: "mpi_clock",
        before: &[
            "time",
            "job_id",
            "rank",
            "node_id",
            "epoch",
            "number",
            "clock_ns",
            "offset_ns",
            "uncertainty_ns",
            "round_trip_ns",
        ],
        metrics: None,
        after: &[],
    },
    TableSpec {
        name: "gpu_pm_counters",
        before: &["time", "gpu_id", "epoch", "source"],
        metrics: Some(Table::GpuPmCounters),
        after: &[],
    },
    TableSpec {
        name: "mpi_sampled_calls",
        before: &["time", "job_id", "node_id", "comm_group", "operation", "size_class_bytes", "cell"],
        metrics: None,
        after: &["group_size", "members", "packed"],
    },
    TableSpec {
        name: "mpi_region_paths",
        before: &["time", "job_id", "rank", "node_id", "path", "epoch", "source"],
        metrics: Some(Table::MpiRegionPaths),
        after: &[],
    },
    TableSpec {
        name: "mpi_rank_rows",
        before: &["time", "job_id", "rank", "node_id", "epoch", "source", "is_folded", "cells"],
        metrics: None,
        after: &[],
    },
    TableSpec {
        name: "mpi_node_traffic",
        before: &[
            "time",
            "job_id",
            "node_id",
            "operation",
            "kind",
            "direction",
            "epoch",
            "since",
            "source",
            "is_whole",
            "peers",
            "bytes",
            "messages",
        ],
        metrics: None,
        after: &[],
    },
    TableSpec {
        name: "mpi_rank_peers",
        before: &[
            "time", "job_id", "rank", "node_id", "kind", "epoch", "source", "is_whole", "peers", "bytes",
            "messages",
        ],
        metrics: None,
        after: &[],
    },
    TableSpec {
        name: "detail_mpi_bins",
        before: &[
            "time",
            "job_id",
            "rank",
            "epoch",
            "source",
            "since",
            "node_id",
            "request_id",
            "attempt",
            "operations",
            "size_classes_bytes",
            "regions",
            "algorithms",
            "algorithm_sources",
            "bins",
            "cells",
            "calls",
            "bytes",
            "elapsed_nanoseconds",
            "longest_nanoseconds",
            "wait_nanoseconds",
            "received_bytes",
            "least_nanoseconds",
        ],
        metrics: None,
        after: &[],
    },
    TableSpec {
        name: "detail_mpi_peers",
        before: &[
            "time", "job_id", "rank", "kind", "epoch", "source", "peers", "bytes", "messages", "digest",
        ],
        metrics: None,
        after: &[],
    },
    TableSpec {
        name: "detail_mpi_regions",
        before: &[
            "time",
            "job_id",
            "rank",
            "epoch",
            "source",
            "regions",
            "visits",
            "elapsed_nanoseconds",
            "own_nanoseconds",
            "mpi_calls",
            "mpi_nanoseconds",
            "digest",
        ],
        metrics: None,
        after: &[],
    },
    TableSpec {
        name: "detail_mpi_pvars",
        before: &["time", "job_id", "rank", "name", "element", "source", "variable_class", "value"],
        metrics: None,
        after: &[],
    },
    TableSpec {
        name: "detail_host_ports",
        before: &["time", "host_port_id", "epoch", "source"],
        metrics: Some(Table::HostPortCounters),
        after: &[],
    },
    TableSpec {
        name: "detail_nvlink",
        before: &["time", "gpu_id", "epoch", "source"],
        metrics: Some(Table::NvlinkCounters),
        after: &[],
    },
    TableSpec {
        name: "detail_gpu_pcie",
        before: &["time", "gpu_id", "epoch", "source"],
        metrics: Some(Table::GpuPcieCounters),
        after: &[],
    },
    TableSpec {
        name: "detail_gpu_pm",
        before: &["time", "gpu_id", "epoch", "source"],
        metrics: Some(Table::GpuPmCounters),
        after: &[],
    },
    TableSpec {
        name: "mpi_node_rows",
        before: &["time", "job_id", "node_id", "epoch", "since", "source", "is_whole", "cells", "rounds"],
        metrics: None,
        after: &[],
    },
    TableSpec {
        name: "detail_ib_ports",
        before: &["time", "port_id", "epoch", "source"],
        metrics: Some(Table::IbPortCounters),
        after: &["saturated"],
    },
];
