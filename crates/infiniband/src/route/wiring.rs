//! A topology as flat arrays, for walks over all tables: switches and end ports by number, and what is behind each
//! port. Pure; made once for a pass over all pairs.

use crate::mad::NodeKind;
use crate::topology::{NodeIndex, PortEnd, Topology};

/// What is behind a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PortNeighbour {
    /// Nothing that is known.
    Nothing,
    /// A switch, by number.
    Switch(u32),
    /// An end port, by number.
    End(u32),
}

/// A port of a node that is no switch.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    /// The port.
    pub at: PortEnd,
    /// Its first LID; 0 without one.
    pub lid: u16,
    /// Its last LID.
    pub last_lid: u16,
    /// What its cable leads to.
    pub behind: PortNeighbour,
    /// The number of its channel.
    pub channel: u32,
}

/// The flat arrays.
pub(super) struct Wiring<'a> {
    pub topology: &'a Topology,
    /// Switches: positions in the topology.
    pub switches: Vec<NodeIndex>,
    /// Number of each node among the switches; `u32::MAX` for others.
    pub switch_of: Vec<u32>,
    /// Per switch, its LIDs: of port 0.
    pub switch_lids: Vec<(u16, u16)>,
    pub ends: Vec<End>,
    /// First channel of each node: a channel is the direction of a link out of one port. Its number is that of
    /// the node's first plus the port's number.
    first_channel: Vec<u32>,
    /// Behind each channel.
    behind: Vec<PortNeighbour>,
}

impl<'a> Wiring<'a> {
    pub fn new(topology: &'a Topology) -> Wiring<'a> {
        let mut wiring = Wiring {
            topology,
            switches: Vec::new(),
            switch_of: vec![u32::MAX; topology.nodes.len()],
            switch_lids: Vec::new(),
            ends: Vec::new(),
            first_channel: Vec::with_capacity(topology.nodes.len() + 1),
            behind: Vec::new(),
        };
        let lids = |end: PortEnd| topology.lids_of(end).map_or((0, 0), |lids| (*lids.start(), *lids.end()));
        let mut channels = 0;
        let mut end_numbers = vec![Vec::new(); topology.nodes.len()];
        for (index, node) in topology.nodes.iter().enumerate() {
            wiring.first_channel.push(channels);
            if node.kind == NodeKind::Switch {
                wiring.switch_of[index] = wiring.switches.len() as u32;
                wiring.switches.push(index);
                wiring.switch_lids.push(lids(PortEnd { node: index, port: 0 }));
            } else {
                for port in &node.ports {
                    let at = PortEnd { node: index, port: port.number };
                    let (lid, last_lid) = lids(at);
                    end_numbers[index].push((port.number, wiring.ends.len() as u32));
                    let channel = channels + u32::from(port.number);
                    wiring.ends.push(End { at, lid, last_lid, behind: PortNeighbour::Nothing, channel });
                }
            }
            let highest = node.ports.iter().map(|port| port.number).max().unwrap_or(0);
            channels += u32::from(highest) + 1;
        }
        wiring.first_channel.push(channels);
        wiring.behind = vec![PortNeighbour::Nothing; channels as usize];
        for (index, node) in topology.nodes.iter().enumerate() {
            for port in &node.ports {
                let Some(remote) = port.remote else { continue };
                let behind = match wiring.switch_of[remote.node] {
                    u32::MAX => end_numbers[remote.node]
                        .iter()
                        .find(|(number, _)| *number == remote.port)
                        .map_or(PortNeighbour::Nothing, |(_, end)| PortNeighbour::End(*end)),
                    switch => PortNeighbour::Switch(switch),
                };
                let channel = wiring.first_channel[index] + u32::from(port.number);
                wiring.behind[channel as usize] = behind;
            }
        }
        for end in &mut wiring.ends {
            end.behind = wiring.behind[end.channel as usize];
        }
        wiring
    }

    /// Number of channels.
    pub fn channels(&self) -> usize {
        self.behind.len()
    }

    /// The channel out of a node's port; `None` for a port that the node does not have.
    pub fn channel(&self, node: NodeIndex, port: u8) -> Option<usize> {
        let channel = self.first_channel[node] + u32::from(port);
        (channel < self.first_channel[node + 1]).then_some(channel as usize)
    }

    /// What is behind a channel.
    pub fn behind(&self, channel: usize) -> PortNeighbour {
        self.behind[channel]
    }

    /// The port that a channel leaves by.
    pub fn port_of(&self, channel: usize) -> PortEnd {
        let node = self.first_channel.partition_point(|first| *first as usize <= channel) - 1;
        PortEnd { node, port: (channel - self.first_channel[node] as usize) as u8 }
    }
}
