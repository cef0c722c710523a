//! Who is behind a port: adds nodes within the bounds and believes a cable only where both ends can have it.
//!
//! A node is known by its GUID, and anybody can claim one. So facts that a GUID had stay, a port has one cable, and
//! of two places that claim the same port the one that was known before counts, else the first.

use super::Walk;
use crate::discover::walked::{Purpose, WalkedNode};
use crate::engine::{NodeId, Queue, Route};
use throughline_infiniband::mad::{DirectedPath, NodeInfo, NodeKind, attribute};
use throughline_infiniband::topology::{Node, NodeIndex, Port, PortEnd};
use throughline_infiniband::topology::{OTHER_FACTS, OTHER_PLACE};
use throughline_sample::Guid;

impl Walk<'_> {
    pub(super) fn neighbour(&mut self, queue: &mut Queue, id: NodeId, behind: Option<PortEnd>, data: &[u8]) {
        let Ok(info) = NodeInfo::decode(data) else { return };
        let index = match self.by_guid.get(&info.node_guid).copied() {
            Some(index) => index,
            None => match self.add(queue, id, &info, behind) {
                Some(index) => index,
                None => return,
            },
        };
        let here = PortEnd { node: index, port: info.local_port };
        let reason = match behind {
            _ if !has_facts(&self.nodes[index].found, &info) => Some(OTHER_FACTS),
            Some(there) if !self.is_free(here, there) => {
                (!self.give_back(queue, id, here, there)).then_some(OTHER_PLACE)
            }
            _ => None,
        };
        if let Some(reason) = reason {
            *self.rejected.entry(reason).or_default() += 1;
            return self.fail(queue, Purpose::Neighbour(behind), reason);
        }
        if info.kind != NodeKind::Switch {
            self.reached(queue, id, here, info.port_guid);
        }
        match behind {
            None => self.local = Some(here),
            Some(there) => self.connect(here, there),
        }
    }

    /// Whether a cable between two ends contradicts no other one.
    fn is_free(&self, here: PortEnd, there: PortEnd) -> bool {
        let is_free = |end, other| {
            self.port(end).and_then(|port| port.remote).is_none_or(|remote: PortEnd| remote == other)
        };
        is_free(here, there) && is_free(there, here)
    }

    /// Of two places that claim one node, this one is where it was known to be: what the other one reported of it is
    /// requested again here. `false` where it is not.
    fn give_back(&mut self, queue: &mut Queue, id: NodeId, here: PortEnd, there: PortEnd) -> bool {
        let guid = |end: PortEnd| self.nodes[end.node].found.guid;
        let before = self.how.known.and_then(|known| {
            let node = &known.nodes[known.node_by_guid(guid(here))?];
            let remote = node.port(here.port)?.remote?;
            Some((known.nodes[remote.node].guid, remote.port))
        });
        let is_free = self.port(there).is_some_and(|port| port.remote.is_none_or(|remote| remote == here));
        if before != Some((guid(there), there.port)) || !is_free {
            return false;
        }
        if let Some(liar) = self.port_mut(here).and_then(|port| port.remote.take()) {
            if let Some(port) = self.port_mut(liar) {
                port.remote = None;
            }
            *self.rejected.entry(OTHER_PLACE).or_default() += 1;
            self.fail(queue, Purpose::Neighbour(Some(liar)), OTHER_PLACE);
        }
        let Route::Directed(path) = *queue.route(id) else { return false };
        let node = &mut self.nodes[here.node];
        (node.engine, node.found.path) = (Some(id), path);
        self.ports_requested.remove(&here);
        self.request(queue, id, attribute::NODE_DESCRIPTION, 0, Purpose::Description(here.node));
        if self.nodes[here.node].found.kind == NodeKind::Switch {
            self.request(queue, id, attribute::SWITCH_INFO, 0, Purpose::Switch(here.node));
        }
        true
    }

    /// Adds a node that answered, and requests what this walk needs of it. `None` where it would exceed a bound.
    fn add(
        &mut self,
        queue: &mut Queue,
        id: NodeId,
        info: &NodeInfo,
        behind: Option<PortEnd>,
    ) -> Option<NodeIndex> {
        let Route::Directed(path) = *queue.route(id) else { return None };
        let is_switch = info.kind == NodeKind::Switch;
        let known = self
            .trusted_node(info.node_guid)
            .filter(|node| node.kind == info.kind && node.port_count == info.port_count);
        let wants_name = known.is_none_or(|node| node.description.is_empty() || self.is_due(node));
        let (is_suspect, found) = match known {
            Some(node) => (false, as_known(node, path)),
            None => (true, new_node(info, path)),
        };
        let index = self.insert(WalkedNode { found, engine: Some(id), is_suspect }, behind)?;
        if is_switch {
            self.request(queue, id, attribute::SWITCH_INFO, 0, Purpose::Switch(index));
            if is_suspect {
                self.request_switch_ports(queue, index);
            }
        }
        if wants_name {
            self.request(queue, id, attribute::NODE_DESCRIPTION, 0, Purpose::Description(index));
        }
        Some(index)
    }

    /// Takes a known end node as it is, behind a port.
    pub(super) fn take(&mut self, guid: Guid, behind: PortEnd) -> Option<NodeIndex> {
        let path = self.nodes[behind.node].found.path.through(behind.port)?;
        let found = as_known(self.trusted_node(guid)?, path);
        self.insert(WalkedNode { found, engine: None, is_suspect: false }, Some(behind))
    }

    /// A further node, if it is within the bounds.
    fn insert(&mut self, walked: WalkedNode, behind: Option<PortEnd>) -> Option<NodeIndex> {
        let ports = match walked.found.kind {
            NodeKind::Switch => usize::from(walked.found.port_count) + 1,
            // Others have those by which they are reached.
            _ => 1,
        };
        if !self.goes_on() {
            return None;
        }
        if let Err(limit) = self.taken.check(&self.limits, ports) {
            self.truncate(limit);
            return None;
        }
        self.taken.add(ports);
        self.frontier.add(behind.map(|end| end.node), ports);
        let index = self.nodes.len();
        self.by_guid.insert(walked.found.guid, index);
        self.nodes.push(walked);
        Some(index)
    }

    /// An end node was reached through one of its ports: that port can be queried about itself.
    fn reached(&mut self, queue: &mut Queue, id: NodeId, end: PortEnd, guid: Guid) {
        let ports = &mut self.nodes[end.node].found.ports;
        let place = ports.partition_point(|port| port.number < end.port);
        if ports.get(place).is_none_or(|port| port.number != end.port) {
            ports.insert(place, Port { number: end.port, guid: Some(guid), info: None, remote: None });
        }
        ports[place].guid = Some(guid);
        if self.ports_requested.insert(end) {
            self.request(queue, id, attribute::PORT_INFO, u32::from(end.port), Purpose::Port(end));
        }
    }

    /// Puts a cable between two ends, unless one of them has another one.
    pub(super) fn connect(&mut self, here: PortEnd, there: PortEnd) {
        if !self.is_free(here, there) {
            *self.rejected.entry(OTHER_PLACE).or_default() += 1;
            return;
        }
        for (end, remote) in [(here, there), (there, here)] {
            if let Some(port) = self.port_mut(end) {
                port.remote = Some(remote);
            }
        }
    }
}

/// Whether a node that is known in this walk says the same of itself as before.
fn has_facts(node: &Node, info: &NodeInfo) -> bool {
    (node.kind, node.port_count, node.system_guid) == (info.kind, info.port_count, info.system_guid)
        && (node.vendor_id, node.device_id) == (info.vendor_id, info.device_id)
}

/// A node with nothing known but its NodeInfo.
fn new_node(info: &NodeInfo, path: DirectedPath) -> Node {
    let numbers = (0..=info.port_count).filter(|_| info.kind == NodeKind::Switch);
    let ports = numbers.map(|number| Port {
        number,
        guid: (number == 0).then_some(info.port_guid),
        info: None,
        remote: None,
    });
    Node {
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
    }
}

/// A node as it is known, without its cables: they are confirmed one by one.
fn as_known(node: &Node, path: DirectedPath) -> Node {
    let mut node = Node { path, ..node.clone() };
    node.ports.iter_mut().for_each(|port| port.remote = None);
    node
}
