//! Readings and topologies as records of the wire schema. Pure conversion: no clock, no spool.

use crate::link::rate_bytes_per_second;
use crate::mad::counter_metrics;
use crate::sweep::{self, PortReading};
use crate::topology::{Node, Port, PortEnd, Topology};
use std::collections::BTreeSet;
use throughline_sample::catalogue::{Metric, PORT_RATE_BYTES_PER_SECOND};
use throughline_sample::wire::{
    Batch, Coverage, Event, IbNodeInfo, IbPortInfo, IbPortSample, IbTopologyMark, Values,
};
use throughline_sample::{Guid, Message};

/// Name of this source in records.
pub const SOURCE: &str = "mad";
/// Port samples in one spool entry: at most 280 bytes each, so 1.7 MB of the 2 MiB that an entry can hold.
const SAMPLES_PER_ENTRY: usize = 6000;
/// Encoded inventory above which a further entry is begun; one node more adds at most 70 kB.
const INVENTORY_BYTES: usize = 1 << 20;
/// Events told of one discovery; a subnet that is torn apart is one event, not 10,000.
const EVENTS_MAX: usize = 500;

/// The metrics of one reading as wire values, and the numbers of the saturated ones.
fn values(reading: &PortReading) -> (Values, Vec<u32>) {
    let metrics = counter_metrics();
    let mut values = Values {
        metric: Vec::with_capacity(metrics.len() + 1),
        value: Vec::with_capacity(metrics.len() + 1),
    };
    let mut saturated = Vec::new();
    for (index, metric) in metrics.iter().enumerate() {
        match reading.counters.wrapped(index) {
            Some(value) => values.put(metric, value),
            None if reading.counters.is_saturated(index) => saturated.push(metric.id),
            None => {}
        }
    }
    if let Some(rate) = reading.rate_bytes_per_second {
        values.put(&PORT_RATE_BYTES_PER_SECOND, rate);
    }
    (values, saturated)
}

/// The values of one reading as `/metrics` and the store have them: byte counters modulo 2^63.
pub fn stored_values(reading: &PortReading) -> impl Iterator<Item = (&'static Metric, u64)> + '_ {
    let counters = counter_metrics().iter().enumerate().filter_map(|(index, metric)| {
        reading.counters.wrapped(index).map(|value| (*metric, metric.width.reduce(value)))
    });
    counters.chain(reading.rate_bytes_per_second.map(|rate| (&PORT_RATE_BYTES_PER_SECOND, rate)))
}

/// The readings of a sweep as batches, each small enough for a spool entry. The same ports come in the same
/// batch again as long as the topology stays. Ports of which nothing was read have no sample.
#[must_use]
pub fn samples(readings: &[PortReading]) -> Vec<Batch> {
    let sample = |reading: &PortReading| {
        let (values, saturated) = values(reading);
        IbPortSample {
            time: reading.time,
            epoch: reading.epoch,
            node_guid: reading.guid.0,
            port: u32::from(reading.port),
            values: Some(values),
            saturated,
            source: SOURCE.to_owned(),
        }
    };
    let batch = |chunk: &[PortReading]| Batch {
        ib_ports: chunk.iter().filter(|reading| !reading.counters.is_empty()).map(sample).collect(),
        ..Batch::default()
    };
    readings.chunks(SAMPLES_PER_ENTRY).map(batch).collect()
}

/// What a sweep covered.
#[must_use]
pub fn coverage(time: i64, coverage: &sweep::Coverage) -> Coverage {
    let reasons = coverage.reasons.iter().map(|(reason, count)| ((*reason).to_owned(), *count as u64));
    Coverage {
        time,
        source: SOURCE.to_owned(),
        expected: coverage.expected as u64,
        read: (coverage.complete + coverage.partial) as u64,
        failed: coverage.missing as u64,
        elapsed_seconds: coverage.elapsed.as_secs_f64(),
        reasons: reasons.collect(),
    }
}

/// The topology as batches, each small enough for a spool entry; the last one ends with the mark that the
/// discovery is complete. `generation` is the time at which it began.
#[must_use]
pub fn inventory(topology: &Topology, generation: i64, time: i64) -> Vec<Batch> {
    let mut batches = vec![Batch::default()];
    let mut bytes = 0;
    for node in &topology.nodes {
        let record = node_record(topology, node, generation);
        let length = record.encoded_len();
        if bytes > 0 && bytes + length > INVENTORY_BYTES {
            batches.push(Batch::default());
            bytes = 0;
        }
        bytes += length;
        if let Some(last) = batches.last_mut() {
            last.ib_nodes.push(record);
        }
    }
    let links = topology.cables().count();
    let mark = IbTopologyMark { generation, time, nodes: topology.nodes.len() as u32, links: links as u32 };
    if let Some(last) = batches.last_mut() {
        last.ib_topology_marks.push(mark);
    }
    batches
}

fn node_record(topology: &Topology, node: &Node, generation: i64) -> IbNodeInfo {
    IbNodeInfo {
        generation,
        guid: node.guid.0,
        r#type: node.kind.name().to_owned(),
        description: node.description.clone(),
        lid: u32::from(node.lid()),
        device_id: u32::from(node.device_id),
        vendor_id: node.vendor_id,
        system_guid: node.system_guid.0,
        ports: node.physical_ports().map(|port| port_record(topology, node, port)).collect(),
        linear_forwarding_table: node.forwarding.clone(),
    }
}

fn port_record(topology: &Topology, node: &Node, port: &Port) -> IbPortInfo {
    let link = node.link_of(port);
    // All ports of a switch have the GUID of its port 0.
    let guid = port.guid.or_else(|| node.port(0).and_then(|port| port.guid));
    IbPortInfo {
        port: u32::from(port.number),
        port_guid: guid.map_or(0, |guid| guid.0),
        lid: u32::from(node.lid_of(port)),
        state: port.info.and_then(|info| info.state).map_or("Unknown", |state| state.name()).to_owned(),
        width: link.map_or("", |(width, _)| width.name()).to_owned(),
        speed: link.map_or("", |(_, speed)| speed.name()).to_owned(),
        rate_bytes_per_second: link.map_or(0, |(width, speed)| rate_bytes_per_second(width, speed)),
        remote_guid: port.remote.map(|end| topology.nodes[end.node].guid.0),
        remote_port: port.remote.map(|end| u32::from(end.port)),
        physical_state: port.info.map_or("Unknown", |info| info.physical_state.name()).to_owned(),
    }
}

/// One end of a cable by name.
type NamedEnd = (Guid, u8);

/// What changed from one discovery to the next: nodes gone and new, cables gone and new.
#[must_use]
pub fn changes(before: &Topology, after: &Topology, time: i64) -> Vec<Event> {
    let nodes =
        |topology: &Topology| -> BTreeSet<Guid> { topology.nodes.iter().map(|node| node.guid).collect() };
    let (old, new) = (nodes(before), nodes(after));
    let mut events = Vec::new();
    for guid in old.difference(&new) {
        events.push(event(time, "node.gone", "warning", (*guid, 0), describe(before, *guid)));
    }
    for guid in new.difference(&old) {
        events.push(event(time, "node.new", "info", (*guid, 0), describe(after, *guid)));
    }
    let (old, new) = (cables(before), cables(after));
    for (here, there) in old.difference(&new) {
        events.push(event(time, "link.down", "warning", *here, cable_text(before, *here, *there)));
    }
    for (here, there) in new.difference(&old) {
        events.push(event(time, "link.up", "info", *here, cable_text(after, *here, *there)));
    }
    if events.len() > EVENTS_MAX {
        let text = format!("{} more changes of the topology", events.len() - EVENTS_MAX);
        events.truncate(EVENTS_MAX);
        events.push(event(time, "topology.changed", "warning", (Guid(0), 0), text));
    }
    events
}

fn cables(topology: &Topology) -> BTreeSet<(NamedEnd, NamedEnd)> {
    let named = |end: PortEnd| (topology.nodes[end.node].guid, end.port);
    topology.cables().map(|(here, there)| (named(here), named(there))).collect()
}

fn describe(topology: &Topology, guid: Guid) -> String {
    let description = topology.node_by_guid(guid).map(|index| topology.nodes[index].description.as_str());
    format!("{guid} {}", description.unwrap_or_default())
}

fn cable_text(topology: &Topology, here: NamedEnd, there: NamedEnd) -> String {
    format!(
        "{} port {} - {} port {}",
        describe(topology, here.0),
        here.1,
        describe(topology, there.0),
        there.1
    )
}

fn event(time: i64, kind: &str, severity: &str, end: NamedEnd, text: String) -> Event {
    Event {
        time,
        source: SOURCE.to_owned(),
        kind: kind.to_owned(),
        severity: severity.to_owned(),
        text,
        ib_guid: end.0.0,
        ib_port: u32::from(end.1),
        ..Event::default()
    }
}
