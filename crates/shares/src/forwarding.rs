//! Ways through a fabric by the linear forwarding tables of its switches.
//!
//! A switch that routes statically sends a packet by its destination's LID to one port: the way is exact. One that routes
//! adaptively may take any port that leads nearer to the destination, and so may one whose table is not known; a destination
//! with several LIDs (LMC) may have a way for each. Such a stage has several links.

use crate::network::{HostPort, Link, Path, PathStage, Routes};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

/// Longer ways are loops.
pub const HOPS_MAX: usize = 64;

/// Entry of a table for no output port.
pub const NO_PORT: u8 = 255;

/// Distance of what cannot be reached.
const FAR: u16 = u16::MAX;

/// One end of a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Number of the node, from 0.
    pub node: usize,
    /// Port on it.
    pub port: usize,
}

/// One step of a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Number of the cable, from 0.
    pub cable: usize,
    /// Whether it goes from the cable's first end to its second.
    pub is_forth: bool,
    /// The node where it ends.
    pub to: usize,
}

impl Hop {
    /// The link of this direction: those of a cable are neighbours, the first end's first.
    #[must_use]
    pub fn link(&self) -> Link {
        link(self.cable, self.is_forth)
    }
}

/// The link of a direction of a cable.
#[must_use]
pub fn link(cable: usize, is_forth: bool) -> Link {
    Link(u32::try_from(cable * 2 + usize::from(!is_forth)).unwrap_or(u32::MAX))
}

/// A node that forwards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Switch {
    /// Entry i is the output port for LID i; `None` where it is not known.
    pub table: Option<Vec<u8>>,
    /// Whether it chooses among several ports by load.
    pub is_adaptive: bool,
}

/// Cables and switches of a fabric. A node is known by its number.
#[derive(Debug, Default)]
pub struct Forwarding {
    /// By node and port.
    hops: Vec<Vec<Option<Hop>>>,
    switches: HashMap<usize, Switch>,
    /// Hops to a node from all others, by that node; only where a way needs them.
    distances: Mutex<HashMap<usize, Arc<Vec<u16>>>>,
}

impl Forwarding {
    /// Of so many nodes. Those that are no switch forward nothing.
    #[must_use]
    pub fn new(
        nodes: usize,
        cables: impl IntoIterator<Item = [End; 2]>,
        switches: HashMap<usize, Switch>,
    ) -> Forwarding {
        let mut hops: Vec<Vec<Option<Hop>>> = vec![Vec::new(); nodes];
        for (cable, [a, b]) in cables.into_iter().enumerate() {
            for (from, to, is_forth) in [(a, b, true), (b, a, false)] {
                let Some(of_node) = hops.get_mut(from.node) else { continue };
                if of_node.len() <= from.port {
                    of_node.resize(from.port + 1, None);
                }
                of_node[from.port] = Some(Hop { cable, is_forth, to: to.node });
            }
        }
        Forwarding { hops, switches, distances: Mutex::default() }
    }

    /// The cable at a port.
    #[must_use]
    pub fn hop(&self, node: usize, port: usize) -> Option<Hop> {
        self.hops.get(node)?.get(port).copied().flatten()
    }

    /// LIDs that a switch sends to one of its ports; `None` where it has no table.
    #[must_use]
    pub fn destinations(&self, node: usize, port: usize) -> Option<Vec<usize>> {
        let table = self.switches.get(&node)?.table.as_ref()?;
        let port = u8::try_from(port).ok()?;
        Some((0..table.len()).filter(|lid| table[*lid] == port).collect())
    }

    /// Follows the tables from a node to another one; false where the way ends elsewhere.
    pub fn walk(&self, start: usize, to: usize, lid: usize, mut each: impl FnMut(Hop)) -> bool {
        let mut node = start;
        for _ in 0..HOPS_MAX {
            if node == to {
                return true;
            }
            let Some(hop) = self.by_table(node, lid) else { return false };
            each(hop);
            node = hop.to;
        }
        false
    }

    fn by_table(&self, node: usize, lid: usize) -> Option<Hop> {
        let table = self.switches.get(&node)?.table.as_ref()?;
        let port = table.get(lid).copied().filter(|port| *port != NO_PORT)?;
        self.hop(node, usize::from(port))
    }

    /// The stages from a switch on; `None` where no way leads to the destination.
    fn stages(&self, start: usize, to: &Host) -> Option<Vec<PathStage>> {
        let mut stages = Vec::new();
        let (mut nodes, mut is_reached) = (BTreeSet::from([start]), false);
        for _ in 0..HOPS_MAX {
            is_reached |= nodes.remove(&to.node);
            if nodes.is_empty() {
                return is_reached.then_some(stages);
            }
            let (mut links, mut next) = (Vec::new(), BTreeSet::new());
            for node in &nodes {
                for hop in self.onwards(*node, to) {
                    links.push(hop.link());
                    next.insert(hop.to);
                }
            }
            links.sort_unstable();
            links.dedup();
            match links.as_slice() {
                // What is left leads elsewhere.
                [] => return is_reached.then_some(stages),
                [link] => stages.push(PathStage::One(*link)),
                _ => stages.push(PathStage::AnyOf(links)),
            }
            nodes = next;
        }
        None
    }

    /// Where a switch may send a packet.
    fn onwards(&self, node: usize, to: &Host) -> Vec<Hop> {
        let Some(switch) = self.switches.get(&node) else { return Vec::new() };
        let mut hops: Vec<Hop> = (0..to.lids).filter_map(|more| self.by_table(node, to.lid + more)).collect();
        if switch.is_adaptive || switch.table.is_none() {
            let distances = self.distances(to.node);
            let own = distances.get(node).copied().unwrap_or(FAR);
            let is_nearer = |hop: &&Hop| distances.get(hop.to).is_some_and(|far| own != FAR && *far < own);
            hops.extend(self.hops.get(node).into_iter().flatten().flatten().filter(is_nearer));
        }
        hops
    }

    /// Hops from each node to one.
    fn distances(&self, to: usize) -> Arc<Vec<u16>> {
        let known = || self.distances.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known().get(&to) {
            return known.clone();
        }
        let mut distances = vec![FAR; self.hops.len()];
        let mut waiting = VecDeque::from([(to, 0_u16)]);
        if let Some(own) = distances.get_mut(to) {
            *own = 0;
        }
        while let Some((node, distance)) = waiting.pop_front() {
            if node != to && !self.switches.contains_key(&node) {
                continue;
            }
            for hop in self.hops.get(node).into_iter().flatten().flatten() {
                if distances[hop.to] == FAR {
                    distances[hop.to] = distance + 1;
                    waiting.push_back((hop.to, distance + 1));
                }
            }
        }
        let distances = Arc::new(distances);
        known().insert(to, distances.clone());
        distances
    }
}

/// A port at which traffic begins and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its node.
    pub node: usize,
    /// Port on it.
    pub port: usize,
    /// Its first LID.
    pub lid: usize,
    /// How many it has: 2^LMC.
    pub lids: usize,
}

/// Ways between the ports of hosts.
#[derive(Debug, Default)]
pub struct HostRoutes {
    forwarding: Forwarding,
    hosts: Vec<Host>,
    ports: Vec<HostPort>,
}

impl HostRoutes {
    /// Of these ports; one without a cable is left out. Returns for each given port its index, too.
    #[must_use]
    pub fn new(forwarding: Forwarding, hosts: Vec<Host>) -> (HostRoutes, Vec<Option<usize>>) {
        let mut routes = HostRoutes { forwarding, ..HostRoutes::default() };
        let mut indices = Vec::with_capacity(hosts.len());
        for host in hosts {
            let Some(hop) = routes.forwarding.hop(host.node, host.port) else {
                indices.push(None);
                continue;
            };
            indices.push(Some(routes.hosts.len()));
            routes.hosts.push(host);
            routes.ports.push(HostPort { transmit: hop.link(), receive: link(hop.cable, !hop.is_forth) });
        }
        (routes, indices)
    }

    /// Cables and tables.
    #[must_use]
    pub fn forwarding(&self) -> &Forwarding {
        &self.forwarding
    }
}

impl Routes for HostRoutes {
    fn ports(&self) -> &[HostPort] {
        &self.ports
    }

    fn path(&self, from: usize, to: usize) -> Option<Path> {
        let (from, to) = (self.hosts.get(from)?, self.hosts.get(to)?);
        let first = self.forwarding.hop(from.node, from.port)?;
        let mut stages = vec![PathStage::One(first.link())];
        stages.extend(self.forwarding.stages(first.to, to)?);
        Some(Path(stages))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hosts 0 and 1 at leaf 4, 2 and 3 at leaf 5; spines 6 and 7. LIDs are 10 and the node. Leaves send to even LIDs by
    /// spine 6, to odd ones by spine 7.
    fn tree(adaptive: &[usize], without: &[usize]) -> HostRoutes {
        let end = |node, port| End { node, port };
        let mut cables = Vec::new();
        for host in 0..4 {
            cables.push([end(host, 1), end(4 + host / 2, 1 + host % 2)]);
        }
        for leaf in [4, 5] {
            for spine in [6, 7] {
                cables.push([end(leaf, spine - 3), end(spine, leaf - 3)]);
            }
        }
        let leaf = |leaf: usize| -> Vec<u8> {
            let port = |lid: usize| match lid.checked_sub(10) {
                Some(host) if host < 4 && 4 + host / 2 == leaf => 1 + (host % 2) as u8,
                Some(host) if host < 4 => 3 + (host % 2) as u8,
                _ => NO_PORT,
            };
            (0..20).map(port).collect()
        };
        let spine: Vec<u8> = (0..20)
            .map(|lid| if (10..14).contains(&lid) { 1 + (lid as u8 - 10) / 2 } else { NO_PORT })
            .collect();
        let tables = HashMap::from([(4, leaf(4)), (5, leaf(5)), (6, spine.clone()), (7, spine)]);
        let switch = |(node, table)| {
            let table = (!without.contains(&node)).then_some(table);
            (node, Switch { table, is_adaptive: adaptive.contains(&node) })
        };
        let forwarding = Forwarding::new(8, cables, tables.into_iter().map(switch).collect());
        let hosts = (0..4).map(|node| Host { node, port: 1, lid: 10 + node, lids: 1 }).collect();
        let (routes, indices) = HostRoutes::new(forwarding, hosts);
        assert_eq!(indices, [Some(0), Some(1), Some(2), Some(3)]);
        routes
    }

    fn links(path: &Path) -> Vec<Vec<u32>> {
        path.0.iter().map(|stage| stage.links().iter().map(|link| link.0).collect()).collect()
    }

    #[test]
    fn static_routes_are_exact() {
        let routes = tree(&[], &[]);
        // Cable 0 from the host, cable 4 from leaf 4 to spine 6, cable 6 back from spine 6 to leaf 5, cable 2 to the host.
        assert_eq!(links(&routes.path(0, 2).unwrap()), [[0], [8], [13], [5]]);
        assert_eq!(links(&routes.path(0, 3).unwrap()), [[0], [10], [15], [7]]);
        assert_eq!(links(&routes.path(0, 1).unwrap()), [[0], [3]]);
        assert_eq!(routes.ports()[2], HostPort { transmit: Link(4), receive: Link(5) });
        assert_eq!(routes.forwarding().destinations(4, 3).unwrap(), [12]);
        let mut nodes = Vec::new();
        assert!(routes.forwarding().walk(4, 2, 12, |hop| nodes.push(hop.to)));
        assert_eq!(nodes, [6, 5, 2]);
        assert!(!routes.forwarding().walk(4, 2, 19, |_| {}));
    }

    #[test]
    fn adaptive_switches_and_unknown_tables_may_take_each_port_that_leads_nearer() {
        for routes in [tree(&[4], &[]), tree(&[], &[4])] {
            assert_eq!(links(&routes.path(0, 2).unwrap()), [vec![0], vec![8, 10], vec![13, 15], vec![5]]);
            assert_eq!(links(&routes.path(0, 1).unwrap()), [[0], [3]]);
        }
        // The way back is by leaf 5, which is static.
        assert_eq!(links(&tree(&[4], &[]).path(2, 0).unwrap()), [[4], [12], [9], [1]]);
    }

    #[test]
    fn a_destination_with_two_lids_has_two_ways() {
        let mut routes = tree(&[], &[]);
        routes.hosts[2].lids = 2;
        // LID 13 is another host's here: a way that leads elsewhere adds its links until it gets there.
        let path = links(&routes.path(0, 2).unwrap());
        assert_eq!((&path[0], &path[1]), (&vec![0], &vec![8, 10]));
    }

    #[test]
    fn a_table_without_the_destination_and_a_loop_are_no_way() {
        let mut routes = tree(&[], &[]);
        routes.hosts[2].lid = 19;
        assert_eq!(routes.path(0, 2), None);
        let mut routes = tree(&[], &[]);
        // Spine 6 sends everything back to leaf 4.
        routes.forwarding.switches.insert(6, Switch { table: Some(vec![1; 20]), is_adaptive: false });
        assert_eq!(routes.path(0, 2), None);
    }
}
