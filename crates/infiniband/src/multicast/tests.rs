//! Trees and groups on hand-made tables.

use super::*;
use crate::mad::sa::McMember;
use crate::mad::{DirectedPath, NodeKind};
use crate::multicast::Groups;
use crate::topology::{Node, Port, PortEnd};
use throughline_sample::Guid;

const MLID: u16 = 0xC001;

/// Switches 0, 1, 2 in a ring (port 1 to the next one, port 2 to the one before), hosts 3, 4, 5 at their ports 3.
fn ring() -> Topology {
    let node = |index: usize, kind, remotes: &[(u8, Option<(usize, u8)>)]| {
        let ports = remotes.iter().map(|(number, remote)| Port {
            number: *number,
            guid: (kind == NodeKind::Ca || *number == 0).then_some(Guid(index as u64 * 16 + 0x101)),
            info: None,
            remote: remote.map(|(node, port)| PortEnd { node, port }),
        });
        Node {
            guid: Guid(index as u64 * 16 + 0x100),
            kind,
            description: format!("n{index}"),
            system_guid: Guid(0),
            vendor_id: 0,
            device_id: 0,
            port_count: 4,
            ports: ports.collect(),
            switch: None,
            forwarding: Vec::new(),
            path: DirectedPath::local(),
        }
    };
    let switch = |index: usize| {
        let (next, before) = ((index + 1) % 3, (index + 2) % 3);
        let remotes =
            [(0, None), (1, Some((next, 2))), (2, Some((before, 1))), (3, Some((index + 3, 1))), (4, None)];
        node(index, NodeKind::Switch, &remotes)
    };
    let host = |index: usize| node(index, NodeKind::Ca, &[(1, Some((index - 3, 3)))]);
    let nodes = (0..3).map(switch).chain((3..6).map(host)).collect();
    Topology::new(nodes, None, 0)
}

fn tables(topology: &Topology, entries: [&[u8]; 3]) -> MulticastTables {
    let mut tables = MulticastTables::new(topology);
    for (switch, ports) in entries.iter().enumerate() {
        ports.iter().for_each(|port| tables.insert(switch, MLID, *port));
    }
    tables
}

fn tree(entries: [&[u8]; 3]) -> Tree {
    let topology = ring();
    Tree::new(&topology, &tables(&topology, entries), MLID)
}

fn end(node: usize, port: u8) -> PortEnd {
    PortEnd { node, port }
}

#[test]
fn a_tree_over_all_switches() {
    let tree = tree([&[1, 3], &[1, 2, 3], &[2, 3]]);
    assert!(tree.is_sound());
    assert_eq!(tree.roots, [1], "the one with most links");
    assert_eq!(tree.links.len(), 2);
    assert_eq!(tree.hosts.len(), 3);
    assert_eq!(tree.link_count(), 5);
}

#[test]
fn tables_become_records_of_their_switches() {
    let topology = ring();
    let tables = tables(&topology, [&[1, 3], &[0, 2], &[]]);
    let batches = crate::records::multicast(&topology, &tables, &[0, 2], 7);
    let [batch] = &batches[..] else { panic!("{batches:?}") };
    let [first, second] = &batch.ib_multicast_tables[..] else { panic!("{batch:?}") };
    assert_eq!((first.generation, first.guid), (7, 0x100));
    assert_eq!((first.entries[0].mlid, first.entries[0].ports.as_slice()), (u32::from(MLID), &[1, 3][..]));
    assert_eq!((second.guid, second.entries.len()), (0x120, 0), "an empty table is reported, too");
    assert!(crate::records::multicast(&topology, &tables, &[], 7).is_empty());
}

#[test]
fn what_is_no_tree_is_reported() {
    let circle = tree([&[1, 2, 3], &[1, 2], &[1, 2]]);
    assert_eq!((circle.links.len(), circle.circles.len()), (2, 1));
    let torn = tree([&[3], &[3], &[]]);
    assert_eq!((torn.roots.len(), torn.hosts.len()), (2, 2));
    let one_way = tree([&[1, 3], &[3], &[]]);
    assert_eq!(one_way.one_way, [end(0, 1)]);
    let nowhere = tree([&[4], &[], &[]]);
    assert_eq!(nowhere.nowhere, [end(0, 4)]);
    for broken in [circle, torn, one_way, nowhere] {
        assert!(!broken.is_sound());
    }
    assert!(tree([&[], &[], &[]]).is_sound(), "no tree at all");
}

#[test]
fn parallel_cables_in_one_tree_are_a_circle() {
    let mut topology = ring();
    // The cable from switch 2 to switch 0 goes to switch 1 instead.
    topology.nodes[2].ports[1].remote = Some(end(1, 4));
    topology.nodes[1].ports[4].remote = Some(end(2, 1));
    let tables = tables(&topology, [&[], &[1, 4], &[1, 2]]);
    let tree = Tree::new(&topology, &tables, MLID);
    assert_eq!((tree.links.len(), tree.circles.len(), tree.roots.len()), (1, 1, 1));
}

fn record(port_guid: u64, join_state: u8) -> McMember {
    let mut bytes = [0; 52];
    bytes[..16].copy_from_slice(&(0xFF12_u128 << 112 | 7).to_be_bytes());
    bytes[24..32].copy_from_slice(&port_guid.to_be_bytes());
    bytes[36..38].copy_from_slice(&MLID.to_be_bytes());
    bytes[38] = 0x84;
    bytes[40..42].copy_from_slice(&0xFFFFu16.to_be_bytes());
    bytes[42] = 0x83;
    bytes[48] = 0x20 | join_state;
    McMember::decode(&bytes).unwrap()
}

#[test]
fn members_are_held_against_the_tree() {
    let topology = ring();
    let tables = tables(&topology, [&[1, 3], &[2, 3], &[]]);
    let reported = |members: Vec<McMember>| Groups { members, is_trusted: true, is_cut: false };
    // Host 3 receives, host 5 should and does not, host 4 is reached and is no member, somebody only sends.
    let groups = reported(vec![record(0x131, 1), record(0x151, 1), record(0x999, 4)]);
    let all = Group::all(&topology, &tables, Some(&groups));
    let [group] = all.as_slice() else { panic!("{all:?}") };
    assert_eq!(group.missed, [Guid(0x151)]);
    assert_eq!(group.strangers, [end(4, 1)]);
    assert!(!group.is_sound());
    let text = group_text(&topology, group);
    assert!(
        text.contains("ff12::7") && text.contains("members not reached: 0x0000000000000151 n5"),
        "{text}"
    );
    assert!(text.contains("3 -> 1 0x0000000000000130 n3 (full)"), "{text}");
    assert!(text.contains("MTU 2048  rate 10 Gb/s"), "{text}");
    assert!(groups_table(&topology, &all).contains("2 problems"));
    let document = group_document(&topology, group);
    assert_eq!(document["members"].as_array().unwrap().len(), 3);
    assert_eq!(document["tree"]["parts"], 1);
    assert_eq!(document["ok"], false);
    // One member alone needs no tree.
    let alone =
        Group::all(&topology, &MulticastTables::new(&topology), Some(&reported(vec![record(0x131, 1)])));
    assert!(alone[0].is_sound());
}

#[test]
fn hosts_on_one_cable_need_no_tree() {
    // Hosts 3 and 5 beside each other, without a switch between.
    let mut topology = ring();
    for (node, other) in [(3, 5), (5, 3)] {
        topology.nodes[node].ports[0].remote = Some(end(other, 1));
    }
    let none = MulticastTables::new(&topology);
    let groups = |members| Groups { members, is_trusted: true, is_cut: false };
    let both = groups(vec![record(0x131, 1), record(0x151, 1)]);
    assert!(Group::all(&topology, &none, Some(&both))[0].is_sound());
    let others = groups(vec![record(0x131, 1), record(0x141, 1)]);
    assert_eq!(Group::all(&topology, &none, Some(&others))[0].missed, [Guid(0x131), Guid(0x141)]);
}

#[test]
fn tables_without_an_administrator_are_groups_too() {
    let topology = ring();
    let tables = tables(&topology, [&[1, 3], &[2, 3], &[]]);
    let all = Group::all(&topology, &tables, None);
    assert_eq!(all.len(), 1);
    assert!(all[0].members.is_none() && all[0].strangers.is_empty());
    assert!(group_text(&topology, &all[0]).contains("members are not reported"));
    assert!(group_document(&topology, &all[0])["members"].is_null());
}

#[test]
fn blocks_are_put_where_they_belong() {
    let topology = ring();
    let mut tables = MulticastTables::new(&topology);
    let mut data = [0; 64];
    data[2..4].copy_from_slice(&0x8001_u16.to_be_bytes());
    tables.add_block(1, 2 << 28 | 1, &data);
    let ports: Vec<u8> = tables.ports(1, 0xC021).iter().collect();
    assert_eq!(ports, [32, 47]);
    assert_eq!(tables.ports(1, 0xC021).len(), 2);
    assert_eq!(tables.mlids().into_iter().collect::<Vec<_>>(), [0xC021]);
    tables.add_block(9, 0, &data);
    tables.add_block(1, 0xF000_01FF, &[0xFF; 3]);
    assert_eq!(tables.mlids().len(), 2, "block 511 begins at 0xFFE0");
}
