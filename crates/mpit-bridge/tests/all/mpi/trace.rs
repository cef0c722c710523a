//! Trace mode: every send finds its receive, and clocks are compared within the bounds that are reported.

use crate::mpi::support::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use throughline_sample::wire::{MpiClockPoint, MpiTraceRecord};

/// Source, destination, communicator, tag, running count.
type Identity = (u32, u32, u64, i32, u32);

fn traced(mpi: Mpi, socket: &Path, folder: &Path, rounds: u32, pause_ms: u32) -> Command {
    let mut command = run_with_shim(mpi, 4, socket);
    command.arg("--trace").env("THROUGHLINE_TRACE_DIR", folder);
    command.arg(mpi.compile("tests/programs/timeline.c", folder));
    command.args([rounds.to_string(), pause_ms.to_string()]);
    command
}

fn is_sent(record: &MpiTraceRecord) -> bool {
    matches!(record.kind.as_str(), "send" | "departure")
}

fn is_received(record: &MpiTraceRecord) -> bool {
    matches!(record.kind.as_str(), "receive" | "arrival")
}

fn count(observed: &Observed, which: fn(&MpiTraceRecord) -> bool) -> usize {
    observed.traces.values().filter(|record| which(record)).count()
}

/// The messages of one side by their identity. Each has one.
fn by_identity(
    observed: &Observed,
    which: fn(&MpiTraceRecord) -> bool,
) -> BTreeMap<Identity, &MpiTraceRecord> {
    let mut found = BTreeMap::new();
    for ((rank, number), record) in observed.traces.iter().filter(|(_, record)| which(record)) {
        let what = format!("rank {rank}, record {number}: {record:?}");
        let (Some(peer), Some(tag), Some(sequence)) = (record.peer, record.tag, record.sequence) else {
            panic!("{what}")
        };
        assert!(record.comm != 0, "{what}");
        let (source, destination) = if is_sent(record) { (*rank, peer) } else { (peer, *rank) };
        let before = found.insert((source, destination, record.comm, tag, sequence), record);
        assert!(before.is_none(), "{what} and {before:?}");
    }
    found
}

/// Numbers of each rank's records are whole: nothing was lost.
fn assert_whole(observed: &Observed) {
    let mut next = BTreeMap::new();
    for (rank, number) in observed.traces.keys() {
        let expected = next.entry(*rank).or_insert(0);
        assert_eq!(number, expected, "rank {rank}");
        *expected += 1;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_send_finds_its_receive() {
    const ROUNDS: u32 = 8;
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    for mpi in BOTH {
        let mut agent = Agent::start(&folder.path().join(mpi.name()));
        let command = traced(mpi, &agent.socket, folder.path(), ROUNDS, 2);
        let output = agent.run(command, 4).await;
        let reported: usize =
            stdout(&output).lines().filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok()).sum();
        assert_eq!(reported, 32 * ROUNDS as usize, "{}{}", stdout(&output), stderr(&output));
        agent.until("all trace records", |observed| count(observed, is_received) == reported).await;
        agent.until("all sends", |observed| count(observed, is_sent) == reported).await;
        let observed = &agent.observed;
        assert_whole(observed);
        let (sent, received) = (by_identity(observed, is_sent), by_identity(observed, is_received));
        assert!(sent.keys().eq(received.keys()), "{:?}", sent.keys().collect::<Vec<_>>());
        for (identity, send) in &sent {
            let receive = received[identity];
            // Each message has a length of its own, and all ranks share one clock.
            assert_eq!(send.bytes, receive.bytes, "{mpi:?} {identity:?}: {send:?} {receive:?}");
            let end = receive.start + i64::try_from(receive.nanoseconds).unwrap();
            assert!(send.start <= end, "{mpi:?} {identity:?}: {send:?} {receive:?}");
        }
        let comms: BTreeSet<u64> = sent.keys().map(|identity| identity.2).collect();
        assert_eq!(comms.len(), 5, "world, its copy, two halves and what joins them: {comms:?}");
        let operations: BTreeSet<&str> = observed.traces.values().map(|one| one.operation.as_str()).collect();
        for operation in
            ["send", "irecv", "waitall", "barrier", "sendrecv", "send_init", "recv_init", "mprobe", "mrecv"]
        {
            assert!(operations.contains(operation), "{operation}: {operations:?}");
        }
        assert_eq!(traced_calls(observed), counted_calls(observed), "{mpi:?}");
        let status = agent.receiver.status();
        assert_eq!((status.malformed_messages(), status.dropped_trace_records), (0, 0), "{status:?}");
    }
}

/// Calls by rank and operation, as records of the trace.
fn traced_calls(observed: &Observed) -> BTreeMap<(u32, &str), u64> {
    let mut calls = BTreeMap::new();
    for ((rank, _), record) in &observed.traces {
        let is_call = ["call", "send", "receive"].contains(&record.kind.as_str());
        if is_call && record.operation != "finalize" {
            *calls.entry((*rank, record.operation.as_str())).or_default() += 1;
        }
    }
    calls
}

/// The same as the tables have them.
fn counted_calls(observed: &Observed) -> BTreeMap<(u32, &str), u64> {
    let mut calls = BTreeMap::new();
    for ((rank, operation, _), cell) in &observed.cells {
        *calls.entry((*rank, operation.as_str())).or_default() += cell.calls;
    }
    calls
}

/// What a skewed clock shows at a moment of the true one.
#[derive(Clone, Copy)]
struct Skew {
    offset_ms: f64,
    drift_ppm: f64,
    step_ms: f64,
    step_at_ms: f64,
}

const SKEWS: [Skew; 4] = [
    Skew { offset_ms: 0.0, drift_ppm: 0.0, step_ms: 0.0, step_at_ms: 0.0 },
    Skew { offset_ms: 50.0, drift_ppm: 50.0, step_ms: 0.0, step_at_ms: 0.0 },
    Skew { offset_ms: -50.0, drift_ppm: -50.0, step_ms: 0.0, step_at_ms: 0.0 },
    Skew { offset_ms: 20.0, drift_ppm: 50.0, step_ms: 5.0, step_at_ms: 700.0 },
];

impl Skew {
    /// How far it is ahead, nanoseconds.
    fn ahead(self, since_origin: f64) -> f64 {
        let step = if since_origin >= self.step_at_ms * 1e6 { self.step_ms } else { 0.0 };
        (self.offset_ms + step) * 1e6 + self.drift_ppm * 1e-6 * since_origin
    }

    /// How long since the origin when it shows this.
    fn since_origin(self, shown: f64) -> f64 {
        let before = (shown - self.offset_ms * 1e6) / (1.0 + self.drift_ppm * 1e-6);
        if self.step_ms == 0.0 || before < self.step_at_ms * 1e6 {
            return before;
        }
        (shown - (self.offset_ms + self.step_ms) * 1e6) / (1.0 + self.drift_ppm * 1e-6)
    }
}

/// THROUGHLINE_TEST_CLOCK of [`SKEWS`].
fn test_clock(origin: i64) -> String {
    let each = SKEWS.iter().enumerate().map(|(rank, skew)| {
        let Skew { offset_ms, drift_ppm, step_ms, step_at_ms } = skew;
        format!(";{rank}:offset={offset_ms},drift={drift_ppm},step={step_ms}@{step_at_ms}")
    });
    each.fold(format!("origin={origin}"), |all, one| all + &one)
}

fn assert_comparison(rank: usize, origin: i64, point: &MpiClockPoint) {
    let skew = SKEWS[rank];
    let since = skew.since_origin((point.time - origin) as f64);
    let truth = SKEWS[0].ahead(since) - skew.ahead(since);
    let wrong = (point.offset as f64 - truth).abs();
    // While the clock stepped between request and answer, the round trip includes the step.
    assert!(wrong <= point.uncertainty as f64 + 10.0, "rank {rank}: wrong by {wrong} ns: {point:?}");
    assert!(point.uncertainty >= point.round_trip / 2, "{point:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn clocks_are_compared_within_the_bounds_reported() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    for mpi in BOTH {
        let mut agent = Agent::start(&folder.path().join(mpi.name()));
        let origin = monotonic();
        let mut command = traced(mpi, &agent.socket, folder.path(), 40, 40);
        command.env("THROUGHLINE_TEST_CLOCK", test_clock(origin)).env("THROUGHLINE_TRACE_SYNC_MS", "100");
        let output = agent.run(command, 4).await;
        assert!(output.status.success(), "{}", stderr(&output));
        let some = |observed: &Observed| {
            (1..4).all(|rank| observed.clocks.range((rank, 0)..(rank + 1, 0)).count() >= 5)
        };
        agent.until("comparisons of clocks", some).await;
        for ((rank, _), point) in &agent.observed.clocks {
            assert_ne!(*rank, 0, "rank 0 has nobody to compare with");
            assert_comparison(*rank as usize, origin, point);
        }
        let left = std::fs::read_dir(folder.path()).unwrap().filter_map(Result::ok);
        let meetings: Vec<_> = left
            .map(|one| one.file_name())
            .filter(|name| name.to_string_lossy().starts_with("clock-"))
            .collect();
        assert!(meetings.is_empty(), "rank 0 takes its file away: {meetings:?}");
    }
}

/// A test of pure C of the shim, with sanitizers; its output.
fn model(program: &str, of: &str) -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().unwrap();
    let binary = folder.path().join(program);
    let mut compile = Command::new("cc");
    compile.args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined", "-o"]);
    compile.arg(&binary).arg(source.join(format!("tests/programs/{program}.c")));
    compile.arg(source.join("shim").join(of));
    succeeded(&mut compile);
    stdout(&succeeded(&mut Command::new(&binary)))
}

#[test]
fn numbers_follow_a_model_of_matching() {
    let reported = model("numbering", "messages.c");
    assert!(reported.contains(" 0 wrong, 0 without a number"), "{reported}");
}

#[test]
fn comparisons_are_within_their_bounds_whatever_clocks_and_packets_do() {
    let reported = model("bursts", "sync_burst.c");
    assert!(reported.contains(" 0 wrong,"), "{reported}");
    // One packet in eight is fast one way, one in 64 both ways: taken apart, most bursts hold both.
    let narrow = reported.trim_end().rsplit(", ").next().and_then(|last| last.strip_suffix(" narrow"));
    assert!(narrow.unwrap().parse::<u32>().unwrap() > 10_000, "{reported}");
}

/// Four threads a rank: each message finds its receive, and each thread is distinguished.
#[tokio::test(flavor = "multi_thread")]
async fn threads_are_traced() {
    const CALLS: usize = 200;
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    for mpi in BOTH {
        let mut agent = Agent::start(&folder.path().join(mpi.name()));
        let mut command = run_with_shim(mpi, 2, &agent.socket);
        command.arg("--trace").env("THROUGHLINE_TRACE_DIR", folder.path());
        command.arg(mpi.compile("tests/programs/threads.c", folder.path())).arg(CALLS.to_string());
        let output = agent.run(command, 2).await;
        assert_eq!(stdout(&output), "done\n", "{}", stderr(&output));
        let all = 2 * 4 * CALLS;
        agent
            .until("all messages", |observed| {
                count(observed, is_sent) == all && count(observed, is_received) == all
            })
            .await;
        let observed = &agent.observed;
        assert_whole(observed);
        let (sent, received) = (by_identity(observed, is_sent), by_identity(observed, is_received));
        assert!(sent.keys().eq(received.keys()));
        for rank in 0..2 {
            // Whichever threads call MPI_Init and MPI_Finalize, four of them exchange.
            let own = observed.traces.iter().filter(|((of, _), record)| *of == rank && is_sent(record));
            let threads: BTreeMap<u32, BTreeSet<i32>> = own.fold(BTreeMap::new(), |mut all, (_, record)| {
                all.entry(record.thread).or_default().extend(record.tag);
                all
            });
            assert_eq!(threads.len(), 4, "{threads:?}");
            assert!(threads.values().all(|tags| tags.len() == 1), "each has a tag of its own: {threads:?}");
        }
    }
}

/// Calls by Fortran's three bindings, with their bytes and the root's world rank.
#[tokio::test(flavor = "multi_thread")]
async fn fortran_is_traced() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    for mpi in BOTH {
        let mut agent = Agent::start(&folder.path().join(mpi.name()));
        let mut command = run_with_shim(mpi, 4, &agent.socket);
        command.arg("--trace").env("THROUGHLINE_TRACE_DIR", folder.path());
        command.arg(mpi.compile("tests/programs/bindings.f90", folder.path()));
        let output = agent.run(command, 4).await;
        assert_eq!(stdout(&output), "done\n", "{}", stderr(&output));
        let of = |observed: &Observed, operation: &str| -> Vec<MpiTraceRecord> {
            observed.traces.values().filter(|record| record.operation == operation).cloned().collect()
        };
        agent.until("all allgathers", |observed| of(observed, "allgather").len() == 4).await;
        let allreduces = of(&agent.observed, "allreduce");
        assert_eq!(allreduces.len(), 12, "{allreduces:?}");
        assert!(allreduces.iter().all(|record| record.bytes == 80), "{allreduces:?}");
        let bcasts = of(&agent.observed, "bcast");
        assert_eq!(bcasts.len(), 4);
        assert!(bcasts.iter().all(|record| record.peer == Some(3)), "rank 0 of the reversed: {bcasts:?}");
    }
}
