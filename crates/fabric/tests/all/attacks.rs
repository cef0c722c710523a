//! A fabric that lies: endless switches, GUIDs and LIDs of others, and what the real crawler makes of it.

use crate::simulated::daemon::{Daemon, Double, until};
use crate::simulated::{CRAWLER, SMALL};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use throughline_infiniband::topology::FatTree;
use throughline_sample::wire::Batch;
use throughline_simfabric::{Scenario, SimFabric};

/// What `[discovery]` allows in these tests: more than twice the real fabric of 30 nodes and 240 ports.
const MAX_PORTS: usize = 20_000;
/// A port of leaf001 without a cable.
const FREE_PORT: u8 = 36;

fn crawler(fabric: &SimFabric, folder: &Path) -> Command {
    let mut command = Command::new(CRAWLER);
    command.current_dir(folder).arg("--transport").arg(fabric.via().to_string());
    command
}

fn configuration(collector: std::net::SocketAddr) -> String {
    format!(
        "[http]\nlisten = '127.0.0.1:0'\n[delivery]\ncollector = 'http://{collector}'\n[sweep]\n\
         interval_seconds = 0.2\nomit_unchanged = false\n[discovery]\ninterval_seconds = 2.0\n\
         light_interval_seconds = 0.5\nports_max = {MAX_PORTS}\n"
    )
}

/// Most memory that a process had, in MB.
fn peak_mb(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() / 1024
}

fn is_real(guid: u64) -> bool {
    let hosts = (0..SMALL.hosts).map(FatTree::host_guid);
    let switches = (0..SMALL.leafs + SMALL.spines).map(FatTree::switch_guid);
    hosts.chain(switches).any(|real| real.0 == guid)
}

/// Ports of the newest sweep: how many of real nodes and how many of others, each once.
fn swept(batches: &[Batch]) -> (usize, usize) {
    let ports: BTreeSet<(u64, u32)> = batches
        .iter()
        .rev()
        .take(20)
        .flat_map(|batch| batch.ib_ports.iter().map(|row| (row.node_guid, row.port)))
        .collect();
    let real = ports.iter().filter(|(guid, _)| is_real(*guid)).count();
    (real, ports.len() - real)
}

fn metric(text: &str, name: &str) -> f64 {
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}\n{text}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn attack_12_a_switch_behind_each_port() {
    let fabric = SimFabric::start(&Scenario::new(SMALL.to_net().unwrap())).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (double, collector) = Double::start(&runtime);
    let folder = tempfile::tempdir().unwrap();
    let command = crawler(&fabric, folder.path());
    let mut daemon = Daemon::spawn(command, &configuration(collector), PathBuf::from("state"));
    // Each end of each cable, counted once.
    let honest = 2 * (SMALL.hosts + SMALL.leafs * SMALL.uplinks);
    until("an honest sweep", || swept(&double.batches()) == (honest, 0));
    let marks = || double.batches().iter().map(|batch| batch.ib_topology_marks.len()).sum::<usize>();
    let retained = folder.path().join("state/fabric-topology");
    until("a topology in the state folder", || retained.exists());
    let memory = std::fs::read(&retained).unwrap();
    fabric.control(&format!("endless leaf001 {FREE_PORT}")).unwrap();
    let has = |kind: &str| double.events().iter().filter(|event| event.kind == kind).count();
    until("the truncation is an event", || has("discovery.truncated") == 1);
    let before = marks();
    let truncated = r#"throughline_truncated_discoveries_total{source="discovery",limit="ports_max"}"#;
    until("three truncated discoveries", || {
        let text = daemon.metrics();
        text.contains(truncated) && metric(&text, truncated) >= 3.0
    });
    // What is real is swept on, all of it, with the link to the liar, and nothing else is believed.
    until("a sweep beside the liar", || swept(&double.batches()) == (honest + 1, 0));
    assert_eq!(marks(), before, "a truncated discovery ends nothing");
    let stored: BTreeSet<u64> =
        double.batches().iter().flat_map(|batch| batch.ib_nodes.iter().map(|node| node.guid)).collect();
    assert!(stored.iter().all(|guid| is_real(*guid)), "made-up nodes are in the inventory");
    assert_eq!((has("discovery.truncated"), has("topology.retained"), has("node.gone")), (1, 1, 0));
    assert_eq!(has("node.new"), 0);
    assert_eq!(std::fs::read(&retained).unwrap(), memory);
    assert_eq!(metric(&daemon.metrics(), "throughline_topology_truncated"), 1.0);
    let (status, text) = daemon.health();
    assert!(status == 200 && text.starts_with("degraded") && text.contains("ports_max"), "{status} {text}");
    // The fabric is honest again, and the discovery whole.
    fabric.control("honest").unwrap();
    until("a whole discovery", || metric(&daemon.metrics(), "throughline_topology_truncated") == 0.0);
    until("its mark", || marks() > before);
    until("a sweep without the liar", || swept(&double.batches()) == (honest, 0));
    assert!(peak_mb(daemon.id()) < 128, "{} MB", peak_mb(daemon.id()));
    assert_eq!(daemon.stop(), 0);
}

#[test]
fn attack_12_commands_end_at_a_bound_and_say_so() {
    let scenario = Scenario::new(SMALL.to_net().unwrap()).with(format!("endless leaf001 {FREE_PORT}"));
    let fabric = SimFabric::start(&scenario).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let output =
        crawler(&fabric, folder.path()).args(["discover", "--json", "--ports-max", "20000"]).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{output:?}");
    let warning = String::from_utf8(output.stderr).unwrap();
    assert!(warning.contains("ports_max"), "{warning}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["truncated"], "ports_max");
    let nodes = document["nodes"].as_array().unwrap();
    let guid = |node: &Value| u64::from_str_radix(&node["guid"].as_str().unwrap()[2..], 16).unwrap();
    let (real, made_up): (Vec<_>, Vec<_>) = nodes.iter().partition(|node| is_real(guid(node)));
    assert_eq!(real.len(), SMALL.hosts + SMALL.leafs + SMALL.spines, "all that is real was found");
    assert!((1..=MAX_PORTS / 255).contains(&made_up.len()), "{}", made_up.len());
    // What a liar calls itself does not reach a terminal as it is.
    assert!(made_up.iter().all(|node| node["description"] == "liar\u{fffd}["));
    let output = crawler(&fabric, folder.path()).args(["check", "--json", "--nodes-max", "100"]).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.lines().next().unwrap().contains("discovery.truncated"), "{said}");
}

#[test]
fn attack_12_a_claimed_guid_takes_nobodys_place() {
    let fabric = SimFabric::start(&Scenario::new(SMALL.to_net().unwrap())).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (double, collector) = Double::start(&runtime);
    let folder = tempfile::tempdir().unwrap();
    let command = crawler(&fabric, folder.path());
    let mut daemon = Daemon::spawn(command, &configuration(collector), PathBuf::from("state"));
    let honest = 2 * (SMALL.hosts + SMALL.leafs * SMALL.uplinks);
    until("an honest sweep", || swept(&double.batches()) == (honest, 0));
    let victim = SMALL.hosts - 1;
    let cable = |batches: &[Batch]| {
        let nodes = batches.iter().flat_map(|batch| &batch.ib_nodes);
        let of = nodes.filter(|node| node.guid == FatTree::host_guid(victim).0);
        of.filter_map(|node| node.ports.first().map(|port| (port.remote_guid, port.remote_port))).next_back()
    };
    let before = cable(&double.batches());
    assert!(before.is_some_and(|(guid, _)| guid.is_some()));
    // Nearer to the crawler than the real one.
    fabric.control(&format!("claim leaf001 {FREE_PORT} \"{}\"", FatTree::host_description(victim))).unwrap();
    let rejected = r#"throughline_replies_rejected_total{source="discovery",reason="other_place"}"#;
    until("claims that are not believed", || {
        let text = daemon.metrics();
        text.contains(rejected) && metric(&text, rejected) >= 5.0
    });
    assert_eq!(cable(&double.batches()), before);
    let events = double.events();
    assert!(events.iter().any(|event| event.kind == "reply.rejected"), "{events:?}");
    assert!(
        !events.iter().any(|event| event.kind == "cable.moved" || event.kind == "node.gone"),
        "{events:?}"
    );
    until("a sweep beside the liar", || swept(&double.batches()) == (honest + 1, 0));
    assert_eq!(daemon.stop(), 0);
}
