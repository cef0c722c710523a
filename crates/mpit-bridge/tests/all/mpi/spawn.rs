//! Processes that a program starts by MPI_Comm_spawn: a world, and so a job, of their own.

use crate::mpi::support::*;

/// Each world is reported by itself; messages between the two count without a receiver, as ranks of another world have no
/// row in the matrix.
#[tokio::test(flavor = "multi_thread")]
async fn spawned_processes_are_a_job_of_their_own() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    for mpi in BOTH {
        let program = mpi.compile("tests/programs/spawn.c", folder.path());
        // Open MPI's shared memory does not reach from one job to another.
        let run = || mpi.run_over("self,vader,tcp", 2);
        let plain = run().arg(&program).arg("env").output().unwrap();
        // Debian 12's MPICH 4.0.2 says "Error in spawn call", or ends without a word on a busy machine; 4.2 and 5.0 can.
        if mpi == Mpi::Mpich && stdout(&plain) != "sum 2\n" {
            throughline_test_support::left_out(format_args!(
                "this MPICH does not spawn without the shim: {}, {}",
                plain.status,
                stderr(&plain)
            ));
            continue;
        }
        assert_eq!(stdout(&plain), "sum 2\n", "{mpi:?} without the shim: {}", stderr(&plain));
        let mut agent = Agent::start(&folder.path().join(mpi.name()));
        let mut command = with_shim(run(), &agent.socket);
        command.arg(program).arg(env!("CARGO_BIN_EXE_throughline-exec"));
        let output = agent.run(command, 4).await;
        assert_eq!(stdout(&output), "sum 2\n", "{mpi:?}: {}", stderr(&output));
        assert_eq!(agent.observed.jobs.len(), 2, "{mpi:?}: {:?}", agent.observed.jobs);
        assert!(
            agent.observed.ranks.values().all(|rank| rank.ending == "clean"),
            "{:?}",
            agent.observed.ranks
        );
        for rank in 0..2 {
            let observed = |operation, class| agent.observed.cell(rank, operation, class);
            assert_eq!(
                [observed("send", 128), observed("recv", 64)],
                [Some((1, 100)), Some((1, 0))],
                "those that spawn"
            );
            assert_eq!(
                [observed("recv", 128), observed("send", 64)],
                [Some((1, 0)), Some((1, 60))],
                "the spawned"
            );
            let received = |class| agent.observed.cells[&(rank, "recv".to_owned(), class)].received_bytes;
            assert_eq!([received(64), received(128)], [Some(60), Some(100)]);
        }
        assert_eq!(agent.observed.matrix(2), [[(0, 0), (8, 1)], [(8, 1), (0, 0)]]);
        assert_eq!(agent.receiver.status().unknown_messages, 4);
        agent.receiver.stop().await;
    }
}
