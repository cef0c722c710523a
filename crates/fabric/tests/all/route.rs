//! `route` and `usage` against `ibtracert`, with opensm's routing engines.

use crate::simulated;
use crate::simulated::{
    MESH, ODD, SMALL, Seen, Simulated, read_discover, start, start_unmanaged, start_with, write_net,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::collections::BTreeMap;
use throughline_simfabric::ibsim::SimOptions;

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

/// Pairs compared with ibtracert for each routing engine; more by this variable.
const PAIRS: usize = 20;
const PAIRS_VARIABLE: &str = "THROUGHLINE_TEST_PAIRS";

/// All ways of a fabric hold against each other and against ibtracert.
fn engine_agrees(net: &str, routing: &str, lmc: u8) {
    let options = SimOptions {
        routing: Some(routing.to_owned()),
        lmc,
        manager_sweep_seconds: 0,
        ..SimOptions::default()
    };
    let simulated = start_with(net, options);
    let seen = read_discover(&simulated.crawl(&["discover", "--json"]));
    let mut all = vec!["route", "--all", "--json"];
    let mut usage = vec!["usage", "--top", "0", "--json"];
    if lmc > 0 {
        all.push("--all-lids");
        usage.push("--all-lids");
    }
    let guid = |value: &Value| u64::from_str_radix(&value.as_str().unwrap()[2..], 16).unwrap();
    // (source, LID, way)
    let mut ways: Vec<(u64, u64, Way)> = Vec::new();
    let mut used: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    for line in simulated.crawl(&all).lines() {
        let document: Value = serde_json::from_str(line).unwrap();
        assert!(document["error"].is_null(), "{routing}: {line}");
        let way = ours(line);
        for (guid, _, out) in &way[..way.len() - 1] {
            *used.entry((*guid, out.unwrap())).or_default() += 1;
        }
        ways.push((guid(&document["source"]), document["lid"].as_u64().unwrap(), way));
    }
    let document: Value = serde_json::from_str(&simulated.crawl(&usage)).unwrap();
    let lengths: usize = ways.iter().map(|(_, _, way)| way.len() - 1).sum();
    assert_eq!(document["links_passed"], lengths, "{routing}");
    assert_eq!(document["reached"], ways.len());
    let mut sum = 0;
    for link in document["links"].as_array().unwrap() {
        let (from, pairs) =
            ((guid(&link["guid"]), link["port"].as_u64().unwrap()), link["pairs"].as_u64().unwrap());
        assert_eq!(pairs, used.get(&from).copied().unwrap_or(0), "{routing} {link}");
        sum += pairs;
    }
    assert_eq!(sum, lengths as u64, "the total is the sum of the lengths");
    let pairs = std::env::var(PAIRS_VARIABLE).ok().and_then(|text| text.parse().ok()).unwrap_or(PAIRS);
    let mut state = 11usize;
    for _ in 0..pairs {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (source, lid, way) = &ways[(state >> 33) % ways.len()];
        let lids = [seen[source].lid.to_string(), lid.to_string()];
        let theirs = read_ibtracert(&simulated.tool("ibtracert", &[&lids[0], &lids[1]]));
        let owner = |guid: u64| *seen.range(..=guid).next_back().unwrap().0;
        let theirs: Way = theirs.into_iter().map(|(guid, i, o)| (owner(guid), i, o)).collect();
        assert_eq!(way, &theirs, "{routing}: {source:#x} to LID {lid}");
    }
}

#[test]
fn min_hop_routing() {
    engine_agrees(&SMALL.to_net().unwrap(), "minhop", 0);
    engine_agrees(&write_net(MESH), "minhop", 0);
}

#[test]
fn up_down_routing() {
    engine_agrees(&SMALL.to_net().unwrap(), "updn", 0);
    engine_agrees(&write_net(MESH), "updn", 0);
}

#[test]
fn fat_tree_routing() {
    engine_agrees(&SMALL.to_net().unwrap(), "ftree", 0);
}

#[test]
fn other_routing_engines() {
    engine_agrees(&write_net(MESH), "lash", 0);
    engine_agrees(&write_net(MESH), "dor", 0);
    engine_agrees(&SMALL.to_net().unwrap(), "sssp", 0);
}

#[test]
fn several_lids_a_port() {
    engine_agrees(&SMALL.to_net().unwrap(), "minhop", 2);
    engine_agrees(&write_net(MESH), "updn", 1);
}

#[test]
fn broken_routes_are_found() {
    let mut simulated = start(&write_net(MESH));
    let check = |simulated: &Simulated| {
        let mut command = simulated.fabric.client(simulated::CRAWLER, None).unwrap();
        let output = command.args(["route", "--check", "--json"]).output().unwrap();
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code().unwrap(), document)
    };
    let (status, sound) = check(&simulated);
    assert_eq!(sound["findings_total"], 0);
    assert_eq!(status == 0, sound["credit_loop_lanes"]["verdict"] != "remains", "{sound}");
    // A cable is cut, and the manager sleeps: tables still lead into it.
    let manager = Pid::from_raw(i32::try_from(simulated.fabric.pids()[1]).unwrap());
    kill(manager, Signal::SIGSTOP).unwrap();
    simulated.fabric.console("Unlink \"S-0000000000003000\"[3]").unwrap();
    let (status, broken) = check(&simulated);
    kill(manager, Signal::SIGCONT).unwrap();
    assert_eq!(status, 2);
    assert!(broken["unreached"].as_u64().unwrap() > 0, "{broken}");
    let finding = &broken["findings"][0];
    assert_eq!((&finding["fault"], &finding["port"]), (&Value::from("no_neighbour"), &Value::from(3)));
}

/// On a torus shortest paths wait for each other in circles, which dfsssp breaks by lanes: judged as if there were one
/// lane it would never be sound.
#[test]
fn credit_loops_are_judged_by_lane() {
    let net = throughline_simfabric::torus(&[5, 5], 1, "4xEDR").unwrap();
    let check = |routing: &str, json: bool| {
        let options = SimOptions {
            routing: Some(routing.to_owned()),
            manager_sweep_seconds: 0,
            ..SimOptions::default()
        };
        let simulated = start_with(&net, options);
        let mut command = simulated.fabric.client(simulated::CRAWLER, None).unwrap();
        command.args(["route", "--check"]).args(json.then_some("--json"));
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (status, text) = check("dfsssp", true);
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["credit_loop_lanes"]["verdict"], "broken", "{text}");
    assert_eq!((status, document["credit_loop"].is_array()), (Some(0), true), "{text}");
    let (status, text) = check("minhop", false);
    assert_eq!(status, Some(2), "{text}");
    assert!(text.contains("in a circle (credit loop), from virtual lane 0 on: "), "{text}");
}

#[test]
fn nodes_are_named_in_many_ways() {
    let simulated = start(&write_net(ODD));
    let route = |arguments: &[&str]| {
        let mut command = simulated.fabric.client(simulated::CRAWLER, None).unwrap();
        let output = command.arg("route").args(arguments).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        (output.status.code().unwrap(), text)
    };
    let (status, text) = route(&["alpha", "delta", "--json"]);
    assert_eq!(status, 0, "{text}");
    let (status, text) = route(&["beta", "delta"]);
    assert!(status == 64 && text.contains("beta HCA-1") && text.contains("beta HCA-2"), "{text}");
    assert_eq!(route(&["beta HCA-2", "0x2040"]).0, 0);
    assert_eq!(route(&["alpha", "nobody"]).0, 64);
    assert_eq!(route(&["alpha"]).0, 64);
    assert_eq!(route(&["alpha", "delta", "--lid", "40000"]).0, 64);
    let seen = read_discover(&simulated.crawl(&["discover", "--json"]));
    let lid = seen[&0x2040].lid.to_string();
    assert_eq!(route(&["core A", &lid]).0, 0);
    assert_eq!(route(&["alpha", "delta", "--all-lids"]).0, 0);
}

#[test]
fn without_a_manager_there_are_no_routes() {
    let simulated = start_unmanaged(&write_net(MESH));
    for arguments in [&["route", "host0", "host1"][..], &["route", "--check"], &["usage"]] {
        let mut command = simulated.fabric.client(simulated::CRAWLER, None).unwrap();
        let output = command.args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(69), "{arguments:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("subnet manager"));
    }
}
