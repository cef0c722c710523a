//! A topology as the estimator sees it: directions of links, host ports, and ways by the forwarding tables.

use std::collections::HashMap;
use throughline_infiniband::mad::NodeKind;
use throughline_infiniband::reading::PortReading;
use throughline_infiniband::reading::rates::{pairs, rates};
use throughline_infiniband::route::{Target, TargetError, is_aggregation_node};
use throughline_infiniband::topology::{PortEnd, Topology};
use throughline_shares::network::{HostPort, Link, Path, Routes};

/// Directions of links by their sending end, and the ports of hosts.
pub struct Fabric<'a> {
    topology: &'a Topology,
    /// Sending end of each direction.
    ends: Vec<PortEnd>,
    link_of: HashMap<(usize, u8), Link>,
    hosts: Vec<PortEnd>,
    ports: Vec<HostPort>,
    port_of: HashMap<(usize, u8), usize>,
}

impl<'a> Fabric<'a> {
    pub fn new(topology: &'a Topology) -> Self {
        let mut fabric = Self {
            topology,
            ends: Vec::new(),
            link_of: HashMap::new(),
            hosts: Vec::new(),
            ports: Vec::new(),
            port_of: HashMap::new(),
        };
        for (index, node) in topology.nodes.iter().enumerate() {
            for port in node.physical_ports().filter(|port| port.remote.is_some()) {
                let link = Link(u32::try_from(fabric.ends.len()).unwrap_or(u32::MAX));
                fabric.ends.push(PortEnd { node: index, port: port.number });
                fabric.link_of.insert((index, port.number), link);
            }
        }
        for (index, node) in topology.nodes.iter().enumerate() {
            if node.kind != NodeKind::Ca || is_aggregation_node(node) {
                continue;
            }
            for port in node.physical_ports() {
                let remote = port.remote.and_then(|end| fabric.link_of.get(&(end.node, end.port)).copied());
                let own = fabric.link_of.get(&(index, port.number)).copied();
                if let (Some(transmit), Some(receive)) = (own, remote) {
                    fabric.port_of.insert((index, port.number), fabric.ports.len());
                    fabric.hosts.push(PortEnd { node: index, port: port.number });
                    fabric.ports.push(HostPort { transmit, receive });
                }
            }
        }
        fabric
    }

    pub fn links(&self) -> usize {
        self.ends.len()
    }

    pub fn topology(&self) -> &Topology {
        self.topology
    }

    /// The sending end of a direction, and the one at its other end.
    pub fn ends(&self, link: usize) -> (PortEnd, Option<PortEnd>) {
        let end = self.ends[link];
        let remote = self.topology.nodes[end.node].port(end.port).and_then(|port| port.remote);
        (end, remote)
    }

    pub fn host(&self, port: usize) -> PortEnd {
        self.hosts[port]
    }

    /// The port that a name, GUID or LID means.
    pub fn find(&self, target: &Target) -> Result<Option<usize>, TargetError> {
        let end = self.topology.find(target)?;
        Ok(self.port_of.get(&(end.node, end.port)).copied())
    }

    /// What each direction's sending port counted between two readings, or the receiving one where that was not read.
    pub fn counted(&self, before: &[PortReading], after: &[PortReading]) -> Vec<Option<f64>> {
        let mut sent = HashMap::new();
        let mut received = HashMap::new();
        for (before, after) in pairs(before, after) {
            let Some(rates) = rates(before, after) else { continue };
            let key = (after.node, after.port);
            sent.insert(key, rates.transmit_bytes_per_second.map(|rate| rate * rates.seconds));
            received.insert(key, rates.receive_bytes_per_second.map(|rate| rate * rates.seconds));
        }
        let of = |map: &HashMap<(usize, u8), Option<f64>>, end: PortEnd| {
            map.get(&(end.node, end.port)).copied().flatten()
        };
        (0..self.ends.len())
            .map(|link| {
                let (end, remote) = self.ends(link);
                of(&sent, end).or_else(|| of(&received, remote?))
            })
            .collect()
    }
}

impl Routes for Fabric<'_> {
    fn ports(&self) -> &[HostPort] {
        &self.ports
    }

    fn path(&self, from: usize, to: usize) -> Option<Path> {
        let route = self.topology.route_between(self.hosts[from], self.hosts[to], None).ok()?;
        let links = route.hops.iter().filter_map(|hop| self.link_of.get(&(hop.node, hop.out_port?)).copied());
        Some(Path::fixed(links))
    }
}
