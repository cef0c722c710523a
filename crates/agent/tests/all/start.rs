//! Starting the real binary: what is wrong is reported in one message with its exit status, and nothing panics.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

struct Case {
    folder: TempDir,
}

impl Case {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a configuration; every case has its own state folder and no fixed port.
    fn run(&self, command: &str, toml: &str) -> Output {
        let file = self.path().join("agent.toml");
        std::fs::write(&file, toml).unwrap();
        Command::new(env!("CARGO_BIN_EXE_throughline-agent"))
            .args([command, "--config"])
            .arg(&file)
            .arg("--state-dir")
            .arg(self.path().join("state"))
            .env("THROUGHLINE__HTTP__LISTEN", "127.0.0.1:0")
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }
}

/// The message of a failed start: exactly one line of the program's own, with this status.
fn refused(output: &Output, status: i32) -> String {
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{message}");
    assert!(!message.contains("panicked"), "{message}");
    assert_eq!(
        message.lines().filter(|line| line.starts_with("throughline-agent: ")).count(),
        1,
        "{message}"
    );
    message
}

#[test]
fn a_wrong_configuration_names_file_line_and_key() {
    let wrong = [
        ("node = 'n1'\ncolour = 'red'\n", "line 2", "colour"),
        ("[spool]\nbytes_max = 'many'\n", "line 2", "bytes_max"),
        ("[nvml]\n\ninterval_seconds = 0\n", "line 3", "interval_seconds"),
        ("[mpi]\nsocket_mode = 'rw'\n", "line 2", "socket_mode"),
        ("[delivery]\ncollector = 'nowhere'\n", "line 2", "collector"),
        ("[http]\nlisten = '9461'\n", "line 2", "listen"),
        ("node = 'a b'\n", "line 1", "node"),
        ("hca_guids = ['x']\n", "line 1", "hca_guids"),
        ("[spool\n", "line 1", "[spool"),
        ("[spool]\nbytes_max = 1\n", "spool.bytes_max", "must hold"),
    ];
    let case = Case::new();
    for (toml, place, key) in wrong {
        let message = refused(&case.run("run", toml), 64);
        assert!(message.contains(place) && message.contains(key), "{toml}: {message}");
    }
}

#[test]
fn wrong_usage_and_a_missing_file_are_reported() {
    let agent = || Command::new(env!("CARGO_BIN_EXE_throughline-agent"));
    let output = agent().arg("walk").output().unwrap();
    assert_eq!(output.status.code(), Some(64));
    let output = agent().args(["run", "--config", "/nonexistent/agent.toml"]).output().unwrap();
    assert!(refused(&output, 64).contains("/nonexistent/agent.toml"));
    let output = agent().arg("check-config").env("THROUGHLINE__MPI__COLOUR", "red").output().unwrap();
    assert!(refused(&output, 64).contains("THROUGHLINE__MPI__COLOUR"));
}

/// Any local user may hold the port: the agent measures and delivers all the same, and takes the address once it is free.
#[test]
fn attack_14_a_local_user_holds_the_agents_address() {
    let case = Case::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let file = case.path().join("agent.toml");
    std::fs::write(&file, format!("http.listen = '{address}'\n")).unwrap();
    let mut agent = Command::new(env!("CARGO_BIN_EXE_throughline-agent"))
        .args(["run", "--config"])
        .arg(&file)
        .arg("--state-dir")
        .arg(case.path().join("state"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Its other parts are there: ranks can connect, commands are taken.
    let control = case.path().join("state/run/agent.sock");
    let mut log = BufReader::new(agent.stderr.take().unwrap()).lines();
    let line = log.find(|line| line.as_ref().unwrap().contains("another process")).unwrap().unwrap();
    assert!(line.contains("http.listen") && line.contains(&address.to_string()), "{line}");
    let spool = case.path().join("state/spool/meta");
    let deadline = Instant::now() + Duration::from_secs(20);
    while !(spool.exists() && UnixStream::connect(&control).is_ok()) {
        assert!(Instant::now() < deadline && agent.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(taken);
    let mut out = BufReader::new(agent.stdout.take().unwrap()).lines();
    assert_eq!(out.next().unwrap().unwrap(), format!("listening agent={address}"));
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.contains("throughline_http_bound{source=\"agent\"} 1"), "{text}");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(agent.id() as i32), nix::sys::signal::SIGTERM).unwrap();
    assert!(agent.wait().unwrap().success());
}

#[test]
fn a_long_socket_path_and_an_unusable_state_folder_are_refused() {
    let case = Case::new();
    let long = case.path().join("x".repeat(120));
    let message = refused(&case.run("run", &format!("run_dir = '{}'\n", long.display())), 64);
    assert!(message.contains("107") && message.contains("mpi.sock"), "{message}");
    std::fs::write(case.path().join("state"), "a file").unwrap();
    let message = refused(&case.run("run", ""), 69);
    assert!(message.contains("state") && message.contains("--state-dir"), "{message}");
}

#[test]
fn a_state_folder_without_permission_is_77() {
    // Nobody, not even root, makes folders in sysfs.
    let output = Command::new(env!("CARGO_BIN_EXE_throughline-agent"))
        .args(["run", "--state-dir", "/sys/throughline"])
        .env("THROUGHLINE__HTTP__LISTEN", "127.0.0.1:0")
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    // A container may have sysfs read-only: then it is the place that is wrong.
    let status = if message.contains("Read-only") { 69 } else { 77 };
    assert!(refused(&output, status).contains("--state-dir"), "{message}");
}

#[test]
fn check_config_prints_what_holds() {
    let case = Case::new();
    let output = case.run("check-config", "node = 'n7'\n[mpi]\npvars = ['pml_*']\n");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let printed: toml::Table = text.parse().unwrap();
    assert_eq!(printed["node"].as_str(), Some("n7"));
    assert_eq!(printed["mpi"]["pvars"].as_array().map(Vec::len), Some(1));
    assert_eq!(printed["http"]["listen"].as_str(), Some("127.0.0.1:0"));
    assert!(printed["mpi"]["socket"].as_str().unwrap().ends_with("state/run/mpi.sock"), "{text}");
    assert!(output.stderr.is_empty());
}
