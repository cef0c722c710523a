//! `throughline serve` as a process: what it says and how it ends when something is wrong, and a clean stop.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use throughline_store::{ClusterStatus, PrivateCluster, testing};

fn throughline() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_throughline"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("THROUGHLINE__")) {
        command.env_remove(name);
    }
    command
}

/// Runs it with this configuration, to its end.
fn fails(configuration: &str, arguments: &[&str]) -> (i32, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("server.toml");
    std::fs::write(&file, configuration).unwrap();
    let state = folder.path().join("state");
    let output = throughline()
        .arg("serve")
        .args(["--config".as_ref(), file.as_os_str(), "--state-dir".as_ref(), state.as_os_str()])
        .args(arguments)
        .output()
        .unwrap();
    assert!(!state.join("db").exists(), "nothing is made before the configuration is known to be good");
    ended(&output)
}

fn ended(output: &Output) -> (i32, String) {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!said.contains("panicked"), "{said}");
    (output.status.code().unwrap(), said)
}

#[test]
fn wrong_configurations_end_with_64_and_one_message_that_names_the_key() {
    for (configuration, named) in [
        ("[collect]\nlisten_on = '127.0.0.1:1'\n", "server.toml, line 2"),
        ("[collect]\nlisten = '0.0.0.0:9463'\n", "collect.listen"),
        ("[collect]\nlisten = 9463\n", "line 2"),
        ("[query]\nlisten = '0.0.0.0:9460'\n", "query.tls and query.token_file"),
        ("[retention]\ndefault_seconds = 0\n", "retention.default_seconds"),
        ("[retention.table_seconds]\nports = 5\n", "retention.table_seconds.ports"),
        ("[database]\nurl = 'postgresql://host:port/x'\n", "database.url"),
        ("[database\n", "line 1"),
    ] {
        let (status, said) = fails(configuration, &[]);
        assert_eq!(status, 64, "{said}");
        assert!(said.contains(named) && said.lines().count() == 1, "{said}");
    }
}

#[test]
fn without_a_database_program_it_ends_with_69_and_says_what_to_do() {
    let (status, said) = fails("", &["--pg-bin", "/nonexistent"]);
    assert_eq!(status, 69, "{said}");
    assert!(said.contains("throughline db install") && said.lines().count() == 1, "{said}");
}

#[test]
fn a_port_in_use_ends_with_69_and_names_the_key() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let configuration = format!("[query]\nlisten = '{}'\n", taken.local_addr().unwrap());
    let (status, said) = fails(&configuration, &["--database-url", "host=/nonexistent user=x dbname=x"]);
    assert_eq!(status, 69, "{said}");
    assert!(said.contains("query.listen") && said.lines().count() == 1, "{said}");
}

/// A server that is stopped when the test ends, however it ends.
struct Serve {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Serve {
    fn start(arguments: &[&std::ffi::OsStr]) -> Self {
        let mut child = throughline()
            .args(["serve", "--log-level", "warn"])
            .args(arguments)
            .env("THROUGHLINE__COLLECT__LISTEN", "127.0.0.1:0")
            .env("THROUGHLINE__QUERY__LISTEN", "127.0.0.1:0")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn address(&mut self, role: &str) -> String {
        let start = format!("listening {role}=");
        self.lines.find_map(|line| line.unwrap().strip_prefix(&start).map(str::to_owned)).unwrap()
    }

    fn stop(mut self) -> (i32, String) {
        kill(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGTERM).unwrap();
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().code().unwrap(), said)
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn fetch(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn an_operated_database_that_is_away_is_waited_for_and_a_stop_ends_it() {
    let mut serve = Serve::start(&["--database-url".as_ref(), "host=/nonexistent user=x dbname=x".as_ref()]);
    let health = fetch(&serve.address("query"), "/healthz");
    assert!(health.starts_with("HTTP/1.1 503") && health.contains("failing: database"), "{health}");
    let (status, said) = serve.stop();
    assert_eq!(status, 0, "{said}");
    assert!(said.contains("no database yet"), "{said}");
}

/// Its administrator may make it later: a service must not have ended until then.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_not_made_yet_is_waited_for_too() {
    let other = testing::database().await;
    let url = format!("host={} user=throughline dbname=not_yet", other.socket_folder().unwrap().display());
    let mut serve = Serve::start(&["--database-url".as_ref(), url.as_ref()]);
    let health = fetch(&serve.address("query"), "/healthz");
    assert!(health.starts_with("HTTP/1.1 503") && health.contains("failing: database"), "{health}");
    let (status, said) = serve.stop();
    assert_eq!(status, 0, "{said}");
    assert!(said.contains("no database yet") && said.contains("CREATE DATABASE"), "{said}");
}

#[test]
fn a_private_database_starts_with_it_and_stops_with_it() {
    testing::ensure_programs();
    let folder = tempfile::tempdir().unwrap();
    // The server's user must be able to reach its files when the test runs as root.
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let state = folder.path().join("s");
    let arguments: [&std::ffi::OsStr; 2] = ["--state-dir".as_ref(), state.as_os_str()];
    let mut serve = Serve::start(&arguments);
    let metrics = fetch(&serve.address("query"), "/metrics");
    assert!(metrics.contains("throughline_build_info"), "{metrics}");
    assert!(runs(&state));
    // A second one on the same folder uses the database and leaves it running.
    let mut second = Serve::start(&arguments);
    second.address("collect");
    assert_eq!(second.stop().0, 0);
    assert!(runs(&state));
    serve.address("collect");
    let (status, said) = serve.stop();
    assert_eq!((status, said.as_str()), (0, ""), "a clean stop has nothing to warn of");
    assert!(!runs(&state));
}

fn runs(state: &Path) -> bool {
    matches!(PrivateCluster::status_of(state), ClusterStatus::Running { .. })
}
