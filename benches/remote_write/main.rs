//! Remote write to real receivers while everything fails: VictoriaMetrics as a cluster (vminsert, two vmstorage with all samples
//! each, vmselect) or as a single node, and Prometheus. A real `throughline serve` on a private TimescaleDB is fed by the nodes
//! and the crawler of a small site over gRPC. `serve` gets SIGKILL at random times, all receivers are away for a while, then one
//! vmstorage and Prometheus get SIGKILL and are started again.
//!
//! At the end each reading of ports and GPUs in the tables has to be in each receiver with its time and value, once, and
//! receivers have as many samples in all as the database says were acknowledged. Of VictoriaMetrics the copies are counted
//! too as they are stored, in each vmstorage: a reader gets one of those with the same time, so that only these show what came twice.
//! Ends with status 2 where a sample is lost, doubled or different.
//!
//! vminsert and a single VictoriaMetrics end in order: they acknowledge what they have in memory only.
#![allow(clippy::cast_precision_loss)] // figures for people

mod count;
mod process;
mod queries;
mod receiver;

use anyhow::{Context, bail, ensure};
use clap::Parser;
use process::{Process, free_port};
use receiver::Receiver;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};
use throughline_benches::psql::Psql;
use throughline_benches::site::cluster::{Cluster, Name};
use throughline_benches::site::fabric::Fabric;
use throughline_benches::site::node::nodes;
use throughline_benches::site::now;
use throughline_benches::site::ranks::SECOND;
use throughline_benches::site::send::Outgoing;
use throughline_sample::catalogue::{RECORDS, SOURCE_UP, Table};
use throughline_sample::wire::SelfStat;
use tokio_util::sync::CancellationToken;

/// Seconds between two deaths of `serve`.
const LIFE_SECONDS: std::ops::Range<u64> = 5..25;

/// How long what was killed of a receiver is gone.
const GONE: Duration = Duration::from_secs(15);

/// Longest wait for what is on its way to receivers at the end.
const DRAIN: Duration = Duration::from_secs(1800);

/// Longest wait until a receiver shows what it has.
const SHOWN: Duration = Duration::from_secs(60);

/// Times that `serve` is stopped at the end in the hope that it sends nothing just then.
const TRIES: u32 = 20;

/// Sends samples to receivers that fail, and counts them.
#[derive(Debug, Parser)]
struct Options {
    /// Seconds for which there are samples
    #[arg(long, default_value_t = 180)]
    seconds: u64,
    /// Of them those in which all receivers are away
    #[arg(long, default_value_t = 60)]
    away_seconds: u64,
    /// One in so many of site A's nodes and ports
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    scale: u64,
    /// For the times of faults; printed, to repeat a run
    #[arg(long)]
    seed: Option<u64>,
    /// A folder with the programs vminsert, vmstorage and vmselect
    #[arg(long)]
    cluster: Option<PathBuf>,
    /// VictoriaMetrics, the single node
    #[arg(long)]
    victoria_metrics: Option<PathBuf>,
    /// Prometheus
    #[arg(long)]
    prometheus: Option<PathBuf>,
    /// Version of remote write that Prometheus is sent; 2 needs its third version
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=2))]
    protocol: u8,
    /// A program `throughline`, built with --release
    #[arg(long, default_value = "target/release/throughline")]
    throughline: PathBuf,
    /// A Prometheus that reads from `throughline serve` by remote-read: PromQL of all dashboards and rules is compared with its answers
    #[arg(long)]
    reader: Option<PathBuf>,
}

/// The server, and the way to its database, which runs on when it dies.
struct Own {
    serve: Process,
    psql: Psql,
    program: PathBuf,
    state: PathBuf,
    collect: String,
    query: String,
}

impl Own {
    fn start(program: &Path, folder: &Path, receivers: &[Receiver]) -> anyhow::Result<Self> {
        let state = folder.join("state");
        std::fs::create_dir(&state)?;
        let started = Command::new(program).args(["db", "start", "--state-dir"]).arg(&state).output();
        let started = started.with_context(|| program.display().to_string())?;
        ensure!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
        let (collect, query) = (free_port()?, free_port()?);
        let config = folder.join("server.toml");
        let mut text = format!(
            "[query]\nlisten = '127.0.0.1:{query}'\nprometheus_urls = []\n[collect]\nlisten = '127.0.0.1:{collect}'\n"
        );
        for receiver in receivers {
            text.push_str(&format!(
                "[[export.remote_write]]\nname = '{}'\nurl = '{}'\nprotocol = {}\ndelay_seconds = 2\n",
                receiver.name, receiver.write_url, receiver.protocol
            ));
        }
        std::fs::write(&config, text)?;
        let arguments = ["serve", "--log-level", "warn", "--state-dir"]
            .map(str::to_owned)
            .into_iter()
            .chain([state.display().to_string(), "--config".into(), config.display().to_string()]);
        let ready = Some(format!("http://127.0.0.1:{query}/healthz"));
        let mut serve = Process::new(program, arguments.collect(), folder.join("serve.log"), ready);
        serve.start()?;
        let psql = Psql::new(program, folder)?;
        Ok(Self {
            serve,
            psql,
            program: program.to_owned(),
            state,
            collect: format!("http://127.0.0.1:{collect}"),
            query: format!("http://127.0.0.1:{query}"),
        })
    }

    /// Targets that have not everything until this second.
    fn behind(&self, end: i64) -> anyhow::Result<f64> {
        self.psql.number(&format!(
            "SELECT count(*) FROM internal.export_target t WHERE exported_until < to_timestamp({end}) OR noticed_until > exported_until
                OR EXISTS (SELECT FROM internal.export_late l WHERE l.target_id = t.id)"
        ))
    }

    /// Waits until all receivers have everything until this second, and stops the server at a moment when it sends nothing.
    async fn finish(&mut self, end: i64) -> anyhow::Result<()> {
        let begin = Instant::now();
        for _ in 0..TRIES {
            while self.behind(end)? > 0.0 {
                ensure!(begin.elapsed() < DRAIN, "receivers have not everything in {DRAIN:?}");
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            self.serve.kill();
            if self.behind(end)? == 0.0 {
                return Ok(());
            }
            self.serve.start()?;
        }
        bail!("serve was sending each time that it was stopped")
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        self.serve.kill();
        let _ = Command::new(&self.program).args(["db", "stop", "--state-dir"]).arg(&self.state).output();
    }
}

/// What happens next, in seconds since the beginning.
struct Faults {
    random: fastrand::Rng,
    next_death: u64,
    deaths: u32,
    leave: u64,
    come_back: u64,
    crash: u64,
    /// Since when a part of a receiver is dead.
    crashed: Option<Instant>,
    is_away: bool,
}

impl Faults {
    fn new(options: &Options, seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let leave = options.seconds / 8 + random.u64(0..5);
        let come_back = leave + options.away_seconds;
        let crash = come_back + random.u64(5..15);
        let next_death = random.u64(LIFE_SECONDS);
        Self { random, next_death, deaths: 0, leave, come_back, crash, crashed: None, is_away: false }
    }

    /// What is due at this second.
    fn pass(&mut self, second: u64, own: &mut Own, receivers: &mut [Receiver]) -> anyhow::Result<()> {
        if second >= self.next_death {
            own.serve.kill();
            own.serve.start()?;
            self.deaths += 1;
            self.next_death = second + self.random.u64(LIFE_SECONDS);
        }
        if !self.is_away && second >= self.leave && second < self.come_back {
            println!("{second:>5} s: receivers are away");
            receivers.iter_mut().try_for_each(Receiver::leave)?;
            self.is_away = true;
        }
        if self.is_away && second >= self.come_back {
            println!("{second:>5} s: receivers are back");
            receivers.iter_mut().try_for_each(Receiver::come_back)?;
            self.is_away = false;
        }
        if self.crashed.is_none() && second >= self.crash {
            for receiver in receivers.iter_mut() {
                if let Some(what) = receiver.crash() {
                    println!("{second:>5} s: SIGKILL for {what}");
                }
            }
            self.crashed = Some(Instant::now());
        }
        if self.crashed.is_some_and(|since| since.elapsed() >= GONE) {
            println!("{second:>5} s: what was killed is started again");
            recover(receivers)?;
            self.crashed = None;
            // Once in each run.
            self.crash = u64::MAX;
        }
        Ok(())
    }

    /// Everything is there again.
    fn end(&mut self, receivers: &mut [Receiver]) -> anyhow::Result<()> {
        if std::mem::take(&mut self.is_away) {
            receivers.iter_mut().try_for_each(Receiver::come_back)?;
        }
        if self.crashed.take().is_some() {
            recover(receivers)?;
        }
        Ok(())
    }
}

fn recover(receivers: &mut [Receiver]) -> anyhow::Result<()> {
    for receiver in receivers {
        if receiver.can_crash() {
            receiver.recover()?;
        }
    }
    Ok(())
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse();
    let seed = options.seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
    println!("seed {seed}: {} s of samples, receivers away for {} s", options.seconds, options.away_seconds);
    let folder = tempfile::tempdir()?;
    // The database's user must reach its folder.
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let mut receivers = receivers(&options, folder.path())?;
    let mut own = Own::start(&options.throughline, folder.path(), &receivers)?;
    let span = run(&options, seed, &mut own, &mut receivers).await?;
    let drained = Instant::now();
    own.finish(span.1).await?;
    println!("everything was sent {:.0} s after the last sample; counting", drained.elapsed().as_secs_f64());
    let is_exact = report(&own, &receivers, span)?;
    let mut is_same = true;
    if let Some(reader) = &options.reader {
        own.serve.start()?;
        is_same = queries::compared(reader, folder.path(), &own.query, &receivers, span).await?;
    }
    receivers.iter_mut().for_each(Receiver::end);
    Ok(if is_exact && is_same { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

fn receivers(options: &Options, folder: &Path) -> anyhow::Result<Vec<Receiver>> {
    let mut all = Vec::new();
    if let Some(programs) = &options.cluster {
        all.push(Receiver::cluster(programs, folder)?);
    }
    if let Some(program) = &options.victoria_metrics {
        all.push(Receiver::single(program, folder)?);
    }
    if let Some(program) = &options.prometheus {
        all.push(Receiver::prometheus(program, options.protocol, folder)?);
    }
    ensure!(!all.is_empty(), "name a receiver: --cluster, --victoria-metrics or --prometheus");
    Ok(all)
}

/// Feeds the server and lets things fail; from when until when there are samples, seconds since 1970.
async fn run(
    options: &Options,
    seed: u64,
    own: &mut Own,
    receivers: &mut [Receiver],
) -> anyhow::Result<(i64, i64)> {
    // What came before a receiver was known is not sent to it.
    let known = Instant::now();
    let wanted = receivers.len();
    while own.psql.number("SELECT count(*) FROM internal.export_target")? < wanted as f64 {
        ensure!(known.elapsed() < process::PATIENCE, "serve knows no receivers: see its log");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let cluster = Cluster::new(Name::A, options.scale);
    let stop = CancellationToken::new();
    let outgoing = Outgoing::start(&own.collect, cluster.nodes, &stop)?;
    let begin = (now()? / SECOND + 1) * SECOND;
    let (mut fabric, mut nodes) = (Fabric::new(&cluster, begin), nodes(&cluster, begin));
    println!(
        "{} nodes, {} ports, {} GPUs of {} links, each second",
        cluster.nodes,
        cluster.ports,
        cluster.all_gpus(),
        cluster.links
    );
    outgoing.crawled(fabric.inventory())?;
    for node in &mut nodes {
        let batch = node.inventory();
        outgoing.inventory(&node.name, &batch)?;
    }
    let mut faults = Faults::new(options, seed);
    for second in 0..options.seconds {
        let time = begin + i64::try_from(second)? * SECOND;
        let left = Duration::from_nanos(u64::try_from(time - now()?).unwrap_or(0));
        tokio::time::sleep(left).await;
        outgoing.crawled(fabric.sweep(time, 1.0))?;
        for node in &mut nodes {
            let mut batch = node.second(time, time, false);
            batch.self_stats = own_metrics(time, begin);
            outgoing.samples(&node.name, &batch)?;
        }
        // Programs are waited for meanwhile; what senders do goes on.
        tokio::task::block_in_place(|| faults.pass(second, own, receivers))?;
    }
    tokio::task::block_in_place(|| faults.end(receivers))?;
    let drain = Instant::now();
    while outgoing.waiting().entries > 0 {
        ensure!(drain.elapsed() < process::PATIENCE, "the server has not taken all");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    ensure!(outgoing.waiting().lost == 0, "entries were dropped by spools of this driver");
    stop.cancel();
    println!("serve was killed {} times", faults.deaths);
    Ok((begin / SECOND - 60, now()? / SECOND + 1))
}

/// What an agent reports of itself each ten seconds: that its sources work, records, and bytes in MPI.
fn own_metrics(time: i64, begin: i64) -> Vec<SelfStat> {
    let seconds = (time - begin) / SECOND;
    if seconds % 10 != 0 {
        return Vec::new();
    }
    let stat = |source: &str, name: String, value: f64| SelfStat {
        time,
        source: source.into(),
        name,
        value,
        ..SelfStat::default()
    };
    let mut all = Vec::new();
    for source in ["sysfs", "nvml", "spool"] {
        all.push(stat(source, SOURCE_UP.name.into(), 1.0));
        all.push(stat(source, RECORDS.name.into(), (seconds * 100) as f64));
    }
    for operation in ["allreduce", "alltoall"] {
        for metric in Table::MpiOps.metrics() {
            let one = stat("mpi", metric.self_metric_name(), (seconds * 1_000_000) as f64);
            all.push(SelfStat { label: operation.into(), ..one });
        }
    }
    all
}

/// Prints what was counted; whether nothing is lost, doubled or different.
fn report(own: &Own, receivers: &[Receiver], (begin, end): (i64, i64)) -> anyhow::Result<bool> {
    // Samples are also older than the first reading: of serve itself, and of the minute before.
    let span = (begin - 300, end + 300);
    // What VictoriaMetrics acknowledged can be read some seconds later.
    let begun = Instant::now();
    let counts = loop {
        receivers.iter().for_each(Receiver::flush);
        let counts = count::readings(&own.psql, receivers, span)?;
        if counts.iter().all(|counts| counts.lost == 0) || begun.elapsed() > SHOWN {
            break counts;
        }
        std::thread::sleep(Duration::from_secs(1));
    };
    println!(
        "{:<12}{:>12}{:>8}{:>9}{:>9}{:>11}   {:>14}{:>14}{:>9}   {:>14}{:>7}{:>11}",
        "",
        "readings",
        "lost",
        "unknown",
        "doubled",
        "different",
        "acknowledged",
        "samples",
        "refused",
        "copies",
        "most",
        "conflicts"
    );
    let mut is_exact = true;
    for (counts, receiver) in counts.iter().zip(receivers) {
        let of = |column: &str| {
            own.psql.number(&format!(
                "SELECT {column} FROM internal.export_target WHERE name = '{}'",
                receiver.name
            ))
        };
        let (acknowledged, refused) = (of("acknowledged")?, of("refused")?);
        let stored = count::stored(receiver, span)?;
        println!(
            "{:<12}{:>12}{:>8}{:>9}{:>9}{:>11}   {acknowledged:>14}{:>14}{refused:>9}   {:>14}{:>7}{:>11}",
            receiver.name,
            counts.expected,
            counts.lost,
            counts.unknown,
            counts.doubled,
            counts.different,
            stored.read,
            stored.copies,
            stored.most,
            stored.conflicts
        );
        if stored.mixed > 0 {
            println!(
                "{}: {} exports of copies had blocks of other series and were requested again",
                receiver.name, stored.mixed
            );
        }
        is_exact &= counts.expected > 0 && counts.is_exact() && refused == 0.0 && stored.conflicts == 0;
        is_exact &= (acknowledged - stored.read as f64).abs() < 0.5;
    }
    println!("each sample once in each receiver: {}", if is_exact { "met" } else { "MISSED" });
    Ok(is_exact)
}
