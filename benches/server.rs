//! A server with a private database, and the processor time of both.
#![allow(clippy::cast_precision_loss)] // figures for people

use anyhow::{Context, ensure};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A running server; ended when dropped.
pub struct Server {
    child: Child,
    folder: PathBuf,
    /// Where it takes batches.
    pub collect: SocketAddr,
    /// Where it answers.
    pub query: SocketAddr,
}

impl Server {
    /// Starts it with its state and its configuration in this folder, on free ports, and waits until it takes batches.
    /// `collect` is what section `[collect]` has in addition.
    ///
    /// # Errors
    /// The program is not there, or ends.
    pub fn start(program: &Path, folder: &Path, collect: &str) -> anyhow::Result<Self> {
        let config = folder.join("server.toml");
        let text = format!("[query]\nlisten = '127.0.0.1:0'\n[collect]\nlisten = '127.0.0.1:0'\n{collect}\n");
        std::fs::write(&config, text)?;
        let mut child = Command::new(program)
            .args(["serve", "--log-level", "warn", "--state-dir"])
            .arg(folder.join("state"))
            .arg("--config")
            .arg(config)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("{}: build it with cargo build --release", program.display()))?;
        let mut lines = BufReader::new(child.stdout.take().context("its standard output")?).lines();
        let (mut collect, mut query, mut is_ready) = (None, None, false);
        while !is_ready {
            let line = lines.next().context("the server ended")??;
            // The socket comes last, when the database is there.
            is_ready = line.starts_with("listening collect=unix:");
            collect = collect.or_else(|| line.strip_prefix("listening collect=")?.parse().ok());
            query = query.or_else(|| line.strip_prefix("listening query=")?.parse().ok());
        }
        let folder = folder.to_owned();
        Ok(Self { child, folder, collect: collect.context("collect")?, query: query.context("query")? })
    }

    /// Sum of a figure over its labels.
    ///
    /// # Errors
    /// The server does not answer.
    pub fn figure(&self, name: &str) -> anyhow::Result<f64> {
        let mut stream = TcpStream::connect(self.query)?;
        write!(stream, "GET /metrics HTTP/1.0\r\nHost: {}\r\n\r\n", self.query)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        ensure!(answer.starts_with("HTTP/1.0 200"), "{}", answer.lines().next().unwrap_or_default());
        let lines = answer.lines().filter(|line| line.starts_with(name));
        Ok(lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum())
    }

    /// Seconds of processor time: of the server, and of the database's processes that run now.
    ///
    /// # Errors
    /// `/proc` can't be read.
    pub fn processor(&self) -> anyhow::Result<(f64, f64)> {
        let (mut server, mut database) = (0.0, 0.0);
        for entry in std::fs::read_dir("/proc")? {
            let Ok(pid) = entry?.file_name().to_string_lossy().parse::<u32>() else { continue };
            let Some(seconds) = processor_seconds(&pid.to_string()) else { continue };
            // PostgreSQL's processes work in their data folder, and are no children of the server's.
            let at = std::fs::read_link(format!("/proc/{pid}/cwd"));
            if pid == self.child.id() {
                server = seconds;
            } else if at.is_ok_and(|at| at.starts_with(&self.folder)) {
                database += seconds;
            }
        }
        Ok((server, database))
    }

    fn proc(&self, file: &str) -> anyhow::Result<String> {
        Ok(std::fs::read_to_string(format!("/proc/{}/{file}", self.child.id()))?)
    }

    /// Most resident memory so far.
    ///
    /// # Errors
    /// It has ended.
    pub fn highest_bytes(&self) -> anyhow::Result<u64> {
        let status = self.proc("status")?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("VmHWM")?;
        Ok(line.trim().trim_end_matches(" kB").trim().parse::<u64>()? * 1024)
    }

    /// Files and sockets that it has open.
    ///
    /// # Errors
    /// It has ended.
    pub fn descriptors(&self) -> anyhow::Result<usize> {
        Ok(std::fs::read_dir(format!("/proc/{}/fd", self.child.id()))?.count())
    }

    /// How many it may have open.
    ///
    /// # Errors
    /// It has ended.
    pub fn descriptor_limit(&self) -> anyhow::Result<u64> {
        let limits = self.proc("limits")?;
        let line =
            limits.lines().find_map(|line| line.strip_prefix("Max open files")).context("Max open files")?;
        Ok(line.split_whitespace().next().context("a number")?.parse()?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(pid) = i32::try_from(self.child.id()) {
            let signal = nix::sys::signal::Signal::SIGTERM;
            let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal);
        }
        let _ = self.child.wait();
    }
}

/// Seconds of processor time that a process has had: its number, or `self`. `None` once it is gone.
pub fn processor_seconds(pid: &str) -> Option<f64> {
    let per_second = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok()?.unwrap_or(100) as f64;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    // utime and stime are the fields 14 and 15; the name is the second.
    let ticks = rest.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<f64>().ok());
    Some(ticks.sum::<f64>() / per_second)
}
