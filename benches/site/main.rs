//! A whole site against one `throughline serve` with a private TimescaleDB: each node and the crawler has a spool and a
//! connection of its own, ships by the daemons' own code, and sends at the daemons' own pace. What ranks push is folded by the
//! agent's own code. Ports, links and ranks are busy all the time, so that no row is left out.
//!
//! Prints each ten seconds rows a second by table, how old the newest row in the database and the oldest record on its way
//! are, what waits in the spools, and processor time of server, database and this driver; at the end rows, bytes a row, bytes
//! a day and disk by table beside what `throughline db size` predicts. Ends with status 2 where the lag grows or a spool
//! is not empty at the end.
//!
//! What is not there: the crawler's MADs and the shims (records begin at what they report), jobs that begin and end, traces,
//! TLS.
#![allow(clippy::cast_precision_loss)] // figures for people

mod report;
mod tables;

use clap::Parser;
use report::Report;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use throughline_benches::server::Server;
use throughline_benches::site::cluster::{Cluster, Name};
use throughline_benches::site::fabric::Fabric;
use throughline_benches::site::node::{Node, nodes};
use throughline_benches::site::now;
use throughline_benches::site::ranks::SECOND;
use throughline_benches::site::send::Outgoing;
use tokio_util::sync::CancellationToken;

/// After a whole second: what ranks report at it has come.
const ARRIVED: i64 = SECOND / 4;

/// Longest wait for what is on its way at the end.
const DRAIN: Duration = Duration::from_secs(60);

/// Descriptors of this program beside one for each node.
const DESCRIPTORS: u64 = 512;

/// Drives a site's senders against a server.
#[derive(Debug, Parser)]
struct Options {
    /// The cluster
    #[arg(value_enum, ignore_case = true)]
    cluster: Name,
    /// Seconds for which records are made
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// One in so many of its nodes, jobs and ports
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    scale: u64,
    /// Seconds between two pushes of a rank. Shims push each second; rows are the same with less, and this driver takes less
    /// of the processors
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10))]
    push_seconds: u64,
    /// Ranks do not report where their time went: what that costs is the difference
    #[arg(long)]
    no_account: bool,
    /// A program `throughline`, built with --release
    #[arg(long, default_value = "target/release/throughline")]
    throughline: PathBuf,
}

/// What the driver has done.
#[derive(Default)]
struct Made {
    is_over: AtomicBool,
    /// Whole seconds whose records came late or not at all, because this driver was not done in time.
    late: AtomicU64,
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse();
    let cluster =
        Cluster { has_account: !options.no_account, ..Cluster::new(options.cluster, options.scale) };
    let descriptors = throughline_daemon::raise_descriptors(cluster.nodes + DESCRIPTORS);
    anyhow::ensure!(
        descriptors >= cluster.nodes + DESCRIPTORS,
        "{} nodes need as many open files, and the limit is {descriptors}: raise it (ulimit -n), or use --scale",
        cluster.nodes
    );
    println!(
        "site {:?}, 1 in {}: {} nodes of {} ranks in {} jobs, {} ports each {} s, {} GPUs of {} links; ranks push each {} s; {} s",
        options.cluster,
        options.scale,
        cluster.nodes,
        cluster.ranks,
        cluster.jobs,
        cluster.ports,
        cluster.port_seconds,
        cluster.all_gpus(),
        cluster.links,
        options.push_seconds,
        options.seconds
    );
    let folder = tempfile::tempdir()?;
    // The database's user must reach its folder.
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let server = Server::start(&options.throughline, folder.path(), "")?;
    let stop = CancellationToken::new();
    let outgoing = Arc::new(Outgoing::start(&format!("http://{}", server.collect), cluster.nodes, &stop)?);
    let made = Arc::new(Made::default());
    let maker = {
        let (cluster, outgoing, made) = (cluster.clone(), outgoing.clone(), made.clone());
        let (seconds, push) = (options.seconds, options.push_seconds);
        std::thread::spawn(move || make(&cluster, &outgoing, &made, seconds, push))
    };
    let mut report = Report::new(&server, &options.throughline, folder.path())?;
    let mut tick = tokio::time::interval(report::INTERVAL);
    tick.tick().await;
    loop {
        tick.tick().await;
        // The last ones may be of less than their time.
        if made.is_over.load(Relaxed) {
            break;
        }
        report.interval(&outgoing, made.late.load(Relaxed))?;
    }
    maker.join().map_err(|_| anyhow::anyhow!("the driver's thread panicked"))??;
    let begin = Instant::now();
    while outgoing.waiting().entries > 0 && begin.elapsed() < DRAIN {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let left = outgoing.waiting().entries;
    println!("at the end: {left} entries in spools, empty after {:.1} s", begin.elapsed().as_secs_f64());
    let is_met = report.end(&cluster, options.scale, left)?;
    stop.cancel();
    Ok(if is_met { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

/// Makes records second by second, at the pace of the clock.
fn make(cluster: &Cluster, outgoing: &Outgoing, made: &Made, seconds: u64, push: u64) -> anyhow::Result<()> {
    // Set however this ends.
    let result = make_all(cluster, outgoing, made, seconds, push);
    made.is_over.store(true, Relaxed);
    result
}

fn make_all(
    cluster: &Cluster,
    outgoing: &Outgoing,
    made: &Made,
    seconds: u64,
    push: u64,
) -> anyhow::Result<()> {
    let begin = now()? / SECOND * SECOND;
    let mut fabric = Fabric::new(cluster, begin);
    outgoing.crawled(fabric.inventory())?;
    let mut nodes: Vec<Node> = nodes(cluster, begin);
    for node in &mut nodes {
        let batch = node.inventory();
        outgoing.inventory(&node.name, &batch)?;
    }
    let mut time = now()? / SECOND * SECOND;
    let (end, mut swept) = (time + i64::try_from(seconds)? * SECOND, 0);
    while time < end {
        time += SECOND;
        let wait = time + ARRIVED - now()?;
        if wait < -SECOND {
            made.late.fetch_add(1, Relaxed);
        }
        std::thread::sleep(Duration::from_nanos(u64::try_from(wait).unwrap_or(0)));
        if time as f64 >= swept as f64 + cluster.port_seconds * 1e9 {
            outgoing.crawled(fabric.sweep(time, cluster.port_seconds))?;
            swept = time;
        }
        let second = (time / SECOND).unsigned_abs();
        for node in &mut nodes {
            let batch = node.second(time, now()?, second.is_multiple_of(push));
            outgoing.samples(&node.name, &batch)?;
        }
    }
    for node in &mut nodes {
        let mut batch = node.ranks.finish();
        node.sign(&mut batch);
        outgoing.samples(&node.name, &batch)?;
    }
    Ok(())
}
