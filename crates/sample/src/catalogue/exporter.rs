//! Series that infiniband_exporter 0.10 has besides port counters, for the dashboards and rules made for it:
//! names, labels, kind gauge throughout. Its counters and uplinks are in `infiniband`.

/// What an exporter's series is: name, labels, help.
pub struct ExporterSeries {
    /// Prometheus name.
    pub name: &'static str,
    /// Labels.
    pub labels: &'static [&'static str],
    /// Help.
    pub help: &'static str,
}

const fn series(name: &'static str, labels: &'static [&'static str], help: &'static str) -> ExporterSeries {
    ExporterSeries { name, labels, help }
}

/// Value 1.
pub static SWITCH_INFO: ExporterSeries =
    series("infiniband_switch_info", &["guid", "switch", "lid"], "A switch of the fabric.");
/// Value 1. `node_guid` is ours: that of the adapter, where `guid` is its port's.
pub static HCA_INFO: ExporterSeries = series(
    "infiniband_hca_info",
    &["guid", "hca", "lid", "node_guid"],
    "A port of an adapter of the fabric.",
);
/// As infiniband_exporter 0.10 has it: 25.78125 Gbit/s of each EDR lane, 50 of each HDR lane.
pub static SWITCH_RAW_RATE: ExporterSeries = series(
    "infiniband_switch_port_raw_rate_bytes_per_second",
    &["guid", "port"],
    "Raw rate of a switch port's link in one direction: with the line code up to EDR, the data rate from HDR on.",
);
/// Ours: only for links that are less than they could be, so that alerts test whether it is there.
pub static SWITCH_POSSIBLE_RATE: ExporterSeries = series(
    "infiniband_switch_port_possible_rate_bytes_per_second",
    &["guid", "port"],
    "Data rate that both ends of a switch port's link are set to use, only where the link has fewer lanes or less speed.",
);
/// As infiniband_exporter 0.10 has it, to which each port of an adapter is a device.
pub static HCA_RATE: ExporterSeries = series(
    "infiniband_hca_rate_bytes_per_second",
    &["guid"],
    "Data rate of the link of an adapter's port in one direction, after line coding.",
);
/// As [`HCA_RATE`].
pub static HCA_RAW_RATE: ExporterSeries = series(
    "infiniband_hca_raw_rate_bytes_per_second",
    &["guid"],
    "Raw rate of the link of an adapter's port in one direction: with the line code up to EDR, the data rate from HDR on.",
);
/// 1 where a port's counters were refused or malformed in the last sweep.
pub static SWITCH_COLLECT_ERROR: ExporterSeries = series(
    "infiniband_switch_collect_error",
    &["guid", "collector"],
    "1 where counters of this switch could not be read in the last sweep, for other reasons than silence.",
);
/// 1 where a port's counters were not answered in the last sweep.
pub static SWITCH_COLLECT_TIMEOUT: ExporterSeries = series(
    "infiniband_switch_collect_timeout",
    &["guid", "collector"],
    "1 where this switch did not answer all requests of the last sweep.",
);
/// As on a switch.
pub static HCA_COLLECT_ERROR: ExporterSeries = series(
    "infiniband_hca_collect_error",
    &["guid", "collector"],
    "1 where counters of this port of an adapter could not be read in the last sweep, for other reasons than silence.",
);
/// As on a switch.
pub static HCA_COLLECT_TIMEOUT: ExporterSeries = series(
    "infiniband_hca_collect_timeout",
    &["guid", "collector"],
    "1 where this port of an adapter did not answer all requests of the last sweep.",
);
/// From the begin of the sweep: one sweep reads all nodes at once.
pub static SWITCH_COLLECT_DURATION: ExporterSeries = series(
    "infiniband_switch_collect_duration_seconds",
    &["guid", "collector"],
    "Time from the beginning of the last sweep to the last reply of this switch.",
);
/// As on a switch.
pub static HCA_COLLECT_DURATION: ExporterSeries = series(
    "infiniband_hca_collect_duration_seconds",
    &["guid", "collector"],
    "Time from the beginning of the last sweep to the last reply of this port of an adapter.",
);
/// Nodes, of the collector `switch` or `hca`.
pub static COLLECT_ERRORS: ExporterSeries = series(
    "infiniband_exporter_collect_errors",
    &["collector"],
    "Nodes whose counters could not be read in the last sweep, for other reasons than silence.",
);
/// Nodes, of the collector `switch` or `hca`.
pub static COLLECT_TIMEOUTS: ExporterSeries = series(
    "infiniband_exporter_collect_timeouts",
    &["collector"],
    "Nodes that did not answer all requests of the last sweep.",
);
/// The same for both collectors: one sweep reads all.
pub static COLLECTOR_DURATION: ExporterSeries =
    series("infiniband_exporter_collector_duration_seconds", &["collector"], "How long the last sweep took.");
/// Seconds since 1970. Alert on its age: the page shows the last sweep.
pub static LAST_EXECUTION: ExporterSeries = series(
    "infiniband_exporter_last_execution",
    &["collector"],
    "When the sweep that this page shows ended, in seconds since 1970.",
);

/// All of them, for documents and tests.
pub static EXPORTER_SERIES: [&ExporterSeries; 16] = [
    &SWITCH_INFO,
    &HCA_INFO,
    &SWITCH_RAW_RATE,
    &SWITCH_POSSIBLE_RATE,
    &HCA_RATE,
    &HCA_RAW_RATE,
    &SWITCH_COLLECT_ERROR,
    &SWITCH_COLLECT_TIMEOUT,
    &HCA_COLLECT_ERROR,
    &HCA_COLLECT_TIMEOUT,
    &SWITCH_COLLECT_DURATION,
    &HCA_COLLECT_DURATION,
    &COLLECT_ERRORS,
    &COLLECT_TIMEOUTS,
    &COLLECTOR_DURATION,
    &LAST_EXECUTION,
];
