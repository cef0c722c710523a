//! Multicast: the forwarding tables of switches, the tree that each multicast LID has, and the groups that use it.
//!
//! Pure. It shows a broadcast by hardware multicast: which links carry it, which ports it reaches, and which not.

mod groups;
mod purpose;
mod text;
mod tree;

#[cfg(test)]
mod tests;

pub use groups::{Group, Groups, Member, mtu_bytes, rate_bytes_per_second, rate_name};
pub use purpose::purpose;
pub use text::{group_document, group_text, groups_table};
pub use tree::{Tree, TreeLink};

use crate::mad::{MAX_MULTICAST_LID, MFT_BLOCK_LIDS, MFT_POSITION_PORTS, MIN_MULTICAST_LID};
use crate::topology::{NodeIndex, Topology};
use std::collections::{BTreeMap, BTreeSet};

/// Bits of the attribute modifier of a multicast forwarding table below the position (14.2.5.12).
pub const POSITION_SHIFT: u32 = 28;

/// A set of ports of one switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PortSet([u64; 4]);

impl PortSet {
    /// Adds a port.
    pub fn insert(&mut self, port: u8) {
        self.0[usize::from(port / 64)] |= 1 << (port % 64);
    }

    /// Whether a port is in it.
    #[must_use]
    pub const fn contains(&self, port: u8) -> bool {
        self.0[(port / 64) as usize] >> (port % 64) & 1 == 1
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0 == [0; 4]
    }

    /// Number of ports.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The ports, in order.
    pub fn iter(&self) -> impl Iterator<Item = u8> + '_ {
        (0..=u8::MAX).filter(|port| self.contains(*port))
    }
}

impl FromIterator<u8> for PortSet {
    fn from_iter<I: IntoIterator<Item = u8>>(ports: I) -> PortSet {
        let mut set = PortSet::default();
        ports.into_iter().for_each(|port| set.insert(port));
        set
    }
}

/// The multicast forwarding tables of a subnet: per switch, the output ports of each multicast LID that has any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MulticastTables {
    by_switch: Vec<BTreeMap<u16, PortSet>>,
}

impl MulticastTables {
    /// Empty tables of a topology.
    #[must_use]
    pub fn new(topology: &Topology) -> MulticastTables {
        MulticastTables { by_switch: vec![BTreeMap::new(); topology.nodes.len()] }
    }

    /// Adds an output port. Nodes that the topology does not have are left out.
    pub fn insert(&mut self, switch: NodeIndex, mlid: u16, port: u8) {
        if let Some(table) = self.by_switch.get_mut(switch) {
            table.entry(mlid).or_default().insert(port);
        }
    }

    /// Adds the port masks of one block and position (14.2.5.12): bit i of an entry is port 16 x position + i.
    /// `modifier` is the attribute modifier with which they were requested.
    pub fn add_block(&mut self, switch: NodeIndex, modifier: u32, data: &[u8]) {
        let first_port = (modifier >> POSITION_SHIFT) as usize * MFT_POSITION_PORTS;
        // Nine bits are the block.
        let first_lid = usize::from(MIN_MULTICAST_LID) + (modifier & 0x1FF) as usize * MFT_BLOCK_LIDS;
        for (offset, mask) in data.chunks_exact(2).take(MFT_BLOCK_LIDS).enumerate() {
            let mask = u16::from_be_bytes([mask[0], mask[1]]);
            let mlid = first_lid + offset;
            if mlid > usize::from(MAX_MULTICAST_LID) {
                return;
            }
            let mlid = mlid as u16;
            for bit in (0..MFT_POSITION_PORTS).filter(|bit| mask >> bit & 1 == 1) {
                self.insert(switch, mlid, (first_port + bit) as u8);
            }
        }
    }

    /// The table of a switch: multicast LIDs with their output ports.
    #[must_use]
    pub fn of(&self, switch: NodeIndex) -> Option<&BTreeMap<u16, PortSet>> {
        self.by_switch.get(switch)
    }

    /// The output ports of a switch for a multicast LID.
    #[must_use]
    pub fn ports(&self, switch: NodeIndex, mlid: u16) -> PortSet {
        self.of(switch).and_then(|table| table.get(&mlid)).copied().unwrap_or_default()
    }

    /// The multicast LIDs with an entry anywhere.
    #[must_use]
    pub fn mlids(&self) -> BTreeSet<u16> {
        self.by_switch.iter().flat_map(BTreeMap::keys).copied().collect()
    }
}
