//! `discover` against `ibnetdiscover`: nodes, ports and both ends of each cable.

use crate::simulated;
use crate::simulated::{
    MESH, ODD, SMALL, Seen, Simulated, read_discover, read_ibnetdiscover, start, write_net,
};

fn agree(simulated: &Simulated) -> Seen {
    let expected = read_ibnetdiscover(&simulated.tool("ibnetdiscover", &[]));
    let text = simulated.crawl(&["discover", "--json"]);
    let seen = read_discover(&text);
    assert_eq!(seen, expected);
    keys_are_as_documented(&text);
    for (guid, node) in &seen {
        for (port, (remote, remote_port, link)) in &node.cables {
            let back = &seen[remote].cables[remote_port];
            assert_eq!(back, &(*guid, *port, link.clone()), "a cable has two ends");
        }
    }
    seen
}

/// Readers rely on these keys, and on one entry for each port that a node says to have.
fn keys_are_as_documented(text: &str) {
    let document: serde_json::Value = serde_json::from_str(text).unwrap();
    let keys = |value: &serde_json::Value| -> Vec<String> {
        let mut keys: Vec<String> = value.as_object().unwrap().keys().cloned().collect();
        keys.sort_unstable();
        keys
    };
    assert_eq!(keys(&document), ["nodes"]);
    for node in document["nodes"].as_array().unwrap() {
        assert_eq!(keys(node), ["description", "guid", "lid", "port_guid", "ports", "system_guid", "type"]);
        for (index, port) in node["ports"].as_array().unwrap().iter().enumerate() {
            assert_eq!(
                keys(port),
                ["guid", "lid", "lmc", "num", "rate_bytes_per_second", "remote", "speed", "state", "width"]
            );
            assert_eq!(port["num"], index + 1);
            if !port["remote"].is_null() {
                assert_eq!(keys(&port["remote"]), ["guid", "num"]);
            }
        }
    }
}

#[test]
fn a_fat_tree() {
    let simulated = start(&SMALL.to_net().unwrap());
    let seen = agree(&simulated);
    assert_eq!(seen.len(), SMALL.nodes());
    let table = simulated.crawl(&["discover"]);
    let summary = "30 nodes: 6 switches, 24 others; 40 cables\n4 switches with hosts, 2 without\n";
    assert!(table.starts_with(summary), "{table}");
    // Each leaf is a group with its hosts, each host stands once.
    let groups: Vec<&str> = table.split("\n\n").skip(1).collect();
    assert_eq!(groups.len(), 6, "{table}");
    assert!(groups[0].contains(" leaf001: switch, LID ") && groups[5].contains(" spine002: "), "{table}");
    let heading = groups[0].lines().next().unwrap();
    assert!(heading.ends_with(", 6 hosts, 4 links to 2 switches"), "{heading}");
    assert_eq!((groups[0].matches("node").count(), table.matches("node0001").count()), (6, 1), "{table}");
}

#[test]
fn odd_hosts_and_cables() {
    let simulated = start(&write_net(ODD));
    let seen = agree(&simulated);
    assert_eq!(seen.len(), ODD.len());
    assert_eq!(seen[&0x2000].cables.len(), 2, "both ports of one adapter");
    assert_eq!(seen[&0x2030].cables.keys().collect::<Vec<_>>(), [&2], "only the second port");
    assert_eq!(seen[&0x1000].cables[&4].2, "12xQDR");
    let document: serde_json::Value =
        serde_json::from_str(&simulated.crawl(&["discover", "--json"])).unwrap();
    let nodes = document["nodes"].as_array().unwrap();
    let gamma = nodes.iter().find(|node| node["guid"] == "0x0000000000002030").unwrap();
    assert_eq!(gamma["ports"].as_array().unwrap().len(), 2);
    let alpha = nodes.iter().find(|node| node["guid"] == "0x0000000000002000").unwrap();
    let of_ports = |key: &str| [0, 1].map(|port: usize| alpha["ports"][port][key].clone());
    assert_eq!(of_ports("guid"), ["0x0000000000002001", "0x0000000000002002"], "each port has its own");
    let lids = of_ports("lid").map(|lid| lid.as_u64().unwrap());
    assert!(lids[0] != lids[1] && lids.iter().all(|lid| *lid > 0) && alpha["lid"] == lids[0], "{alpha}");
    assert!(gamma["ports"][0]["state"].is_null(), "an adapter's port that was not reached is not queried");
}

#[test]
fn a_mesh() {
    let mut simulated = start(&write_net(MESH));
    let seen = agree(&simulated);
    assert_eq!(seen.len(), MESH.len());
    // A cut cable is gone from both ends.
    simulated.fabric.console("Unlink \"S-0000000000003000\"[3]").unwrap();
    let cut = agree(&simulated);
    assert!(!cut[&0x3000].cables.contains_key(&3) && !cut[&0x3030].cables.contains_key(&3));
    assert_eq!(cut.len(), MESH.len());
}

/// FDR10 is reported in an attribute of the vendor's, which is requested only of devices that have it.
#[test]
fn a_vendors_speed() {
    let net = write_net(ODD).replace("devid=0x1017", "devid=0x1003").replace("4xQDR", "4xFDR10");
    let simulated = start(&net);
    let seen = agree(&simulated);
    assert_eq!(seen[&0x2000].cables[&1].2, "4xFDR10");
    assert_eq!(seen[&0x1000].cables[&4].2, "12xQDR", "the same attribute says no");
}

#[test]
fn names_from_a_map() {
    let simulated = start(&write_net(ODD));
    let map = simulated.fabric.folder().join("names");
    std::fs::write(&map, "# racks\n0x1000 \"rack 7, top\"\n").unwrap();
    let table = simulated.crawl(&["discover", "--node-name-map", map.to_str().unwrap()]);
    assert!(table.contains("0x0000000000001000 rack 7, top"), "{table}");
    assert!(!table.contains("core A") && table.contains("core B"), "{table}");
    std::fs::write(&map, "0x1000 rack\n").unwrap();
    let mut command = simulated.fabric.client(simulated::CRAWLER, None).unwrap();
    let output = command.args(["discover", "--node-name-map", map.to_str().unwrap()]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(64), "{said}");
    assert!(said.contains("line 1") && said.contains("quotes"), "{said}");
}
