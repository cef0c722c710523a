//! Which links traffic between ports takes, by the switches' forwarding tables. Pure.
//!
//! A switch forwards by the destination alone, so all sources behind one leaf take the same way from there on: the cost
//! is destinations x leaves x hops.

use super::topology::Topology;
use std::collections::{BTreeMap, HashMap};
use throughline_shares::forwarding::{End, Forwarding, Hop, Switch};

/// The ways of a fabric.
#[derive(Debug)]
pub struct Routes<'a> {
    topology: &'a Topology,
    /// Nodes and cables by their places.
    forwarding: Forwarding,
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
pub struct PairsByLink {
    /// From `a` to `b` and back, by link.
    pub pairs: BTreeMap<usize, [u64; 2]>,
    /// False where a way ended before its destination.
    pub is_complete: bool,
}

impl<'a> Routes<'a> {
    /// Forwarding tables are by the switch's number in the tables of the database.
    pub fn new(topology: &'a Topology, tables: HashMap<i64, Vec<u8>>) -> Routes<'a> {
        // A port that is none has no number: nothing is sent there.
        let end = |end: &super::topology::Port| End {
            node: end.node,
            port: usize::try_from(end.number).unwrap_or(usize::from(u8::MAX)),
        };
        let cables = topology.ends.iter().map(|[a, b]| [end(a), end(b)]);
        // Only their tables are followed.
        let switch = |(id, table): (i64, Vec<u8>)| {
            Some((*topology.place_of.get(&id)?, Switch { table: Some(table), is_adaptive: false }))
        };
        let switches = tables.into_iter().filter_map(switch).collect();
        let forwarding = Forwarding::new(topology.columns.nodes.guid.len(), cables, switches);
        Routes { topology, forwarding }
    }

    /// LIDs that the switch at the end of a link sends over it; `None` where that is no switch with a table.
    pub fn destinations(&self, link: usize, from_a: bool) -> Option<Vec<usize>> {
        let end = self.topology.ends[link][usize::from(!from_a)];
        self.forwarding.destinations(end.node, usize::try_from(end.number).ok()?)
    }

    /// What traffic of all these ports with each other crosses. Ports of one host reach each other within it. `hosts`
    /// are the database's numbers of ports.
    pub fn crossed(&self, ports: &[i64]) -> PairsByLink {
        let ends: Vec<HostPort> = ports.iter().filter_map(|port| self.host_port(*port)).collect();
        let mut crossed = PairsByLink { pairs: BTreeMap::new(), is_complete: ends.len() == ports.len() };
        for to in &ends {
            // Sources by where their cable leads.
            let mut behind: BTreeMap<usize, u64> = BTreeMap::new();
            for from in ends.iter().filter(|from| !self.is_one_host(from.node, to.node)) {
                let Some(hop) = self.forwarding.hop(from.node, from.port) else { continue };
                count(&mut crossed.pairs, hop, 1);
                *behind.entry(hop.to).or_default() += 1;
            }
            for (start, weight) in behind {
                let pairs = &mut crossed.pairs;
                crossed.is_complete &=
                    self.forwarding.walk(start, to.node, to.lid, |hop| count(pairs, hop, weight));
            }
        }
        crossed
    }

    fn is_one_host(&self, one: usize, other: usize) -> bool {
        let hosts = &self.topology.columns.nodes.host;
        one == other || hosts[one].is_some() && hosts[one] == hosts[other]
    }

    fn host_port(&self, port: i64) -> Option<HostPort> {
        let (link, is_a) = self.topology.link_of_port.get(&port)?;
        let end = self.topology.ends[*link][usize::from(!is_a)];
        let lid = usize::try_from(end.lid).ok()?;
        Some(HostPort { node: end.node, port: usize::try_from(end.number).ok()?, lid })
    }
}

fn count(pairs: &mut BTreeMap<usize, [u64; 2]>, hop: Hop, weight: u64) {
    pairs.entry(hop.cable).or_default()[usize::from(!hop.is_forth)] += weight;
}
