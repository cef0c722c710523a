//! How many cells of MPI operations a second `throughline serve` commits, beside another build of it: the builds run in turn, each with
//! an empty private TimescaleDB, and are fed the same batches over gRPC by many nodes at once. Prints cells a second and
//! the processor time of server and database for each, in a run of 20 s or more also the fewest of ten seconds, and with two
//! builds the ratio of the medians. Ends with status 2 where a row is missing, or where the second build is slower than the first by
//! more than the goal.
#![allow(clippy::cast_precision_loss)] // figures for people

use anyhow::{Context, ensure};
use clap::Parser;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use throughline_benches::server::Server;
use throughline_delivery::{GrpcSink, OnRefusal, Sink};
use throughline_sample::Message;
use throughline_sample::wire::{Batch, Job, JobRank, MpiOpCell, MpiRankBin, NodeInfo};
use throughline_spool::{Class, Entry};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Goal: the second build takes at most so many times the first one's time for a row.
const RATIO_GOAL: f64 = 1.05;

/// Entries of one node that wait for their acknowledgement, as an agent has them.
const WINDOW: usize = 16;

/// Of so many seconds each they are counted, to find the fewest.
const PART: Duration = Duration::from_secs(10);

/// Longest wait for the cells of a run that are on their way at its end.
const DRAIN: Duration = Duration::from_secs(60);

/// Measures how many cells of MPI operations a second a server commits.
#[derive(Debug, Parser)]
struct Options {
    /// A program `throughline`, built with --release; twice to compare two builds
    #[arg(long = "throughline", default_value = "target/release/throughline")]
    programs: Vec<PathBuf>,
    /// Nodes that send at once
    #[arg(long, default_value_t = 64)]
    nodes: u32,
    /// Ranks of each node
    #[arg(long, default_value_t = 16)]
    ranks: u32,
    /// Cells of a rank in a batch
    #[arg(long, default_value_t = 20)]
    cells: u64,
    /// Seconds of a run
    #[arg(long, default_value_t = 15)]
    seconds: u64,
    /// Runs of each build
    #[arg(long, default_value_t = 3)]
    runs: u32,
}

/// Figures of one run.
#[derive(Clone, Copy)]
struct Run {
    cells_per_second: f64,
    /// The fewest of [`PART`], in a run that has several.
    least_cells_per_second: Option<f64>,
    server_microseconds_per_cell: f64,
    database_microseconds_per_cell: f64,
    server_bytes: u64,
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse();
    println!(
        "{} nodes of {} ranks, {} cells a rank and batch, {} s a run, in turn",
        options.nodes, options.ranks, options.cells, options.seconds
    );
    let mut all = vec![Vec::new(); options.programs.len()];
    for _ in 0..options.runs {
        for (runs, program) in all.iter_mut().zip(&options.programs) {
            let run = measure(&options, program).await?;
            let least = run.least_cells_per_second;
            let least = least.map_or(String::new(), |least| format!("at least {least:.0} in ten seconds, "));
            println!(
                "  {:>9.0} cells/s, {least}server {:.2} µs, database {:.2} µs of processor a cell, server at most {:.0} MiB  {}",
                run.cells_per_second,
                run.server_microseconds_per_cell,
                run.database_microseconds_per_cell,
                run.server_bytes as f64 / 1_048_576.0,
                program.display()
            );
            runs.push(run);
        }
    }
    let [first, second] = all.as_slice() else { return Ok(ExitCode::SUCCESS) };
    let rate = median(first, |run| run.cells_per_second) / median(second, |run| run.cells_per_second);
    let processor = |run: &Run| run.server_microseconds_per_cell + run.database_microseconds_per_cell;
    let processor = median(second, processor) / median(first, processor);
    let is_met = rate <= RATIO_GOAL;
    println!(
        "second against first: time a cell {rate:.3}, processor a cell {processor:.3} (goal: at most {RATIO_GOAL}) {}",
        if is_met { "met" } else { "MISSED" }
    );
    Ok(if is_met { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

fn median(runs: &[Run], figure: impl Fn(&Run) -> f64) -> f64 {
    let mut figures: Vec<f64> = runs.iter().map(figure).collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

async fn measure(options: &Options, program: &Path) -> anyhow::Result<Run> {
    let folder = tempfile::tempdir()?;
    // The database's user must reach its folder.
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let server = Server::start(program, folder.path(), "")?;
    let stop = CancellationToken::new();
    let url = format!("http://{}", server.collect);
    let mut senders = tokio::task::JoinSet::new();
    let (begin, before) = (Instant::now(), server.processor()?);
    let committed = Arc::new(AtomicU64::new(0));
    for node in 0..options.nodes {
        let sender =
            send(url.clone(), node, options.ranks, options.cells, stop.clone(), Arc::clone(&committed));
        senders.spawn(sender);
    }
    let least_cells_per_second = least_of_parts(Duration::from_secs(options.seconds), &committed).await;
    stop.cancel();
    let mut cells = 0;
    while let Some(sent) = senders.join_next().await {
        cells += sent??;
    }
    let (elapsed, after) = (begin.elapsed().as_secs_f64(), server.processor()?);
    // Acknowledged means committed; the figure has the server's rows about itself in addition.
    let written = server.figure("throughline_rows_written_total")?;
    // A rank's cells are a row.
    let rows = cells / options.cells;
    ensure!(written >= rows as f64, "{rows} rows were acknowledged and only {written} written");
    let microseconds = |before: f64, after: f64| (after - before) * 1e6 / cells as f64;
    Ok(Run {
        cells_per_second: cells as f64 / elapsed,
        least_cells_per_second,
        server_microseconds_per_cell: microseconds(before.0, after.0),
        database_microseconds_per_cell: microseconds(before.1, after.1),
        server_bytes: server.highest_bytes()?,
    })
}

/// Waits for `run`; the fewest cells a second that were committed in [`PART`], if that is less than half of it.
async fn least_of_parts(run: Duration, committed: &AtomicU64) -> Option<f64> {
    let (mut least, mut before, begin) = (None::<f64>, 0, tokio::time::Instant::now());
    let mut part = begin;
    while run >= 2 * PART && begin.elapsed() + PART <= run {
        tokio::time::sleep_until(part + PART).await;
        let (now, cells) = (tokio::time::Instant::now(), committed.load(Ordering::Relaxed));
        let rate = (cells - before) as f64 / (now - part).as_secs_f64();
        least = Some(least.map_or(rate, |least| least.min(rate)));
        (part, before) = (now, cells);
    }
    tokio::time::sleep_until(begin + run).await;
    least
}

/// One node: batches as fast as they are acknowledged, until `stop`. Returns the cells that were.
async fn send(
    url: String,
    node: u32,
    ranks: u32,
    cells: u64,
    stop: CancellationToken,
    committed: Arc<AtomicU64>,
) -> anyhow::Result<u64> {
    let sink = GrpcSink::new(&url)?;
    let mut session = sink.connect(OnRefusal::End).await?;
    let (spool_id, mut sent, mut acknowledged) = (Uuid::new_v4(), 0_u64, 0_u64);
    loop {
        while sent - acknowledged < WINDOW as u64 && !stop.is_cancelled() {
            sent += 1;
            let payload = batch(node, ranks, cells, sent)?.encode_to_vec().into();
            let entry =
                Entry { spool_id, sequence: sent, class: Class::Cumulative(0), appended_ns: 0, payload };
            session.entries.send(entry).await.context("the stream ended")?;
        }
        if sent == acknowledged {
            // The first batch is inventory only.
            return Ok((acknowledged - 1) * u64::from(ranks) * cells);
        }
        let ack = tokio::time::timeout(DRAIN, session.next_ack()).await.context("no acknowledgement")?;
        let before = std::mem::replace(&mut acknowledged, ack.context("the stream ended")??.sequence);
        let batches = acknowledged.saturating_sub(before.max(1));
        committed.fetch_add(batches * u64::from(ranks) * cells, Ordering::Relaxed);
    }
}

/// The first batch introduces the node and its ranks, each further one has a bin of each rank.
fn batch(node: u32, ranks: u32, cells: u64, sequence: u64) -> anyhow::Result<Batch> {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_REALTIME)?;
    let time = time.tv_sec() * 1_000_000_000 + time.tv_nsec();
    let name = format!("n{node}");
    let (job_key, start) = (format!("slurm:{}.0@1000", node / 4), 1_700_000_000_000_000_000);
    let mut batch =
        Batch { node: name.clone(), boot_id: "bench".into(), order: sequence, ..Batch::default() };
    let first = node % 4 * ranks;
    if sequence == 1 {
        batch.nodes.push(NodeInfo { name: name.clone(), boot_id: "bench".into(), ..NodeInfo::default() });
        batch.jobs.push(Job {
            key: job_key.clone(),
            scheduler: "slurm".into(),
            native_id: (node / 4).to_string(),
            uid: 1000,
            user: "alice".into(),
            start: time,
            world_size: ranks * 4,
            evidence: "cgroup".into(),
            ..Job::default()
        });
        batch.job_ranks.extend((first..first + ranks).map(|rank| JobRank {
            job_key: job_key.clone(),
            rank,
            pid: 1000 + rank,
            world_size: ranks * 4,
            mpi_library: "Open MPI v4.1.4".into(),
            start: time,
            host: name.clone(),
            ..JobRank::default()
        }));
        return Ok(batch);
    }
    batch.mpi_ops.extend((first..first + ranks).map(|rank| MpiRankBin {
        time,
        epoch: start,
        job_key: job_key.clone(),
        rank,
        source: "pmpi".into(),
        cells: (0..cells).map(|cell| op_cell(cell, sequence)).collect(),
    }));
    Ok(batch)
}

fn op_cell(cell: u64, sequence: u64) -> MpiOpCell {
    let operation = ["allreduce", "isend", "irecv", "waitall"][usize::try_from(cell % 4).unwrap_or(0)];
    MpiOpCell {
        operation: operation.into(),
        size_class_bytes: 64 << (cell / 4 % 12),
        calls: sequence * 100,
        bytes: sequence * 819_200,
        elapsed_nanoseconds: sequence * 1_000_000,
        longest_nanoseconds: 50_000,
        algorithm_source: "unknown".into(),
        ..MpiOpCell::default()
    }
}
