//! Calls that go on for long, of real programs: what hangs is reported while it does, and as far as it came if it is killed.

use crate::mpi::support::*;
use std::path::Path;
use std::process::Command;
use throughline_sample::wire::MpiOpenCall;

const RANKS: usize = 4;
/// Of hang.c: the others wait for the last one.
const HANGING: usize = 5;
const SECOND: i64 = 1_000_000_000;

fn hang(mpi: Mpi, agent: &Agent, program: &Path, arguments: &[&str]) -> Command {
    run(mpi, HANGING, agent, program, arguments)
}

fn run(mpi: Mpi, ranks: usize, agent: &Agent, program: &Path, arguments: &[&str]) -> Command {
    let mut command = run_with_shim(mpi, ranks as u32, &agent.socket);
    command.arg(program).args(arguments);
    command
}

/// A rank's reports, in their order.
fn of(observed: &Observed, rank: u32) -> Vec<MpiOpenCall> {
    observed.open_calls.iter().filter(|call| call.rank == rank).cloned().collect()
}

/// What the ranks are in.
fn check(observed: &Observed, name: &str) {
    let newest = |rank: u32| {
        let all = of(observed, rank);
        all.into_iter().rfind(|call| !call.has_returned).unwrap_or_default()
    };
    let barrier = newest(0);
    assert_eq!((barrier.operation.as_str(), barrier.is_on_world), ("barrier", true), "{name}");
    assert_eq!((barrier.comm_size, barrier.peer, barrier.pending_requests), (Some(5), None, 0));
    assert_eq!((barrier.threads_elsewhere, barrier.threads_to_come), (0, 0), "{name}");
    let receive = newest(1);
    let named = observed.comms.values().find(|comm| comm.rank == 1).unwrap();
    assert_eq!((named.name.as_str(), receive.comm), ("reversed", Some(named.comm)), "{name}");
    assert_eq!((receive.operation.as_str(), receive.is_on_world), ("recv", false));
    assert_eq!((receive.comm_size, receive.peer), (Some(5), Some(4)), "by its number in the world");
    assert_eq!((receive.tag, receive.is_from_any), (Some(7), false));
    let wait = newest(2);
    assert_eq!((wait.operation.as_str(), wait.comm_size, wait.peer), ("waitall", None, None), "{name}");
    assert_eq!((wait.requests, wait.pending_requests, wait.oldest_request.as_str()), (2, 2, "irecv"));
    assert_eq!((wait.oldest_peer, wait.oldest_tag), (Some(4), Some(30)), "{name}");
    let tests = newest(3);
    assert_eq!((tests.operation.as_str(), tests.requests, tests.pending_requests), ("test", 1, 1), "{name}");
    assert_eq!(
        (tests.oldest_request.as_str(), tests.oldest_peer, tests.oldest_tag),
        ("irecv", None, Some(5))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_hangs_is_reported_until_it_returns() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    for mpi in BOTH {
        let program = mpi.compile("tests/programs/hang.c", folder.path());
        let mut agent = Agent::start(&folder.path().join(mpi.name()));
        let mut command = hang(mpi, &agent, &program, &["4000"]);
        let running = tokio::task::spawn_blocking(move || command.output().unwrap());
        let open = |observed: &Observed| {
            (0..4).all(|rank| of(observed, rank).iter().any(|call| call.time - call.start > 2 * SECOND))
        };
        agent.until("all but one hang", open).await;
        check(&agent.observed, mpi.name());
        assert_eq!(agent.observed.ended(), 0, "while they do");
        agent.until_ended(HANGING).await;
        assert_eq!(stdout(&running.await.unwrap()), "done\n");
        for rank in 0..4 {
            let all = of(&agent.observed, rank);
            let first = &all[0];
            // Long is half a second, and pushes are a second apart; a busy machine is later.
            assert!((SECOND / 2..3 * SECOND).contains(&(first.time - first.start)), "{first:?}");
            let starts = all.iter().map(|call| (call.start - first.start).abs());
            assert!(starts.max().unwrap() < SECOND / 10, "one call: {all:?}");
            assert!(all.last().unwrap().has_returned, "{all:?}");
        }
        assert_eq!(of(&agent.observed, 4), [], "it slept, and not in MPI");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn threads_that_may_yet_call_are_reported() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    for mpi in BOTH {
        let program = mpi.compile("tests/programs/open_threads.c", folder.path());
        let mut agent = Agent::start(&folder.path().join(mpi.name()));
        let mut command = run(mpi, 2, &agent, &program, &["3000"]);
        let running = tokio::task::spawn_blocking(move || command.output().unwrap());
        agent.until_ended(2).await;
        assert_eq!(stdout(&running.await.unwrap()), "done\n");
        let all = of(&agent.observed, 0);
        let receive = all.iter().find(|call| call.operation == "recv" && call.time - call.start > SECOND);
        let receive = receive.unwrap_or_else(|| panic!("{mpi:?}: {all:?}"));
        assert_eq!((receive.threads_elsewhere, receive.threads_to_come), (1, 1), "{mpi:?}");
        assert_eq!(receive.pending_requests, 1, "{mpi:?}: a persistent one");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_killed_in_a_call_was_in_it_until_then() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    for mpi in BOTH {
        let program = mpi.compile("tests/programs/hang.c", folder.path());
        let mut agent = Agent::start(&folder.path().join(mpi.name()));
        let command = hang(mpi, &agent, &program, &["4000", "kill"]);
        let mut command = command;
        let running = tokio::task::spawn_blocking(move || command.output().unwrap());
        agent.until_ended(HANGING).await;
        assert!(!running.await.unwrap().status.success());
        check(&agent.observed, mpi.name());
        for rank in 0..4 {
            let all = of(&agent.observed, rank);
            let last = all.last().unwrap();
            assert!(!last.has_returned && last.time - last.start > 2 * SECOND, "{last:?}");
        }
        assert!(agent.observed.ranks.values().all(|rank| rank.ending == "lost"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ranks_that_wait_in_finalize_are_in_mpi() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    for mpi in BOTH {
        let program = mpi.compile("tests/programs/finalize.c", folder.path());
        let mut agent = Agent::start(&folder.path().join(mpi.name()));
        let mut command = run(mpi, RANKS, &agent, &program, &["3500"]);
        let running = tokio::task::spawn_blocking(move || command.output().unwrap());
        let waits = |observed: &Observed| {
            (0..3).all(|rank| {
                of(observed, rank).iter().any(|call| call.operation == "finalize" && !call.has_returned)
            })
        };
        agent.until("all but one wait in MPI_Finalize", waits).await;
        assert_eq!(agent.observed.ended(), 0, "while they do");
        // All that was before it is there already.
        let (calls, bytes) = agent.observed.cell(0, "allreduce", 8).unwrap();
        assert_eq!((calls, bytes), (100, 800), "{mpi:?}");
        agent.until_ended(RANKS).await;
        assert!(running.await.unwrap().status.success());
        for rank in 0..RANKS as u32 {
            assert_eq!(agent.observed.cell(rank, "allreduce", 8), Some((100, 800)), "{mpi:?} {rank}");
            let finalize = &agent.observed.finalize[&rank];
            assert_eq!((finalize.calls, finalize.size_class_bytes), (1, 0), "{mpi:?} {rank}");
            let least = if rank == 3 { 0 } else { 3 * SECOND };
            assert!(finalize.elapsed_nanoseconds >= least.unsigned_abs(), "{mpi:?} {rank}: {finalize:?}");
            let last = of(&agent.observed, rank).into_iter().next_back();
            assert!(last.is_none_or(|call| call.has_returned), "{mpi:?} {rank}");
        }
        let ends: Vec<_> = agent.observed.ranks.values().map(|rank| rank.ending.as_str()).collect();
        assert_eq!(ends, vec!["clean"; RANKS]);
        agent.receiver.stop().await;
    }
}
