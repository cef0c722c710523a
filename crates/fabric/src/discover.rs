//! Discovery: walks the subnet by directed routes, many nodes at once, and reads forwarding tables on the way.
//!
//! One pass: each reply queues what it makes known (ports of a new node, neighbours behind linked ports, table
//! blocks of a switch). What could not be read is listed with its reason and hides nothing else.

use crate::engine::{Engine, EngineError, NodeId, Outcome, Queue, Request, Route, Work};
use crate::mad::{
    self, DirectedPath, LFT_BLOCK_LIDS, LFT_NO_PORT, Mad, NodeInfo, NodeKind, PortInfo, Query, SwitchInfo,
    attribute,
};
use crate::topology::{Node, NodeIndex, Port, PortEnd, Topology};
use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use throughline_sample::Guid;

/// What could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The node, or the one from which the unknown one would be reached; `None` for the local node.
    pub guid: Option<Guid>,
    /// The port, where the failure is about one.
    pub port: Option<u8>,
    /// What was asked for.
    pub what: &'static str,
    /// Why it is missing.
    pub reason: &'static str,
}

/// The result of a discovery.
#[derive(Clone, Debug, Default)]
pub struct Discovery {
    /// The subnet.
    pub topology: Topology,
    /// What could not be read.
    pub failures: Vec<Failure>,
    /// How long it took.
    pub elapsed: Duration,
}

impl Discovery {
    /// Whether nodes that were there before may be missing only because requests were lost: a node that misses
    /// one walk takes all that lies behind it out of sweeps and inventory.
    #[must_use]
    pub fn is_doubtful(&self, before: &Topology) -> bool {
        !self.failures.is_empty()
            && before.nodes.iter().any(|node| self.topology.node_by_guid(node.guid).is_none())
    }
}

/// Walks the subnet. With `tables`, forwarding tables are read as well.
///
/// # Errors
/// [`EngineError`]. A local node that does not answer gives an empty topology with a failure.
pub fn discover(engine: &mut Engine, tables: bool, stop: &AtomicBool) -> Result<Discovery, EngineError> {
    let start = Instant::now();
    engine.clear_nodes();
    let mut walk = Walk { tables, ..Walk::default() };
    walk.probe(engine.queue(), DirectedPath::local(), None);
    engine.run(&mut walk, stop)?;
    let prefix_of = |end: PortEnd| {
        let node = &walk.nodes[end.node].found;
        // A switch's prefix stands in its port 0.
        let number = if node.kind == NodeKind::Switch { 0 } else { end.port };
        node.port(number)?.info.map(|info| info.gid_prefix)
    };
    let subnet_prefix = walk.local.and_then(prefix_of).unwrap_or(0);
    let nodes = walk.nodes.into_iter().map(|node| node.found).collect();
    Ok(Discovery {
        topology: Topology::new(nodes, walk.local, subnet_prefix),
        failures: walk.failures,
        elapsed: start.elapsed(),
    })
}

/// What an outstanding request is about; its position is the request's tag.
#[derive(Clone, Copy, Debug)]
enum Ask {
    /// NodeInfo behind this end; `None` for the local node.
    Neighbour(Option<PortEnd>),
    Description(NodeIndex),
    Switch(NodeIndex),
    Port(PortEnd),
    /// One block of the forwarding table.
    Table(NodeIndex, u16),
}

/// A node on the way.
struct Walked {
    found: Node,
    /// How the engine reaches it.
    engine: NodeId,
}

#[derive(Default)]
struct Walk {
    tables: bool,
    nodes: Vec<Walked>,
    by_guid: HashMap<Guid, NodeIndex>,
    local: Option<PortEnd>,
    asked: Vec<Ask>,
    failures: Vec<Failure>,
}

impl Walk {
    fn ask(&mut self, queue: &mut Queue, node: NodeId, attribute: u16, modifier: u32, ask: Ask) {
        let tag = self.asked.len() as u64;
        self.asked.push(ask);
        queue.push(node, Request { query: Query { attribute, modifier, port_select: 0 }, tag });
    }

    /// Asks who is at the end of a path.
    fn probe(&mut self, queue: &mut Queue, path: DirectedPath, behind: Option<PortEnd>) {
        let node = queue.add_node(Route::Directed(path));
        self.ask(queue, node, attribute::NODE_INFO, 0, Ask::Neighbour(behind));
    }

    fn neighbour(&mut self, queue: &mut Queue, id: NodeId, behind: Option<PortEnd>, data: &[u8]) {
        let Ok(info) = NodeInfo::decode(data) else { return };
        let index = match self.by_guid.get(&info.node_guid) {
            Some(index) => *index,
            None => self.add(queue, id, &info),
        };
        let here = PortEnd { node: index, port: info.local_port };
        if info.kind != NodeKind::Switch {
            self.reached(queue, id, here, info.port_guid);
        }
        match behind {
            None => self.local = Some(here),
            Some(there) => {
                self.set_remote(here, there);
                self.set_remote(there, here);
            }
        }
    }

    fn add(&mut self, queue: &mut Queue, id: NodeId, info: &NodeInfo) -> NodeIndex {
        let index = self.nodes.len();
        let Route::Directed(path) = *queue.route(id) else { return index };
        let is_switch = info.kind == NodeKind::Switch;
        let numbers = (0..=info.port_count).filter(|_| is_switch);
        let ports = numbers.map(|number| Port {
            number,
            guid: (number == 0).then_some(info.port_guid),
            info: None,
            remote: None,
        });
        self.nodes.push(Walked {
            found: Node {
                guid: info.node_guid,
                kind: info.kind,
                description: String::new(),
                system_guid: info.system_guid,
                vendor_id: info.vendor_id,
                device_id: info.device_id,
                port_count: info.port_count,
                ports: ports.collect(),
                switch: None,
                forwarding: Vec::new(),
                path,
            },
            engine: id,
        });
        self.by_guid.insert(info.node_guid, index);
        if is_switch {
            for port in 0..=info.port_count {
                let end = PortEnd { node: index, port };
                self.ask(queue, id, attribute::PORT_INFO, u32::from(port), Ask::Port(end));
            }
            self.ask(queue, id, attribute::SWITCH_INFO, 0, Ask::Switch(index));
        }
        self.ask(queue, id, attribute::NODE_DESCRIPTION, 0, Ask::Description(index));
        index
    }

    /// An end node was reached through one of its ports: that port can be asked about itself.
    fn reached(&mut self, queue: &mut Queue, id: NodeId, end: PortEnd, guid: Guid) {
        let ports = &mut self.nodes[end.node].found.ports;
        let place = ports.partition_point(|port| port.number < end.port);
        if ports.get(place).is_some_and(|port| port.number == end.port) {
            return;
        }
        ports.insert(place, Port { number: end.port, guid: Some(guid), info: None, remote: None });
        self.ask(queue, id, attribute::PORT_INFO, u32::from(end.port), Ask::Port(end));
    }

    fn port_mut(&mut self, end: PortEnd) -> Option<&mut Port> {
        let node = &mut self.nodes[end.node].found;
        match node.kind {
            NodeKind::Switch => node.ports.get_mut(usize::from(end.port)),
            _ => node.ports.iter_mut().find(|port| port.number == end.port),
        }
    }

    fn set_remote(&mut self, end: PortEnd, remote: PortEnd) {
        if let Some(port) = self.port_mut(end) {
            port.remote = Some(remote);
        }
    }

    fn port_info(&mut self, queue: &mut Queue, end: PortEnd, data: &[u8]) {
        let Ok(info) = PortInfo::decode(data) else { return };
        let Some(port) = self.port_mut(end) else { return };
        port.info = Some(info);
        if end.port == 0 || !info.is_linked() || port.remote.is_some() {
            return;
        }
        // Only switches pass directed routes on; the local node is where they begin.
        let node = &self.nodes[end.node].found;
        if node.kind != NodeKind::Switch && self.local != Some(end) {
            return;
        }
        match node.path.through(end.port) {
            Some(path) => self.probe(queue, path, Some(end)),
            None => self.fail(Ask::Neighbour(Some(end)), "more than 63 hops away"),
        }
    }

    fn switch_info(&mut self, queue: &mut Queue, index: NodeIndex, data: &[u8]) {
        let Ok(info) = SwitchInfo::decode(data) else { return };
        let id = self.nodes[index].engine;
        self.nodes[index].found.switch = Some(info);
        if !self.tables {
            return;
        }
        let blocks = info.linear_blocks();
        self.nodes[index].found.forwarding = vec![LFT_NO_PORT; usize::from(blocks) * LFT_BLOCK_LIDS];
        for block in 0..blocks {
            let ask = Ask::Table(index, block);
            self.ask(queue, id, attribute::LINEAR_FORWARDING_TABLE, u32::from(block), ask);
        }
    }

    fn table_block(&mut self, index: NodeIndex, block: u16, data: &[u8]) {
        let node = &mut self.nodes[index].found;
        let top = node.switch.map_or(0, |switch| usize::from(switch.linear_top));
        let first = usize::from(block) * LFT_BLOCK_LIDS;
        for (offset, port) in data.iter().take(LFT_BLOCK_LIDS).enumerate() {
            // What a switch keeps beyond its top is left over from before.
            if let Some(entry) = node.forwarding.get_mut(first + offset).filter(|_| first + offset <= top) {
                *entry = *port;
            }
        }
    }

    fn fail(&mut self, ask: Ask, reason: &'static str) {
        let (what, node, port) = match ask {
            Ask::Neighbour(behind) => {
                ("NodeInfo of the neighbour", behind.map(|end| end.node), behind.map(|end| end.port))
            }
            Ask::Description(node) => ("NodeDescription", Some(node), None),
            Ask::Switch(node) => ("SwitchInfo", Some(node), None),
            Ask::Port(end) => ("PortInfo", Some(end.node), Some(end.port)),
            Ask::Table(node, _) => ("LinearForwardingTable", Some(node), None),
        };
        let guid = node.map(|node| self.nodes[node].found.guid);
        self.failures.push(Failure { guid, port, what, reason });
    }

    fn reply(&mut self, queue: &mut Queue, id: NodeId, ask: Ask, mad: &Mad) {
        let data = mad::smp_data(mad);
        match ask {
            Ask::Neighbour(behind) => self.neighbour(queue, id, behind, data),
            Ask::Description(index) => self.nodes[index].found.description = mad::node_description(data),
            Ask::Switch(index) => self.switch_info(queue, index, data),
            Ask::Port(end) => self.port_info(queue, end, data),
            Ask::Table(index, block) => self.table_block(index, block, data),
        }
    }
}

impl Work for Walk {
    fn done(&mut self, queue: &mut Queue, node: NodeId, tag: u64, outcome: Outcome<'_>, _now: Instant) {
        let Some(ask) = usize::try_from(tag).ok().and_then(|tag| self.asked.get(tag)).copied() else {
            return;
        };
        match outcome {
            Outcome::Reply(mad) => self.reply(queue, node, ask, mad),
            Outcome::Refused(_) => self.fail(ask, "refused"),
            Outcome::Timeout => self.fail(ask, "timeout"),
            Outcome::Silent => self.fail(ask, "silent"),
            Outcome::NotSent => self.fail(ask, "not_sent"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topology(guids: &[u64]) -> Topology {
        let node = |guid: &u64| Node {
            guid: Guid(*guid),
            kind: NodeKind::Switch,
            description: String::new(),
            system_guid: Guid(*guid),
            vendor_id: 0,
            device_id: 0,
            port_count: 1,
            ports: Vec::new(),
            switch: None,
            forwarding: Vec::new(),
            path: DirectedPath::local(),
        };
        Topology::new(guids.iter().map(node).collect(), None, 0)
    }

    #[test]
    fn only_missing_nodes_and_lost_requests_together_are_doubtful() {
        let lost = Failure { guid: Some(Guid(1)), port: Some(1), what: "NodeInfo", reason: "timeout" };
        let found = |guids: &[u64], failures: &[Failure]| Discovery {
            topology: topology(guids),
            failures: failures.to_vec(),
            ..Discovery::default()
        };
        let before = topology(&[1, 2]);
        assert!(found(&[1], std::slice::from_ref(&lost)).is_doubtful(&before));
        assert!(!found(&[1], &[]).is_doubtful(&before), "a cable was pulled: its ports say so");
        assert!(!found(&[1, 2, 3], &[lost]).is_doubtful(&before), "nothing is missing");
    }
}
