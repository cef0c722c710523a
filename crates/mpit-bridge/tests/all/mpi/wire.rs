//! The `wire` matrix against Open MPI's own account of what its point-to-point layer sent. That this is what an
//! interface carries is measured by benches/shim/wire.sh.

use crate::mpi::support::*;
use std::path::Path;
use std::process::Command;
use throughline_mpit_bridge::Config;
use throughline_mpit_bridge::Welcome;

fn run(agent: &Agent, program: &Path, profile: &Path) -> Command {
    let mut command = Mpi::Open.run(4);
    let settings = [("enable_output", "3"), ("filename", profile.to_str().unwrap())];
    for (name, value) in settings {
        command.args(["--mca", &format!("pml_monitoring_{name}"), value]);
    }
    command.env("THROUGHLINE_SOCKET", &agent.socket).env("THROUGHLINE_LIB_DIR", plain_shim());
    command.arg(env!("CARGO_BIN_EXE_throughline-exec")).arg(program).args(["8192"]);
    command
}

/// The wire matrix is Open MPI's own; the sum of its bytes.
fn assert_equal(agent: &Agent, profile: &Path) -> u64 {
    let (theirs, mut sum) = (monitored(profile), 0);
    for from in 0..4 {
        for to in 0..4 {
            let cell =
                agent.observed.wire.get(&(from, to)).map_or((0, 0), |cell| (cell.bytes, cell.messages));
            let there = theirs[from as usize][to as usize];
            // Theirs counts from the middle of MPI_Init to the end of MPI_Finalize: a few messages of no bytes more.
            assert_eq!(cell.0, there.0, "bytes from {from} to {to}: {:?}\n{theirs:?}", agent.observed.wire);
            assert!(cell.1 <= there.1, "messages from {from} to {to}");
            sum += cell.0;
        }
    }
    sum
}

/// Lines `E FROM TO N bytes N msgs sent` (what a program sent) and `I ...` (what the library sent by itself).
fn monitored(prefix: &Path) -> Vec<Vec<(u64, u64)>> {
    let mut matrix = vec![vec![(0, 0); 4]; 4];
    for rank in 0..4 {
        let path = format!("{}.{rank}.prof", prefix.display());
        for line in std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}")).lines() {
            let words: Vec<_> = line.split_whitespace().collect();
            if let ["E" | "I", from, to, bytes, "bytes", messages, "msgs", ..] = words[..] {
                let cell: &mut (u64, u64) =
                    &mut matrix[from.parse::<usize>().unwrap()][to.parse::<usize>().unwrap()];
                cell.0 += bytes.parse::<u64>().unwrap();
                cell.1 += messages.parse::<u64>().unwrap();
            }
        }
    }
    matrix
}

#[tokio::test(flavor = "multi_thread")]
async fn what_really_went() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    let program = Mpi::Open.compile("tests/programs/algorithms.c", folder.path());
    let mut agent = Agent::start(&folder.path().join("s"));
    let mut command = run(&agent, &program, &folder.path().join("profile"));
    command.env("THROUGHLINE_WIRE", "1");
    let output = agent.run(command, 4).await;
    assert_eq!(stdout(&output), "done\n", "{}", stderr(&output));
    let ours = assert_equal(&agent, &folder.path().join("profile"));
    let logical: u64 = agent.observed.peers.values().map(|cell| cell.bytes).sum();
    assert!(ours > 0 && ours < logical, "collectives send less than each to everybody: {ours} of {logical}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_where_it_is_requested() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    let program = Mpi::Open.compile("tests/programs/algorithms.c", folder.path());
    for wanted in [false, true] {
        let welcome = Welcome { wire: wanted.then_some(true), ..Welcome::default() };
        let socket = folder.path().join(format!("{wanted}"));
        // The mark that an agent with `wire = true` lays beside its socket.
        if wanted {
            std::fs::write(folder.path().join("true.wire"), "").unwrap();
        }
        let mut agent = Agent::start_with(Config { socket, node: "n1".into(), welcome, ..Config::default() });
        let command = run(&agent, &program, &folder.path().join("profile"));
        let output = agent.run(command, 4).await;
        assert_eq!(stdout(&output), "done\n", "{}", stderr(&output));
        assert_eq!(!agent.observed.wire.is_empty(), wanted);
    }
}

/// A list of point-to-point layers without the monitoring layer: nothing is measured, and the rank reports why.
#[tokio::test(flavor = "multi_thread")]
async fn a_selection_that_leaves_the_monitoring_layer_out() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    let program = Mpi::Open.compile("tests/programs/algorithms.c", folder.path());
    for (layers, is_measured) in [("ob1", false), ("ob1,monitoring", true)] {
        let mut agent = Agent::start(&folder.path().join(layers));
        let mut command = run(&agent, &program, &folder.path().join("profile"));
        command.env("THROUGHLINE_WIRE", "1").env("OMPI_MCA_pml", layers);
        let output = agent.run(command, 4).await;
        assert_eq!(stdout(&output), "done\n", "{}", stderr(&output));
        assert_eq!(!agent.observed.wire.is_empty(), is_measured, "{layers}");
        let reported = agent.observed.settings.get("pml").map(String::as_str);
        assert_eq!(reported, (!is_measured).then_some("ob1"));
    }
}

/// Open MPI's monitoring of collectives, which its parameter switches on as well, crashes on these.
#[tokio::test(flavor = "multi_thread")]
async fn collectives_whose_sides_differ_are_measured() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    let program = Mpi::Open.compile("tests/programs/uneven.c", folder.path());
    let mut agent = Agent::start(&folder.path().join("s"));
    let mut command = run(&agent, &program, &folder.path().join("profile"));
    command.env("THROUGHLINE_WIRE", "1");
    let output = agent.run(command, 4).await;
    assert_eq!(stdout(&output), "done\n", "{}", stderr(&output));
    assert!(assert_equal(&agent, &folder.path().join("profile")) > 0);
}

/// A user who sets the parameter gets what it requests: nothing, or all of the monitoring, that of collectives (lines of
/// communicators, `D`) included.
#[tokio::test(flavor = "multi_thread")]
async fn a_users_own_setting_of_the_parameter_holds() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    let program = Mpi::Open.compile("tests/programs/algorithms.c", folder.path());
    let on_collectives = |profile: &Path| {
        std::fs::read_to_string(format!("{}.0.prof", profile.display()))
            .is_ok_and(|text| text.lines().any(|line| line.starts_with("D\t")))
    };
    for (setting, is_measured, has_collectives) in
        [(None, true, false), (Some("0"), false, false), (Some("1"), true, true)]
    {
        let name = setting.unwrap_or("none");
        let profile = folder.path().join(format!("profile-{name}"));
        let mut agent = Agent::start(&folder.path().join(name));
        let mut command = run(&agent, &program, &profile);
        command.env("THROUGHLINE_WIRE", "1");
        if let Some(setting) = setting {
            command.env("OMPI_MCA_pml_monitoring_enable", setting);
        }
        let output = agent.run(command, 4).await;
        assert_eq!(stdout(&output), "done\n", "{}", stderr(&output));
        assert_eq!(!agent.observed.wire.is_empty(), is_measured, "{setting:?}");
        assert_eq!(on_collectives(&profile), has_collectives, "{setting:?}");
        // Why there is none.
        assert_eq!(agent.observed.settings.contains_key("wire"), !is_measured, "{setting:?}");
    }
}

/// Programs that a program starts, be they without the shim, inherit nothing that switches the monitoring on.
#[test]
fn the_environment_stays_as_it_is() {
    let run = |wire: &str| {
        let mut command = Command::new("/usr/bin/env");
        command.env_clear().env("THROUGHLINE_WIRE", wire);
        command.env("LD_PRELOAD", plain_shim().join(Mpi::Open.object()));
        stdout(&succeeded(&mut command))
    };
    assert_eq!(run("1").replace("WIRE=1", "WIRE=0"), run("0"));
}
