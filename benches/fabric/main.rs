//! The fabric crawler against the standard tools on ibsim, and against what latency allows on the simulated
//! fabric, in one run, turn by turn.
//!
//! Prints a table with each goal, and ends with status 2 where one is missed. The crawler runs in a process of
//! its own (this program again, as `client`), because the simulator is preloaded into it.

mod client;
mod daemon;
mod ibsim;
mod large;
mod measure;
mod raw;
mod routes;
mod simulated;
mod soak;
mod table;

use anyhow::Context;
use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;
use table::Table;
use throughline_infiniband::topology::FatTree;
use throughline_simfabric::ibsim::{SimFabric, SimOptions, SimTools};

/// A check found something.
const FOUND: u8 = 2;

/// Measures the fabric crawler against infiniband-diags on ibsim, and on the simulated fabric
#[derive(Parser)]
#[command(name = "bench-fabric")]
struct Cli {
    /// Hosts of the fat tree: 146, 1428 or 8008
    #[arg(long, default_value_t = 1428)]
    hosts: usize,
    /// Runs of each measurement
    #[arg(long, default_value_t = 11)]
    runs: usize,
    /// Pairs whose routes are compared with ibtracert
    #[arg(long, default_value_t = 200)]
    pairs: usize,
    /// Sweeps whose way to the database is timed; 0 leaves it out
    #[arg(long, default_value_t = 30)]
    commits: usize,
    /// Only one part
    #[command(subcommand)]
    part: Option<Part>,
}

#[derive(Subcommand)]
enum Part {
    /// Against the standard tools and a raw pipeline, on ibsim
    Ibsim,
    /// On the simulated fabric, which has latency, loss and dead nodes
    Simulated {
        /// Microseconds from request to reply, without service
        #[arg(long, default_value_t = 100.0)]
        round_trip: f64,
        /// Microseconds that a node takes for one MAD
        #[arg(long, default_value_t = 20.0)]
        service: f64,
        /// Requests outstanding
        #[arg(long, default_value_t = throughline_crawler::engine::DEFAULT_WINDOW)]
        window: usize,
    },
    /// 8,008 hosts on ibsim: times and memory
    Large,
    /// 4 sweeps a second with rows committed, for minutes
    Soak {
        /// How long
        #[arg(long, default_value_t = 10.0)]
        minutes: f64,
    },
    /// The measured process: does what its standard input says
    #[command(hide = true)]
    Client(client::ClientOptions),
}

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    let is_met = match &cli.part {
        Some(Part::Client(options)) => return client::run(options).map(|()| ExitCode::SUCCESS),
        Some(Part::Ibsim) => on_ibsim(&cli, true)?,
        Some(Part::Simulated { round_trip, service, window }) => {
            on_simulated(&cli, *round_trip, *service, *window)?
        }
        Some(Part::Large) => large(&cli)?,
        Some(Part::Soak { minutes }) => soak(&cli, *minutes)?,
        None => {
            let ibsim = on_ibsim(&cli, false)?;
            on_simulated(&cli, 100.0, 20.0, throughline_crawler::engine::DEFAULT_WINDOW)? && ibsim
        }
    };
    Ok(if is_met { ExitCode::SUCCESS } else { ExitCode::from(FOUND) })
}

fn tree_of(hosts: usize) -> anyhow::Result<FatTree> {
    let known = [FatTree::HOSTS_146, FatTree::HOSTS_1428, FatTree::HOSTS_8008];
    known.into_iter().find(|tree| tree.hosts == hosts).context("--hosts is 146, 1428 or 8008")
}

/// A fat tree on ibsim.
fn start(hosts: usize, folder: &Path) -> anyhow::Result<(SimFabric, String)> {
    let tree = tree_of(hosts)?;
    let prefix = throughline_prefix::ensure(throughline_prefix::Set::Fabric)?;
    let tools = SimTools::at(prefix.root())?;
    let options = SimOptions { manager_sweep_seconds: 0, ..SimOptions::default() };
    println!("{} hosts, {} switches on ibsim", tree.hosts, tree.switches());
    Ok((SimFabric::start(&tools, folder, &tree.to_net()?, &options)?, FatTree::host_id(0)))
}

fn on_ibsim(cli: &Cli, is_only: bool) -> anyhow::Result<bool> {
    let folder = tempfile::tempdir()?;
    let (fabric, host) = start(cli.hosts, folder.path())?;
    let mut table = Table::new(&format!("on ibsim; medians of {} runs, turn by turn", cli.runs));
    ibsim::measure(&fabric, &host, cli.runs, &mut table)?;
    if cli.pairs > 0 && !is_only {
        table.holds("routes agree with ibtracert", routes::compare(&fabric, &host, cli.pairs)?);
    }
    if cli.commits > 0 && !is_only {
        soak::commits(&fabric, &host, folder.path(), cli.commits, &mut table)?;
    }
    Ok(table.is_met())
}

fn on_simulated(cli: &Cli, round_trip_us: f64, service_us: f64, window: usize) -> anyhow::Result<bool> {
    let folder = tempfile::tempdir()?;
    let setup = simulated::Setup { hosts: cli.hosts, round_trip_us, service_us, window };
    let mut table = Table::new(&format!("on the simulated fabric; medians of {} runs", cli.runs));
    simulated::measure(&setup, folder.path(), cli.runs, &mut table)?;
    Ok(table.is_met())
}

fn large(cli: &Cli) -> anyhow::Result<bool> {
    let folder = tempfile::tempdir()?;
    let (fabric, host) = start(FatTree::HOSTS_8008.hosts, folder.path())?;
    let mut table = Table::new(&format!("8,008 hosts; medians of {} runs", cli.runs));
    large::measure(&fabric, &host, cli.runs, &mut table)?;
    Ok(table.is_met())
}

fn soak(cli: &Cli, minutes: f64) -> anyhow::Result<bool> {
    let folder = tempfile::tempdir()?;
    let (fabric, host) = start(cli.hosts, folder.path())?;
    let mut table = Table::new(&format!("4 sweeps a second, {minutes} minutes"));
    soak::soak(&fabric, &host, folder.path(), Duration::from_secs_f64(minutes * 60.0), &mut table)?;
    Ok(table.is_met())
}

/// A program built into the same folder as this one.
fn beside(name: &str) -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let program = own.parent().unwrap_or(Path::new(".")).join(name);
    anyhow::ensure!(program.exists(), "{} is not there: build it with the same profile", program.display());
    Ok(program)
}

/// A command of this program itself.
fn own(fabric: &SimFabric, host: &str) -> anyhow::Result<Command> {
    Ok(fabric.client(std::env::current_exe()?, Some(host))?)
}
