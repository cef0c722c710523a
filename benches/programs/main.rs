//! Real programs, unmodified, with the MPI shim and without, turn by turn: the same output but for timing, the same
//! status, and what it costs.
//!
//! Prints a table with each goal, and ends with status 2 where one is missed. What is not installed is named with the
//! command that gets it, and left out. Must not install anything.

mod catalogue;
#[path = "../fabric/table.rs"]
#[allow(dead_code)] // the fabric's bench has other kinds of rows, too
mod table;

use anyhow::{Context, ensure};
use catalogue::{Mpi, Program};
use clap::Parser;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};
use std::sync::Arc;
use std::time::Instant;
use table::{Goal, Table};
use throughline_mpit_bridge::{Config, Receiver};

/// A check found something.
const FOUND: u8 = 2;
/// Time with the shim against without.
const GOAL: f64 = 1.01;

/// Runs netpipe, lammps, hpcc, mpi4py's benchmarks and an OSU-style set with the MPI shim and without it
#[derive(Parser)]
#[command(name = "bench-mpi-programs")]
struct Cli {
    /// Rounds; each runs every program twice without and twice with the shim
    #[arg(long, default_value_t = 9)]
    runs: usize,
    /// How long each run is: 1 is a second or two, which MPI's own start and end have a large part in
    #[arg(long, default_value_t = 4)]
    scale: u32,
    /// Ranks of each program
    #[arg(long, default_value_t = 2)]
    ranks: u32,
    /// Only programs whose name contains this
    #[arg(long)]
    only: Option<String>,
    /// Only this library
    #[arg(long)]
    mpi: Option<Mpi>,
}

/// What all runs have in common.
struct Bench {
    folder: PathBuf,
    exec: PathBuf,
    socket: PathBuf,
    ranks: u32,
}

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    let folder = tempfile::tempdir()?;
    let bench = Bench {
        folder: folder.path().to_owned(),
        exec: beside("throughline-exec")?,
        socket: folder.path().join("mpi.sock"),
        ranks: cli.ranks,
    };
    for mpi in [Mpi::Openmpi, Mpi::Mpich] {
        compile(mpi, folder.path()).unwrap_or_else(|error| println!("left out: OSU-style set: {error:#}"));
    }
    // What MPICH's ABI calls its library, for programs of other builds.
    let _ = std::os::unix::fs::symlink(
        "/usr/lib/x86_64-linux-gnu/libmpich.so.12",
        folder.path().join("libmpi.so.12"),
    );
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let receiver = runtime.block_on(start_receiver(&bench.socket))?;

    let mut table = Table::new(&format!(
        "seconds of whole programs, {} ranks; medians of {} runs with the shim and as many without, turn by turn",
        cli.ranks,
        cli.runs * 2
    ));
    for program in catalogue::all(cli.scale, folder.path()) {
        let is_wanted = cli.only.as_ref().is_none_or(|part| program.name.contains(part.as_str()));
        if is_wanted && cli.mpi.is_none_or(|mpi| mpi == program.mpi) {
            one(&bench, &program, cli.runs, &mut table)?;
        }
    }
    let status = receiver.status();
    table.holds(
        "the shim's frames arrived, none was lost or malformed",
        status.frames > 0 && status.lost_frames == 0 && status.malformed_messages() == 0,
    );
    runtime.block_on(receiver.stop());
    Ok(if table.is_met() { ExitCode::SUCCESS } else { ExitCode::from(FOUND) })
}

/// The agent's part that ranks talk to; what it makes of their frames is let go.
async fn start_receiver(socket: &Path) -> anyhow::Result<Receiver> {
    let (sender, mut records) = tokio::sync::mpsc::channel(64);
    let config = Config { socket: socket.to_owned(), node: "bench".into(), ..Config::default() };
    let receiver = Receiver::start(config, Arc::new(|time| time), sender)?;
    tokio::spawn(async move { while records.recv().await.is_some() {} });
    Ok(receiver)
}

fn compile(mpi: Mpi, folder: &Path) -> anyhow::Result<()> {
    let compiler = format!("mpicc.{}", mpi.name());
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/osu.c");
    let mut command = Command::new(&compiler);
    command
        .args(["-O2", "-Wall", "-Wextra", "-o"])
        .arg(folder.join(format!("osu.{}", mpi.name())))
        .arg(source);
    let status = command.status().with_context(|| format!("{compiler} is not there: make deps"))?;
    ensure!(status.success(), "{compiler}: {status}");
    Ok(())
}

/// Rounds of one program, its line of the table, and the noise below it.
fn one(bench: &Bench, program: &Program, runs: usize, table: &mut Table) -> anyhow::Result<()> {
    let title = format!("{}, {}", program.name, program.mpi.name());
    let word = program.command.first().map_or("", String::as_str);
    let launcher = format!("mpirun.{}", program.mpi.name());
    if catalogue::find(word).is_none() || catalogue::find(&launcher).is_none() {
        println!("  {title}: left out, {word} is not there: {}", program.remedy);
        return Ok(());
    }
    let mut without = [Vec::new(), Vec::new()];
    let mut with = Vec::new();
    let (mut is_same, mut expected) = (true, None);
    for round in 0..=runs {
        // The order turns, so that nobody has the better place.
        for turn in 0..4 {
            let place = (turn + round) % 4;
            let is_with = place % 2 == 1;
            let (seconds, shown) = run(bench, program, is_with)?;
            let first = expected.get_or_insert_with(|| shown.clone());
            if *first != shown {
                println!(
                    "  {title}: {} the shim, {}",
                    if is_with { "with" } else { "without" },
                    difference(first, &shown)
                );
                is_same = false;
            }
            // The first round warms up.
            match (round, is_with) {
                (0, _) => {}
                (_, true) => with.push(seconds),
                (_, false) => without[place / 2].push(seconds),
            }
        }
    }
    let (lines, status) = expected.unwrap_or_default();
    if status != Some(0) {
        println!("  {title}: left out, it fails without the shim as well ({status:?})");
        return Ok(());
    }
    let noise = median(&without[0]) / median(&without[1]);
    let without = median(&without.concat());
    // A program that only starts and ends shows what that costs, which no ratio to itself tells.
    let goal = if program.only_starts { Goal::None } else { Goal::Most(GOAL) };
    table.ratio(&title, median(&with), without, goal);
    println!("    without against without: {noise:.3}; added: {:+.4} s", median(&with) - without);
    table.holds(&format!("    same output ({} lines) and status", lines.len()), is_same && !lines.is_empty());
    Ok(())
}

/// What must be the same: lines kept, and the status.
type Shown = (Vec<String>, Option<i32>);

fn run(bench: &Bench, program: &Program, is_with: bool) -> anyhow::Result<(f64, Shown)> {
    for (name, text) in &program.files {
        std::fs::write(bench.folder.join(name), text)?;
    }
    if let Some(name) = program.result {
        // Programs append to it.
        let _ = std::fs::remove_file(bench.folder.join(name));
    }
    let launcher = format!("mpirun.{}", program.mpi.name());
    let mut command = Command::new(&launcher);
    command.current_dir(&bench.folder).env_remove("LD_PRELOAD").args(["-n", &bench.ranks.to_string()]);
    command.envs(program.variables.iter().map(|(name, value)| (*name, value)));
    if program.mpi == Mpi::Openmpi {
        command.args(["--oversubscribe", "--mca", "btl", "self,vader"]);
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    }
    if is_with {
        command.env("THROUGHLINE_SOCKET", &bench.socket).arg(&bench.exec);
    }
    let begin = Instant::now();
    let output: Output =
        command.args(&program.command).output().with_context(|| format!("{launcher} cannot run"))?;
    let seconds = begin.elapsed().as_secs_f64();
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text += &String::from_utf8_lossy(&output.stderr);
    if let Some(name) = program.result {
        text += &std::fs::read_to_string(bench.folder.join(name)).unwrap_or_default();
    }
    let mut lines: Vec<_> = text.lines().filter_map(program.kept).collect();
    lines.sort(); // ranks print in any order
    Ok((seconds, (lines, output.status.code())))
}

fn difference(first: &Shown, other: &Shown) -> String {
    if first.1 != other.1 {
        return format!("status {:?} instead of {:?}", other.1, first.1);
    }
    let here = other.0.iter().find(|line| !first.0.contains(line));
    let there = first.0.iter().find(|line| !other.0.contains(line));
    format!("{:?} instead of {:?}", here.or(other.0.first()), there.or(first.0.first()))
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A program built into the same folder as this one.
fn beside(name: &str) -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let program = own.parent().unwrap_or(Path::new(".")).join(name);
    ensure!(program.exists(), "{} is not there: benches/mpi-programs.sh builds it", program.display());
    Ok(program)
}
