//! Waiting of real programs, estimated from what their ranks report, against the programs' own clocks.

use crate::mpi::support::*;
use throughline_waits::{Counters, NodeSample, Parts, RankOperation, WaitStates, estimate, merge};

/// As many as the smallest machine has cores: they spin, and one that waits for a core waits for nobody else.
const RANKS: u32 = 2;
/// Of whom each is late in its turn.
const MORE_RANKS: u32 = 3;

/// Ranks wait for cores where other tests run beside them; on an idle machine it is within 1 % (`benches/waits.sh`).
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
