//! The demo as people run it, small: it delivers from every source, keeps a second one out, and leaves nothing
//! behind when it ends or is stopped.
#![allow(clippy::unwrap_used, missing_docs)]

mod emulate;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// Starts the demo on a fabric of 16 hosts. `make test` builds the programs that it needs beside it.
fn demo(state: &Path, options: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_throughline-demo"))
        .args(["--hosts", "16", "--state-dir"])
        .arg(state)
        .args(options)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Command lines of processes that have to do with this state folder.
fn left_behind(state: &Path) -> Vec<String> {
    let state = state.to_str().unwrap();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.map(|line| text(&line).replace('\0', " ")).filter(|line| line.contains(state)).collect()
}

#[test]
fn it_delivers_from_every_source_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    // As root, the database runs as another user, who must get in.
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let state = folder.path();

    let first = demo(state, &["--once"]);
    while !state.join("demo/run").exists() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let second = demo(state, &["--once"]).wait_with_output().unwrap();
    assert_eq!(second.status.code(), Some(69), "{}", text(&second.stderr));
    assert!(text(&second.stderr).contains("already running"), "{}", text(&second.stderr));

    let Output { status, stdout, stderr } = first.wait_with_output().unwrap();
    let (stdout, stderr) = (text(&stdout), text(&stderr));
    assert!(status.success(), "{status}\n{stdout}\n{stderr}");
    for table in [
        "ib_port_counters",
        "host_port_counters",
        "nvlink_counters",
        "mpi_node_rows",
        "mpi_rank_peers",
        "mpi_pvars",
    ] {
        let line = stdout.lines().find(|line| line.contains(table)).unwrap_or_default();
        let rows: u64 = line.rsplit(' ').next().and_then(|count| count.parse().ok()).unwrap_or(0);
        let no_pvars = stdout.contains("offers no performance variables");
        assert!(rows > 0 || (table == "mpi_pvars" && no_pvars), "{table}:\n{stdout}");
    }
    assert_eq!(left_behind(state), Vec::<String>::new());
    assert!(!state.join("demo/run").exists(), "sockets and folders of the run");

    // The data stays, and Ctrl-C is a clean end.
    let mut watched = demo(state, &[]);
    let lines = BufReader::new(watched.stdout.take().unwrap()).lines();
    let shown = lines.map_while(Result::ok).find(|line| line.starts_with("rows/s: "));
    kill(Pid::from_raw(watched.id().try_into().unwrap()), Signal::SIGINT).unwrap();
    let end = watched.wait_with_output().unwrap();
    assert!(shown.is_some() && end.status.success(), "{shown:?} {}\n{}", end.status, text(&end.stderr));
    assert_eq!(left_behind(state), Vec::<String>::new());
    assert!(!state.join("demo/run").exists(), "sockets and folders of the run");
}
