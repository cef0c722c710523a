//! Calls that never return: an error handler of the program jumps or throws out of them. What follows is recorded, and nothing is
//! said to go on.

use crate::mpi::support::*;
use std::path::Path;

const RANKS: u32 = 2;
const SECOND: i64 = 1_000_000_000;

/// Calls of MPI_Barrier by rank, and the calls that were reported as open.
async fn run(mpi: Mpi, program: &Path, arguments: &[&str]) -> Observed {
    let folder = tempfile::tempdir().unwrap();
    let bare = mpi.run(RANKS).arg(program).args(arguments).output().unwrap();
    assert!(bare.status.success(), "{arguments:?}: {}", stderr(&bare));
    let mut agent = Agent::start(&folder.path().join("s"));
    let mut command = run_with_shim(mpi, RANKS, &agent.socket);
    command.arg(program).args(arguments);
    let output = agent.run(command, RANKS as usize).await;
    assert_eq!(comparable(&output), comparable(&bare), "{mpi:?} {arguments:?}");
    agent.receiver.stop().await;
    agent.observed
}

fn barriers(observed: &Observed) -> Vec<u64> {
    (0..RANKS).map(|rank| observed.cell(rank, "barrier", 0).map_or(0, |cell| cell.0)).collect()
}

/// Longest time that a call of this operation was said to be open, nanoseconds.
fn longest_open(observed: &Observed, operation: &str) -> Option<i64> {
    let calls = observed.open_calls.iter().filter(|call| call.operation == operation && !call.has_returned);
    calls.map(|call| call.time - call.start).max()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_follows_a_jump_is_recorded() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    for mpi in BOTH {
        let program = mpi.compile("tests/programs/jumps.c", folder.path());
        for how in ["same", "up", "deep", "thread"] {
            if how == "thread" && mpi == Mpi::Mpich {
                continue;
            }
            assert_eq!(barriers(&run(mpi, &program, &[how]).await), [100, 100], "{mpi:?} {how}");
        }
        // The call waits on a stack of its own: what is called meanwhile is not recorded, what follows is.
        assert_eq!(barriers(&run(mpi, &program, &["stack"]).await), [100, 100], "{mpi:?}");
        let program = mpi.compile("tests/programs/throws.cpp", folder.path());
        assert_eq!(barriers(&run(mpi, &program, &[]).await), [100, 100], "{mpi:?}");
    }
}

/// Rank 0 does not call MPI for a while, and is not in the call that it left; the other one waits for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_was_left_is_not_open() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    for mpi in BOTH {
        let program = mpi.compile("tests/programs/jumps.c", folder.path());
        for how in ["same", "up", "thread"] {
            if how == "thread" && mpi == Mpi::Mpich {
                continue;
            }
            let observed = run(mpi, &program, &[how, "3000"]).await;
            assert_eq!(longest_open(&observed, "send"), None, "{mpi:?} {how}");
            let waits = longest_open(&observed, "barrier").unwrap();
            assert!(waits > SECOND, "{mpi:?} {how}: {waits}");
        }
    }
}
