//! Prometheus and VictoriaMetrics: started with a folder of their own, written to by remote write as an agent of theirs does, and
//! queried over HTTP.

use crate::remote_write::Request;
use anyhow::{Context, ensure};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use throughline_benches::server::processor_seconds;

/// Samples of a request, as Prometheus sends them.
const REQUEST_SAMPLES: usize = 2000;

/// Longest wait for a start, and for what is made of samples once all are there.
const PATIENCE: Duration = Duration::from_secs(120);

/// Which one.
#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    Prometheus,
    VictoriaMetrics,
}

pub struct Peer {
    kind: Kind,
    child: Child,
    folder: PathBuf,
    url: String,
    pub version: String,
}

impl Peer {
    pub fn start(kind: Kind, program: &Path, folder: &Path) -> anyhow::Result<Self> {
        let folder = folder.join(if kind == Kind::Prometheus { "prometheus" } else { "victoriametrics" });
        std::fs::create_dir_all(&folder)?;
        // Free now; somebody else may take it on a busy machine.
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let address = format!("127.0.0.1:{port}");
        let mut command = Command::new(program);
        match kind {
            Kind::Prometheus => {
                let config = folder.join("none.yml");
                std::fs::write(&config, "scrape_configs: []\n")?;
                command.arg(format!("--config.file={}", config.display()));
                command.arg(format!("--storage.tsdb.path={}", folder.join("data").display()));
                command.args(["--storage.tsdb.retention.time=1000d", "--web.enable-admin-api"]);
                command.arg("--web.enable-remote-write-receiver");
                command.arg(format!("--web.listen-address={address}"));
            }
            Kind::VictoriaMetrics => {
                command.arg(format!("-storageDataPath={}", folder.join("data").display()));
                command.args(["-retentionPeriod=100y", "-search.maxUniqueTimeseries=1000000"]);
                command.args(["-search.maxPointsPerTimeseries=1000000", "-search.disableCache"]);
                command.arg(format!("-httpListenAddr={address}"));
            }
        }
        let log = std::fs::File::create(folder.join("log"))?;
        let child = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn();
        let child = child.with_context(|| program.display().to_string())?;
        let output = Command::new(program).arg("--version").output()?;
        let text = [output.stdout, output.stderr].concat();
        let version = String::from_utf8_lossy(&text).lines().next().unwrap_or_default().to_owned();
        let peer = Self { kind, child, folder, url: format!("http://{address}"), version };
        let begin = Instant::now();
        while peer.get("/api/v1/query?query=1").is_err() {
            let log = std::fs::read_to_string(peer.folder.join("log")).unwrap_or_default();
            ensure!(begin.elapsed() < PATIENCE, "{} does not answer: {log}", program.display());
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(peer)
    }

    pub fn name(&self) -> &'static str {
        match self.kind {
            Kind::Prometheus => "Prometheus",
            Kind::VictoriaMetrics => "VictoriaMetrics",
        }
    }

    fn get(&self, path: &str) -> anyhow::Result<String> {
        Ok(ureq::get(format!("{}{path}", self.url))
            .call()?
            .body_mut()
            .with_config()
            .limit(1 << 30)
            .read_to_string()?)
    }

    /// Writes these samples.
    pub fn write(&self, requests: &mut Request) -> anyhow::Result<()> {
        for body in requests.take(REQUEST_SAMPLES)? {
            let answer = ureq::post(format!("{}/api/v1/write", self.url))
                .header("Content-Encoding", "snappy")
                .header("Content-Type", "application/x-protobuf")
                .header("X-Prometheus-Remote-Write-Version", "0.1.0")
                .send(body.as_slice());
            answer.with_context(|| format!("{} refuses samples", self.name()))?;
        }
        Ok(())
    }

    pub fn processor(&self) -> f64 {
        processor_seconds(&self.child.id().to_string()).unwrap_or(0.0)
    }

    /// Makes of samples what stays on disk; its bytes.
    pub fn settle(&self) -> anyhow::Result<u64> {
        match self.kind {
            Kind::Prometheus => {
                let answer = ureq::post(format!("{}/api/v1/admin/tsdb/snapshot", self.url)).send_empty()?;
                let answer: serde_json::Value = serde_json::from_str(&answer.into_body().read_to_string()?)?;
                let name = answer["data"]["name"].as_str().context("a snapshot's name")?;
                bytes_below(&self.folder.join("data/snapshots").join(name))
            }
            Kind::VictoriaMetrics => {
                self.get("/internal/force_flush")?;
                self.get("/internal/force_merge")?;
                let data = self.folder.join("data");
                let begin = Instant::now();
                let mut before = 0;
                // Parts that were merged go a while after.
                loop {
                    std::thread::sleep(Duration::from_secs(3));
                    let now = bytes_below(&data)?;
                    if now == before || begin.elapsed() > PATIENCE {
                        return Ok(now);
                    }
                    before = now;
                }
            }
        }
    }

    /// Series of the answer, and the median of times in so many runs, seconds. `path` is below `/api/v1`.
    pub fn timed(&self, path: &str, runs: usize) -> anyhow::Result<(usize, f64)> {
        let mut times = Vec::new();
        let mut answer = String::new();
        for _ in 0..runs {
            let begin = Instant::now();
            answer = self.get(&format!("/api/v1/{path}"))?;
            times.push(begin.elapsed().as_secs_f64());
        }
        times.sort_by(f64::total_cmp);
        Ok((answer.matches("\"metric\":").count(), times[runs / 2]))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Bytes of all files of a folder.
fn bytes_below(folder: &Path) -> anyhow::Result<u64> {
    let mut all = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        // Some may go meanwhile.
        let Ok(meta) = entry.metadata() else { continue };
        all += if meta.is_dir() { bytes_below(&entry.path()).unwrap_or(0) } else { meta.len() };
    }
    Ok(all)
}
