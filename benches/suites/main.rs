//! Any suite of MPI programs that its user built, without the shim and with it: exit code, output, time, and calls and bytes by
//! operation against a counter that is generated from the installed mpi.h.
//!
//! Brings no program along and changes none: each runs in a folder of its own. Ends with status 2 where the shim made a
//! difference.

mod counter;
mod header;
mod judge;
mod output;
mod programs;
mod report;
mod rules;
mod run;
mod truth;

use anyhow::ensure;
use clap::Parser;
use counter::{Family, Header};
use judge::{Judge, Verdict};
use programs::{Defaults, Program};
use report::{Entry, Report};
use run::{Bench, Mode};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use truth::Agent;

/// A check found something.
const FOUND: u8 = 2;

/// Runs MPI programs without the shim and with it, and compares what they do and what is recorded of them
#[derive(Parser)]
#[command(name = "bench-suites", max_term_width = 110)]
struct Cli {
    /// Folders of programs; those below them too. A file `testlist` beside programs, as in MPICH's test/mpi, says which
    /// of them are run, and how
    folders: Vec<PathBuf>,
    /// A file of commands, one a line, with `np=N`, `limit=SECONDS` and `env=NAME=VALUE` before them
    #[arg(long)]
    commands: Vec<PathBuf>,
    /// Debian's library of this name: mpicc.NAME and mpiexec.NAME
    #[arg(long, value_name = "NAME", default_value = "openmpi", conflicts_with = "bin")]
    mpi: String,
    /// Another library's folder of commands
    #[arg(long, value_name = "FOLDER")]
    bin: Option<PathBuf>,
    /// The compiler wrapper whose mpi.h is read, in place of the library's mpicc
    #[arg(long)]
    mpicc: Option<String>,
    /// The launcher, in place of the library's mpiexec
    #[arg(long)]
    mpiexec: Option<String>,
    /// A further word for the launcher; may be repeated
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    launcher_option: Vec<String>,
    /// Ranks of programs that no list says anything of
    #[arg(long, default_value_t = 4)]
    ranks: u32,
    /// Most ranks of any program
    #[arg(long, default_value_t = 4)]
    most_ranks: u32,
    /// Seconds that a program may take
    #[arg(long, default_value_t = 30)]
    limit: u64,
    /// Only these modes; else all, wire on Open MPI
    #[arg(long, value_delimiter = ',')]
    modes: Vec<Mode>,
    /// Only programs whose name contains this
    #[arg(long)]
    only: Option<String>,
    /// Lines of one program in a testlist that are taken
    #[arg(long, default_value_t = 1)]
    variants: usize,
    /// Only each N-th program
    #[arg(long, default_value_t = 1, value_name = "N")]
    every: usize,
    /// Begins no program after so many minutes
    #[arg(long)]
    minutes: Option<f64>,
    /// Pairs of runs that are added where runs differ
    #[arg(long, default_value_t = 2)]
    repeats: u32,
    /// Counts nothing: only the shim is between program and library
    #[arg(long)]
    no_counter: bool,
    /// throughline-exec
    #[arg(long)]
    exec: PathBuf,
    /// Folder of the shim's objects
    #[arg(long)]
    objects: PathBuf,
    /// Writes all results there
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Cli {
    fn tool(&self, given: Option<&String>, name: &str) -> String {
        match (given, &self.bin) {
            (Some(given), _) => given.clone(),
            (None, Some(folder)) => folder.join(name).display().to_string(),
            (None, None) => format!("{name}.{}", self.mpi),
        }
    }

    fn programs(&self, version: (u32, u32)) -> anyhow::Result<Vec<Program>> {
        let defaults = Defaults {
            ranks: self.ranks,
            most_ranks: self.most_ranks,
            limit: Duration::from_secs(self.limit),
            variants: self.variants,
            version,
        };
        let mut found = Vec::new();
        for folder in &self.folders {
            found.extend(programs::of_folder(folder, &defaults)?);
        }
        for file in &self.commands {
            found.extend(programs::of_list(file, &defaults)?);
        }
        found.retain(|program| self.only.as_ref().is_none_or(|part| program.name.contains(part.as_str())));
        Ok(found.into_iter().step_by(self.every.max(1)).collect())
    }

    fn modes(&self, family: Family) -> Vec<Mode> {
        let all = [Mode::Plain, Mode::Trace, Mode::Wire];
        let is_wanted = |mode: &Mode| match self.modes.as_slice() {
            [] => *mode != Mode::Wire || family == Family::OpenMpi,
            some => some.contains(mode),
        };
        all.into_iter().filter(is_wanted).collect()
    }
}

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    let mpicc = cli.tool(cli.mpicc.as_ref(), "mpicc");
    let header = Header::read(&mpicc)?;
    let programs = cli.programs(header.version)?;
    ensure!(
        !programs.is_empty(),
        "no program: name a folder of programs that were built with {mpicc}, or --commands"
    );
    let folder = tempfile::tempdir()?;
    let counter = if cli.no_counter { None } else { Some(header.make_counter(&mpicc, folder.path())?) };
    let bench = Bench {
        family: header.family,
        mpiexec: cli.tool(cli.mpiexec.as_ref(), "mpiexec"),
        options: cli.launcher_option.clone(),
        exec: cli.exec.canonicalize()?,
        objects: cli.objects.canonicalize()?,
        counter,
        socket: folder.path().join("mpi.sock"),
        folder: folder.path().to_owned(),
    };
    let mut report = Report {
        library: format!("{} by {}", header.library, bench.mpiexec),
        wrapped: if cli.no_counter { 0 } else { header.wrapped() },
        not_run: 0,
        lost_frames: 0,
        malformed_messages: 0,
        programs: Vec::new(),
    };
    println!(
        "{}: {} programs; the counter wraps {} functions",
        report.library,
        programs.len(),
        report.wrapped
    );
    let modes = cli.modes(header.family);
    run_all(&cli, &bench, &programs, &modes, &mut report)?;
    report.print(&modes);
    if let Some(path) = &cli.json {
        report.write(path)?;
    }
    Ok(if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::from(FOUND) })
}

fn run_all(
    cli: &Cli,
    bench: &Bench,
    programs: &[Program],
    modes: &[Mode],
    report: &mut Report,
) -> anyhow::Result<()> {
    Bench::adopt_orphans()?;
    let agent = Agent::start(&bench.socket)?;
    let end = cli.minutes.map(|minutes| Instant::now() + Duration::from_secs_f64(minutes * 60.0));
    for program in programs {
        if end.is_some_and(|end| Instant::now() > end) {
            report.not_run += 1;
            continue;
        }
        let entry = one(bench, &agent, program, modes, cli.repeats)?;
        println!("{}", line(&entry));
        entry.print_differences();
        report.programs.push(entry);
    }
    (report.lost_frames, report.malformed_messages) = agent.stop();
    Ok(())
}

fn one(
    bench: &Bench,
    agent: &Agent,
    program: &Program,
    modes: &[Mode],
    repeats: u32,
) -> anyhow::Result<Entry> {
    let mut judge = Judge::start(bench, agent, program, repeats)?;
    let bare = judge.bare();
    let mut entry = Entry {
        program: program.name.clone(),
        ranks: program.ranks,
        seconds: bare.seconds,
        code: bare.code,
        is_over_limit: bare.is_over_limit,
        modes: Vec::new(),
    };
    if !entry.is_over_limit {
        entry.modes = modes.iter().map(|mode| judge.judge(*mode)).collect::<anyhow::Result<_>>()?;
    }
    Ok(entry)
}

/// A program's line while it goes on.
fn line(entry: &Entry) -> String {
    let mut text = format!("  {:<44} bare {:>6.2} s", entry.program, entry.seconds);
    if entry.is_over_limit {
        return text + ", over its limit: not run with the shim";
    }
    if entry.code != 0 {
        text += &format!(", fails with {}", entry.code);
    }
    for judged in &entry.modes {
        let verdict = match judged.verdict {
            Verdict::Same => "same",
            Verdict::Race => "launcher's race",
            Verdict::UnsteadyBare => "unsteady bare",
            Verdict::TimeLimit => "time limit",
            Verdict::Different => "DIFFERENT",
        };
        text += &format!("; {} {:.2} s {verdict}", judged.mode.name(), judged.seconds);
    }
    text
}
