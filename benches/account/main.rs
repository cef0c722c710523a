//! `bench-account`: programs with one known fault each, and healthy ones, which measure themselves; where their time went as it is shown is
//! compared with their own clocks, and what is said of them with the fault.
#![allow(clippy::cast_precision_loss)] // figures for people

use anyhow::{Context, ensure};
use clap::Parser;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};
use throughline_api::account::JobAccount;
use throughline_api::verdicts::{JobVerdict, JobVerdicts};
use throughline_benches::mpi_site::{Launch, Site};
use throughline_client::Answer;

/// A program of faults.c, and which verdicts are right: none of these is certain of a healthy one.
struct Program {
    name: &'static str,
    right: &'static [&'static str],
}

const HEALTHY: &[&str] = &["nothing_found"];
/// Of calls of a microsecond what is waiting is not known well.
const SHORT: &[&str] = &["nothing_found", "latency_bound", "waiting"];
const IMBALANCED: &[&str] = &["imbalanced_work", "slow_rank"];

const fn program(name: &'static str, right: &'static [&'static str]) -> Program {
    Program { name, right }
}

const PROGRAMS: [Program; 31] = [
    program("healthy", HEALTHY),
    program("imbalanced", IMBALANCED),
    program("slightly", HEALTHY),
    program("growing", IMBALANCED),
    program("alternate", &["waiting"]),
    program("token_ring", &["waiting"]),
    // Writing takes processor time, too: that rank computes for longer by its own clock.
    program("in_file", &["awaited", "imbalanced_work"]),
    program("asleep", &["awaited"]),
    program("all_asleep", HEALTHY),
    program("io_phases", HEALTHY),
    program("late_root", IMBALANCED),
    program("serial_root", IMBALANCED),
    program("late_sender", IMBALANCED),
    program("late_receiver", IMBALANCED),
    program("master", HEALTHY),
    program("pipeline", HEALTHY),
    program("start_up", &["imbalanced_work", "start_up"]),
    program("overlapped", HEALTHY),
    program("ping_pong", SHORT),
    // It works between its tests, which is computing here.
    program("poll_loop", &["nothing_found", "imbalanced_work"]),
    program("communicators", HEALTHY),
    program("late_split", IMBALANCED),
    program("fences", IMBALANCED),
    program("transfers", HEALTHY),
    program("barriers", SHORT),
    program("tiny", SHORT),
    program("sendrecv", HEALTHY),
    program("file_together", HEALTHY),
    program("at_lock", &["awaited"]),
    program("stopped", &["awaited", "hung", "waiting"]),
    program("thread_calls", HEALTHY),
];

/// A library, whether its ranks yield while they wait, and the environment in which they do.
type Way = (&'static str, &'static str, &'static [(&'static str, &'static str)]);
const WAYS: [Way; 3] = [
    ("openmpi", "spins", &[]),
    ("openmpi", "yields", &[("OMPI_MCA_mpi_yield_when_idle", "1")]),
    ("mpich", "spins", &[]),
];

/// Largest difference from the program's own clocks, points of its ranks' time.
const POINTS: f64 = 3.0;
/// The account of a running job is at most so many seconds old.
const AGE_MAX: f64 = 15.0;
/// How long after a program's end its figures may be final.
const FINAL_WITHIN: Duration = Duration::from_secs(90);

/// Compare accounts of time and verdicts with programs that measure themselves
#[derive(Parser, Clone, Debug)]
#[command(name = "bench-account", max_term_width = 100)]
struct Options {
    /// Folder of the programs
    #[arg(long, default_value = "target/release")]
    from: PathBuf,
    /// Only programs whose name has this in it
    #[arg(long)]
    only: Option<String>,
    /// Each program with each library, not with one in turn
    #[arg(long)]
    all: bool,
    /// Only quiet, or only beside one busy loop a processor
    #[arg(long, value_parser = ["quiet", "loaded"])]
    load: Option<String>,
    /// How long each runs
    #[arg(long, default_value_t = 25)]
    seconds: u32,
    /// Keep logs and the state
    #[arg(long)]
    keep: bool,
}

/// A run that has ended.
struct Run {
    program: &'static Program,
    way: (&'static str, &'static str),
    load: &'static str,
    folder: PathBuf,
    ranks: usize,
    first: Option<(f64, String)>,
    /// The oldest that its account was while it ran, seconds; `None` where it never was as of its nodes.
    oldest: Option<f64>,
    ended: Instant,
}

/// Parts of the ranks' time: computing, waiting for a core or off the processor, in MPI.
type Parts = [f64; 3];

fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse();
    let folder = tempfile::Builder::new().prefix("tl-account-").tempdir()?;
    let site = Site::start(&options.from, folder.path(), "account/faults.c")?;
    let mut runs = Vec::new();
    for load in ["quiet", "loaded"]
        .into_iter()
        .filter(|load| options.load.as_deref().is_none_or(|only| only == *load))
    {
        let loops =
            Loops::start(if load == "loaded" { std::thread::available_parallelism()?.get() } else { 0 });
        for (number, program) in PROGRAMS.iter().enumerate() {
            if options.only.as_ref().is_some_and(|only| !program.name.contains(only.as_str())) {
                continue;
            }
            for (turn, way) in WAYS.into_iter().enumerate() {
                if options.all || number % WAYS.len() == turn {
                    runs.push(run(&site, program, way, load, options.seconds)?);
                }
            }
        }
        drop(loops);
    }
    let is_right = judge(&site, &runs)?;
    drop(site);
    if options.keep {
        println!("state and logs: {}", folder.keep().display());
    }
    Ok(if is_right { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

/// Busy loops, ended when dropped.
struct Loops(Arc<AtomicBool>, Vec<std::thread::JoinHandle<()>>);

impl Loops {
    fn start(count: usize) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let one = || {
            let is_over = is_over.clone();
            std::thread::spawn(move || while !is_over.load(Ordering::Relaxed) {})
        };
        let all = (0..count).map(|_| one()).collect();
        Self(is_over, all)
    }
}

impl Drop for Loops {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        self.1.drain(..).for_each(|one| drop(one.join()));
    }
}

/// Runs one program; notes what is said of it first.
fn run(
    site: &Site,
    program: &'static Program,
    (mpi, way, environment): (&'static str, &'static str, &'static [(&'static str, &'static str)]),
    load: &'static str,
    seconds: u32,
) -> anyhow::Result<Run> {
    let folder = site.log_folder(&format!("{}-{mpi}-{way}-{load}", program.name));
    std::fs::create_dir_all(&folder)?;
    let arguments = vec![program.name.to_owned(), seconds.to_string(), folder.display().to_string()];
    let ranks = 2;
    let begun = Instant::now();
    let mut started =
        site.launch(&Launch { program: "faults", arguments, ranks, agents: 1, mpi, environment })?;
    let (mut first, mut oldest) = (None, None);
    let status = loop {
        if let Some(status) = started.try_wait()? {
            break status;
        }
        if let Some(key) = job(site, &folder)? {
            if first.is_none() {
                let (said, _) = verdicts(site, &key)?;
                first = said.into_iter().next().map(|(kind, _)| (begun.elapsed().as_secs_f64(), kind));
            }
            let answer: Answer<JobAccount> = site.client()?.answer(&["jobs", &key, "account"], &[])?;
            if let Some(as_of) = answer.value.as_of {
                let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs_f64();
                #[allow(clippy::cast_precision_loss)] // below 2^53
                let age = now - as_of.time_ms as f64 / 1e3;
                oldest = Some(age.max(oldest.unwrap_or(0.0)));
            }
        }
        std::thread::sleep(Duration::from_secs(1));
    };
    ensure!(status.success(), "{} with {mpi}: {status}", program.name);
    Ok(Run { program, way: (mpi, way), load, folder, ranks, first, oldest, ended: Instant::now() })
}

/// The job whose command names this folder.
fn job(site: &Site, folder: &Path) -> anyhow::Result<Option<String>> {
    let list: Value = serde_json::from_str(&site.says(&["job", "list", "--json", "--limit", "500"])?)?;
    let name = folder.display().to_string();
    let jobs = list["jobs"].as_array().context("a list of jobs")?;
    let found =
        jobs.iter().find(|job| job["command"].as_str().is_some_and(|command| command.ends_with(&name)));
    Ok(found.and_then(|job| job["job_key"].as_str()).map(ToOwned::to_owned))
}

/// Kinds of what is said of a job now, and whether each is certain; whether it was judged for the last time.
type Said = (Vec<(String, bool)>, bool);

fn verdicts(site: &Site, key: &str) -> anyhow::Result<Said> {
    let answer: Answer<JobVerdicts> = site.client()?.answer(&["jobs", key, "verdicts"], &[])?;
    let now = answer.value.verdicts.iter().filter(|one| one.is_now);
    let one = |one: &JobVerdict| (one.kind.clone(), one.confidence == "certain");
    Ok((now.map(one).collect(), answer.value.is_final))
}

/// Compares each run as it is shown at last with its own clocks.
fn judge(site: &Site, runs: &[Run]) -> anyhow::Result<bool> {
    println!(
        "{:<14} {:<8} {:<7} {:<7} {:>20} {:>20} {:>6}  {:>6} {:<30} first verdict",
        "program", "library", "waits", "load", "own clocks %", "shown %", "points", "age", "said at last"
    );
    let (mut measured, mut said_right, mut first_right, mut wrong_certain) = (0, 0, 0, 0);
    let mut is_new = true;
    for run in runs {
        let own = own(run)?;
        let (shown, said) = shown(site, run)?;
        // A program of short calls can't read its processor clock around each.
        let is_split = own[0] >= 0.0;
        let shown = if is_split { shown } else { [-1.0, shown[0] + shown[1], shown[2]] };
        let points = own.iter().zip(shown).map(|(own, shown)| (own - shown).abs()).fold(0.0, f64::max);
        measured += usize::from(points <= POINTS);
        let is = |kind: &str| run.program.right.contains(&kind);
        // On a loaded node that ranks wait for cores is true, and mostly the largest; it must not hide the fault.
        let is_true = |kind: &str| {
            is(kind) || (run.load == "loaded" && ["oversubscribed", "slow_rank"].contains(&kind))
        };
        let is_healthy = run.program.right.contains(&"nothing_found");
        let is_right = said.first().is_some_and(|(kind, _)| is_true(kind))
            && (is_healthy || said.iter().any(|(kind, _)| is(kind)));
        said_right += usize::from(is_right);
        let has_wrong =
            said.iter().any(|(kind, certain)| *certain && !is_true(kind) && kind != "nothing_found");
        wrong_certain += usize::from(has_wrong);
        let first = run
            .first
            .as_ref()
            .map_or_else(String::new, |(seconds, kind)| format!("{kind} at {seconds:.0} s"));
        first_right += usize::from(run.first.as_ref().is_some_and(|(_, kind)| is_true(kind)));
        is_new &= run.oldest.is_some_and(|age| age <= AGE_MAX);
        let age = run.oldest.map_or_else(|| "never".to_owned(), |age| format!("{age:.1} s"));
        let text = |parts: Parts| parts.map(|part| format!("{part:.1}")).join(" ");
        let kinds: Vec<String> =
            said.iter().map(|(kind, certain)| format!("{kind}{}", if *certain { "!" } else { "" })).collect();
        println!(
            "{:<14} {:<8} {:<7} {:<7} {:>20} {:>20} {:>6.1}{} {age:>6} {:<30}{} {first}",
            run.program.name,
            run.way.0,
            run.way.1,
            run.load,
            text(own),
            text(shown),
            points,
            if points <= POINTS { " " } else { "*" },
            kinds.join(" "),
            if is_right { " " } else { "*" },
        );
    }
    let all = runs.len();
    println!(
        "{measured} of {all} within {POINTS} points; {said_right} of {all} judged right at last, {first_right} at first; {wrong_certain} \
         with a certain verdict that is wrong"
    );
    Ok(is_new && measured == all && wrong_certain == 0 && said_right * 100 >= all * 85)
}

/// By the ranks' own clocks.
fn own(run: &Run) -> anyhow::Result<Parts> {
    let (mut all, mut mpi, mut computing) = (0.0, 0.0, 0.0);
    for rank in 0..run.ranks {
        let file = run.folder.join(rank.to_string());
        let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let numbers: Vec<f64> = text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
        ensure!(numbers.len() == 3, "{}: {text}", file.display());
        all += numbers[0];
        mpi += numbers[1];
        computing += numbers[2];
    }
    if computing < 0.0 {
        return Ok([-1.0, 100.0 * (all - mpi) / all, 100.0 * mpi / all]);
    }
    Ok([computing, all - mpi - computing, mpi].map(|part| 100.0 * part / all))
}

/// As it is shown once the job has ended and was judged.
fn shown(site: &Site, run: &Run) -> anyhow::Result<(Parts, Vec<(String, bool)>)> {
    loop {
        let key = job(site, &run.folder)?;
        if let Some(key) = key {
            let (said, is_final) = verdicts(site, &key)?;
            if is_final || run.ended.elapsed() > FINAL_WITHIN {
                let show: Value = serde_json::from_str(&site.says(&["job", "show", &key, "--json"])?)?;
                let account = &show["account"];
                let all = account["elapsed_seconds"].as_f64().unwrap_or_default().max(f64::MIN_POSITIVE);
                let sum = |groups: &[&str]| {
                    let lines = account["lines"].as_array().cloned().unwrap_or_default();
                    let of = lines
                        .iter()
                        .filter(|line| line["group"].as_str().is_some_and(|group| groups.contains(&group)));
                    100.0 * of.filter_map(|line| line["seconds"].as_f64()).sum::<f64>() / all
                };
                let parts =
                    [sum(&["computing"]), sum(&["waiting_for_core", "off_processor"]), sum(&["in_mpi"])];
                return Ok((parts, said));
            }
        }
        ensure!(run.ended.elapsed() < FINAL_WITHIN * 2, "{}: no job", run.program.name);
        std::thread::sleep(Duration::from_secs(2));
    }
}
