//! Child programs of the demo: each with its log file, the addresses that it prints, and a stop by process id.
//!
//! A child runs in a process group of its own, so that a Ctrl-C on the terminal reaches the demo only, which
//! then stops its children in order. This file knows no program by name.

use anyhow::{Context, anyhow};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::Command;
use tokio::sync::watch;

/// How long a child may take to drain and end after it was signalled. Above the daemons' own grace time of 8 s
/// (`throughline_daemon::GRACE`), because `serve` then still stops its database.
pub const STOP_GRACE: Duration = Duration::from_secs(20);

/// Longest log file that the next run appends to; a longer one begins anew. State must not grow for ever.
const LOG_LIMIT_BYTES: u64 = 8 << 20;

/// How much of the end of a log is quoted when a child has died.
const QUOTED_BYTES: u64 = 4096;
const QUOTED_LINES: usize = 6;

/// A program that a child runs, before it is started.
pub struct Recipe {
    name: String,
    program: PathBuf,
    arguments: Vec<std::ffi::OsString>,
    environment: Vec<(std::ffi::OsString, std::ffi::OsString)>,
    folder: PathBuf,
}

impl Recipe {
    /// A child called `name` (also its log's name) that runs `program` in `folder`.
    pub fn new(name: &str, program: &Path, folder: &Path) -> Self {
        Self {
            name: name.to_owned(),
            program: program.to_owned(),
            arguments: Vec::new(),
            environment: Vec::new(),
            folder: folder.to_owned(),
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// Adds an option and its value.
    #[must_use]
    pub fn option(self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.arg(name).arg(value)
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Starts the child; its output goes to `NAME.log` in `logs`.
    ///
    /// # Errors
    /// The log can't be written or the program can't be started; the message names it.
    pub fn start(&self, logs: &Path) -> anyhow::Result<Child> {
        let log_path = logs.join(format!("{}.log", self.name));
        let mut log = open_log(&log_path).with_context(|| format!("log file {}", log_path.display()))?;
        let log_begin = log.metadata().map_or(0, |data| data.len());
        writeln!(log, "--- {} {:?}", self.program.display(), self.arguments)
            .with_context(|| format!("log file {}", log_path.display()))?;
        let stderr = log.try_clone().with_context(|| format!("log file {}", log_path.display()))?;
        let mut command = self.command();
        command
            .args(&self.arguments)
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .process_group(0)
            .kill_on_drop(true);
        let mut process = command
            .spawn()
            .with_context(|| format!("{}: program {} can't be started", self.name, self.program.display()))?;
        let pid = process.id().ok_or_else(|| anyhow!("{}: it ended at once", self.name))?;
        let (found, addresses) = watch::channel(BTreeMap::new());
        let stdout = process.stdout.take().ok_or_else(|| anyhow!("{}: no standard output", self.name))?;
        tokio::spawn(copy_lines(stdout, log, found));
        Ok(Child { name: self.name.clone(), pid, log_path, log_begin, process, addresses, ended: None })
    }

    /// The program with its environment, through `setpriv --pdeathsig` where that exists: should the demo
    /// itself be killed, its children get SIGTERM and nothing stays behind. (`prctl` in the child would need
    /// unsafe code here.) Then `env` sets the variables, so that a preloaded library is the program's only.
    fn command(&self) -> Command {
        let [setpriv, env] = ["/usr/bin/setpriv", "/usr/bin/env"].map(Path::new);
        if !setpriv.exists() || !env.exists() {
            let mut command = Command::new(&self.program);
            command.envs(self.environment.iter().map(|(name, value)| (name, value)));
            return command;
        }
        let mut command = Command::new(setpriv);
        command.args(["--pdeathsig", "TERM", "--"]).arg(env);
        for (name, value) in &self.environment {
            let mut setting = name.clone();
            setting.push("=");
            setting.push(value);
            command.arg(setting);
        }
        command.arg(&self.program);
        command
    }
}

/// A running (or ended) child.
pub struct Child {
    /// Its name for people.
    pub name: String,
    /// Its process id, also that of its process group.
    pub pid: u32,
    log_path: PathBuf,
    log_begin: u64,
    process: tokio::process::Child,
    addresses: watch::Receiver<BTreeMap<String, SocketAddr>>,
    ended: Option<ExitStatus>,
}

impl Child {
    /// Waits for the line `listening ROLE=ADDRESS`.
    ///
    /// # Errors
    /// The child ends before, or `limit` passes; the message quotes the end of its log.
    pub async fn address(&mut self, role: &str, limit: Duration) -> anyhow::Result<SocketAddr> {
        let mut addresses = self.addresses.clone();
        let found = async {
            match addresses.wait_for(|known| known.contains_key(role)).await {
                Ok(known) => known.get(role).copied(),
                Err(_closed) => None,
            }
        };
        match tokio::time::timeout(limit, found).await {
            Ok(Some(address)) => Ok(address),
            Ok(None) => {
                // Its output is closed: it is ending.
                let status = self.process.wait().await.ok();
                self.ended = status;
                Err(self.death(status))
            }
            Err(_elapsed) => Err(anyhow!(
                "{} did not print its address for '{role}' in {} s; see {}{}",
                self.name,
                limit.as_secs(),
                self.log_path.display(),
                self.last_lines()
            )),
        }
    }

    /// An error that says how the child ended, when it has.
    pub fn check(&mut self) -> anyhow::Result<()> {
        match self.exited() {
            None => Ok(()),
            Some(status) => Err(self.death(Some(status))),
        }
    }

    /// How the child ended, when it has.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.process.try_wait().ok().flatten();
        }
        self.ended
    }

    /// Waits until the child ends by itself.
    pub async fn wait(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.process.wait().await.ok();
        }
        self.ended
    }

    /// Asks the child to stop (SIGTERM), waits, and kills its process group when the grace time has passed.
    /// Returns false where that was necessary.
    pub async fn stop(&mut self, grace: Duration) -> bool {
        if self.exited().is_some() {
            return true;
        }
        self.signal(Signal::SIGTERM, false);
        if tokio::time::timeout(grace, self.wait()).await.is_ok() {
            return true;
        }
        tracing::warn!(child = self.name, pid = self.pid, "did not stop in {} s: killed", grace.as_secs());
        self.signal(Signal::SIGKILL, true);
        self.wait().await;
        false
    }

    /// What the child wrote in this run, at most the last [`QUOTED_BYTES`].
    fn last_output(&self) -> String {
        let read = || -> std::io::Result<String> {
            let mut file = File::open(&self.log_path)?;
            let end = file.metadata()?.len();
            let from = self.log_begin.min(end).max(end.saturating_sub(QUOTED_BYTES));
            file.seek(SeekFrom::Start(from))?;
            let mut bytes = Vec::new();
            file.take(QUOTED_BYTES).read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        read().unwrap_or_default()
    }

    fn death(&self, status: Option<ExitStatus>) -> anyhow::Error {
        let how = status.map_or_else(|| "in an unknown way".to_owned(), |status| format!("with {status}"));
        anyhow!("{} ended {how}; see {}{}", self.name, self.log_path.display(), self.last_lines())
    }

    fn last_lines(&self) -> String {
        let text = self.last_output();
        let lines: Vec<&str> =
            text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with("--- ")).collect();
        let skip = lines.len().saturating_sub(QUOTED_LINES);
        lines[skip..].iter().map(|line| format!("\n    {line}")).collect()
    }

    fn signal(&self, signal: Signal, group: bool) {
        let Ok(pid) = i32::try_from(self.pid) else { return };
        // The child has not been waited for, so the number is still its own.
        let target = Pid::from_raw(if group { -pid } else { pid });
        if let Err(error) = kill(target, signal) {
            tracing::debug!(child = self.name, %error, "{signal} not delivered");
        }
    }
}

fn open_log(path: &Path) -> std::io::Result<File> {
    let too_long = std::fs::metadata(path).is_ok_and(|data| data.len() > LOG_LIMIT_BYTES);
    if too_long {
        std::fs::remove_file(path)?;
    }
    OpenOptions::new().create(true).append(true).open(path)
}

/// Copies a child's standard output to its log and notes the addresses that it announces.
async fn copy_lines(
    output: impl AsyncRead + Unpin,
    mut log: File,
    found: watch::Sender<BTreeMap<String, SocketAddr>>,
) {
    let mut lines = BufReader::new(output).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        // A full disk must not stop the child, which would wait for us to read on.
        drop(writeln!(log, "{line}"));
        if let Some((role, address)) = announced(&line) {
            found.send_modify(|known| {
                known.insert(role.to_owned(), address);
            });
        }
    }
}

/// Reads `listening ROLE=ADDRESS`.
fn announced(line: &str) -> Option<(&str, SocketAddr)> {
    let (role, address) = line.strip_prefix("listening ")?.trim().split_once('=')?;
    Some((role, address.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    fn shell(folder: &Path, script: &str) -> Child {
        Recipe::new("test", Path::new("/bin/sh"), folder).option("-c", script).start(folder).unwrap()
    }

    #[tokio::test]
    async fn an_announced_address_is_found_and_the_child_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let mut child =
            shell(folder.path(), "echo hello; echo listening http=127.0.0.1:4711; exec sleep 1000");
        assert_eq!(child.address("http", LIMIT).await.unwrap(), "127.0.0.1:4711".parse().unwrap());
        assert!(child.exited().is_none());
        assert!(child.stop(LIMIT).await);
        assert!(child.exited().is_some());
    }

    #[tokio::test]
    async fn a_child_that_dies_is_named_with_its_last_words() {
        let folder = tempfile::tempdir().unwrap();
        let mut child = shell(folder.path(), "echo no license >&2; exit 3");
        let error = child.address("http", LIMIT).await.unwrap_err().to_string();
        assert!(error.contains("test ended with exit status: 3"), "{error}");
        assert!(error.contains("no license") && error.contains("test.log"), "{error}");
        assert!(child.check().is_err());
    }

    #[tokio::test]
    async fn a_child_that_ignores_the_signal_is_killed_with_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let mut child = shell(
            folder.path(),
            "trap '' TERM; sleep 1000 & echo listening a=127.0.0.1:1; while :; do sleep 0.05; done",
        );
        child.address("a", LIMIT).await.unwrap();
        assert!(!child.stop(Duration::from_millis(50)).await);
        // The group is empty once its members are reaped, which init does in its own time.
        let group = Pid::from_raw(-i32::try_from(child.pid).unwrap());
        let deadline = std::time::Instant::now() + LIMIT;
        while kill(group, None).is_ok() {
            assert!(std::time::Instant::now() < deadline, "a grandchild lives on");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    #[test]
    fn only_announcements_are_read() {
        assert_eq!(
            announced("listening agent=127.0.0.1:9461"),
            Some(("agent", "127.0.0.1:9461".parse().unwrap()))
        );
        assert_eq!(announced("listening agent"), None);
        assert_eq!(announced("INFO listening agent=127.0.0.1:1"), None);
    }
}
