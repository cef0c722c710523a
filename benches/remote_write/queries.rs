//! PromQL of all dashboards and alert rules, unchanged, on the receivers and on a Prometheus that reads the same time from
//! `throughline serve` by remote-read.

use crate::process::{Process, free_port};
use crate::receiver::Receiver;
use anyhow::Context;
use std::path::Path;
use throughline_dashboard_check::{Comparison, Files, Prometheus, Window, compare};

/// Means of an expression over the whole time may differ by so much where both have the same samples: engines extrapolate a rate to the
/// ends of its range or do not.
const SAME_SAMPLES: f64 = 0.01;

/// The same against remote-read, which sends a sample for each quarter of a rate's range: bursts of 23 s are between those of two minutes.
const THINNED: f64 = 0.10;

/// Compares all; prints what differs. Whether nothing does.
pub async fn compared(
    program: &Path,
    folder: &Path,
    serve: &str,
    receivers: &[Receiver],
    (begin, end): (i64, i64),
) -> anyhow::Result<bool> {
    let folder = folder.join("reader");
    std::fs::create_dir_all(&folder)?;
    let (config, port) = (folder.join("prometheus.yml"), free_port()?);
    std::fs::write(&config, format!("remote_read: [{{ url: '{serve}/api/v1/read', read_recent: true }}]\n"))?;
    let arguments = vec![
        format!("--config.file={}", config.display()),
        format!("--storage.tsdb.path={}", folder.join("data").display()),
        format!("--web.listen-address=127.0.0.1:{port}"),
    ];
    let ready = Some(format!("http://127.0.0.1:{port}/-/ready"));
    let mut reader = Process::new(program, arguments, folder.join("log"), ready);
    reader.start()?;
    let own = Prometheus::at(&format!("http://127.0.0.1:{port}"))?;
    let files = Files::read(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")))?;
    // Where samples end, the last gap is not filled yet.
    let window = Window::new((begin + 65) * 1_000_000_000, (end - 20) * 1_000_000_000);
    let mut servers = vec![("serve's remote-read", own, THINNED)];
    let mut is_same = true;
    // The last one has the same samples and Prometheus' engine: the others are compared with it, too.
    for receiver in receivers.iter().rev() {
        let other = Prometheus::at(&receiver.api)?;
        for (name, server, tolerance) in &servers {
            is_same &= one(&files, (name, server), (receiver.name, &other), window, *tolerance).await?;
        }
        if servers.len() == 1 {
            servers.push((receiver.name, other, SAME_SAMPLES));
        }
    }
    Ok(is_same)
}

async fn one(
    files: &Files,
    (name, server): (&str, &Prometheus),
    (other_name, other): (&str, &Prometheus),
    window: Window,
    tolerance: f64,
) -> anyhow::Result<bool> {
    let all = compare(files, [server, other], window, tolerance).await.context("comparing PromQL")?;
    let findings: Vec<_> = all.iter().flat_map(|one| one.findings(tolerance)).collect();
    let points: usize = all.iter().map(|one| one.points).sum();
    let apart: usize = all.iter().map(|one| one.apart).sum();
    let most = |of: fn(&Comparison) -> f64| all.iter().map(of).fold(0.0, f64::max) * 100.0;
    println!(
        "PromQL of panels and rules, {other_name} against {name}: {} expressions, {} with an answer, the same labels but for {}; {points} \
         points, {apart} of them apart by more than {:.0} %; means of an expression by at most {:.1} %, of a single series {:.1} %: {}",
        all.len(),
        all.iter().filter(|one| one.series[0] > 0).count(),
        all.iter().filter(|one| !one.absent.is_empty()).count(),
        tolerance * 100.0,
        most(|one| one.mean_apart),
        most(|one| one.series_apart),
        if findings.is_empty() { "met" } else { "MISSED" }
    );
    findings.iter().for_each(|finding| println!("  {finding}"));
    Ok(findings.is_empty())
}
