//! Requests of several threads, in an order that only a stub library keeps to.

use crate::mpi::support::*;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The stub library and a program for it.
fn compile(name: &str, folder: &Path) -> PathBuf {
    let source = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name);
    let (library, program) = (folder.join("libmpistub.so"), folder.join("program"));
    succeeded(Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source("stub_mpi.c")));
    let mut command = Command::new("cc");
    command
        .args(["-Wall", "-Wextra", "-Werror", "-pthread", "-o"])
        .arg(&program)
        .arg(source(name))
        .arg(&library);
    succeeded(&mut command);
    program
}

/// Rows of tests that fail, and what comes in between: no call more or less, in the region in which it was made.
#[tokio::test(flavor = "multi_thread")]
async fn rows_of_tests_that_fail_are_counted_whatever_comes_in_between() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile("stub_polls.c", folder.path());
    // One thread at a time, and several: of theirs, requests are looked up before each call.
    for level in ["0", "3"] {
        let mut agent = Agent::start(&folder.path().join(level));
        let mut command = Command::new(&program);
        command.arg(level).env("LD_LIBRARY_PATH", folder.path()).env("THROUGHLINE_SOCKET", &agent.socket);
        command.env("LD_PRELOAD", plain_shim().join("libthroughline-mpich.so"));
        let began = std::time::Instant::now();
        let output = agent.run(command, 1).await;
        assert!(output.status.success(), "{}", stderr(&output));
        let lasted = began.elapsed().as_nanos() as u64;
        let text = stdout(&output);
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let region = words[1].trim_start_matches('-');
            let parts = agent.observed.parts.iter().filter(|(key, _)| key.1 == words[0] && key.3 == region);
            let (calls, time) =
                parts.fold((0, 0), |sum, (_, cell)| (sum.0 + cell.calls, sum.1 + cell.elapsed_nanoseconds));
            assert_eq!(calls, words[2].parse::<u64>().unwrap(), "level {level}: {line}");
            assert!((1..lasted).contains(&time), "level {level}: {line}: {time} of {lasted} ns");
        }
        assert_eq!(text.lines().count(), 4, "{text}");
        let irecv = &agent.observed.cells[&(0, "irecv".to_owned(), 8)];
        assert_eq!(irecv.received_bytes, Some(8 * irecv.calls), "level {level}: {irecv:?}");
        assert!(irecv.wait_nanoseconds.is_some_and(|time| time > 0 && time < lasted), "{irecv:?}");
        agent.receiver.stop().await;
    }
}

/// A library gives a completed request's handle to another thread's next one before MPI_Wait returns. Both threads
/// have made the same calls, so that nothing but the thread distinguishes their requests.
#[tokio::test(flavor = "multi_thread")]
async fn a_handle_is_another_threads_before_its_wait_returns() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile("stub_reuse.c", folder.path());
    let mut agent = Agent::start(&folder.path().join("socket"));
    let mut command = Command::new(&program);
    command.env("LD_LIBRARY_PATH", folder.path()).env("THROUGHLINE_SOCKET", &agent.socket);
    command.env("LD_PRELOAD", plain_shim().join("libthroughline-mpich.so"));
    let output = agent.run(command, 1).await;
    assert!(output.status.success(), "{}", stderr(&output));
    let cell = &agent.observed.cells[&(0, "irecv".to_owned(), 8)];
    assert_eq!((cell.calls, cell.received_bytes), (2, Some(16)), "{cell:?}");
    assert_eq!(agent.observed.cell(0, "wait", 0), Some((2, 0)));
    agent.receiver.stop().await;
}
