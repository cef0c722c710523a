//! The fabric as data: nodes, ports, cables, what each agent can do. No time, no MADs.

use crate::counters::Counters;
use std::collections::HashMap;

/// Kinds of nodes (IBTA volume 1, 14.2.5.3: NodeType).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Ca = 1,
    Switch = 2,
    Router = 3,
}

/// One end of a cable: node and port number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct End {
    pub node: usize,
    pub port: u8,
}

/// Width and speed of a link, by name and by the codes of PortInfo (14.2.5.6; LinkSpeedExtActive2 is in newer
/// releases of the specification and in libibmad's fields).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub lanes: u8,
    pub speed: Speed,
}

/// Signalling of a lane, slowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Speed {
    Sdr,
    Ddr,
    Qdr,
    Fdr,
    Edr,
    Hdr,
    Ndr,
    Xdr,
}

/// Names of speeds with bytes per second of a lane, after the line code.
const SPEEDS: [(&str, Speed, f64); 8] = [
    ("SDR", Speed::Sdr, 0.25e9),
    ("DDR", Speed::Ddr, 0.5e9),
    ("QDR", Speed::Qdr, 1e9),
    ("FDR", Speed::Fdr, 14.0625e9 * 64.0 / 66.0 / 8.0),
    ("EDR", Speed::Edr, 25e9 / 8.0),
    ("HDR", Speed::Hdr, 50e9 / 8.0),
    ("NDR", Speed::Ndr, 100e9 / 8.0),
    ("XDR", Speed::Xdr, 200e9 / 8.0),
];

/// Lanes and their code in LinkWidthActive.
const WIDTHS: [(u8, u8); 5] = [(1, 1), (4, 2), (8, 4), (12, 8), (2, 16)];

impl Link {
    pub const DEFAULT: Link = Link { lanes: 4, speed: Speed::Edr };

    /// From `4xEDR`.
    pub fn parse(text: &str) -> Option<Link> {
        let (lanes, speed) = text.split_once('x')?;
        let lanes: u8 = lanes.parse().ok()?;
        let known = WIDTHS.iter().any(|(width, _)| *width == lanes);
        let (_, speed, _) = SPEEDS.iter().find(|(name, ..)| *name == speed)?;
        known.then_some(Link { lanes, speed: *speed })
    }

    pub fn width_code(self) -> u8 {
        WIDTHS.iter().find(|(lanes, _)| *lanes == self.lanes).map_or(2, |(_, code)| *code)
    }

    /// LinkSpeedActive: 1, 2, 4; 4 as well where an extended speed holds.
    pub fn speed_code(self) -> u8 {
        match self.speed {
            Speed::Sdr => 1,
            Speed::Ddr => 2,
            _ => 4,
        }
    }

    /// LinkSpeedExtActive: 1, 2, 4, 8 for FDR to NDR, else 0.
    pub fn extended_code(self) -> u8 {
        match self.speed {
            Speed::Fdr => 1,
            Speed::Edr => 2,
            Speed::Hdr => 4,
            Speed::Ndr => 8,
            _ => 0,
        }
    }

    /// LinkSpeedExtActive2: 1 for XDR.
    pub fn extended_2_code(self) -> u8 {
        u8::from(self.speed == Speed::Xdr)
    }

    /// Bytes per second of one direction.
    pub fn bytes_per_second(self) -> f64 {
        let lane = SPEEDS.iter().find(|(_, speed, _)| *speed == self.speed).map_or(0.0, |(.., rate)| *rate);
        lane * f64::from(self.lanes)
    }
}

/// One port.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    pub guid: u64,
    pub lid: u16,
    pub peer: Option<End>,
    /// Whether the link trains; a cable can be plugged in and the link down.
    pub is_up: bool,
    /// Width and speed that both ends agreed on.
    pub link: Link,
    /// What the port could do.
    pub supported: Link,
    /// Logical state when the link is up (14.2.5.6: 2 Initialize, 3 Armed, 4 Active).
    pub state: u8,
    pub counters: Counters,
}

impl Port {
    pub fn new(guid: u64) -> Port {
        Port {
            guid,
            lid: 0,
            peer: None,
            is_up: true,
            link: Link::DEFAULT,
            supported: Link::DEFAULT,
            state: INITIALIZE,
            counters: Counters::default(),
        }
    }
}

/// PortState (14.2.5.6).
pub(crate) const DOWN: u8 = 1;
pub(crate) const INITIALIZE: u8 = 2;
pub(crate) const ACTIVE: u8 = 4;

/// What a node's agents do besides answering rightly.
#[derive(Clone, Debug, Default)]
pub(crate) struct AgentBehaviour {
    /// Neither agent answers; switches forward nevertheless.
    pub is_dead: bool,
    /// Only the performance agent is silent.
    pub is_pma_dead: bool,
    /// Time per MAD in place of the fabric's, in nanoseconds.
    pub service: Option<u64>,
    /// M_Key and its protect bits (14.2.4).
    pub m_key: u64,
    pub m_key_protect: u8,
    pub m_key_violations: u16,
    /// What NVIDIA's attribute for adaptive routing says; `None` where the node does not have it.
    pub adaptive_routing: Option<bool>,
}

/// What a performance agent can do (16.1.3.1 and, for the numbers, opensm's ib_types.h).
#[derive(Clone, Debug)]
pub(crate) struct Pma {
    pub capabilities: u16,
    pub capabilities_2: u32,
    /// Whether ClassPortInfo is refused, as by very old agents.
    pub is_without_info: bool,
    /// Queried here, another port answers.
    pub redirect: Option<Redirect>,
    /// Attributes besides PortCounters and the extended ones.
    pub has_details: bool,
    pub has_flow: bool,
    pub has_levels: bool,
    pub has_speeds: bool,
}

/// Where a performance agent sends its clients (13.5.2).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Redirect {
    /// The node that answers.
    pub node: usize,
    /// Whether ClassPortInfo says it; else each Get is answered with the status for redirection.
    pub is_announced: bool,
}

/// IB_PM_ALL_PORT_SELECT.
pub(crate) const ALL_PORT_SELECT: u16 = 1 << 8;
/// IB_PM_EXT_WIDTH_SUPPORTED.
pub(crate) const EXTENDED_WIDTH: u16 = 1 << 9;
/// IB_PM_EXT_WIDTH_NOIETF_SUP: without unicast and multicast packets.
pub(crate) const EXTENDED_WITHOUT_CASTS: u16 = 1 << 10;
/// IB_PM_PC_XMIT_WAIT_SUP.
pub(crate) const XMIT_WAIT: u16 = 1 << 12;
/// IS_PM_RSFEC_COUNTERS_SUP.
pub(crate) const RS_FEC: u16 = 1 << 14;
/// IB_PM_IS_QP1_DROP_SUP.
pub(crate) const QP1_DROP: u16 = 1 << 15;
/// IB_PM_IS_ADDL_PORT_CTRS_EXT_SUP, of CapabilityMask2: errors in 64 bits.
pub(crate) const ERRORS_64: u32 = 1 << 1;

impl Default for Pma {
    fn default() -> Pma {
        Pma {
            capabilities: ALL_PORT_SELECT | EXTENDED_WIDTH | XMIT_WAIT,
            capabilities_2: 0,
            is_without_info: false,
            redirect: None,
            has_details: true,
            has_flow: true,
            has_levels: true,
            has_speeds: false,
        }
    }
}

/// One node. Port numbers are positions in `ports`; position 0 of an adapter is not used.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub kind: Kind,
    /// As in net files: `S-…`, `H-…`.
    pub id: String,
    pub guid: u64,
    pub system_guid: u64,
    pub description: String,
    pub vendor: u32,
    pub device: u16,
    pub ports: Vec<Port>,
    pub manners: AgentBehaviour,
    pub pma: Pma,
    /// Linear forwarding table by LID; 255 where there is no entry.
    pub forwarding: Vec<u8>,
    /// Multicast forwarding table by MLID - 0xC000: ports as bits.
    pub multicast: Vec<[u16; 16]>,
    /// SwitchInfo's PortStateChange.
    pub is_changed: bool,
    /// A removed node is one whose cables are all gone.
    pub is_removed: bool,
    /// When the agents have worked off what they hold, in nanoseconds.
    pub busy_until: u64,
}

impl Node {
    pub fn is_switch(&self) -> bool {
        self.kind == Kind::Switch
    }

    /// Physical ports, without port 0.
    pub fn port_count(&self) -> u8 {
        (self.ports.len() - 1) as u8
    }

    pub fn port(&self, number: u8) -> Option<&Port> {
        self.ports.get(usize::from(number))
    }

    /// The LID of the node: of a switch's port 0, else of the first port with one.
    pub fn lid(&self) -> u16 {
        self.ports.iter().map(|port| port.lid).find(|lid| *lid != 0).unwrap_or(0)
    }

    /// Ports that are end ports: have a LID, a GUID and a P_Key table.
    pub fn end_ports(&self) -> std::ops::Range<usize> {
        if self.is_switch() { 0..1 } else { 1..self.ports.len() }
    }
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fabric {
    pub nodes: Vec<Node>,
    /// End port by LID.
    pub lids: Vec<Option<End>>,
    pub prefix: u64,
    pub lmc: u8,
    /// The subnet manager's port; ports stay in Initialize without one.
    pub manager: Option<End>,
    pub manager_priority: u8,
    /// SMInfo's ActivityCount: rises with each configuration.
    pub activity: u32,
    pub by_name: HashMap<String, usize>,
    pub groups: Vec<Group>,
}

impl Fabric {
    /// A node by id, GUID (0x…) or description.
    pub fn find(&self, name: &str) -> Option<usize> {
        if let Some(index) = self.by_name.get(name) {
            return Some(*index);
        }
        let digits = name.strip_prefix("0x")?;
        let guid = u64::from_str_radix(digits, 16).ok()?;
        self.nodes
            .iter()
            .position(|node| node.guid == guid || node.ports.iter().any(|port| port.guid == guid))
    }

    /// Fills `by_name`, once all nodes are there. The first of several with one description has it.
    pub fn name_nodes(&mut self) {
        self.by_name.clear();
        for (index, node) in self.nodes.iter().enumerate() {
            self.by_name.insert(node.id.clone(), index);
            self.by_name.entry(node.description.clone()).or_insert(index);
        }
    }

    pub fn port(&self, end: End) -> Option<&Port> {
        self.nodes.get(end.node)?.port(end.port)
    }

    pub fn port_mut(&mut self, end: End) -> Option<&mut Port> {
        self.nodes.get_mut(end.node)?.ports.get_mut(usize::from(end.port))
    }

    /// The other end of a cable whose link is up.
    pub fn across(&self, end: End) -> Option<End> {
        let port = self.port(end)?;
        let peer = port.peer?;
        (port.is_up && self.port(peer)?.is_up).then_some(peer)
    }

    /// Plugs a cable in; what was plugged into either end is pulled out.
    pub fn connect(&mut self, a: End, b: End) {
        self.disconnect(a);
        self.disconnect(b);
        for (here, there) in [(a, b), (b, a)] {
            if let Some(port) = self.port_mut(here) {
                port.peer = Some(there);
                port.state = INITIALIZE;
            }
        }
    }

    pub fn disconnect(&mut self, end: End) {
        let peer = self.port_mut(end).and_then(|port| port.peer.take());
        if let Some(port) = peer.and_then(|peer| self.port_mut(peer)) {
            port.peer = None;
        }
    }

    /// The end port that a LID leads to.
    pub fn by_lid(&self, lid: u16) -> Option<End> {
        self.lids.get(usize::from(lid)).copied().flatten()
    }
}

/// First multicast LID (IBTA volume 1, 4.1.3).
pub(crate) const FIRST_MLID: u16 = 0xC000;

/// One group.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub mgid: u128,
    pub mlid: u16,
    /// Members; `None` is every active end port, as in the group of IP broadcasts.
    pub members: Option<Vec<End>>,
}

/// The group of IP over InfiniBand's broadcasts (RFC 4391, section 4) with the default partition, which every
/// subnet manager makes.
pub(crate) const BROADCAST: u128 = 0xff12_401b_ffff_0000_0000_0000_ffff_ffff;

impl Group {
    pub fn broadcast() -> Group {
        Group { mgid: BROADCAST, mlid: FIRST_MLID, members: None }
    }

    /// End ports that are in the group now.
    pub fn ends(&self, fabric: &Fabric) -> Vec<End> {
        let active = |end: &End| fabric.port(*end).is_some_and(|port| port.state == ACTIVE);
        match &self.members {
            Some(members) => members.iter().copied().filter(active).collect(),
            None => {
                let nodes = fabric.nodes.iter().enumerate().filter(|(_, node)| !node.is_switch());
                nodes
                    .flat_map(|(node, ports)| {
                        ports.end_ports().map(move |port| End { node, port: port as u8 })
                    })
                    .filter(active)
                    .collect()
            }
        }
    }
}
