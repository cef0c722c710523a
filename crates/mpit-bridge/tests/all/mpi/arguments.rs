//! What the shim reads of a call's arguments: nothing that the call itself does not use, and no array beyond its end.

use crate::mpi::support::*;
use std::process::Command;

const RANKS: u32 = 4;

/// Runs a program and asserts that it shows what it shows without the shim; what the receiver made of it.
async fn as_without(mpi: Mpi, file: &str, trace: bool) -> Observed {
    let folder = tempfile::tempdir().unwrap();
    let program = mpi.compile(file, folder.path());
    let bare = mpi.run(RANKS).arg(&program).output().unwrap();
    assert!(bare.status.success() && !stdout(&bare).is_empty(), "{file}: {}", stderr(&bare));
    let mut agent = Agent::start(&folder.path().join("s"));
    let mut command: Command = run_with_shim(mpi, RANKS, &agent.socket);
    if trace {
        command.arg("--trace");
    }
    command.arg(&program);
    let output = agent.run(command, RANKS as usize).await;
    assert_eq!(comparable(&output), comparable(&bare), "{mpi:?} {file}: {}", stderr(&output));
    agent.receiver.stop().await;
    agent.observed
}

/// A count of 0 with MPI_DATATYPE_NULL, types that only the root has: an error that is not there reaches no handler.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_call_does_not_use_is_not_queried() {
    let _alone = alone().await;
    for mpi in BOTH {
        for trace in [false, true] {
            as_without(mpi, "tests/programs/unused_arguments.c", trace).await;
        }
    }
}

/// Of so many rounds: one alltoallv between pairs, and one barrier of the callbacks.
fn check_exchange(observed: &Observed, rank: u32, rounds: u64) {
    assert_eq!(observed.cell(rank, "alltoallv", 4), Some((rounds, rounds * 8)), "rank {rank}");
    assert_eq!(observed.cell(rank, "barrier", 0), Some((rounds, 0)), "rank {rank}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fortran_freed_is_not_known_any_more() {
    let _alone = alone().await;
    let observed = as_without(Mpi::Mpich, "tests/programs/freed.f90", false).await;
    for rank in 0..RANKS {
        check_exchange(&observed, rank, 20);
        let to_partner = observed.row(rank, RANKS)[((rank + 2) % RANKS) as usize];
        assert_eq!(to_partner.0, 80, "rank {rank}");
    }
}

/// A communicator that a callback used while it was freed, or that was freed unseen: the next one with its handle has
/// its own members.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_freed_is_not_known_any_more() {
    let _alone = alone().await;
    for mpi in BOTH {
        let observed = as_without(mpi, "tests/programs/freed.c", false).await;
        for rank in 0..RANKS {
            let name = format!("{mpi:?}, rank {rank}");
            let of = |operation: &str| observed.cell(rank, operation, 4);
            check_exchange(&observed, rank, 40);
            let row = observed.row(rank, RANKS);
            let bytes: Vec<u64> = row.iter().map(|cell| cell.0).collect();
            let mut expected = [0; RANKS as usize];
            expected[((rank + 2) % RANKS) as usize] = 40 * 4;
            assert_eq!(of("accumulate"), Some((20, 80)), "{name}");
            expected[((rank + 1) % RANKS) as usize] += 80;
            if mpi == Mpi::Mpich {
                assert_eq!(of("put"), Some((20, 80)), "{name}");
                // Rank 0 of the window that goes is the world's last one.
                expected[RANKS as usize - 1] += 80;
            }
            assert_eq!(bytes, expected, "{name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn arrays_of_counts_and_requests_are_read_to_their_end() {
    let _alone = alone().await;
    for mpi in BOTH {
        as_without(mpi, "tests/programs/guarded.c", false).await;
        as_without(mpi, "tests/programs/guarded.c", true).await;
    }
}
