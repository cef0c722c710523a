//! `throughline-agent gpu …`, and the agent on nodes whose GPU software is missing, old, wrong, hung or crashing.

use crate::bench::{Node, make};
use serde_json::Value;
use std::process::Output;
use std::time::{Duration, Instant};

fn gpu(node: &Node, arguments: &[&str]) -> Output {
    node.command("gpu").args(arguments).output().unwrap()
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_str(&text(output)).unwrap()
}

/// A shape of the NVML double by its path, or any other path.
fn with_library(node: Node, name: &str) -> Node {
    let folder = make("gpu/testdouble", "agent-nvml-double");
    node.with("NVML__LIBRARY", folder.join(name).to_str().unwrap())
}

/// GPUs as sysfs shows those of the HGX scenario, each beside an adapter.
pub fn with_places(node: Node) -> Node {
    let sys = node.path().join("tree");
    for (gpu, bus) in ["1b", "43", "52", "61", "9d", "c3", "d1", "df"].into_iter().enumerate() {
        let bridge = format!("devices/pci0000:{gpu:02x}/0000:{gpu:02x}:01.0");
        let device = sys.join(format!("{bridge}/0000:{bus}:00.0"));
        let hca = sys.join(format!("{bridge}/0000:f{gpu}:00.0/infiniband/mlx5_{gpu}"));
        for folder in [&device, &hca, &sys.join("bus/pci/devices"), &sys.join("class/infiniband")] {
            std::fs::create_dir_all(folder).unwrap();
        }
        std::fs::write(device.join("numa_node"), if gpu < 4 { "0\n" } else { "1\n" }).unwrap();
        std::fs::write(hca.join("../../numa_node"), if gpu < 4 { "0\n" } else { "1\n" }).unwrap();
        std::os::unix::fs::symlink(&device, sys.join(format!("bus/pci/devices/0000:{bus}:00.0"))).unwrap();
        std::os::unix::fs::symlink("../..", hca.join("device")).unwrap();
        std::os::unix::fs::symlink(&hca, sys.join(format!("class/infiniband/mlx5_{gpu}"))).unwrap();
    }
    node.with("SYSFS__ROOT", sys.to_str().unwrap())
}

#[test]
fn topo_draws_the_papers_node() {
    let node = Node::bare().with_gpus("power9-v100");
    let drawn = text(&gpu(&node, &["topo"]));
    for line in [
        "n1: 4 GPUs, 6 logical links, all 24 physical ones up",
        "GPU 0 ══3══ GPU 1  77.3 GB/s",
        "GPU 2 ══3══ GPU 3  77.3 GB/s",
        "GPU 1 ══3══ CPU 00000006:00:00.0  77.3 GB/s",
        "PCIe: sysfs does not show these GPUs",
    ] {
        assert!(drawn.lines().any(|drawn| drawn == line), "{line} is not in\n{drawn}");
    }
    assert!(!drawn.contains("GPU 1 ══3══ GPU 0"), "each pair once\n{drawn}");
    let physical = text(&gpu(&node, &["topo", "--physical"]));
    assert!(physical.contains("       NVLink 4 to its link 4  25.8 GB/s"), "{physical}");
}

#[test]
fn topo_writes_gpus_that_reach_a_switch_alike_on_one_line() {
    let drawn = |scenario: &str| text(&gpu(&Node::bare().with_gpus(scenario), &["topo"]));
    let dgx2 = drawn("dgx2-v100");
    assert_eq!(dgx2.matches(" ══1══ switch ").count(), 12, "{dgx2}");
    assert!(dgx2.contains("GPU 8-15 ══1══ switch 00000000:c6:00.0  25.8 GB/s each\n"), "{dgx2}");
    let faults = drawn("faults");
    let shared = "links, 1 down\nGPU 0, 1, 4, 5 ══4══ switch 00000000:07:00.0  100 GB/s each\n";
    assert!(faults.contains(shared), "{faults}");
    assert!(faults.contains("GPU 2 ══3══ switch 00000000:07:00.0  75.0 GB/s\n"), "{faults}");
    assert!(drawn("pcie-only").contains("links: none\n"));
    // Nothing but the drawing: what the source logs is for a daemon.
    let loud = Node::bare().with_gpus("pcie-only").command("gpu");
    let mut quiet = std::process::Command::new(loud.get_program());
    quiet.args(["gpu", "topo"]).envs(loud.get_envs().filter_map(|(name, value)| Some((name, value?))));
    assert_eq!(String::from_utf8_lossy(&quiet.output().unwrap().stderr), "");
}

#[test]
fn commands_read_by_the_library_that_a_site_has_switched_on() {
    let library = crate::bench::nvml_double().parent().unwrap().join("libamd_smi.so");
    let amd = || {
        Node::bare()
            .with_gpus("mi300x")
            .with("NVML__LIBRARY", "libthroughline-no-such-library.so.1")
            .with("AMD_SMI__ENABLED", "true")
    };
    let node = amd().with("AMD_SMI__LIBRARY", library.to_str().unwrap());
    let drawn = text(&gpu(&node, &["topo", "--physical"]));
    assert!(drawn.contains("8 GPUs, 28 logical links"), "{drawn}");
    assert!(drawn.contains("GPU 0 ══1══ GPU 7  64.0 GB/s") && drawn.contains("xGMI link 6"), "{drawn}");
    let shown = text(&gpu(&node, &["top", "--links", "--count", "1", "--interval", "0.1"]));
    assert!(shown.contains("xGMI link 0") && !shown.contains("NVLink"), "{shown}");
    let reported = json(&gpu(&node, &["doctor", "--json"]));
    let of = |source: &str| -> Vec<Value> {
        let checks = reported["checks"].as_array().unwrap().iter();
        checks.filter(|check| check["source"] == source).map(|check| check["grade"].clone()).collect()
    };
    assert_eq!((of("amd_smi"), of("nvml")), (vec!["ok".into(); 2], vec!["absent".into()]), "{reported}");
    // Switched on and not there is a problem, and both libraries say why.
    let missing = amd().with("AMD_SMI__LIBRARY", "/nowhere/libamd_smi.so");
    assert_eq!(gpu(&missing, &["doctor"]).status.code(), Some(2));
    let said = gpu(&missing, &["topo"]);
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains("nvml: cannot open") && said.contains("amd_smi: cannot open"), "{said}");
}

#[test]
fn topo_reports_programs_the_mesh_of_a_dgx_1() {
    let node = json(&gpu(&Node::bare().with_gpus("dgx1-v100"), &["topo", "--json"]));
    let links = node["logical_links"].as_array().unwrap();
    // 8 GPUs with 4 neighbours each; 24 physical links between pairs.
    assert_eq!((links.len(), node["gpus"].as_array().unwrap().len()), (16, 8));
    assert_eq!(links.iter().map(|link| link["count"].as_u64().unwrap()).sum::<u64>(), 24);
    let pair = links.iter().find(|link| link["from"] == "GPU 0" && link["to"] == "GPU 3").unwrap();
    assert_eq!((&pair["count"], &pair["bytes_per_second"]), (&2.into(), &51_562_000_000_u64.into()));
    assert_eq!(pair["links"][0]["version"], 2);
}

#[test]
fn topo_knows_numa_nodes_and_nearest_adapters() {
    let node = with_places(Node::bare().with_gpus("hgx-h200"));
    let reported = json(&gpu(&node, &["topo", "--json"]));
    let gpus = reported["gpus"].as_array().unwrap();
    for (index, gpu) in gpus.iter().enumerate() {
        assert_eq!(gpu["nearest_hcas"], serde_json::json!([format!("mlx5_{index}")]));
        assert_eq!(
            (&gpu["nearest_hcas_distance"], &gpu["numa_node"]),
            (&"switch".into(), &usize::from(index > 3).into())
        );
    }
    let drawn = text(&gpu(&node, &["topo"]));
    assert!(drawn.contains("NUMA node 1\n") && drawn.contains("0000:1b:00.0  GPU 0"), "{drawn}");
    assert!(drawn.contains("nearest mlx5_7 (switch)"), "{drawn}");
    // The inventory that goes to the database has it, too.
    let once = node.once();
    assert_eq!(once["sources"]["nvml"]["gpus"][5]["nearest_hcas"], serde_json::json!(["mlx5_5"]));
}

#[test]
fn top_shows_how_much_of_a_link_is_used() {
    // Half of a link's speed one way, all of it the other.
    let traffic = "traffic 3 17 tx_rate=13281000000 rx_rate=26562000000";
    let node = Node::bare().with_scenario("hgx-h200", traffic);
    let output = text(&gpu(&node, &["top", "--json", "--count", "1", "--interval", "0.5"]));
    let lines: Vec<Value> = output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let used = |gpu: u64, link: u64| {
        lines.iter().find(|line| line["index"] == gpu && line["link"] == link).unwrap().clone()
    };
    let busy = used(3, 17);
    // The double counts by its own clock, at the moment of the call: a busy machine puts milliseconds between.
    let near = |key: &str, share: f64| (busy[key].as_f64().unwrap() - share).abs() < 0.15;
    assert!(near("transmit_utilisation", 0.5) && near("receive_utilisation", 1.0), "{busy}");
    assert_eq!(used(3, 16)["transmit_utilisation"], 0.0);
    let shown = text(&gpu(&node, &["top", "--links", "--count", "1", "--interval", "0.5"]));
    assert!(shown.contains("NVLink 17") && shown.contains("GPU 7"), "{shown}");
}

#[test]
fn commands_say_that_there_is_no_gpu_and_doctor_says_why() {
    let node = Node::bare();
    for command in ["topo", "top"] {
        let output = gpu(&node, &[command]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(69), "{said}");
        assert!(said.contains("no GPU can be read") && said.contains("gpu doctor"), "{said}");
    }
    let reported = json(&gpu(&node, &["doctor", "--json"]));
    let checks = reported["checks"].as_array().unwrap();
    let library = checks.iter().find(|check| check["what"] == "library").unwrap();
    assert_eq!((&library["grade"], &library["source"]), (&"absent".into(), &"nvml".into()));
    assert!(library["text"].as_str().unwrap().contains("cannot open"), "{library}");
}

#[test]
fn doctor_finds_what_can_be_read_and_what_not() {
    let well = json(&gpu(&Node::bare().with_gpus("dgx2-v100"), &["doctor", "--json"]));
    let grades = |reported: &Value, grade: &str| -> Vec<String> {
        let checks = reported["checks"].as_array().unwrap().iter();
        checks
            .filter(|check| check["grade"] == grade)
            .map(|check| check["what"].as_str().unwrap().to_owned())
            .collect()
    };
    assert!(grades(&well, "problem").is_empty(), "{well}");
    assert!(grades(&well, "ok").iter().any(|what| what == "links"), "{well}");
    let narrow =
        well["checks"].as_array().unwrap().iter().find(|check| check["what"] == "PCIe bytes").unwrap();
    assert!(narrow["remedy"].as_str().unwrap().contains("nvml.unfold_pcie = true"), "{narrow}");
    let output = gpu(&Node::bare().with_gpus("faults"), &["doctor"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("can't be read: nvmlDeviceGetHandleByIndex_v2 answers NVML error 15 (gpu_is_lost)")
            && said.contains("of them down")
            && said.contains("no_permission"),
        "{said}"
    );
}

#[test]
fn the_agent_starts_on_any_node_and_says_what_it_found() {
    let nothing = || Node::bare().with("MPI__ENABLED", "false");
    let no_library = |node: Node| {
        let file = node.path().join("libnvidia-ml.so.1");
        std::fs::write(&file, "no library").unwrap();
        node.with("NVML__LIBRARY", file.to_str().unwrap())
    };
    let cases = [
        (nothing(), "library_missing", "No such file"),
        (no_library(nothing()), "library_unusable", "libnvidia-ml.so.1"),
        (
            with_library(nothing().with_gpus("hgx-h200"), "broken/libnvidia-ml.so.1"),
            "library_unusable",
            "nvmlDeviceGetFieldValues",
        ),
        (nothing().with_scenario("hgx-h200", "fail init 18"), "driver_unavailable", "version_mismatch"),
        (nothing().with_scenario("hgx-h200", "fail init 9"), "driver_unavailable", "load the kernel module"),
        (with_library(nothing().with_gpus("hgx-h200"), "old/libnvidia-ml.so.1"), "running", ""),
        (nothing().with_gpus("pcie-only"), "running", ""),
    ];
    for (node, state, why) in cases {
        let nvml = node.once()["sources"]["nvml"].clone();
        assert_eq!(nvml["state"], state, "{nvml}");
        assert!(nvml["reason"].as_str().unwrap_or_default().contains(why), "{nvml}");
        let mut agent = node.run();
        agent.wait_for(&[&format!("throughline_source_info{{source=\"nvml\",state=\"{state}\"}} 1")]);
        let (status, log) = agent.stop();
        assert!(status.success() && !log.contains("panicked"), "{log}");
    }
}

#[test]
fn what_is_of_a_lost_gpu_or_adapter_leaves_the_page_at_once_and_is_back_when_it_returns() {
    let node = Node::bare().with("MPI__ENABLED", "false").with_scenario("hgx-h200", "");
    let node = node.with_adapter("mlx5_0", throughline_sample::Guid(7));
    let path = node.path().join("scenario");
    let text = std::fs::read_to_string(&path).unwrap();
    let write = |text: &str| {
        let new = path.with_extension("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(&new, &path).unwrap();
    };
    let agent = node.run();
    let infos = |page: &str| page.matches("throughline_gpu_info{").count();
    let page = agent.wait_for(&["throughline_gpu_info{", "throughline_nvlink_transmit_bytes_total{"]);
    assert_eq!(infos(&page), 8);
    let line =
        page.lines().find(|line| line.starts_with("throughline_gpu_info{") && line.contains("index=\"3\""));
    let uuid = line.unwrap().split('"').nth(1).unwrap().to_owned();
    let begin = Instant::now();
    write(&format!("{text}\nlost 3\n"));
    while agent.metrics().contains(&uuid) {
        // Far less than values that nobody reads any more stay.
        assert!(begin.elapsed() < Duration::from_secs(30), "{}", agent.metrics());
        std::thread::sleep(Duration::from_millis(20));
    }
    let page = agent.metrics();
    assert_eq!(infos(&page), 7);
    assert!(page.contains("throughline_source_up{source=\"nvml\"} 1"), "{page}");
    write(&text);
    agent.wait_for(&[&format!("throughline_nvlink_transmit_bytes_total{{gpu=\"{uuid}\"")]);
    assert_eq!(infos(&agent.metrics()), 8);
    // An adapter leaves the bus.
    let port = "node_infiniband_port_data_transmitted_bytes_total{device=\"mlx5_0\"";
    agent.wait_for(&[port]);
    let class = node.path().join("sys/class/infiniband/mlx5_0");
    let aside = node.path().join("aside");
    std::fs::rename(&class, &aside).unwrap();
    let begin = Instant::now();
    agent.wait_without(port);
    assert!(begin.elapsed() < Duration::from_secs(30));
    std::fs::rename(&aside, &class).unwrap();
    agent.wait_for(&[port]);
    let mut agent = agent;
    agent.stop();
    let batches = node.spooled();
    let events: Vec<_> =
        batches.iter().flat_map(|batch| &batch.events).map(|event| event.kind.as_str()).collect();
    for kind in ["gpu.lost", "gpu.returned", "port.gone", "port.back"] {
        assert_eq!(events.iter().filter(|one| **one == kind).count(), 1, "{kind} in {events:?}");
    }
}

/// How many readings of host ports the agent has made.
fn port_records(text: &str) -> f64 {
    let line = text.lines().find(|line| line.starts_with("throughline_records_total{source=\"sysfs\"}"));
    line.and_then(|line| line.rsplit(' ').next()).map_or(0.0, |number| number.parse().unwrap())
}

#[test]
fn a_crash_or_an_endless_wait_of_the_library_costs_no_other_source_a_sample() {
    for fault in ["crash 0", "hang 0"] {
        let node = Node::bare().with("MPI__ENABLED", "false").with_scenario("hgx-h200", fault);
        let node = node.with_adapter("mlx5_0", throughline_sample::Guid(7));
        let agent = node.run();
        let begin = Instant::now();
        // While the library hangs (its deadline is far off) or crashes again and again, ports are read on.
        loop {
            let page = agent.metrics();
            assert!(!page.contains("throughline_source_info{source=\"nvml\",state=\"running\"}"), "{page}");
            if port_records(&page) >= 40.0 {
                assert!(
                    page.contains(
                        "throughline_records_discarded_total{source=\"sysfs\",reason=\"queue_full\"} 0"
                    ),
                    "{page}"
                );
                break;
            }
            assert!(begin.elapsed() < crate::bench::PATIENCE, "{fault}: {page}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
