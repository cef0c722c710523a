//! One process of the site: how it starts, what it printed, since when it cannot make anything safe.

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a part may take to get ready on a busy machine; `serve` makes its database in that time.
const READY_PATIENCE: Duration = Duration::from_secs(120);
/// How long a part may take to end after SIGTERM: a drain waits for a collector that is away.
const END_PATIENCE: Duration = Duration::from_secs(60);

/// Lines of a part's standard output, and when each was read.
pub type Lines = Arc<Mutex<Vec<(String, Instant)>>>;

/// Times in which nothing of this part can become safe: it is stopped, or its disk is full.
#[derive(Clone, Default)]
pub struct Pauses(Vec<(Instant, Option<Instant>)>);

impl Pauses {
    pub fn begin(&mut self) {
        self.0.push((Instant::now(), None));
    }

    /// The latest one is over, or will be then.
    pub fn end(&mut self, at: Instant) {
        if let Some((_, end @ None)) = self.0.iter_mut().rev().find(|(_, end)| end.is_none()) {
            *end = Some(at);
        }
    }

    /// Time between the two outside of all pauses; of pauses that overlap each counts, which errs on the safe side.
    pub fn running(&self, from: Instant, to: Instant) -> Duration {
        let paused: Duration = self
            .0
            .iter()
            .map(|(begin, end)| end.unwrap_or(to).min(to).saturating_duration_since((*begin).max(from)))
            .sum();
        to.saturating_duration_since(from).saturating_sub(paused)
    }
}

/// What one life of a part printed, and how it ended.
pub struct Life {
    pub number: usize,
    pub lines: Lines,
    /// When it was killed; `None` where it ended by itself.
    pub killed_at: Option<Instant>,
    pub pauses: Pauses,
}

/// A part of the site.
pub struct Part {
    pub name: String,
    /// What its standard output begins with when it is ready, before an address.
    ready: &'static str,
    log: PathBuf,
    child: Option<Child>,
    stdin: Option<ChildStdin>,
    reader: Option<std::thread::JoinHandle<()>>,
    lines: Lines,
    pub pauses: Pauses,
    pub past: Vec<Life>,
}

impl Part {
    pub fn new(name: &str, ready: &'static str, logs: &Path) -> Self {
        let log = logs.join(format!("{name}.log"));
        Self {
            name: name.to_owned(),
            ready,
            log,
            child: None,
            stdin: None,
            reader: None,
            lines: Lines::default(),
            pauses: Pauses::default(),
            past: Vec::new(),
        }
    }

    pub fn is_running(&self) -> bool {
        self.child.is_some()
    }

    /// Number of the present or the next life.
    pub fn life(&self) -> usize {
        self.past.len()
    }

    pub fn pid(&self) -> Option<i32> {
        self.child.as_ref().map(|child| child.id().cast_signed())
    }

    pub fn spawn(&mut self, mut command: Command) -> anyhow::Result<()> {
        let log = std::fs::File::options().create(true).append(true).open(&self.log)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().with_context(|| format!("{}: {command:?}", self.name))?;
        self.lines = Lines::default();
        self.pauses = Pauses::default();
        if let Some(out) = child.stdout.take() {
            let lines = self.lines.clone();
            self.reader = Some(std::thread::spawn(move || {
                for line in BufReader::new(out).lines().map_while(Result::ok) {
                    lines.lock().unwrap_or_else(PoisonError::into_inner).push((line, Instant::now()));
                }
            }));
        }
        self.stdin = child.stdin.take();
        self.child = Some(child);
        Ok(())
    }

    /// The address that it announced; `None` where it ended before.
    pub fn address(&mut self) -> anyhow::Result<Option<String>> {
        let end = Instant::now() + READY_PATIENCE;
        while Instant::now() < end {
            if let Some(address) = self.find(self.ready) {
                return Ok(Some(address));
            }
            if let Some(child) = &mut self.child
                && let Some(status) = child.try_wait()?
            {
                println!("        {} ended with {status} before it was ready", self.name);
                self.forget(None);
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        bail!("{} was not ready within {READY_PATIENCE:?}; see {}", self.name, self.log.display())
    }

    /// What follows this on the first line that begins so.
    pub fn find(&self, begin: &str) -> Option<String> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().find_map(|(line, _)| line.strip_prefix(begin).map(str::to_owned))
    }

    /// What follows this on the last line that begins so.
    pub fn find_last(&self, begin: &str) -> Option<String> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().rev().find_map(|(line, _)| line.strip_prefix(begin).map(str::to_owned))
    }

    /// Whether it ended by itself, which no part may without being sent a signal.
    pub fn has_ended(&mut self) -> Option<std::process::ExitStatus> {
        self.child.as_mut().and_then(|child| child.try_wait().ok().flatten())
    }

    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = self.pid() {
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }

    pub fn stop(&mut self) {
        self.pauses.begin();
        self.signal(Signal::SIGSTOP);
    }

    pub fn go_on(&mut self) {
        self.signal(Signal::SIGCONT);
        self.pauses.end(Instant::now());
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        let at = Instant::now();
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
        self.forget(Some(at));
    }

    /// SIGTERM, and its end; killed where that takes too long, which is an error.
    pub fn terminate(&mut self) -> anyhow::Result<()> {
        self.signal(Signal::SIGTERM);
        self.wait_for_end(true)
    }

    /// Closes its standard input and waits until it has delivered all.
    pub fn finish(&mut self) -> anyhow::Result<()> {
        drop(self.stdin.take());
        self.wait_for_end(false)
    }

    /// Closes its standard input, which ends what it produces.
    pub fn close_input(&mut self) {
        drop(self.stdin.take());
    }

    fn wait_for_end(&mut self, signalled: bool) -> anyhow::Result<()> {
        let (at, end) = (Instant::now(), Instant::now() + END_PATIENCE);
        while let Some(child) = &mut self.child {
            match child.try_wait()? {
                Some(status) => {
                    // A part that was killed by SIGTERM before it could install its handler counts as killed.
                    let killed = signalled && !status.success();
                    self.forget(killed.then_some(at));
                    if !status.success() && status.code().is_some() {
                        bail!("{} ended with {status}; see {}", self.name, self.log.display());
                    }
                    return Ok(());
                }
                None if Instant::now() > end => {
                    self.kill();
                    bail!("{} did not end within {END_PATIENCE:?}", self.name);
                }
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        }
        Ok(())
    }

    fn forget(&mut self, killed_at: Option<Instant>) {
        self.child = None;
        self.stdin = None;
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        self.past.push(Life {
            number: self.past.len(),
            lines: std::mem::take(&mut self.lines),
            killed_at,
            pauses: std::mem::take(&mut self.pauses),
        });
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
