//! Whether runs under the shim differ from runs without it, and whether the program itself differs from run to run. Runs are
//! repeated in turn where they differ, so that load and launchers' races are kept apart from what the shim does.

use crate::programs::Program;
use crate::run::{Bench, Mode, Run};
use crate::truth::{Agent, Compared};
use serde::Serialize;
use std::time::Duration;

/// How much longer both may take where the shim's run met the time limit.
const PATIENCE: u32 = 3;
/// Ratio and seconds by which a run is slower than without the shim, and looked at again.
const SLOWER: (f64, f64) = (1.5, 1.0);
/// The same for the fastest of all repeated runs, which is a difference if also each of them took longer than each without the
/// shim: what else goes on on the machine falls on both.
const SLOWER_AT_BEST: (f64, f64) = (1.25, 0.5);
/// Pairs of runs that are added where a run is slower: of five and six, one order of 462 has all of one before all others.
const TIME_PAIRS: u32 = 5;
/// Shells and MPICH name a signal in the exit code so; codes from here on are of signals.
const SIGNALS_FROM: i32 = 128;
/// Signals that MPICH's launcher gives as the code itself, where a process died: SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV.
const CRASHES: [i32; 5] = [4, 6, 7, 8, 11];

/// What came of a program in one mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The same.
    Same,
    /// Which of several ranks that abort comes first: both fail, with lines and codes of other ranks.
    Race,
    /// Runs without the shim differ among themselves in the same way.
    UnsteadyBare,
    /// Over the limit without the shim as well, or within it when repeated.
    TimeLimit,
    /// The shim's runs differ.
    Different,
}

/// A program in one mode.
#[derive(Debug, Serialize)]
pub struct Judged {
    /// The mode.
    pub mode: Mode,
    /// What came of it.
    pub verdict: Verdict,
    /// What differs, a line each; empty where nothing does.
    pub differences: Vec<String>,
    /// Command that repeats it.
    pub command: String,
    /// Seconds of the first run.
    pub seconds: f64,
    /// Exit code of the first run.
    pub code: i32,
    /// Ranks, calls and bytes that were compared with the counter.
    pub ranks: u64,
    /// Ranks whose counts could not be had.
    pub ranks_not_compared: u64,
    /// Calls.
    pub calls: u64,
    /// Bytes.
    pub bytes: u64,
}

/// One program without the shim and in each mode.
pub struct Judge<'a> {
    bench: &'a Bench,
    agent: &'a Agent,
    program: &'a Program,
    repeats: u32,
    bare: Vec<Run>,
}

impl<'a> Judge<'a> {
    /// Runs it without the shim.
    pub fn start(
        bench: &'a Bench,
        agent: &'a Agent,
        program: &'a Program,
        repeats: u32,
    ) -> anyhow::Result<Self> {
        let bare = vec![bench.run(program, Mode::Bare, program.limit, false)?];
        Ok(Self { bench, agent, program, repeats, bare })
    }

    /// The first run without the shim.
    pub fn bare(&self) -> &Run {
        &self.bare[0]
    }

    fn run(&self, mode: Mode, limit: Duration) -> anyhow::Result<(Run, Compared)> {
        self.agent.clear();
        let run = self.bench.run(self.program, mode, limit, true)?;
        let compared = if self.bench.counter.is_some() {
            self.agent.compare(&self.bench.counted(), run.code != 0)?
        } else {
            Compared::default()
        };
        Ok((run, compared))
    }

    /// Runs and judges it in a mode.
    pub fn judge(&mut self, mode: Mode) -> anyhow::Result<Judged> {
        let (run, compared) = self.run(mode, self.program.limit)?;
        let mut differences: Vec<String> = compared.wrong.clone();
        let verdict = if run.is_over_limit {
            self.judge_limit(mode, &mut differences)?
        } else if self.is_as_bare(&run) {
            self.judge_time(mode, &run, &mut differences)?
        } else {
            self.judge_again(mode, &run, &mut differences)?
        };
        let is_different = !differences.is_empty();
        Ok(Judged {
            mode,
            verdict: if is_different { Verdict::Different } else { verdict },
            differences,
            command: self.bench.repeated_by(self.program, mode),
            seconds: run.seconds,
            code: run.code,
            ranks: compared.ranks,
            ranks_not_compared: compared.not_compared,
            calls: compared.calls,
            bytes: compared.bytes,
        })
    }

    fn is_as_bare(&self, run: &Run) -> bool {
        self.bare.iter().any(|bare| is_same(bare, run))
    }

    /// Over its limit: both have more time.
    fn judge_limit(&mut self, mode: Mode, differences: &mut Vec<String>) -> anyhow::Result<Verdict> {
        let limit = self.program.limit * PATIENCE;
        let bare = self.bench.run(self.program, Mode::Bare, limit, false)?;
        let (run, compared) = self.run(mode, limit)?;
        differences.extend(compared.wrong);
        if run.is_over_limit && !bare.is_over_limit {
            differences.push(format!(
                "over its limit of {} s, and again over {} s, where it took {:.1} s without the shim",
                self.program.limit.as_secs(),
                limit.as_secs(),
                bare.seconds
            ));
        }
        self.bare.push(bare);
        Ok(Verdict::TimeLimit)
    }

    /// Slower by much: the fastest of repeated runs decides.
    fn judge_time(
        &mut self,
        mode: Mode,
        run: &Run,
        differences: &mut Vec<String>,
    ) -> anyhow::Result<Verdict> {
        let fastest = |runs: &[Run]| runs.iter().map(|run| run.seconds).fold(f64::INFINITY, f64::min);
        let slowest = |runs: &[Run]| runs.iter().map(|run| run.seconds).fold(0.0, f64::max);
        let is_slower =
            |one: f64, bare: f64, (ratio, seconds): (f64, f64)| one > bare * ratio && one > bare + seconds;
        if !is_slower(run.seconds, fastest(&self.bare), SLOWER) {
            return Ok(Verdict::Same);
        }
        let mut runs = Vec::new();
        for _ in 0..TIME_PAIRS {
            let limit = self.program.limit * PATIENCE;
            self.bare.push(self.bench.run(self.program, Mode::Bare, limit, false)?);
            // What the counter costs is not the shim's.
            runs.push(self.bench.run(self.program, mode, limit, false)?);
            if fastest(&runs) <= slowest(&self.bare) {
                return Ok(Verdict::Same);
            }
        }
        let (one, bare) = (fastest(&runs), fastest(&self.bare));
        if is_slower(one, bare, SLOWER_AT_BEST) {
            differences.push(format!("slower: {one:.2} s instead of {bare:.2} s, fastest of {}", runs.len()));
        }
        Ok(Verdict::Same)
    }

    /// Another end or output: repeated in turn, as programs differ from run to run by themselves.
    fn judge_again(
        &mut self,
        mode: Mode,
        first: &Run,
        differences: &mut Vec<String>,
    ) -> anyhow::Result<Verdict> {
        let mut runs = vec![first.clone()];
        for _ in 0..self.repeats {
            self.bare.push(self.bench.run(self.program, Mode::Bare, self.program.limit, false)?);
            let (run, compared) = self.run(mode, self.program.limit)?;
            differences.extend(compared.wrong);
            runs.push(run);
        }
        let different: Vec<_> = runs.iter().filter(|run| !self.is_as_bare(run)).collect();
        let Some(shown) = different.first() else { return Ok(Verdict::UnsteadyBare) };
        if different.iter().all(|run| self.is_race(run)) {
            return Ok(Verdict::Race);
        }
        let how = difference(&self.bare[0], shown);
        let times = format!(
            "{how}; {} of {} runs, of {} without the shim",
            different.len(),
            runs.len(),
            self.bare.len()
        );
        differences.push(times);
        differences.extend(shown.last.iter().map(|line| format!("| {line}")));
        Ok(Verdict::Different)
    }

    /// All fail, nothing crashed that did not without the shim, and no line is new.
    fn is_race(&self, run: &Run) -> bool {
        let is_crash = |code: i32| code >= SIGNALS_FROM || CRASHES.contains(&code);
        let crashed_bare = self.bare.iter().any(|bare| is_crash(bare.code));
        let fails = |run: &Run| run.code != 0 && !run.is_over_limit;
        let shown: Vec<_> = self.bare.iter().map(|bare| &bare.shown).collect();
        fails(run)
            && self.bare.iter().all(fails)
            && (crashed_bare || !is_crash(run.code))
            && run.left_over.is_empty()
            && run.shown.beyond(&shown).is_empty()
    }
}

fn is_same(bare: &Run, run: &Run) -> bool {
    (bare.code, bare.is_over_limit) == (run.code, run.is_over_limit)
        && (run.left_over.is_empty() || !bare.left_over.is_empty())
        && bare.shown.is_same(&run.shown)
}

/// How a run differs from one without the shim.
fn difference(bare: &Run, run: &Run) -> String {
    if bare.code != run.code {
        return format!("exit code {} instead of {}", run.code, bare.code);
    }
    if !run.left_over.is_empty() && bare.left_over.is_empty() {
        return format!("left over: {}", run.left_over.join(", "));
    }
    let how = bare.shown.difference(&run.shown);
    format!("output: {}", how.unwrap_or_else(|| "as without the shim, but not its time".to_owned()))
}
