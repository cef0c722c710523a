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
use throughline_sample::Guid;
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
    /// When it began, UTC nanoseconds since 1970, on the clock of the readings' times.
    pub began_nanoseconds: i64,
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

/// A port whose reading a page shows.
struct ShownPort<'a> {
    reading: &'a PortReading,
    /// The GUID that its series have.
    guid: Guid,
    /// `guid` and `port`.
    labels: String,
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
        let shown: Vec<ShownPort<'_>> = readings
            .iter()
            .filter(|reading| Side::of(reading.kind) == side && request.shard.has(reading.guid))
            .map(|reading| {
                let guid = topology.exported_guid(PortEnd { node: reading.node, port: reading.port });
                let labels = label_text(&[("guid", &guid.to_string()), ("port", &reading.port.to_string())]);
                ShownPort { reading, guid, labels }
            })
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

fn counters(out: &mut Families, side: Side, shown: &[ShownPort<'_>], request: &PageRequest) {
    let prefix = match side {
        Side::Switch => SWITCH_PORT_PREFIX,
        Side::Hca => HCA_PORT_PREFIX,
    };
    for index in request.choice.indices() {
        let metric = counter_metrics()[index];
        let mut values = shown
            .iter()
            .filter_map(|port| {
                let counters = &port.reading.counters;
                Some((&port.labels, counters.wrapped(index).or_else(|| counters.end(index))?))
            })
            .peekable();
        if values.peek().is_some() {
            out.begin(&format!("{prefix}{}", metric.exported_name()), metric.kind, metric.help);
            values.for_each(|(labels, value)| out.series(labels, metric.width.reduce(value)));
        }
        let mut full = shown.iter().filter(|port| port.reading.counters.is_at_end(index)).peekable();
        if full.peek().is_some() {
            out.begin(&metric.saturated_name(prefix), Kind::Gauge, SATURATED_HELP);
            full.for_each(|port| out.series(&port.labels, 1));
        }
    }
    for metric in [&PORT_RATE_BYTES_PER_SECOND, &TRANSMIT_WAIT_TICK_BYTES] {
        let value =
            |reading| gauges(reading).find(|(known, _)| known.id == metric.id).map(|(_, value)| value);
        let mut values =
            shown.iter().filter_map(|port| Some((&port.labels, value(port.reading)?))).peekable();
        if values.peek().is_some() {
            out.begin(&format!("{prefix}{}", metric.exported_name()), metric.kind, metric.help);
            values.for_each(|(labels, value)| out.series(labels, value));
        }
    }
}

fn begin(out: &mut Families, series: &ExporterSeries) {
    out.begin(series.name, Kind::Gauge, series.help);
}

/// Signalling rates; of an adapter's port also its data rate without the port's number, as infiniband_exporter has it.
fn rates(out: &mut Families, side: Side, topology: &Topology, shown: &[ShownPort<'_>]) {
    let raw = |reading: &PortReading| {
        let node = &topology.nodes[reading.node];
        let (width, speed) = node.link_of(node.port(reading.port)?)?;
        Some(signalling_bytes_per_second(width, speed))
    };
    if side == Side::Switch {
        begin(out, &SWITCH_RAW_RATE);
        for port in shown {
            if let Some(rate) = raw(port.reading) {
                out.series(&port.labels, rate);
            }
        }
        possible_rates(out, topology, shown);
        return;
    }
    // Ports whose own GUID is not known share that of their node: the fastest is shown.
    let mut fastest: BTreeMap<Guid, (u64, u64)> = BTreeMap::new();
    for ShownPort { reading, guid, .. } in shown {
        let rates = (reading.rate_bytes_per_second.unwrap_or(0), raw(reading).unwrap_or(0));
        let most = fastest.entry(*guid).or_default();
        *most = (*most).max(rates);
    }
    let labels = |guid: &Guid| label_text(&[("guid", &guid.to_string())]);
    begin(out, &HCA_RATE);
    let known = fastest.iter().filter(|(_, rates)| rates.0 > 0);
    known.for_each(|(guid, rates)| out.series(&labels(guid), rates.0));
    begin(out, &HCA_RAW_RATE);
    let known = fastest.iter().filter(|(_, rates)| rates.1 > 0);
    known.for_each(|(guid, rates)| out.series(&labels(guid), rates.1));
}

/// What degraded links could carry. No family where there is none: most fabrics, most of the time.
fn possible_rates(out: &mut Families, topology: &Topology, shown: &[ShownPort<'_>]) {
    let possible = |reading: &PortReading| {
        let there = topology.nodes[reading.node].port(reading.port)?.remote;
        let here = PortEnd { node: reading.node, port: reading.port };
        Capability::of(topology, here, there).possible_rate_bytes_per_second()
    };
    let mut degraded =
        shown.iter().filter_map(|port| Some((&port.labels, possible(port.reading)?))).peekable();
    if degraded.peek().is_some() {
        begin(out, &SWITCH_POSSIBLE_RATE);
        degraded.for_each(|(labels, rate)| out.series(labels, rate));
    }
}

/// Whether a reason says that nobody answered.
fn is_silence(reason: &str) -> bool {
    matches!(reason, "timeout" | "silent")
}

/// What could not be read whole: (error, silence) by what the readings are of.
fn troubles<'a, K: Ord>(readings: impl Iterator<Item = (K, &'a PortReading)>) -> BTreeMap<K, (bool, bool)> {
    let mut troubles: BTreeMap<K, (bool, bool)> = BTreeMap::new();
    for (of, reading) in readings {
        let trouble = troubles.entry(of).or_default();
        if let Some(reason) = reading.failure {
            trouble.0 |= !is_silence(reason);
            trouble.1 |= is_silence(reason);
        }
    }
    troubles
}

/// Labels of what infiniband_exporter takes for a device: a switch, or a port of an adapter.
fn device_labels(guid: Guid, side: Side) -> String {
    label_text(&[("guid", &guid.to_string()), ("collector", side.collector())])
}

fn failures(out: &mut Families, side: Side, shown: &[ShownPort<'_>]) {
    let (error, timeout) = match side {
        Side::Switch => (&SWITCH_COLLECT_ERROR, &SWITCH_COLLECT_TIMEOUT),
        Side::Hca => (&HCA_COLLECT_ERROR, &HCA_COLLECT_TIMEOUT),
    };
    let troubles = troubles(shown.iter().map(|port| (port.guid, port.reading)));
    for (series, is_error) in [(error, true), (timeout, false)] {
        begin(out, series);
        for (guid, (error, silence)) in &troubles {
            let value = if is_error { *error } else { *silence };
            out.series(&device_labels(*guid, side), u64::from(value));
        }
    }
}

/// How long each device took to answer in the last sweep, from its beginning. One that did not answer has none.
fn durations(out: &mut Families, side: Side, shown: &[ShownPort<'_>], info: SweepInfo) {
    let began = info.began_nanoseconds;
    let mut last: BTreeMap<Guid, i64> = BTreeMap::new();
    let answered = |reading: &PortReading| reading.was_requested && reading.time >= began;
    for ShownPort { reading, guid, .. } in shown.iter().filter(|port| answered(port.reading)) {
        let time = last.entry(*guid).or_default();
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
    let seconds = |time: &i64| ((time - began) / 1000) as f64 / 1e6;
    last.iter().for_each(|(guid, time)| out.series(&device_labels(*guid, side), seconds(time)));
}

fn nodes(out: &mut Families, side: Side, topology: &Topology, request: &PageRequest) {
    let all = || {
        let nodes = topology.nodes.iter().enumerate();
        nodes.filter(|(_, node)| Side::of(node.kind) == side && request.shard.has(node.guid))
    };
    match side {
        Side::Switch => {
            begin(out, &SWITCH_INFO);
            for (_, node) in all() {
                let values = [node.guid.to_string(), node.description.clone(), node.lid().to_string()];
                out.series(&labelled(SWITCH_INFO.labels, &values), 1);
            }
        }
        Side::Hca => {
            begin(out, &HCA_INFO);
            all().for_each(|(index, node)| adapter(out, topology, index, node));
        }
    }
    let (name, help) = match side {
        Side::Switch => (SWITCH_UPLINK_INFO, "The cable of a switch's port."),
        Side::Hca => (HCA_UPLINK_INFO, "The cable of an adapter's port."),
    };
    out.begin(name, Kind::Gauge, help);
    for (index, node) in all() {
        for port in node.physical_ports() {
            if let Some(there) = port.remote {
                let here = PortEnd { node: index, port: port.number };
                out.series(&uplink(side, topology, here, there), 1);
            }
        }
    }
}

/// The ports of an adapter, each by its GUID; those whose own is not known share the node's, and one series.
fn adapter(out: &mut Families, topology: &Topology, index: NodeIndex, node: &Node) {
    let mut ports: BTreeMap<Guid, u16> = BTreeMap::new();
    for port in node.physical_ports() {
        let guid = topology.exported_guid(PortEnd { node: index, port: port.number });
        ports.entry(guid).or_insert(node.lid_of(port));
    }
    for (guid, lid) in ports {
        let values = [guid.to_string(), node.description.clone(), lid.to_string(), node.guid.to_string()];
        out.series(&labelled(HCA_INFO.labels, &values), 1);
    }
}

fn uplink(side: Side, topology: &Topology, here: PortEnd, there: PortEnd) -> String {
    let (node, remote) = (&topology.nodes[here.node], &topology.nodes[there.node]);
    let kind = match remote.kind {
        NodeKind::Switch => "SW",
        NodeKind::Ca => "CA",
        NodeKind::Router => "RT",
    };
    // The remote port's own LID: an adapter with two ports has two.
    let lid = remote.port(there.port).map_or(0, |port| remote.lid_of(port));
    let values = [
        topology.exported_guid(here).to_string(),
        here.port.to_string(),
        node.description.clone(),
        remote.description.clone(),
        topology.exported_guid(there).to_string(),
        lid.to_string(),
        there.port.to_string(),
        kind.to_owned(),
        node.guid.to_string(),
    ];
    match side {
        Side::Switch => labelled(&SWITCH_UPLINK_LABELS, &values),
        Side::Hca => labelled(&HCA_UPLINK_LABELS, &values),
    }
}

fn labelled(labels: &[&str], values: &[String]) -> String {
    let pairs: Vec<(&str, &str)> = labels.iter().copied().zip(values.iter().map(String::as_str)).collect();
    label_text(&pairs)
}

/// What is reported once of the whole fabric.
fn sweep(out: &mut Families, readings: &[PortReading], sweep: SweepInfo) {
    let mut counts = [(0u64, 0u64); 2];
    for (place, side) in Side::ALL.into_iter().enumerate() {
        let of_side = readings
            .iter()
            .filter(|reading| Side::of(reading.kind) == side)
            .map(|reading| (reading.node, reading));
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
