//! Runs one program under the launcher in a mode, in a folder of its own, within its time, and ends what it leaves over.
//! Judges nothing.

use crate::counter::Family;
use crate::output::Shown;
use crate::programs::Program;
use anyhow::Context;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How often it is looked whether a program has ended.
const LOOK: Duration = Duration::from_millis(10);
/// How long processes may take to go once the launcher has ended, or was requested to end.
const GRACE: Duration = Duration::from_secs(3);
/// Most of an output that is read.
const OUTPUT_MAX: usize = 4 << 20;
/// Lines of an output's end that a report shows.
const LAST_LINES: usize = 6;

/// What stands between launcher and program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Nothing
    Bare,
    /// The shim
    Plain,
    /// The shim in trace mode
    Trace,
    /// The shim with THROUGHLINE_WIRE=1
    Wire,
}

impl Mode {
    /// As tables name it.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Bare => "bare",
            Mode::Plain => "plain",
            Mode::Trace => "trace",
            Mode::Wire => "wire",
        }
    }
}

/// What all runs have in common.
pub struct Bench {
    /// Whose launcher it is.
    pub family: Family,
    /// The launcher.
    pub mpiexec: String,
    /// Options of the launcher from the user.
    pub options: Vec<String>,
    /// `throughline-exec`.
    pub exec: PathBuf,
    /// Folder of the shim's objects.
    pub objects: PathBuf,
    /// The counter; nothing is counted without.
    pub counter: Option<PathBuf>,
    /// The receiver's socket.
    pub socket: PathBuf,
    /// Where runs have their folders.
    pub folder: PathBuf,
}

/// One run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Exit code; 128 and the signal's number where one ended the launcher.
    pub code: i32,
    /// It was ended, as its time was over.
    pub is_over_limit: bool,
    /// How long it took.
    pub seconds: f64,
    /// What it printed.
    pub shown: Shown,
    /// The end of it as it was.
    pub last: Vec<String>,
    /// Commands of processes that it left running.
    pub left_over: Vec<String>,
}

/// A command line with its variables.
struct Line {
    variables: Vec<(String, String)>,
    words: Vec<String>,
}

impl Bench {
    /// Makes processes that lose their parent children of this one, so that they are found and ended.
    pub fn adopt_orphans() -> anyhow::Result<()> {
        nix::sys::prctl::set_child_subreaper(true).context("processes that programs leave can't be found")
    }

    /// The launcher's command; where it is for people, without what only this process has.
    fn line(&self, program: &Program, mode: Mode, is_counted: bool, is_for_people: bool) -> Line {
        let mut words = vec![self.mpiexec.clone(), "-n".to_owned(), program.ranks.to_string()];
        let mut variables = program.variables.clone();
        let mut set = |name: &str, value: String| variables.push((name.to_owned(), value));
        if self.family == Family::OpenMpi {
            words.push("--oversubscribe".to_owned());
            if nix::unistd::geteuid().is_root() {
                words.push("--allow-run-as-root".to_owned());
            }
        }
        words.extend(self.options.iter().chain(&program.launcher).cloned());
        if mode != Mode::Bare {
            set("THROUGHLINE_LIB_DIR", self.objects.display().to_string());
            if !is_for_people {
                set("THROUGHLINE_SOCKET", self.socket.display().to_string());
                set("THROUGHLINE_TRACE_DIR", self.folder.display().to_string());
            }
            if let Some(counter) = self.counter.as_ref().filter(|_| is_counted) {
                set("MPI_COUNTER_DIR", self.counted().display().to_string());
                // Not for the launcher: the library is not the launcher's.
                words.extend(["env".to_owned(), format!("LD_PRELOAD={}", counter.display())]);
            }
            words.push(self.exec.display().to_string());
        }
        match mode {
            Mode::Trace => words.push("--trace".to_owned()),
            Mode::Wire => set("THROUGHLINE_WIRE", "1".to_owned()),
            Mode::Bare | Mode::Plain => {}
        }
        words.extend(program.command.iter().cloned());
        Line { variables, words }
    }

    /// How a person repeats a run, without the counter and with the agent that is there, if any.
    pub fn repeated_by(&self, program: &Program, mode: Mode) -> String {
        let Line { variables, words } = self.line(program, mode, false, true);
        let variables = variables.iter().map(|(name, value)| format!("{name}={}", quoted(value)));
        variables.chain(words.iter().map(|word| quoted(word))).collect::<Vec<_>>().join(" ")
    }

    /// Where ranks write what they counted.
    pub fn counted(&self) -> PathBuf {
        self.folder.join("counted")
    }

    /// One run, within `limit`, with the counter or without.
    pub fn run(
        &self,
        program: &Program,
        mode: Mode,
        limit: Duration,
        is_counted: bool,
    ) -> anyhow::Result<Run> {
        let _ = std::fs::remove_dir_all(self.counted());
        std::fs::create_dir_all(self.counted())?;
        let folder = tempfile::Builder::new().prefix("run").tempdir_in(&self.folder)?;
        let place = folder.path().join("here");
        std::fs::create_dir(&place)?;
        if let Some(beside) = &program.beside {
            link_programs(beside, &place)?;
        }
        let printed = folder.path().join("printed");
        let file = std::fs::File::create(&printed)?;
        let Line { variables, words } = self.line(program, mode, is_counted, false);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).envs(variables).env_remove("LD_PRELOAD").current_dir(&place);
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).process_group(0);
        let begin = Instant::now();
        let mut child = command.spawn().with_context(|| format!("{}: make deps", self.mpiexec))?;
        let (status, is_over_limit) = wait(&mut child, limit)?;
        let seconds = begin.elapsed().as_secs_f64();
        let left_over = end_descendants(if is_over_limit { Duration::ZERO } else { GRACE });
        let text = read(&printed)?;
        let lines: Vec<_> = text.lines().map(str::to_owned).collect();
        Ok(Run {
            code: status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
            is_over_limit,
            seconds,
            shown: Shown::of(&text, &place.display().to_string()),
            last: lines[lines.len().saturating_sub(LAST_LINES)..].to_vec(),
            left_over: if is_over_limit { Vec::new() } else { left_over },
        })
    }
}

/// As a shell reads it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:^+%@".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// Executables that lie beside a program: some start each other by `./name`.
fn link_programs(from: &Path, to: &Path) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(from)?.filter_map(Result::ok) {
        let data = entry.metadata()?;
        let is_executable = std::os::unix::fs::PermissionsExt::mode(&data.permissions()) & 0o111 != 0;
        if data.is_file() && is_executable {
            std::os::unix::fs::symlink(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

fn read(path: &Path) -> anyhow::Result<String> {
    let mut bytes = std::fs::read(path)?;
    bytes.truncate(OUTPUT_MAX);
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Waits for the launcher; over its limit it is requested to end, which ends its ranks, and after that it is killed.
fn wait(child: &mut Child, limit: Duration) -> anyhow::Result<(ExitStatus, bool)> {
    let ended_within = |child: &mut Child, limit: Duration| -> std::io::Result<Option<ExitStatus>> {
        let end = Instant::now() + limit;
        loop {
            let status = child.try_wait()?;
            if status.is_some() || Instant::now() >= end {
                return Ok(status);
            }
            std::thread::sleep(LOOK);
        }
    };
    if let Some(status) = ended_within(child, limit)? {
        return Ok((status, false));
    }
    let _ = kill(Pid::from_raw(i32::try_from(child.id())?), Signal::SIGTERM);
    if let Some(status) = ended_within(child, GRACE)? {
        return Ok((status, true));
    }
    child.kill()?;
    Ok((child.wait()?, true))
}

/// Waits until all descendants have gone; those that have not are killed, by process id, and named.
fn end_descendants(grace: Duration) -> Vec<String> {
    let end = Instant::now() + grace;
    loop {
        reap();
        if descendants().is_empty() {
            return Vec::new();
        }
        if Instant::now() >= end {
            break;
        }
        std::thread::sleep(LOOK);
    }
    let left = descendants();
    let names = left.iter().map(|pid| command_of(*pid)).collect();
    for pid in left {
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
    let end = Instant::now() + GRACE;
    while !descendants().is_empty() && Instant::now() < end {
        std::thread::sleep(LOOK);
        reap();
    }
    names
}

fn command_of(pid: i32) -> String {
    let text = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&text).replace('\0', " ").trim().to_owned()
}

/// Children of this process that have ended. Only called while no other command of this process runs.
fn reap() {
    for pid in children(std::process::id().cast_signed()) {
        let _ = waitpid(Pid::from_raw(pid), Some(WaitPidFlag::WNOHANG));
    }
}

fn descendants() -> Vec<i32> {
    let mut found = children(std::process::id().cast_signed());
    let mut at = 0;
    while at < found.len() {
        let more = children(found[at]);
        found.extend(more);
        at += 1;
    }
    found
}

fn children(pid: i32) -> Vec<i32> {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let lists = tasks.filter_map(Result::ok).map(|task| task.path().join("children"));
    let text: String =
        lists.filter_map(|path| std::fs::read_to_string(path).ok()).collect::<Vec<_>>().join(" ");
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}
