//! The crawler as a daemon with a private database behind it, and what its log says of sweeps and commits.

use anyhow::Context;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use throughline_simfabric::ibsim::SimFabric;

/// A child that ends with its owner.
struct Guarded(Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        if let Ok(pid) = i32::try_from(self.0.id()) {
            // It may be gone already.
            let _ =
                nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGTERM);
        }
        let _ = self.0.wait();
    }
}

/// `throughline serve` and `throughline-fabric run`.
pub struct Daemons {
    crawler: Guarded,
    http: String,
    log: std::io::Lines<BufReader<std::process::ChildStderr>>,
    _serve: Guarded,
    _state: tempfile::TempDir,
}

/// What the crawler said.
#[derive(Clone, Copy, Debug)]
pub enum Said {
    /// A sweep ended, and took so many seconds.
    Swept(f64),
    /// So many seconds after a sweep began, its last row was committed.
    Committed(f64),
}

/// Whether the server is built, with the same profile.
pub fn is_there() -> bool {
    crate::beside("throughline").is_ok()
}

impl Daemons {
    /// Starts both; sweeps begin each `interval` seconds.
    pub fn start(fabric: &SimFabric, host: &str, folder: &Path, interval: f64) -> anyhow::Result<Daemons> {
        throughline_prefix::ensure(throughline_prefix::Set::Postgres)?;
        // A state folder of its own that the database's user can enter.
        let state = tempfile::Builder::new().prefix("throughline-bench-").tempdir()?;
        open_to_all(state.path())?;
        let mut serve = Command::new(crate::beside("throughline")?);
        serve.arg("serve").arg("--state-dir").arg(state.path());
        serve
            .env("THROUGHLINE__COLLECT__LISTEN", "127.0.0.1:0")
            .env("THROUGHLINE__QUERY__LISTEN", "127.0.0.1:0");
        let mut serve = Guarded(serve.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?);
        let collector = listening(&mut serve.0, "collect")?;
        let mut crawler = fabric.client(crate::beside("throughline-fabric")?, Some(host))?;
        crawler
            .args([
                "run",
                "--log-format",
                "json",
                "--log-level",
                "info,throughline_crawler=debug",
                "--state-dir",
            ])
            .arg(folder.join("crawler"))
            .env("THROUGHLINE__DELIVERY__COLLECTOR", format!("http://{collector}"))
            .env("THROUGHLINE__HTTP__LISTEN", "127.0.0.1:0")
            .env("THROUGHLINE__SWEEP__INTERVAL_SECONDS", interval.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut crawler = Guarded(crawler.spawn()?);
        let log = BufReader::new(crawler.0.stderr.take().context("standard error")?).lines();
        let http = listening(&mut crawler.0, "fabric")?;
        Ok(Daemons { crawler, http, log, _serve: serve, _state: state })
    }

    /// The next thing that it says of sweeps, and when that was read.
    pub fn next(&mut self) -> anyhow::Result<(Instant, Said)> {
        loop {
            let line = self.log.next().context("the crawler ended")??;
            let at = Instant::now();
            let Ok(line) = serde_json::from_str::<serde_json::Value>(&line) else { continue };
            let fields = &line["fields"];
            let Some(seconds) = fields["elapsed_seconds"].as_f64() else { continue };
            match fields["message"].as_str() {
                Some("swept") => return Ok((at, Said::Swept(seconds))),
                Some("rows of a sweep are committed") => return Ok((at, Said::Committed(seconds))),
                _ => {}
            }
        }
    }

    /// Process number of the crawler.
    pub fn crawler(&self) -> String {
        self.crawler.0.id().to_string()
    }

    /// The sum of a counter of the crawler's `/metrics` over its labels that contain `label`.
    pub fn metric(&self, name: &str, label: &str) -> anyhow::Result<f64> {
        let mut stream = TcpStream::connect(&self.http)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        write!(stream, "GET /metrics HTTP/1.0\r\nHost: {}\r\n\r\n", self.http)?;
        let mut page = String::new();
        stream.read_to_string(&mut page)?;
        let is_wanted = |line: &&str| line.starts_with(name) && line.contains(label);
        Ok(page
            .lines()
            .filter(is_wanted)
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum())
    }
}

/// The address that a daemon prints for a role.
fn listening(child: &mut Child, role: &str) -> anyhow::Result<String> {
    let output = BufReader::new(child.stdout.take().context("standard output")?);
    let wanted = format!("listening {role}=");
    let mut lines = output.lines();
    let found = lines.by_ref().find_map(|line| line.ok()?.strip_prefix(&wanted).map(str::to_owned));
    // What it prints later must have a reader.
    std::thread::spawn(move || lines.for_each(drop));
    found.with_context(|| format!("a daemon did not print '{wanted}'"))
}

fn open_to_all(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755))
}
