//! Detail on demand of a busy node: how long after the request its last minutes are in the database, and whether they are what
//! its recorder has. A real agent with ranks that push, a real server, a private TimescaleDB.
//!
//! The ring is filled by the recorder's own code before the agent starts, with the records of the time that is requested: cells of
//! each rank each 100 ms, ports and GPUs each second. The agent answers from it while ranks push on; what it sends of them is not
//! to wait. Ends with status 2 where it takes longer than the goal, differs from the ring, or takes too much memory.
#![allow(clippy::cast_precision_loss)] // figures for people

mod agent;
mod exact;
mod ring;

use agent::Agent;
use anyhow::{Context, ensure};
use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use throughline_api::detail::DetailRequested;
use throughline_benches::psql::Psql;
use throughline_benches::ranks::{Load, connect_all, push};
use throughline_benches::server::Server;
use throughline_benches::site::now;
use throughline_client::Settings;

/// From the request until its last record is in the database.
const GOAL: Duration = Duration::from_secs(5);
/// Resident memory of the agent.
const MEMORY_GOAL: u64 = 30 << 20;
/// Oldest entry in the agent's spool: a batch is made each second.
const WAIT_GOAL: Duration = Duration::from_millis(1500);
/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(120);

/// Measures detail on demand of one busy node.
#[derive(Debug, Parser)]
struct Options {
    /// The agent's program
    #[arg(long, default_value = "target/release/throughline-agent")]
    agent: PathBuf,
    /// The program `throughline`
    #[arg(long, default_value = "target/release/throughline")]
    throughline: PathBuf,
    /// Seconds that are requested
    #[arg(long, default_value_t = 600)]
    seconds: u32,
    /// Ranks of the node
    #[arg(long, default_value_t = 32)]
    ranks: u32,
    /// Cells of a rank that change each 100 ms
    #[arg(long, default_value_t = 7)]
    cells: usize,
    /// Times that it is requested; the rows of each are removed before the next
    #[arg(long, default_value_t = 3)]
    runs: u32,
}

fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse();
    let folder = tempfile::tempdir()?;
    // The database's user must reach its folder.
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let server = Server::start(&options.throughline, folder.path(), "")?;
    let psql = Psql::new(&options.throughline, folder.path())?;
    let state = folder.path().join("agent");
    let epoch = now()? - i64::from(options.seconds + 60) * 1_000_000_000;

    // What the job is called, and where the ring is.
    let load = Load { ranks: options.ranks, cells: options.cells as u64 * 10, peers: 4 };
    let agent = Agent::start(&options.agent, &state, &server.collect.to_string())?;
    let mut ranks = connect_all(load, &state.join("run/mpi.sock"), epoch)?;
    let mut round = 0;
    push(load, &mut ranks, &mut round, 2)?;
    let known = format!(
        "SELECT count(*) FROM internal.job_rank WHERE pid IS NOT NULL HAVING count(*) = {}",
        options.ranks
    );
    until("the ranks in the database", || Ok(!psql.query(&known)?.is_empty()))?;
    let key = psql
        .query("SELECT key FROM internal.run")?
        .first()
        .and_then(|row| row.first())
        .context("the job")?
        .clone();
    drop(ranks);
    agent.stop()?;
    psql.query(&format!(
        "UPDATE internal.run SET start_time = to_timestamp({}), end_time = NULL",
        epoch / 1_000_000_000
    ))?;

    let place = state.join("recorder");
    std::fs::remove_dir_all(&place)?;
    let begin = now()? - i64::from(options.seconds + 5) * 1_000_000_000;
    let filled = ring::fill(&place, &key, epoch, begin, &options)?;
    println!(
        "{} ranks of {} cells each 100 ms, 1 port, 8 GPUs of 18 links, {} s: {filled}",
        options.ranks, options.cells, options.seconds
    );

    let agent = Agent::start(&options.agent, &state, &server.collect.to_string())?;
    let ranks = connect_all(load, &state.join("run/mpi.sock"), epoch)?;
    let stop = Arc::new(AtomicBool::new(false));
    let pusher = {
        let (stop, mut ranks) = (stop.clone(), ranks);
        std::thread::spawn(move || -> anyhow::Result<()> {
            while !stop.load(Relaxed) {
                push(load, &mut ranks, &mut round, 1)?;
            }
            Ok(())
        })
    };
    std::thread::sleep(Duration::from_secs(4));
    let mut is_met = true;
    for run in 1..=options.runs {
        is_met &= once(&options, &server, &agent, &psql, &key, &place, run)?;
        for table in exact::TABLES {
            psql.query(&format!("TRUNCATE {table}"))?;
        }
        psql.query("DELETE FROM internal.detail_request")?;
    }
    stop.store(true, Relaxed);
    pusher.join().map_err(|_| anyhow::anyhow!("the thread of ranks panicked"))??;
    println!("{}", if is_met { "goals met" } else { "GOAL MISSED" });
    Ok(if is_met { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

/// Waits until something is so.
fn until(what: &str, is_so: impl Fn() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    let begin = Instant::now();
    while !is_so()? {
        ensure!(begin.elapsed() < PATIENCE, "{what}: not after {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// Requests all of the node's detail, of its job and of its devices.
fn once(
    options: &Options,
    server: &Server,
    agent: &Agent,
    psql: &Psql,
    key: &str,
    place: &std::path::Path,
    run: u32,
) -> anyhow::Result<bool> {
    let processor = || -> anyhow::Result<[f64; 3]> {
        let (of_server, of_database) = server.processor()?;
        Ok([agent.processor()?, of_server, of_database])
    };
    let (before, begin) = (processor()?, Instant::now());
    let seconds = options.seconds.to_string();
    let last = [("last_seconds", seconds.as_str())];
    let api = throughline_client::Server::new(Settings {
        server: format!("http://{}", server.query),
        token: None,
        token_source: None,
        ca_file: None,
    })?;
    for of in [["jobs", key, "detail"], ["nodes", "bench", "detail"]] {
        api.post::<DetailRequested>(&of, &last)?;
    }
    let open =
        "SELECT count(*) FROM internal.detail_request_node WHERE state IN ('waiting', 'sent', 'receiving')";
    let mut longest_wait = Duration::ZERO;
    let mut resident = 0;
    while psql.number(open)? > 0.0 {
        ensure!(begin.elapsed() < PATIENCE, "not finished after {PATIENCE:?}");
        longest_wait = longest_wait.max(agent.oldest_entry()?);
        resident = agent.resident()?.max(resident);
        std::thread::sleep(Duration::from_millis(50));
    }
    let after = processor()?;
    let done = psql.query(
        "SELECT r.id, state, records, coalesce(remark, ''), round(extract(epoch FROM sent_at - requested_at), 2),
                round(extract(epoch FROM done_at - requested_at), 2)
         FROM internal.detail_request r JOIN internal.detail_request_node n ON n.request_id = r.id ORDER BY 1",
    )?;
    let mut elapsed: f64 = 0.0;
    for row in &done {
        println!("  run {run}: request {}", row.join(", "));
        elapsed = elapsed.max(row.last().context("a time")?.parse()?);
    }
    let is_exact = exact::compare(psql, place, key)?;
    exact::sizes(psql)?;
    let [agents, servers, databases] = std::array::from_fn(|at| after[at] - before[at]);
    println!("  in the database after      {elapsed:>8.2} s (goal: {} s)", GOAL.as_secs());
    println!(
        "  processor                  agent {agents:.2} s, server {servers:.2} s, database {databases:.2} s"
    );
    println!(
        "  agent's resident memory    {:>8.1} MB (goal: {} MB)",
        resident as f64 / 1048576.0,
        MEMORY_GOAL >> 20
    );
    println!(
        "  oldest entry in its spool  {:>8.2} s (goal: {} s)",
        longest_wait.as_secs_f64(),
        WAIT_GOAL.as_secs_f64()
    );
    Ok(is_exact && elapsed <= GOAL.as_secs_f64() && resident <= MEMORY_GOAL && longest_wait <= WAIT_GOAL)
}
