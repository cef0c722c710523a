//! `bench-now`: programs whose calls are known, one after the other and then the long ones together, on two agents and both libraries; each
//! second each surface is read for what they did so far, as of when, and afterwards compared with the programs' own logs: figures of the time
//! that is stated, no more than was, nothing false in a sentence, and each step of a course.
#![allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // figures for people

mod judge;
mod log;
mod looks;

use anyhow::{Context, ensure};
use clap::Parser;
use judge::Courses;
use log::Log;
use looks::Look;
use serde_json::Value;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use throughline_benches::mpi_site::{Launch, Site};

/// A program and where it runs.
struct Run {
    name: &'static str,
    pattern: &'static str,
    seconds: u32,
    ranks: usize,
    agents: usize,
    mpi: &'static str,
}

const fn run(
    name: &'static str,
    pattern: &'static str,
    seconds: u32,
    (ranks, agents): (usize, usize),
    mpi: &'static str,
) -> Run {
    Run { name, pattern, seconds, ranks, agents, mpi }
}

/// Those of five minutes and more run last, beside each other. Ranks of MPICH spin while they wait: 24 of them would leave no processor for
/// anything else.
const RUNS: [Run; 16] = [
    run("a01", "constant", 30, (1, 1), "mpich"),
    run("a02", "onoff", 30, (4, 1), "openmpi"),
    run("a03", "ramp", 30, (4, 1), "mpich"),
    run("a04", "burst", 40, (4, 2), "openmpi"),
    run("a05", "constant", 60, (4, 2), "mpich"),
    run("a06", "onoff", 60, (4, 2), "openmpi"),
    run("a07", "ramp", 60, (24, 1), "openmpi"),
    run("a08", "burst", 60, (24, 1), "openmpi"),
    run("a09", "constant", 120, (24, 2), "openmpi"),
    run("a10", "onoff", 120, (1, 1), "openmpi"),
    run("a11", "ramp", 180, (1, 1), "openmpi"),
    run("a12", "burst", 120, (1, 1), "mpich"),
    run("a13", "constant", 300, (4, 2), "mpich"),
    run("a14", "onoff", 300, (24, 2), "openmpi"),
    run("a15", "ramp", 600, (4, 1), "mpich"),
    run("a16", "burst", 1_200, (4, 2), "mpich"),
];
const LONG_SECONDS: u32 = 300;
/// From one look to the next.
const EACH: Duration = Duration::from_secs(1);
/// How long after a program's end its figures may be final.
const FINAL_WITHIN: Duration = Duration::from_secs(120);
/// Largest difference of the bytes under a trace's curves from the program's own, as a share.
const TRACE_SHARE: f64 = 0.001;
/// A running job's course is read each so many looks.
const COURSE_EACH: usize = 20;

/// Compare what is said of running programs with their own logs
#[derive(Parser, Clone, Debug)]
#[command(name = "bench-now", max_term_width = 100)]
struct Options {
    /// Folder of the programs
    #[arg(long, default_value = "target/release")]
    from: PathBuf,
    /// Only runs whose name, pattern or library has this in it
    #[arg(long)]
    only: Option<String>,
    /// Beside one busy loop a processor
    #[arg(long)]
    busy: bool,
    /// Keep logs and the state
    #[arg(long)]
    keep: bool,
}

/// What a run's viewer found.
struct Seen {
    looks: Vec<Look>,
    wrong: Vec<String>,
    courses: Vec<(&'static str, Vec<looks::Step>)>,
    last: Option<Value>,
    /// Bytes of each rank under its curves in the trace, once it has ended.
    traced: std::collections::BTreeMap<usize, f64>,
}

fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse();
    let folder = tempfile::Builder::new().prefix("tl-now-").tempdir()?;
    let site = Arc::new(Site::start(&options.from, folder.path(), "now/courses.c")?);
    let busy = if options.busy { std::thread::available_parallelism()?.get() } else { 0 };
    let is_over = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let loops: Vec<_> = (0..busy)
        .map(|_| {
            let is_over = is_over.clone();
            std::thread::spawn(move || while !is_over.load(std::sync::atomic::Ordering::Relaxed) {})
        })
        .collect();
    let is_wanted = |run: &&Run| {
        let has =
            |text: &String| [run.name, run.pattern, run.mpi].iter().any(|one| one.contains(text.as_str()));
        options.only.as_ref().is_none_or(has)
    };
    let (long, short): (Vec<&'static Run>, Vec<&'static Run>) =
        RUNS.iter().filter(is_wanted).partition(|run| run.seconds >= LONG_SECONDS);
    println!("{:<4} {:<9} {:>6} {:>5} {:>6} {:<8}", "run", "pattern", "s", "ranks", "agents", "library");
    let mut are_right = true;
    for run in short {
        are_right &= one(&site, run)?;
    }
    let started: Vec<_> = long
        .into_iter()
        .map(|run| {
            let site = site.clone();
            std::thread::spawn(move || one(&site, run))
        })
        .collect();
    for run in started {
        are_right &= run.join().map_err(|_| anyhow::anyhow!("a viewer ended"))??;
    }
    is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    loops.into_iter().for_each(|one| drop(one.join()));
    drop(site);
    if options.keep {
        println!("state and logs: {}", folder.keep().display());
    }
    Ok(if are_right { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

/// Runs one, looks at it, and judges.
fn one(site: &Site, run: &'static Run) -> anyhow::Result<bool> {
    let logs = site.log_folder(run.name);
    std::fs::create_dir_all(&logs)?;
    let seconds = run.seconds.to_string();
    let arguments = vec![run.name.to_owned(), run.pattern.to_owned(), seconds, logs.display().to_string()];
    let Run { ranks, agents, mpi, .. } = *run;
    let mut program =
        site.launch(&Launch { program: "courses", arguments, ranks, agents, mpi, environment: &[] })?;
    let seen = watch(site, run, &mut program)?;
    let log = Log::read(&site.log_folder(run.name), run.ranks)?;
    let said = judge::answers(&seen.looks, &log);
    let mut lines = vec![format!(
        "{:<4} {:<9} {:>6} {:>5} {:>6} {:<8} {} calls, {} looks",
        run.name,
        run.pattern,
        run.seconds,
        run.ranks,
        run.agents,
        run.mpi,
        log.last().calls,
        seen.looks.len()
    )];
    let mut is_right = true;
    for (surface, said) in &said {
        is_right &= said.is_right(surface);
        lines.push(format!(
            "    {surface:<10} {:>5} answers: {} as of their time, {} newer, {} older, {} more than was, {} without a time, {} with nothing yet; oldest {:.1} s{}",
            said.answers, said.exact, said.newer, said.older, said.more, said.timeless,
            said.unknown, said.oldest,
            said.first.as_ref().map_or_else(String::new, |first| format!("; {first}")),
        ));
    }
    for name in ["running", "ended"] {
        let mut courses = Courses::default();
        let of = seen.courses.iter().filter(|(of, _)| *of == name);
        of.for_each(|(_, steps)| courses.add(steps, &log));
        is_right &= courses.is_right() || (name == "running" && courses.steps == 0);
        lines.push(format!(
            "    steps, {name:<8} {} of 1 s ({} longer): {} within 2 %, {} by their edges{}",
            courses.steps,
            courses.long,
            courses.near,
            courses.edges,
            courses.first.as_ref().map_or_else(String::new, |first| format!("; {first}")),
        ));
    }
    let totals = seen.last.as_ref().map(|last| (last["calls"].as_i64(), last["bytes"].as_i64()));
    let own = (Some(log.last().calls), Some(log.last().bytes));
    if totals != Some(own) {
        is_right = false;
        lines.push(format!("    at the end {totals:?}, where {own:?} were"));
    }
    // Rates of a trace are whole bytes a second.
    let areas = log.0.iter().enumerate().map(|(rank, own)| {
        (rank, seen.traced.get(&rank).copied().unwrap_or(0.0), own.at(i64::MAX).bytes as f64)
    });
    let others: Vec<_> = areas.filter(|(_, area, own)| (area - own).abs() > own * TRACE_SHARE).collect();
    is_right &= others.is_empty();
    lines.push(format!(
        "    trace, ended    the curves of {} of {} ranks hold what they sent{}",
        run.ranks - others.len(),
        run.ranks,
        others
            .first()
            .map_or_else(String::new, |(rank, area, own)| format!("; rank {rank}: {area} of {own}"))
    ));
    let mut words: Vec<_> = seen.wrong;
    words.dedup();
    is_right &= words.is_empty();
    lines.extend(words.into_iter().take(5).map(|words| format!("    false: {words}")));
    lines.push(format!("    {}", if is_right { "right" } else { "WRONG" }));
    println!("{}", lines.join("\n"));
    Ok(is_right)
}

/// Looks at a program while it runs, and until its figures are final.
fn watch(site: &Site, run: &Run, program: &mut std::process::Child) -> anyhow::Result<Seen> {
    let server = site.client()?;
    let begun = Instant::now();
    let mut seen = Seen {
        looks: Vec::new(),
        wrong: Vec::new(),
        courses: Vec::new(),
        last: None,
        traced: std::collections::BTreeMap::new(),
    };
    let mut key: Option<String> = None;
    let mut ended: Option<Instant> = None;
    for number in 0_usize.. {
        let next = Instant::now() + EACH;
        if ended.is_none() && program.try_wait()?.is_some_and(|status| !status.success()) {
            anyhow::bail!("{} failed", run.name);
        }
        if ended.is_none() && program.try_wait()?.is_some() {
            ended = Some(Instant::now());
        }
        if key.is_none() {
            key = find(&server, run)?;
        }
        if let (Some(key), None) = (&key, ended) {
            looks::look(&server, key, &mut seen.looks, &mut seen.wrong)?;
            // In the second half people look, so that figures are of now.
            if begun.elapsed().as_secs() > u64::from(run.seconds) / 2 {
                person(site, key, number, &mut seen)?;
            }
        }
        if let (Some(key), Some(ended)) = (&key, ended) {
            let detail: Value =
                server.get(&["jobs", key], &[]).map_err(|error| anyhow::anyhow!("{error}"))?;
            let own = Log::read(&site.log_folder(run.name), run.ranks)?.last().calls;
            let is_final =
                !detail["job"]["end_ms"].is_null() && detail["job"]["totals"]["calls"].as_i64() == Some(own);
            if is_final || ended.elapsed() > FINAL_WITHIN {
                seen.last = Some(detail["job"]["totals"].clone());
                let course = site.says(&["job", "export", key, "--step", "1", "--format", "json"])?;
                seen.courses.push(("ended", looks::steps(&course)?));
                seen.traced =
                    looks::integrals(&site.says(&["job", "trace", key, "-o", "-", "--lanes", "ranks"])?)?;
                return Ok(seen);
            }
        }
        ensure!(begun.elapsed().as_secs() < u64::from(run.seconds) * 2 + 300, "{}: no job is seen", run.name);
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    unreachable!()
}

/// What a person does: one command after the other.
fn person(site: &Site, key: &str, number: usize, seen: &mut Seen) -> anyhow::Result<()> {
    const COMMANDS: [&[&str]; 6] = [
        &["job", "show"],
        &["job", "waits"],
        &["job", "matrix"],
        &["job", "report"],
        &["job", "list"],
        &["job", "top", "--once"],
    ];
    let command = COMMANDS[number % COMMANDS.len()];
    let mut arguments = command.to_vec();
    arguments.extend((command.len() == 2 && command[1] != "list").then_some(key));
    looks::judge_words(command[1], &site.says(&arguments)?, &mut seen.wrong);
    if number.is_multiple_of(COURSE_EACH) {
        let course = site.says(&["job", "export", key, "--step", "1", "--format", "json"])?;
        seen.courses.push(("running", looks::steps(&course)?));
    }
    Ok(())
}

/// The key of a run's job.
fn find(server: &throughline_client::Server, run: &Run) -> anyhow::Result<Option<String>> {
    let query = [("state", "all"), ("limit", "100")];
    let jobs: Value = server.get(&["jobs"], &query).map_err(|error| anyhow::anyhow!("{error}"))?;
    let is_it = |job: &&Value| {
        job["command"].as_str().is_some_and(|command| command.contains(&format!(" {} ", run.name)))
    };
    let job = jobs["jobs"].as_array().context("jobs")?.iter().find(is_it);
    Ok(job.and_then(|job| job["job_key"].as_str()).map(str::to_owned))
}
