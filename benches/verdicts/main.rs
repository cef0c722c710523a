//! `bench-verdicts`: real programs with one known fault each, under the shim, through agents, crawler and server, on an emulated
//! fabric (docs/DEMO.md): is the fault named, and do the seconds agree with the programs' own clocks?
//!
//! Prints a line for each program and writes what `throughline job show` says of it; status 2 where one is not named right.

use anyhow::{Context, anyhow};
use clap::Parser;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use throughline_api::jobs::{JobDetail, Jobs};
use throughline_api::verdicts::JobVerdicts;
use throughline_client::Server;
use throughline_daemon::{LogOptions, finish, stop_signal, usage};
use throughline_demo::config;
use throughline_demo::emulate::emulation::{Emulation, Prerequisites};
use throughline_demo::emulate::jobs::Job;
use throughline_demo::emulate::{Shape, read};
use throughline_demo::layout::Layout;

const SOURCE: &str = include_str!("scenarios.c");

/// How long after a fault its judgement may come.
const JUDGED_LIMIT: Duration = Duration::from_secs(200);
/// A hang is said from 30 s on, and jobs are judged each minute.
const HANG_LIMIT: Duration = Duration::from_secs(150);
/// How long the two jobs on one link run, and how long after their start the one has to be said to be held up.
const TWO_SECONDS: u32 = 180;
const VICTIM_LIMIT: Duration = Duration::from_secs(170);
/// Largest difference of seconds from those by the program's own clock.
const DIFFERENCE: f64 = 0.05;

/// Run programs with one known fault each, and compare what is said of them
#[derive(Parser, Clone, Debug)]
#[command(name = "bench-verdicts", max_term_width = 100)]
struct Options {
    /// How long each program runs
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// Only programs with this in their name
    #[arg(long)]
    only: Option<String>,
    /// Write what `job show` says of each into this folder
    #[arg(long)]
    show: Option<PathBuf>,
    #[command(flatten)]
    log: LogOptions,
}

/// A program and what is to be said of it.
struct Scenario {
    name: &'static str,
    /// Any of these kinds is right.
    expected: &'static [&'static str],
    hosts: &'static [usize],
    ranks_a_host: usize,
}

const SCENARIOS: [Scenario; 6] = [
    Scenario { name: "healthy", expected: &["nothing_found"], hosts: &[0], ranks_a_host: 2 },
    Scenario { name: "late", expected: &["imbalanced_work"], hosts: &[0], ranks_a_host: 2 },
    Scenario { name: "core", expected: &["slow_rank"], hosts: &[0], ranks_a_host: 2 },
    Scenario { name: "small", expected: &["latency_bound"], hosts: &[0], ranks_a_host: 2 },
    Scenario { name: "mapping", expected: &["placement"], hosts: &[0, 3, 4, 7], ranks_a_host: 2 },
    Scenario { name: "hang", expected: &["hung"], hosts: &[0, 1], ranks_a_host: 2 },
];

/// Two jobs that share links: the one that fills them, and the one that waits for them.
const AGGRESSOR: (&str, &[usize], &str, u32) = ("aggressor", &[0, 1, 3, 4, 5, 7], "alltoall", 32 << 10);
const VICTIM: (&str, &[usize], &str, u32) = ("victim", &[2, 6], "p2p", 64 << 10);

fn main() -> ExitCode {
    match Options::try_parse() {
        Ok(options) => finish("bench-verdicts", begin(options)),
        Err(said) => usage(&said),
    }
}

fn begin(options: Options) -> anyhow::Result<ExitCode> {
    options.log.start()?;
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(run(options))
}

async fn run(options: Options) -> anyhow::Result<ExitCode> {
    let shape = Shape { hosts: 8, leaves: 2, spines: 1, link_mbit: 20 };
    let found = Prerequisites::find(config::Server::default())?;
    let folder = tempfile::Builder::new().prefix("tl-verdicts-").tempdir()?;
    let stop = stop_signal().context("installing signal handlers")?;
    let mut emulation = Emulation::new(&found, Layout::take(folder.path())?);
    let result = tokio::select! {
        result = measure(&mut emulation, &found, shape, &options) => result,
        () = stop.cancelled() => Err(anyhow!("stopped")),
    };
    let clean = emulation.stop().await;
    if result.is_err() {
        // After a failure the logs are worth more than the place they take.
        eprintln!("logs: {}", emulation.layout.logs().display());
        let _ = folder.keep();
    }
    let are_right = result?;
    anyhow::ensure!(clean, "something did not stop by itself");
    Ok(if are_right { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

async fn measure(
    emulation: &mut Emulation,
    found: &Prerequisites,
    shape: Shape,
    options: &Options,
) -> anyhow::Result<bool> {
    emulation.start(found, shape).await?;
    let program = emulation.compile("scenarios", SOURCE).await?;
    let is_wanted = |name: &str| options.only.as_ref().is_none_or(|only| name.contains(only.as_str()));
    let mut are_right = true;
    println!("{:<10} {:<22} {:<22} {:>12} {:>12}", "program", "expected", "said", "in MPI", "own clock");
    for scenario in SCENARIOS.iter().filter(|scenario| is_wanted(scenario.name)) {
        are_right &= one(emulation, found, scenario, &program, options).await?;
    }
    if is_wanted(VICTIM.0) {
        are_right &= two(emulation, found, options).await?;
    }
    Ok(are_right)
}

/// Runs a program with a known fault.
async fn one(
    emulation: &mut Emulation,
    found: &Prerequisites,
    scenario: &Scenario,
    program: &Path,
    options: &Options,
) -> anyhow::Result<bool> {
    let hosts = emulation.plan.hosts();
    emulation.start_job(&Job {
        name: scenario.name.to_owned(),
        hosts: scenario.hosts.iter().map(|place| hosts[*place]).collect(),
        ranks_a_host: scenario.ranks_a_host,
        program: Some(program.to_owned()),
        arguments: vec![scenario.name.to_owned(), options.seconds.to_string()],
        is_measured: false,
    })?;
    let is_endless = scenario.name == "hang";
    if !is_endless {
        emulation.wait_for_jobs().await?;
    }
    let server = read::client(emulation.server_address)?;
    let name = scenario.name;
    let judged =
        tokio::task::spawn_blocking(move || wait_for(&server, &format!(" {name} "), is_endless)).await??;
    show(emulation, found, name, &judged.0, options)?;
    if is_endless {
        emulation.stop_job(name).await;
    }
    let own = own_seconds(&emulation.layout.logs().join(format!("{name}.log")));
    Ok(line(name, scenario.expected, &judged, own))
}

/// Two jobs on the same links.
async fn two(emulation: &mut Emulation, found: &Prerequisites, options: &Options) -> anyhow::Result<bool> {
    let hosts = emulation.plan.hosts();
    for (name, places, operation, bytes) in [AGGRESSOR, VICTIM] {
        let on = places.iter().map(|place| hosts[*place]).collect();
        emulation.start_job(&Job::of_operation(name, on, operation, bytes, TWO_SECONDS, 0))?;
    }
    // While both run: what fills a link is said together with whom it holds up.
    let server = read::client(emulation.server_address)?;
    let wait = move || wait_while_running(&server, VICTIM.2, VICTIM_LIMIT);
    tokio::task::spawn_blocking(wait).await??;
    let mut are_right = true;
    for ((name, _, operation, _), expected) in
        [(VICTIM, &["victim"][..]), (AGGRESSOR, &["aggressor", "link_bound"][..])]
    {
        let server = read::client(emulation.server_address)?;
        let judged =
            tokio::task::spawn_blocking(move || newest(&server, &format!(" {operation} "))).await??;
        let (key, verdicts) = judged.ok_or_else(|| anyhow!("no job with {operation}"))?;
        show(emulation, found, name, &key, options)?;
        are_right &= line(name, expected, &(key, verdicts, 0.0), None);
    }
    emulation.wait_for_jobs().await?;
    Ok(are_right)
}

type Judged = (String, JobVerdicts, f64);

fn newest(server: &Server, argument: &str) -> anyhow::Result<Option<(String, JobVerdicts)>> {
    let jobs: Jobs = server.get(&["jobs"], &[("state", "all"), ("limit", "20")])?;
    let is_it = |command: &Option<String>| {
        command.as_ref().is_some_and(|command| format!("{command} ").contains(argument))
    };
    let Some(job) = jobs.jobs.into_iter().find(|job| is_it(&job.command)) else { return Ok(None) };
    let verdicts = server.get(&["jobs", &job.job_key, "verdicts"], &[])?;
    Ok(Some((job.job_key, verdicts)))
}

/// Waits until something is found on a job that runs.
fn wait_while_running(server: &Server, operation: &str, limit: Duration) -> anyhow::Result<()> {
    let begun = Instant::now();
    while begun.elapsed() < limit {
        let found = newest(server, &format!(" {operation} "))?;
        let is_found = |verdicts: &JobVerdicts| {
            verdicts.verdicts.iter().any(|one| one.is_now && one.kind != "nothing_found")
        };
        if found.is_some_and(|(_, verdicts)| is_found(&verdicts)) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    Ok(())
}

/// The last word on the newest job with an argument, or the first on one that hangs, with its seconds in MPI.
fn wait_for(server: &Server, argument: &str, is_endless: bool) -> anyhow::Result<Judged> {
    let begun = Instant::now();
    let limit = if is_endless { HANG_LIMIT } else { JUDGED_LIMIT };
    loop {
        if let Some((key, verdicts)) = newest(server, argument)? {
            let is_hung = verdicts.verdicts.iter().any(|one| one.is_now && one.kind == "hung");
            let is_late = begun.elapsed() > limit;
            if verdicts.is_final || (is_endless && (is_hung || is_late)) {
                let detail: JobDetail = server.get(&["jobs", &key], &[])?;
                let seconds = detail.job.totals.map_or(0.0, |totals| totals.mpi_seconds);
                return Ok((key, verdicts, seconds));
            }
        }
        anyhow::ensure!(begun.elapsed() <= limit, "no verdict on{argument}in {} s", limit.as_secs());
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// What a user sees of it.
fn show(
    emulation: &Emulation,
    found: &Prerequisites,
    name: &str,
    key: &str,
    options: &Options,
) -> anyhow::Result<()> {
    let Some(folder) = &options.show else { return Ok(()) };
    std::fs::create_dir_all(folder)?;
    let server = format!("http://{}", emulation.server_address);
    let output = std::process::Command::new(found.throughline())
        .args(["job", "--server", &server, "show", key])
        .env("COLUMNS", "118")
        .output()
        .context("starting throughline")?;
    let text = [output.stdout, output.stderr].concat();
    std::fs::write(folder.join(format!("{name}.txt")), text).context("writing what job show says")
}

/// Seconds in MPI by the program's own clock, from the last line of its log.
fn own_seconds(log: &Path) -> Option<f64> {
    let text = std::fs::read_to_string(log).ok()?;
    let line = text.lines().rev().find_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())?;
    line["inside"].as_f64().filter(|inside| *inside > 0.0)
}

/// Prints a line; whether what is said is right, in seconds that agree.
fn line(name: &str, expected: &[&str], (_, verdicts, inside): &Judged, own: Option<f64>) -> bool {
    let said: Vec<&str> =
        verdicts.verdicts.iter().filter(|one| one.is_now).map(|one| one.kind.as_str()).collect();
    // Emulated hosts share this machine's processors: that ranks wait for these is true, too.
    let is_right = |one: &&str| expected.contains(one) || *one == "oversubscribed";
    let is_named = said.iter().any(|one| expected.contains(one)) && said.iter().all(is_right);
    let agrees = own.is_none_or(|own| (inside - own).abs() <= DIFFERENCE * own);
    let own = own.map_or_else(|| "-".to_owned(), |own| format!("{own:.1} s"));
    println!(
        "{name:<10} {:<22} {:<22} {:>10.1} s {own:>12}{}{}",
        expected.join(" or "),
        said.join(", "),
        inside,
        if is_named { "" } else { "  not named right" },
        if agrees { "" } else { "  seconds differ" }
    );
    is_named && agrees
}
