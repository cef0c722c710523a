//! The same samples in Throughline, Prometheus and VictoriaMetrics: readings of a site's ports and NVLinks each second of a whole
//! hour that has passed, busy half of the time (`benches/load.rs`), with the same times and values. Throughline gets them as
//! records over gRPC, the others by remote write, one after the other on the same machine. Prints bytes a sample on disk, processor
//! time of ingest a million samples, and the time of five queries: last value of all ports, rate over the hour by port and minute,
//! ten ports with the most, all samples of one port's counter, and bytes by job. Ends with status 2 where a port's sample takes more
//! than the goal in Throughline, or more than in VictoriaMetrics.
#![allow(clippy::cast_precision_loss)] // figures for people

mod own;
mod peer;
mod remote_write;

use clap::Parser;
use own::Own;
use peer::{Kind, Peer};
use remote_write::Request;
use std::path::PathBuf;
use std::process::ExitCode;
use throughline_benches::site::cluster::{Cluster, Name};
use throughline_benches::site::fabric::Fabric;
use throughline_benches::site::node::{Node, nodes};
use throughline_benches::site::now;
use throughline_benches::site::ranks::SECOND;
use throughline_sample::wire::Batch;

/// Goal: bytes of a sample with its index.
const BYTES_GOAL: f64 = 0.7;

/// Runs of each query.
const RUNS: usize = 5;

/// Compares how samples are stored.
#[derive(Debug, Parser)]
struct Options {
    /// One in so many of the 4,830 ports and 640 GPUs of site A
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..))]
    scale: u64,
    /// Seconds of the hour
    #[arg(long, default_value_t = 3600, value_parser = clap::value_parser!(u64).range(60..=3600))]
    seconds: u64,
    /// Ports only: the goal is theirs
    #[arg(long)]
    ports_only: bool,
    /// A program `throughline`, built with --release
    #[arg(long, default_value = "target/release/throughline")]
    throughline: PathBuf,
    /// A program `prometheus`
    #[arg(long)]
    prometheus: Option<PathBuf>,
    /// A program `victoria-metrics`, single-node
    #[arg(long)]
    victoria_metrics: Option<PathBuf>,
}

/// What is stored.
struct Load {
    cluster: Cluster,
    begin: i64,
    seconds: i64,
}

/// Figures of one of them.
struct Figures {
    name: String,
    bytes: f64,
    samples: f64,
    /// Seconds of processor time.
    ingest: f64,
    /// Of each query: rows or series, seconds.
    queries: Vec<Option<(usize, f64)>>,
}

impl Load {
    fn new(options: &Options) -> anyhow::Result<Self> {
        let mut cluster = Cluster::new(Name::A, options.scale);
        if options.ports_only {
            cluster.gpu_nodes = 0;
        }
        // A whole hour long enough ago for upkeep to take it.
        let hour = 3600 * SECOND;
        let begin = (now()? / hour - 2) * hour;
        Ok(Self { cluster, begin, seconds: i64::try_from(options.seconds)? })
    }

    fn end(&self) -> i64 {
        self.begin + self.seconds * SECOND
    }

    fn makers(&self) -> (Fabric, Vec<Node>) {
        (Fabric::new(&self.cluster, self.begin), nodes(&self.cluster, self.begin))
    }

    /// All batches of readings in the order of time, with the name of the node that sends them; the crawler has none.
    fn each(&self, mut take: impl FnMut(&str, Batch) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let (mut fabric, mut nodes) = self.makers();
        for second in 0..self.seconds {
            let time = self.begin + second * SECOND;
            for batch in fabric.sweep(time, 1.0) {
                take("", batch)?;
            }
            let with_gpus = usize::try_from(self.cluster.gpu_nodes)?;
            for node in nodes.iter_mut().take(with_gpus) {
                let batch = node.links(time);
                take(&node.name, batch)?;
            }
        }
        Ok(())
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse();
    let load = Load::new(&options)?;
    println!(
        "{} ports and {} GPUs of {} links, each second of {} s",
        load.cluster.ports,
        load.cluster.all_gpus(),
        load.cluster.links,
        load.seconds
    );
    let folder = tempfile::tempdir()?;
    // The database's user must reach its folder.
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let own = Own::measure(&options.throughline, folder.path(), &load).await?;
    let mut all = vec![own];
    for (kind, program) in
        [(Kind::Prometheus, &options.prometheus), (Kind::VictoriaMetrics, &options.victoria_metrics)]
    {
        if let Some(program) = program {
            all.push(measure(&Peer::start(kind, program, folder.path())?, &load)?);
        }
    }
    Ok(report(&all, options.ports_only))
}

fn measure(peer: &Peer, load: &Load) -> anyhow::Result<Figures> {
    // A build of the module alone has none.
    println!("{}: {}", peer.name(), peer.version);
    let mut request = Request::new();
    load.each(|_, batch| {
        request.add(&batch);
        if batch.coverage.is_empty() { Ok(()) } else { peer.write(&mut request) }
    })?;
    peer.write(&mut request)?;
    let bytes = peer.settle()? as f64;
    let ingest = peer.processor();
    let (begin, end) = (load.begin / SECOND, load.end() / SECOND);
    let counter = "infiniband_switch_port_transmit_data_bytes_total";
    // Of hosts and switches alike.
    let all = "{__name__=~%22infiniband_(switch|hca)_port_transmit_data_bytes_total%22}";
    let one = format!("{counter}{{guid=%220x0002c90300000000%22,port=%221%22}}[{}s]", load.seconds);
    let paths = [
        format!("query?time={end}&query={all}"),
        format!("query_range?start={}&end={end}&step=60&query=rate({all}[1m])", begin + 60),
        format!("query?time={end}&query=topk(10,increase({all}[{}s]))", load.seconds),
        format!("query?time={end}&query={one}"),
    ];
    let mut queries = Vec::new();
    for path in &paths {
        // What moves between two names needs one of them.
        queries.push(Some(peer.timed(path, RUNS)?));
    }
    // Which job uses which port is not known there.
    queries.push(None);
    Ok(Figures { name: peer.name().into(), bytes, samples: request.samples as f64, ingest, queries })
}

fn report(all: &[Figures], is_of_ports: bool) -> ExitCode {
    println!();
    println!(
        "{:<20}{:>14}{:>14}{:>16}   last value, rate by minute, top ten, one port, by job: ms (rows or series)",
        "", "samples", "bytes/sample", "CPU s/M samples"
    );
    for figures in all {
        let queries = figures.queries.iter().map(|query| match query {
            Some((rows, seconds)) => format!("{:.1} ({rows})", seconds * 1000.0),
            None => "-".into(),
        });
        println!(
            "{:<20}{:>14}{:>14.3}{:>16.3}   {}",
            figures.name,
            figures.samples,
            figures.bytes / figures.samples,
            figures.ingest / figures.samples * 1e6,
            queries.collect::<Vec<_>>().join(", ")
        );
    }
    let Some((own, others)) = all.split_first() else { return ExitCode::SUCCESS };
    let size = |figures: &Figures| figures.bytes / figures.samples;
    for other in others {
        let ratios = own.queries.iter().zip(&other.queries).map(|pair| match pair {
            (Some(own), Some(other)) => format!("{:.2}", own.1 / other.1),
            _ => "-".into(),
        });
        println!(
            "Throughline against {}: bytes {:.2}, processor {:.2}, queries {}",
            other.name,
            size(own) / size(other),
            (own.ingest / own.samples) / (other.ingest / other.samples),
            ratios.collect::<Vec<_>>().join(", ")
        );
    }
    if !is_of_ports {
        return ExitCode::SUCCESS;
    }
    let is_small = size(own) <= BYTES_GOAL
        && others.iter().filter(|other| other.name.starts_with('V')).all(|other| size(own) < size(other));
    println!(
        "at most {BYTES_GOAL} bytes a sample of a port, and less than VictoriaMetrics: {}",
        if is_small { "met" } else { "MISSED" }
    );
    if is_small { ExitCode::SUCCESS } else { ExitCode::from(2) }
}
