//! Multicast forwarding tables put on a topology: which links and nodes each multicast LID reaches, and how its tree
//! hangs together. Pure.

use super::topology::Topology;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use throughline_query::links::MulticastTable;

/// What a port's entry stands for that is the switch itself.
const OWN_PORT: u8 = 0;

/// What one LID's entries reach.
#[derive(Debug, Default)]
pub struct MulticastReach {
    /// Places of switches with an entry.
    pub switches: BTreeSet<usize>,
    /// Those that are receivers themselves.
    pub own: BTreeSet<usize>,
    /// Links with the ends that send to them: `a` and `b`.
    pub links: BTreeMap<usize, [bool; 2]>,
    /// Places and ports of what is no switch.
    pub adapters: BTreeSet<(usize, i32)>,
}

/// A link of a tree as it is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch {
    /// The link's place.
    pub link: usize,
    /// Links above it.
    pub depth: usize,
    /// Whether `a` is the upper end.
    pub is_a_above: bool,
}

/// All LIDs that have an entry anywhere, and what they share.
#[derive(Debug, Default)]
pub struct Trees {
    /// By multicast LID.
    pub by_mlid: BTreeMap<u16, MulticastReach>,
    /// Links of more than one LID's tree, and of one: LIDs by the link's place.
    pub mlids_of_link: HashMap<usize, Vec<u16>>,
    /// Output ports of switches by place, of all LIDs; each LID's ports in a set of its own.
    pub entries: HashMap<usize, BTreeMap<u16, BTreeSet<i32>>>,
}

impl Trees {
    /// Tables by the switch's number in the database.
    pub fn new(topology: &Topology, tables: &HashMap<i64, MulticastTable>) -> Trees {
        let mut trees = Trees::default();
        for (switch, table) in tables {
            let Some(place) = topology.place_of.get(switch) else { continue };
            for (mlid, ports) in table {
                let reach = trees.by_mlid.entry(*mlid).or_default();
                reach.switches.insert(*place);
                if ports.contains(&OWN_PORT) {
                    reach.own.insert(*place);
                }
                for port in ports.iter().filter(|port| **port != OWN_PORT) {
                    let number = i32::from(*port);
                    let Some((link, is_a)) = topology.link_at.get(&(*place, number)) else { continue };
                    reach.links.entry(*link).or_default()[usize::from(!is_a)] = true;
                    let other = topology.ends[*link][usize::from(*is_a)];
                    if topology.kind(other.node) != "switch" {
                        reach.adapters.insert((other.node, other.number));
                    }
                    let entries = trees.entries.entry(*place).or_default();
                    entries.entry(*mlid).or_default().insert(number);
                }
            }
        }
        for (mlid, reach) in &trees.by_mlid {
            for link in reach.links.keys() {
                trees.mlids_of_link.entry(*link).or_default().push(*mlid);
            }
        }
        trees
    }

    /// How many LIDs' trees a link belongs to.
    pub fn sharing(&self, link: usize) -> usize {
        self.mlids_of_link.get(&link).map_or(0, Vec::len)
    }
}

impl MulticastReach {
    /// Whether each packet passes each of its links once: it is whole, without a circle, and switches send both ways.
    pub fn is_sound(&self, topology: &Topology) -> bool {
        let inner: Vec<&[bool; 2]> = self
            .links
            .iter()
            .filter(|(link, _)| topology.ends[**link].iter().all(|end| self.switches.contains(&end.node)))
            .map(|(_, ways)| ways)
            .collect();
        inner.len() + 1 == self.switches.len()
            && inner.iter().all(|ways| **ways == [true, true])
            && self.walk(topology).1 == 1
    }

    /// The tree's links from its root down, depth first, and in how many parts it is. The switch with most links to others is the root.
    pub fn walk(&self, topology: &Topology) -> (Vec<Branch>, usize) {
        // Of each switch its links, those to others first drawn as they are numbered.
        let mut of: HashMap<usize, Vec<(usize, bool)>> = HashMap::new();
        let mut inner: HashMap<usize, usize> = HashMap::new();
        for link in self.links.keys() {
            let ends = topology.ends[*link].map(|end| end.node);
            let is_inner = ends.iter().all(|node| self.switches.contains(node));
            for (node, is_a) in ends.into_iter().zip([true, false]) {
                if self.switches.contains(&node) {
                    of.entry(node).or_default().push((*link, is_a));
                    *inner.entry(node).or_default() += usize::from(is_inner);
                }
            }
        }
        let mut starts: Vec<usize> = self.switches.iter().copied().collect();
        starts.sort_by_key(|node| (std::cmp::Reverse(inner.get(node).copied().unwrap_or(0)), *node));
        let (mut visited, mut drawn) = (HashSet::new(), HashSet::new());
        let (mut branches, mut parts) = (Vec::with_capacity(self.links.len()), 0);
        for start in starts {
            if visited.contains(&start) {
                continue;
            }
            parts += 1;
            let mut stack = vec![(start, None)];
            while let Some((node, branch)) = stack.pop() {
                // A link that closes a circle is drawn where it was met.
                let depth = branch.map_or(0, |branch: Branch| branch.depth + 1);
                match branch {
                    Some(branch) if !drawn.insert(branch.link) => continue,
                    Some(branch) => branches.push(branch),
                    None => {}
                }
                if !visited.insert(node) {
                    continue;
                }
                for (link, is_a_above) in of.get(&node).into_iter().flatten().rev() {
                    let below = topology.ends[*link][usize::from(*is_a_above)].node;
                    stack.push((below, Some(Branch { link: *link, depth, is_a_above: *is_a_above })));
                }
            }
        }
        (branches, parts)
    }
}
