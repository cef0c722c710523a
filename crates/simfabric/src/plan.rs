//! The switches of a fabric as a graph: hops between them, and the linear forwarding tables of shortest paths.

use crate::model::{End, Fabric};
use std::collections::VecDeque;

/// Entry of a linear forwarding table that drops packets (14.2.5.10).
pub(crate) const NO_PORT: u8 = 255;
/// Not reached by a walk.
const FAR: u16 = u16::MAX;

/// The switches and how they hang together.
pub(crate) struct Plan {
    /// Positions of switches in the fabric.
    pub switches: Vec<usize>,
    /// Of each switch: its ports to other switches, with the position of the switch there in `switches`.
    pub cables: Vec<Vec<(u8, usize)>>,
    /// Position in `switches` by node.
    pub place: Vec<Option<usize>>,
}

impl Plan {
    pub fn new(fabric: &Fabric, switches: &[usize]) -> Plan {
        let mut place = vec![None; fabric.nodes.len()];
        for (position, switch) in switches.iter().enumerate() {
            place[*switch] = Some(position);
        }
        let cables = switches
            .iter()
            .map(|node| {
                let ports = 1..=fabric.nodes[*node].port_count();
                let across = |port| {
                    let there = fabric.across(End { node: *node, port })?;
                    Some((port, place[there.node].filter(|_| there.node != *node)?))
                };
                ports.filter_map(across).collect()
            })
            .collect();
        Plan { switches: switches.to_vec(), cables, place }
    }

    /// Hops of each switch to one.
    pub fn hops_to(&self, target: usize) -> Vec<u16> {
        let mut hops = vec![FAR; self.switches.len()];
        hops[target] = 0;
        let mut queue = VecDeque::from([target]);
        while let Some(at) = queue.pop_front() {
            for (_, next) in &self.cables[at] {
                if hops[*next] == FAR {
                    hops[*next] = hops[at] + 1;
                    queue.push_back(*next);
                }
            }
        }
        hops
    }

    /// Linear forwarding tables. Of several ports on a shortest path the one with the fewest LIDs so far is
    /// taken.
    pub fn fill_linear(&self, fabric: &mut Fabric) {
        let top = fabric.lids.len().max(1);
        let mut tables: Vec<Vec<u8>> = vec![vec![NO_PORT; top]; self.switches.len()];
        let mut loads: Vec<[u32; 256]> = vec![[0; 256]; self.switches.len()];
        // LIDs by the switch that they are at, with the port there.
        let mut at: Vec<Vec<(usize, u8)>> = vec![Vec::new(); self.switches.len()];
        for (lid, end) in fabric.lids.iter().enumerate() {
            let Some(end) = end else { continue };
            if let Some(place) = self.place[end.node] {
                at[place].push((lid, 0));
            } else if let Some(there) = fabric.across(*end)
                && let Some(place) = self.place[there.node]
            {
                at[place].push((lid, there.port));
            }
        }
        for (target, lids) in at.iter().enumerate() {
            if lids.is_empty() {
                continue;
            }
            let hops = self.hops_to(target);
            for (place, table) in tables.iter_mut().enumerate() {
                if place == target {
                    for (lid, port) in lids {
                        table[*lid] = *port;
                    }
                } else if hops[place] != FAR {
                    self.spread(place, &hops, lids, table, &mut loads[place]);
                }
            }
        }
        for (switch, table) in self.switches.iter().zip(tables) {
            fabric.nodes[*switch].forwarding = table;
        }
    }

    fn spread(
        &self,
        place: usize,
        hops: &[u16],
        lids: &[(usize, u8)],
        table: &mut [u8],
        load: &mut [u32; 256],
    ) {
        let nearer = self.cables[place].iter().filter(|(_, next)| hops[*next] + 1 == hops[place]);
        let ports: Vec<u8> = nearer.map(|(port, _)| *port).collect();
        for (lid, _) in lids {
            if let Some(port) = ports.iter().copied().min_by_key(|port| load[usize::from(*port)]) {
                load[usize::from(port)] += 1;
                table[*lid] = port;
            }
        }
    }
}
