//! The recorder of the real agent: what sources send stays on the node, whatever becomes of the agent.

use crate::bench::{Node, PATIENCE};
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;
use std::time::{Duration, Instant};
use throughline_sample::{Guid, to_rfc3339};

/// More than the agent may lose when it is killed.
const LOSS: Duration = Duration::from_secs(1);

fn node() -> Node {
    Node::bare().with_adapter("mlx5_0", Guid(0x40))
}

/// Runs `record` on a node; its standard output.
fn record(node: &Node, arguments: &[&str]) -> String {
    let mut command: Command = node.command("recorder");
    let output = command.args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Times of the recorded readings of ports.
fn port_times(node: &Node) -> BTreeSet<String> {
    let text = record(node, &["--json", "--kind", "ports"]);
    let records = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let records: Vec<Value> = records.collect();
    assert!(records.iter().all(|port| port["device"] == "mlx5_0" && port["record"] == "ports"));
    records.iter().map(|port| port["time"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn an_agent_that_is_killed_has_lost_at_most_a_second_of_its_recorder() {
    let node = node();
    let mut agent = node.run();
    let begin = Instant::now();
    while port_times(&node).len() < 5 {
        assert!(begin.elapsed() < PATIENCE);
    }
    let read = |text: &str| {
        let value =
            text.lines().find_map(|line| line.strip_prefix("throughline_records_total{source=\"sysfs\"} "));
        value.unwrap().parse::<f64>().unwrap() as usize
    };
    // Readings, and a coverage record for each.
    let before = read(&agent.metrics()) / 2;
    std::thread::sleep(LOSS);
    agent.kill();
    let killed = port_times(&node);
    assert!(killed.len() >= before, "{} of at least {before}", killed.len());
    // The next agent goes on in the same ring.
    let mut agent = node.run();
    while port_times(&node).len() <= killed.len() {
        assert!(begin.elapsed() < 2 * PATIENCE);
    }
    agent.wait_for(&[
        "throughline_recorder_bytes{source=\"recorder\"} ",
        "throughline_recorder_span_seconds{source=\"recorder\"} ",
        "throughline_records_discarded_total{source=\"recorder\",reason=\"queue_full\"} 0",
    ]);
    assert!(agent.stop().0.success());
    assert!(port_times(&node).is_superset(&killed));
}

#[test]
fn what_is_recorded_is_what_is_sent() {
    let node = node();
    let mut agent = node.run();
    agent.wait_for(&["throughline_records_total{source=\"sysfs\"} 1"]);
    assert!(agent.stop().0.success());
    let sent =
        node.spooled().into_iter().flat_map(|batch| batch.host_ports).map(|port| to_rfc3339(port.time));
    assert_eq!(port_times(&node), sent.collect::<BTreeSet<_>>());
    let summary = record(&node, &[]);
    assert!(
        summary.starts_with("KIND") && summary.lines().any(|line| line.starts_with("ports ")),
        "{summary}"
    );
    assert_eq!(record(&node, &["--to", "1999-01-01T00:00:00Z"]), "no record of that kind and time\n");
}

#[test]
fn a_node_without_a_recorder_says_so() {
    let node = node().with("RECORDER__ENABLED", "false");
    let mut agent = node.run();
    agent.wait_for(&["throughline_records_total{source=\"sysfs\"} 1"]);
    assert!(!agent.metrics().contains("source=\"recorder\""));
    assert!(agent.stop().0.success());
    let output = node.command("recorder").output().unwrap();
    assert_eq!(output.status.code(), Some(69));
    assert!(String::from_utf8_lossy(&output.stderr).contains("[recorder] switched on"));
    let small = node.with("RECORDER__ENABLED", "true").with("RECORDER__BYTES_MAX", "1000");
    let output = small.command("run").output().unwrap();
    assert_eq!(output.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&output.stderr).contains("recorder.bytes_max must be at least 4194304"));
}
