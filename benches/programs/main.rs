//! Real programs, unmodified, with the MPI shim and without, turn by turn: the same output but for timing, the same
//! status, and what it costs.
//!
//! Prints a table with each goal, and ends with status 2 where one is missed. What is not installed is named with the
//! command that gets it, and left out. Must not install anything.

mod calls;
mod catalogue;
mod pairs;
mod run;
#[path = "../fabric/table.rs"]
#[allow(dead_code)] // the fabric's bench has other kinds of rows, too
mod table;

use calls::Calls;
use catalogue::{Mpi, Program};
use clap::Parser;
use pairs::{FEWEST, Pairs, WIDEST};
use run::{Bench, Between, Shown};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use table::Table;
use throughline_mpit_bridge::{Config, Receiver};

/// A check found something.
const FOUND: u8 = 2;
/// Time with the shim against without.
const GOAL: f64 = 1.01;
/// Largest work of a program against its work at scale 1: a program that ends at once is no reason to ask for more.
const LARGEST_SCALE: f64 = 64.0;
/// What a call may cost, in seconds: the goal of benches/shim/run.sh for Open MPI.
const CALL_SECONDS: f64 = 40e-9;
/// Ranks push what they have called last before they end; it is here after this long.
const PUSHED: Duration = Duration::from_millis(300);
/// Most pairs of one program, whatever the time.
const MOST_PAIRS: usize = 100;

/// Runs netpipe, lammps, hpcc, mpi4py's benchmarks and an OSU-style set with the MPI shim and without it
#[derive(Parser)]
#[command(name = "bench-mpi-programs")]
struct Cli {
    /// Pairs of runs of each program at least; at least 6, below which nothing can be said
    #[arg(long, default_value_t = FEWEST, value_parser = at_least_fewest)]
    runs: usize,
    /// Minutes for everything: pairs are added to a program that is not decided as long as its part of them lasts
    #[arg(long, default_value_t = 12.0)]
    minutes: f64,
    /// Seconds that each run is to take: work is chosen by a first run. MPI's own start and end have a large part in
    /// short ones
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// Work of each run, in place of --seconds: 1 is a second or two on an idle machine
    #[arg(long)]
    scale: Option<u32>,
    /// Ranks of each program
    #[arg(long, default_value_t = 2)]
    ranks: u32,
    /// Only programs whose name contains this
    #[arg(long)]
    only: Option<String>,
    /// Also run each with wrappers that only count their calls: the least that any tool between program and MPI costs
    #[arg(long)]
    least: bool,
    /// Only this library
    #[arg(long)]
    mpi: Option<Mpi>,
}

fn at_least_fewest(text: &str) -> Result<usize, String> {
    let runs = text.parse().map_err(|error| format!("{error}"))?;
    if runs < FEWEST { Err(format!("{FEWEST} at least")) } else { Ok(runs) }
}

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    let folder = tempfile::tempdir()?;
    let bench = Bench::new(folder.path(), cli.ranks)?;
    if cli.least {
        bench.make_least()?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let calls = Calls::default();
    let receiver = runtime.block_on(start_receiver(bench.socket(), calls.clone()))?;

    let mut table = Table::new(&format!(
        "seconds of whole programs, {} ranks: medians with the shim and without, turn by turn; the ratio of neighbouring \
         runs\nlies between the two numbers with 95 % (sign test); met: that includes {GOAL} or is below, and is no wider \
         than {WIDEST}",
        cli.ranks
    ));
    let wanted: Vec<usize> = (catalogue::all(1, folder.path()).iter().enumerate())
        .filter(|(_, program)| cli.only.as_ref().is_none_or(|part| program.name.contains(part.as_str())))
        .filter(|(_, program)| cli.mpi.is_none_or(|mpi| mpi == program.mpi))
        .map(|(index, _)| index)
        .collect();
    let end = Instant::now() + Duration::from_secs_f64(cli.minutes * 60.0);
    for (done, index) in wanted.iter().enumerate() {
        let left = end.saturating_duration_since(Instant::now());
        let until = Instant::now() + left / u32::try_from(wanted.len() - done)?;
        let at_scale = |scale| catalogue::all(scale, folder.path()).swap_remove(*index);
        if let Some(seconds) = one(&bench, &cli, at_scale, until, &mut table)? {
            let (calls, bound) = calls_of(&calls, seconds);
            println!(
                "    {calls} calls of a rank: at {} ns each {bound:.2} % of the time",
                CALL_SECONDS * 1e9
            );
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

/// Most calls of a rank of a program, and how many percent of its time they may take.
fn calls_of(calls: &Calls, seconds: f64) -> (u64, f64) {
    std::thread::sleep(PUSHED);
    let most = calls.most_of_a_rank();
    (most, most as f64 * CALL_SECONDS / seconds * 100.0)
}

/// The agent's part that ranks talk to; of what it makes of their frames only calls are counted.
async fn start_receiver(socket: &Path, calls: Calls) -> anyhow::Result<Receiver> {
    let (sender, mut records) = tokio::sync::mpsc::channel(64);
    let config = Config { socket: socket.to_owned(), node: "bench".into(), ..Config::default() };
    let receiver = Receiver::start(config, Arc::new(|time| time), sender)?;
    tokio::spawn(async move {
        while let Some(batch) = records.recv().await {
            calls.take(batch);
        }
    });
    Ok(receiver)
}

/// One program's lines of the table; seconds without the shim, if it runs here.
fn one(
    bench: &Bench,
    cli: &Cli,
    at_scale: impl Fn(u32) -> Program,
    until: Instant,
    table: &mut Table,
) -> anyhow::Result<Option<f64>> {
    let small = at_scale(1);
    let title = format!("{}, {}", small.name, small.mpi.name());
    if let Some(missing) = bench.missing(&small) {
        println!("  {title}: left out, {missing} is not there: {}", small.remedy);
        return Ok(None);
    }
    let (seconds, shown) = bench.run(&small, Between::Nothing)?;
    if shown.status != Some(0) {
        println!("  {title}: left out, it fails without the shim as well ({:?}):", shown.status);
        shown.last_words().for_each(|line| println!("    | {line}"));
        return Ok(None);
    }
    let scale = match cli.scale {
        Some(scale) => scale,
        None => scale_for(bench, &at_scale, cli.seconds, seconds)?,
    };
    let program = at_scale(scale);
    let Measured { pairs, least, same } = measure(bench, &program, cli, until)?;
    let (with, without) = pairs.seconds();
    let Some(interval) = pairs.interval() else { return Ok(None) };
    let goal = if program.is_only_reported { String::new() } else { format!("<= {GOAL}") };
    let is_met = interval.is_within(GOAL);
    table.interval(&title, with, without, (interval.low, interval.high), &goal, is_met);
    println!(
        "    {} pairs, scale {scale}; median ratio {:.4}; added: {:+.4} s; fastest runs: ratio {:.4}",
        pairs.len(),
        interval.median,
        with - without,
        pairs.ratio_of_fastest()
    );
    if let Some(floor) = least.interval() {
        println!(
            "    wrappers that only count: median ratio {:.4}, {:.3}-{:.3}; fastest runs: {:.4}",
            floor.median,
            floor.low,
            floor.high,
            least.ratio_of_fastest()
        );
    }
    if !is_met && !interval.is_decided(GOAL) && !goal.is_empty() {
        println!("    not decided: too noisy; repeat on an idle machine, or with more --minutes");
    }
    match same {
        Ok(lines) => table.holds(&format!("    same output ({lines} lines) and status"), lines > 0),
        Err(difference) => {
            table.holds("    same output and status", false);
            println!("    {difference}");
        }
    }
    Ok(Some(without))
}

/// The work that takes so many seconds. A first run reads the program from disk and start and end are in each, so the
/// guess is corrected by runs of its own.
fn scale_for(
    bench: &Bench,
    at_scale: &impl Fn(u32) -> Program,
    wanted: f64,
    mut seconds: f64,
) -> anyhow::Result<u32> {
    const GUESSES: usize = 3;
    let mut scale = 1.0;
    for _ in 0..GUESSES {
        if seconds > wanted * 0.7 {
            break;
        }
        scale = (scale * wanted / seconds).round().clamp(1.0, LARGEST_SCALE);
        seconds = bench.run(&at_scale(scale as u32), Between::Nothing)?.0;
    }
    Ok(scale as u32)
}

/// Lines of output in each run, or how the first run that differed did so.
type Same = Result<usize, String>;

/// What the runs of a program said.
struct Measured {
    /// With the shim against without.
    pairs: Pairs,
    /// With wrappers that only count against without; empty where that was not asked for.
    least: Pairs,
    same: Same,
}

/// Pairs of neighbouring runs, until they decide or the time is over.
fn measure(bench: &Bench, program: &Program, cli: &Cli, until: Instant) -> anyhow::Result<Measured> {
    let (mut pairs, mut least) = (Pairs::default(), Pairs::default());
    let mut expected: Option<Shown> = None;
    let mut same = Ok(0);
    let kinds = [Between::Nothing, Between::Shim, Between::Least];
    let kinds = &kinds[..if cli.least { 3 } else { 2 }];
    loop {
        let mut seconds = [0.0; 3];
        // The order turns, so that what changes slowly pulls the ratios to both sides.
        for turn in 0..kinds.len() {
            let index = (turn + pairs.len()) % kinds.len();
            let (taken, shown) = bench.run(program, kinds[index])?;
            seconds[index] = taken;
            let first = expected.get_or_insert_with(|| shown.clone());
            same = same.and_then(|_| match first.difference(&shown) {
                None => Ok(first.lines.len()),
                Some(how) => Err(format!("{}: {how}", kinds[index].words())),
            });
        }
        let [without, with, counting] = seconds;
        pairs.push(with, without);
        if cli.least {
            least.push(counting, without);
        }
        let interval = pairs.interval().filter(|_| pairs.len() >= cli.runs);
        let is_enough = interval.is_some_and(|interval| {
            program.is_only_reported || interval.is_decided(GOAL) || Instant::now() >= until
        });
        if is_enough || pairs.len() >= MOST_PAIRS {
            return Ok(Measured { pairs, least, same });
        }
    }
}
