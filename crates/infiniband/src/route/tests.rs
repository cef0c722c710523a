//! Routes and pairs on small nets, on broken tables, and on random ones against walks pair by pair.

use super::*;
use crate::mad::{DirectedPath, LFT_NO_PORT, PhysicalState, PortInfo, PortState};
use crate::topology::{Node, Port, SwitchRouting};
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap};

fn info(lid: u16, lmc: u8) -> PortInfo {
    let mut bytes = [0; 64];
    bytes[16..18].copy_from_slice(&lid.to_be_bytes());
    let mut info = PortInfo::decode(&bytes).unwrap();
    info.lmc = lmc;
    info.state = Some(PortState::Active);
    info.physical_state = PhysicalState(5);
    info
}

fn port(number: u8, guid: Option<u64>, lid: u16, remote: Option<(usize, u8)>) -> Port {
    let remote = remote.map(|(node, port)| PortEnd { node, port });
    Port { number, guid: guid.map(Guid), info: Some(info(lid, 0)), remote }
}

fn node(guid: u64, kind: NodeKind, ports: Vec<Port>, forwarding: Vec<u8>) -> Node {
    Node {
        guid: Guid(guid),
        kind,
        description: format!("n{guid:x} HCA-1"),
        system_guid: Guid(guid),
        vendor_id: 0,
        device_id: 0,
        port_count: 2,
        ports,
        switch: None,
        forwarding,
        path: DirectedPath::local(),
    }
}

/// Host 0x10 (LID 1) - switch 0x20 (LID 2) - switch 0x30 (LID 3) - host 0x40 (LID 4).
fn line(table_of_30: Vec<u8>) -> Topology {
    let nodes = vec![
        node(
            0x30,
            NodeKind::Switch,
            vec![
                port(0, Some(0x30), 3, None),
                port(1, None, 0, Some((1, 2))),
                port(2, None, 0, Some((3, 1))),
            ],
            table_of_30,
        ),
        node(
            0x20,
            NodeKind::Switch,
            vec![
                port(0, Some(0x20), 2, None),
                port(1, None, 0, Some((2, 1))),
                port(2, None, 0, Some((0, 1))),
            ],
            vec![LFT_NO_PORT, 1, 0, 2, 2],
        ),
        node(0x10, NodeKind::Ca, vec![port(1, Some(0x11), 1, Some((1, 1)))], Vec::new()),
        node(0x40, NodeKind::Ca, vec![port(1, Some(0x41), 4, Some((0, 2)))], Vec::new()),
    ];
    Topology::new(nodes, None, 0)
}

const GOOD: [u8; 5] = [LFT_NO_PORT, 1, 1, 0, 2];

#[test]
fn a_route_passes_both_switches() {
    let topology = line(GOOD.to_vec());
    let (from, to) = (topology.end_of(Guid(0x10)).unwrap(), topology.end_of(Guid(0x41)).unwrap());
    let route = topology.route_between(from, to, None).unwrap();
    assert_eq!(
        serde_json::to_string(&topology.route_document(&route, RouteKind::Static)).unwrap(),
        r#"{"hops":[{"guid":"0x0000000000000010","in_port":null,"out_port":1},{"guid":"0x0000000000000020","in_port":1,"out_port":2},{"guid":"0x0000000000000030","in_port":1,"out_port":2},{"guid":"0x0000000000000040","in_port":1,"out_port":null}],"kind":"static","lid":4,"notes":[]}"#
    );
    assert_eq!(topology.route(Guid(0x10), Guid(0x10)).unwrap().len(), 1);
    assert_eq!(topology.route(Guid(0x40), Guid(0x20)).unwrap().len(), 3, "a switch is an end, too");
    assert_eq!(topology.route_text(&route, RouteKind::Unknown).lines().count(), 6);
    assert_eq!(topology.cables().count(), 3);
}

#[test]
fn broken_tables_are_named() {
    let route = |table| line(table).route(Guid(0x10), Guid(0x40));
    assert_eq!(route(vec![]), Err(RouteError::NoEntry { switch: Guid(0x30), lid: 4 }));
    assert_eq!(route(vec![0, 0, 0, 0, 1]), Err(RouteError::Loop { switch: Guid(0x20), lid: 4 }));
    let nowhere = RouteError::NoNeighbour { node: Guid(0x30), lid: 4, port: 9 };
    assert_eq!(route(vec![0, 0, 0, 0, 9]), Err(nowhere));
    assert_eq!(line(vec![]).route(Guid(1), Guid(0x40)), Err(RouteError::UnknownGuid(Guid(1))));
}

#[test]
fn broken_entries_are_found_with_the_pairs_they_cost() {
    let all = |table: Vec<u8>| {
        let topology = line(table);
        let pairs = topology.all_pairs(&Scope::default());
        (topology, pairs)
    };
    let (_, good) = all(GOOD.to_vec());
    assert_eq!((good.pairs, good.reached, good.links_passed), (2, 2, 6));
    assert_eq!(good.lengths, [0, 0, 0, 2]);
    assert!(good.findings.is_empty() && good.usage().iter().all(|link| link.pairs == 1));
    let (topology, empty) = all(vec![]);
    assert_eq!((empty.reached, empty.unreached), (0, 2), "the switch at 4 has no way back");
    let nodes: Vec<Guid> = empty.findings.iter().map(|finding| topology.nodes[finding.node].guid).collect();
    assert_eq!(nodes, [Guid(0x30), Guid(0x30)]);
    assert!(topology.check_text(&empty, None).contains("no entry for LID 4"));
    let (topology, circle) = all(vec![LFT_NO_PORT, 1, 1, 0, 1]);
    assert_eq!((circle.reached, circle.looping), (1, 1));
    let end = |node, port| PortEnd { node, port };
    let cycle = vec![end(1, 2), end(2, 1)];
    assert_eq!(circle.findings[0].fault, Fault::Loop { cycle });
    assert_eq!(topology.check_json(&circle, None)["findings"][0]["cycle"][1]["port"], 1);
}

#[test]
fn switches_count_as_destinations_when_asked() {
    let scope = Scope { all_ends: true, ..Scope::default() };
    let pairs = line(GOOD.to_vec()).all_pairs(&scope);
    assert_eq!((pairs.pairs, pairs.reached), (6, 6));
    assert_eq!(pairs.lengths, [0, 2, 2, 2], "from each host to its switch, the other one, the other host");
}

#[test]
fn a_part_of_the_pairs() {
    let topology = line(GOOD.to_vec());
    let only = |guid: u64| topology.nodes.iter().map(|node| node.guid == Guid(guid)).collect::<Vec<_>>();
    let between = |first, second| {
        topology.all_pairs(&Scope { between: Some((only(first), only(second))), ..Scope::default() })
    };
    assert_eq!(between(0x10, 0x40), topology.all_pairs(&Scope::default()), "both directions");
    assert_eq!(between(0x10, 0x10).pairs, 0);
    assert_eq!(between(0x10, 0x20).pairs, 0, "a switch is no host");
}

#[test]
fn targets_are_found_by_any_name() {
    let topology = line(GOOD.to_vec());
    let find = |text: &str| topology.find(&text.parse().unwrap()).map(|end| topology.nodes[end.node].guid);
    for text in ["0x10", "0x11", "1", "n10", "n10 HCA-1", "N10"] {
        assert_eq!(find(text), Ok(Guid(0x10)), "{text}");
    }
    assert_eq!(find("9"), Err(TargetError::UnknownLid(9)));
    assert_eq!(find("x"), Err(TargetError::UnknownName("x".to_owned())));
    assert!(matches!(find("0x12"), Err(TargetError::Route(RouteError::UnknownGuid(_)))));
    let Err(TargetError::Ambiguous { choices, .. }) = find("HCA") else { panic!("four fit") };
    assert_eq!(choices.lines().count(), 4);
    for text in ["", "0", "49152", "99999", "0xg"] {
        assert!(text.parse::<Target>().is_err(), "{text}");
    }
}

#[test]
fn each_lid_of_a_range_has_its_route() {
    let mut topology = line(vec![LFT_NO_PORT, 1, 1, 0, 2, 1]);
    topology.nodes[3].ports[0].info = Some(info(4, 1));
    topology.nodes[1].forwarding.push(2);
    let (from, to) = (topology.end_of(Guid(0x10)).unwrap(), topology.end_of(Guid(0x40)).unwrap());
    assert_eq!(topology.lids_of(to), Some(4..=5));
    assert_eq!(topology.owner_of(5), Some(to));
    assert_eq!(topology.route_between(from, to, Some(4)).unwrap().hops.len(), 4);
    let circles = RouteError::Loop { switch: Guid(0x20), lid: 5 };
    assert_eq!(topology.route_between(from, to, Some(5)), Err(circles));
    let other = RouteError::NotItsLid { node: Guid(0x40), lid: 6, first: 4, last: 5 };
    assert_eq!(topology.route_between(from, to, Some(6)), Err(other));
    let pairs = topology.all_pairs(&Scope { all_lids: true, ..Scope::default() });
    assert_eq!((pairs.pairs, pairs.reached, pairs.looping), (3, 2, 1));
}

#[test]
fn a_route_says_how_sure_it_is() {
    let mut topology = line(GOOD.to_vec());
    let (from, to) = (topology.end_of(Guid(0x10)).unwrap(), topology.end_of(Guid(0x40)).unwrap());
    let route = topology.route_between(from, to, None).unwrap();
    let kind = |known: &[(u64, SwitchRouting)]| {
        let known: BTreeMap<Guid, SwitchRouting> =
            known.iter().map(|(guid, routing)| (Guid(*guid), *routing)).collect();
        topology.route_kind(&route, &known)
    };
    let (fixed, adaptive) = (SwitchRouting::Static, SwitchRouting::Adaptive);
    assert_eq!(kind(&[]), RouteKind::Unknown);
    assert_eq!(kind(&[(0x20, fixed)]), RouteKind::Unknown);
    assert_eq!(kind(&[(0x20, fixed), (0x30, fixed)]), RouteKind::Static);
    assert_eq!(kind(&[(0x30, adaptive)]), RouteKind::Adaptive);
    assert!(topology.route_notes(&route).is_empty());
    topology.nodes[3].description = "Mellanox Technologies Aggregation Node".to_owned();
    assert_eq!(topology.route_notes(&route).len(), 1);
    assert_eq!(topology.all_pairs(&Scope::default()).pairs, 0, "an aggregation node is no host");
    topology.nodes[3].kind = NodeKind::Router;
    assert!(topology.route_notes(&route)[0].contains("router"));
}

/// A ring of switches 0x100, 0x110, … with one host each, all sending one way round.
fn ring(size: usize) -> Topology {
    let mut nodes = Vec::new();
    for index in 0..size {
        let lid = |host: usize| (host + 1) as u16;
        let mut table = vec![LFT_NO_PORT; size + 1];
        for host in 0..size {
            table[usize::from(lid(host))] = if host == index { 3 } else { 1 };
        }
        let (next, before) = ((index + 1) % size, (index + size - 1) % size);
        let ports = vec![
            port(0, None, 0, None),
            port(1, None, 0, Some((next, 2))),
            port(2, None, 0, Some((before, 1))),
            port(3, None, 0, Some((size + index, 1))),
        ];
        nodes.push(node(0x100 + index as u64 * 16, NodeKind::Switch, ports, table));
    }
    for index in 0..size {
        let ports = vec![port(1, None, (index + 1) as u16, Some((index, 3)))];
        nodes.push(node(0x1000 + index as u64 * 16, NodeKind::Ca, ports, Vec::new()));
    }
    Topology::new(nodes, None, 0)
}

#[test]
fn a_one_way_ring_is_a_credit_loop() {
    let scope = Scope { credit_loops: true, ..Scope::default() };
    let pairs = ring(4).all_pairs(&scope);
    assert_eq!(pairs.reached, 12);
    assert_eq!(pairs.credit_loop.map(|cycle| cycle.len()), Some(4));
    let two = ring(2).all_pairs(&scope);
    assert_eq!((two.reached, two.credit_loop), (2, None), "two switches: there and back are two links");
    assert_eq!(line(GOOD.to_vec()).all_pairs(&scope).credit_loop, None);
}

/// Switches cabled at random with tables at random: most ways break somewhere.
fn random_net() -> impl Strategy<Value = Topology> {
    let sizes = (1usize..6, 1usize..6);
    sizes.prop_flat_map(|(switches, hosts)| {
        let homes = proptest::collection::vec(0..switches, hosts);
        let cables = proptest::collection::vec((0..switches, 0..switches), 0..8);
        let tables = proptest::collection::vec(proptest::collection::vec(0u8..14, hosts + 1), switches);
        (homes, cables, tables).prop_map(move |(homes, cables, tables)| {
            let mut ports: Vec<Vec<Port>> = vec![vec![port(0, None, 0, None)]; switches];
            let mut host_nodes = Vec::new();
            for (host, home) in homes.iter().enumerate() {
                let number = ports[*home].len() as u8;
                ports[*home].push(port(number, None, 0, Some((switches + host, 1))));
                let ports = vec![port(1, None, host as u16 + 1, Some((*home, number)))];
                host_nodes.push(node(0x1000 + host as u64 * 16, NodeKind::Ca, ports, Vec::new()));
            }
            for (a, b) in cables {
                let at = (ports[a].len() as u8, ports[b].len() as u8 + u8::from(a == b));
                ports[a].push(port(at.0, None, 0, Some((b, at.1))));
                ports[b].push(port(at.1, None, 0, Some((a, at.0))));
            }
            let tables = tables.into_iter().zip(ports).enumerate();
            let mut nodes: Vec<Node> = tables
                .map(|(index, (table, ports))| {
                    // 13 stands for no entry.
                    let table = table.iter().map(|out| if *out == 13 { LFT_NO_PORT } else { *out });
                    node(0x100 + index as u64 * 16, NodeKind::Switch, ports, table.collect())
                })
                .collect();
            nodes.append(&mut host_nodes);
            Topology::new(nodes, None, 0)
        })
    })
}

proptest! {
    /// Counting along trees gives what walking each pair gives.
    #[test]
    fn counts_are_those_of_single_walks(topology in random_net()) {
        let pairs = topology.all_pairs(&Scope::default());
        let hosts: Vec<PortEnd> = topology
            .nodes
            .iter()
            .enumerate()
            .filter(|(_, node)| node.kind == NodeKind::Ca)
            .map(|(node, _)| PortEnd { node, port: 1 })
            .collect();
        let mut used: HashMap<(usize, u8), u64> = HashMap::new();
        let (mut reached, mut unreached, mut looping, mut links) = (0, 0, 0, 0);
        for from in &hosts {
            for to in hosts.iter().filter(|to| *to != from) {
                match topology.route_between(*from, *to, None) {
                    Ok(route) => {
                        reached += 1;
                        links += route.hops.len() as u64 - 1;
                        for hop in &route.hops[..route.hops.len() - 1] {
                            *used.entry((hop.node, hop.out_port.unwrap())).or_default() += 1;
                        }
                    }
                    Err(RouteError::Loop { .. }) => looping += 1,
                    Err(_) => unreached += 1,
                }
            }
        }
        prop_assert_eq!((pairs.reached, pairs.unreached, pairs.looping), (reached, unreached, looping));
        prop_assert_eq!(pairs.links_passed, links);
        prop_assert_eq!(pairs.usage().iter().map(|link| link.pairs).sum::<u64>(), links);
        for link in pairs.usage() {
            let walked = used.get(&(link.from.node, link.from.port)).copied().unwrap_or(0);
            prop_assert_eq!(link.pairs, walked, "{:?}", link);
        }
        let lost: u64 = pairs.findings.iter().map(|finding| finding.pairs).sum();
        prop_assert_eq!(lost, unreached + looping);
    }
}
