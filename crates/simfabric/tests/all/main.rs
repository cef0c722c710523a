//! The process: ready line, commands, a clean end, exit statuses; and a fabric within the process.
#![allow(clippy::unwrap_used, missing_docs)]

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use throughline_crawler::port::{FabricPort, TransportKind};
use throughline_simfabric::{Scenario, SimFabric, fat_tree};

const PROGRAM: &str = env!("CARGO_BIN_EXE_throughline-simfabric");

fn start(socket: &Path, arguments: &[&str]) -> Child {
    let mut command = Command::new(PROGRAM);
    command.arg("run").arg("--socket").arg(socket).args(arguments).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, format!("listening sim={}\n", socket.display()));
    child
}

fn ctl(socket: &Path, commands: &[&str]) -> Output {
    Command::new(PROGRAM).arg("ctl").arg(socket).args(commands).output().unwrap()
}

fn status(arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(PROGRAM).args(arguments).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn it_serves_takes_commands_and_ends() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("fab");
    let mut child = start(&socket, &["--torus", "3,3", "--do", "latency 10us"]);
    let port = FabricPort::find(&TransportKind::Sim(socket.clone()), None, 0).unwrap();
    assert_eq!((port.local().lid, port.local().port), (1, 1));
    let output = ctl(&socket, &["rename torus-0-0 \"hub\"", "nodes"]);
    assert!(output.status.success());
    assert!(String::from_utf8(output.stdout).unwrap().contains("\"hub\""));
    let wrong = ctl(&socket, &["loss 2"]);
    assert_eq!(wrong.status.code(), Some(64));
    assert!(String::from_utf8(wrong.stderr).unwrap().contains("loss 2"));
    let entries = ctl(&socket, &["sweep off", "forward torus-1-1 1 2", "forward torus-1-1 40000 1"]);
    assert!(entries.status.success(), "{}", String::from_utf8_lossy(&entries.stderr));
    for (refused, reason) in [
        ("forward torus-1-1 1 99", "no such port"),
        ("forward torus-1-1 0 1", "1 to 49151"),
        ("forward H-0002c90300000010 1 1", "is no switch"),
    ] {
        let said = ctl(&socket, &[refused]);
        assert_eq!(said.status.code(), Some(64));
        assert!(String::from_utf8_lossy(&said.stderr).contains(reason), "{refused}: {said:?}");
    }
    let second = status(&["run", "--socket", socket.to_str().unwrap(), "--back-to-back"]);
    assert!(second.0 == Some(69) && second.1.contains("another simulated fabric"), "{second:?}");
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGTERM).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(!socket.exists());
    assert_eq!(ctl(&socket, &["stats"]).status.code(), Some(69));
}

#[test]
fn a_socket_that_was_left_behind_is_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("fab");
    let mut killed = start(&socket, &["--back-to-back"]);
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(socket.exists());
    let mut child = start(&socket, &["--back-to-back"]);
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGINT).unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn wrong_usage_is_64() {
    for (arguments, words) in [
        (vec!["run", "--socket", "/nowhere/fab", "--fat-tree", "7"], "146, 1428 or 8008"),
        (vec!["run", "--socket", "fab", "--net", "/nowhere/net"], "/nowhere/net"),
        (vec!["run", "--socket", "fab", "--back-to-back", "--do", "loss"], "`loss`"),
        (vec!["run", "--socket", "fab"], "--fat-tree"),
        (vec!["net", "--torus", "0"], "torus"),
    ] {
        let (code, said) = status(&arguments);
        assert!(code == Some(64) && said.contains(words), "{arguments:?}: {code:?} {said}");
    }
    let (code, said) = status(&["run", "--socket", "/nowhere/fab", "--back-to-back"]);
    assert!(code == Some(69) && said.contains("/nowhere/fab"), "{said}");
}

/// The example of the crate's documentation.
#[test]
fn a_fabric_of_one_process_is_commanded_and_read() {
    let scenario = Scenario::new(fat_tree(146).unwrap()).with("latency 50us").with("loss 0.01");
    let fabric = SimFabric::start(&scenario).unwrap();
    fabric.control("dead \"node0007 mlx5_0\"\nlink leaf001 3 down").unwrap();
    let port = FabricPort::find(&fabric.via(), None, 0).unwrap();
    assert_eq!(port.local().lid, 1);
}
