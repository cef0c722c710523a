//! The metric catalogue: each metric stated once, with name, unit, kind, width, meaning and source.
//!
//! SQL columns and comments, Prometheus names and help, JSON keys and `docs/METRICS.md` come from here or are
//! checked against it by a test. A metric's short name is its SQL column and JSON key; its Prometheus name is
//! the table's prefix + the short name + `_total` where it is a counter. Units are base units, last in the name.

mod document;
mod exporter;
mod gpu;
mod host;
mod infiniband;
mod job_series;
mod link_series;
mod mpi;
mod own;

pub use document::to_markdown;
pub use exporter::*;
pub use gpu::*;
pub use host::*;
pub use infiniband::*;
pub use job_series::*;
pub use link_series::*;
pub use mpi::*;
pub use own::*;

/// Whether a value only grows (within an epoch) or goes up and down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Grows within an epoch; rates are made when read and never span an epoch.
    Counter,
    /// The value at one moment.
    Gauge,
}

/// The base unit of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes, never 4-byte words.
    Bytes,
    /// Bytes in one second.
    BytesPerSecond,
    /// Seconds.
    Seconds,
    /// Packets, whatever their length.
    Packets,
    /// Events and objects: errors, calls, messages, states.
    Count,
    /// Ticks whose length depends on the device (`PortXmitWait`).
    Ticks,
    /// A share between 0 and 1.
    Ratio,
    /// That of the metric that a row is of.
    Own,
}

impl Unit {
    /// The unit in words, for documents.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Unit::Bytes => "bytes",
            Unit::BytesPerSecond => "bytes per second",
            Unit::Seconds => "seconds",
            Unit::Packets => "packets",
            Unit::Count => "count",
            Unit::Ticks => "device ticks",
            Unit::Ratio => "ratio",
            Unit::Own => "the metric's own",
        }
    }
}

/// What a counter does at its largest value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// Starts again at 0 after this many bits; a reader unfolds one wrap between two samples.
    Wraps(u8),
    /// Sticks at its largest value, which has so many bits in the narrowest attribute that holds the counter; 0 where
    /// that depends on the device. Such a reading is stored as NULL and named in `saturated`; pages and series show
    /// [`Metric::end`].
    Saturates(u8),
}

/// Bits of a stored value: columns are signed 64-bit integers, and a 64-bit counter of 4-byte words does not
/// fit in them as bytes, so byte counters are stored modulo 2^63 (nearly three years at 100 GB/s).
pub const STORED_BITS: u8 = 63;

impl Width {
    /// The value as it is stored: modulo the width, at most 2^63 - 1.
    #[must_use]
    pub const fn reduce(self, value: u64) -> u64 {
        let most = u64::MAX >> 1;
        match self {
            Width::Wraps(bits) if bits < STORED_BITS => value & ((1 << bits) - 1),
            Width::Wraps(_) => value & most,
            Width::Saturates(_) if value > most => most,
            Width::Saturates(_) => value,
        }
    }
}

/// One metric.
#[derive(Debug, PartialEq, Eq)]
pub struct Metric {
    /// Number in the wire schema's `Values`; never reused.
    pub id: u32,
    /// The hypertable that holds it.
    pub table: Table,
    /// SQL column and JSON key, unit last.
    pub name: &'static str,
    /// Counter or gauge.
    pub kind: Kind,
    /// Base unit.
    pub unit: Unit,
    /// What a counter does at its largest value; `Wraps(63)` for gauges.
    pub width: Width,
    /// The label that its series have besides those of the table, such as `reason`.
    pub label: Option<&'static str>,
    /// What it means, one sentence: the help of Prometheus and the comment of the SQL column.
    pub help: &'static str,
    /// Where the number comes from: IBTA attribute, sysfs file, NVML field, MPI call.
    pub origin: &'static str,
}

impl Metric {
    /// The name under which a daemon reports it among its self-metrics (`self_stats`): that of its page without the prefix
    /// that all have. A node's totals of MPI operations are reported so, too.
    #[must_use]
    pub fn self_metric_name(&self) -> String {
        let prefix = self.table.prometheus_prefixes().first().copied().unwrap_or_default();
        format!("{}{}", prefix.strip_prefix("throughline_").unwrap_or(prefix), self.name)
    }

    /// Names of the labels of its Prometheus series; `instance` (node name or subnet prefix) is added by the scrape.
    pub fn labels(&self) -> impl Iterator<Item = &'static str> {
        self.table.labels().iter().copied().chain(self.label)
    }

    /// The value at which the counter sticks, where the catalogue knows it.
    #[must_use]
    pub const fn end(&self) -> Option<u64> {
        match self.width {
            Width::Saturates(bits) if bits > 0 => Some(u64::MAX >> (64 - bits)),
            _ => None,
        }
    }

    /// Whether its values have fractions; others are whole numbers.
    #[must_use]
    pub const fn is_fractional(&self) -> bool {
        match self.unit {
            Unit::Seconds | Unit::Ratio => true,
            // Sums of what a metric counts are whole.
            Unit::Own => matches!(self.kind, Kind::Gauge),
            Unit::Bytes | Unit::BytesPerSecond | Unit::Packets | Unit::Count | Unit::Ticks => false,
        }
    }

    /// The name of the series that is 1 while the counter sticks at its end; absent otherwise.
    #[must_use]
    pub fn saturated_name(&self, prefix: &str) -> String {
        format!("{prefix}{}{SATURATED_SUFFIX}", self.exported_name())
    }

    /// The short name in Prometheus: that of the column, unless infiniband_exporter spells it in another way.
    #[must_use]
    pub fn exported_name(&self) -> &'static str {
        match self.name {
            "dlid_mapping_errors" => "dli_mapping_errors",
            name => name,
        }
    }

    /// The Prometheus name under one of the table's prefixes.
    #[must_use]
    pub fn prometheus_name(&self, prefix: &str) -> String {
        let suffix = if self.kind == Kind::Counter { "_total" } else { "" };
        format!("{prefix}{}{suffix}", self.exported_name())
    }
}

/// Behind a counter's short name: the series that says that it sticks at its end.
pub const SATURATED_SUFFIX: &str = "_saturated";
/// Help of these series; the counter's own help stands with the counter.
pub const SATURATED_HELP: &str =
    "1 while this counter sticks at its largest value: it counts no more until it is cleared.";

/// A hypertable of samples, or a view on one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Table {
    /// Ports of the fabric, read through MADs.
    IbPortCounters,
    /// The same ports by service level and virtual lane; one row per port and time, each metric an array over
    /// lanes (element 1 is lane 0).
    IbPortLaneCounters,
    /// Ports of a host's own adapters, read in sysfs.
    HostPortCounters,
    /// NVLinks; one row per GPU and tick, each metric an array over links (element 1 is link 0).
    NvlinkCounters,
    /// PCIe of a GPU.
    GpuPcieCounters,
    /// What a GPU's performance monitor was sampled for.
    GpuPmCounters,
    /// Metrics of a GPU's performance monitor that a site chose by name; one row per GPU, metric and time.
    GpuMetrics,
    /// MPI operations of a rank.
    MpiOps,
    /// Traffic from rank to rank.
    MpiPeers,
    /// Annotated regions of a rank's program.
    MpiRegions,
    /// Paths of annotated regions: the call tree of a rank's program.
    MpiRegionPaths,
    /// Traffic of a job from a node to ranks, by operation.
    MpiTraffic,
    /// Self-metrics of Throughline, by name.
    SelfStats,
}

impl Table {
    /// All tables with catalogue metrics.
    pub const ALL: [Table; 13] = [
        Table::IbPortCounters,
        Table::IbPortLaneCounters,
        Table::HostPortCounters,
        Table::NvlinkCounters,
        Table::GpuPcieCounters,
        Table::GpuPmCounters,
        Table::GpuMetrics,
        Table::MpiOps,
        Table::MpiPeers,
        Table::MpiRegions,
        Table::MpiRegionPaths,
        Table::MpiTraffic,
        Table::SelfStats,
    ];

    /// SQL name: of the hypertable, or of the view that has a row for each element of its arrays.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Table::IbPortCounters => "ib_port_counters",
            Table::IbPortLaneCounters => "ib_port_lane_counters",
            Table::HostPortCounters => "host_port_counters",
            Table::NvlinkCounters => "nvlink_counters",
            Table::GpuPcieCounters => "gpu_pcie_counters",
            Table::GpuPmCounters => "gpu_pm_counters",
            Table::GpuMetrics => "gpu_metrics",
            Table::MpiOps => "mpi_op_rows",
            Table::MpiPeers => "mpi_peer_rows",
            Table::MpiRegions => "mpi_regions",
            Table::MpiRegionPaths => "mpi_region_paths",
            Table::MpiTraffic => "mpi_traffic_rows",
            Table::SelfStats => "self_stats",
        }
    }

    /// Prometheus prefixes: a switch's and an adapter's ports have different ones, as users query them.
    /// Empty where a table is not exposed (rank × rank would be too many series).
    #[must_use]
    pub const fn prometheus_prefixes(self) -> &'static [&'static str] {
        match self {
            Table::IbPortCounters | Table::IbPortLaneCounters => &[SWITCH_PORT_PREFIX, HCA_PORT_PREFIX],
            Table::HostPortCounters => &["node_infiniband_"],
            Table::NvlinkCounters => &["throughline_nvlink_"],
            Table::GpuPcieCounters => &["throughline_pcie_"],
            Table::GpuPmCounters => &["throughline_gpu_pm_"],
            Table::GpuMetrics => &["throughline_gpu_metric_"],
            Table::MpiOps => &["throughline_mpi_"],
            Table::MpiPeers | Table::MpiRegions | Table::MpiRegionPaths | Table::MpiTraffic => &[],
            Table::SelfStats => &["throughline_"],
        }
    }

    /// Labels that the series of all its metrics have.
    #[must_use]
    pub const fn labels(self) -> &'static [&'static str] {
        match self {
            Table::IbPortCounters => &["guid", "port"],
            Table::IbPortLaneCounters => &["guid", "port", "lane"],
            Table::HostPortCounters => &["device", "port"],
            Table::NvlinkCounters => &["gpu", "link"],
            Table::GpuPcieCounters | Table::GpuPmCounters => &["gpu"],
            Table::GpuMetrics => &["gpu", "metric"],
            Table::MpiOps => &["operation"],
            Table::MpiPeers | Table::MpiRegions | Table::MpiRegionPaths | Table::MpiTraffic => &[],
            Table::SelfStats => &["source"],
        }
    }

    /// Whether it is a view: its hypertables have packed cells, arrays of peers or of self-metrics in place of columns of metrics.
    #[must_use]
    pub const fn is_view(self) -> bool {
        matches!(self, Table::MpiOps | Table::MpiPeers | Table::MpiTraffic | Table::SelfStats)
    }

    /// Whether its rows hold arrays over links or lanes.
    #[must_use]
    pub const fn has_arrays(self) -> bool {
        matches!(self, Table::NvlinkCounters | Table::IbPortLaneCounters)
    }

    /// Its metrics, in the order of the SQL columns.
    #[must_use]
    pub const fn metrics(self) -> &'static [&'static Metric] {
        match self {
            Table::IbPortCounters => infiniband::ALL,
            Table::IbPortLaneCounters => infiniband::LANES,
            Table::HostPortCounters => host::ALL,
            Table::NvlinkCounters => gpu::NVLINK,
            Table::GpuPcieCounters => gpu::PCIE,
            Table::GpuPmCounters => gpu::PM,
            Table::GpuMetrics => gpu::CHOSEN,
            Table::MpiOps => mpi::OPS,
            Table::MpiPeers => mpi::PEERS,
            Table::MpiRegions => mpi::REGIONS,
            Table::MpiRegionPaths => mpi::REGION_PATHS,
            Table::MpiTraffic => mpi::TRAFFIC,
            Table::SelfStats => own::ALL,
        }
    }
}

/// The metric with this number, `None` for a number that this build does not know.
#[must_use]
pub fn by_id(id: u32) -> Option<&'static Metric> {
    Table::ALL.iter().flat_map(|table| table.metrics()).find(|metric| metric.id == id).copied()
}

/// Declares the metrics of one table and the list of them.
macro_rules! metrics {
    ($(#[$list_doc:meta])* $list:ident, $table:ident:
     $($id:literal $constant:ident $name:literal $kind:ident $unit:ident $width:expr, $help:literal, $origin:literal
       $(, label $label:literal)?;)+) => {
        $(
            #[doc = $help]
            pub static $constant: $crate::catalogue::Metric = $crate::catalogue::Metric {
                id: $id,
                table: $crate::catalogue::Table::$table,
                name: $name,
                kind: $crate::catalogue::Kind::$kind,
                unit: $crate::catalogue::Unit::$unit,
                width: $width,
                label: $crate::catalogue::metrics!(@label $($label)?),
                help: $help,
                origin: $origin,
            };
        )+
        $(#[$list_doc])*
        pub(super) static $list: &[&$crate::catalogue::Metric] = &[$(&$constant),+];
    };
    (@label) => { None };
    (@label $label:literal) => { Some($label) };
}
use metrics;

#[cfg(test)]
mod tests;
