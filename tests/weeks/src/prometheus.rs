//! Two Prometheus of the prefix: one with the readings in its own storage, and beside them the last one of each minute, and one that has
//! nothing but the server's remote-read.

use crate::clock::pause;
use crate::truth::{INTERVAL, Link, MINUTE, Reader};
use anyhow::{Context, bail, ensure};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use throughline_prefix::{Prefix, Set};

/// Name of the own storage's series.
const OWN: &str = "own_bytes_total";
const READY: Duration = Duration::from_secs(60);

/// A Prometheus that runs.
struct Server {
    child: Child,
    address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Both of them.
pub struct Prometheus {
    folder: PathBuf,
    own: Option<Server>,
    remote: Server,
    prometheus: PathBuf,
    promtool: PathBuf,
}

/// Bytes by name of the link.
pub type Answer = BTreeMap<String, f64>;

impl Prometheus {
    /// Starts the one that reads from the server.
    pub async fn start(folder: &Path, query: &str) -> anyhow::Result<Self> {
        let prefix = Prefix::locate()?;
        prefix.ensure(Set::Fabric, &mut |line| eprintln!("{line}"))?;
        let prometheus = prefix.program("prometheus");
        std::fs::write(
            folder.join("remote.yml"),
            format!("remote_read:\n  - url: http://{query}/api/v1/read\n    read_recent: true\n"),
        )?;
        std::fs::write(folder.join("own.yml"), "scrape_configs: []\n")?;
        let remote = start(&prometheus, folder, "remote").await?;
        let promtool = prefix.program("promtool");
        Ok(Self { folder: folder.to_owned(), own: None, remote, prometheus, promtool })
    }

    /// Gives the other one all readings that were stored until now: whether something is fed at a second, `is_fed` says.
    pub async fn fill(&mut self, links: &[Link], began: i64, spans: &[(i64, i64)]) -> anyhow::Result<()> {
        self.own = None;
        let text = self.folder.join("history.txt");
        write_history(&text, links, began, spans)?;
        let folder = self.folder.join("own");
        let _ = std::fs::remove_dir_all(&folder);
        let mut command = Command::new(&self.promtool);
        // One block for all of it.
        command
            .args(["tsdb", "create-blocks-from", "--max-block-duration=20000h", "openmetrics"])
            .arg(&text)
            .arg(&folder);
        let made = command.output()?;
        ensure!(made.status.success(), "promtool: {}", String::from_utf8_lossy(&made.stderr));
        std::fs::remove_file(&text)?;
        self.own = Some(start(&self.prometheus, &self.folder, "own").await?);
        Ok(())
    }

    /// `increase` of all links at a time by the server's samples.
    pub fn remote(&self, at: i64, range: &str, function: &str) -> anyhow::Result<Answer> {
        let fabric = format!("{function}(infiniband_hca_port_transmit_data_bytes_total[{range}])");
        let mut found = query(&self.remote.address, at, &fabric, "guid")?;
        let host = format!("{function}(node_infiniband_port_data_transmitted_bytes_total[{range}])");
        found.extend(query(&self.remote.address, at, &host, "instance")?);
        Ok(found)
    }

    /// The same by the own storage: of the readings, or of the last of each minute.
    pub fn own(&self, at: i64, range: &str, function: &str, set: &str) -> anyhow::Result<Answer> {
        let own = self.own.as_ref().context("not filled")?;
        query(&own.address, at, &format!("{function}({OWN}{{set=\"{set}\"}}[{range}])"), "link")
    }
}

/// The label by which the server's series of a link is found.
pub fn label(link: &Link) -> String {
    match link.reader {
        Reader::Fabric => format!("0x{:016x}", link.guid()),
        Reader::Host => crate::send::host(link.number),
    }
}

fn write_history(file: &Path, links: &[Link], began: i64, spans: &[(i64, i64)]) -> anyhow::Result<()> {
    let mut out = BufWriter::new(File::create(file)?);
    let mut line = String::new();
    writeln!(out, "# TYPE {} counter", OWN.trim_end_matches("_total"))?;
    for link in links {
        for set in ["readings", "minutes"] {
            let stored = spans
                .iter()
                .flat_map(|(from, to)| (*from..*to).step_by(usize::try_from(INTERVAL).unwrap_or(1)));
            let mut last: Option<i64> = None;
            let mut put = |second: i64, out: &mut BufWriter<File>| -> anyhow::Result<()> {
                line.clear();
                write!(
                    line,
                    "{OWN}{{link=\"{}\",set=\"{set}\"}} {} {}",
                    label(link),
                    link.value(second),
                    began + second
                )?;
                Ok(writeln!(out, "{line}")?)
            };
            for second in stored.filter(|second| link.is_stored(*second)) {
                if set == "readings" {
                    put(second, &mut out)?;
                    continue;
                }
                // A minute has a row for each epoch in it.
                let ends =
                    |last: &i64| minute(*last) != minute(second) || link.epoch(*last) != link.epoch(second);
                if let Some(before) = last.filter(ends) {
                    put(before, &mut out)?;
                }
                last = Some(second);
            }
            if let Some(second) = last {
                put(second, &mut out)?;
            }
        }
    }
    writeln!(out, "# EOF")?;
    out.flush()?;
    Ok(())
}

/// The minute that a reading is the end of a part of: one at a whole minute of the minute before.
fn minute(second: i64) -> i64 {
    (second - 1).div_euclid(MINUTE)
}

async fn start(program: &Path, folder: &Path, name: &str) -> anyhow::Result<Server> {
    let log = folder.join(format!("prometheus-{name}.log"));
    let out = File::create(&log)?;
    let mut command = Command::new(program);
    command.env_remove("LD_PRELOAD");
    command.arg(format!("--config.file={}", folder.join(format!("{name}.yml")).display()));
    command.arg(format!("--storage.tsdb.path={}", folder.join(name).display()));
    command.args([
        "--storage.tsdb.retention.time=100y",
        "--web.listen-address=127.0.0.1:0",
        "--query.lookback-delta=5m",
    ]);
    command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
    let child = command.spawn().with_context(|| program.display().to_string())?;
    let mut server = Server { child, address: String::new() };
    let end = Instant::now() + READY;
    loop {
        let text = std::fs::read_to_string(&log)?;
        let listens = text.lines().filter(|line| line.contains("Listening on"));
        let address =
            listens.filter_map(|line| line.rsplit_once("address=")).map(|(_, rest)| rest.trim()).next();
        if let Some(address) = address {
            server.address = address.trim_matches('"').to_owned();
            let ready = ureq::get(format!("http://{}/-/ready", server.address)).call();
            if ready.is_ok() {
                return Ok(server);
            }
        }
        ensure!(Instant::now() < end, "Prometheus did not get ready:\n{text}");
        pause(Duration::from_millis(50)).await;
    }
}

fn query(address: &str, at: i64, expression: &str, label: &str) -> anyhow::Result<Answer> {
    let url = format!("http://{address}/api/v1/query");
    let answer = ureq::get(&url).query("query", expression).query("time", at.to_string()).call();
    let text = answer.with_context(|| expression.to_owned())?.body_mut().read_to_string()?;
    let answer: serde_json::Value = serde_json::from_str(&text)?;
    if answer["status"] != "success" || answer.get("warnings").is_some() {
        bail!("{expression}: {answer}");
    }
    let result = answer["data"]["result"].as_array().context("a vector")?;
    let one = |series: &serde_json::Value| {
        let value = series["value"][1].as_str()?.parse().ok()?;
        Some((series["metric"][label].as_str()?.to_owned(), value))
    };
    Ok(result.iter().filter_map(one).collect())
}
