//! What came of all programs: a table by mode, the differences with the commands that repeat them, and JSON.

use crate::judge::{Judged, Verdict};
use crate::run::Mode;
use serde::Serialize;
use std::path::Path;

/// One program.
#[derive(Debug, Serialize)]
pub struct Entry {
    /// Its name.
    pub program: String,
    /// Ranks.
    pub ranks: u32,
    /// Seconds without the shim.
    pub seconds: f64,
    /// Exit code without the shim.
    pub code: i32,
    /// It took longer than its limit without the shim, and was not run with it.
    pub is_over_limit: bool,
    /// What came of it in each mode.
    pub modes: Vec<Judged>,
}

impl Entry {
    /// What differs, and how a person repeats it.
    pub fn print_differences(&self) {
        for judged in self.modes.iter().filter(|judged| judged.verdict == Verdict::Different) {
            println!("\nDIFFERENT, {}: {}, {} ranks", judged.mode.name(), self.program, self.ranks);
            judged.differences.iter().for_each(|line| println!("    {line}"));
            println!("    repeat: {}", judged.command);
        }
    }
}

/// All of them.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The library, as its header and launcher name it.
    pub library: String,
    /// Functions that the counter wraps; 0 without it.
    pub wrapped: usize,
    /// Programs for which no time was left.
    pub not_run: usize,
    /// Frames of ranks that were lost on the way to the receiver.
    pub lost_frames: u64,
    /// Messages that the receiver could not read.
    pub malformed_messages: u64,
    /// The programs.
    pub programs: Vec<Entry>,
}

impl Report {
    /// Whether the shim changed nothing.
    pub fn is_clean(&self) -> bool {
        self.malformed_messages == 0
            && self
                .programs
                .iter()
                .flat_map(|entry| &entry.modes)
                .all(|mode| mode.verdict != Verdict::Different)
    }

    /// Prints it for people; the differences themselves were printed when they were found.
    pub fn print(&self, modes: &[Mode]) {
        let bare_limit = self.programs.iter().filter(|entry| entry.is_over_limit).count();
        let failing = self.programs.iter().filter(|entry| entry.code != 0 && !entry.is_over_limit).count();
        println!(
            "\n{}: {} programs; without the shim {failing} fail and {bare_limit} meet their time limit; {} \
             not run, as the time was over",
            self.library,
            self.programs.len(),
            self.not_run
        );
        println!(
            "{:<7}{:>6}{:>6}{:>7}{:>10}{:>7}{:>11}{:>14}{:>14}{:>18}{:>17}",
            "mode",
            "runs",
            "same",
            "races",
            "unsteady",
            "limit",
            "DIFFERENT",
            "ranks counted",
            "calls",
            "bytes",
            "seconds (bare)"
        );
        for mode in modes {
            self.print_mode(*mode);
        }
        for entry in &self.programs {
            for judged in entry.modes.iter().filter(|judged| judged.verdict == Verdict::Different) {
                println!("DIFFERENT, {}: {}", judged.mode.name(), entry.program);
            }
        }
        if self.lost_frames + self.malformed_messages > 0 {
            println!("\n{} frames lost, {} messages malformed", self.lost_frames, self.malformed_messages);
        }
    }

    fn print_mode(&self, mode: Mode) {
        let of_mode: Vec<_> = self
            .programs
            .iter()
            .flat_map(|entry| entry.modes.iter().map(move |judged| (entry, judged)))
            .filter(|(_, judged)| judged.mode == mode)
            .collect();
        let count = |verdict| of_mode.iter().filter(|(_, judged)| judged.verdict == verdict).count();
        let sum = |of: fn(&Judged) -> u64| of_mode.iter().map(|(_, judged)| of(judged)).sum::<u64>();
        let seconds: f64 = of_mode.iter().map(|(_, judged)| judged.seconds).sum();
        let bare: f64 = of_mode.iter().map(|(entry, _)| entry.seconds).sum();
        println!(
            "{:<7}{:>6}{:>6}{:>7}{:>10}{:>7}{:>11}{:>14}{:>14}{:>18}{:>17}",
            mode.name(),
            of_mode.len(),
            count(Verdict::Same),
            count(Verdict::Race),
            count(Verdict::UnsteadyBare),
            count(Verdict::TimeLimit),
            count(Verdict::Different),
            sum(|judged| judged.ranks),
            sum(|judged| judged.calls),
            sum(|judged| judged.bytes),
            format!("{seconds:.0} ({bare:.0})")
        );
        let left_out = sum(|judged| judged.ranks_not_compared);
        if left_out > 0 {
            println!(
                "       {left_out} more ranks did not end MPI, or call it through Fortran alone: not counted"
            );
        }
    }

    /// Writes it for programs.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        std::fs::write(path, serde_json::to_vec_pretty(self)?)?;
        Ok(())
    }
}
