//! Requests of several threads, in an order that only a stub library keeps to.

use crate::support::*;
use std::path::Path;
use std::process::Command;

/// A library gives a completed request's handle to another thread's next one before MPI_Wait returns. Both threads
/// have made the same calls, so that nothing but the thread tells their requests apart.
#[tokio::test(flavor = "multi_thread")]
async fn a_handle_is_another_threads_before_its_wait_returns() {
    let folder = tempfile::tempdir().unwrap();
    let source = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name);
    let (library, program) = (folder.path().join("libmpistub.so"), folder.path().join("reuse"));
    succeeded(Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source("stub_mpi.c")));
    let mut command = Command::new("cc");
    command.args(["-pthread", "-o"]).arg(&program).arg(source("stub_reuse.c")).arg(&library);
    succeeded(&mut command);
    let mut agent = Agent::start(&folder.path().join("socket"));
    let mut command = Command::new(&program);
    command.env("LD_LIBRARY_PATH", folder.path()).env("THROUGHLINE_SOCKET", &agent.socket);
    command.env("LD_PRELOAD", plain_shim().join("libthroughline-mpich.so"));
    let output = agent.run(command, 1).await;
    assert!(output.status.success(), "{}", stderr(&output));
    let cell = &agent.seen.cells[&(0, "irecv".to_owned(), 8)];
    assert_eq!((cell.calls, cell.received_bytes), (2, Some(16)), "{cell:?}");
    assert_eq!(agent.seen.cell(0, "wait", 0), Some((2, 0)));
    agent.receiver.stop().await;
}
