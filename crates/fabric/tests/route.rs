//! `route` against `ibtracert`.
#![allow(clippy::unwrap_used, missing_docs)]

mod simulated;

use serde_json::Value;
use simulated::{MESH, ODD, SMALL, Seen, Simulated, read_discover, start, write_net};

/// What `ibtracert` says: `(GUID, port in, port out)` of each node.
type Way = Vec<(u64, Option<u64>, Option<u64>)>;

fn read_ibtracert(text: &str) -> Way {
    // From ca {0x…} portnum 1 lid 4-4 "…"
    // [1] -> switch port {0x…}[7] lid 2-2 "…"
    // To ca {0x…} portnum 1 lid 9-9 "…"
    let mut way = Way::new();
    for line in text.lines() {
        let guid = || {
            u64::from_str_radix(line.split(['{', '}']).nth(1).unwrap().trim_start_matches("0x"), 16).unwrap()
        };
        let bracket = |index: usize| line.split(['[', ']']).nth(index).unwrap().parse().unwrap();
        if line.starts_with("From ") {
            way.push((guid(), None, None));
        } else if line.starts_with('[') {
            way.last_mut().unwrap().2 = Some(bracket(1));
            way.push((guid(), Some(bracket(3)), None));
        }
    }
    way
}

fn ours(text: &str) -> Way {
    let document: Value = serde_json::from_str(text).unwrap();
    let guid = |value: &Value| u64::from_str_radix(&value.as_str().unwrap()[2..], 16).unwrap();
    let hops = document["hops"].as_array().unwrap();
    hops.iter().map(|hop| (guid(&hop["guid"]), hop["in_port"].as_u64(), hop["out_port"].as_u64())).collect()
}

/// Compares pairs of nodes chosen by a fixed scatter. ibtracert names end ports by port GUID, switches by node
/// GUID; ours are node GUIDs throughout.
fn agree(simulated: &Simulated, seen: &Seen, pairs: usize) {
    let nodes: Vec<(&u64, &simulated::SeenNode)> = seen.iter().collect();
    let mut state = 7usize;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % nodes.len()
    };
    let mut compared = 0;
    while compared < pairs {
        let (from, to) = (nodes[next()], nodes[next()]);
        if from.0 == to.0 {
            continue;
        }
        let lids = [from.1.lid.to_string(), to.1.lid.to_string()];
        let theirs = read_ibtracert(&simulated.tool("ibtracert", &[&lids[0], &lids[1]]));
        let guids = [format!("{:#x}", from.0), format!("{:#x}", to.0)];
        let route = simulated.crawl(&["route", "--json", &guids[0], &guids[1]]);
        let owner = |guid: u64| {
            // A port GUID belongs to the node just below it.
            *seen.range(..=guid).next_back().unwrap().0
        };
        let theirs: Way = theirs.into_iter().map(|(guid, i, o)| (owner(guid), i, o)).collect();
        assert!(theirs.len() >= 2);
        assert_eq!(ours(&route), theirs, "{from:?} to {to:?}");
        compared += 1;
    }
}

#[test]
fn a_fat_tree() {
    let simulated = start(&SMALL.to_net().unwrap());
    let seen = read_discover(&simulated.crawl(&["discover", "--json"]));
    agree(&simulated, &seen, 40);
    let table = simulated.crawl(&["route", "0x2c90300000010", "0x2c90300000181"]);
    assert!(table.contains("leaf001") && table.contains("node0024"), "a port GUID will do: {table}");
}

#[test]
fn a_mesh_and_odd_hosts() {
    for net in [MESH, ODD] {
        let simulated = start(&write_net(net));
        let seen = read_discover(&simulated.crawl(&["discover", "--json"]));
        agree(&simulated, &seen, 15);
    }
}
