//! `throughline job trace` on a real program: 4 ranks, messages of every kind, known pauses, clocks that are off,
//! drift and step. The file is opened by Perfetto's own reader, and times are compared with those of true clocks.

use super::*;
use std::collections::BTreeSet;

mod perfetto;
mod truth;

use truth::{Backwards, Clocks, Errors};

const ROUNDS: u64 = 40;
/// What the program sends in each round.
const MESSAGES: u64 = 32;

/// `mpirun` of a program of the bridge's tests on 4 ranks, traced.
fn traced(stack: &Stack, name: &str) -> Command {
    let mut launch = launched(stack, name, &["--trace"]);
    launch.env("THROUGHLINE_TRACE_DIR", stack.folder.path());
    launch
}

/// The same with these options of throughline-exec.
fn launched(stack: &Stack, name: &str, options: &[&str]) -> Command {
    let folder = stack.folder.path();
    let source = crates().join(format!("mpit-bridge/tests/programs/{name}.c"));
    let program_file = folder.join(name);
    done(Command::new("mpicc.openmpi").arg("-O1").arg("-o").arg(&program_file).arg(source));
    let objects = Path::new(env!("CARGO_BIN_EXE_throughline")).with_file_name("lib/throughline");
    let out = format!("OUT={}", objects.display());
    done(Command::new("make").arg("-s").arg("-C").arg(crates().join("mpit-bridge/shim")).arg(out));
    let mut launch = Command::new("mpirun.openmpi");
    launch.args(["--oversubscribe", "--bind-to", "none", "-np", "4"]);
    launch.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    launch.env("OMPI_MCA_plm", "isolated").env("OMPI_MCA_btl", "self,vader");
    launch.arg(program("throughline-mpit-bridge", "throughline-exec")).args(options).arg(&program_file);
    launch.env("THROUGHLINE_SOCKET", folder.join("mpi.sock")).env("THROUGHLINE_LIB_DIR", objects);
    launch
}

/// Runs the program: so many rounds, each with a pause of 40 ms, clocks compared so often, rank 3's ahead by 5 ms after so
/// many milliseconds. Returns the clocks.
fn run(stack: &Stack, rounds: u64, compared_every_ms: u64, step_at_ms: f64) -> Clocks {
    let mut clocks = Clocks::new(5.0, step_at_ms);
    let mut launch = traced(stack, "timeline");
    launch.args([rounds.to_string(), "40".to_owned()]);
    launch.env("THROUGHLINE_TRACE_SYNC_MS", compared_every_ms.to_string());
    launch.env("THROUGHLINE_TEST_CLOCK", clocks.as_text());
    let output = done(launch.env("THROUGHLINE_DEBUG", "1"));
    clocks.began(&String::from_utf8_lossy(&output.stderr));
    clocks
}

/// The summary of the newest job's trace as soon as each of its 4 ranks has so many calls in the tables.
fn summary_of(stack: &Stack, calls: u64, file: &str) -> Value {
    let begin = Instant::now();
    loop {
        let output = stack.job(&["trace", "last", "-o", file, "--force", "--json"]);
        let summary: Value = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
        let ranks = summary["ranks"].as_array().cloned().unwrap_or_default();
        let is_whole = |rank: &Value| rank["counted_calls"] == calls && rank["ending"] == "complete";
        if ranks.len() == 4 && ranks.iter().all(is_whole) {
            return summary;
        }
        assert!(begin.elapsed() < PATIENCE, "{summary} {}", String::from_utf8_lossy(&output.stderr));
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Each call is in the file or counted as lost, wherever it was lost, at the end as well.
#[tokio::test(flavor = "multi_thread")]
async fn all_calls_are_in_the_file_or_counted() {
    let stack = Stack::start().await;
    let path = stack.folder.path().join("busy.json");
    let file = path.to_str().unwrap();
    for (rounds, pause_us, is_whole) in [(8, 20_000, true), (20_000, 0, false)] {
        done(traced(&stack, "busy").args([rounds.to_string(), pause_us.to_string()]));
        let calls = 3 * rounds + 2 + 1; // MPI_Finalize is one
        let summary = summary_of(&stack, calls, file);
        let of = |rank: &Value, name: &str| rank[name].as_u64().unwrap();
        for rank in summary["ranks"].as_array().unwrap() {
            assert_eq!(of(rank, "calls") + of(rank, "lost"), calls, "{rank}");
            // How much is lost of many calls at once depends on how fast the machine takes them.
            assert!(of(rank, "lost") == 0 || !is_whole, "{rank}");
        }
        let document: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let events = document["traceEvents"].as_array().unwrap();
        let lost = events.iter().filter_map(|event| event["args"]["records"].as_u64()).sum::<u64>();
        assert_eq!(
            (summary["lost"].as_u64().unwrap(), summary["calls"].as_u64().unwrap() + lost),
            (lost, 4 * calls)
        );
        let barriers = events.iter().filter(|event| event["ph"] == "X" && event["name"] == "barrier").count();
        assert!(!is_whole || barriers == 8, "the last calls of all ranks: {barriers}");
    }
}

/// Writes the trace again until all of it is in the database.
fn whole(stack: &Stack, rounds: u64, file: &str) -> Value {
    let begin = Instant::now();
    loop {
        let output = stack.job(&["trace", "last", "-o", file, "--force", "--json"]);
        let summary: Value = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
        let all = rounds * MESSAGES;
        let lacks = summary["ranks"]
            .as_array()
            .is_none_or(|ranks| ranks.iter().any(|rank| rank["ending"] != "complete"));
        if summary["sent"] == all && summary["received"] == all && summary["lost"] == 0 && !lacks {
            return summary;
        }
        assert!(begin.elapsed() < PATIENCE, "{summary} {}", String::from_utf8_lossy(&output.stderr));
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// A job that was not traced has its operations as counters, all of its calls in them.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_was_not_traced_has_operations_over_time() {
    const ROUNDS: u64 = 20;
    let stack = Stack::start().await;
    let path = stack.folder.path().join("steps.json");
    let file = path.to_str().unwrap();
    done(launched(&stack, "busy", &[]).args([ROUNDS.to_string(), "50000".to_owned()]));
    let begin = Instant::now();
    let summary = loop {
        let output = stack.job(&["trace", "last", "-o", file, "--force", "--json"]);
        let summary: Value = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
        if summary["calls"] == 4 * (3 * ROUNDS + 2 + 1) {
            break summary;
        }
        assert!(begin.elapsed() < PATIENCE, "{summary} {}", String::from_utf8_lossy(&output.stderr));
        std::thread::sleep(Duration::from_millis(200));
    };
    assert_eq!((&summary["is_traced"], &summary["step_seconds"]), (&false.into(), &0.1.into()));
    let counters = perfetto::counters(&path);
    let processes: BTreeSet<&str> = counters.iter().map(|one| one["process"].as_str().unwrap()).collect();
    let ranks = [0, 1, 2, 3].map(|rank| format!("rank {rank} on n1, in steps of 0.1 s"));
    assert!(processes.iter().eq(ranks.iter()), "{processes:?}");
    let of = |name: &str| counters.iter().filter(|one| one["name"] == name).collect::<Vec<_>>();
    for name in ["allreduce share of time", "send bytes/s", "barrier share of time"] {
        let own = of(name);
        assert_eq!(own.len(), 4, "{name}: {counters:?}");
        // Nothing is inside for longer than there is time, and all of it ends.
        assert!(own.iter().all(|one| one["largest"].as_f64().unwrap() > 0.0 && one["least"] == 0), "{own:?}");
    }
    assert!(
        of("allreduce share of time").iter().all(|one| one["largest"].as_f64().unwrap() <= 1.0),
        "{counters:?}"
    );
    // The last part of it, without the ranks.
    let none = stack.job(&[
        "trace",
        "last",
        "-o",
        "-",
        "--last",
        "500ms",
        "--lanes",
        "nodes,links,events,verdicts,open",
    ]);
    let none: Value = serde_json::from_slice(&none.stdout).unwrap();
    assert!(none["traceEvents"].as_array().unwrap().iter().all(|event| event["ph"] != "C"), "{none}");
    assert_eq!(stack.job(&["trace", "last", "-o", "-", "--lanes", "all"]).status.code(), Some(64));
}

/// Variables of an agent with the GPUs of a scenario in a folder, which a double of the vendor's library shows.
fn gpus(folder: &Path) -> [(&'static str, String); 4] {
    let scenario = folder.join("node.scenario");
    std::fs::copy(crates().join("gpu/scenarios/power9-v100.scenario"), &scenario).unwrap();
    let out = Path::new(env!("CARGO_BIN_EXE_throughline")).with_file_name("lib/throughline");
    let double = crates().join("gpu/testdouble");
    done(Command::new("make").arg("-s").arg("-C").arg(double).arg(format!("OUT={}", out.display())));
    [
        ("THROUGHLINE__NVML__ENABLED", "true".to_owned()),
        ("THROUGHLINE__NVML__INTERVAL_SECONDS", "0.2".to_owned()),
        ("THROUGHLINE__NVML__LIBRARY", out.join("libnvidia-ml.so.1").display().to_string()),
        ("THROUGHLINE_NVML_SCENARIO", scenario.display().to_string()),
    ]
}

/// Has the driver list each process of a program on a GPU of its own, as soon as all of them run.
fn put_on_gpus(program: &Path, count: usize, folder: &Path) {
    let runs = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.ok()?.path();
        let pid: u32 = path.file_name()?.to_str()?.parse().ok()?;
        (std::fs::read_link(path.join("exe")).ok()? == program).then_some(pid)
    };
    let begin = Instant::now();
    loop {
        let ranks: Vec<u32> = std::fs::read_dir("/proc").unwrap().filter_map(runs).collect();
        if ranks.len() == count {
            let lines = ranks.iter().enumerate().map(|(gpu, pid)| format!("process {gpu} {pid}\n"));
            std::fs::write(folder.join("new"), lines.collect::<String>()).unwrap();
            return std::fs::rename(folder.join("new"), folder.join("traffic.txt")).unwrap();
        }
        assert!(begin.elapsed() < PATIENCE, "{} of {count} run", ranks.len());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Under the ranks of a traced job stand its node's GPUs, aligned by the node's rank, and what is said of it, in Perfetto.
#[tokio::test(flavor = "multi_thread")]
async fn lanes_of_the_node_stand_under_the_ranks() {
    let node = tempfile::tempdir().unwrap();
    let stack = Stack::start_with(&gpus(node.path())).await;
    let path = stack.folder.path().join("lanes.json");
    let file = path.to_str().unwrap();
    let mut ranks = traced(&stack, "busy").args(["60", "50000"]).spawn().unwrap();
    put_on_gpus(&stack.folder.path().join("busy"), 4, node.path());
    assert!(ranks.wait().unwrap().success());
    let begin = Instant::now();
    let summary = loop {
        let summary = summary_of(&stack, 3 * 60 + 2 + 1, file);
        // Readings of GPUs come by batches of their own.
        if summary["lanes"].as_array().is_some_and(|lanes| !lanes.is_empty() && lanes[0]["lanes"] == 16) {
            break summary;
        }
        assert!(begin.elapsed() < PATIENCE, "{summary}");
        std::thread::sleep(Duration::from_millis(200));
    };
    assert_eq!(summary["lanes"][0]["name"], "the node n1");
    let counters = perfetto::counters(&path);
    let process = counters.first().and_then(|one| one["process"].as_str()).unwrap_or_default();
    assert!(
        process.starts_with("the node n1 (rank 0's clock ±") && process.ends_with(" read each 0.2 s)"),
        "{counters:?}"
    );
    let names: Vec<&str> = counters.iter().filter_map(|one| one["name"].as_str()).collect();
    for gpu in 0..4 {
        for what in ["NVLink out", "NVLink in", "PCIe out", "PCIe in"] {
            let is_it = |name: &&&str| **name == format!("GPU {gpu} {what} bytes/s");
            assert_eq!(names.iter().filter(is_it).count(), 1, "GPU {gpu} {what}: {names:?}");
        }
    }
    let none = stack.job(&["trace", "last", "-o", "-", "--lanes", "ranks"]);
    assert!(!String::from_utf8_lossy(&none.stdout).contains("NVLink"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_lines_up_and_its_arrows_join_sends_with_receives() {
    let stack = Stack::start().await;
    let clocks = run(&stack, ROUNDS, 100, 1000.0);
    let path = stack.folder.path().join("trace.json");
    let file = path.to_str().unwrap();
    let summary = whole(&stack, ROUNDS, file);
    let ranks = summary["ranks"].as_array().unwrap();
    assert_eq!(ranks.len(), 4);
    assert_eq!(ranks[0]["clock"], "rank 0 itself");
    for rank in &ranks[1..] {
        assert_eq!(rank["clock"], "comparisons", "{rank}");
        assert!(rank["comparisons"].as_u64().unwrap() >= 5, "{rank}");
    }
    assert_eq!(
        ranks.iter().map(|rank| rank["steps"].as_array().unwrap().len()).collect::<Vec<_>>(),
        [0, 0, 0, 1]
    );

    let bound = |rank: &Value| rank["error_seconds"].as_f64().unwrap_or(0.0) * 1e6;
    let bounds: f64 = 2.0 * ranks.iter().map(bound).fold(0.0, f64::max);
    let backwards = Backwards::of(&path, bounds);
    assert_eq!(backwards.unexplained, 0, "{backwards:?}, by more than {bounds} µs");
    let all = Backwards::of(&path, 0.0);
    perfetto::assert_opens(&path, &summary, all.stepped + all.unexplained);
    let errors = Errors::of(&stack, &path, &clocks).await;
    for (rank, error) in ranks.iter().zip(&errors.largest_of_rank) {
        // Ticks become times with an error of their own, stated nowhere: well below a microsecond where nothing else runs.
        let stated = bound(rank) + 2.0;
        assert!(*error <= stated, "{rank}: wrong by {error} µs");
    }
    // How long the stretch around the step is depends on which comparisons went well on a busy machine.
    assert!(errors.microseconds.len() > errors.stepped, "{} slices near the step", errors.stepped);

    // The file is not overwritten unasked; parts of it; standard output.
    assert_eq!(stack.job(&["trace", "last", "-o", file]).status.code(), Some(64));
    let part =
        stack.job(&["trace", "last", "-o", "-", "--ranks", "0-1", "--to-seconds", "0.5", "--lanes", "ranks"]);
    let part: Value = serde_json::from_slice(&part.stdout).unwrap();
    let events = part["traceEvents"].as_array().unwrap();
    assert!(events.iter().all(|event| event["pid"].as_u64().unwrap() <= 2), "two ranks");
    assert!(
        events.iter().filter(|event| event["ph"] == "X").all(|event| event["ts"].as_f64().unwrap() <= 5e5)
    );
    assert!(events.iter().any(|event| event["ph"] == "X"));
    let none = stack.job(&["trace", "last", "-o", "-", "--ranks", "9"]);
    assert_eq!(none.status.code(), Some(69), "{}", String::from_utf8_lossy(&none.stderr));
}

/// For benches/trace.sh, on a machine that does nothing else.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement, which benches/trace.sh makes"]
async fn measured() {
    const LONG: u64 = 200;
    const GOAL_MICROSECONDS: f64 = 10.0;
    let stack = Stack::start().await;
    let clocks = run(&stack, LONG, 1000, 4500.0);
    let path = stack.folder.path().join("trace.json");
    let summary = whole(&stack, LONG, path.to_str().unwrap());
    let errors = Errors::of(&stack, &path, &clocks).await;
    let early = Backwards::of(&path, 0.0).unexplained;
    println!("job trace, 4 ranks on one node, {:.1} s, clocks compared each second", summary["seconds"]);
    println!("  offsets +-50 ms, drift +-50 ppm, a step of 5 ms: {} steps marked", errors.steps);
    println!(
        "  {} slices, {} of them marked as near the step",
        errors.microseconds.len() + errors.stepped,
        errors.stepped
    );
    let [median, ninety, ninety_nine, largest] = [0.5, 0.9, 0.99, 1.0].map(|share| errors.quantile(share));
    println!(
        "  error in us: median {median:.2}, 90 % {ninety:.2}, 99 % {ninety_nine:.2}, largest {largest:.2}"
    );
    println!(
        "  goal: largest <= {GOAL_MICROSECONDS} us; {early} of {} receives before their send, goal 0",
        LONG * MESSAGES
    );
    assert!(largest <= GOAL_MICROSECONDS && early == 0 && errors.steps == 1, "missed");
}
