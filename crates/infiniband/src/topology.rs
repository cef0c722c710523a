//! A subnet as discovered: nodes, ports, cables and forwarding tables; and generated ones for simulators.
//!
//! Plain data. The crawler fills it, `offline` reads it from files, `route` follows its forwarding tables.

mod document;
mod fat_tree;
mod gaps;
mod routing;
mod text;

pub use fat_tree::{FatTree, FatTreeError};
pub use gaps::{Failure, Limit, NEIGHBOUR, OTHER_FACTS, OTHER_PLACE};
pub use routing::SwitchRouting;
pub use text::{aligned, label};

use crate::link::{self, Speed, Width};
use crate::mad::{DirectedPath, LFT_NO_PORT, NodeKind, PortInfo, SwitchInfo};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use throughline_sample::Guid;

/// Position of a node in [`Topology::nodes`].
pub type NodeIndex = usize;

/// One end of a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortEnd {
    /// The node.
    pub node: NodeIndex,
    /// The port's number.
    pub port: u8,
}

/// One port of a node.
#[derive(Clone, Debug)]
pub struct Port {
    /// Number; 0 is a switch's management port.
    pub number: u8,
    /// Port GUID, known for end ports and switches' port 0.
    pub guid: Option<Guid>,
    /// PortInfo; `None` when it could not be read.
    pub info: Option<PortInfo>,
    /// The other end of its cable.
    pub remote: Option<PortEnd>,
}

/// One node.
#[derive(Clone, Debug)]
pub struct Node {
    /// Node GUID.
    pub guid: Guid,
    /// Kind.
    pub kind: NodeKind,
    /// NodeDescription; empty when it could not be read.
    pub description: String,
    /// System image GUID.
    pub system_guid: Guid,
    /// Vendor ID.
    pub vendor_id: u32,
    /// Device ID.
    pub device_id: u16,
    /// Physical ports that it says to have.
    pub port_count: u8,
    /// Of a switch: all ports, port 0 first. Of other nodes: those through which they were reached, by number.
    pub ports: Vec<Port>,
    /// SwitchInfo of a switch; `None` when it could not be read.
    pub switch: Option<SwitchInfo>,
    /// Linear forwarding table: entry i is the output port for LID i, [`LFT_NO_PORT`] where there is none.
    /// Empty on other nodes and where tables were not requested.
    pub forwarding: Vec<u8>,
    /// How it was reached from the local port.
    pub path: DirectedPath,
}

impl Node {
    /// A port by number.
    #[must_use]
    pub fn port(&self, number: u8) -> Option<&Port> {
        match self.kind {
            NodeKind::Switch => self.ports.get(usize::from(number)),
            _ => self.ports.iter().find(|port| port.number == number),
        }
    }

    /// A port by number, to be changed.
    pub fn port_mut(&mut self, number: u8) -> Option<&mut Port> {
        match self.kind {
            NodeKind::Switch => self.ports.get_mut(usize::from(number)),
            _ => self.ports.iter_mut().find(|port| port.number == number),
        }
    }

    /// Ports with a cable socket: without a switch's port 0.
    pub fn physical_ports(&self) -> impl Iterator<Item = &Port> {
        self.ports.iter().filter(|port| port.number != 0)
    }

    /// The LID of the node: of a switch's port 0, else of its first port that has one; 0 when it has none.
    #[must_use]
    pub fn lid(&self) -> u16 {
        self.ports.iter().filter_map(|port| port.info.map(|info| info.lid)).find(|lid| *lid != 0).unwrap_or(0)
    }

    /// The LID by which this port's counters are requested; 0 when there is none.
    #[must_use]
    pub fn lid_of(&self, port: &Port) -> u16 {
        match self.kind {
            NodeKind::Switch => self.lid(),
            _ => port.info.map_or(0, |info| info.lid),
        }
    }

    /// Width and speed of a linked port.
    #[must_use]
    pub fn link_of(&self, port: &Port) -> Option<(Width, Speed)> {
        link::of_port(port.info.as_ref()?, self.has_extended_speeds(port))
    }

    /// Whether the extended speed fields of a port mean something.
    #[must_use]
    pub fn has_extended_speeds(&self, port: &Port) -> bool {
        // A switch has its capabilities in port 0.
        let own = match self.kind {
            NodeKind::Switch => self.ports.first(),
            _ => Some(port),
        };
        let capabilities = own.and_then(|port| port.info).map_or(0, |info| info.capabilities);
        capabilities & PortInfo::CAPABILITY_EXTENDED_SPEEDS != 0
    }

    /// Output port for a LID by the forwarding table; `None` where there is no entry.
    #[must_use]
    pub fn output_port(&self, lid: u16) -> Option<u8> {
        self.forwarding.get(usize::from(lid)).copied().filter(|port| *port != LFT_NO_PORT)
    }
}

/// Where a topology is from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// Queried from the nodes themselves, by subnet management requests.
    #[default]
    Nodes,
    /// Reported by the subnet administrator, where the nodes do not answer (M_Key).
    Administrator,
}

impl Source {
    /// The name in JSON, in the configuration and in log lines.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Source::Nodes => "smp",
            Source::Administrator => "sa",
        }
    }
}

/// Why a node is known and was not heard of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeStanding {
    /// Its link is up and it does not answer.
    Silent,
    /// It can be reached only through nodes that do not answer.
    Hidden,
}

/// A node that is kept though it was not heard of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnansweredNode {
    /// Why.
    pub standing: NodeStanding,
    /// How often it was queried in vain, one after the other.
    pub looks: u32,
}

/// A discovered subnet.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    /// Where it is from.
    pub source: Source,
    /// Nodes, ordered by GUID.
    pub nodes: Vec<Node>,
    /// The port through which the subnet was discovered.
    pub local: Option<PortEnd>,
    /// Subnet prefix, from the local port.
    pub subnet_prefix: u64,
    /// Nodes that are known from before and did not answer. What is said of them is old.
    pub unanswered: BTreeMap<Guid, UnansweredNode>,
    /// End ports (port 0 of switches) whose LID is another one's: they are not read by it.
    pub disputed: BTreeSet<(Guid, u8)>,
    /// How switches choose output ports, by node GUID, as they reported last. Those that never did are not in it.
    pub routing: BTreeMap<Guid, SwitchRouting>,
    /// The bound at which its discovery ended: there is more than this.
    pub truncated: Option<Limit>,
    /// Speed of every link, where something limits all of them below their width and speed.
    pub assumed_bytes_per_second: Option<u64>,
    by_guid: HashMap<Guid, NodeIndex>,
    by_port_guid: HashMap<Guid, PortEnd>,
}

impl Topology {
    /// Takes nodes in any order, with `remote` and `local` as positions in them, and orders them by GUID.
    #[must_use]
    pub fn new(mut nodes: Vec<Node>, local: Option<PortEnd>, subnet_prefix: u64) -> Topology {
        let mut order: Vec<NodeIndex> = (0..nodes.len()).collect();
        order.sort_by_key(|index| nodes[*index].guid);
        let mut place = vec![0; nodes.len()];
        for (new, old) in order.iter().enumerate() {
            place[*old] = new;
        }
        let moved = |end: PortEnd| PortEnd { node: place[end.node], port: end.port };
        for node in &mut nodes {
            for port in &mut node.ports {
                port.remote = port.remote.map(moved);
            }
        }
        nodes.sort_by_key(|node| node.guid);
        let mut topology = Topology {
            source: Source::default(),
            local: local.map(moved),
            subnet_prefix,
            unanswered: BTreeMap::new(),
            disputed: BTreeSet::new(),
            routing: BTreeMap::new(),
            truncated: None,
            assumed_bytes_per_second: None,
            by_guid: nodes.iter().enumerate().map(|(index, node)| (node.guid, index)).collect(),
            by_port_guid: HashMap::new(),
            nodes,
        };
        for (index, node) in topology.nodes.iter().enumerate() {
            for port in &node.ports {
                if let Some(guid) = port.guid {
                    topology.by_port_guid.entry(guid).or_insert(PortEnd { node: index, port: port.number });
                }
            }
        }
        topology
    }

    /// The same without the nodes that are not to stay: cables to them are open ends.
    #[must_use]
    pub fn retaining(mut self, stays: impl Fn(Guid) -> bool) -> Topology {
        let mut place = Vec::with_capacity(self.nodes.len());
        let mut next = 0;
        for node in &self.nodes {
            place.push(stays(node.guid).then_some(next));
            next += usize::from(stays(node.guid));
        }
        let moved = |end: PortEnd| Some(PortEnd { node: place[end.node]?, port: end.port });
        self.nodes.retain(|node| stays(node.guid));
        for port in self.nodes.iter_mut().flat_map(|node| &mut node.ports) {
            port.remote = port.remote.and_then(moved);
        }
        let mut topology = Topology::new(self.nodes, self.local.and_then(moved), self.subnet_prefix);
        topology.source = self.source;
        topology.truncated = self.truncated;
        topology.assumed_bytes_per_second = self.assumed_bytes_per_second;
        topology.unanswered = self.unanswered;
        topology.unanswered.retain(|guid, _| stays(*guid));
        topology.routing = self.routing;
        topology.routing.retain(|guid, _| stays(*guid));
        topology.disputed = self.disputed;
        topology.disputed.retain(|(guid, _)| stays(*guid));
        topology
    }

    /// Data rate of a linked port in one direction, bytes per second.
    #[must_use]
    pub fn rate_of(&self, node: &Node, port: &Port) -> Option<u64> {
        let (width, speed) = node.link_of(port)?;
        Some(self.assumed_bytes_per_second.unwrap_or_else(|| link::rate_bytes_per_second(width, speed)))
    }

    /// The node with this node GUID.
    #[must_use]
    pub fn node_by_guid(&self, guid: Guid) -> Option<NodeIndex> {
        self.by_guid.get(&guid).copied()
    }

    /// The end port with this port GUID.
    #[must_use]
    pub fn port_by_guid(&self, guid: Guid) -> Option<PortEnd> {
        self.by_port_guid.get(&guid).copied()
    }

    /// The GUID that metrics have for a port, as infiniband_exporter names it: of a switch the node's, of an adapter
    /// the port's own. The node's too where the port's was not read, or where another port reported the same before: no
    /// two ports of metrics have the same name.
    #[must_use]
    pub fn exported_guid(&self, end: PortEnd) -> Guid {
        let node = &self.nodes[end.node];
        let own =
            || node.port(end.port)?.guid.filter(|guid| guid.0 != 0 && self.port_by_guid(*guid) == Some(end));
        let of_adapter = (node.kind != NodeKind::Switch).then(own).flatten();
        of_adapter.unwrap_or(node.guid)
    }

    /// The port with this base LID; of a switch, its port 0.
    #[must_use]
    pub fn port_by_lid(&self, lid: u16) -> Option<PortEnd> {
        let of_node = |(index, node): (usize, &Node)| {
            let is_switch = node.kind == NodeKind::Switch;
            let mut ports = node.ports.iter().filter(|port| !is_switch || port.number == 0);
            ports.find(|port| node.lid_of(port) == lid).map(|port| PortEnd { node: index, port: port.number })
        };
        self.nodes.iter().enumerate().filter(|_| lid != 0).find_map(of_node)
    }

    /// The port to which this LID leads, other than base LIDs included (LMC); of a switch, its port 0.
    #[must_use]
    pub fn port_with_lid(&self, lid: u16) -> Option<PortEnd> {
        let has_lid = |info: &PortInfo| {
            info.lid != 0
                && (u32::from(info.lid)..u32::from(info.lid) + (1 << info.lmc)).contains(&u32::from(lid))
        };
        self.nodes.iter().enumerate().find_map(|(node, of_node)| {
            let mut ports =
                of_node.ports.iter().filter(|port| of_node.kind != NodeKind::Switch || port.number == 0);
            let found = ports.find(|port| port.info.as_ref().is_some_and(has_lid))?;
            Some(PortEnd { node, port: found.number })
        })
    }

    /// The end port through which the subnet was discovered: of a switch, its port 0.
    #[must_use]
    pub fn local_end_port(&self) -> Option<PortEnd> {
        let end = self.local?;
        let is_switch = self.nodes.get(end.node)?.kind == NodeKind::Switch;
        Some(if is_switch { PortEnd { port: 0, ..end } } else { end })
    }

    /// LID of the master subnet manager in the local port's PortInfo; 0 where no manager has configured it. It says
    /// who the manager was last, not that it is alive.
    #[must_use]
    pub fn manager_lid(&self) -> Option<u16> {
        let end = self.local_end_port()?;
        Some(self.nodes[end.node].port(end.port)?.info?.sm_lid)
    }

    /// Subnet prefix and GUID of each port that can be a member of a multicast group.
    #[must_use]
    pub fn end_guids(&self) -> Vec<(u64, Guid)> {
        let ports = self.nodes.iter().flat_map(|node| &node.ports);
        ports.filter_map(|port| Some((self.subnet_prefix, port.guid?))).collect()
    }

    /// A number that changes with anything that matters for sweeps: nodes, LIDs, links and their speeds.
    #[must_use]
    pub fn signature(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for node in &self.nodes {
            (node.guid, node.lid(), node.description.as_str(), node.ports.len()).hash(&mut hasher);
            for port in node.physical_ports() {
                let info = port.info.map(|info| (info.lid, info.is_linked(), info.width_active));
                let speed = port.info.map(|info| (info.speed_active, info.extended_speed_active));
                let remote = port.remote.map(|end| (self.nodes[end.node].guid, end.port));
                (port.number, info, speed, remote).hash(&mut hasher);
            }
        }
        hasher.finish()
    }

    /// Whether a cable is reported from this end, so that it is reported once: from a switch where there is one.
    #[must_use]
    pub fn begins_at(&self, here: PortEnd, there: PortEnd) -> bool {
        let key = |end: PortEnd| (self.nodes[end.node].kind != NodeKind::Switch, end.node, end.port);
        key(here) <= key(there)
    }

    /// Cables: pairs of ends, each once.
    pub fn cables(&self) -> impl Iterator<Item = (PortEnd, PortEnd)> + '_ {
        self.nodes.iter().enumerate().flat_map(|(index, node)| {
            node.ports.iter().filter_map(move |port| {
                let here = PortEnd { node: index, port: port.number };
                let there = port.remote?;
                ((here.node, here.port) <= (there.node, there.port)).then_some((here, there))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::offline::{Kind, read_bytes};

    /// Two hosts and a cable of 4xEDR.
    const NET: &str = "\
vendid=0x2c9\ndevid=0x1017\nsysimgguid=0x10\ncaguid=0x10\nCa\t1 \"H-0000000000000010\"\t\t# \"a mlx5_0\"\n\
[1](11) \t\"H-0000000000000020\"[1] (21) \t\t# lid 1 lmc 0 \"b mlx5_0\" lid 2 4xEDR\n\n\
vendid=0x2c9\ndevid=0x1017\nsysimgguid=0x20\ncaguid=0x20\nCa\t1 \"H-0000000000000020\"\t\t# \"b mlx5_0\"\n\
[1](21) \t\"H-0000000000000010\"[1] (11) \t\t# lid 2 lmc 0 \"a mlx5_0\" lid 1 4xEDR\n\n";

    #[test]
    fn an_assumed_speed_holds_for_linked_ports_and_stays() {
        let mut topology = read_bytes(Kind::Ibnetdiscover, NET.as_bytes()).unwrap().topology;
        let rate = |topology: &super::Topology| {
            let node = &topology.nodes[0];
            topology.rate_of(node, node.port(1).unwrap())
        };
        assert_eq!(rate(&topology), Some(12_500_000_000));
        topology.assumed_bytes_per_second = Some(2_500_000);
        assert_eq!(rate(&topology), Some(2_500_000));
        let mut rest = topology.retaining(|guid| guid.0 == 0x10);
        assert_eq!(rest.assumed_bytes_per_second, Some(2_500_000));
        rest.nodes[0].ports[0].info = None;
        assert_eq!(rate(&rest), None, "no link, no speed");
    }
}
