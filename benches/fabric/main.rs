//! The fabric crawler against the standard tools, on the same simulator, in one run, turn by turn.
//!
//! Prints medians and ratios, and agreement of routes with `ibtracert`. Ends with status 2 where a ratio misses
//! its goal. The crawler runs in a process of its own (this program again, as `client`), because the simulator
//! is preloaded into it.

mod client;
mod commit;
mod measure;
mod routes;

use anyhow::Context;
use clap::{Parser, Subcommand};
use measure::{Cost, Medians};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use throughline_fabric::sim::{SimFabric, SimOptions, SimTools};
use throughline_fabric::topology::FatTree;

/// Sweeps must be this many times faster than `ibqueryerrors` with a cached topology.
const SWEEP_GOAL: f64 = 2.0;
/// Discovery with tables must be this many times as fast as `ibnetdiscover` and `dump_fts`.
const DISCOVERY_GOAL: f64 = 1.0;
/// A check found something.
const FOUND: u8 = 2;

/// Measures the fabric crawler against infiniband-diags on a simulated fabric
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
    #[command(subcommand)]
    role: Option<Role>,
}

#[derive(Subcommand)]
enum Role {
    /// The measured process: does what its standard input says
    #[command(hide = true)]
    Client,
}

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    match cli.role {
        Some(Role::Client) => client::run().map(|()| ExitCode::SUCCESS),
        None => bench(&cli),
    }
}

fn tree_of(hosts: usize) -> anyhow::Result<FatTree> {
    let known = [FatTree::HOSTS_146, FatTree::HOSTS_1428, FatTree::HOSTS_8008];
    known.into_iter().find(|tree| tree.hosts == hosts).context("--hosts is 146, 1428 or 8008")
}

fn bench(cli: &Cli) -> anyhow::Result<ExitCode> {
    let tree = tree_of(cli.hosts)?;
    let prefix = throughline_prefix::ensure(throughline_prefix::Set::Fabric)?;
    let tools = SimTools::at(prefix.root())?;
    let folder = tempfile::tempdir()?;
    let options = SimOptions { manager_sweep_seconds: 0, ..SimOptions::default() };
    let mut fabric = SimFabric::start(&tools, folder.path(), &tree.to_net()?, &options)?;
    let host = FatTree::host_id(0);
    println!(
        "{} hosts, {} switches; medians of {} runs, turn by turn",
        tree.hosts,
        tree.switches(),
        cli.runs
    );

    let sweep = sweeps(&fabric, &host, cli.runs)?;
    let discovery = discoveries(&fabric, &host, cli.runs)?;
    let mut is_met = report("steady sweep, JSON lines", &sweep, "ibqueryerrors", SWEEP_GOAL);
    is_met &= report("discovery + tables", &discovery, "ibnetdiscover, dump_fts", DISCOVERY_GOAL);
    if cli.pairs > 0 {
        is_met &= routes::compare(&fabric, &host, cli.pairs)?;
    }
    if cli.commits > 0 {
        commit::measure(&mut fabric, &host, folder.path(), cli.commits)?;
    }
    Ok(if is_met { ExitCode::SUCCESS } else { ExitCode::from(FOUND) })
}

/// Ours and theirs, turn by turn.
struct Pair {
    ours: Medians,
    theirs: Medians,
}

fn report(what: &str, pair: &Pair, other: &str, goal: f64) -> bool {
    let (wall, cpu) = (pair.theirs.wall / pair.ours.wall, pair.theirs.cpu / pair.ours.cpu);
    println!("{what}: {} s wall, {} s CPU", seconds(pair.ours.wall), seconds(pair.ours.cpu));
    println!("  {other}: {} s wall, {} s CPU", seconds(pair.theirs.wall), seconds(pair.theirs.cpu));
    let verdict = if wall >= goal { "met" } else { "MISSED" };
    println!("  ratio: {wall:.2} wall, {cpu:.2} CPU (goal {goal:.1} wall: {verdict})");
    wall >= goal
}

fn seconds(value: f64) -> String {
    format!("{value:.4}")
}

/// Steady sweeps from a cached topology, printed as JSON lines to /dev/null.
fn sweeps(fabric: &SimFabric, host: &str, runs: usize) -> anyhow::Result<Pair> {
    let cache = fabric.folder().join("topology.cache");
    let mut save = fabric.tool("ibnetdiscover", Some(host))?;
    save.arg("--cache").arg(&cache).stdout(Stdio::null()).stderr(Stdio::null());
    anyhow::ensure!(save.status()?.success(), "ibnetdiscover --cache");
    let mut client = client::Client::start(fabric, host)?;
    println!("{} ports with a link", client.ask("ports")?.count);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    // One of each to warm up.
    for run in 0..=runs {
        let mine = client.ask("sweep")?;
        let mut command = fabric.tool("ibqueryerrors", Some(host))?;
        command.args(["--counters", "--data", "--load-cache"]).arg(&cache);
        let other = measure::process(&mut command, &[0, 1])?;
        if run > 0 {
            ours.push(mine.cost);
            theirs.push(other);
        }
    }
    let quiet: Vec<Cost> =
        (0..runs).map(|_| client.ask("quiet").map(|done| done.cost)).collect::<Result<_, _>>()?;
    let quiet = Medians::of(&quiet);
    println!("  without output: {} s wall, {} s CPU", seconds(quiet.wall), seconds(quiet.cpu));
    Ok(Pair { ours: Medians::of(&ours), theirs: Medians::of(&theirs) })
}

/// Whole processes: discovery with all forwarding tables.
fn discoveries(fabric: &SimFabric, host: &str, runs: usize) -> anyhow::Result<Pair> {
    let crawler = beside("throughline-fabric")?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for run in 0..=runs {
        let mut command = fabric.client(&crawler, Some(host))?;
        let mine = measure::process(command.args(["discover", "--tables", "--json"]), &[0])?;
        let first = measure::process(&mut fabric.tool("ibnetdiscover", Some(host))?, &[0])?;
        let second = measure::process(&mut fabric.tool("dump_fts", Some(host))?, &[0])?;
        if run > 0 {
            ours.push(mine);
            theirs.push(Cost { wall: first.wall + second.wall, cpu: first.cpu + second.cpu });
        }
    }
    Ok(Pair { ours: Medians::of(&ours), theirs: Medians::of(&theirs) })
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
