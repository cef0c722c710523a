//! How `throughline serve` bears the connections of a large site: agents with certificates of their own. A tenth
//! are silent (half of them send nothing at all, half shake hands and open no stream) and a tenth have a link of two
//! kilobytes a second; the rest deliver a batch every few seconds. Prints what was delivered of what was due, how long it
//! took to the acknowledgement of the commit, and memory, descriptors and processor time of the server. Ends with status 2
//! where a goal is missed.
#![allow(clippy::cast_precision_loss)] // figures for people

mod agents;

use agents::{Counts, Site};
use anyhow::{Context, ensure};
use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use throughline_benches::server::Server;
use tokio_util::sync::CancellationToken;

/// Goal: 99 of 100 batches are committed and acknowledged within this time.
const LATENCY_GOAL: Duration = Duration::from_secs(5);

/// Goal: memory of the server, without connections and for each of them.
const BASE_BYTES_GOAL: u64 = 512 << 20;
const CONNECTION_BYTES_GOAL: u64 = 160 << 10;

/// Longest wait for what is on its way at the end.
const DRAIN: Duration = Duration::from_secs(120);

/// Descriptors of this program beside one for each agent.
const DESCRIPTORS: u64 = 512;

/// Measures a server under the connections of many agents.
#[derive(Debug, Parser)]
struct Options {
    /// The program `throughline`
    #[arg(long, default_value = "target/release/throughline")]
    throughline: PathBuf,
    /// Agents, each with a connection and a certificate
    #[arg(long, default_value_t = 10_000)]
    agents: usize,
    /// Seconds for which batches are made, from when all agents are connected
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Seconds from one batch of an agent to the next
    #[arg(long, default_value_t = 5)]
    interval: u64,
    /// Records of a batch
    #[arg(long, default_value_t = 10)]
    rows: usize,
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse();
    let needed = options.agents as u64 + DESCRIPTORS;
    let descriptors = throughline_daemon::raise_descriptors(needed);
    ensure!(
        descriptors >= needed,
        "{} agents need {needed} open files, the limit is {descriptors}",
        options.agents
    );
    let folder = tempfile::tempdir()?;
    // The database's user must reach its folder.
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let site = Site::new(folder.path(), options.agents, options.rows)?;
    let tls = &site.server_tls;
    let collect = format!(
        "tls = {{ ca = '{}', certificate = '{}', key = '{}' }}",
        tls.ca.display(),
        tls.certificate.display(),
        tls.key.display()
    );
    let server = Server::start(&options.throughline, folder.path(), &collect)?;
    println!("{} agents, one batch of {} rows each {} s", options.agents, options.rows, options.interval);

    let (counts, stop) = (Arc::new(Counts::default()), CancellationToken::new());
    let begin = Instant::now();
    let agents = site.start(server.collect.port(), options.interval, &counts, &stop);
    let honest = site.honest();
    while counts.connected.load(Relaxed) < honest {
        ensure!(
            begin.elapsed() < DRAIN,
            "{} of {honest} agents are connected",
            counts.connected.load(Relaxed)
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    println!("  all of {honest} connected after {:.1} s", begin.elapsed().as_secs_f64());
    counts.begin();
    let (measured, before) = (Instant::now(), server.processor()?);
    tokio::time::sleep(Duration::from_secs(options.seconds)).await;
    let (elapsed, after) = (measured.elapsed().as_secs_f64(), server.processor()?);
    let (open, descriptors) = (server.figure("throughline_open_connections")?, server.descriptors()?);
    stop.cancel();
    tokio::time::timeout(DRAIN, agents.join_all()).await.context("batches are still on their way")?;
    report(
        &options,
        &server,
        &counts,
        [(after.0 - before.0) / elapsed, (after.1 - before.1) / elapsed],
        open,
        descriptors,
    )
}

fn report(
    options: &Options,
    server: &Server,
    counts: &Counts,
    processor: [f64; 2],
    open: f64,
    descriptors: usize,
) -> anyhow::Result<ExitCode> {
    let mut times = counts.times();
    times.sort_unstable();
    ensure!(!times.is_empty(), "nothing was delivered");
    let at = |share: usize| times[(times.len() - 1) * share / 100].as_secs_f64();
    let (due, delivered) = (counts.due.load(Relaxed), counts.delivered.load(Relaxed));
    let (slow_due, slow) = (counts.slow_due.load(Relaxed), counts.slow_delivered.load(Relaxed));
    let rows = (delivered + slow) * options.rows as u64;
    let written = server.figure("throughline_rows_written_total")?;
    let memory = server.highest_bytes()?;
    let memory_goal = BASE_BYTES_GOAL + options.agents as u64 * CONNECTION_BYTES_GOAL;
    let mut is_met = true;
    let mut line = |text: String, goal: String, met: bool| {
        is_met &= met;
        println!("  {text} ({goal}) {}", if met { "met" } else { "MISSED" });
    };
    line(format!("{delivered} of {due} batches delivered"), "goal: all".into(), delivered == due);
    line(format!("{slow} of {slow_due} batches of slow agents"), "goal: all".into(), slow == slow_due);
    line(
        format!("{written:.0} rows written of {rows} acknowledged"),
        "goal: all".into(),
        written >= rows as f64,
    );
    line(
        format!("median {:.2} s, p99 {:.2} s, longest {:.2} s to the commit", at(50), at(99), at(100)),
        format!("goal: p99 at most {} s", LATENCY_GOAL.as_secs()),
        at(99) <= LATENCY_GOAL.as_secs_f64(),
    );
    line(
        format!("server at most {:.0} MiB", memory as f64 / 1_048_576.0),
        format!("goal: at most {:.0} MiB", memory_goal as f64 / 1_048_576.0),
        memory <= memory_goal,
    );
    let limit = server.descriptor_limit()?;
    line(
        format!("{descriptors} descriptors for {open:.0} connections"),
        format!("goal: below the limit, {limit}"),
        (descriptors as u64) < limit,
    );
    println!(
        "  server {:.2} cores, database {:.2}; lost connections {}; refused {:.0}",
        processor[0],
        processor[1],
        counts.lost.load(Relaxed),
        server.figure("throughline_connections_rejected_total")?
    );
    Ok(if is_met { ExitCode::SUCCESS } else { ExitCode::from(2) })
}
