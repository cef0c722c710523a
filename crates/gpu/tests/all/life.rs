//! The sampler's process: what it does without a library, after a crash, when it hangs and when it is alone.

use crate::bench::{Bench, PATIENCE, double, ends, sampler};
use std::io::BufRead;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use throughline_doubles::nvml::SCENARIO_VARIABLE;
use throughline_gpu::{End, Pace, State};

fn is_running(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // A zombie has ended.
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with('Z'))
}

fn wait_until_gone(pid: u32) {
    let deadline = Instant::now() + PATIENCE;
    while is_running(pid) {
        assert!(Instant::now() < deadline, "process {pid} is still there");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn no_library_is_a_counted_state_and_it_is_looked_for_again() {
    let bench = Bench::text("").with(|config| config.library = "/nowhere/libnvidia-ml.so.1".into()).start();
    let status = bench.until_status(|status| status.ends.get(&End::LibraryMissing) >= Some(&2));
    assert_ne!(status.state, State::Running);
    let detail = bench.until_status(|status| status.detail.is_some()).detail.unwrap();
    assert!(detail.contains("/nowhere/libnvidia-ml.so.1") && detail.contains("set nvml.library"), "{detail}");
    assert_eq!(status.polls, 0);
    assert_eq!(ends(&status).len(), 1, "no other reason: {:?}", status.ends);
}

#[test]
fn a_library_without_the_fields_is_unusable_and_the_function_is_named() {
    let bench = Bench::scenario("hgx-h200", "").with_library("broken/libnvidia-ml.so.1").start();
    let status = bench.until_status(|status| status.ends.contains_key(&End::LibraryUnusable));
    assert!(status.detail.unwrap().contains("nvmlDeviceGetFieldValues"));
}

#[test]
fn a_driver_that_refuses_is_named_with_the_remedy() {
    let bench = Bench::scenario("hgx-h200", "fail init 18\n").start();
    let status = bench.until_status(|status| status.ends.contains_key(&End::DriverUnavailable));
    let detail = status.detail.unwrap();
    assert!(detail.contains("version_mismatch") && detail.contains("reboot"), "{detail}");
}

#[test]
fn a_gpu_with_nothing_to_count_is_read_on_and_no_fault() {
    // No links, and PCIe counters of 32 bits that the site doesn't have unfolded: an H200 in a virtual machine.
    let bench = Bench::scenario("pcie-only", "")
        .with(|config| (config.unfold_pcie, config.interval) = (false, Duration::from_millis(10)))
        .start();
    let status = bench.until_status(|status| status.polls >= 10);
    assert_eq!((status.state, status.starts, status.gpus), (State::Running, 1, 4));
    assert_eq!(ends(&status).len(), 0, "{:?}", status.ends);
}

#[test]
fn a_node_without_gpus_is_well_and_one_that_gets_a_gpu_is_read() {
    let mut bench = Bench::text("driver 1.0\n").start();
    let status = bench.until_status(|status| status.ends.contains_key(&End::NoGpu));
    assert_eq!(status.polls, 0);
    bench.rewrite("gpu 0 uuid=GPU-new pci=00000000:01:00.0\n");
    let batch = bench.next_batch();
    assert_eq!(batch.gpus[0].uuid, "GPU-new");
}

#[test]
fn a_crash_in_the_library_is_counted_and_the_sampler_comes_back() {
    let mut bench = Bench::scenario("hgx-h200", "crash 4\n").start();
    bench.next_batch();
    let status = bench.until_status(|status| status.ends.get(&End::Crashed) >= Some(&2));
    assert!(status.starts >= 2 && status.polls >= 2);
    let reported = bench.until(|batch| batch.events.iter().any(|event| event.kind == "source.crashed"));
    let event = reported.events.iter().find(|event| event.kind == "source.crashed").unwrap();
    assert!(event.text.contains("signal 6"), "{}", event.text);
}

#[test]
fn a_call_that_never_returns_costs_one_deadline_and_the_sampler_is_killed() {
    let mut bench = Bench::scenario("hgx-h200", "hang 6\n")
        .with(|config| config.pace.silence = Duration::from_millis(400))
        .start();
    bench.next_batch();
    let pid = bench.status().pid.unwrap();
    bench.until_status(|status| status.ends.get(&End::Silent) >= Some(&1));
    wait_until_gone(pid);
    // A new one reads again.
    bench.until_status(|status| status.starts >= 2);
    bench.rewrite(&std::fs::read_to_string(bench.scenario_path()).unwrap().replace("hang 6", ""));
    bench.until_status(|status| status.state == State::Running);
    bench.next_batch();
}

#[test]
fn a_library_that_prints_does_not_damage_the_frames() {
    let mut bench = Bench::scenario("hgx-h200", "print garbage-of-the-library\n").start();
    bench.next_batch();
    bench.next_batch();
    assert!(bench.status().ends.is_empty());
}

#[test]
fn a_program_that_says_something_else_is_refused() {
    let (records, _receiver) = tokio::sync::mpsc::channel(1);
    let config = throughline_gpu::GpuConfig {
        program: "/bin/echo".into(),
        pace: Pace { first_pause: Duration::from_millis(10), ..Pace::default() },
        ..throughline_gpu::GpuConfig::default()
    };
    let source =
        throughline_gpu::GpuSource::start(config, throughline_gpu::default_clock(), records).unwrap();
    let deadline = Instant::now() + PATIENCE;
    while !source.status().ends.contains_key(&End::BadFrame) {
        assert!(Instant::now() < deadline, "{:?}", source.status());
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_program_that_cannot_be_started_is_a_counted_reason() {
    let (records, _receiver) = tokio::sync::mpsc::channel(1);
    let config = throughline_gpu::GpuConfig {
        program: "/nowhere/agent".into(),
        pace: Pace { first_pause: Duration::from_millis(10), ..Pace::default() },
        ..throughline_gpu::GpuConfig::default()
    };
    let source =
        throughline_gpu::GpuSource::start(config, throughline_gpu::default_clock(), records).unwrap();
    let deadline = Instant::now() + PATIENCE;
    while source.status().ends.get(&End::SpawnFailed) < Some(&2) {
        assert!(Instant::now() < deadline, "{:?}", source.status());
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(source.status().detail.unwrap().contains("/nowhere/agent"));
}

#[test]
fn dropping_the_source_ends_the_sampler() {
    let mut bench = Bench::scenario("hgx-h200", "").start();
    bench.next_batch();
    let pid = bench.status().pid.unwrap();
    assert!(is_running(pid));
    bench.stop();
    wait_until_gone(pid);
}

#[test]
fn a_full_channel_costs_batches_and_stops_nothing() {
    let bench =
        Bench::scenario("power9-v100", "").with(|config| config.interval = Duration::from_millis(1)).start();
    let status = bench.until_status(|status| status.dropped_batches > 10);
    assert_eq!(status.state, State::Running);
}

#[test]
fn the_sampler_dies_with_its_parent() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = folder.path().join("scenario");
    std::fs::write(&scenario, "gpu 0 uuid=GPU-0\n").unwrap();
    // The shell is the parent; the sampler gets its id. A long interval: it sleeps when the shell is killed.
    let script = "\"$0\" gpu-sampler --vendor nvml --library \"$1\" --interval-nanoseconds 3600000000000 --survey-nanoseconds \
                  3600000000000 --unfold-pcie false --gpm false --parent $$ >/dev/null & echo $!; wait";
    let mut shell = Command::new("sh")
        .args(["-c", script])
        .arg(sampler())
        .arg(double().join("libnvidia-ml.so.1"))
        .env(SCENARIO_VARIABLE, &scenario)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let pid: u32 = line.trim().parse().unwrap();
    // It must have requested the signal first: it reads the scenario after that.
    let deadline = Instant::now() + PATIENCE;
    let opened = |pid: u32| {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        maps.contains("libnvidia-ml")
    };
    while !opened(pid) {
        assert!(Instant::now() < deadline, "the sampler does not start");
        std::thread::sleep(Duration::from_millis(2));
    }
    shell.kill().unwrap();
    shell.wait().unwrap();
    wait_until_gone(pid);
}

#[test]
fn a_sampler_without_its_parent_does_not_even_start() {
    let arguments = "gpu-sampler --vendor nvml --library x --interval-nanoseconds 1 --survey-nanoseconds 1 --unfold-pcie true --gpm false --parent 1";
    let alone = Command::new(sampler()).args(arguments.split(' ')).output().unwrap();
    assert_eq!((alone.status.code(), alone.stdout.len()), (Some(0), 0));
    let wrong = Command::new(sampler()).args(["gpu-sampler", "--library"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(64));
}

#[test]
fn the_double_refuses_wrong_use() {
    let scenario = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/hgx-h200.scenario");
    let checked = Command::new(double().join("misuse"))
        .arg(double().join("libnvidia-ml.so.1"))
        .env(SCENARIO_VARIABLE, scenario)
        .output()
        .unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}

#[test]
fn a_scenario_with_a_mistake_names_its_line_and_is_not_played() {
    let bench = Bench::text("gpu 0 uuid=GPU-0\nlink 0 0 sped=1\n").start();
    // The double ends its process, so the sampler crashes; the line is on standard error.
    bench.until_status(|status| status.ends.contains_key(&End::Crashed));
    let checked = Command::new(double().join("misuse"))
        .arg(double().join("libnvidia-ml.so.1"))
        .env(SCENARIO_VARIABLE, bench.scenario_path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(said.contains("scenario:2: a link has no 'sped'"), "{said}");
}
