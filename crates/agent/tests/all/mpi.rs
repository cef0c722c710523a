//! A real MPI program of four ranks under `throughline-exec` beside the real agent.

use crate::bench::{Node, PATIENCE, shim};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Instant;
use throughline_sample::wire::Batch;

const RANKS: u64 = 4;
const ROUNDS: u64 = 20;
/// What one rank passes to each allreduce of the program.
const ALLREDUCE_BYTES: u64 = 8192;

/// `throughline-exec`: beside the agent, where `cargo test --workspace` and `make test` have built it.
fn exec() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let exec = Path::new(env!("CARGO_BIN_EXE_throughline-agent")).with_file_name("throughline-exec");
        if !exec.is_file() {
            let build = ["build", "--quiet", "-p", "throughline-mpit-bridge", "--bin", "throughline-exec"];
            assert!(Command::new(env!("CARGO")).args(build).status().unwrap().success());
        }
        exec
    })
}

/// A program of the bridge, compiled for Open MPI.
fn compiled(name: &str, source: &str) -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let bridge = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mpit-bridge");
    let mut compiler = Command::new("mpicc.openmpi");
    compiler.args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program);
    compiler.arg("-I").arg(bridge.join("include")).arg(bridge.join(source));
    let made = compiler.output().expect("Open MPI is installed (make deps)");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    program
}

/// The program with uneven traffic.
fn traffic() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| compiled("agent-traffic", "demo/traffic.c"))
}

/// Starts the program so that its ranks look for the agent at `socket`.
fn start(socket: &Path, options: &[&str]) -> Child {
    let mut all = options.to_vec();
    all.extend(["--pair-bytes", "1024"]);
    start_program(traffic(), RANKS, socket, &all)
}

fn start_program(program: &Path, ranks: u64, socket: &Path, options: &[&str]) -> Child {
    let mut run = Command::new("mpirun.openmpi");
    run.args(["--oversubscribe", "--bind-to", "none", "-np", &ranks.to_string()]);
    run.arg(exec()).arg(program).args(options);
    run.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    // Local processes without a look for ssh or a scheduler; ob1 has queue lengths to read.
    run.env("OMPI_MCA_plm", "isolated").env("OMPI_MCA_pml", "ob1");
    run.env("THROUGHLINE_SOCKET", socket);
    run.env("THROUGHLINE_LIB_DIR", shim());
    run.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Four ranks wait for the last one, which kills itself; one of them by tests.
#[test]
fn what_hangs_is_in_metrics_until_it_is_killed() {
    let node = Node::bare().with("HTTP__JOB_OWNERS", "true");
    let node = node.with("MPI__FOLD_SECONDS", "1.0").with("MPI__RANK_SECONDS", "1.0");
    let mut agent = node.run();
    let program =
        start_program(&compiled("agent-hang", "tests/programs/hang.c"), 5, &node.socket(), &["8000", "kill"]);
    let is_shown = |page: &str, series: &str, operation: &str| {
        let label = format!("operation=\"{operation}\"}}");
        page.lines().any(|line| line.starts_with(&format!("{series}{{")) && line.contains(&label))
    };
    let begin = Instant::now();
    loop {
        let page = agent.metrics();
        let series = ["throughline_job_open_call_seconds", "throughline_job_open_call_ranks"];
        let all = ["barrier", "recv", "waitall", "test"]
            .map(|operation| series.map(|one| is_shown(&page, one, operation)));
        if all == [[true; 2]; 4] && page.contains("throughline_job_account_seconds_total{") {
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "{page}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(!program.wait_with_output().unwrap().status.success());
    let ended = agent.wait_for(&["throughline_connected_ranks{source=\"mpi\"} 0"]);
    assert!(ended.contains("throughline_mpi_calls_total{operation=\"barrier\"}"), "{ended}");
    // The connections end before the processes do: what an agent stopped in between has not seen is for the next one.
    agent.wait_without("throughline_job_info{");
    let (status, log) = agent.stop();
    assert!(status.success() && !log.contains("panicked"), "{log}");

    // As far as they came: nobody has returned.
    let batches = node.spooled();
    let mut last = BTreeMap::new();
    for call in batches.iter().flat_map(|batch| &batch.mpi_open_calls) {
        assert!(!call.has_returned, "{call:?}");
        last.insert(call.rank, (call.operation.as_str(), call.time - call.start));
    }
    let operations: Vec<&str> = last.values().map(|(operation, _)| *operation).collect();
    assert_eq!(operations, ["barrier", "recv", "waitall", "test"]);
    assert!(last.values().all(|(_, age)| *age > 2_000_000_000), "{last:?}");
    let lost = crate::bench::ended_ranks(&batches).into_iter().filter(|rank| rank.ending == "lost");
    assert_eq!(lost.count(), 5);
    // Nothing was counted for seconds, and the last row of each has all that was, as of its end; tests are counted.
    for rank in [0, 1, 2, 4] {
        let rows = batches.iter().flat_map(|batch| &batch.mpi_rank_rows).filter(|row| row.rank == rank);
        let rows: Vec<_> = rows.collect();
        let [.., before, last] = &rows[..] else { panic!("{rows:?}") };
        assert!(!last.cells.is_empty() && before.cells == last.cells, "{before:?} {last:?}");
        assert!(last.time - before.time > 2_000_000_000, "{before:?} {last:?}");
    }
}

#[test]
fn a_program_is_in_metrics_while_it_runs_and_in_the_spool_to_the_last_call() {
    let node = Node::bare().with("HTTP__JOB_OWNERS", "true");
    let mut agent = node.run();
    let program = start(&node.socket(), &["--rounds", &ROUNDS.to_string(), "--pause-ms", "150"]);
    let running = agent.wait_for(&["throughline_job_info{", "throughline_connected_ranks{source=\"mpi\"} 4"]);
    let job = running.lines().find(|line| line.starts_with("throughline_job_info{")).unwrap();
    assert!(job.contains("command=\"") && job.contains("traffic"), "{job}");
    assert!(job.contains("world_size=\"4\"") && job.contains("job_key=\"local:"), "{job}");
    let output = program.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let calls = format!("throughline_mpi_calls_total{{operation=\"allreduce\"}} {}", RANKS * ROUNDS);
    let ended = agent.wait_for(&[&calls, "throughline_connected_ranks{source=\"mpi\"} 0"]);
    let bytes = RANKS * ROUNDS * ALLREDUCE_BYTES;
    assert!(
        ended.contains(&format!("throughline_mpi_bytes_total{{operation=\"allreduce\"}} {bytes}\n")),
        "{ended}"
    );
    // The connection ends before the record of it has passed.
    agent.wait_without("throughline_job_info{");
    let (status, log) = agent.stop();
    assert!(status.success() && !log.contains("panicked"), "{log}");

    let batches = node.spooled();
    let mut last: BTreeMap<(u32, u64), (u64, u64)> = BTreeMap::new();
    for bin in batches.iter().flat_map(|batch| &batch.mpi_rank_rows) {
        for cell in bin.cells.iter().filter(|cell| cell.operation == "allreduce") {
            last.insert((bin.rank, cell.size_class_bytes), (cell.calls, cell.bytes));
        }
    }
    let expected = (0..4).map(|rank| ((rank, ALLREDUCE_BYTES), (ROUNDS, ROUNDS * ALLREDUCE_BYTES)));
    assert_eq!(last, expected.collect());
    // The node's sums are the ranks' together, and no rank's reports have rows of their own.
    let folded = batches.iter().flat_map(|batch| &batch.mpi_node_cells).flat_map(|record| &record.cells);
    let mut folded = folded.filter_map(|cell| cell.sums.as_ref());
    let newest =
        folded.rfind(|sums| sums.operation == "allreduce" && sums.size_class_bytes == ALLREDUCE_BYTES);
    let newest = newest.map(|sums| (sums.calls, sums.bytes));
    assert_eq!(newest, Some((RANKS * ROUNDS, RANKS * ROUNDS * ALLREDUCE_BYTES)));
    assert!(batches.iter().all(|batch| batch.mpi_ops.is_empty()));
    let endings: Vec<&str> =
        crate::bench::ended_ranks(&batches).iter().map(|rank| rank.ending.as_str()).collect();
    assert_eq!(endings, ["clean"; 4]);
    check_peers(&batches);
    // What the kernel counted: at the beginning, and more at the end.
    for rank in 0..4 {
        let readings = batches.iter().flat_map(|batch| &batch.mpi_scheduling);
        let readings: Vec<_> = readings.filter(|reading| reading.rank == rank).collect();
        let cpu = |at: usize| readings[at].cpu_nanoseconds.unwrap();
        assert!(readings.len() >= 2 && cpu(readings.len() - 1) >= cpu(0), "{readings:?}");
    }
    // Cumulative: the last row of each cell has all calls, those of the end included.
    let mut messages = BTreeMap::new();
    for traffic in batches.iter().flat_map(|batch| &batch.mpi_traffic) {
        assert!(traffic.since <= traffic.time && traffic.epoch <= traffic.since, "{traffic:?}");
        let of = (traffic.operation.clone(), traffic.kind.clone());
        messages.extend(traffic.cells.iter().map(|cell| ((of.clone(), cell.peer), cell.messages)));
    }
    let allreduces = messages.iter().filter(|((of, _), _)| of.0 == "allreduce");
    let allreduces: Vec<_> = allreduces.map(|((of, _), messages)| (of.1.as_str(), *messages)).collect();
    // By reduce-scatter and allgather, each of 4 ranks gets four messages a call.
    assert_eq!(allreduces, vec![("modelled", 4 * ROUNDS); RANKS as usize]);
    // A record that refers to a job never travels before the job.
    let known = batches.iter().position(|batch| !batch.jobs.is_empty()).unwrap();
    let used = batches
        .iter()
        .position(|batch| !batch.mpi_rank_rows.is_empty() || !batch.mpi_peers.is_empty())
        .unwrap();
    assert!(known < used, "{known} {used}");
}

/// Of each rank the last record of all peers and those after it are its totals, and each record becomes one row.
fn check_peers(batches: &[Batch]) {
    let records = || batches.iter().flat_map(|batch| &batch.mpi_peers);
    for rank in 0..4 {
        let of_rank: Vec<_> = records().filter(|record| record.rank == rank).collect();
        let whole = of_rank.iter().rposition(|record| record.is_whole).unwrap();
        let after = of_rank[whole..].iter().flat_map(|record| &record.cells);
        let totals: BTreeMap<u32, u64> = after.map(|cell| (cell.peer, cell.bytes)).collect();
        let mut most: BTreeMap<u32, u64> = BTreeMap::new();
        for cell in of_rank.iter().flat_map(|record| &record.cells) {
            let known = most.entry(cell.peer).or_default();
            *known = cell.bytes.max(*known);
        }
        assert_eq!(totals, most);
        let of_all = (0..4).filter(|peer| *peer != rank).map(|peer| totals[&peer]);
        assert!(of_all.into_iter().all(|bytes| bytes >= ROUNDS * ALLREDUCE_BYTES), "{totals:?}");
    }
}

#[test]
fn once_prints_operations_of_a_running_program() {
    let node = Node::bare();
    let mut program = start(&node.socket(), &["--seconds", "600", "--pause-ms", "20"]);
    let begin = Instant::now();
    let allreduce = |mpi: &serde_json::Value| {
        let cells = mpi["operations"].as_array().cloned().unwrap_or_default();
        cells.iter().filter(|cell| cell["operation"] == "allreduce" && cell["calls"].is_u64()).count()
    };
    let mpi = loop {
        // Ranks look for an agent after 1, 2, 4 … seconds; each try of `once` is there for three.
        let mpi = node.once()["sources"]["mpi"].clone();
        if allreduce(&mpi) == 4 || begin.elapsed() > PATIENCE {
            break mpi;
        }
    };
    let pid = nix::unistd::Pid::from_raw(i32::try_from(program.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    program.wait().unwrap();
    assert_eq!(allreduce(&mpi), 4, "one cell of each rank: {mpi}");
    assert_eq!((&mpi["up"], &mpi["reason"]), (&true.into(), &serde_json::Value::Null));
    assert!(mpi["jobs"][0]["command"].as_str().unwrap().contains("traffic"), "{mpi}");
}
