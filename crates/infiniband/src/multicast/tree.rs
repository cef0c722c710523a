//! The tree of one multicast LID: which switches and links carry it, whom it reaches, and what is wrong with it.
//!
//! A switch sends a packet to all ports of its entry but the one it came by. So a link belongs to the tree when both
//! of its switches have the port; the tree must hang together and have no circle, or packets are missed or
//! multiplied.

use super::{MulticastTables, PortSet};
use crate::mad::NodeKind;
use crate::topology::{NodeIndex, PortEnd, Topology};
use std::collections::{BTreeMap, HashSet};

/// A link between two switches of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeLink {
    /// The end nearer to the root.
    pub upper: PortEnd,
    /// The other end.
    pub lower: PortEnd,
}

/// The tree of a multicast LID.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// The multicast LID.
    pub mlid: u16,
    /// Switches with an entry, with their ports. In the order in which they are drawn: each below the one that it
    /// hangs on, roots first.
    pub switches: Vec<(NodeIndex, PortSet)>,
    /// One switch of each part, from which it is drawn. More than one: the tree is torn.
    pub roots: Vec<NodeIndex>,
    /// Links between switches, each once.
    pub links: Vec<TreeLink>,
    /// Ports of hosts and routers that are sent to, each with the switch port that sends: `(switch end, host end)`.
    pub hosts: Vec<(PortEnd, PortEnd)>,
    /// Ports that close a circle: packets come back and are multiplied. One end of each such link.
    pub circles: Vec<PortEnd>,
    /// Ports to a switch that does not send back: packets pass one way only.
    pub one_way: Vec<PortEnd>,
    /// Ports behind which nothing is known.
    pub nowhere: Vec<PortEnd>,
}

impl Tree {
    /// The tree of a multicast LID, from all tables.
    #[must_use]
    pub fn new(topology: &Topology, tables: &MulticastTables, mlid: u16) -> Tree {
        let mut entries: BTreeMap<NodeIndex, PortSet> = BTreeMap::new();
        for index in 0..topology.nodes.len() {
            let ports = tables.ports(index, mlid);
            if !ports.is_empty() {
                entries.insert(index, ports);
            }
        }
        let mut tree = Tree { mlid, ..Tree::default() };
        let mut neighbours: BTreeMap<NodeIndex, Vec<(u8, PortEnd)>> = BTreeMap::new();
        for (index, ports) in &entries {
            // Port 0 is the switch itself.
            for port in ports.iter().filter(|port| *port != 0) {
                let here = PortEnd { node: *index, port };
                match topology.nodes[*index].port(port).and_then(|port| port.remote) {
                    None => tree.nowhere.push(here),
                    Some(there) if topology.nodes[there.node].kind != NodeKind::Switch => {
                        tree.hosts.push((here, there));
                    }
                    Some(there) if entries.get(&there.node).is_some_and(|set| set.contains(there.port)) => {
                        neighbours.entry(*index).or_default().push((port, there));
                    }
                    Some(_) => tree.one_way.push(here),
                }
            }
        }
        tree.hang(&entries, &neighbours);
        tree
    }

    /// Whether it is a tree: one part, no circles, nothing that passes one way only or leads nowhere.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.roots.len() <= 1 && self.circles.is_empty() && self.one_way.is_empty() && self.nowhere.is_empty()
    }

    /// Links that carry it, those to hosts among them.
    #[must_use]
    pub fn link_count(&self) -> usize {
        self.links.len() + self.circles.len() + self.one_way.len() + self.hosts.len()
    }

    /// Walks each part from its root, depth first, so that what is below a switch follows it.
    fn hang(
        &mut self,
        entries: &BTreeMap<NodeIndex, PortSet>,
        neighbours: &BTreeMap<NodeIndex, Vec<(u8, PortEnd)>>,
    ) {
        let of = |node: NodeIndex| neighbours.get(&node).map_or(&[][..], Vec::as_slice);
        let mut seen: HashSet<NodeIndex> = HashSet::new();
        // The switch with most links to others is what people call the root; then by GUID.
        let mut starts: Vec<NodeIndex> = entries.keys().copied().collect();
        starts.sort_by_key(|node| (std::cmp::Reverse(of(*node).len()), *node));
        for start in starts {
            if seen.contains(&start) {
                continue;
            }
            self.roots.push(start);
            // A link from where it was found, or the root itself.
            let mut stack: Vec<(NodeIndex, Option<TreeLink>)> = vec![(start, None)];
            while let Some((node, link)) = stack.pop() {
                if seen.contains(&node) {
                    continue;
                }
                seen.insert(node);
                self.switches.extend(entries.get(&node).map(|ports| (node, *ports)));
                self.links.extend(link);
                let further = of(node).iter().rev().filter(|(_, there)| !seen.contains(&there.node));
                stack.extend(further.map(|(port, there)| {
                    let upper = PortEnd { node, port: *port };
                    (there.node, Some(TreeLink { upper, lower: *there }))
                }));
            }
        }
        // What the walk did not need closes a circle.
        let key = |end: &PortEnd| (end.node, end.port);
        let needed: HashSet<_> =
            self.links.iter().flat_map(|link| [key(&link.upper), key(&link.lower)]).collect();
        let links = neighbours.iter().flat_map(|(node, links)| {
            links.iter().map(move |(port, there)| (PortEnd { node: *node, port: *port }, *there))
        });
        let closing = links.filter(|(here, there)| key(here) <= key(there) && !needed.contains(&key(here)));
        self.circles = closing.map(|(here, _)| here).collect();
    }
}
