//! What wakes discovery: traps, another subnet manager; and an M_Key, behind which the administrator reports. On the
//! simulated fabric, with the programs as they are.

use crate::simulated::{CRAWLER, SMALL};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use throughline_simfabric::{Scenario, SimFabric};

/// Generous: tests wait for conditions.
const DEADLINE: Duration = Duration::from_secs(120);

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < DEADLINE, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn discover(fabric: &SimFabric, options: &[&str]) -> (serde_json::Value, String) {
    let mut command = Command::new(CRAWLER);
    command.arg("--transport").arg(fabric.via().to_string()).args(options).args(["discover", "--json"]);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    (serde_json::from_slice(&output.stdout).unwrap(), said)
}

#[test]
fn behind_an_m_key_the_administrator_tells() {
    let fabric = SimFabric::start(&Scenario::new(SMALL.to_net().unwrap())).unwrap();
    let (open, _) = discover(&fabric, &[]);
    fabric.control("mkey 0x1badcafe 2").unwrap();
    let (mut reported, said) = discover(&fabric, &["--timeout", "20"]);
    assert!(said.contains("M_Key"), "{said}");
    assert_eq!(reported.as_object_mut().unwrap().remove("source").unwrap(), "sa");
    assert_eq!(reported, open);

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m_key");
    std::fs::write(&file, "0x1badcafe\n").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let (keyed, said) = discover(&fabric, &["--m-key-file", file.to_str().unwrap()]);
    assert_eq!(keyed, open, "{said}");
    assert!(!said.contains("1badcafe"));
}

/// A running daemon; killed if the test fails.
struct Daemon {
    child: Child,
    address: String,
    log: Arc<Mutex<String>>,
}

impl Daemon {
    /// Looks only when it has a reason, once the first walk is done.
    fn start(fabric: &SimFabric, folder: &Path) -> Daemon {
        std::fs::write(
            folder.join("fabric.toml"),
            "[http]\nlisten = '127.0.0.1:0'\n[discovery]\ninterval_seconds = 3600\nlight_interval_seconds = 3600\n\
             [delivery]\ncollector = 'http://127.0.0.1:9'\n",
        )
        .unwrap();
        let mut command = Command::new(CRAWLER);
        command.arg("--transport").arg(fabric.via().to_string()).current_dir(folder);
        command.args(["run", "--config", "fabric.toml", "--state-dir", "state"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening fabric=").unwrap().to_owned();
        let log = Arc::new(Mutex::new(String::new()));
        let (kept, stderr) = (log.clone(), child.stderr.take().unwrap());
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let mut kept = kept.lock().unwrap();
                kept.push_str(&line);
                kept.push('\n');
            }
        });
        Daemon { child, address, log }
    }

    fn has_said(&self, words: &[&str]) -> bool {
        let log = self.log.lock().unwrap();
        log.lines().any(|line| words.iter().all(|word| line.contains(word)))
    }

    fn wait_for(&self, words: &[&str]) {
        let start = Instant::now();
        while !self.has_said(words) {
            assert!(start.elapsed() < DEADLINE, "{words:?} is not in\n{}", self.log.lock().unwrap());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn metrics(&self) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn figure(&self, name: &str, part: &str) -> f64 {
        let page = self.metrics();
        let of_part = format!("source=\"{part}\"");
        let line = page.lines().find(|line| line.starts_with(name) && line.contains(&of_part));
        line.and_then(|line| line.rsplit(' ').next()).and_then(|value| value.parse().ok()).unwrap_or(f64::NAN)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn traps_and_managers_wake_discovery() {
    let fabric = SimFabric::start(&Scenario::new(SMALL.to_net().unwrap())).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(&fabric, folder.path());
    daemon.wait_for(&["subscribed to the subnet's traps"]);
    daemon.wait_for(&[" topology"]);

    // No interval would see this within the test.
    fabric.control("link leaf001 2 down").unwrap();
    daemon.wait_for(&["trap.128", "leaf001"]);
    daemon.wait_for(&["link.down"]);
    until("a counted trap", || daemon.figure("throughline_reported_traps_total", "administration") >= 1.0);

    fabric.control("manager \"node0005 mlx5_0\" 1 9").unwrap();
    daemon.wait_for(&["sm.changed", "priority 9"]);
    until("a walk for it", || {
        daemon.figure("throughline_discovery_requests_total", "discovery\",reason=\"sm_change") >= 1.0
    });
    fabric.control("manager none").unwrap();
    daemon.wait_for(&["sm.gone"]);
    until("a silent manager", || daemon.figure("throughline_sm_up", "administration") == 0.0);
}
