//! All counters, against `perfquery` on ibsim where it has them, else on the simulated fabric: details, 64-bit
//! errors, redirection, epochs over restarts, clearing.

use crate::simulated;
use crate::simulated::{CRAWLER, SMALL, start, succeed};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use throughline_crawler::discover::discover;
use throughline_crawler::engine::{Engine, Settings};
use throughline_crawler::port::FabricPort;
use throughline_crawler::sweep::{ClockPoint, Sweeper, epochs};
use throughline_crawler::transport::Class;
use throughline_infiniband::reading::{PortReading, Selection, Sets};
use throughline_infiniband::topology::{FatTree, Topology};
use throughline_simfabric::{Scenario, SimFabric};

/// `Name:......value` lines of perfquery.
fn read_perfquery(text: &str) -> BTreeMap<String, u64> {
    let pair = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_owned(), value.trim_start_matches('.').parse().ok()?))
    };
    text.lines().filter_map(pair).collect()
}

fn lines(text: &str) -> BTreeMap<(String, u64), Value> {
    let values = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    values.map(|v| ((v["guid"].as_str().unwrap().to_owned(), v["num"].as_u64().unwrap()), v)).collect()
}

#[test]
fn details_agree_with_perfquery() {
    let mut simulated = start(&SMALL.to_net().unwrap());
    let fields = [
        ("PortRcvErrorDetails", "PortLocalPhysicalErrors", "-E", "local_physical_errors", 41_000),
        ("PortRcvErrorDetails", "PortMalformedPktErrors", "-E", "malformed_packet_errors", 2),
        ("PortRcvErrorDetails", "PortBufferOverrunErrors", "-E", "buffer_overrun_errors", 65_534),
        ("PortRcvErrorDetails", "PortDLIDMappingErrors", "-E", "dlid_mapping_errors", 4),
        ("PortRcvErrorDetails", "PortVLMappingErrors", "-E", "vl_mapping_errors", 5),
        ("PortRcvErrorDetails", "PortLoopingErrors", "-E", "looping_errors", 6),
        ("PortXmitDiscardDetails", "PortInactiveDiscards", "-D", "inactive_discards", 7),
        ("PortXmitDiscardDetails", "PortNeighborMTUDiscards", "-D", "neighbor_mtu_discards", 8),
        ("PortXmitDiscardDetails", "PortSwLifetimeLimitDiscards", "-D", "switch_lifetime_limit_discards", 9),
        (
            "PortXmitDiscardDetails",
            "PortSwHOQLifetimeLimitDiscards",
            "-D",
            "switch_hoq_lifetime_limit_discards",
            65_533,
        ),
        (
            "PortFlowCtlCounters",
            "PortXmitFlowPkts",
            "--flowctlcounters",
            "transmit_flow_packets",
            4_000_000_000_u64,
        ),
        ("PortFlowCtlCounters", "PortRcvFlowPkts", "--flowctlcounters", "receive_flow_packets", 12),
        ("PortOpRcvCounters", "PortOpRcvPkts", "--oprcvcounters", "operation_receive_packets", 13),
        ("PortOpRcvCounters", "PortOpRcvData", "--oprcvcounters", "operation_receive_data", 14),
    ];
    let mut commands = String::new();
    for (attribute, name, ..) in fields {
        let value = fields.iter().find(|field| field.1 == name).unwrap().4;
        // The console has the specification's name, perfquery its own.
        let name = name.replace("MalformedPkt", "MalformedPacket");
        commands += &format!("PerformanceSet \"{}\"[3] {attribute}.{name}={value}\n", FatTree::switch_id(4));
    }
    simulated.fabric.console(&commands).unwrap();
    let arguments = ["sweep", "--once", "--json", "--sets", "data,errors,details,flow,vl"];
    let swept = lines(&simulated.crawl(&arguments));
    let port = &swept[&(FatTree::switch_guid(4).to_string(), 3)];
    for (_, name, option, ours, set) in fields {
        let reported = read_perfquery(&simulated.tool("perfquery", &[option, &port["lid"].to_string(), "3"]));
        assert_eq!(port[ours], reported[name], "{name}");
        assert_eq!(reported[name], set, "{name}: the console did not set it");
    }
    assert!(swept.values().all(|port| port["symbol_error"].is_u64()), "optional sets take nothing along");
    let usual = simulated.crawl(&["sweep", "--once", "--json"]);
    assert!(!usual.contains("looping_errors") && usual.contains("symbol_error"));
}

#[test]
fn clear_needs_a_yes_and_clears_only_what_was_chosen() {
    let mut simulated = start(&SMALL.to_net().unwrap());
    let mut commands = String::new();
    for port in [3, 4] {
        for name in ["SymbolErrorCounter=55", "LinkDownedCounter=5", "PortXmitWait=77"] {
            commands +=
                &format!("PerformanceSet \"{}\"[{port}] PortCounters.{name}\n", FatTree::switch_id(4));
        }
    }
    simulated.fabric.console(&commands).unwrap();
    let guid = FatTree::switch_guid(4).to_string();
    let of = |simulated: &simulated::Simulated, port: u64| {
        let swept = lines(&simulated.crawl(&["sweep", "--once", "--json"]));
        let line = &swept[&(guid.clone(), port)];
        ["symbol_error", "link_downed", "transmit_wait"].map(|name| line[name].as_u64().unwrap())
    };
    let clear = ["clear", "--node", &guid, "--ports", "3", "--counters", "symbol_error,transmit_wait"];
    let reported = simulated.crawl(&clear);
    assert!(reported.contains("port 3: would be cleared") && reported.contains("add --yes"), "{reported}");
    assert_eq!(of(&simulated, 3), [55, 5, 77]);
    let reported = simulated.crawl(&[clear.as_slice(), &["--yes"]].concat());
    assert!(reported.contains("port 3: cleared") && !reported.contains("port 4"), "{reported}");
    assert_eq!(of(&simulated, 3), [0, 5, 0]);
    assert_eq!(of(&simulated, 4), [55, 5, 77]);
}

fn crawl(fabric: &SimFabric, arguments: &[&str]) -> String {
    succeed(Command::new(CRAWLER).arg("--transport").arg(fabric.via().to_string()).args(arguments))
}

#[test]
fn errors_beyond_16_bits_are_read_where_the_agent_has_them() {
    let fabric = SimFabric::start(&Scenario::new(SMALL.to_net().unwrap())).unwrap();
    let (wide, narrow) = (FatTree::host_description(2), FatTree::host_description(3));
    fabric
        .control(&format!(
            "pma \"{wide}\" errors64\ncounter \"{wide}\" 1 SymbolErrorCounter 5000000000\n\
             counter \"{wide}\" 1 PortXmitWait 6000000000\ncounter \"{narrow}\" 1 SymbolErrorCounter 70000"
        ))
        .unwrap();
    let swept = lines(&crawl(&fabric, &["sweep", "--once", "--json"]));
    let host = |index: usize| &swept[&(FatTree::host_guid(index).to_string(), 1)];
    assert_eq!(host(2)["symbol_error"], 5_000_000_000_u64);
    assert_eq!(host(2)["transmit_wait"], 6_000_000_000_u64);
    assert_eq!(host(3)["symbol_error"], Value::Null);
    assert!(host(3)["saturated"].as_array().unwrap().contains(&"symbol_error".into()));
}

#[test]
fn a_redirected_agent_is_queried_where_it_is() {
    let fabric = SimFabric::start(&Scenario::new(SMALL.to_net().unwrap())).unwrap();
    let (announced, refused) = (FatTree::host_description(2), FatTree::host_description(4));
    let (one, other) = (FatTree::host_description(3), FatTree::host_description(5));
    fabric
        .control(&format!(
            "counter \"{announced}\" 1 SymbolErrorCounter 21\ncounter \"{refused}\" 1 SymbolErrorCounter 41\n\
             redirect \"{announced}\" \"{one}\" announced\nredirect \"{refused}\" \"{other}\" refused"
        ))
        .unwrap();
    let swept = lines(&crawl(&fabric, &["sweep", "--once", "--json"]));
    let symbol = |index: usize| &swept[&(FatTree::host_guid(index).to_string(), 1)]["symbol_error"];
    assert_eq!((symbol(2), symbol(4)), (&21.into(), &41.into()));
}

/// A crawler in this process.
struct Crawler {
    engine: Engine,
    sweeper: Sweeper,
}

impl Crawler {
    fn new(fabric: &SimFabric) -> Crawler {
        let port = FabricPort::find(&fabric.via(), None, 0).unwrap();
        let mut management = Engine::new(port.open(Class::Management).unwrap(), Settings::default());
        let topology: Topology = discover(&mut management, false, &AtomicBool::new(false)).unwrap().topology;
        let mut engine = Engine::new(port.open(Class::Performance).unwrap(), Settings::default());
        let sweeper = Sweeper::new(&mut engine, &topology, 0, Selection::default(), None);
        Crawler { engine, sweeper }
    }

    fn sweep(&mut self, sets: Sets) -> &[PortReading] {
        let stop = AtomicBool::new(false);
        self.sweeper.sweep_due(&mut self.engine, ClockPoint::now(), &stop, |_, _| sets).unwrap();
        self.sweeper.readings()
    }

    fn epochs(&self) -> BTreeMap<(u64, u8), i64> {
        self.sweeper.readings().iter().map(|port| ((port.guid.0, port.port), port.epoch)).collect()
    }
}

#[test]
fn epochs_outlive_the_process_and_end_with_a_clear() {
    let fabric = SimFabric::start(&Scenario::new(SMALL.to_net().unwrap())).unwrap();
    let host = FatTree::host_description(2);
    fabric.control(&format!("counter \"{host}\" 1 SymbolErrorCounter 9")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("epochs");
    let mut first = Crawler::new(&fabric);
    assert_eq!(epochs::load(&mut first.sweeper, &file).unwrap(), None, "there is no file yet");
    first.sweep(Sets::USUAL);
    epochs::replace(&file, &epochs::text_of(&first.sweeper)).unwrap();
    let before = first.epochs();
    assert!(before.values().all(|epoch| *epoch > 0));
    drop(first);

    let mut second = Crawler::new(&fabric);
    assert_eq!(epochs::load(&mut second.sweeper, &file).unwrap(), Some(before.len()));
    second.sweep(Sets::USUAL);
    assert_eq!(second.epochs(), before, "counting went on");
    drop(second);

    // Only one counter of one port goes back, while nobody looks.
    fabric.control(&format!("counter \"{host}\" 1 SymbolErrorCounter 8")).unwrap();
    let mut third = Crawler::new(&fabric);
    epochs::load(&mut third.sweeper, &file).unwrap();
    let cleared: Vec<_> =
        third.sweep(Sets::USUAL).iter().filter(|port| port.was_cleared).map(|port| port.guid).collect();
    assert_eq!(cleared, [FatTree::host_guid(2)]);
    let changed = third.epochs().iter().filter(|(port, epoch)| before[*port] != **epoch).count();
    assert_eq!(changed, 1);

    std::fs::write(&file, "throughline epochs 1\nnonsense\n").unwrap();
    let error = epochs::load(&mut third.sweeper, &file).unwrap_err().to_string();
    assert!(error.contains("damaged"), "{error}");
}

#[test]
fn a_slow_set_leaves_the_fast_one_as_it_was() {
    let fabric = SimFabric::start(&Scenario::new(SMALL.to_net().unwrap())).unwrap();
    let host = FatTree::host_description(2);
    fabric.control(&format!("counter \"{host}\" 1 PortLoopingErrors 3")).unwrap();
    let mut crawler = Crawler::new(&fabric);
    let ports = crawler.sweep(Sets::USUAL).len();
    let both = crawler.sweep(Sets::USUAL | Sets::DETAILS).to_vec();
    let fast = crawler.sweep(Sets::DATA).to_vec();
    assert_eq!((both.len(), fast.len()), (ports, ports));
    let index =
        throughline_infiniband::mad::counter_index(&throughline_sample::catalogue::LOOPING_ERRORS).unwrap();
    let host = |readings: &[PortReading]| *readings.iter().find(|p| p.guid == FatTree::host_guid(2)).unwrap();
    assert_eq!(host(&both).counters.exact(index), Some(3));
    assert_eq!(host(&fast).counters.exact(index), Some(3), "still known");
    assert_eq!(host(&fast).fresh & (1 << index), 0, "but not of this sweep");
    assert_eq!(host(&fast).fresh_counters().exact(index), None);
}
