//! The crawler on the simulated fabric: the same as on ibsim, and what ibsim can't show.

use crate::simulated::{CRAWLER, MESH, ODD, SMALL, Seen, read_discover, start, succeed, write_net};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;
use throughline_infiniband::topology::FatTree;
use throughline_simfabric::{Scenario, SimFabric};

fn crawl(fabric: &SimFabric, arguments: &[&str]) -> String {
    succeed(Command::new(CRAWLER).arg("--transport").arg(fabric.via().to_string()).args(arguments))
}

/// Without LIDs, which each subnet manager gives in its own order.
fn without_lids(mut seen: Seen) -> Seen {
    seen.values_mut().for_each(|node| node.lid = u64::from(node.lid != 0));
    seen
}

fn sweep(fabric: &SimFabric) -> BTreeMap<(String, u64), Value> {
    let lines = crawl(fabric, &["sweep", "--once", "--json"]);
    let values = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    values
        .map(|value| ((value["guid"].as_str().unwrap().to_owned(), value["num"].as_u64().unwrap()), value))
        .collect()
}

fn host(index: usize) -> (String, u64) {
    (FatTree::host_guid(index).to_string(), 1)
}

#[test]
fn a_net_is_the_same_on_ibsim_and_here() {
    for net in [SMALL.to_net().unwrap(), write_net(ODD), write_net(MESH)] {
        let there = start(&net);
        let here = SimFabric::start(&Scenario::new(net)).unwrap();
        let seen = without_lids(read_discover(&crawl(&here, &["discover", "--json"])));
        assert_eq!(seen, without_lids(read_discover(&there.crawl(&["discover", "--json"]))));
        let ports = |text: String| -> Vec<(String, u64)> {
            let values = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
            let mut ports: Vec<_> = values
                .map(|value| (value["guid"].as_str().unwrap().to_owned(), value["num"].as_u64().unwrap()))
                .collect();
            ports.sort();
            ports
        };
        let arguments = ["sweep", "--once", "--json"];
        assert_eq!(ports(crawl(&here, &arguments)), ports(there.crawl(&arguments)));
    }
}

#[test]
fn a_route_is_as_sure_as_its_switches_report() {
    let fabric = SimFabric::start(&Scenario::new(SMALL.to_net().unwrap())).unwrap();
    let (from, to) = (FatTree::host_description(0), FatTree::host_description(23));
    let kind = |command: &str| -> Value {
        fabric.control(command).unwrap();
        let route: Value = serde_json::from_str(&crawl(&fabric, &["route", &from, &to, "--json"])).unwrap();
        route["kind"].clone()
    };
    // An agent without the attribute belongs to a switch that can only follow its table.
    assert_eq!(kind("adaptive switches unknown"), "static");
    assert_eq!(kind("adaptive leaf001 on"), "adaptive");
    assert_eq!(kind("adaptive switches off"), "static");
    let refused = fabric.control(&format!("adaptive \"{from}\" on")).unwrap_err().to_string();
    assert!(refused.contains("is no switch"), "{refused}");
    assert!(fabric.control("adaptive switches perhaps").unwrap_err().to_string().contains("`unknown`"));
}

#[test]
fn counters_are_read_as_they_were_set() {
    let fabric = SimFabric::start(&Scenario::new(SMALL.to_net().unwrap())).unwrap();
    let node = FatTree::host_description(2);
    fabric
        .control(&format!(
            "counter \"{node}\" 1 PortXmitData 123456789012\ncounter \"{node}\" 1 PortRcvPkts 5\n\
             counter \"{node}\" 1 SymbolErrorCounter 70000\ncounter \"{node}\" 1 VL15Dropped 9\n\
             counter \"{node}\" 1 PortXmitWait 777\ncounter \"{node}\" 1 LocalLinkIntegrityErrors 3"
        ))
        .unwrap();
    let swept = sweep(&fabric);
    let port = &swept[&host(2)];
    assert_eq!(port["transmit_data_bytes"], 123_456_789_012_u64 * 4);
    assert_eq!(port["receive_packets"], 5);
    assert_eq!(port["symbol_error"], Value::Null, "it stands at its end");
    assert!(port["saturated"].as_array().unwrap().contains(&"symbol_error".into()));
    assert_eq!((&port["vl15_dropped"], &port["transmit_wait"]), (&9.into(), &777.into()));
    assert_eq!(port["local_link_integrity_errors"], 3);
    assert_eq!(swept[&host(3)]["transmit_data_bytes"], 0);
}

#[test]
fn traffic_moves_counters_on_the_way() {
    let scenario = Scenario::new(SMALL.to_net().unwrap()).with("clock freeze").with("traffic ring 1G");
    let fabric = SimFabric::start(&scenario).unwrap();
    let before = sweep(&fabric);
    fabric.control("clock advance 2s").unwrap();
    let after = sweep(&fabric);
    let moved = |port: &(String, u64), name: &str| {
        after[port][name].as_u64().unwrap() - before[port][name].as_u64().unwrap()
    };
    for index in 0..SMALL.hosts {
        assert_eq!(moved(&host(index), "transmit_data_bytes"), 2_000_000_000);
        assert_eq!(moved(&host(index), "receive_data_bytes"), 2_000_000_000);
    }
    let sum = |name| after.keys().map(|port| moved(port, name)).sum::<u64>();
    assert_eq!(sum("transmit_data_bytes"), sum("receive_data_bytes"));
    assert_eq!(sum("unicast_transmit_packets"), sum("unicast_receive_packets"));
    assert!(sum("transmit_data_bytes") > 48_000_000_000, "hosts and at least some uplinks");
}

#[test]
fn losses_duplicates_late_and_busy_replies_hide_nothing() {
    let scenario = Scenario::new(SMALL.to_net().unwrap())
        .with("latency 20us exponential 20us")
        .with("loss 0.02")
        .with("duplicate 0.2")
        .with("late 0.02 30ms")
        .with("busy 0.02");
    let fabric = SimFabric::start(&scenario).unwrap();
    let ideal = SimFabric::start(&Scenario::new(SMALL.to_net().unwrap())).unwrap();
    fabric.control("counter leaf002 3 SymbolErrorCounter 5").unwrap();
    ideal.control("counter leaf002 3 SymbolErrorCounter 5").unwrap();
    let arguments = ["--timeout", "20", "--window", "8", "discover", "--json"];
    assert_eq!(read_discover(&crawl(&fabric, &arguments)), read_discover(&crawl(&ideal, &arguments)));
    let (seen, expected) = (sweep(&fabric), sweep(&ideal));
    assert_eq!(seen.len(), expected.len());
    for (port, value) in &expected {
        for name in ["symbol_error", "transmit_data_bytes", "link_downed"] {
            assert_eq!(seen[port][name], value[name], "{port:?} {name}");
        }
    }
}

#[test]
fn dead_nodes_are_named_and_hide_nobody() {
    let fabric = SimFabric::start(&Scenario::new(SMALL.to_net().unwrap())).unwrap();
    let whole = read_discover(&crawl(&fabric, &["discover", "--json"]));
    fabric.control(&format!("dead \"{}\"\ndead leaf003", FatTree::host_description(5))).unwrap();
    let seen = read_discover(&crawl(&fabric, &["--timeout", "20", "discover", "--json"]));
    assert!(!seen.contains_key(&FatTree::host_guid(5).0) && !seen.contains_key(&FatTree::switch_guid(2).0));
    // Behind the dead leaf are 6 hosts, which no directed route reaches without asking it for its ports.
    assert_eq!(seen.len(), whole.len() - 2 - 6);
    fabric.control("alive all").unwrap();
    assert_eq!(read_discover(&crawl(&fabric, &["discover", "--json"])), whole);
}

#[test]
fn agents_of_all_kinds_are_read_by_what_they_can() {
    let scenario =
        Scenario::new(SMALL.to_net().unwrap()).with("pma hosts classic").with("pma leaf* without-casts");
    let fabric = SimFabric::start(&scenario).unwrap();
    let node = FatTree::host_description(0);
    fabric
        .control(&format!("counter \"{node}\" 1 PortXmitData 1000\ncounter leaf001 1 PortRcvData 2000"))
        .unwrap();
    let swept = sweep(&fabric);
    let classic = &swept[&host(0)];
    assert_eq!(
        (&classic["transmit_data_bytes"], &classic["unicast_transmit_packets"]),
        (&4000.into(), &Value::Null)
    );
    let leaf = &swept[&(FatTree::switch_guid(0).to_string(), 1)];
    assert_eq!(
        (&leaf["receive_data_bytes"], &leaf["multicast_receive_packets"]),
        (&8000.into(), &Value::Null)
    );
    let spine = &swept[&(FatTree::switch_guid(4).to_string(), 1)];
    assert_eq!(spine["multicast_receive_packets"], 0);
}

#[test]
fn redirections_are_followed_and_errors_of_64_bits_read() {
    let name = FatTree::host_description;
    let scenario = Scenario::new(SMALL.to_net().unwrap())
        .with(format!("redirect \"{}\" \"{}\" announced", name(1), name(2)))
        .with(format!("redirect \"{}\" \"{}\" refused", name(3), name(4)))
        .with(format!("pma \"{}\" errors64", name(5)));
    let fabric = SimFabric::start(&scenario).unwrap();
    for (host, counter) in
        [(1, "PortXmitData 1000"), (3, "PortXmitData 2000"), (5, "SymbolErrorCounter 70000")]
    {
        fabric.control(&format!("counter \"{}\" 1 {counter}", name(host))).unwrap();
    }
    let swept = sweep(&fabric);
    assert_eq!(swept[&host(1)]["transmit_data_bytes"], 4000, "ClassPortInfo said where to ask");
    assert_eq!(swept[&host(3)]["transmit_data_bytes"], 8000, "the status said so");
    assert_eq!(swept[&host(5)]["symbol_error"], 70_000, "beyond 16 bits");
}
