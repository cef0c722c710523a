//! Waiting of real programs, estimated from what their ranks report, against the programs' own clocks.

use crate::mpi::support::*;
use throughline_sample::wire::MpiTraceRecord;
use throughline_waits::{
    Counters, NodeSample, Parts, RankOperation, TracedCall, TracedMessage, TracedRecord, WaitStates,
    calls_and_messages, estimate, exact, merge,
};

/// As many as the smallest machine has cores: they spin, and one that waits for a core waits for nobody else.
const RANKS: u32 = 2;
/// Of whom each is late in its turn.
const MORE_RANKS: u32 = 3;

/// Ranks wait for cores where other tests run beside them; on an idle machine it is within 2.5 % (`benches/waits.sh`).
const NOISE: f64 = 0.2;

/// What the server makes of it.
fn counters(agents: &[Agent]) -> Counters {
    let mut counters = Counters::default();
    let mut samples = Vec::new();
    for observed in agents.iter().map(|agent| &agent.observed) {
        counters.operations.extend(observed.cells.iter().map(|((rank, operation, class), cell)| {
            let seconds = |nanoseconds: u64| nanoseconds as f64 / 1e9;
            RankOperation {
                rank: *rank,
                operation: operation.clone(),
                size_class_bytes: *class,
                calls: cell.calls,
                elapsed_seconds: seconds(cell.elapsed_nanoseconds),
                wait_seconds: cell.wait_nanoseconds.map(seconds),
                least_seconds: cell.least_nanoseconds.map(seconds),
            }
        }));
        for row in &observed.sampled {
            samples.extend(row.calls.iter().map(|call| NodeSample {
                second: row.time,
                group: row.comm_group,
                group_size: row.group_size,
                operation: row.operation.clone(),
                size_class_bytes: row.size_class_bytes,
                cell: row.cell,
                call: call.call,
                ranks: call.ranks,
                seconds: call.elapsed_nanoseconds as f64 / 1e9,
                least_seconds: call.least_nanoseconds as f64 / 1e9,
                least_rank: call.least_rank,
                weight: (1_u64 << call.level) as f64,
            }));
        }
    }
    counters.samples = merge(samples);
    counters
}

/// The estimate, and what the program waited by its own clock.
async fn run(mpi: Mpi, ranks: u32, arguments: &[&str]) -> (WaitStates, f64) {
    let folder = tempfile::tempdir().unwrap();
    let program = mpi.compile("tests/programs/waits.c", folder.path());
    let mut agent = Agent::start(&folder.path().join("s"));
    let mut command = run_with_shim(mpi, ranks, &agent.socket);
    command.arg(&program).args(arguments);
    let output = agent.run(command, ranks as usize).await;
    let text = stdout(&output);
    let truth = text.trim().strip_prefix("waited ").and_then(|number| number.parse().ok());
    (estimate(&counters(&[agent])), truth.unwrap_or_else(|| panic!("{text}{}", stderr(&output))))
}

fn parts(states: &WaitStates, operation: &str) -> Parts {
    states.operations.iter().find(|one| one.operation == operation).unwrap().parts
}

fn assert_within(value: f64, truth: f64, share: f64, what: &str) {
    assert!(
        (value - truth).abs() <= share * truth,
        "{what}: {value:.4} s, by the program's clock {truth:.4} s"
    );
}

#[tokio::test]
async fn a_late_sender_is_measured_in_seconds() {
    for mpi in [Mpi::Open, Mpi::Mpich] {
        let (states, truth) = run(mpi, RANKS, &["late_sender", "20", "100000"]).await;
        assert!(truth > 1.5, "{truth}");
        assert_within(parts(&states, "recv").late_sender.seconds, truth, NOISE, "late sender");
        assert!(parts(&states, "send").waiting().seconds < NOISE * truth);
        assert_within(states.ranks[1].parts.late_sender.seconds, truth, NOISE, "of rank 1");
    }
}

#[tokio::test]
async fn a_slow_rank_is_named_with_what_others_wait_for_it() {
    for mpi in [Mpi::Open, Mpi::Mpich] {
        let (states, truth) = run(mpi, RANKS, &["slow_rank", "20", "100000"]).await;
        assert_within(parts(&states, "allreduce").at_collective.seconds, truth, NOISE, "at allreduce");
        let last = &states.last_arrivals.iter().find(|last| last.operation == "allreduce").unwrap();
        assert_eq!(last.rank, RANKS - 1);
        assert!(last.share > 0.9, "{}", last.share);
        assert_within(last.waited_seconds, truth, NOISE, "for the last rank");
        let all = states.communicators.iter().find(|one| one.operation == "allreduce").unwrap();
        assert_eq!(all.group_size, Some(RANKS));
    }
}

/// Sums of ranks that are late in turn are all the same: their samples are not.
#[tokio::test]
async fn ranks_late_in_turn_are_found() {
    let (states, truth) = run(Mpi::Open, MORE_RANKS, &["rotating", "60", "40000"]).await;
    let waited = parts(&states, "allreduce").at_collective;
    assert_within(waited.seconds, truth, 1.5 * NOISE, "at allreduce");
    let late: Vec<_> = states.last_arrivals.iter().filter(|last| last.operation == "allreduce").collect();
    assert_eq!(late.len(), MORE_RANKS as usize);
    assert!(late.iter().all(|last| last.share > 0.1), "{late:?}");
}

/// The calls and messages of a trace. All ranks are on one node, whose clock they share.
fn traced(observed: &Observed) -> (Vec<TracedCall>, Vec<TracedMessage>) {
    let seconds = |nanoseconds: i64| nanoseconds as f64 / 1e9;
    let one = |((rank, _), record): (&(u32, u64), &MpiTraceRecord)| {
        let end_ns = record.start + record.nanoseconds as i64;
        TracedRecord {
            rank: *rank,
            kind: record.kind.clone(),
            operation: record.operation.clone(),
            start_ns: record.start,
            end_ns,
            begin: seconds(record.start),
            end: seconds(end_ns),
            clock_error: 0.0,
            peer: record.peer,
            tag: record.tag,
            comm: (record.comm != 0).then_some(record.comm),
            sequence: record.sequence.map(u64::from),
        }
    };
    let records: Vec<TracedRecord> = observed.traces.iter().map(one).collect();
    calls_and_messages(&records)
}

/// The table of docs/BENCHMARKS.md: `benches/waits.sh`.
#[tokio::test]
#[ignore = "a measurement, for an idle machine"]
async fn measured() {
    println!("| program | library | its clock | from the trace | counters | at least, at most | progress |");
    println!("| --- | --- | ---: | ---: | ---: | ---: | ---: |");
    for mpi in [Mpi::Open, Mpi::Mpich] {
        for (mode, times, pause) in [
            ("late_sender", "200", "10000"),
            ("late_receiver", "200", "10000"),
            ("slow_rank", "200", "10000"),
            ("rotating", "200", "10000"),
            ("rotating", "5000", "100"),
            ("late_root", "200", "10000"),
            ("healthy", "100000", "0"),
            ("no_progress", "200", "10000"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let program = mpi.compile("tests/programs/waits.c", folder.path());
            let mut agent = Agent::start(&folder.path().join("s"));
            let mut command = run_with_shim(mpi, RANKS, &agent.socket);
            command.arg("--trace").env("THROUGHLINE_TRACE_DIR", folder.path());
            command.arg(&program).args([mode, times, pause]);
            let output = agent.run(command, RANKS as usize).await;
            let text = stdout(&output);
            let truth: f64 = text.trim().strip_prefix("waited ").unwrap().parse().unwrap();
            let (calls, messages) = traced(&agent.observed);
            let of = |states: &WaitStates| {
                let mut sum = states.operations.iter().map(|one| (&one.operation, one.parts));
                let find = |name: &str| sum.clone().find(|(operation, _)| *operation == name);
                match mode {
                    "late_sender" => find("recv").unwrap().1,
                    "late_receiver" => find("send").unwrap().1,
                    "late_root" => find("bcast").unwrap().1,
                    "no_progress" => find("irecv").unwrap().1,
                    _ => sum.find(|(operation, _)| *operation == "allreduce").unwrap().1,
                }
            };
            let sizes = std::collections::HashMap::from([(1, RANKS)]);
            let from_trace = of(&exact(&calls, &messages, &sizes)).waiting().seconds;
            let folded = of(&estimate(&counters(&[agent])));
            let waited = folded.waiting();
            println!(
                "| {mode} {times} {pause} | {mpi:?} | {truth:.3} s | {from_trace:.3} s | {:.3} s | {:.3} to {:.3} s | {:.3} s |",
                waited.seconds, waited.low, waited.high, folded.progress.seconds
            );
        }
    }
}
