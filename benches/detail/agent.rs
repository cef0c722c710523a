//! The agent's process.

use anyhow::{Context, ensure};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use throughline_benches::server::processor_seconds;

/// A running agent; killed when dropped.
pub struct Agent {
    child: Child,
    address: SocketAddr,
}

impl Agent {
    /// Starts it as node `bench`, delivering to a collector, and waits until ranks find it.
    pub fn start(program: &Path, state: &Path, collector: &str) -> anyhow::Result<Self> {
        std::fs::create_dir_all(state)?;
        let mut agent = Command::new(program);
        agent.args(["run", "--log-level", "warn", "--state-dir"]).arg(state);
        let collector = format!("http://{collector}");
        for (key, value) in
            [("NODE", "bench"), ("HTTP__LISTEN", "127.0.0.1:0"), ("DELIVERY__COLLECTOR", collector.as_str())]
        {
            agent.env(format!("THROUGHLINE__{key}"), value);
        }
        let spawned = agent.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut child =
            spawned.with_context(|| format!("{}: build it with cargo build --release", program.display()))?;
        let out = child.stdout.take().context("its standard output")?;
        let line = BufReader::new(out).lines().next().context("the agent ended")??;
        let address = line.strip_prefix("listening agent=").context("its first line")?.parse()?;
        Ok(Self { child, address })
    }

    /// Ends it, delivering what waits.
    pub fn stop(mut self) -> anyhow::Result<()> {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.child.id())?);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM)?;
        ensure!(self.child.wait()?.success(), "the agent ended badly");
        Ok(())
    }

    /// Seconds of processor time.
    pub fn processor(&self) -> anyhow::Result<f64> {
        processor_seconds(&self.child.id().to_string()).context("the agent has ended")
    }

    /// Resident memory, bytes.
    pub fn resident(&self) -> anyhow::Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("VmRSS")?;
        Ok(line.trim().trim_end_matches(" kB").trim().parse::<u64>()? * 1024)
    }

    /// Age of the oldest entry in its spool.
    pub fn oldest_entry(&self) -> anyhow::Result<Duration> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let line = answer.lines().find(|line| line.starts_with("throughline_delivery_lag_seconds"));
        let seconds = line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).unwrap_or(0.0);
        Ok(Duration::from_secs_f64(seconds.max(0.0)))
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
