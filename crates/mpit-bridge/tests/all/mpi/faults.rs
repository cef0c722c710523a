//! Whatever happens to the agent, the program's output and exit status stay the same. The real agent stopped, killed and
//! without space is in the agent's own tests; what programs do to themselves in program_state.rs.

use crate::mpi::support::*;
use std::path::Path;
use std::process::Output;

fn both_ways(mpi: Mpi, program: &Path, arguments: &[&str], socket: &Path) -> (Output, Output) {
    let plain = mpi.run(2).arg(program).args(arguments).output().unwrap();
    let mut shimmed = run_with_shim(mpi, 2, socket);
    // As many frames as fill a socket that nobody reads.
    shimmed.env("THROUGHLINE_PUSH_MS", "10").env("THROUGHLINE_BIN_MS", "10");
    let shimmed = shimmed.arg(program).args(arguments).output().unwrap();
    (plain, shimmed)
}

#[test]
fn agent_absent() {
    let _alone = alone_blocking();
    let folder = tempfile::tempdir().unwrap();
    for mpi in BOTH {
        let program = mpi.compile("tests/programs/allreduce.c", folder.path());
        for (status, expected) in [("0", Some(0)), ("3", Some(3))] {
            let (plain, shimmed) =
                both_ways(mpi, &program, &["5", "0", status], &folder.path().join("absent"));
            assert_eq!(plain.status.code(), expected);
            assert_eq!(comparable(&shimmed), comparable(&plain), "{}", stderr(&shimmed));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_replaced_in_mid_run() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    for mpi in BOTH {
        let program = mpi.compile("tests/programs/allreduce.c", folder.path());
        let socket = folder.path().join(mpi.name());
        let mut first = Agent::start(&socket);
        let mut command = run_with_shim(mpi, 2, &socket);
        command.arg(&program).args(["40", "60"]).env("THROUGHLINE_PUSH_MS", "100");
        let running = tokio::task::spawn_blocking(move || command.output().unwrap());
        first.until("both ranks push", |observed| observed.ended() == 0 && observed.peers.len() == 2).await;
        first.receiver.stop().await;

        let mut second = Agent::start(&socket);
        second.until_ended(2).await;
        let output = running.await.unwrap();
        assert_eq!(stdout(&output), "sum 3\n", "{}", stderr(&output));
        for rank in 0..2 {
            assert_eq!(
                second.observed.cell(rank, "allreduce", 8192),
                Some((40, 40 * 8192)),
                "sums, not differences"
            );
        }
        assert_eq!(second.observed.row(0, 2)[1], (40 * 8192, 40));
        assert!(second.observed.ranks.values().all(|rank| rank.ending == "clean"));
    }
}

/// The shim uses MPI_T itself; a program that does so too, or has not initialized it, must not notice, nor get another thread
/// level.
#[tokio::test(flavor = "multi_thread")]
async fn programs_with_tools_of_their_own() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    for mpi in BOTH {
        let program = mpi.compile("tests/programs/tool.c", folder.path());
        let plain = mpi.run(2).arg(&program).output().unwrap();
        assert!(plain.status.success() && stdout(&plain).contains("level"), "{}", stderr(&plain));
        let mut agent = Agent::start(&folder.path().join(mpi.name()));
        let mut command = run_with_shim(mpi, 2, &agent.socket);
        command.arg(&program);
        let shimmed = agent.run(command, 2).await;
        assert_eq!(shown(&shimmed), shown(&plain));
        assert_eq!(agent.observed.variables.is_empty(), mpi == Mpi::Mpich, "the shim's own variables");
    }
}

/// The program's handlers of its end run after those that were registered later.
#[tokio::test(flavor = "multi_thread")]
async fn finalize_in_a_handler_from_before_init() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    for mpi in BOTH {
        let program = mpi.compile("tests/programs/late_finalize.c", folder.path());
        let mut agent = Agent::start(&folder.path().join(mpi.name()));
        let mut command = run_with_shim(mpi, 2, &agent.socket);
        command.arg(&program);
        let output = agent.run(command, 2).await;
        assert!(output.status.success(), "{}", stderr(&output));
        for rank in 0..2 {
            assert_eq!(agent.observed.cell(rank, "barrier", 0), Some((15, 0)), "{mpi:?}");
        }
        assert!(agent.observed.ranks.values().all(|rank| rank.ending == "clean"), "{mpi:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn switched_off() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    let program = Mpi::Mpich.compile("tests/programs/allreduce.c", folder.path());
    let agent = Agent::start(&folder.path().join("s"));
    let object = plain_shim().join("libthroughline-mpich.so");
    let mut command = Mpi::Mpich.run(2);
    command.env("LD_PRELOAD", object).env("THROUGHLINE_SHIM", "off").env("THROUGHLINE_SOCKET", &agent.socket);
    let output = command.arg(program).arg("5").output().unwrap();
    assert_eq!(stdout(&output), "sum 3\n");
    assert_eq!(agent.receiver.status().frames, 0);
}
