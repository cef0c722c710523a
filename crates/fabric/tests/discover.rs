//! `discover` against `ibnetdiscover`: nodes, ports and both ends of each cable.
#![allow(clippy::unwrap_used, missing_docs)]

mod simulated;

use simulated::{MESH, ODD, SMALL, Seen, Simulated, read_discover, read_ibnetdiscover, start, write_net};

fn agree(simulated: &Simulated) -> Seen {
    let expected = read_ibnetdiscover(&simulated.tool("ibnetdiscover", &[]));
    let text = simulated.crawl(&["discover", "--json"]);
    let seen = read_discover(&text);
    assert_eq!(seen, expected);
    for (guid, node) in &seen {
        for (port, (remote, remote_port, link)) in &node.cables {
            let back = &seen[remote].cables[remote_port];
            assert_eq!(back, &(*guid, *port, link.clone()), "a cable has two ends");
        }
    }
    seen
}

#[test]
fn a_fat_tree() {
    let simulated = start(&SMALL.to_net().unwrap());
    let seen = agree(&simulated);
    assert_eq!(seen.len(), SMALL.nodes());
    let table = simulated.crawl(&["discover"]);
    assert!(table.contains("30 nodes: 6 switches, 24 others; 40 cables"), "{table}");
}

#[test]
fn odd_hosts_and_cables() {
    let simulated = start(&write_net(ODD));
    let seen = agree(&simulated);
    assert_eq!(seen.len(), ODD.len());
    assert_eq!(seen[&0x2000].cables.len(), 2, "both ports of one adapter");
    assert_eq!(seen[&0x2030].cables.keys().collect::<Vec<_>>(), [&2], "only the second port");
    assert_eq!(seen[&0x1000].cables[&4].2, "12xQDR");
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
