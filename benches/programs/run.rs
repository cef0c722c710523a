//! Runs one program with the shim or without, and keeps of it what must be the same each time. Judges nothing.

use crate::catalogue::{Mpi, Program, find};
use anyhow::{Context, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;
use throughline_mpit_bridge::exec::Search;

/// A program that has not ended after this long hangs: the slowest takes seconds on an idle machine. timeout(1) then
/// ends it, with status 124.
const LONGEST_SECONDS: &str = "600";

/// What all runs have in common.
pub struct Bench {
    folder: PathBuf,
    exec: PathBuf,
    socket: PathBuf,
    ranks: u32,
}

/// What stands between the program and MPI in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Between {
    /// Nothing.
    Nothing,
    /// The shim, as users load it.
    Shim,
    /// Wrappers that only count (least.c).
    Least,
}

impl Between {
    /// As a difference is reported.
    pub fn words(self) -> &'static str {
        match self {
            Between::Nothing => "without the shim",
            Between::Shim => "with the shim",
            Between::Least => "with wrappers that only count",
        }
    }
}

/// What must be the same in each run.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// The lines kept, sorted: ranks print in any order.
    pub lines: Vec<String>,
    /// Exit status.
    pub status: Option<i32>,
    last: Vec<String>,
}

impl Shown {
    /// The last lines of the program's output, where a cause may be found.
    pub fn last_words(&self) -> impl Iterator<Item = &String> {
        self.last.iter()
    }

    /// How another run differs; `None` if it does not.
    pub fn difference(&self, other: &Self) -> Option<String> {
        if self.status != other.status {
            let said = other.last.join("\n    | ");
            return Some(format!("status {:?} instead of {:?}\n    | {said}", other.status, self.status));
        }
        let times = |lines: &[String], line: &str| lines.iter().filter(|one| *one == line).count();
        let differs = |line: &&String| times(&self.lines, line) != times(&other.lines, line);
        let line = self.lines.iter().chain(&other.lines).find(differs)?;
        Some(format!("{line:?} {} times instead of {}", times(&other.lines, line), times(&self.lines, line)))
    }
}

impl Bench {
    /// A folder with all that programs need.
    pub fn new(folder: &Path, ranks: u32) -> anyhow::Result<Self> {
        for mpi in [Mpi::Openmpi, Mpi::Mpich] {
            compile(mpi, folder, "osu.c", &osu(mpi), &[])
                .unwrap_or_else(|error| println!("left out: OSU-style set: {error:#}"));
        }
        // What MPICH's ABI calls its library, for programs of other builds.
        if let Some(library) = Search::of_system("").cache.get("libmpich.so.12") {
            std::os::unix::fs::symlink(library, folder.join("libmpi.so.12"))?;
        }
        Ok(Self {
            folder: folder.to_owned(),
            exec: beside("throughline-exec")?,
            socket: folder.join("mpi.sock"),
            ranks,
        })
    }

    /// Where the ranks find the agent.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// What a program lacks to be run.
    pub fn missing(&self, program: &Program) -> Option<String> {
        let word = program.command.first().cloned().unwrap_or_default();
        [word, launcher(program.mpi)].into_iter().find(|word| find(word).is_none())
    }

    /// Makes what [`Between::Least`] loads.
    pub fn make_least(&self) -> anyhow::Result<()> {
        [Mpi::Openmpi, Mpi::Mpich]
            .into_iter()
            .try_for_each(|mpi| compile(mpi, &self.folder, "least.c", &least(mpi), &["-shared", "-fPIC"]))
    }

    /// Seconds of one run, and what it showed.
    pub fn run(&self, program: &Program, between: Between) -> anyhow::Result<(f64, Shown)> {
        for (name, text) in &program.files {
            std::fs::write(self.folder.join(name), text)?;
        }
        if let Some(name) = program.result {
            // Programs append to it.
            let _ = std::fs::remove_file(self.folder.join(name));
        }
        let mut command = Command::new("timeout");
        command.args(["-k", "10", LONGEST_SECONDS, &launcher(program.mpi)]);
        command.args(["-n", &self.ranks.to_string()]);
        command.current_dir(&self.folder).env_remove("LD_PRELOAD");
        command.envs(program.variables.iter().map(|(name, value)| (*name, value)));
        if program.mpi == Mpi::Openmpi {
            command.args(["--oversubscribe", "--mca", "btl", "self,vader"]);
            command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        }
        match between {
            Between::Nothing => {}
            Between::Shim => {
                command.env("THROUGHLINE_SOCKET", &self.socket).arg(&self.exec);
            }
            Between::Least => {
                let library = self.folder.join(least(program.mpi));
                command.arg("env").arg(format!("LD_PRELOAD={}", library.display()));
            }
        }
        command.args(&program.command);
        let begin = Instant::now();
        let output = command.output().context("timeout cannot run; it is in coreutils")?;
        let seconds = begin.elapsed().as_secs_f64();
        Ok((seconds, self.shown(program, &output)))
    }

    fn shown(&self, program: &Program, output: &Output) -> Shown {
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text += &String::from_utf8_lossy(&output.stderr);
        let spoken: Vec<_> = text.lines().map(str::to_owned).collect();
        if let Some(name) = program.result {
            text += &std::fs::read_to_string(self.folder.join(name)).unwrap_or_default();
        }
        let mut lines: Vec<_> = text.lines().filter_map(program.kept).collect();
        lines.sort();
        let last = spoken[spoken.len().saturating_sub(5)..].to_vec();
        Shown { lines, status: output.status.code(), last }
    }
}

fn launcher(mpi: Mpi) -> String {
    format!("mpirun.{}", mpi.name())
}

fn osu(mpi: Mpi) -> String {
    format!("osu.{}", mpi.name())
}

fn least(mpi: Mpi) -> String {
    format!("libleast.{}.so", mpi.name())
}

fn compile(mpi: Mpi, folder: &Path, source: &str, made: &str, options: &[&str]) -> anyhow::Result<()> {
    let compiler = format!("mpicc.{}", mpi.name());
    let source = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/programs")).join(source);
    let mut command = Command::new(&compiler);
    command.args(["-O2", "-Wall", "-Wextra"]).args(options).arg("-o").arg(folder.join(made)).arg(source);
    let status = command.status().with_context(|| format!("{compiler} is not there: make deps"))?;
    ensure!(status.success(), "{compiler}: {status}");
    Ok(())
}

/// A program built into the same folder as this one.
fn beside(name: &str) -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let program = own.parent().unwrap_or(Path::new(".")).join(name);
    ensure!(program.exists(), "{} is not there: benches/mpi-programs.sh builds it", program.display());
    Ok(program)
}
