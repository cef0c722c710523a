//! Whether virtual lanes break the cycles of links that wait for each other's buffers: each pair of hosts sends with its
//! service level, and each switch maps that to a virtual lane of the next link. Pure.
//!
//! Links of one lane wait only for links whose packets come by that lane, so what can block is a cycle of (link, lane).

use super::Route;
use crate::mad::NodeKind;
use crate::topology::{NodeIndex, PortEnd, Topology};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// SLtoVLMappingTable (14.2.5.8): 16 levels of 4 bits.
const LEVELS: usize = 16;
/// Entry of SLtoVLMappingTable that drops packets: lane 15 is that of management.
const DROPPED: u8 = 15;

/// A mapping from service levels to virtual lanes.
pub type LaneMap = [u8; LEVELS];

/// The virtual lane of each service level.
#[must_use]
pub fn decode_lane_map(data: &[u8]) -> Option<LaneMap> {
    let bytes = data.get(..LEVELS / 2)?;
    let mut map = [0; LEVELS];
    for (pair, byte) in map.chunks_mut(2).zip(bytes) {
        pair.copy_from_slice(&[byte >> 4, byte & 0x0F]);
    }
    Some(map)
}

/// A switch and the ports by which packets come and go.
pub type SwitchCrossing = (NodeIndex, u8, u8);

/// Pairs of hosts with the ways between them, for which lanes are judged.
pub struct LanePairs {
    /// LID of the source, and the way.
    ways: Vec<(u16, Route)>,
}

/// What virtual lanes do about a cycle of links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LaneVerdict {
    /// Lanes separate it: no packet of one lane waits in a circle.
    Broken,
    /// It is there within this lane, at the first of these links.
    Remains {
        /// The sending end of each link, with its lane.
        cycle: Vec<(PortEnd, u8)>,
    },
    /// Lanes are not known; why.
    Unknown(String),
}

impl Topology {
    /// The ways between all hosts; `None` where there are more pairs than `most`. Pairs without a way are left out.
    #[must_use]
    pub fn lane_pairs(&self, most: usize) -> Option<LanePairs> {
        let hosts: Vec<(PortEnd, u16)> = self
            .nodes
            .iter()
            .enumerate()
            .filter(|(_, node)| node.kind == NodeKind::Ca)
            .flat_map(|(node, of_node)| {
                let ports = of_node.ports.iter().filter(|port| of_node.lid_of(port) != 0);
                ports.map(move |port| (PortEnd { node, port: port.number }, of_node.lid_of(port)))
            })
            .collect();
        let lids: usize =
            hosts.iter().filter_map(|(end, _)| Some(self.lids_of(*end)?.count())).sum::<usize>();
        if hosts.len().saturating_mul(lids) > most {
            return None;
        }
        let mut ways = Vec::new();
        for (from, own) in &hosts {
            for (to, _) in hosts.iter().filter(|(to, _)| to != from) {
                for lid in self.lids_of(*to).into_iter().flatten() {
                    if let Ok(route) = self.route_between(*from, *to, Some(lid)) {
                        ways.push((*own, route));
                    }
                }
            }
        }
        Some(LanePairs { ways })
    }
}

/// Switches on a way, with the ports of each.
fn crossings(route: &Route) -> impl Iterator<Item = SwitchCrossing> + '_ {
    route.hops.iter().filter_map(|hop| Some((hop.node, hop.in_port?, hop.out_port?)))
}

impl LanePairs {
    /// LIDs of source and destination of each pair.
    pub fn lids(&self) -> impl Iterator<Item = (u16, u16)> + '_ {
        self.ways.iter().map(|(source, route)| (*source, route.lid))
    }

    /// Every mapping that is needed: which switch, from which port to which.
    #[must_use]
    pub fn crossings(&self) -> BTreeSet<SwitchCrossing> {
        self.ways.iter().flat_map(|(_, route)| crossings(route)).collect()
    }

    /// Judges by the service level of each pair, in the order of [`LanePairs::lids`], and the mapping of each crossing.
    #[must_use]
    pub fn judge(&self, levels: &[Option<u8>], maps: &HashMap<SwitchCrossing, LaneMap>) -> LaneVerdict {
        let mut next: BTreeMap<(PortEnd, u8), BTreeSet<(PortEnd, u8)>> = BTreeMap::new();
        for ((_, route), level) in self.ways.iter().zip(levels) {
            let Some(level) = level else {
                return LaneVerdict::Unknown("the service level of a path is not known".to_owned());
            };
            let mut before = None;
            for crossing in crossings(route) {
                let Some(map) = maps.get(&crossing) else {
                    return LaneVerdict::Unknown("a switch did not report its lanes".to_owned());
                };
                let lane = map[usize::from(*level) % LEVELS];
                if lane == DROPPED {
                    break;
                }
                let link = (PortEnd { node: crossing.0, port: crossing.2 }, lane);
                next.entry(link).or_default();
                if let Some(before) = before.replace(link) {
                    next.entry(before).or_default().insert(link);
                }
            }
        }
        cycle(&next).map_or(LaneVerdict::Broken, |cycle| LaneVerdict::Remains { cycle })
    }
}

type Link = (PortEnd, u8);

/// One cycle, if there is any: a search in depth.
fn cycle(next: &BTreeMap<Link, BTreeSet<Link>>) -> Option<Vec<Link>> {
    let mut done: BTreeSet<Link> = BTreeSet::new();
    for start in next.keys() {
        if done.contains(start) {
            continue;
        }
        let mut path = vec![(*start, next[start].iter())];
        let mut open = BTreeSet::from([*start]);
        while let Some((here, rest)) = path.last_mut() {
            let here = *here;
            let Some(there) = rest.next() else {
                open.remove(&here);
                done.insert(here);
                path.pop();
                continue;
            };
            if open.contains(there) {
                let from = path.iter().position(|(link, _)| link == there).unwrap_or(0);
                return Some(path[from..].iter().map(|(link, _)| *link).collect());
            }
            if let (false, Some(further)) = (done.contains(there), next.get(there)) {
                open.insert(*there);
                path.push((*there, further.iter()));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::Hop;

    /// Three switches 0, 1, 2 in a ring: each host sends to the switch after the next. Port 1 leads on, port 2 comes in, the
    /// host is at port 3.
    fn ring() -> LanePairs {
        let hop = |node, in_port, out_port| Hop { node, in_port: Some(in_port), out_port: Some(out_port) };
        let way = |from: usize| {
            let [a, b, c] = [from, (from + 1) % 3, (from + 2) % 3];
            let hops = vec![hop(a, 3, 1), hop(b, 2, 1), hop(c, 2, 3)];
            (from as u16 + 1, Route { lid: c as u16 + 1, hops })
        };
        LanePairs { ways: (0..3).map(way).collect() }
    }

    fn maps(pairs: &LanePairs, map: LaneMap) -> HashMap<SwitchCrossing, LaneMap> {
        pairs.crossings().into_iter().map(|crossing| (crossing, map)).collect()
    }

    #[test]
    fn lanes_break_a_ring_and_one_lane_does_not() {
        let ring = ring();
        let straight: LaneMap = std::array::from_fn(|level| level as u8);
        let two = maps(&ring, straight);
        assert_eq!(ring.judge(&[Some(0), Some(0), Some(1)], &two), LaneVerdict::Broken);
        let LaneVerdict::Remains { cycle } = ring.judge(&[Some(0); 3], &two) else { panic!() };
        assert_eq!((cycle.len(), cycle[0].1), (3, 0));
        // Two levels on one lane are one lane.
        let one = maps(&ring, [0; LEVELS]);
        assert!(matches!(ring.judge(&[Some(0), Some(0), Some(1)], &one), LaneVerdict::Remains { .. }));
    }

    #[test]
    fn what_is_not_known_is_said() {
        let ring = ring();
        assert!(matches!(ring.judge(&[Some(0), None, Some(0)], &HashMap::new()), LaneVerdict::Unknown(_)));
        assert!(matches!(ring.judge(&[Some(0); 3], &HashMap::new()), LaneVerdict::Unknown(_)));
    }

    #[test]
    fn maps_are_read_as_the_specification_has_them() {
        let map = decode_lane_map(&[0x01, 0x23, 0x45, 0x67, 0x89, 0xAB, 0xCD, 0xEF]).unwrap();
        assert_eq!(map, std::array::from_fn::<u8, LEVELS, _>(|level| level as u8));
        assert_eq!(decode_lane_map(&[0; 7]), None);
    }
}
