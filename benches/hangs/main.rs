//! `bench-hangs`: programs that hang, each in one known way, and healthy ones that are silent for a minute. Measures how many seconds after
//! its cause a hang's open call is shown and its verdict is there, and whether a healthy program ever gets the verdict `hung`.

use anyhow::Context;
use clap::Parser;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::de::DeserializeOwned;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitCode, ExitStatus};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use throughline_api::jobs::{JobRates, Jobs};
use throughline_api::verdicts::{JobVerdict, JobVerdicts};
use throughline_benches::mpi_site::{Launch, Site};
use throughline_client::Server;

/// Which verdict is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Right {
    /// `hung`: that no call can return follows from the calls.
    Hung,
    /// `hung`: only time shows that no call returns.
    HungByTime,
    /// `awaited`, and not `hung`.
    Awaited,
    /// Any but `hung`. At most one rank uses a core without waiting in MPI.
    Healthy,
    /// Any but `hung`. More cores are used, or one without a pause.
    HealthyAndBusy,
}

impl Right {
    fn is_healthy(self) -> bool {
        matches!(self, Self::Healthy | Self::HealthyAndBusy)
    }

    fn kind(self) -> &'static str {
        if self == Self::Awaited { "awaited" } else { HUNG }
    }

    /// The goal, seconds from the cause to the verdict.
    fn goal(self) -> f64 {
        if self == Self::Hung { 15.0 } else { 35.0 }
    }

    /// Of a hang seconds are measured: nothing else runs beside it.
    fn load(self) -> u32 {
        match self {
            Self::Healthy => 2,
            Self::HealthyAndBusy => 5,
            _ => LOAD_MAX,
        }
    }
}

/// Five healthy programs at once, or two busy ones: on two cores the server and the agents still get their turns.
const LOAD_MAX: u32 = 10;
const HUNG: &str = "hung";
/// A program that the launcher must not end when one of its ranks is killed.
const KILLED: &str = "killed";

/// A program of hangs.c.
#[derive(Clone, Copy, Debug)]
struct Program {
    name: &'static str,
    right: Right,
    ranks: usize,
}

const HANGS: [(&str, Right, usize); 12] = [
    ("recv_recv", Right::Hung, 2),
    ("ssend_ssend", Right::Hung, 2),
    ("tags_differ", Right::Hung, 2),
    ("two_collectives", Right::Hung, 2),
    ("stopped", Right::Hung, 4),
    (KILLED, Right::Hung, 3),
    ("in_finalize", Right::Hung, 2),
    ("wait_forever", Right::Hung, 2),
    ("waitall_forever", Right::HungByTime, 2),
    ("test_forever", Right::HungByTime, 2),
    ("missing_in_split", Right::Awaited, 3),
    ("threads_forever", Right::Hung, 2),
];
/// Names with spaces between them.
const HEALTHY: &str = "sleep_recv sleep_barrier sleep_bcast sleep_wait sleep_waitall sleep_probe sleep_allreduce \
                       sleep_split sleep_fence late_receiver all_sleep any_source chain files_barrier";
const HEALTHY_AND_BUSY: &str = "sleep_test threads_sleep compute_recv compute_waitall compute_iprobe all_compute \
                                pipeline threads_compute known_thread new_thread known_thread_computes";
/// Healthy programs of three ranks: others have two.
const OF_THREE_RANKS: [&str; 3] = ["any_source", "chain", "pipeline"];
const LIBRARIES: [&str; 2] = ["openmpi", "mpich"];

/// From one look at the server to the next.
const EACH: Duration = Duration::from_millis(500);
/// After this time since its cause a hang is ended without its verdict, seconds.
const GIVE_UP: f64 = 60.0;
/// Longest time of what a program does besides its silence, or before it hangs, on a loaded machine.
const BESIDES: Duration = Duration::from_secs(120);
/// A launcher whose ranks are gone ends within this time.
const LAUNCHER_GRACE: Duration = Duration::from_secs(5);
/// How long after a program's end it is judged for the last time.
const FINAL_WITHIN: Duration = Duration::from_secs(90);

/// Measure how soon hangs are found, and whether healthy programs are taken for hangs
#[derive(Parser, Clone, Debug)]
#[command(name = "bench-hangs", max_term_width = 100)]
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
    /// Only those that hang, or only healthy ones
    #[arg(long, value_parser = ["hang", "healthy"])]
    kind: Option<String>,
    /// How long a healthy program is silent, seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    silence: u32,
    /// Keep logs and the state
    #[arg(long)]
    keep: bool,
}

impl Options {
    /// What runs, and with which library.
    fn programs(&self) -> VecDeque<(Program, &'static str)> {
        let hangs = HANGS.into_iter().map(|(name, right, ranks)| Program { name, right, ranks });
        let with = |right| {
            move |name| Program { name, right, ranks: if OF_THREE_RANKS.contains(&name) { 3 } else { 2 } }
        };
        let healthy = HEALTHY.split(' ').map(with(Right::Healthy));
        let busy = HEALTHY_AND_BUSY.split(' ').map(with(Right::HealthyAndBusy));
        let is_wanted = |program: &Program| {
            let is_kind = |kind: &String| (kind == "healthy") == program.right.is_healthy();
            self.kind.as_ref().is_none_or(is_kind)
                && self.only.as_ref().is_none_or(|only| program.name.contains(only.as_str()))
        };
        let mut found = VecDeque::new();
        for (number, program) in hangs.chain(healthy).chain(busy).enumerate() {
            for (turn, library) in LIBRARIES.into_iter().enumerate() {
                if is_wanted(&program) && (self.all || number % LIBRARIES.len() == turn) {
                    found.push_back((program, library));
                }
            }
        }
        found
    }
}

fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse();
    let folder = tempfile::Builder::new().prefix("tl-hangs-").tempdir()?;
    let site = Site::start(&options.from, folder.path(), "hangs/hangs.c")?;
    let mut viewer = Viewer { client: site.client()?, failures: Vec::new() };
    let mut runs = run_all(&site, &mut viewer, &options)?;
    look_last(&mut viewer, &mut runs);
    drop(site);
    let are_met = report(&runs);
    if let Some(last) = viewer.failures.last() {
        println!("{} requests failed, the last one: {last}", viewer.failures.len());
    }
    if options.keep {
        println!("state and logs: {}", folder.keep().display());
    }
    Ok(if are_met { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

/// Runs them, as many at once as their load allows, and looks at them all the while.
fn run_all(site: &Site, viewer: &mut Viewer, options: &Options) -> anyhow::Result<Vec<Run>> {
    let mut waiting = options.programs();
    let (all, mut running, mut ended): (usize, Vec<Run>, Vec<Run>) = (waiting.len(), Vec::new(), Vec::new());
    while !waiting.is_empty() || !running.is_empty() {
        let begun = Instant::now();
        let load: u32 = running.iter().map(|run| run.program.right.load()).sum();
        let has_room = |next: &&(Program, _)| load + next.0.right.load() <= LOAD_MAX;
        if let Some((program, library)) = waiting.front().filter(has_room).copied() {
            waiting.pop_front();
            eprintln!("{} of {all}: {} with {library}", all - waiting.len(), program.name);
            running.push(Run::start(site, program, library, options.silence)?);
        }
        viewer.look(&mut running);
        for mut run in std::mem::take(&mut running) {
            let is_over = run.is_over(Duration::from_secs(options.silence.into()))?;
            if is_over { &mut ended } else { &mut running }.push(run);
        }
        std::thread::sleep(EACH.saturating_sub(begun.elapsed()));
    }
    Ok(ended)
}

/// Looks at healthy programs until they were judged for the last time: a wrong verdict may come after the end.
fn look_last(viewer: &mut Viewer, runs: &mut [Run]) {
    loop {
        viewer.find_jobs(runs);
        let is_open = |run: &&mut Run| run.program.right.is_healthy() && !run.is_final;
        runs.iter_mut().filter(is_open).for_each(|run| viewer.judge(run));
        let has_time = |run: &Run| run.ended.is_some_and(|ended| ended.elapsed() < FINAL_WITHIN);
        if !runs.iter_mut().filter(is_open).any(|run| has_time(run)) {
            return;
        }
        std::thread::sleep(EACH * 4);
    }
}

/// A launcher and its ranks, ended when dropped.
struct Ranks {
    launcher: Child,
    folder: PathBuf,
}

impl Ranks {
    /// Ranks that run: a number whose process does not name the folder is not a rank's any more.
    fn processes(&self) -> Vec<i32> {
        let name = self.folder.display().to_string();
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let numbers = entries.filter_map(|entry| {
            entry.file_name().to_string_lossy().strip_prefix("pid.").and_then(|number| number.parse().ok())
        });
        let is_rank = |pid: &i32| {
            let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&command).contains(&name)
        };
        numbers.filter(is_rank).collect()
    }

    /// Ends the ranks, stopped ones too, then their launcher.
    fn end(&mut self) {
        let begun = Instant::now();
        loop {
            for pid in self.processes() {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
            if !matches!(self.launcher.try_wait(), Ok(None)) || begun.elapsed() > LAUNCHER_GRACE {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let _ = self.launcher.kill();
        let _ = self.launcher.wait();
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        self.end();
    }
}

/// A verdict, and how long after the cause of a hang, or after the start of a healthy program, it was there.
struct Said {
    seconds: f64,
    verdict: JobVerdict,
}

/// A program that runs or has run.
struct Run {
    program: Program,
    library: &'static str,
    ranks: Ranks,
    begun: Instant,
    key: Option<String>,
    /// When its last rank entered its call, or was stopped or killed: seconds since 1970.
    cause: Option<f64>,
    /// Seconds from there to its open call's being in `job top`, and which one that is.
    open: Option<(f64, String)>,
    /// The first verdict of the right kind.
    right: Option<Said>,
    /// The first `hung` of what does not hang.
    wrong: Option<Said>,
    /// How it ended by itself; absent where it had to be ended.
    status: Option<ExitStatus>,
    ended: Option<Instant>,
    is_final: bool,
}

impl Run {
    fn start(site: &Site, program: Program, library: &'static str, silence: u32) -> anyhow::Result<Self> {
        let folder = site.log_folder(&format!("{}-{library}", program.name));
        std::fs::create_dir_all(&folder)?;
        // Hydra takes this option from a file, Open MPI from the environment.
        let hydra = folder.join("hydra.conf").display().to_string();
        std::fs::write(&hydra, "-disable-auto-cleanup\n")?;
        let survives = [("HYDRA_CONFIG_FILE", &*hydra), ("OMPI_MCA_orte_abort_on_non_zero_status", "0")];
        let launcher = site.launch(&Launch {
            program: "hangs",
            arguments: vec![program.name.to_owned(), silence.to_string(), folder.display().to_string()],
            ranks: program.ranks,
            // What two agents report is not of the same moment.
            agents: if program.ranks.is_multiple_of(2) { 2 } else { 1 },
            mpi: library,
            environment: if program.name == KILLED { &survives } else { &[] },
        })?;
        Ok(Self {
            program,
            library,
            ranks: Ranks { launcher, folder },
            begun: Instant::now(),
            key: None,
            cause: None,
            open: None,
            right: None,
            wrong: None,
            status: None,
            ended: None,
            is_final: false,
        })
    }

    /// Reads when its ranks entered their calls, once all have.
    fn find_cause(&mut self) {
        if self.cause.is_none() && !self.program.right.is_healthy() {
            let moments = (0..self.program.ranks).map(|rank| moment(&self.ranks.folder, rank));
            self.cause = moments.collect::<Option<Vec<f64>>>().map(|all| all.into_iter().fold(0.0, f64::max));
        }
    }

    fn since_cause(&self) -> Option<f64> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
        self.cause.map(|cause| now.as_secs_f64() - cause)
    }

    /// Takes note of the call that it is in, as `job top` has it.
    fn note_open(&mut self, rates: &JobRates) {
        let Some(seconds) = self.since_cause().filter(|_| self.open.is_none()) else { return };
        let rate = rates.jobs.iter().find(|job| Some(&job.job_key) == self.key.as_ref());
        self.open = rate.and_then(|rate| rate.open_call.as_ref()).map(|call| {
            let text = format!("{} for {:.1} s: {} ranks", call.operation, call.longest_seconds, call.ranks);
            (seconds, text)
        });
    }

    fn note_verdicts(&mut self, all: JobVerdicts) {
        let since_cause = self.since_cause();
        let seconds = since_cause.unwrap_or_else(|| self.begun.elapsed().as_secs_f64());
        let right = self.program.right;
        self.is_final = all.is_final;
        for verdict in all.verdicts {
            let is_right = verdict.kind == right.kind() && since_cause.is_some() && !right.is_healthy();
            if is_right && verdict.is_now {
                self.right.get_or_insert(Said { seconds, verdict });
            } else if !is_right && verdict.kind == HUNG {
                self.wrong.get_or_insert(Said { seconds, verdict });
            }
        }
    }

    /// Whether it has ended, by itself or because it had its time.
    fn is_over(&mut self, silence: Duration) -> anyhow::Result<bool> {
        self.status = self.ranks.launcher.try_wait().context("waiting for a launcher")?;
        let has_run = self.begun.elapsed();
        let is_late = if self.program.right.is_healthy() {
            has_run > silence + BESIDES
        } else {
            let has_time = self.since_cause().map_or(has_run < BESIDES, |seconds| seconds < GIVE_UP);
            self.right.is_some() || !has_time
        };
        if is_late {
            self.ranks.end();
        }
        let is_over = is_late || self.status.is_some();
        self.ended = is_over.then(Instant::now);
        Ok(is_over)
    }

    /// Whether it was judged as it should be, in time.
    fn is_met(&self) -> bool {
        if self.program.right.is_healthy() {
            return self.wrong.is_none()
                && self.key.is_some()
                && self.status.is_some_and(|status| status.success());
        }
        let is_soon = |said: &Said| said.seconds <= self.program.right.goal();
        self.wrong.is_none() && self.open.is_some() && self.right.as_ref().is_some_and(is_soon)
    }
}

/// When a rank wrote that it enters its call, seconds since 1970.
fn moment(folder: &Path, rank: usize) -> Option<f64> {
    std::fs::read_to_string(folder.join(format!("cause.{rank}"))).ok()?.trim().parse().ok()
}

/// Requests to the server. One that fails is counted: the next look may have its answer.
struct Viewer {
    client: Server,
    failures: Vec<String>,
}

impl Viewer {
    fn get<T: DeserializeOwned>(&mut self, parts: &[&str], query: &[(&str, &str)]) -> Option<T> {
        self.client.get(parts, query).map_err(|error| self.failures.push(error.to_string())).ok()
    }

    fn look(&mut self, runs: &mut [Run]) {
        self.find_jobs(runs);
        runs.iter_mut().for_each(Run::find_cause);
        if runs.iter().any(|run| run.cause.is_some() && run.open.is_none())
            && let Some(rates) = self.get(&["job-rates"], &[("window", "10")])
        {
            runs.iter_mut().for_each(|run| run.note_open(&rates));
        }
        runs.iter_mut().for_each(|run| self.judge(run));
    }

    /// A run's job is the one whose command ends with the run's folder.
    fn find_jobs(&mut self, runs: &mut [Run]) {
        if runs.iter().all(|run| run.key.is_some()) {
            return;
        }
        let Some(list) = self.get::<Jobs>(&["jobs"], &[("state", "all"), ("limit", "500")]) else { return };
        for run in runs.iter_mut().filter(|run| run.key.is_none()) {
            let name = run.ranks.folder.display().to_string();
            let is_its = |command: &str| command.ends_with(&name);
            let job = list.jobs.iter().find(|job| job.command.as_deref().is_some_and(is_its));
            run.key = job.map(|job| job.job_key.clone());
        }
    }

    fn judge(&mut self, run: &mut Run) {
        let Some(key) = run.key.clone() else { return };
        if let Some(verdicts) = self.get(&["jobs", &key, "verdicts"], &[]) {
            run.note_verdicts(verdicts);
        }
    }
}

/// Prints what was found; whether all goals are met.
fn report(runs: &[Run]) -> bool {
    let (healthy, hangs): (Vec<&Run>, Vec<&Run>) =
        runs.iter().partition(|run| run.program.right.is_healthy());
    if !hangs.is_empty() {
        println!("{:<17} {:<8} {:>7} {:>9} {:>6}", "hang", "library", "call s", "verdict s", "goal s");
    }
    hangs.iter().for_each(|run| report_hang(run));
    if !healthy.is_empty() {
        println!("{:<17} {:<8} {:>7}", "healthy", "library", "ran s");
    }
    healthy.iter().for_each(|run| report_healthy(run));
    let met = |runs: &[&Run]| runs.iter().filter(|run| run.is_met()).count();
    println!(
        "{} of {} hangs found within their goals; {} of {} healthy programs ended and were never hung",
        met(&hangs),
        hangs.len(),
        met(&healthy),
        healthy.len()
    );
    runs.iter().all(Run::is_met)
}

fn report_hang(run: &Run) {
    let open = run.open.as_ref().map_or("never".to_owned(), |(seconds, _)| format!("{seconds:.1}"));
    let right = run.right.as_ref().map_or("never".to_owned(), |said| format!("{:.1}", said.seconds));
    let sure = run.right.as_ref().map_or("", |said| said.verdict.confidence.as_str());
    println!(
        "{:<17} {:<8} {open:>7} {right:>9} {:>6.0}{} {} {sure}",
        run.program.name,
        run.library,
        run.program.right.goal(),
        if run.is_met() { " " } else { "*" },
        run.program.right.kind(),
    );
    if let Some((_, call)) = &run.open {
        println!("    {call}");
    }
    if let Some(said) = &run.right {
        println!("    {}", said.verdict.observation);
    }
    if let Some(status) = run.status {
        println!("    it did not hang, but ended by itself: {status}");
    }
    report_wrong(run);
}

fn report_healthy(run: &Run) {
    let ran = run.ended.map_or(0.0, |ended| ended.duration_since(run.begun).as_secs_f64());
    let ending = match run.status {
        Some(status) if status.success() => String::new(),
        Some(status) => format!(" {status}"),
        None => " did not end".to_owned(),
    };
    let job = match (&run.key, run.is_final) {
        (None, _) => " its job was not found",
        (_, false) => " was not judged for the last time",
        _ => "",
    };
    let is_met = if run.is_met() { " " } else { "*" };
    println!("{:<17} {:<8} {ran:>7.1}{is_met}{ending}{job}", run.program.name, run.library);
    report_wrong(run);
}

fn report_wrong(run: &Run) {
    if let Some(Said { seconds, verdict }) = &run.wrong {
        let JobVerdict { kind, confidence, observation, .. } = verdict;
        println!("    wrong: {kind} ({confidence}) after {seconds:.1} s: {observation}");
    }
}
