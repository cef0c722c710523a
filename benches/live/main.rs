//! The live request at a site's size: 1,400 simulated nodes of 64 ranks in nine jobs against one `throughline serve` with a private
//! TimescaleDB, twenty viewers of the eight largest jobs, and one of the ninth, who is refused.
//!
//! Each node has a spool and a connection of its own, and the agent's own folding; of its ranks one in so many pushes each second, in
//! turns, so that sums grow each second. A viewer makes the live request as `job show` does, waits until the figures of all nodes are of
//! now, and reads the job. Prints how long that took and how old the figures were then, rows a second, processor time of server and
//! database, and what the rows cost an agent. Ends with status 2 where fewer than 95 % are answered within 3 s, the server takes more
//! than half a core, or the ninth job is not refused.
#![allow(clippy::cast_precision_loss)] // figures for people

mod agents;
mod viewers;

use agents::Agents;
use clap::Parser;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use throughline_benches::psql::Psql;
use throughline_benches::server::Server;
use throughline_benches::site::cluster::{Cluster, Name};
use throughline_benches::site::send::Outgoing;
use tokio_util::sync::CancellationToken;
use viewers::Looks;

/// Goals: this share of looks within so many seconds, and the server's processor time in cores.
const ANSWERED_SHARE: f64 = 0.95;
const ANSWERED_SECONDS: f64 = 3.0;
const SERVER_CORES: f64 = 0.5;

/// Jobs that run.
const JOBS: u64 = 9;

/// After the last look of a job its request expires.
const EXPIRED: Duration = Duration::from_secs(26);
/// Times at which all jobs are looked at again after nobody did.
const AGAIN: usize = 3;
/// Looks then.
const AGAIN_TIME: Duration = Duration::from_secs(8);
/// Descriptors of this program beside one for each node.
const DESCRIPTORS: u64 = 512;

/// Drives agents and viewers against a server.
#[derive(Debug, Parser)]
struct Options {
    /// Seconds for which all eight jobs are looked at
    #[arg(long, default_value_t = 90)]
    seconds: u64,
    /// Seconds before, in which nobody looks
    #[arg(long, default_value_t = 30)]
    quiet_seconds: u64,
    /// One in so many of the nodes
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    scale: u64,
    /// One in so many ranks pushes each second. Shims push each second; rows are the same, and this driver takes less of the processors
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..))]
    turns: u64,
    /// A program `throughline`, built with --release
    #[arg(long, default_value = "target/release/throughline")]
    throughline: PathBuf,
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse();
    // However few nodes: eight jobs that are looked at, and the ninth.
    let cluster = Cluster { jobs: JOBS, ..Cluster::new(Name::D, options.scale) };
    let descriptors = throughline_daemon::raise_descriptors(cluster.nodes + DESCRIPTORS);
    anyhow::ensure!(
        descriptors >= cluster.nodes + DESCRIPTORS,
        "{} nodes need as many open files, and the limit is {descriptors}: raise it (ulimit -n), or use --scale",
        cluster.nodes
    );
    println!("{} nodes of {} ranks in {} jobs", cluster.nodes, cluster.ranks, cluster.jobs);
    let folder = tempfile::tempdir()?;
    // The database's user must reach its folder.
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let server = Server::start(&options.throughline, folder.path(), "")?;
    let psql = Psql::new(&options.throughline, folder.path())?;
    let stop = CancellationToken::new();
    let (outgoing, requests) = Outgoing::start_agents(&format!("http://{}", server.collect), cluster.nodes)?;
    let agents = Arc::new(Agents::new(cluster, outgoing, requests, options.turns)?);
    let driver = {
        let (agents, stop) = (agents.clone(), stop.clone());
        std::thread::spawn(move || agents.run(&stop))
    };
    let measured = measure(&options, &server, &psql, &agents).await;
    stop.cancel();
    driver.join().map_err(|_| anyhow::anyhow!("the driver's thread panicked"))??;
    Ok(if measured? { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

/// Rows by table, processor time of server and database.
struct Interval {
    rows: BTreeMap<String, f64>,
    processor: [f64; 2],
}

impl Interval {
    fn read(server: &Server, psql: &Psql) -> anyhow::Result<Self> {
        let rows = psql.query(
            "SELECT c.hypertable_name, sum(s.n_tup_ins) FROM timescaledb_information.chunks c
             JOIN pg_stat_all_tables s ON s.schemaname = c.chunk_schema AND s.relname = c.chunk_name
             WHERE c.hypertable_schema = 'internal' GROUP BY 1",
        )?;
        let rows = rows.iter().map(|row| Ok((row[0].clone(), row[1].parse()?)));
        let (of_server, of_database) = server.processor()?;
        Ok(Self { rows: rows.collect::<anyhow::Result<_>>()?, processor: [of_server, of_database] })
    }

    /// What came between two readings, a second.
    fn since(&self, before: &Self, seconds: f64) -> Self {
        let grown = self.rows.iter().map(|(table, now)| {
            (table.clone(), (now - before.rows.get(table).copied().unwrap_or(0.0)).max(0.0) / seconds)
        });
        let processor = [0, 1].map(|of| (self.processor[of] - before.processor[of]) / seconds);
        Self { rows: grown.filter(|(_, rate)| *rate >= 0.5).collect(), processor }
    }

    fn print(&self, of: &str) {
        let tables: Vec<String> =
            self.rows.iter().map(|(table, rate)| format!("{table} {rate:.0}")).collect();
        let [server, database] = self.processor;
        println!(
            "{of}: {:.0} rows/s ({}), processors: server {server:.2}, database {database:.2}",
            self.rows.values().sum::<f64>(),
            tables.join(", ")
        );
    }
}

async fn measure(options: &Options, server: &Server, psql: &Psql, agents: &Agents) -> anyhow::Result<bool> {
    let url = format!("http://{}", server.query);
    let jobs = agents.job_keys();
    let (looked_at, ninth) = jobs.split_at(jobs.len().saturating_sub(1));
    tokio::time::sleep(Duration::from_secs(10)).await; // chunks, keys and first rows
    let time = |seconds| Duration::from_secs(seconds);
    let (before, begun) = (Interval::read(server, psql)?, Instant::now());
    tokio::time::sleep(time(options.quiet_seconds)).await;
    let quiet = Interval::read(server, psql)?.since(&before, begun.elapsed().as_secs_f64());
    quiet.print("nobody looks");

    let looking = viewers::look(&url, looked_at, time(options.seconds + 15));
    tokio::time::sleep(time(15)).await; // all have looked once
    agents.forget_costs();
    let (before, begun) = (Interval::read(server, psql)?, Instant::now());
    tokio::time::sleep(time(options.seconds / 2)).await;
    let refusal = viewers::refusal(&url, &ninth[0]).await?;
    tokio::time::sleep(time(options.seconds - options.seconds / 2)).await;
    let busy = Interval::read(server, psql)?.since(&before, begun.elapsed().as_secs_f64());
    let mut looks = viewers::gathered(looking).await?;
    busy.print(&format!("{} viewers of {} jobs", viewers::VIEWERS, looked_at.len()));
    looks.print("looks while others look");

    let mut first = Looks::default();
    for _ in 0..AGAIN {
        tokio::time::sleep(EXPIRED).await;
        first.extend(viewers::gathered(viewers::look_once(&url, looked_at, AGAIN_TIME)).await?);
    }
    first.print("first looks after a while");
    looks.extend(first);

    agents.print_costs();
    println!("the ninth job: {}", refusal.as_deref().unwrap_or("is shown live"));
    let share = looks.share_within(ANSWERED_SECONDS);
    let verdict = |is_met| if is_met { "met" } else { "MISSED" };
    let goals = [
        (
            format!(
                "{:.1} % of {} looks within {ANSWERED_SECONDS} s, goal 95 %",
                share * 100.0,
                looks.count()
            ),
            share >= ANSWERED_SHARE,
        ),
        (
            format!("server {:.2} cores, goal at most {SERVER_CORES}", busy.processor[0]),
            busy.processor[0] <= SERVER_CORES,
        ),
        (
            "the ninth job is refused with the reason".to_owned(),
            refusal.is_some_and(|text| text.contains("other jobs are shown live")),
        ),
        (format!("driver in time ({} seconds late)", agents.late()), agents.late() == 0),
    ];
    for (what, is_met) in &goals {
        println!("{what}: {}", verdict(*is_met));
    }
    // A driver that is late is the machine's fault.
    Ok(goals[..3].iter().all(|(_, is_met)| *is_met))
}
