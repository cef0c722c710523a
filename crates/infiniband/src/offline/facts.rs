//! What the files say of nodes, ports and cables, gathered from all of them and made into one topology.
//!
//! What no file says stays unknown. The first file that says a thing is believed; where a later one has a cable
//! elsewhere, the two are not of the same time, and that is counted for a warning.

use super::OfflineError;
use super::counters::{MAX_READINGS, Snapshot};
use super::lines::number;
use super::links::{LinkBits, Unknown};
use super::membership::Membership;
use crate::mad::{
    DirectedPath, LFT_NO_PORT, MAX_UNICAST_LID, NodeKind, PhysicalState, PortInfo, PortState, SMP_DATA_BYTES,
    SwitchInfo,
};
use crate::topology::{Node, Port, PortEnd, Topology};
use std::collections::{BTreeMap, HashMap};
use throughline_sample::Guid;
use throughline_sample::admission::{NAME_BYTES_MAX, clean_text};

/// Most nodes: a subnet has 48 K unicast LIDs (IBTA volume 1, 4.1.3), and a node needs one.
pub const MAX_NODES: usize = 48 * 1024;
/// Most ports of all nodes, as of a topology in the state folder: each takes its room, and a line can claim 255.
const MAX_PORTS: usize = 1 << 20;
/// Most bytes of forwarding tables in memory: 5,000 switches with a table of 48 K LIDs each.
const MAX_TABLE_BYTES: usize = 256 << 20;

/// Most ports that are known by GUID only: 5,000 switches of 256 ports.
const MAX_LOOSE_PORTS: usize = 5_000 * 256;

/// Most entries of multicast tables: 5,000 switches of 500 groups.
const MAX_MULTICAST_ENTRIES: usize = 2_500_000;

/// Multicast tables by switch: multicast LIDs with a bit for each output port.
pub type MulticastFacts = BTreeMap<Guid, BTreeMap<u16, [u64; 4]>>;

/// What is known of a port.
#[derive(Clone, Debug, Default)]
pub struct PortFact {
    /// Port GUID.
    pub guid: Option<Guid>,
    /// Base LID.
    pub lid: Option<u16>,
    /// LID mask control.
    pub lmc: Option<u8>,
    /// Whether it has a link.
    pub is_linked: Option<bool>,
    /// Logical state.
    pub state: Option<PortState>,
    /// Physical state.
    pub physical_state: Option<PhysicalState>,
    /// Width and speed.
    pub link: Option<LinkBits>,
    /// The other end of its cable.
    pub remote: Option<(Guid, u8)>,
    /// The whole attribute, where a file holds it.
    pub info: Option<PortInfo>,
}

impl PortFact {
    /// Takes over what is not known yet. `false` when both know the cable and it is another one.
    fn merge(&mut self, other: PortFact) -> bool {
        self.guid = self.guid.or(other.guid);
        self.lid = self.lid.or(other.lid);
        self.lmc = self.lmc.or(other.lmc);
        self.is_linked = self.is_linked.or(other.is_linked);
        self.state = self.state.or(other.state);
        self.physical_state = self.physical_state.or(other.physical_state);
        // A speed that another file knows is believed before one that none does.
        self.link = self.link.filter(|link| link.speed.unknown.is_none()).or(other.link).or(self.link);
        self.info = self.info.or(other.info);
        match (self.remote, other.remote) {
            (Some(mine), Some(theirs)) => mine == theirs,
            (None, Some(theirs)) => {
                self.remote = Some(theirs);
                true
            }
            _ => true,
        }
    }

    fn is_known(&self) -> bool {
        self.lid.is_some()
            || self.is_linked.is_some()
            || self.state.is_some()
            || self.physical_state.is_some()
    }

    /// PortInfo of what is known; the rest is 0, which is "not known" in every field that is used.
    fn info(&self) -> Option<PortInfo> {
        if self.info.is_some() || !self.is_known() {
            return self.info;
        }
        let mut info = PortInfo::decode(&[0; SMP_DATA_BYTES]).ok()?;
        info.lid = self.lid.unwrap_or(0);
        info.lmc = self.lmc.unwrap_or(0);
        info.state = self.state;
        let linked = if self.is_linked == Some(true) { PhysicalState::LINK_UP } else { PhysicalState(0) };
        info.physical_state = self.physical_state.unwrap_or(linked);
        if let Some(link) = self.link {
            info.width_active = link.width;
            info.speed_active = link.speed.speed;
            info.extended_speed_active = link.speed.extended;
            info.extended_speed_2_active = link.speed.extended_2;
            info.is_fdr10 = link.speed.is_fdr10;
        }
        Some(info)
    }
}

/// What is known of a node.
#[derive(Clone, Debug)]
pub struct NodeFact {
    /// Node GUID.
    pub guid: Guid,
    /// Kind.
    pub kind: Option<NodeKind>,
    /// NodeDescription.
    pub description: Option<String>,
    /// System image GUID.
    pub system_guid: Option<Guid>,
    /// Vendor ID.
    pub vendor_id: Option<u32>,
    /// Device ID.
    pub device_id: Option<u16>,
    /// Physical ports.
    pub port_count: Option<u8>,
    /// Whether a switch's port 0 is an enhanced one.
    pub enhanced_port_0: Option<bool>,
    /// SwitchInfo, where a file holds it.
    pub switch: Option<SwitchInfo>,
    /// Linear forwarding table.
    pub forwarding: Option<Vec<u8>>,
    /// Ports by number.
    pub ports: BTreeMap<u8, PortFact>,
}

impl NodeFact {
    /// A node with nothing known but its GUID.
    #[must_use]
    pub fn new(guid: Guid) -> NodeFact {
        NodeFact {
            guid,
            kind: None,
            description: None,
            system_guid: None,
            vendor_id: None,
            device_id: None,
            port_count: None,
            enhanced_port_0: None,
            switch: None,
            forwarding: None,
            ports: BTreeMap::new(),
        }
    }

    fn is_switch(&self) -> bool {
        self.kind == Some(NodeKind::Switch)
    }
}

/// A port that a file names by its port GUID only (all ports of a switch have the GUID of its port 0).
#[derive(Clone, Debug)]
pub struct LoosePort {
    /// Port GUID.
    pub guid: Guid,
    /// Kind of its node, where the file has it.
    pub kind: Option<NodeKind>,
    /// Number.
    pub number: u8,
    /// What is known; the other end is a port GUID here, too.
    pub fact: PortFact,
}

/// All that was gathered.
#[derive(Debug, Default)]
pub struct Facts {
    nodes: HashMap<Guid, NodeFact>,
    /// The port from which the files were made.
    pub local_port_guid: Option<Guid>,
    /// Cables on which two files disagree.
    pub disagreements: usize,
    /// Ports whose node is not known until all files are read, with the node's name.
    loose: Vec<(LoosePort, Option<String>)>,
    /// Nodes that got the GUID of their port.
    pub stand_ins: usize,
    /// When the present file was last changed, UTC nanoseconds.
    pub time: i64,
    /// Counters of each file that has some.
    pub snapshots: Vec<Snapshot>,
    /// Ports in them.
    readings: usize,
    /// Multicast tables by switch.
    pub multicast: MulticastFacts,
    multicast_entries: usize,
    /// Groups and who is in them.
    pub membership: Membership,
    /// Bytes in forwarding tables.
    table_bytes: usize,
}

impl Facts {
    fn entry(&mut self, guid: Guid) -> Result<&mut NodeFact, String> {
        if self.nodes.len() >= MAX_NODES && !self.nodes.contains_key(&guid) {
            return Err(format!("more than {MAX_NODES} nodes, which no subnet can have"));
        }
        Ok(self.nodes.entry(guid).or_insert_with(|| NodeFact::new(guid)))
    }

    /// Adds what a file says of a node.
    ///
    /// # Errors
    /// Too many nodes.
    pub fn node(&mut self, other: NodeFact) -> Result<(), String> {
        let mine = self.entry(other.guid)?;
        mine.kind = mine.kind.or(other.kind);
        mine.system_guid = mine.system_guid.or(other.system_guid);
        mine.vendor_id = mine.vendor_id.or(other.vendor_id);
        mine.device_id = mine.device_id.or(other.device_id);
        mine.port_count = mine.port_count.or(other.port_count);
        mine.enhanced_port_0 = mine.enhanced_port_0.or(other.enhanced_port_0);
        mine.switch = mine.switch.or(other.switch);
        if mine.description.is_none() {
            // A file can be somebody else's: what it names is shown in terminals.
            mine.description = other.description.map(|text| clean_text(&text, NAME_BYTES_MAX).into_owned());
        }
        for (port, fact) in other.ports {
            self.port(other.guid, port, fact)?;
        }
        Ok(())
    }

    /// Adds what a file says of a port.
    ///
    /// # Errors
    /// Too many nodes.
    pub fn port(&mut self, guid: Guid, port: u8, fact: PortFact) -> Result<(), String> {
        let agrees = self.entry(guid)?.ports.entry(port).or_default().merge(fact);
        self.disagreements += usize::from(!agrees);
        Ok(())
    }

    /// Adds the counters that a reader finds in the present file.
    ///
    /// # Errors
    /// The reader's, and too many files.
    pub fn counters(
        &mut self,
        file: &str,
        read: impl FnOnce(&mut Snapshot) -> Result<(), OfflineError>,
    ) -> Result<(), OfflineError> {
        let mut snapshot = Snapshot::at(self.time);
        read(&mut snapshot)?;
        let error = |reason| OfflineError::File { file: file.to_owned(), reason };
        self.add_counters(snapshot).map_err(error)
    }

    /// Adds counters.
    ///
    /// # Errors
    /// Too many.
    pub fn add_counters(&mut self, snapshot: Snapshot) -> Result<(), String> {
        self.readings += snapshot.len();
        if self.readings > MAX_READINGS {
            return Err(format!(
                "with it, counters of more than {MAX_READINGS} ports: read fewer files at once"
            ));
        }
        self.snapshots.push(snapshot);
        Ok(())
    }

    /// Begins a switch's multicast table, which may stay empty.
    ///
    /// # Errors
    /// Too many switches.
    pub fn begin_multicast(&mut self, guid: Guid) -> Result<(), String> {
        if self.multicast.len() >= MAX_NODES && !self.multicast.contains_key(&guid) {
            return Err(format!("multicast tables of more than {MAX_NODES} switches"));
        }
        self.multicast.insert(guid, BTreeMap::new());
        Ok(())
    }

    /// Adds an output port to a multicast table that was begun.
    ///
    /// # Errors
    /// A LID that is none, too many entries.
    pub fn multicast_entry(&mut self, guid: Guid, mlid: u16, port: u8) -> Result<(), String> {
        if mlid <= MAX_UNICAST_LID || mlid == u16::MAX {
            return Err(format!("{mlid:#06x} is not a multicast LID"));
        }
        let Some(table) = self.multicast.get_mut(&guid) else { return Ok(()) };
        if !table.contains_key(&mlid) {
            self.multicast_entries += 1;
            if self.multicast_entries > MAX_MULTICAST_ENTRIES {
                return Err(format!("more than {MAX_MULTICAST_ENTRIES} entries of multicast tables"));
            }
        }
        let ports = table.entry(mlid).or_default();
        ports[usize::from(port / 64)] |= 1 << (port % 64);
        Ok(())
    }

    /// Adds a port with only its port GUID known.
    ///
    /// # Errors
    /// Too many ports.
    pub fn loose(&mut self, port: LoosePort) -> Result<(), String> {
        if self.loose.len() >= MAX_LOOSE_PORTS {
            return Err(format!("more than {MAX_LOOSE_PORTS} ports"));
        }
        self.loose.push((port, None));
        Ok(())
    }

    /// The same with the name of its node.
    ///
    /// # Errors
    /// Too many ports.
    pub fn loose_named(&mut self, port: LoosePort, name: String) -> Result<(), String> {
        self.loose(port)?;
        if let Some(last) = self.loose.last_mut() {
            last.1 = Some(name);
        }
        Ok(())
    }

    /// Finds the nodes of ports that are known by port GUID. Where no file has the node, one is made with the
    /// port's GUID if its kind is known.
    ///
    /// # Errors
    /// Too many nodes.
    pub fn settle(&mut self) -> Result<(), String> {
        let mut owners: HashMap<Guid, Guid> = HashMap::new();
        for node in self.nodes.values().filter(|node| node.kind.is_some()) {
            owners.insert(node.guid, node.guid);
            owners.extend(node.ports.values().filter_map(|port| Some((port.guid?, node.guid))));
        }
        let loose = std::mem::take(&mut self.loose);
        for (port, name) in &loose {
            let (Some(kind), false) = (port.kind, owners.contains_key(&port.guid)) else { continue };
            owners.insert(port.guid, port.guid);
            self.stand_ins += usize::from(kind != NodeKind::Switch);
            let node = NodeFact { kind: Some(kind), description: name.clone(), ..NodeFact::new(port.guid) };
            self.node(node)?;
        }
        for (mut port, _) in loose {
            let Some(owner) = owners.get(&port.guid).copied() else { continue };
            port.fact.remote = port.fact.remote.and_then(|(guid, far)| Some((*owners.get(&guid)?, far)));
            let lid = port.fact.lid;
            if self.nodes.get(&owner).is_some_and(NodeFact::is_switch) {
                // A switch's LID is that of its port 0.
                port.fact.lid = None;
                let guid = Some(port.guid);
                self.port(owner, 0, PortFact { guid, lid, ..PortFact::default() })?;
            } else {
                port.fact.guid = Some(port.guid);
            }
            self.port(owner, port.number, port.fact)?;
        }
        let ports = |node: &NodeFact| {
            if node.is_switch() { usize::from(node.port_count.unwrap_or(0)) + 1 } else { 1 }
        };
        match self.nodes.values().map(ports).sum::<usize>() {
            ports if ports > MAX_PORTS => Err(format!("{ports} ports are more than {MAX_PORTS}")),
            _ => Ok(()),
        }
    }

    /// Begins a switch's forwarding table; a second one of the same switch replaces the first.
    ///
    /// # Errors
    /// Too many nodes.
    pub fn begin_table(&mut self, guid: Guid) -> Result<(), String> {
        let node = self.entry(guid)?;
        let former = node.forwarding.replace(Vec::new());
        self.table_bytes -= former.map_or(0, |table| table.len());
        Ok(())
    }

    /// Sets an entry of a table that was begun.
    ///
    /// # Errors
    /// A LID that is none, too much in tables.
    pub fn table_entry(&mut self, guid: Guid, lid: u16, port: u8) -> Result<(), String> {
        if lid > MAX_UNICAST_LID {
            return Err(format!("{lid:#06x} is not a unicast LID"));
        }
        let Some(table) = self.nodes.get_mut(&guid).and_then(|node| node.forwarding.as_mut()) else {
            return Ok(());
        };
        let at = usize::from(lid);
        if at >= table.len() {
            self.table_bytes += at + 1 - table.len();
            if self.table_bytes > MAX_TABLE_BYTES {
                return Err(format!("forwarding tables of more than {MAX_TABLE_BYTES} bytes"));
            }
            table.resize(at + 1, LFT_NO_PORT);
        }
        table[at] = port;
        Ok(())
    }

    /// Speeds that are not known, with the ends of cables that run at them.
    #[must_use]
    pub fn unknown_speeds(&self) -> BTreeMap<Unknown, usize> {
        let mut speeds = BTreeMap::new();
        for port in self.nodes.values().flat_map(|node| node.ports.values()) {
            if let Some(name) = port.link.and_then(|link| link.speed.unknown) {
                *speeds.entry(name).or_default() += 1;
            }
        }
        speeds
    }

    /// Switches, and those of them with a forwarding table.
    #[must_use]
    pub fn tables(&self) -> (usize, usize) {
        let switches = self.nodes.values().filter(|node| node.is_switch());
        switches.fold((0, 0), |(all, with), node| (all + 1, with + usize::from(node.forwarding.is_some())))
    }

    /// The topology. Nodes whose kind no file reports (a table of a switch that the topology does not have) are left
    /// out and counted.
    #[must_use]
    pub fn assemble(self) -> (Topology, usize) {
        let mut guids: Vec<Guid> = self.nodes.values().filter(|n| n.kind.is_some()).map(|n| n.guid).collect();
        guids.sort_unstable();
        let left_out = self.nodes.len() - guids.len();
        let place: HashMap<Guid, usize> = guids.iter().enumerate().map(|(at, guid)| (*guid, at)).collect();
        let nodes = guids.iter().filter_map(|guid| self.nodes.get(guid)).map(|fact| node(fact, &place));
        let nodes: Vec<Node> = nodes.collect();
        let local = self.local_port_guid.and_then(|guid| {
            nodes.iter().enumerate().find_map(|(index, node)| {
                let port = node.ports.iter().find(|port| port.guid == Some(guid))?;
                Some(PortEnd { node: index, port: port.number })
            })
        });
        let prefix = nodes
            .iter()
            .flat_map(|node| &node.ports)
            .find_map(|port| port.info.map(|info| info.gid_prefix).filter(|prefix| *prefix != 0));
        (Topology::new(nodes, local, prefix.unwrap_or(0)), left_out)
    }
}

fn node(fact: &NodeFact, place: &HashMap<Guid, usize>) -> Node {
    let is_switch = fact.is_switch();
    let highest = fact.ports.keys().next_back().copied().unwrap_or(0);
    let port_count = fact.port_count.unwrap_or(highest).max(highest);
    let unknown = PortFact::default();
    let numbers: Vec<u8> =
        if is_switch { (0..=port_count).collect() } else { fact.ports.keys().copied().collect() };
    let mut ports: Vec<Port> = numbers
        .into_iter()
        .map(|number| {
            let port = fact.ports.get(&number).unwrap_or(&unknown);
            let remote =
                port.remote.and_then(|(guid, port)| Some(PortEnd { node: *place.get(&guid)?, port }));
            Port { number, guid: port.guid, info: port.info(), remote }
        })
        .collect();
    mark_extended_speeds(&mut ports, is_switch);
    Node {
        guid: fact.guid,
        kind: fact.kind.unwrap_or(NodeKind::Ca),
        description: fact.description.clone().unwrap_or_default(),
        system_guid: fact.system_guid.unwrap_or(fact.guid),
        vendor_id: fact.vendor_id.unwrap_or(0),
        device_id: fact.device_id.unwrap_or(0),
        port_count,
        ports,
        switch: fact.switch,
        forwarding: fact.forwarding.clone().unwrap_or_default(),
        path: DirectedPath::local(),
    }
}

/// A link that runs at an extended speed shows that its node has them, where no file says so itself.
fn mark_extended_speeds(ports: &mut [Port], is_switch: bool) {
    let runs = |port: &Port| {
        port.info.is_some_and(|info| info.extended_speed_active != 0 || info.extended_speed_2_active != 0)
    };
    let any = ports.iter().any(runs);
    for port in ports {
        let owns = if is_switch { port.number == 0 && any } else { runs(port) };
        if let Some(info) = port.info.as_mut().filter(|_| owns) {
            info.capabilities |= PortInfo::CAPABILITY_EXTENDED_SPEEDS;
        }
    }
}

/// A GUID as the tools write it: with or without 0x, any number of digits.
pub fn guid(text: &str) -> Option<Guid> {
    if text.starts_with("0x") { number(text).map(Guid) } else { super::lines::hexadecimal(text).map(Guid) }
}
