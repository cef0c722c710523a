//! The time from the first MAD of a sweep to the acknowledged commit of its rows, with a private database.

use crate::measure::{median, quantile};
use anyhow::Context;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use throughline_fabric::sim::SimFabric;

/// Between sweeps, in seconds: long enough for each to be alone on its way.
const INTERVAL: &str = "1.0";

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

/// Starts `throughline serve` and `throughline-fabric run`, and prints the median of so many sweeps.
pub fn measure(fabric: &mut SimFabric, host: &str, folder: &Path, sweeps: usize) -> anyhow::Result<()> {
    let Ok(server) = crate::beside("throughline") else {
        println!("time to commit: left out, `throughline` is not built with the same profile");
        return Ok(());
    };
    throughline_prefix::ensure(throughline_prefix::Set::Postgres)?;
    // A state folder of its own that the database's user can enter.
    let state = tempfile::Builder::new().prefix("throughline-bench-").tempdir()?;
    open_to_all(state.path())?;
    let mut serve = Command::new(server);
    serve.arg("serve").arg("--state-dir").arg(state.path());
    serve.env("THROUGHLINE__COLLECT__LISTEN", "127.0.0.1:0").env("THROUGHLINE__QUERY__LISTEN", "127.0.0.1:0");
    let mut serve = Guarded(serve.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?);
    let collector = listening(&mut serve.0, "collect")?;

    let mut crawler = fabric.client(crate::beside("throughline-fabric")?, Some(host))?;
    crawler
        .args(["run", "--log-format", "json", "--log-level", "info,throughline_fabric=debug", "--state-dir"])
        .arg(folder.join("crawler"))
        .env("THROUGHLINE__DELIVERY__COLLECTOR", format!("http://{collector}"))
        .env("THROUGHLINE__HTTP__LISTEN", "127.0.0.1:0")
        .env("THROUGHLINE__SWEEP__INTERVAL_SECONDS", INTERVAL)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut crawler = Guarded(crawler.spawn()?);
    let log = BufReader::new(crawler.0.stderr.take().context("standard error")?);
    let mut times = Vec::new();
    let mut lines = log.lines();
    for line in lines.by_ref() {
        let Ok(line) = serde_json::from_str::<serde_json::Value>(&line?) else { continue };
        let fields = &line["fields"];
        if fields["message"] == "rows of a sweep are committed" {
            times.extend(fields["elapsed_seconds"].as_f64());
        }
        // The first sweep makes the keys of all ports.
        if times.len() > sweeps {
            break;
        }
    }
    // What it logs later must have a reader.
    std::thread::spawn(move || lines.for_each(drop));
    anyhow::ensure!(times.len() > sweeps, "the crawler ended");
    let first = times.remove(0);
    let (middle, high) = (median(times.clone()), quantile(times, 0.99));
    println!(
        "first MAD of a sweep to the commit of its rows: median {middle:.4} s, 99th percentile {high:.4} s of {sweeps}; the very first {first:.4} s"
    );
    Ok(())
}

/// The address that a daemon prints for a role.
fn listening(child: &mut Child, role: &str) -> anyhow::Result<String> {
    let output = BufReader::new(child.stdout.take().context("standard output")?);
    let wanted = format!("listening {role}=");
    let mut lines = output.lines();
    let found = lines.by_ref().find_map(|line| line.ok()?.strip_prefix(&wanted).map(str::to_owned));
    // What it prints later must have a reader.
    std::thread::spawn(move || lines.for_each(drop));
    found.with_context(|| format!("throughline serve did not print '{wanted}'"))
}

fn open_to_all(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755))
}
