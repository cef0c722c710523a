//! A sweep as text: families of all ports that a page shows. Pure; what was not read has no line.

use crate::scrape::PageRequest;
use std::collections::BTreeMap;
use throughline_daemon::{Families, Piece, label_text};
use throughline_infiniband::capability::Capability;
use throughline_infiniband::link::signalling_bytes_per_second;
use throughline_infiniband::mad::{NodeKind, counter_metrics};
use throughline_infiniband::reading::PortReading;
use throughline_infiniband::records::gauges;
use throughline_infiniband::topology::{Node, NodeIndex, PortEnd, Topology};
use throughline_sample::catalogue::{
    COLLECT_ERRORS, COLLECT_TIMEOUTS, COLLECTOR_DURATION, ExporterSeries, HCA_COLLECT_DURATION,
    HCA_COLLECT_ERROR, HCA_COLLECT_TIMEOUT, HCA_INFO, HCA_PORT_PREFIX, HCA_RATE, HCA_RAW_RATE,
    HCA_UPLINK_INFO, HCA_UPLINK_LABELS, Kind, LAST_EXECUTION, PORT_RATE_BYTES_PER_SECOND, SATURATED_HELP,
    SWITCH_COLLECT_DURATION, SWITCH_COLLECT_ERROR, SWITCH_COLLECT_TIMEOUT, SWITCH_INFO, SWITCH_PORT_PREFIX,
    SWITCH_POSSIBLE_RATE, SWITCH_RAW_RATE, SWITCH_UPLINK_INFO, SWITCH_UPLINK_LABELS,
    TRANSMIT_WAIT_TICK_BYTES,
};

/// What is reported of a sweep as a whole.
#[derive(Clone, Copy, Debug)]
pub struct SweepInfo {
    /// How long it took.
    pub seconds: f64,
    /// When it ended, seconds since 1970.
    pub ended: f64,
}

/// The two kinds of nodes of the page: switches, and everything else.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Switch,
    Hca,
}

impl Side {
    const ALL: [Side; 2] = [Side::Switch, Side::Hca];

    fn of(kind: NodeKind) -> Side {
        if kind == NodeKind::Switch { Side::Switch } else { Side::Hca }
    }

    /// As infiniband_exporter calls what reads them.
    fn collector(self) -> &'static str {
        match self {
            Side::Switch => "switch",
            Side::Hca => "hca",
        }
    }
}

/// The families of one page.
pub fn render(
    topology: &Topology,
    readings: &[PortReading],
    info: SweepInfo,
    request: &PageRequest,
) -> Piece {
    let mut out = Families::new(request.format);
    for side in Side::ALL {
        let shown: Vec<(&PortReading, String)> = readings
            .iter()
            .filter(|reading| Side::of(reading.kind) == side && request.shard.has(reading.guid))
            .map(|reading| (reading, port_labels(reading)))
            .collect();
        counters(&mut out, side, &shown, request);
        rates(&mut out, side, topology, &shown);
        failures(&mut out, side, &shown);
        nodes(&mut out, side, topology, request);
        durations(&mut out, side, &shown, info);
    }
    if request.shard.is_first() {
        sweep(&mut out, readings, info);
    }
    out.finish()
}

fn port_labels(reading: &PortReading) -> String {
    label_text(&[("guid", &reading.guid.to_string()), ("port", &reading.port.to_string())])
}

fn counters(out: &mut Families, side: Side, shown: &[(&PortReading, String)], request: &PageRequest) {
    let prefix = match side {
        Side::Switch => SWITCH_PORT_PREFIX,
        Side::Hca => HCA_PORT_PREFIX,
    };
    for index in request.choice.indices() {
        let metric = counter_metrics()[index];
        let mut values = shown
            .iter()
            .filter_map(|(reading, labels)| {
                let counters = &reading.counters;
                Some((labels, counters.wrapped(index).or_else(|| counters.end(index))?))
            })
            .peekable();
        if values.peek().is_some() {
            out.begin(&format!("{prefix}{}", metric.exported_name()), metric.kind, metric.help);
            values.for_each(|(labels, value)| out.series(labels, metric.width.reduce(value)));
        }
        let mut full = shown.iter().filter(|(reading, _)| reading.counters.is_at_end(index)).peekable();
        if full.peek().is_some() {
            out.begin(&metric.saturated_name(prefix), Kind::Gauge, SATURATED_HELP);
            full.for_each(|(_, labels)| out.series(labels, 1));
        }
    }
    for metric in [&PORT_RATE_BYTES_PER_SECOND, &TRANSMIT_WAIT_TICK_BYTES] {
        let value =
            |reading| gauges(reading).find(|(known, _)| known.id == metric.id).map(|(_, value)| value);
        let mut values =
            shown.iter().filter_map(|(reading, labels)| Some((labels, value(*reading)?))).peekable();
        if values.peek().is_some() {
            out.begin(&format!("{prefix}{}", metric.exported_name()), metric.kind, metric.help);
            values.for_each(|(labels, value)| out.series(labels, value));
        }
    }
}

fn begin(out: &mut Families, series: &ExporterSeries) {
    out.begin(series.name, Kind::Gauge, series.help);
}

/// Signalling rates; of an adapter also its data rate without a port, as infiniband_exporter has it.
fn rates(out: &mut Families, side: Side, topology: &Topology, shown: &[(&PortReading, String)]) {
    let raw = |reading: &PortReading| {
        let node = &topology.nodes[reading.node];
        let (width, speed) = node.link_of(node.port(reading.port)?)?;
        Some(signalling_bytes_per_second(width, speed))
    };
    if side == Side::Switch {
        begin(out, &SWITCH_RAW_RATE);
        for (reading, labels) in shown {
            if let Some(rate) = raw(reading) {
                out.series(labels, rate);
            }
        }
        possible_rates(out, topology, shown);
        return;
    }
    let mut fastest: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for (reading, _) in shown {
        let labels = label_text(&[("guid", &reading.guid.to_string())]);
        let rates = (reading.rate_bytes_per_second.unwrap_or(0), raw(reading).unwrap_or(0));
        let most = fastest.entry(labels).or_default();
        *most = (*most).max(rates);
    }
    begin(out, &HCA_RATE);
    fastest.iter().filter(|(_, rates)| rates.0 > 0).for_each(|(labels, rates)| out.series(labels, rates.0));
    begin(out, &HCA_RAW_RATE);
    fastest.iter().filter(|(_, rates)| rates.1 > 0).for_each(|(labels, rates)| out.series(labels, rates.1));
}

/// What degraded links could carry. No family where there is none: most fabrics, most of the time.
fn possible_rates(out: &mut Families, topology: &Topology, shown: &[(&PortReading, String)]) {
    let possible = |reading: &PortReading| {
        let there = topology.nodes[reading.node].port(reading.port)?.remote;
        let here = PortEnd { node: reading.node, port: reading.port };
        Capability::of(topology, here, there).possible_rate_bytes_per_second()
    };
    let mut degraded =
        shown.iter().filter_map(|(reading, labels)| Some((labels, possible(reading)?))).peekable();
    if degraded.peek().is_some() {
        begin(out, &SWITCH_POSSIBLE_RATE);
        degraded.for_each(|(labels, rate)| out.series(labels, rate));
    }
}

/// Whether a reason says that nobody answered.
fn is_silence(reason: &str) -> bool {
    matches!(reason, "timeout" | "silent")
}

/// Which nodes could not be read whole: (error, silence) by node.
fn troubles<'a>(readings: impl Iterator<Item = &'a PortReading>) -> BTreeMap<NodeIndex, (bool, bool)> {
    let mut troubles: BTreeMap<NodeIndex, (bool, bool)> = BTreeMap::new();
    for reading in readings {
        let trouble = troubles.entry(reading.node).or_default();
        if let Some(reason) = reading.failure {
            trouble.0 |= !is_silence(reason);
            trouble.1 |= is_silence(reason);
        }
    }
    troubles
}

fn failures(out: &mut Families, side: Side, shown: &[(&PortReading, String)]) {
    let (error, timeout) = match side {
        Side::Switch => (&SWITCH_COLLECT_ERROR, &SWITCH_COLLECT_TIMEOUT),
        Side::Hca => (&HCA_COLLECT_ERROR, &HCA_COLLECT_TIMEOUT),
    };
    let troubles = troubles(shown.iter().map(|(reading, _)| *reading));
    let mut guids: BTreeMap<NodeIndex, String> = BTreeMap::new();
    for (reading, _) in shown {
        guids.entry(reading.node).or_insert_with(|| {
            label_text(&[("guid", &reading.guid.to_string()), ("collector", side.collector())])
        });
    }
    for (series, is_error) in [(error, true), (timeout, false)] {
        begin(out, series);
        for (node, labels) in &guids {
            let (error, silence) = troubles.get(node).copied().unwrap_or_default();
            out.series(labels, u64::from(if is_error { error } else { silence }));
        }
    }
}

/// How long each node took to answer in the last sweep, from its beginning. A node that did not answer has none.
fn durations(out: &mut Families, side: Side, shown: &[(&PortReading, String)], info: SweepInfo) {
    // Sweeps begin after 1970 and before 2262.
    let began = ((info.ended - info.seconds) * 1e9) as i64;
    let mut last: BTreeMap<(NodeIndex, String), i64> = BTreeMap::new();
    for (reading, _) in shown.iter().filter(|(reading, _)| reading.was_requested && reading.time >= began) {
        let labels = label_text(&[("guid", &reading.guid.to_string()), ("collector", side.collector())]);
        let time = last.entry((reading.node, labels)).or_default();
        *time = reading.time.max(*time);
    }
    begin(
        out,
        match side {
            Side::Switch => &SWITCH_COLLECT_DURATION,
            Side::Hca => &HCA_COLLECT_DURATION,
        },
    );
    // To the microsecond, which a double holds.
    last.iter().for_each(|((_, labels), time)| out.series(labels, ((time - began) / 1000) as f64 / 1e6));
}

fn nodes(out: &mut Families, side: Side, topology: &Topology, request: &PageRequest) {
    let all =
        || topology.nodes.iter().filter(|node| Side::of(node.kind) == side && request.shard.has(node.guid));
    let info = match side {
        Side::Switch => &SWITCH_INFO,
        Side::Hca => &HCA_INFO,
    };
    begin(out, info);
    for node in all() {
        let values = [node.guid.to_string(), node.description.clone(), node.lid().to_string()];
        out.series(&labelled(info.labels, &values), 1);
    }
    let (name, help) = match side {
        Side::Switch => (SWITCH_UPLINK_INFO, "The cable of a switch's port."),
        Side::Hca => (HCA_UPLINK_INFO, "The cable of an adapter's port."),
    };
    out.begin(name, Kind::Gauge, help);
    for node in all() {
        for port in node.physical_ports() {
            if let Some(end) = port.remote {
                let labels = uplink(side, node, port.number, &topology.nodes[end.node], end.port);
                out.series(&labels, 1);
            }
        }
    }
}

fn uplink(side: Side, node: &Node, port: u8, remote: &Node, remote_port: u8) -> String {
    let kind = match remote.kind {
        NodeKind::Switch => "SW",
        NodeKind::Ca => "CA",
        NodeKind::Router => "RT",
    };
    // The remote port's own LID: an adapter with two ports has two.
    let lid = remote.port(remote_port).map_or(0, |port| remote.lid_of(port));
    let values = [
        node.guid.to_string(),
        port.to_string(),
        node.description.clone(),
        remote.description.clone(),
        remote.guid.to_string(),
        lid.to_string(),
        remote_port.to_string(),
        kind.to_owned(),
    ];
    let labels = match side {
        Side::Switch => &SWITCH_UPLINK_LABELS,
        Side::Hca => &HCA_UPLINK_LABELS,
    };
    labelled(labels, &values)
}

fn labelled(labels: &[&str], values: &[String]) -> String {
    let pairs: Vec<(&str, &str)> = labels.iter().copied().zip(values.iter().map(String::as_str)).collect();
    label_text(&pairs)
}

/// What is reported once of the whole fabric.
fn sweep(out: &mut Families, readings: &[PortReading], sweep: SweepInfo) {
    let mut counts = [(0u64, 0u64); 2];
    for (place, side) in Side::ALL.into_iter().enumerate() {
        let of_side = readings.iter().filter(|reading| Side::of(reading.kind) == side);
        for (error, silence) in troubles(of_side).into_values() {
            counts[place].0 += u64::from(error);
            counts[place].1 += u64::from(silence);
        }
    }
    let mut family = |series: &ExporterSeries, value: &dyn Fn(usize) -> throughline_daemon::Value| {
        begin(out, series);
        for (place, side) in Side::ALL.into_iter().enumerate() {
            out.series(&label_text(&[("collector", side.collector())]), value(place));
        }
    };
    family(&COLLECT_ERRORS, &|place| counts[place].0.into());
    family(&COLLECT_TIMEOUTS, &|place| counts[place].1.into());
    family(&COLLECTOR_DURATION, &|_| sweep.seconds.into());
    family(&LAST_EXECUTION, &|_| sweep.ended.into());
}
