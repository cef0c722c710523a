//! The real agent beside programs that profile: it gives them the GPUs' performance monitors, and takes them again.

use crate::bench::{Agent, Node, nvml_double};
use crate::cupti::{RUNNING, SUMS, UP, events, has_sums, node};
use std::io::{BufRead, BufReader, Lines};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const PAUSED: &str = "throughline_source_info{source=\"cupti\",state=\"paused\"} 1";

/// A node whose processes share the performance monitors, as on hardware.
fn shared() -> Node {
    let base = Path::new(env!("CARGO_MANIFEST_DIR")).join("../gpu/scenarios/ampere-pm.scenario");
    let node = node("ampere-pm", "libcupti.so");
    let (folder, scenario) = (node.path().join("monitors"), node.path().join("scenario"));
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o777)).unwrap();
    let text = std::fs::read_to_string(base).unwrap();
    std::fs::write(&scenario, format!("{text}\nmonitors {}\n", folder.display())).unwrap();
    node.with_variable("THROUGHLINE_NVML_SCENARIO", scenario.to_str().unwrap())
}

/// A program that opens libraries and, as a profiler, the performance monitor.
struct Program {
    child: Child,
    input: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Program {
    /// A program of this name on a node, with an empty library of each of these names. `mode`: `idle` or `takes`.
    fn start(node: &Node, name: &str, mode: &str, libraries: &[&str]) -> Self {
        let doubles = nvml_double().parent().unwrap();
        let copy = |from: &str, to: &str| {
            let to = node.path().join(to);
            std::fs::copy(doubles.join(from), &to).unwrap();
            to
        };
        let program = copy("profiler", name);
        let libraries: Vec<_> = libraries.iter().map(|library| copy("empty.so", library)).collect();
        let mut child = Command::new(program)
            .arg(mode)
            .args([doubles.join("libcuda.so.1"), doubles.join("libcupti.so")])
            .args(libraries)
            .env("THROUGHLINE_NVML_SCENARIO", node.path().join("scenario"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut started = Self { input: child.stdin.take(), child, lines };
        assert_eq!(started.says(), "open");
        node.show(started.child.id());
        started
    }

    /// The next line; waits for it.
    fn says(&mut self) -> String {
        self.lines.next().unwrap().unwrap()
    }

    /// Ends it.
    fn end(&mut self, node: &Node) {
        drop(self.input.take());
        assert!(self.child.wait().unwrap().success());
        std::fs::remove_file(node.path().join("proc").join(self.child.id().to_string())).unwrap();
    }
}

/// The agent gives way to a program, and samples again after its end.
fn gives_way(node: &Node, agent: &Agent, name: &str, libraries: &[&str]) -> u32 {
    agent.wait_for(&[RUNNING, SUMS]);
    let mut profiler = Program::start(node, name, "takes", libraries);
    assert_eq!(profiler.says(), "busy", "{name}: the agent was first");
    assert_eq!(profiler.says(), "has", "{name}");
    let page = agent.wait_for(&[PAUSED, "throughline_source_paused{source=\"cupti\"} 1", UP]);
    assert!(!page.contains("throughline_paused_until"), "nobody knows until when");
    assert!(!has_sums(agent), "{name}: absent is not zero");
    profiler.end(node);
    agent.wait_for(&[RUNNING, SUMS, "throughline_source_paused{source=\"cupti\"} 0", UP]);
    profiler.child.id()
}

/// All of them, one after the other; each is an event at its beginning and one at its end.
fn each_gets_the_gpus(profilers: &[(&str, &[&str], &str)]) {
    let node = shared();
    let mut agent = node.run();
    let pids: Vec<u32> =
        profilers.iter().map(|(name, libraries, _)| gives_way(&node, &agent, name, libraries)).collect();
    agent.stop();
    let events = events(&node);
    assert_eq!(events.len(), 2 * profilers.len(), "{events:?}");
    for ((pair, (name, _, sign)), pid) in events.chunks(2).zip(profilers).zip(pids) {
        assert_eq!([&pair[0].0, &pair[1].0], ["source.paused", "source.resumed"], "{name}");
        let user = nix::unistd::getuid();
        let command = &name[..name.len().min(15)];
        let said = format!("{command} profiles: process {pid} of user {user} {sign};");
        assert!(pair[0].1.starts_with(&said), "{said}: {}", pair[0].1);
        assert!(pair[1].1.starts_with("over after ") && pair[1].1.contains(&said), "{}", pair[1].1);
    }
}

#[test]
fn command_lines_of_nsight_get_the_gpus() {
    each_gets_the_gpus(&[("ncu", &[], "runs"), ("nsys", &[], "runs"), ("nv-nsight-cu-cli", &[], "runs")]);
}

#[test]
fn dcgms_load_generator_and_a_program_with_perfworks_get_the_gpus() {
    each_gets_the_gpus(&[
        ("dcgmproftester13", &[], "runs"),
        ("a.out", &["libnvperf_host.so.2025.3"], "has libnvperf_host.so.2025.3 in memory"),
    ]);
}

#[test]
fn programs_into_which_a_profiler_put_its_library_get_the_gpus() {
    each_gets_the_gpus(&[
        ("a.out", &["libcuda-injection.so"], "has libcuda-injection.so in memory"),
        ("b.out", &["libToolsInjection64.so"], "has libToolsInjection64.so in memory"),
    ]);
}

#[test]
fn a_program_that_is_only_linked_with_libcupti_changes_nothing() {
    let node = shared();
    let mut agent = node.run();
    agent.wait_for(&[RUNNING, SUMS]);
    let libraries = ["libcupti.so.12", "libnvperf_target.so", "libInterceptorInjectionTarget.so"];
    let mut torch = Program::start(&node, "python3", "idle", &libraries);
    // It is there before, during and after a profiler, which alone is a reason.
    let pid = gives_way(&node, &agent, "ncu", &[]);
    torch.end(&node);
    agent.stop();
    let events = events(&node);
    assert_eq!(events.len(), 2, "{events:?}");
    assert!(events[0].1.starts_with(&format!("ncu profiles: process {pid} ")), "{events:?}");
}

#[test]
fn what_is_not_sampled_is_absent_and_sums_begin_anew() {
    let node = shared();
    let mut agent = node.run();
    gives_way(&node, &agent, "ncu", &[]);
    agent.stop();
    let batches = node.spooled();
    let time_of = |kind: &str| {
        let mut events = batches.iter().flat_map(|batch| &batch.events);
        events.find(|event| event.kind == kind).unwrap().time
    };
    let (paused, resumed) = (time_of("source.paused"), time_of("source.resumed"));
    assert!(paused < resumed);
    let samples: Vec<_> = batches.iter().flat_map(|batch| &batch.gpu_pm).collect();
    assert!(samples.iter().all(|sample| !(paused..resumed).contains(&sample.time)), "{paused} {resumed}");
    let epochs = |after: bool| {
        samples.iter().filter(move |sample| (sample.time > paused) == after).map(|sample| sample.epoch)
    };
    assert!(epochs(false).max().unwrap() < epochs(true).min().unwrap());
}

/// An agent as a user of its own, with these capabilities beside a program of root that has a profiler's library.
fn as_another_user(capabilities: &str, check: impl FnOnce(&Node, &Agent)) {
    const AGENT: u32 = 64_005;
    let node = shared();
    std::fs::set_permissions(node.path(), PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::create_dir(node.state()).unwrap();
    std::os::unix::fs::chown(node.state(), Some(AGENT), Some(AGENT)).unwrap();
    let mut program = Program::start(&node, "a.out", "idle", &["libnvperf_host.so"]);
    let agent = node.run_by(&format!(
        "exec setpriv --reuid {AGENT} --regid {AGENT} --clear-groups --inh-caps -all{capabilities} \
         --ambient-caps -all{capabilities} --bounding-set -all{capabilities} \"$@\""
    ));
    check(&node, &agent);
    program.end(&node);
}

#[test]
fn a_process_that_the_agent_may_not_look_into_is_counted_and_named_as_a_gap() {
    if !throughline_test_support::is_root("to be other users") {
        return;
    }
    as_another_user("", |node, agent| {
        agent.wait_for(&[RUNNING, SUMS, "throughline_unwatched_processes{source=\"cupti\"} 1"]);
        let health = agent.page("/healthz");
        assert!(health.contains("source cupti: 1 of 1 processes can't be looked into"), "{health}");
        assert!(health.contains("CAP_SYS_PTRACE"), "{health}");
        // By its name a profiler is noticed all the same.
        let mut ncu = Program::start(node, "ncu", "takes", &[]);
        agent.wait_for(&[PAUSED, "throughline_unwatched_processes{source=\"cupti\"} 2"]);
        ncu.end(node);
        agent.wait_for(&[RUNNING, SUMS]);
    });
    as_another_user(",+sys_ptrace", |_, agent| {
        agent.wait_for(&[PAUSED, "throughline_unwatched_processes{source=\"cupti\"} 0"]);
        assert!(!agent.page("/healthz").contains("looked into"));
    });
}

#[test]
fn doctor_names_who_profiles() {
    let node = shared();
    let said = |node: &Node| {
        let output = node.command("gpu").arg("doctor").output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(said(&node).contains("noticed in each of 0 processes; none now"), "{}", said(&node));
    let mut nsys = Program::start(&node, "nsys", "idle", &[]);
    let now = format!("noticed in each of 1 processes; process {} (nsys) now", nsys.child.id());
    assert!(said(&node).contains(&now), "{}", said(&node));
    nsys.end(&node);
}
