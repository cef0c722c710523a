//! The real agent with CUPTI's doubles: what it finds, and how it gives way.

use crate::bench::{Agent, Node, nvml_double};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A node whose GPUs CUPTI alone shows.
pub fn node(scenario: &str, library: &str) -> Node {
    let doubles = nvml_double().parent().unwrap().to_owned();
    let scenario =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../gpu/scenarios/{scenario}.scenario"));
    Node::bare()
        .with_own_processes()
        .with("MPI__ENABLED", "false")
        .with("CUPTI__ENABLED", "true")
        .with("CUPTI__CUDA", doubles.join("libcuda.so.1").to_str().unwrap())
        .with("CUPTI__LIBRARY", doubles.join(library).to_str().unwrap())
        .with("CUPTI__INTERVAL_SECONDS", "0.05")
        .with("CUPTI__SAMPLES_PER_SECOND", "1000")
        .with_variable("THROUGHLINE_NVML_SCENARIO", scenario.to_str().unwrap())
}

#[test]
fn with_cupti_alone_the_agent_reads_what_it_offers() {
    let json = node("ampere-pm", "libcupti.so").once();
    let cupti = &json["sources"]["cupti"];
    assert_eq!((&cupti["up"], &cupti["state"]), (&true.into(), &"running".into()), "{cupti}");
    let monitors = cupti["performance_monitors"].as_array().unwrap();
    assert_eq!(monitors.len(), 3);
    assert!(monitors[2].get("nvlink_transmit_bytes").is_none(), "the third GPU has no NVLink");
    assert_eq!(json["sources"]["nvml"]["state"], "library_missing");
}

#[test]
fn libraries_of_wrong_releases_are_named_and_stop_nothing() {
    for (library, state, word) in [
        ("13.2/libcupti.so", "library_unusable", "CUPTI 13.2"),
        ("libcuda.so.1", "library_unusable", "is not CUPTI"),
        ("nowhere/libcupti.so", "library_missing", "cupti.library"),
    ] {
        let json = node("ampere-pm", library).once();
        let cupti = &json["sources"]["cupti"];
        assert_eq!((&cupti["up"], &cupti["state"]), (&false.into(), &state.into()), "{cupti}");
        assert!(cupti["reason"].as_str().unwrap().contains(word), "{cupti}");
    }
}

#[test]
fn sums_are_exposed_under_the_catalogues_names() {
    let agent = node("ampere-pm", "libcupti.so").run();
    agent.wait_for(&[
        "throughline_source_up{source=\"cupti\"} 1",
        "throughline_gpu_pm_nvlink_transmit_bytes_total{gpu=\"GPU-9a31c0de-",
        "throughline_gpu_pm_pcie_read_peak_bytes_per_second{gpu=\"GPU-9a31c0de-",
    ]);
}

/// A node whose agent is to sample these metrics, one of them by a wrong name.
fn choosing() -> Node {
    node("ampere-pm", "libcupti.so")
        .with("CUPTI__METRICS", "[\"sm__cycles_active.avg\", \"sm__cycle_active.avg\"]")
        .with("CUPTI__GROUP", "[{ metrics = [\"lts__t_sectors.sum\"], interval_seconds = 0.1 }]")
}

#[test]
fn chosen_metrics_are_exposed_by_name_and_a_wrong_one_costs_itself_alone() {
    let node = choosing();
    let cupti = &node.once()["sources"]["cupti"];
    assert!(cupti["gpu_metrics"].as_array().is_some_and(|metrics| !metrics.is_empty()), "{cupti}");
    let mut agent = node.run();
    let gpu = "GPU-9a31c0de-52b7-4d16-8f0e-000000000001";
    let series = |name: &str, metric: &str| {
        format!("throughline_gpu_metric_{name}{{gpu=\"{gpu}\",metric=\"{metric}\"}} 0")
    };
    let (mean, sum) = (series("value", "sm__cycles_active.avg"), series("sum_total", "lts__t_sectors.sum"));
    agent.wait_for(&[&mean, &sum, SUMS, UP]);
    agent.stop();
    let events = node.spooled().into_iter().flat_map(|batch| batch.events);
    let refused: Vec<String> =
        events.filter(|event| event.kind == "gpu.metric_refused").map(|event| event.text).collect();
    let text = "chip GH100 has no metric sm__cycle_active.avg; the nearest are sm__cycles_active.avg";
    assert_eq!(refused.iter().filter(|said| said.starts_with(text)).count(), 1, "{refused:?}");
}

#[test]
fn doctor_says_which_chosen_metrics_each_chip_has_and_takes_no_monitor() {
    let node = choosing();
    let agent = node.run();
    agent.wait_for(&[RUNNING]);
    let (_, said) = gpu(&node, &["doctor"]);
    let good =
        "GPU 1: chip GH100; group 1 each 0.05 s: 1 metrics, 1 pass; group 2 each 0.1 s: 1 metrics, 1 pass";
    assert!(said.contains(good), "{said}");
    assert!(said.contains("chip AD102 has no metric sm__cycle_active.avg; the nearest are"), "{said}");
    agent.wait_for(&[RUNNING, UP]);
    let (_, said) = gpu(&node.with("CUPTI__METRICS", "[\"a b\"]"), &["doctor"]);
    assert!(said.contains("'a b' has characters"), "{said}");
}

fn gpu(node: &Node, arguments: &[&str]) -> (bool, String) {
    let output = node.command("gpu").args(arguments).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn a_person_pauses_and_resumes_a_running_agent() {
    let node = node("ampere-pm", "libcupti.so");
    let (done, said) = gpu(&node, &["pause"]);
    assert!(!done && said.contains("is throughline-agent running here"), "{said}");
    let mut agent = node.run();
    let running = "throughline_source_info{source=\"cupti\",state=\"running\"} 1";
    let paused = "throughline_source_info{source=\"cupti\",state=\"paused\"} 1";
    agent.wait_for(&[running]);
    let (done, said) = gpu(&node, &["pause", "--for", "600"]);
    assert!(done && said.contains("for 600 s"), "{said}");
    // It is no fault: the source counts as up.
    agent.wait_for(&[paused, "throughline_source_up{source=\"cupti\"} 1"]);
    assert!(gpu(&node, &["resume"]).0);
    agent.wait_for(&[running]);
    assert!(!gpu(&node, &["pause", "--for", "0"]).0);
    agent.stop();
    assert!(!node.state().join("run/agent.sock").exists(), "the socket goes with the agent");
}

#[test]
fn a_jobs_prolog_takes_the_gpus_and_its_epilog_gives_them_back() {
    let node = node("ampere-pm", "libcupti.so");
    let agent = node.run();
    let running = "throughline_source_info{source=\"cupti\",state=\"running\"} 1";
    agent.wait_for(&[running]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/slurm/gpu-lease.sh");
    let leases: PathBuf = node.state().join("run/gpu-leases");
    let slurm = |context: &str, comment: &str| {
        let mut script = Command::new(&script);
        script.env("THROUGHLINE_GPU_LEASES", &leases).env("SLURM_JOB_ID", "4711");
        script.env("SLURM_SCRIPT_CONTEXT", context).env("SLURM_JOB_COMMENT", comment);
        assert!(script.status().unwrap().success());
    };
    slurm("prolog_slurmd", "a job like any other");
    assert!(!leases.exists());
    slurm("prolog_slurmd", "throughline=profile");
    agent.wait_for(&["throughline_source_info{source=\"cupti\",state=\"paused\"} 1"]);
    slurm("epilog_slurmd", "throughline=profile");
    agent.wait_for(&[running]);
}

/// Kinds and texts of the events of CUPTI's source as a whole that the agent has sent.
pub fn events(node: &Node) -> Vec<(String, String)> {
    let batches = node.spooled();
    let events = batches.into_iter().flat_map(|batch| batch.events);
    let of_cupti = events.filter(|event| event.source == "cupti" && event.kind.starts_with("source."));
    of_cupti.map(|event| (event.kind, event.text)).collect()
}

/// What the page has of the monitors.
pub fn has_sums(agent: &Agent) -> bool {
    agent.metrics().lines().any(|line| line.starts_with("throughline_gpu_pm_"))
}

pub const RUNNING: &str = "throughline_source_info{source=\"cupti\",state=\"running\"} 1";
pub const SUMS: &str = "throughline_gpu_pm_nvlink_transmit_bytes_total";
pub const UP: &str = "throughline_source_up{source=\"cupti\"} 1";

#[test]
fn a_pause_takes_the_series_away_and_is_one_event_at_each_end() {
    let node = node("ampere-pm", "libcupti.so");
    let mut agent = node.run();
    agent.wait_for(&[RUNNING, SUMS, "throughline_source_paused{source=\"cupti\"} 0"]);
    assert!(gpu(&node, &["pause", "--for", "600"]).0);
    agent.wait_for(&[
        "throughline_source_info{source=\"cupti\",state=\"paused\"} 1",
        "throughline_source_paused{source=\"cupti\"} 1",
        "throughline_paused_until_timestamp_seconds{source=\"cupti\"}",
        UP,
    ]);
    assert!(!has_sums(&agent), "sums and peaks of before would be a rate of 0");
    assert!(gpu(&node, &["resume"]).0);
    let page = agent.wait_for(&[RUNNING, SUMS, "throughline_source_paused{source=\"cupti\"} 0", UP]);
    assert!(!page.contains("throughline_paused_until"), "{page}");
    agent.stop();
    let events = events(&node);
    let kinds: Vec<&str> = events.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, ["source.paused", "source.resumed"], "{events:?}");
    assert!(events.iter().all(|(_, text)| text.contains("gpu pause")), "{events:?}");
    assert!(events[1].1.starts_with("over after "), "{events:?}");
}

#[test]
fn monitors_that_another_profiler_has_are_busy_and_no_idle_gpus() {
    let base = Path::new(env!("CARGO_MANIFEST_DIR")).join("../gpu/scenarios/ampere-pm.scenario");
    let text = std::fs::read_to_string(base).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let scenario = folder.path().join("scenario");
    let replace = |more: &str| {
        std::fs::write(folder.path().join("new"), format!("{text}\n{more}")).unwrap();
        std::fs::rename(folder.path().join("new"), &scenario).unwrap();
    };
    replace("");
    let node = node("ampere-pm", "libcupti.so")
        .with_variable("THROUGHLINE_NVML_SCENARIO", scenario.to_str().unwrap());
    let mut agent = node.run();
    agent.wait_for(&[RUNNING, SUMS]);
    replace("fail pm_decode 26\nfail pm_enable 26\n");
    agent.wait_for(&[
        "throughline_source_info{source=\"cupti\",state=\"busy\"} 1",
        "throughline_source_paused{source=\"cupti\"} 1",
        UP,
    ]);
    assert!(!has_sums(&agent));
    replace("");
    agent.wait_for(&[RUNNING, SUMS, UP]);
    agent.stop();
    let events = events(&node);
    let kinds: Vec<&str> = events.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, ["source.busy", "source.resumed"], "{events:?}");
    assert!(events.iter().all(|(_, text)| text.contains("another profiler has the GPUs")), "{events:?}");
}
