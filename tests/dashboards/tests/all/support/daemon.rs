//! A daemon of this workspace as a process: the addresses that it prints, and its end.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Long enough for a busy machine.
const START_LIMIT: Duration = Duration::from_secs(60);

/// A running daemon; killed with this value.
pub struct Daemon {
    child: Child,
    addresses: BTreeMap<String, SocketAddr>,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Its state is thrown away, and it may have ended: nothing to do about a failure.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program of this workspace, beside the test's own folder: `make test` builds them all first.
pub fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.parent().and_then(Path::parent).unwrap().join(name);
    assert!(path.exists(), "{} is not there: run `cargo build --workspace --bins` first", path.display());
    path
}

impl Daemon {
    /// Starts the command and waits until it listens in each of these roles. Log lines go to `log`.
    pub fn start(mut command: Command, roles: &[&str], log: &Path) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(File::create(log).unwrap());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        // Reads to the end, so that the daemon never waits for a full pipe.
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).for_each(|line| drop(sender.send(line)))
        });
        let mut daemon = Self { child, addresses: BTreeMap::new() };
        let deadline = Instant::now() + START_LIMIT;
        while !roles.iter().all(|role| daemon.addresses.contains_key(*role)) {
            let Ok(line) = lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) else {
                let log = std::fs::read_to_string(log).unwrap_or_default();
                panic!("{command:?} does not listen as {roles:?}:\n{log}");
            };
            if let Some((role, address)) =
                line.strip_prefix("listening ").and_then(|rest| rest.split_once('='))
            {
                daemon.addresses.insert(role.to_owned(), address.parse().unwrap());
            }
        }
        daemon
    }

    /// Where it listens in a role.
    pub fn address(&self, role: &str) -> SocketAddr {
        self.addresses[role]
    }
}
