//! What is kept of a known topology where a walk got no answer: absent is not gone. Pure.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use throughline_infiniband::mad::{MAX_UNICAST_LID, NodeKind};
use throughline_infiniband::topology::{
    Node, NodeIndex, NodeStanding, Port, PortEnd, Topology, UnansweredNode,
};
use throughline_sample::Guid;

pub(super) type UnansweredNodes = BTreeMap<Guid, UnansweredNode>;

/// In which of `turns` walks a node is queried: an even share that is the same in each process.
pub(super) fn turn_of(guid: Guid, turns: u64) -> u64 {
    (guid.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) % turns.max(1)
}

/// Whether the local port had a cable and has no link now.
pub(super) fn is_cut_off(known: &Topology, local: Option<&Port>) -> bool {
    let had =
        known.local.and_then(|end| known.nodes[end.node].port(end.port)).is_some_and(|p| p.remote.is_some());
    had && local.and_then(|port| port.info).is_some_and(|info| !info.is_linked())
}

/// End ports (port 0 of switches) with a base LID that another one has, too, and had before: readings by that LID are
/// of the other one. `nodes` in the order in which they were found.
pub(super) fn disputed(
    nodes: &[Node],
    known: Option<&Topology>,
    standings: &UnansweredNodes,
) -> BTreeSet<(Guid, u8)> {
    const NOBODY: u32 = u32::MAX;
    let mut owners = vec![(NOBODY, 0u8); usize::from(MAX_UNICAST_LID) + 1];
    let mut disputed = BTreeSet::new();
    let had = |node: &Node, port: u8, lid: u16| {
        // Of one that does not answer the manager may have given the LID to another one.
        let known = known.filter(|_| !standings.contains_key(&node.guid));
        let before = known.and_then(|known| known.node_by_guid(node.guid).map(|index| &known.nodes[index]));
        before.and_then(|node| node.port(port)?.info).is_some_and(|info| info.lid == lid)
    };
    for (index, node) in nodes.iter().enumerate() {
        let is_end = |port: &&Port| node.kind != NodeKind::Switch || port.number == 0;
        for port in node.ports.iter().filter(is_end) {
            let lid = port.info.map_or(0, |info| info.lid);
            let Some(owner) = owners.get_mut(usize::from(lid)).filter(|_| lid != 0) else { continue };
            if owner.0 == NOBODY {
                *owner = (index as u32, port.number);
                continue;
            }
            let first = &nodes[owner.0 as usize];
            if had(node, port.number, lid) && !had(first, owner.1, lid) {
                disputed.insert((first.guid, owner.1));
                *owner = (index as u32, port.number);
            } else {
                disputed.insert((node.guid, port.number));
            }
        }
    }
    disputed
}

/// What a walk found, before it is put in order.
pub(super) struct WalkFindings {
    pub nodes: Vec<Node>,
    pub by_guid: HashMap<Guid, NodeIndex>,
    /// Ends behind which nobody answered.
    pub unanswered: HashSet<PortEnd>,
    /// Switches whose table was not read completely.
    pub torn_tables: HashSet<NodeIndex>,
}

impl WalkFindings {
    /// Keeps what `known` says wherever the walk has no other word, and reports who did not answer.
    /// Of a walk that ended at a bound nobody is taken for gone.
    pub fn keep(&mut self, known: &Topology, is_truncated: bool) -> UnansweredNodes {
        self.fill(known);
        let mut standing = self.missing(known);
        if is_truncated {
            for node in known.nodes.iter().filter(|node| !self.by_guid.contains_key(&node.guid)) {
                standing.entry(node.guid).or_insert_with(|| next(known, node.guid, false));
            }
        }
        for guid in standing.keys() {
            let Some(index) = known.node_by_guid(*guid) else { continue };
            let mut node = known.nodes[index].clone();
            node.ports.iter_mut().for_each(|port| port.remote = None);
            self.by_guid.insert(*guid, self.nodes.len());
            self.nodes.push(node);
        }
        self.restore_cables(known);
        standing
    }

    /// Attributes that were not read of nodes that answered.
    fn fill(&mut self, known: &Topology) {
        for (index, node) in self.nodes.iter_mut().enumerate() {
            let Some(before) = known.node_by_guid(node.guid).map(|at| &known.nodes[at]) else { continue };
            if node.kind != before.kind || node.port_count != before.port_count {
                continue;
            }
            if node.description.is_empty() {
                node.description.clone_from(&before.description);
            }
            node.switch = node.switch.or(before.switch);
            if node.forwarding.is_empty() || self.torn_tables.contains(&index) {
                node.forwarding.clone_from(&before.forwarding);
            }
            for port in &mut node.ports {
                port.info = port.info.or_else(|| before.port(port.number).and_then(|port| port.info));
            }
        }
        self.fill_ports(known);
    }

    /// Ports of adapters through which nobody answered this time, though the switch says that they are linked.
    fn fill_ports(&mut self, known: &Topology) {
        for before in known.nodes.iter().filter(|node| node.kind != NodeKind::Switch) {
            let Some(index) = self.by_guid.get(&before.guid).copied() else { continue };
            for port in &before.ports {
                let is_missing = self.nodes[index].port(port.number).is_none();
                let is_open = port.remote.is_some_and(|end| self.open_end(known, end).is_some());
                if is_missing && is_open {
                    let ports = &mut self.nodes[index].ports;
                    let place = ports.partition_point(|other| other.number < port.number);
                    ports.insert(place, Port { remote: None, ..port.clone() });
                }
            }
        }
    }

    /// The end of a known cable as the walk has it, if its link is up and nobody was found behind it.
    fn open_end(&self, known: &Topology, end: PortEnd) -> Option<PortEnd> {
        let node = *self.by_guid.get(&known.nodes[end.node].guid)?;
        let port = self.nodes[node].port(end.port)?;
        let is_open = port.remote.is_none() && port.info.is_some_and(|info| info.is_linked());
        is_open.then_some(PortEnd { node, port: end.port })
    }

    /// The known nodes that are not found and not gone either. A node is gone when each port that it hung on
    /// is down or leads elsewhere now; one behind a node that does not answer is only hidden.
    fn missing(&self, known: &Topology) -> UnansweredNodes {
        let mut standing = UnansweredNodes::new();
        let mut behind = VecDeque::new();
        for (index, node) in known.nodes.iter().enumerate() {
            if self.by_guid.contains_key(&node.guid) {
                continue;
            }
            let remotes = node.ports.iter().filter_map(|port| port.remote);
            let open: Vec<PortEnd> = remotes.filter_map(|end| self.open_end(known, end)).collect();
            if open.is_empty() {
                continue;
            }
            let was_requested = open.iter().any(|end| self.unanswered.contains(end));
            standing.insert(node.guid, next(known, node.guid, was_requested));
            behind.push_back(index);
        }
        while let Some(index) = behind.pop_front() {
            for end in known.nodes[index].ports.iter().filter_map(|port| port.remote) {
                let guid = known.nodes[end.node].guid;
                if self.by_guid.contains_key(&guid) || standing.contains_key(&guid) {
                    continue;
                }
                let looks = known.unanswered.get(&guid).map_or(0, |before| before.looks);
                standing.insert(guid, UnansweredNode { standing: NodeStanding::Hidden, looks });
                behind.push_back(end.node);
            }
        }
        standing
    }

    /// Cables that nobody denies.
    fn restore_cables(&mut self, known: &Topology) {
        for (here, there) in known.cables() {
            let (Some(a), Some(b)) = (self.open_end(known, here), self.open_end(known, there)) else {
                continue;
            };
            for (end, remote) in [(a, b), (b, a)] {
                if let Some(port) = self.nodes[end.node].port_mut(end.port) {
                    port.remote = Some(remote);
                }
            }
        }
    }
}

/// The standing of a node that was not found at a port whose link is up.
fn next(known: &Topology, guid: Guid, was_requested: bool) -> UnansweredNode {
    let before = known.unanswered.get(&guid).copied();
    match (was_requested, before) {
        (true, before) => UnansweredNode {
            standing: NodeStanding::Silent,
            looks: before.map_or(0, |before| before.looks).saturating_add(1),
        },
        (false, Some(before)) => before,
        (false, None) => UnansweredNode { standing: NodeStanding::Hidden, looks: 0 },
    }
}
