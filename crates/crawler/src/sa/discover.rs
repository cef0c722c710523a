//! The subnet from the administrator's records, where subnet management requests are not answered (M_Key).
//!
//! Five tables, whatever the size of the subnet; or, where only one record at a time passes, record by record
//! from the local port along the links. What the administrator knows can be older than what switches would
//! say: it looks at them when they trap and when it sweeps.

use super::SaError;
use super::client::Client;
use crate::discover::{Discovery, DiscoveryUsage, Limits};
use crate::transport::LocalPort;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use throughline_infiniband::mad::sa::{
    ForwardingBlock, LinkRecord, NodeRecord, PortInfoRecord, Query, SwitchInfoRecord, attribute,
};
use throughline_infiniband::mad::{DirectedPath, LFT_BLOCK_LIDS, LFT_NO_PORT, NodeKind, TooShort};
use throughline_infiniband::topology::{Failure, Limit};
use throughline_infiniband::topology::{Node, NodeIndex, Port, PortEnd, Source, Topology};
use throughline_sample::Guid;

/// Components of records requested one by one, besides the LID.
const PORT_COMPONENT: u32 = 1;
const BLOCK_COMPONENT: u32 = 1;

/// Queries the administrator for the subnet; with `tables`, for forwarding tables as well.
///
/// # Errors
/// [`SaError`]. Without a manager, or with one that does not answer, there is nothing.
pub fn discover(
    client: &mut Client,
    local: &LocalPort,
    tables: bool,
    limits: &Limits,
    stop: &AtomicBool,
) -> Result<Discovery, SaError> {
    let start = Instant::now();
    let records = match all(client, tables, stop) {
        Err(SaError::Cut { .. }) => Walk::new(client, tables, stop).from(local.lid, limits)?,
        other => other?,
    };
    let (topology, mut failures) = assemble(&records, local, limits);
    failures.extend(records.failures);
    Ok(Discovery { topology, failures, elapsed: start.elapsed(), ..Discovery::default() })
}

/// What the administrator reported.
#[derive(Default)]
struct Records {
    nodes: Vec<NodeRecord>,
    ports: Vec<PortInfoRecord>,
    links: Vec<LinkRecord>,
    switches: Vec<SwitchInfoRecord>,
    blocks: Vec<ForwardingBlock>,
    failures: Vec<Failure>,
    /// The bound at which requests ended.
    truncated: Option<Limit>,
}

/// Whole tables.
fn all(client: &mut Client, tables: bool, stop: &AtomicBool) -> Result<Records, SaError> {
    let mut table = |attribute| client.table(&Query::all(attribute), stop);
    let nodes = table(attribute::NODE)?.decoded(NodeRecord::decode).collect();
    let ports = table(attribute::PORT_INFO)?.decoded(PortInfoRecord::decode).collect();
    let links = table(attribute::LINK)?.decoded(LinkRecord::decode).collect();
    let switches = table(attribute::SWITCH_INFO)?.decoded(SwitchInfoRecord::decode).collect();
    let blocks = match tables {
        true => table(attribute::LINEAR_FORWARDING_TABLE)?.decoded(ForwardingBlock::decode).collect(),
        false => Vec::new(),
    };
    Ok(Records { nodes, ports, links, switches, blocks, failures: Vec::new(), truncated: None })
}

/// Record by record, from the local port along the links.
struct Walk<'a> {
    client: &'a mut Client,
    tables: bool,
    stop: &'a AtomicBool,
    records: Records,
    seen: BTreeSet<u16>,
}

impl<'a> Walk<'a> {
    fn new(client: &'a mut Client, tables: bool, stop: &'a AtomicBool) -> Walk<'a> {
        Walk { client, tables, stop, records: Records::default(), seen: BTreeSet::new() }
    }

    fn from(mut self, local_lid: u16, limits: &Limits) -> Result<Records, SaError> {
        // The manager's port as well: a local port without a LID is no place to begin at.
        let mut lids: Vec<u16> =
            [local_lid, self.client.manager_lid()].into_iter().filter(|lid| *lid != 0).collect();
        while !lids.is_empty() {
            self.seen.extend(&lids);
            // There are at most 2^16 LIDs, but a switch can claim any of them, and each has 255 ports.
            if self.records.ports.len() > limits.ports {
                self.records.truncated = Some(Limit::Ports);
                break;
            }
            let queries: Vec<Query> = lids.iter().map(|lid| Query::of_lid(attribute::NODE, *lid)).collect();
            let nodes = self.request(&queries, "NodeRecord", NodeRecord::decode)?;
            let mut ports = Vec::new();
            let mut links = Vec::new();
            let mut switches = Vec::new();
            for node in &nodes {
                let is_switch = node.info.kind == NodeKind::Switch;
                let numbers = if is_switch {
                    0..=node.info.port_count
                } else {
                    node.info.local_port..=node.info.local_port
                };
                for number in numbers {
                    let query =
                        |attribute| Query::of_lid(attribute, node.lid).with(PORT_COMPONENT, 2, &[number]);
                    ports.push(query(attribute::PORT_INFO));
                    if number != 0 {
                        links.push(query(attribute::LINK));
                    }
                }
                if is_switch {
                    switches.push(Query::of_lid(attribute::SWITCH_INFO, node.lid));
                }
            }
            let ports = self.request(&ports, "PortInfoRecord", PortInfoRecord::decode)?;
            let switches = self.request(&switches, "SwitchInfoRecord", SwitchInfoRecord::decode)?;
            let links = self.request(&links, "LinkRecord", LinkRecord::decode)?;
            if self.tables {
                let blocks = self.blocks(&switches)?;
                self.records.blocks.extend(blocks);
            }
            let next: BTreeSet<u16> = links.iter().map(|link| link.to_lid).collect();
            lids = next.difference(&self.seen).copied().collect();
            self.records.nodes.extend(nodes);
            self.records.ports.extend(ports);
            self.records.switches.extend(switches);
            self.records.links.extend(links);
        }
        Ok(self.records)
    }

    fn blocks(&mut self, switches: &[SwitchInfoRecord]) -> Result<Vec<ForwardingBlock>, SaError> {
        let of = |switch: &SwitchInfoRecord| {
            let all = Query::of_lid(attribute::LINEAR_FORWARDING_TABLE, switch.lid);
            (0..switch.info.linear_blocks())
                .map(move |block| all.with(BLOCK_COMPONENT, 2, &block.to_be_bytes()))
        };
        let queries: Vec<Query> = switches.iter().flat_map(of).collect();
        self.request(&queries, "LinearForwardingTableRecord", ForwardingBlock::decode)
    }

    /// Records that there are; what failed is listed.
    fn request<T>(
        &mut self,
        queries: &[Query],
        what: &'static str,
        decode: impl Fn(&[u8]) -> Result<T, TooShort>,
    ) -> Result<Vec<T>, SaError> {
        let mut found = Vec::with_capacity(queries.len());
        let failures = &mut self.records.failures;
        self.client.get_many(queries, self.stop, &mut |_, record| {
            let failure = match record.map(|record| record.map(&decode)) {
                Ok(None) => return,
                Ok(Some(Ok(record))) => return found.push(record),
                Ok(Some(Err(_))) => "malformed",
                Err(SaError::Silent { .. }) => "timeout",
                Err(_) => "refused",
            };
            failures.push(Failure { guid: None, port: None, what, reason: failure });
        })?;
        Ok(found)
    }
}

/// Makes nodes, ports and cables of records, as many as the bounds allow: a record of a hundred bytes can claim 255
/// ports.
fn assemble(records: &Records, local: &LocalPort, limits: &Limits) -> (Topology, Vec<Failure>) {
    let mut taken = DiscoveryUsage::default();
    let mut truncated = records.truncated;
    let mut nodes: Vec<Node> = Vec::new();
    let mut by_guid: HashMap<Guid, NodeIndex> = HashMap::new();
    // A LID is that of a switch (port 0), or of one port of another node.
    let mut by_lid: HashMap<u16, PortEnd> = HashMap::new();
    for record in &records.nodes {
        let index = match by_guid.get(&record.info.node_guid) {
            Some(index) => *index,
            None => {
                let is_switch = record.info.kind == NodeKind::Switch;
                let ports = if is_switch { usize::from(record.info.port_count) + 1 } else { 1 };
                if let Err(limit) = taken.check(limits, ports) {
                    truncated = Some(limit);
                    break;
                }
                taken.add(ports);
                by_guid.insert(record.info.node_guid, nodes.len());
                nodes.push(node(record));
                nodes.len() - 1
            }
        };
        let is_switch = nodes[index].kind == NodeKind::Switch;
        let port = if is_switch { 0 } else { record.info.local_port };
        by_lid.insert(record.lid, PortEnd { node: index, port });
        let ports = &mut nodes[index].ports;
        let place = ports.partition_point(|other| other.number < port);
        if ports.get(place).is_none_or(|other| other.number != port) {
            let guid = Some(record.info.port_guid);
            ports.insert(place, Port { number: port, guid, info: None, remote: None });
        }
    }
    for record in &records.ports {
        let Some(end) = by_lid.get(&record.lid) else { continue };
        if let Some(port) = port_mut(&mut nodes, end.node, record.port) {
            port.info = Some(record.info);
        }
    }
    for record in &records.switches {
        if let Some(end) = by_lid.get(&record.lid) {
            let top = record.info.linear_blocks();
            nodes[end.node].switch = Some(record.info);
            let bytes = usize::from(top) * LFT_BLOCK_LIDS;
            let is_within = taken.check_table(limits, bytes);
            if let Err(limit) = is_within {
                truncated = Some(limit);
            } else if !records.blocks.is_empty() {
                taken.table_bytes += bytes;
                nodes[end.node].forwarding = vec![LFT_NO_PORT; usize::from(top) * LFT_BLOCK_LIDS];
            }
        }
    }
    for block in &records.blocks {
        if let Some(end) = by_lid.get(&block.lid) {
            table_block(&mut nodes[end.node], block);
        }
    }
    for link in &records.links {
        let (Some(here), Some(there)) = (by_lid.get(&link.from_lid), by_lid.get(&link.to_lid)) else {
            continue;
        };
        let (here, there) = (here.node, there.node);
        let remote = PortEnd { node: there, port: link.to_port };
        if port_mut(&mut nodes, there, link.to_port).is_some()
            && let Some(port) = port_mut(&mut nodes, here, link.from_port)
        {
            port.remote = Some(remote);
        }
    }
    let failures = unread(&nodes);
    let here = by_lid.get(&local.lid).copied();
    let here = here.map(|end| PortEnd { node: end.node, port: if end.port == 0 { 0 } else { local.port } });
    set_paths(&mut nodes, here);
    let mut topology = Topology::new(nodes, here, local.subnet_prefix);
    topology.source = Source::Administrator;
    topology.truncated = truncated;
    (topology, failures)
}

fn node(record: &NodeRecord) -> Node {
    let info = &record.info;
    let numbers = (0..=info.port_count).filter(|_| info.kind == NodeKind::Switch);
    let port =
        |number| Port { number, guid: (number == 0).then_some(info.port_guid), info: None, remote: None };
    Node {
        guid: info.node_guid,
        kind: info.kind,
        description: record.description.clone(),
        system_guid: info.system_guid,
        vendor_id: info.vendor_id,
        device_id: info.device_id,
        port_count: info.port_count,
        ports: numbers.map(port).collect(),
        switch: None,
        forwarding: Vec::new(),
        path: DirectedPath::local(),
    }
}

fn port_mut(nodes: &mut [Node], node: NodeIndex, number: u8) -> Option<&mut Port> {
    let node = nodes.get_mut(node)?;
    match node.kind {
        NodeKind::Switch => node.ports.get_mut(usize::from(number)),
        _ => node.ports.iter_mut().find(|port| port.number == number),
    }
}

fn table_block(node: &mut Node, block: &ForwardingBlock) {
    let top = node.switch.map_or(0, |switch| usize::from(switch.linear_top));
    let first = usize::from(block.block) * LFT_BLOCK_LIDS;
    for (offset, port) in block.ports.iter().enumerate() {
        // What stands beyond the top is left over from before.
        if let Some(entry) = node.forwarding.get_mut(first + offset).filter(|_| first + offset <= top) {
            *entry = *port;
        }
    }
}

/// Ports and switches on which the administrator reported nothing.
fn unread(nodes: &[Node]) -> Vec<Failure> {
    let mut failures = Vec::new();
    for node in nodes {
        let failure = |what, port| Failure { guid: Some(node.guid), port, what, reason: "not_told" };
        if node.kind == NodeKind::Switch && node.switch.is_none() {
            failures.push(failure("SwitchInfo", None));
        }
        let missing = node.ports.iter().filter(|port| port.info.is_none());
        failures.extend(missing.map(|port| failure("PortInfo", Some(port.number))));
    }
    failures
}

/// Directed routes from the local node, shortest first, so that it can be queried by them as well.
fn set_paths(nodes: &mut [Node], local: Option<PortEnd>) {
    let Some(local) = local else { return };
    let mut reached = vec![false; nodes.len()];
    let mut queue = VecDeque::from([local.node]);
    reached[local.node] = true;
    while let Some(index) = queue.pop_front() {
        // Only switches pass directed routes on; the local node is where they begin, by its port.
        let ends: Vec<(u8, PortEnd)> = nodes[index]
            .ports
            .iter()
            .filter(|port| {
                nodes[index].kind == NodeKind::Switch || (index == local.node && port.number == local.port)
            })
            .filter_map(|port| Some((port.number, port.remote?)))
            .collect();
        for (port, remote) in ends {
            let Some(path) = nodes[index].path.through(port).filter(|_| !reached[remote.node]) else {
                continue;
            };
            reached[remote.node] = true;
            nodes[remote.node].path = path;
            queue.push_back(remote.node);
        }
    }
}
