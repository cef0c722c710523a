//! The real agent on a node of doubles: what it shows, keeps, and does when it is stopped.

use crate::bench::Node;
use std::io::Write;
use std::process::{Command, Stdio};
use throughline_prefix::Set;
use throughline_sample::Guid;

/// What `promtool check metrics` says; empty when all is well.
fn promtool(text: &str) -> String {
    let prefix = throughline_prefix::ensure(Set::Fabric).unwrap();
    let mut promtool = Command::new(prefix.program("promtool"));
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = promtool.spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    format!("{}{}", String::from_utf8_lossy(&said), if output.status.success() { "" } else { "failed" })
}

#[test]
fn once_reports_why_a_source_has_nothing() {
    let json = Node::bare().with("MPI__ENABLED", "false").once();
    assert_eq!(json["node"], "n1");
    let nvml = &json["sources"]["nvml"];
    assert_eq!((&nvml["up"], &nvml["state"]), (&false.into(), &"library_missing".into()));
    assert!(nvml["reason"].as_str().unwrap().contains("libnvidia-ml.so.1"), "{nvml}");
}

#[test]
fn once_prints_a_sample_of_each_gpu_link() {
    let json = Node::bare().with("MPI__ENABLED", "false").with_gpus("hgx-h200").once();
    let nvml = &json["sources"]["nvml"];
    assert_eq!((&nvml["up"], &nvml["reason"]), (&true.into(), &serde_json::Value::Null));
    assert_eq!(nvml["gpus"].as_array().unwrap().len(), 8);
    let links = nvml["links"].as_array().unwrap();
    assert_eq!(links.len(), 8 * 18);
    assert!(links.iter().all(|link| link["transmit_bytes"].is_u64() && link["gpu"].is_string()), "{links:?}");
}

#[test]
fn metrics_pass_promtool_and_a_stop_leaves_everything_in_the_spool() {
    let node = Node::bare().with_gpus("hgx-h200").with("NVML__UNFOLD_PCIE", "true");
    let node = node.with_adapter("mlx5_0", Guid(0x506b_4b03_005c_2740));
    let mut agent = node.run();
    let text = agent.wait_for(&[
        "node_infiniband_port_data_transmitted_bytes_total{device=\"mlx5_0\",port=\"1\"} 4096",
        "node_infiniband_info{device=\"mlx5_0\"",
        "throughline_source_up{source=\"sysfs\"} 1",
        "throughline_source_up{source=\"mpi\"} 1",
        "throughline_connected_ranks{source=\"mpi\"} 0",
        "throughline_nvlink_transmit_bytes_total{gpu=",
        "throughline_pcie_receive_bytes_total{gpu=",
        "throughline_gpu_info{",
        "throughline_source_up{source=\"nvml\"} 1",
        "throughline_records_total{source=\"spool\"}",
        "throughline_source_info{source=\"nvml\",state=\"running\"} 1",
        "throughline_delivery_failures_total{source=\"delivery\"}",
    ]);
    assert_eq!(promtool(&text), "");
    let (status, log) = agent.stop();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(!log.contains("panicked") && !log.contains("ERROR"), "{log}");

    let batches = node.spooled();
    assert!(batches.iter().all(|batch| batch.node == "n1" && !batch.boot_id.is_empty()));
    assert!(batches.windows(2).all(|pair| pair[0].order < pair[1].order));
    let links: usize = batches.iter().map(|batch| batch.gpu_links.len()).sum();
    assert!(links >= 8 && links.is_multiple_of(8), "{links}");
    let nodes: Vec<_> = batches.iter().flat_map(|batch| &batch.nodes).collect();
    assert_eq!(nodes.len(), 1);
    assert_eq!(nodes[0].hca_guids, [0x506b_4b03_005c_2740]);
    assert!(batches.iter().any(|batch| !batch.host_ports.is_empty()));
    assert!(
        batches.iter().any(|batch| !batch.gpus.is_empty() && batch.gpu_links.is_empty()),
        "inventory apart"
    );
    assert!(batches.iter().any(|batch| batch.self_stats.iter().any(|figure| figure.name == "source_up")));
    assert!(batches.iter().any(|batch| batch.coverage.iter().any(|round| round.source == "nvml")));
}

#[test]
fn a_second_agent_on_the_same_spool_is_refused() {
    let node = Node::bare();
    let mut agent = node.run();
    let second = node.command("run").output().unwrap();
    let message = String::from_utf8_lossy(&second.stderr);
    assert_eq!(second.status.code(), Some(69), "{message}");
    assert!(message.contains("in use by another process"), "{message}");
    agent.wait_for(&["throughline_records_total{source=\"agent\"}"]);
    assert!(agent.stop().0.success());
}

#[test]
fn a_socket_that_a_living_agent_serves_is_refused_and_a_dead_ones_is_taken_over() {
    let node = Node::bare();
    let mut agent = node.run();
    let other = Node::bare().with("MPI__SOCKET", node.socket().to_str().unwrap());
    let second = other.command("run").output().unwrap();
    let message = String::from_utf8_lossy(&second.stderr);
    assert_eq!(second.status.code(), Some(69), "{message}");
    assert!(message.contains("mpi.socket") && message.contains("another agent"), "{message}");
    // Asking what there is takes nothing away from the agent that runs.
    let mpi = &other.once()["sources"]["mpi"];
    assert!(mpi["reason"].as_str().unwrap().contains("in use"), "{mpi}");
    agent.kill();
    assert!(node.socket().exists());
    let mut agent = node.run();
    agent.wait_for(&["throughline_source_up{source=\"mpi\"} 1"]);
    assert!(agent.stop().0.success());
    assert!(!node.socket().exists());
}

#[test]
fn two_signals_at_once_are_one_request_to_stop() {
    let node = Node::bare();
    let mut agent = node.run();
    let (status, log) = agent.stop_by_two_signals();
    assert!(status.success() && log.contains("left_in_spool"), "{status} {log}");
    assert!(!node.socket().exists());
}
