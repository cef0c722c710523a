//! A fabric that lies: endless switches, GUIDs and LIDs of others, and what the real crawler makes of it.

use crate::simulated::daemon::{Daemon, Double, until};
use crate::simulated::{CRAWLER, SMALL};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use throughline_infiniband::topology::FatTree;
use throughline_sample::wire::{Batch, Coverage};
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

/// What docs/SECURITY.md says of the crawler's memory under attack, in MB.
const PEAK_MB_MAX: u64 = 313;

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

/// The fabric lies from the beginning, so that nothing is known to hold it against, and with as many ports as a discovery may
/// have: nobody answers for them.
#[test]
fn attack_26_ports_that_nobody_answers_for_cost_neither_memory_nor_rows() {
    let scenario = Scenario::new(SMALL.to_net().unwrap()).with(format!("endless leaf001 {FREE_PORT}"));
    let fabric = SimFabric::start(&scenario).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (double, collector) = Double::start(&runtime);
    let folder = tempfile::tempdir().unwrap();
    let configuration = format!(
        "[http]\nlisten = '127.0.0.1:0'\n[delivery]\ncollector = 'http://{collector}'\n[sweep]\n\
         interval_seconds = 0.5\nomit_unchanged = false\n"
    );
    let mut daemon = Daemon::spawn(crawler(&fabric, folder.path()), &configuration, PathBuf::from("state"));
    let unanswered = "throughline_unanswered_ports{source=\"mad\"}";
    until("ports that nobody answers for are known", || {
        let text = daemon.metrics();
        text.contains(unanswered) && metric(&text, unanswered) > 150_000.0
    });
    // Each end of each cable between real nodes, and the end of the cable to the liar.
    let honest = 2 * (SMALL.hosts + SMALL.leafs * SMALL.uplinks) + 1;
    let skipped = "throughline_deferred_reads_total{source=\"mad\"}";
    let before = metric(&daemon.metrics(), skipped);
    let rounds = || {
        let newest = double.newest(20);
        newest.iter().flat_map(|batch| batch.coverage.clone()).collect::<Vec<_>>()
    };
    until("sweeps that read what is real and leave the others out", || {
        let rounds = rounds();
        let is_good = |round: &Coverage| {
            round.read == honest as u64
                && round.reasons.get("unanswered").is_some_and(|ports| *ports > 150_000)
                && round.expected == round.read + round.failed
        };
        rounds.len() >= 3 && rounds.iter().all(is_good)
    });
    assert_eq!(swept(&double.newest(20)), (honest, 0));
    assert!(metric(&daemon.metrics(), skipped) > before);
    let kinds: Vec<String> = double.events().into_iter().map(|event| event.kind).collect();
    let count = |kind: &str| kinds.iter().filter(|one| *one == kind).count();
    assert!(
        (1..=4).contains(&count("counters.unanswered")),
        "an event for a sweep, not for a node: {kinds:?}"
    );
    let (_, health) = daemon.health();
    assert!(health.contains("ports_max") && !health.contains("spool"), "{health}");
    let lost = daemon.metrics();
    let lost = lost.lines().filter(|line| line.starts_with("throughline_entries_discarded_total{"));
    assert!(lost.clone().all(|line| line.ends_with(" 0.0")), "{:?}", lost.collect::<Vec<_>>());
    println!("{} MB at most", peak_mb(daemon.id()));
    assert!(peak_mb(daemon.id()) < PEAK_MB_MAX, "{} MB", peak_mb(daemon.id()));
    assert_eq!(daemon.stop(), 0);
}

/// What costs a liar its place in sweeps costs nobody else theirs: who begins to answer is read.
#[test]
fn a_node_that_never_answered_for_its_counters_is_read_when_it_does() {
    let silent = SMALL.hosts - 1;
    let name = FatTree::host_description(silent);
    let scenario = Scenario::new(SMALL.to_net().unwrap()).with(format!("pma-dead \"{name}\""));
    let fabric = SimFabric::start(&scenario).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (double, collector) = Double::start(&runtime);
    let folder = tempfile::tempdir().unwrap();
    let command = crawler(&fabric, folder.path());
    let mut daemon = Daemon::spawn(command, &configuration(collector), PathBuf::from("state"));
    let honest = 2 * (SMALL.hosts + SMALL.leafs * SMALL.uplinks);
    let ends = |kind: &str| {
        let events = double.events().into_iter().filter(|event| event.kind == kind);
        events.map(|event| event.ib_guid).collect::<Vec<_>>()
    };
    let guid = FatTree::host_guid(silent).0;
    until("it is known not to answer", || ends("counters.unanswered") == [guid]);
    until("sweeps without it", || swept(&double.newest(20)) == (honest - 1, 0));
    let unanswered = "throughline_unanswered_ports{source=\"mad\"}";
    assert_eq!(metric(&daemon.metrics(), unanswered), 1.0);
    fabric.control(&format!("alive \"{name}\"")).unwrap();
    until("it answers", || ends("counters.answered") == [guid]);
    until("sweeps with it", || swept(&double.newest(20)) == (honest, 0));
    assert_eq!((ends("counters.unanswered").len(), metric(&daemon.metrics(), unanswered)), (1, 0.0));
    assert_eq!(daemon.stop(), 0);
}

/// More ports than have a reading before their nodes answered: a command lists those that did not, all the same.
#[test]
fn a_switch_that_does_not_answer_is_listed_in_a_large_fabric() {
    let scenario =
        Scenario::new(throughline_simfabric::fat_tree(8008).unwrap()).with("pma-dead spine097".to_owned());
    let fabric = SimFabric::start(&scenario).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let output = crawler(&fabric, folder.path()).args(["errors", "--json", "--totals"]).output().unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    let unread: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|line| !line["unread"].is_null())
        .collect();
    assert!(!unread.is_empty() && unread.iter().all(|line| line["description"] == "spine097"), "{unread:?}");
    assert!(
        unread.iter().all(|line| line["unread"] == "timeout" || line["unread"] == "silent"),
        "{unread:?}"
    );
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
