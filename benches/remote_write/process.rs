//! A program of the bench that is killed, stopped and started again with the same arguments.

use anyhow::{Context, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Longest wait for a start or an end on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A port of this machine that is free now; somebody else may take it on a busy one.
pub fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// A program, its arguments, and the process while there is one.
pub struct Process {
    program: PathBuf,
    arguments: Vec<String>,
    log: PathBuf,
    /// Where it answers when it is ready.
    ready: Option<String>,
    child: Option<Child>,
}

impl Process {
    /// Not started yet. Its output goes to `log`, and `ready` is a URL that it answers with status 200.
    pub fn new(program: &Path, arguments: Vec<String>, log: PathBuf, ready: Option<String>) -> Self {
        Self { program: program.to_owned(), arguments, log, ready, child: None }
    }

    /// Starts it and waits until it answers.
    pub fn start(&mut self) -> anyhow::Result<()> {
        let log = std::fs::File::options().create(true).append(true).open(&self.log)?;
        let child = Command::new(&self.program)
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| self.program.display().to_string())?;
        self.child = Some(child);
        let Some(ready) = self.ready.clone() else { return Ok(()) };
        let begin = Instant::now();
        while ureq::get(&ready).call().is_err() {
            let ended = self.child.as_mut().and_then(|child| child.try_wait().ok().flatten());
            ensure!(
                ended.is_none() && begin.elapsed() < PATIENCE,
                "{} does not answer ({ended:?}): see {}",
                self.program.display(),
                self.log.display()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// SIGKILL: it has no time to put anything in order.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// SIGTERM, and waits for its end.
    pub fn stop(&mut self) -> anyhow::Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        kill(Pid::from_raw(i32::try_from(child.id())?), Signal::SIGTERM)?;
        child.wait()?;
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
