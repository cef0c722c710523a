//! Topologies as inventory records, and back. Pure conversion.

use crate::link::{Speed, Width};
use crate::mad::{DirectedPath, NodeKind, PhysicalState, PortInfo, PortState};
use crate::multicast::MulticastTables;
use crate::topology::{Node, NodeIndex, Port, PortEnd, Topology};
use std::collections::HashMap;
use throughline_sample::wire::{
    Batch, FabricFingerprint, IbMulticastEntry, IbMulticastTable, IbNodeInfo, IbPortInfo, IbTopologyMark,
};
use throughline_sample::{Guid, Message};

/// Encoded inventory above which a further entry is begun; one node more adds at most 70 kB.
pub(super) const INVENTORY_BYTES: usize = 1 << 20;

/// Most ports of a kept topology, 160 MB in memory: the 49,151 nodes that a subnet has LIDs for have a tenth.
const SNAPSHOT_PORTS_MAX: usize = 1 << 20;

/// State of a port that was not read.
const UNKNOWN: &str = "Unknown";

/// The whole topology as batches, each small enough for a spool entry; the last one ends with the mark that the
/// discovery is complete: what is not in it is gone. `generation` is the time at which it began. Forwarding
/// tables go along where `tables` says so; the store keeps those that it has.
pub fn inventory<'a>(
    topology: &'a Topology,
    generation: i64,
    time: i64,
    tables: impl Fn(&Node) -> bool + 'a,
) -> impl Iterator<Item = Batch> + 'a {
    let records =
        topology.nodes.iter().map(move |node| node_record(topology, node, generation, tables(node)));
    let links = topology.cables().count();
    let mark = IbTopologyMark { generation, time, nodes: topology.nodes.len() as u32, links: links as u32 };
    batches(records, Some(mark))
}

/// Some nodes as batches, where nothing is gone: what is not in them stays as it is.
pub fn changed_nodes<'a>(
    topology: &'a Topology,
    nodes: &'a [NodeIndex],
    generation: i64,
    tables: impl Fn(&Node) -> bool + 'a,
) -> impl Iterator<Item = Batch> + 'a {
    let nodes = nodes.iter().filter_map(|index| topology.nodes.get(*index));
    batches(nodes.map(move |node| node_record(topology, node, generation, tables(node))), None)
}

/// Multicast forwarding tables of some switches as batches, each small enough for a spool entry; none without any.
#[must_use]
pub fn multicast(
    topology: &Topology,
    tables: &MulticastTables,
    switches: &[NodeIndex],
    generation: i64,
) -> Vec<Batch> {
    let mut batches: Vec<Batch> = Vec::new();
    let mut bytes = INVENTORY_BYTES;
    for index in switches {
        let Some((node, table)) = topology.nodes.get(*index).zip(tables.of(*index)) else { continue };
        let entries = table
            .iter()
            .map(|(mlid, ports)| IbMulticastEntry { mlid: u32::from(*mlid), ports: ports.iter().collect() });
        let record = IbMulticastTable { generation, guid: node.guid.0, entries: entries.collect() };
        bytes += record.encoded_len();
        if bytes > INVENTORY_BYTES {
            batches.push(Batch::default());
            bytes = record.encoded_len();
        }
        if let Some(last) = batches.last_mut() {
            last.ib_multicast_tables.push(record);
        }
    }
    batches
}

/// Records as batches of limited size, each made when it is taken; at least one. The last one has the mark.
fn batches<'a>(
    records: impl Iterator<Item = IbNodeInfo> + 'a,
    mut mark: Option<IbTopologyMark>,
) -> impl Iterator<Item = Batch> + 'a {
    let mut records = records.peekable();
    let mut is_first = true;
    std::iter::from_fn(move || {
        if !std::mem::take(&mut is_first) && records.peek().is_none() {
            return None;
        }
        let mut batch = Batch::default();
        let mut bytes = 0;
        while let Some(record) = records.next_if(|record| {
            bytes += record.encoded_len();
            batch.ib_nodes.is_empty() || bytes <= INVENTORY_BYTES
        }) {
            batch.ib_nodes.push(record);
        }
        if records.peek().is_none() {
            batch.ib_topology_marks.extend(mark.take());
        }
        Some(batch)
    })
}

/// The topology as one encoded batch without tables, to be kept by the crawler itself: too large for a spool entry.
#[must_use]
pub fn snapshot(topology: &Topology) -> Vec<u8> {
    let fabric = FabricFingerprint { subnet_prefix: topology.subnet_prefix, ..FabricFingerprint::default() };
    let mut bytes = Batch { fabric: Some(fabric), ..Batch::default() }.encode_to_vec();
    // Messages one after the other are one message with the lists of all: only one node is held as a record.
    for node in &topology.nodes {
        let batch = Batch { ib_nodes: vec![node_record(topology, node, 0, false)], ..Batch::default() };
        batch.encode_raw(&mut bytes);
    }
    bytes
}

fn node_record(topology: &Topology, node: &Node, generation: i64, with_table: bool) -> IbNodeInfo {
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
        linear_forwarding_table: if with_table { node.forwarding.clone() } else { Vec::new() },
        port_count: u32::from(node.port_count),
        routing: topology.routing.get(&node.guid).map(|routing| routing.name().to_owned()),
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
        state: port.info.and_then(|info| info.state).map_or(UNKNOWN, |state| state.name()).to_owned(),
        width: link.map_or("", |(width, _)| width.name()).to_owned(),
        speed: link.map_or("", |(_, speed)| speed.name()).to_owned(),
        rate_bytes_per_second: topology.rate_of(node, port).unwrap_or(0),
        remote_guid: port.remote.map(|end| topology.nodes[end.node].guid.0),
        remote_port: port.remote.map(|end| u32::from(end.port)),
        physical_state: port.info.map_or(UNKNOWN, |info| info.physical_state.name()).to_owned(),
        lmc: port.info.filter(|_| node.kind != NodeKind::Switch).map(|info| u32::from(info.lmc)),
    }
}

/// A topology from the encoded bytes of [`snapshot`].
///
/// # Errors
/// The bytes are no such record, or of more ports than any subnet has; in words.
pub fn read_snapshot(bytes: &[u8]) -> Result<Topology, String> {
    let batch = Batch::decode(bytes).map_err(|error| error.to_string())?;
    // A switch of few bytes can claim 255 ports, and each takes its room.
    let ports_of =
        |node: &IbNodeInfo| node.ports.len() + node.port_count.min(u32::from(u8::MAX)) as usize + 1;
    let ports: usize = batch.ib_nodes.iter().map(ports_of).sum();
    if ports > SNAPSHOT_PORTS_MAX {
        return Err(format!("{ports} ports are more than {SNAPSHOT_PORTS_MAX}"));
    }
    Ok(topology(&batch))
}

/// A topology from [`snapshot`]: nodes, cables, states, widths and speeds; no tables and nothing of what ports
/// could be. What makes no sense in it is left out.
#[must_use]
pub fn topology(batch: &Batch) -> Topology {
    let mut nodes: Vec<Node> = batch.ib_nodes.iter().map(node_of).collect();
    let by_guid: HashMap<Guid, NodeIndex> =
        nodes.iter().enumerate().map(|(index, node)| (node.guid, index)).collect();
    for (record, index) in batch.ib_nodes.iter().zip(0..) {
        for port in &record.ports {
            let Some((guid, number)) = port.remote_guid.zip(port.remote_port) else { continue };
            let Some(remote) = by_guid.get(&Guid(guid)).copied() else { continue };
            let number = number as u8;
            if nodes[remote].port(number).is_none() {
                continue;
            }
            if let Some(port) = nodes[index].port_mut(port.port as u8) {
                port.remote = Some(PortEnd { node: remote, port: number });
            }
        }
    }
    Topology::new(nodes, None, batch.fabric.as_ref().map_or(0, |fabric| fabric.subnet_prefix))
}

fn node_of(record: &IbNodeInfo) -> Node {
    let kind = match record.r#type.as_str() {
        "switch" => NodeKind::Switch,
        "router" => NodeKind::Router,
        _ => NodeKind::Ca,
    };
    let mut ports: Vec<Port> = Vec::new();
    if kind == NodeKind::Switch {
        let numbers = 0..=u8::try_from(record.port_count).unwrap_or(u8::MAX);
        ports.extend(numbers.map(|number| Port { number, guid: None, info: None, remote: None }));
        // Port 0 has the node's LID, and says that the extended speeds mean something.
        let guid = record.ports.first().map(|port| Guid(port.port_guid));
        ports[0].guid = guid;
        ports[0].info = Some(PortInfo {
            lid: record.lid as u16,
            capabilities: PortInfo::CAPABILITY_EXTENDED_SPEEDS,
            ..PortInfo::default()
        });
    }
    for port in &record.ports {
        let number = port.port as u8;
        if port.state == UNKNOWN && port.physical_state == UNKNOWN {
            continue;
        }
        let info = info_of(port, kind);
        match ports.iter_mut().find(|have| have.number == number) {
            Some(have) => have.info = Some(info),
            None if kind != NodeKind::Switch => {
                ports.push(Port { number, guid: Some(Guid(port.port_guid)), info: Some(info), remote: None });
            }
            None => {}
        }
    }
    ports.sort_by_key(|port| port.number);
    Node {
        guid: Guid(record.guid),
        kind,
        description: record.description.clone(),
        system_guid: Guid(record.system_guid),
        vendor_id: record.vendor_id,
        device_id: record.device_id as u16,
        port_count: record.port_count as u8,
        ports,
        switch: None,
        forwarding: Vec::new(),
        path: DirectedPath::local(),
    }
}

fn info_of(port: &IbPortInfo, kind: NodeKind) -> PortInfo {
    let states = [PortState::Down, PortState::Initialize, PortState::Armed, PortState::Active];
    let physical = (0..16).map(PhysicalState).find(|state| state.name() == port.physical_state);
    let bits = || (0..8).map(|bit| 1u8 << bit);
    let width = bits().find(|bit| Width::decode(*bit).is_some_and(|width| width.name() == port.width));
    let is_speed = |speed: Option<Speed>| speed.is_some_and(|speed| speed.name() == port.speed);
    let is_fdr10 = is_speed(Some(Speed::Fdr10));
    let classic = bits().find(|bit| is_speed(Speed::decode(*bit, 0)));
    PortInfo {
        // The ports of a switch have no LID of their own.
        lid: if kind == NodeKind::Switch { 0 } else { port.lid as u16 },
        capabilities: PortInfo::CAPABILITY_EXTENDED_SPEEDS,
        state: states.into_iter().find(|state| state.name() == port.state),
        physical_state: physical.unwrap_or_default(),
        width_active: width.unwrap_or(0),
        speed_active: if is_fdr10 { 4 } else { classic.unwrap_or(0) },
        extended_speed_active: bits().find(|bit| is_speed(Speed::decode(0, *bit))).unwrap_or(0),
        extended_speed_2_active: u8::from(is_speed(Some(Speed::Xdr))) * PortInfo::EXTENDED_SPEED_2_XDR,
        is_fdr10,
        ..PortInfo::default()
    }
}
