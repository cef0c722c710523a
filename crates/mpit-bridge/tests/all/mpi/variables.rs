//! Performance variables of any MPI library: a double with MVAPICH2's names and every class and datatype, through the
//! same path as real ones.

use crate::mpi::support::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use throughline_mpit_bridge::Config;
use throughline_mpit_bridge::Welcome;

fn driver(folder: &Path, program: &str) -> PathBuf {
    let source = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name);
    let flags = ["-O1", "-Wall", "-Wextra", "-Werror"];
    let library = folder.join("libmpistub.so");
    let mut command = Command::new("cc");
    command.args(flags).args(["-shared", "-fPIC", "-o"]).arg(&library);
    succeeded(command.arg(source("stub_mpi.c")).arg(source("stub_tool.c")));
    let driver = folder.join("driver");
    let mut command = Command::new("cc");
    command.args(flags).arg("-o").arg(&driver).arg(source(program)).args(["-pthread", "-Wl,--no-as-needed"]);
    command.arg(plain_shim().join("libthroughline-mpich.so")).arg(library);
    command.arg(format!("-Wl,-rpath,{},-rpath,{}", plain_shim().display(), folder.display()));
    succeeded(&mut command);
    driver
}

#[tokio::test(flavor = "multi_thread")]
async fn every_class_and_datatype_and_algorithms_that_counters_prove() {
    let folder = tempfile::tempdir().unwrap();
    let driver = driver(folder.path(), "tool_driver.c");
    let _alone = alone().await;
    let names =
        ["mv2_coll_*", "stub_l*", "stub_s*", "stub_percentage", "stub_high", "stub_aggregate", "stub_text"];
    let welcome = Welcome {
        bin_milliseconds: Some(10),
        push_milliseconds: Some(10),
        variables: Some(
            names.iter().chain(&["stub_of_window", "nowhere"]).map(ToString::to_string).collect(),
        ),
        ..Welcome::default()
    };
    let socket = folder.path().join("s");
    let mut agent = Agent::start_with(Config { socket, node: "n1".into(), welcome, ..Config::default() });
    let mut command = Command::new(driver);
    command.env("THROUGHLINE_SOCKET", &agent.socket);
    command.env("MPIR_CVAR_BCAST_COLLECTIVE_ALGORITHM", "knomial");
    let output = agent.run(command, 1).await;
    assert_eq!(stdout(&output), "done\n", "{}", stderr(&output));

    let last: BTreeMap<_, _> = agent
        .observed
        .variables
        .iter()
        .map(|v| ((&*v.name, v.element), (&*v.variable_class, v.value)))
        .collect();
    let expected = [
        (("mv2_coll_allreduce_2lvl_rs", 0), ("counter", 50.0)),
        (("mv2_coll_allreduce_shm_rd", 0), ("counter", 110.0)),
        (("mv2_coll_timer_allreduce_shm_rd", 0), ("timer", 12.25)),
        (("stub_aggregate", 0), ("aggregate", 0.25)),
        (("stub_high", 0), ("highwatermark", -5e9)),
        (("stub_late", 0), ("generic", -3.0)),
        (("stub_levels", 0), ("level", 7.0)),
        (("stub_levels", 1), ("level", 8.0)),
        (("stub_levels", 2), ("level", 9.0)),
        (("stub_levels", 3), ("level", 4e9)),
        (("stub_low", 0), ("lowwatermark", -5e9)),
        (("stub_percentage", 0), ("percentage", 0.5)),
        (("stub_size", 0), ("size", 5e9)),
        (("stub_state", 0), ("state", -3.0)),
    ];
    assert_eq!(last, BTreeMap::from(expected), "text, a window's and what nobody requested are not read");
    assert_eq!(agent.receiver.status().missing_variables, 3, "text, the window's and one that is nowhere");

    let reported = |class: u64| -> Vec<_> {
        let cells = agent.observed.parts.iter().filter(|(key, _)| key.1 == "allreduce" && key.2 == class);
        cells.map(|(_, cell)| (&*cell.algorithm, &*cell.algorithm_source, cell.calls)).collect()
    };
    assert_eq!(reported(8), [("shm_rd", "pvar", 100)]);
    assert_eq!(reported(8192), [("2lvl_rs", "pvar", 40)]);
    // Both counters rose: nobody can say which call went by which.
    for class in [16, 4096] {
        let calls: u64 = reported(class).iter().map(|cell| cell.2).sum();
        assert_eq!(calls, 10);
        let wrong = if class == 16 { "2lvl_rs" } else { "shm_rd" };
        assert!(reported(class).iter().all(|cell| cell.0 != wrong), "{:?}", reported(class));
    }
    let setting = agent.observed.settings.get("MPIR_CVAR_BCAST_COLLECTIVE_ALGORITHM").map(String::as_str);
    assert_eq!((setting, agent.observed.settings.len()), (Some("2:knomial"), 1));
}

/// The thread that pushes is in a read for long when the rank ends: less than MPI_Finalize waits for it, and more.
#[tokio::test(flavor = "multi_thread")]
async fn a_rank_ends_cleanly_however_late_its_last_push_is() {
    let folder = tempfile::tempdir().unwrap();
    let driver = driver(folder.path(), "stub_driver.c");
    let _alone = alone().await;
    for slow_ms in ["1500", "6000"] {
        let welcome = Welcome {
            bin_milliseconds: Some(10),
            push_milliseconds: Some(10),
            variables: Some(vec!["stub_percentage".to_owned()]),
            ..Welcome::default()
        };
        let socket = folder.path().join(slow_ms);
        let mut agent = Agent::start_with(Config { socket, node: "n1".into(), welcome, ..Config::default() });
        let mut command = Command::new(&driver);
        command
            .args(["1", "1000"])
            .env("THROUGHLINE_SOCKET", &agent.socket)
            .env("STUB_TOOL_SLOW_MS", slow_ms);
        let output = agent.run(command, 1).await;
        assert!(output.status.success(), "{slow_ms}: {}", stderr(&output));
        assert_eq!(agent.observed.cell(0, "send", 8), Some((1000, 8000)), "{slow_ms}");
        let ends: Vec<_> = agent.observed.ranks.values().map(|rank| rank.ending.as_str()).collect();
        assert_eq!(ends, ["clean"], "{slow_ms}");
        agent.receiver.stop().await;
    }
}
