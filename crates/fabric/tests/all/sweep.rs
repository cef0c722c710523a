//! `sweep` against `perfquery -x` and `perfquery`, on ports whose counters were set by hand.

use crate::simulated;
use crate::simulated::{ODD, SMALL, Simulated, start, write_net};
use serde_json::Value;
use std::collections::BTreeMap;
use throughline_infiniband::mad::counter_metrics;
use throughline_infiniband::topology::FatTree;

/// `perfquery`'s names of the counters, its words for data, and our names.
const CLASSIC: [(&str, &str); 13] = [
    ("SymbolErrorCounter", "symbol_error"),
    ("LinkErrorRecoveryCounter", "link_error_recovery"),
    ("LinkDownedCounter", "link_downed"),
    ("PortRcvErrors", "receive_errors"),
    ("PortRcvRemotePhysicalErrors", "receive_remote_physical_errors"),
    ("PortRcvSwitchRelayErrors", "receive_switch_relay_errors"),
    ("PortXmitDiscards", "transmit_discards"),
    ("PortXmitConstraintErrors", "transmit_constraint_errors"),
    ("PortRcvConstraintErrors", "receive_constraint_errors"),
    ("LocalLinkIntegrityErrors", "local_link_integrity_errors"),
    ("ExcessiveBufferOverrunErrors", "excessive_buffer_overrun_errors"),
    ("VL15Dropped", "vl15_dropped"),
    ("PortXmitWait", "transmit_wait"),
];
const EXTENDED: [(&str, &str); 8] = [
    ("PortXmitData", "transmit_data_bytes"),
    ("PortRcvData", "receive_data_bytes"),
    ("PortXmitPkts", "transmit_packets"),
    ("PortRcvPkts", "receive_packets"),
    ("PortUnicastXmitPkts", "unicast_transmit_packets"),
    ("PortUnicastRcvPkts", "unicast_receive_packets"),
    ("PortMulticastXmitPkts", "multicast_transmit_packets"),
    ("PortMulticastRcvPkts", "multicast_receive_packets"),
];

/// `Name:......value` lines.
fn read_perfquery(text: &str) -> BTreeMap<String, u128> {
    let pair = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_owned(), value.trim_start_matches('.').parse().ok()?))
    };
    text.lines().filter_map(pair).collect()
}

/// Lines of a sweep by node GUID and port.
fn sweep(simulated: &Simulated) -> BTreeMap<(String, u64), Value> {
    read_sweep(&simulated.crawl(&["sweep", "--once", "--json"]))
}

fn read_sweep(text: &str) -> BTreeMap<(String, u64), Value> {
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.map(|v| ((v["guid"].as_str().unwrap().to_owned(), v["num"].as_u64().unwrap()), v)).collect()
}

/// The value of an integer of any size; serde_json would round what is beyond 64 bits.
fn exact(text: &str, guid: &str, port: u64, key: &str) -> u128 {
    let start = format!("{{\"guid\":\"{guid}\",\"num\":{port},");
    let line = text.lines().find(|line| line.starts_with(&start)).unwrap();
    let (_, rest) = line.split_once(&format!("\"{key}\":")).unwrap();
    rest.split([',', '}']).next().unwrap().parse().unwrap()
}

#[test]
fn counters_set_by_hand() {
    let mut simulated = start(&SMALL.to_net().unwrap());
    let switch = FatTree::switch_id(4);
    let host = FatTree::host_id(20);
    let set = |id: &str, port: u8, what: &str| format!("PerformanceSet \"{id}\"[{port}] {what}\n");
    let mut commands = String::new();
    let classic_values = [
        ("SymbolErrorCounter", 41_234),
        ("LinkErrorRecoveryCounter", 250),
        ("LinkDownedCounter", 7),
        ("PortRcvErrors", 65_534),
        ("PortRcvRemotePhysicalErrors", 3),
        ("PortRcvSwitchRelayErrors", 40_000),
        ("PortXmitDiscards", 5),
        ("PortXmitConstraintErrors", 6),
        ("PortRcvConstraintErrors", 8),
        ("LocalLinkIntegrityErrors", 14),
        ("ExcessiveBufferOverrunErrors", 9),
        ("VL15Dropped", 10),
        ("PortXmitWait", 4_000_000_000_u32),
    ];
    for (name, value) in classic_values {
        commands += &set(&switch, 3, &format!("PortCounters.{name}={value}"));
        commands += &set(&host, 1, &format!("PortCounters.{name}={value}"));
    }
    for (place, (name, _)) in EXTENDED.iter().enumerate() {
        let value = 123_456_789_012_345_u64 * (place as u64 + 1);
        commands += &set(&switch, 3, &format!("PortCountersExtended.{name}={value}"));
    }
    // Saturated: a 16-bit, an 8-bit, a 4-bit and a 32-bit one.
    for name in [
        "SymbolErrorCounter=70000",
        "LinkDownedCounter=255",
        "LocalLinkIntegrityErrors=15",
        "PortXmitWait=4294967295",
    ] {
        commands += &set(&switch, 4, &format!("PortCounters.{name}"));
    }
    // 64 bits of words are 66 bits of bytes.
    commands += &set(&switch, 5, "PortCountersExtended.PortXmitData=18446744073700000000");
    simulated.fabric.console(&commands).unwrap();

    let text = simulated.crawl(&["sweep", "--once", "--json"]);
    let swept = read_sweep(&text);
    let switch_guid = FatTree::switch_guid(4).to_string();
    let host_guid = FatTree::host_guid(20).to_string();
    for (guid, port) in [(&switch_guid, 3), (&host_guid, 1), (&switch_guid, 4), (&switch_guid, 5)] {
        let line = &swept[&(guid.clone(), port)];
        let (lid, number, port) = (line["lid"].to_string(), port, port.to_string());
        let classic = read_perfquery(&simulated.tool("perfquery", &[&lid, &port]));
        let extended = read_perfquery(&simulated.tool("perfquery", &["-x", &lid, &port]));
        let saturated: Vec<&str> =
            line["saturated"].as_array().unwrap().iter().map(|v| v.as_str().unwrap()).collect();
        for (theirs, ours) in CLASSIC {
            let width = match theirs {
                "LocalLinkIntegrityErrors" | "ExcessiveBufferOverrunErrors" => 4,
                "LinkErrorRecoveryCounter"
                | "LinkDownedCounter"
                | "PortXmitConstraintErrors"
                | "PortRcvConstraintErrors" => 8,
                "PortXmitWait" => 32,
                _ => 16,
            };
            if classic[theirs] == (1 << width) - 1 {
                assert!(line[ours].is_null() && saturated.contains(&ours), "{guid} {port} {ours}: {line}");
            } else {
                assert_eq!(exact(&text, guid, number, ours), classic[theirs], "{guid} {port} {ours}");
                assert!(!saturated.contains(&ours));
            }
        }
        for (theirs, ours) in EXTENDED {
            let words = if theirs.ends_with("Data") { 4 } else { 1 };
            let (ours_value, theirs_value) = (exact(&text, guid, number, ours), extended[theirs] * words);
            // MADs themselves are counted: between the two readings a few pass most ports.
            let passed = theirs_value - ours_value;
            assert!(passed < 72 * 4 * 10_000, "{guid} {port} {ours}: {ours_value}, then {theirs_value}");
        }
    }
    let saturated = &swept[&(switch_guid.clone(), 4)]["saturated"];
    assert_eq!(
        *saturated,
        serde_json::json!(["transmit_wait", "symbol_error", "link_downed", "local_link_integrity_errors"])
    );
    let large = exact(&text, &switch_guid, 5, "transmit_data_bytes");
    assert!(large >= 18_446_744_073_700_000_000 * 4, "{large}");
}

#[test]
fn every_linked_port_is_swept_once() {
    for net in [SMALL.to_net().unwrap(), write_net(ODD)] {
        let simulated = start(&net);
        let seen = simulated::read_discover(&simulated.crawl(&["discover", "--json"]));
        let expected: Vec<(String, u64)> = seen
            .iter()
            .flat_map(|(guid, node)| {
                node.cables.keys().map(move |port| (format!("{guid:#018x}"), u64::from(*port)))
            })
            .collect();
        let swept = sweep(&simulated);
        assert_eq!(swept.keys().cloned().collect::<Vec<_>>(), expected);
        for line in swept.values() {
            for metric in &counter_metrics()[..22] {
                assert!(line.get(metric.name).is_some(), "{} is missing", metric.name);
            }
            assert!(line["transmit_data_bytes"].is_u64() && line["qp1_dropped"].is_null());
        }
        // ibqueryerrors' data report covers nothing that the sweep leaves out.
        let report = simulated.tool("ibqueryerrors", &["--counters", "--data"]);
        let mut reported = 0;
        for line in report.lines().filter(|line| line.contains("GUID 0x") && !line.contains("port ALL")) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let guid = u64::from_str_radix(words[1].trim_start_matches("0x"), 16).unwrap();
            let port: u64 = words[3].trim_end_matches(':').parse().unwrap();
            let down = !seen.get(&guid).is_some_and(|node| node.cables.contains_key(&(port as u8)));
            assert!(down || port == 0 || swept.contains_key(&(format!("{guid:#018x}"), port)), "{line}");
            reported += usize::from(!down);
        }
        assert!(reported > 0, "{report}");
    }
}

#[test]
fn a_dead_node_hides_no_other() {
    let mut simulated = start(&SMALL.to_net().unwrap());
    // Drops every counter request to this host; its switch port still answers.
    simulated.fabric.console(&format!("Error \"{}\"[1] 100 18", FatTree::host_id(20))).unwrap();
    let swept = sweep(&simulated);
    let dead = (FatTree::host_guid(20).to_string(), 1);
    assert_eq!(
        swept.len(),
        24 + 40 + 16 - 24 + 24 - 40 + 40,
        "all ports of the net are there or partly there"
    );
    assert!(swept.get(&dead).is_none_or(|line| line["symbol_error"].is_null()));
    let mut command = simulated.fabric.client(simulated::CRAWLER, None).unwrap();
    let output = command.args(["sweep", "--once"]).output().unwrap();
    assert!(output.status.success());
    let (table, said) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(table.contains("of 80 ports read"), "{table}");
    let reported = said.lines().find(|line| line.contains("were not read")).unwrap();
    assert!(
        reported.contains(&FatTree::host_guid(20).to_string()) && reported.contains("ports=[1]"),
        "{reported}"
    );
}
