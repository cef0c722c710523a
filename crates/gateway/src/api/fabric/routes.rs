//! Which links traffic between ports takes, by the switches' forwarding tables. Pure.
//!
//! A switch forwards by the destination alone, so all sources behind one leaf take the same way from there on: the cost
//! is destinations x leaves x hops.

use super::topology::Topology;
use std::collections::{BTreeMap, HashMap};

/// Longer ways are loops.
const HOPS_MAX: usize = 64;

/// No output port.
const NONE: u8 = 255;

/// One step of a way.
#[derive(Clone, Copy, Debug)]
struct Hop {
    link: usize,
    /// Whether it goes from `a` to `b`.
    is_ab: bool,
    /// The place of the node where it ends.
    to: usize,
}

/// The ways of a fabric.
#[derive(Debug)]
pub struct Routes<'a> {
    topology: &'a Topology,
    /// By place and port of a node.
    hops: Vec<Vec<Option<Hop>>>,
    /// Forwarding tables by place of the switch.
    tables: HashMap<usize, Vec<u8>>,
}

/// A port at which traffic begins and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HostPort {
    node: usize,
    port: usize,
    lid: usize,
}

/// How many pairs of ports go over each link, and whether every way was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crossed {
    /// From `a` to `b` and back, by link.
    pub pairs: BTreeMap<usize, [u64; 2]>,
    /// False where a way ended before its destination.
    pub is_complete: bool,
}

impl<'a> Routes<'a> {
    /// Forwarding tables are by the switch's number in the tables of the database.
    pub fn new(topology: &'a Topology, tables: HashMap<i32, Vec<u8>>) -> Routes<'a> {
        let mut hops: Vec<Vec<Option<Hop>>> = vec![Vec::new(); topology.columns.nodes.guid.len()];
        for (link, [a, b]) in topology.ends.iter().enumerate() {
            for (from, to, is_ab) in [(a, b, true), (b, a, false)] {
                let Ok(port) = usize::try_from(from.number) else { continue };
                let of_node = &mut hops[from.node];
                if of_node.len() <= port {
                    of_node.resize(port + 1, None);
                }
                of_node[port] = Some(Hop { link, is_ab, to: to.node });
            }
        }
        let place = |(id, table): (i32, Vec<u8>)| Some((*topology.place_of.get(&id)?, table));
        Routes { topology, hops, tables: tables.into_iter().filter_map(place).collect() }
    }

    /// LIDs that the switch at the end of a link sends over it; `None` where that is no switch with a table.
    pub fn destinations(&self, link: usize, from_a: bool) -> Option<Vec<usize>> {
        let end = self.topology.ends[link][usize::from(!from_a)];
        let port = u8::try_from(end.number).ok()?;
        let table = self.tables.get(&end.node)?;
        Some((0..table.len()).filter(|lid| table[*lid] == port).collect())
    }

    /// What traffic of all these ports with each other crosses. Ports of one host reach each other within it. `hosts`
    /// are the database's numbers of ports.
    pub fn crossed(&self, ports: &[i32]) -> Crossed {
        let ends: Vec<HostPort> = ports.iter().filter_map(|port| self.host_port(*port)).collect();
        let mut crossed = Crossed { pairs: BTreeMap::new(), is_complete: ends.len() == ports.len() };
        for to in &ends {
            // Sources by where their cable leads.
            let mut behind: BTreeMap<usize, u64> = BTreeMap::new();
            for from in ends.iter().filter(|from| !self.is_one_host(from.node, to.node)) {
                let Some(hop) = self.hop(from.node, from.port) else { continue };
                count(&mut crossed.pairs, hop, 1);
                *behind.entry(hop.to).or_default() += 1;
            }
            for (start, weight) in behind {
                crossed.is_complete &= self.walk(start, to, weight, &mut crossed.pairs);
            }
        }
        crossed
    }

    fn is_one_host(&self, one: usize, other: usize) -> bool {
        let hosts = &self.topology.columns.nodes.host;
        one == other || hosts[one].is_some() && hosts[one] == hosts[other]
    }

    fn hop(&self, node: usize, port: usize) -> Option<Hop> {
        self.hops.get(node)?.get(port).copied().flatten()
    }

    fn host_port(&self, port: i32) -> Option<HostPort> {
        let (link, is_a) = self.topology.link_of_port.get(&port)?;
        let end = self.topology.ends[*link][usize::from(!is_a)];
        let lid = usize::try_from(end.lid).ok()?;
        Some(HostPort { node: end.node, port: usize::try_from(end.number).ok()?, lid })
    }

    /// Counts the way from a switch to a port; false where it ends elsewhere.
    fn walk(&self, start: usize, to: &HostPort, weight: u64, pairs: &mut BTreeMap<usize, [u64; 2]>) -> bool {
        let mut node = start;
        for _ in 0..HOPS_MAX {
            if node == to.node {
                return true;
            }
            let port = self.tables.get(&node).and_then(|table| table.get(to.lid)).copied();
            let Some(hop) =
                port.filter(|port| *port != NONE).and_then(|port| self.hop(node, usize::from(port)))
            else {
                return false;
            };
            count(pairs, hop, weight);
            node = hop.to;
        }
        false
    }
}

fn count(pairs: &mut BTreeMap<usize, [u64; 2]>, hop: Hop, weight: u64) {
    pairs.entry(hop.link).or_default()[usize::from(!hop.is_ab)] += weight;
}
