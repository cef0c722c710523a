//! A small subnet manager: gives LIDs, fills forwarding tables with shortest paths spread over parallel cables,
//! plants multicast trees and brings ports up. It sees the whole fabric at once and sends no MADs.

use crate::model::{ACTIVE, DOWN, End, Fabric, INITIALIZE};
use crate::plan::Plan;
use std::collections::VecDeque;

/// Largest unicast LID (IBTA volume 1, 4.1.3).
const MAX_LID: usize = 0xBFFF;

/// Configures everything that the manager's port can reach. Without a manager nothing changes but the state of
/// ports: what is new stays in Initialize.
pub(crate) fn configure(fabric: &mut Fabric) {
    let manager = fabric.manager.filter(|end| !fabric.nodes[end.node].is_removed);
    let Some(manager) = manager else { return };
    let reached = reach(fabric, manager);
    give_lids(fabric, manager, &reached);
    bring_up(fabric, &reached);
    let switches: Vec<usize> =
        (0..fabric.nodes.len()).filter(|index| reached[*index] && fabric.nodes[*index].is_switch()).collect();
    let plan = Plan::new(fabric, &switches);
    plan.fill_linear(fabric);
    fabric.activity = fabric.activity.wrapping_add(1);
    for node in &mut fabric.nodes {
        node.is_changed = false;
    }
    crate::multicast::plant(fabric, &plan);
}

/// Which nodes have a way of up links from the manager's port; end nodes do not forward.
fn reach(fabric: &Fabric, manager: End) -> Vec<bool> {
    let mut reached = vec![false; fabric.nodes.len()];
    reached[manager.node] = true;
    let mut queue = VecDeque::new();
    if fabric.nodes[manager.node].is_switch() {
        queue.push_back(manager.node);
    } else if let Some(next) = fabric.across(manager) {
        reached[next.node] = true;
        queue.push_back(next.node);
    }
    while let Some(index) = queue.pop_front() {
        if !fabric.nodes[index].is_switch() {
            continue;
        }
        for port in 1..=fabric.nodes[index].port_count() {
            let next = fabric.across(End { node: index, port });
            if let Some(next) = next.filter(|next| !reached[next.node]) {
                reached[next.node] = true;
                queue.push_back(next.node);
            }
        }
    }
    reached
}

/// Whether an end port takes part: a switch's port 0, or a linked port of another reached node.
fn takes_part(fabric: &Fabric, end: End) -> bool {
    fabric.nodes[end.node].is_switch() || fabric.across(end).is_some()
}

fn give_lids(fabric: &mut Fabric, manager: End, reached: &[bool]) {
    let mut order = Vec::new();
    if !fabric.nodes[manager.node].is_switch() {
        order.push(manager);
    }
    for (node, _) in reached.iter().enumerate().filter(|(_, reached)| **reached) {
        for port in fabric.nodes[node].end_ports() {
            order.push(End { node, port: port as u8 });
        }
    }
    let mut next = 1;
    for end in order {
        let has_lid = fabric.port(end).is_none_or(|port| port.lid != 0);
        if has_lid || !takes_part(fabric, end) {
            continue;
        }
        let lmc = if fabric.nodes[end.node].is_switch() { 0 } else { fabric.lmc };
        next = free_lids(fabric, next, 1 << lmc);
        if next + (1 << lmc) > MAX_LID + 1 {
            tracing::warn!("no LID is left for {}", fabric.nodes[end.node].description);
            return;
        }
        assign(fabric, end, next as u16);
        next += 1 << lmc;
    }
}

/// The first aligned run of free LIDs from `start` on.
fn free_lids(fabric: &Fabric, start: usize, count: usize) -> usize {
    let mut lid = start.next_multiple_of(count);
    while (lid..lid + count).any(|lid| fabric.by_lid(lid as u16).is_some()) {
        lid += count;
    }
    lid
}

/// Gives a LID to an end port; what it had before leads nowhere any more.
pub(crate) fn assign(fabric: &mut Fabric, end: End, lid: u16) {
    let lmc = if fabric.nodes[end.node].is_switch() { 0 } else { fabric.lmc };
    for known in &mut fabric.lids {
        if *known == Some(end) {
            *known = None;
        }
    }
    let range = usize::from(lid)..usize::from(lid) + (1 << lmc);
    if fabric.lids.len() < range.end {
        fabric.lids.resize(range.end, None);
    }
    for place in &mut fabric.lids[range] {
        *place = Some(end);
    }
    if let Some(port) = fabric.port_mut(end) {
        port.lid = lid;
    }
}

fn bring_up(fabric: &mut Fabric, reached: &[bool]) {
    for (node, is_reached) in reached.iter().enumerate() {
        let is_switch = fabric.nodes[node].is_switch();
        for number in 0..fabric.nodes[node].ports.len() {
            let is_linked = fabric.across(End { node, port: number as u8 }).is_some();
            let state = match (is_switch && number == 0, is_linked, *is_reached) {
                (true, _, true) | (_, true, true) => ACTIVE,
                (true, _, false) | (_, true, false) => INITIALIZE,
                _ => DOWN,
            };
            fabric.nodes[node].ports[number].state = state;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forwarding;
    use crate::net;
    use crate::plan::NO_PORT;
    use throughline_infiniband::topology::FatTree;

    fn managed(lmc: u8) -> Fabric {
        let mut fabric = net::read(&FatTree::HOSTS_146.to_net().unwrap()).unwrap();
        fabric.lmc = lmc;
        fabric.manager = fabric.find("node0001 mlx5_0").map(|node| End { node, port: 1 });
        configure(&mut fabric);
        fabric
    }

    #[test]
    fn every_lid_is_reached_from_everywhere() {
        for lmc in [0, 2] {
            let fabric = managed(lmc);
            let from = fabric.manager.unwrap();
            assert_eq!(fabric.port(from).unwrap().lid, 1 << lmc, "the manager's is the first");
            let lids: Vec<u16> =
                (1..fabric.lids.len() as u16).filter(|l| fabric.by_lid(*l).is_some()).collect();
            assert_eq!(lids.len(), (146 << lmc) + 20);
            for lid in lids {
                assert_eq!(forwarding::by_lid(&fabric, from, lid), fabric.by_lid(lid), "LID {lid}");
            }
        }
    }

    #[test]
    fn parallel_ways_are_all_used() {
        let fabric = managed(0);
        let leaf = &fabric.nodes[fabric.find("leaf001").unwrap()];
        let used = |port: u8| leaf.forwarding.iter().filter(|entry| **entry == port).count();
        let uplinks: Vec<usize> =
            (1..=leaf.port_count()).filter(|port| *port > 11).map(used).filter(|count| *count > 0).collect();
        assert_eq!(uplinks.len(), 12);
        let (least, most) = (uplinks.iter().min().unwrap(), uplinks.iter().max().unwrap());
        assert!(most - least <= 3, "{uplinks:?}");
    }

    #[test]
    fn without_a_link_there_is_no_entry() {
        let mut fabric = managed(0);
        let host = fabric.find("node0146 mlx5_0").unwrap();
        let lid = fabric.nodes[host].lid();
        fabric.nodes[host].ports[1].is_up = false;
        configure(&mut fabric);
        assert_eq!(forwarding::by_lid(&fabric, fabric.manager.unwrap(), lid), None);
        assert_eq!(fabric.nodes[host].ports[1].state, DOWN);
        let leaf = fabric.find("leaf001").unwrap();
        assert_eq!(fabric.nodes[leaf].forwarding[usize::from(lid)], NO_PORT);
    }
}
