//! Multicast groups and their trees: one of the switches' shortest-path trees, cut down to the members.

use crate::model::{End, FIRST_MLID, Fabric};
use crate::plan::Plan;

/// MLIDs that a switch's table holds: what current switches say.
pub(crate) const CAPACITY: u16 = 1024;

/// Fills the multicast tables of all switches.
pub(crate) fn plant(fabric: &mut Fabric, plan: &Plan) {
    let groups = std::mem::take(&mut fabric.groups);
    let last = groups.iter().map(|group| group.mlid).max();
    let entries = last.map_or(0, |last| usize::from(last - FIRST_MLID) + 1);
    for switch in &plan.switches {
        fabric.nodes[*switch].multicast = vec![[0; 16]; entries];
    }
    for group in &groups {
        let ends = group.ends(fabric);
        // The tree's root: the switch of the first member, so that a group on one leaf stays there.
        let at =
            |end: &End| fabric.across(*end).and_then(|there| Some((plan.place[there.node]?, there.port)));
        let places: Vec<(usize, u8)> = ends.iter().filter_map(at).collect();
        let Some((root, _)) = places.first().copied() else { continue };
        let hops = plan.hops_to(root);
        let entry = usize::from(group.mlid - FIRST_MLID);
        for (place, port) in &places {
            mark(fabric, plan.switches[*place], entry, *port);
            climb(fabric, plan, &hops, *place, entry);
        }
    }
    fabric.groups = groups;
}

/// Marks the cables from a switch to the root.
fn climb(fabric: &mut Fabric, plan: &Plan, hops: &[u16], mut place: usize, entry: usize) {
    while hops[place] > 0 {
        let up = plan.cables[place].iter().find(|(_, next)| hops[*next] + 1 == hops[place]);
        let Some((port, next)) = up.copied() else { return };
        let node = plan.switches[place];
        let Some(there) = fabric.across(End { node, port }) else { return };
        let known = mark(fabric, node, entry, port);
        mark(fabric, there.node, entry, there.port);
        if known {
            return; // From here on somebody else climbed already.
        }
        place = next;
    }
}

/// Marks a port in an entry; whether it was marked before.
fn mark(fabric: &mut Fabric, node: usize, entry: usize, port: u8) -> bool {
    let Some(masks) = fabric.nodes[node].multicast.get_mut(entry) else { return false };
    let (word, bit) = (usize::from(port) / 16, 1 << (port % 16));
    let was = masks[word] & bit != 0;
    masks[word] |= bit;
    was
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Group;
    use crate::{manager, net};
    use std::collections::HashSet;
    use throughline_infiniband::topology::FatTree;

    #[test]
    fn a_tree_reaches_each_member_once() {
        let mut fabric = net::read(&FatTree::HOSTS_146.to_net().unwrap()).unwrap();
        let end = |fabric: &Fabric, name: &str| End { node: fabric.find(name).unwrap(), port: 1 };
        let members = ["node0001 mlx5_0", "node0002 mlx5_0", "node0080 mlx5_0", "node0146 mlx5_0"];
        let members: Vec<End> = members.iter().map(|name| end(&fabric, name)).collect();
        fabric.groups =
            vec![Group::broadcast(), Group { mgid: 1, mlid: FIRST_MLID + 3, members: Some(members.clone()) }];
        fabric.manager = Some(members[0]);
        manager::configure(&mut fabric);
        for (entry, count) in [(0, 146), (3, 4)] {
            // From the first member through the marked ports: each end port exactly once, no loop.
            let mut seen = HashSet::new();
            let first = fabric.across(members[0]).unwrap();
            let mut queue = vec![first];
            while let Some(came) = queue.pop() {
                let node = &fabric.nodes[came.node];
                if !node.is_switch() {
                    assert!(seen.insert(came), "reached twice");
                    continue;
                }
                let marked = |port: &u8| {
                    node.multicast[entry][usize::from(*port) / 16] >> (port % 16) & 1 == 1
                        && *port != came.port
                };
                let out = (1..=node.port_count()).filter(marked);
                queue.extend(out.filter_map(|port| fabric.across(End { node: came.node, port })));
                assert!(queue.len() < 1000, "a loop");
            }
            assert_eq!(seen.len(), count - 1, "all but the sender");
        }
    }
}
