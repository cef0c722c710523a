//! Queries of a bench's private database, by psql.

use anyhow::Context;
use std::path::Path;
use std::process::{Command, Output};

/// The way to the database of a state folder.
pub struct Psql(String);

impl Psql {
    /// As its owner; `folder` has the state folder of a server in `state`.
    ///
    /// # Errors
    /// The database does not run.
    pub fn new(program: &Path, folder: &Path) -> anyhow::Result<Self> {
        let status = Command::new(program)
            .args(["db", "status", "--state-dir"])
            .arg(folder.join("state"))
            .output()
            .with_context(|| program.display().to_string())?;
        let text = String::from_utf8_lossy(&status.stdout).into_owned();
        let psql = text.lines().find_map(|line| line.strip_prefix("psql ")).context("psql in `db status`")?;
        Ok(Self(psql.trim().replace("-U throughline_read", "-U throughline")))
    }

    fn run(&self, arguments: &str, last: &str) -> anyhow::Result<String> {
        let command = format!("{} -v ON_ERROR_STOP=1 {arguments}", self.0);
        let Output { status, stdout, stderr } = Command::new("sh").args(["-c", &command, last]).output()?;
        anyhow::ensure!(status.success(), "{last}: {}", String::from_utf8_lossy(&stderr));
        Ok(String::from_utf8(stdout)?)
    }

    /// Rows of fields as text.
    ///
    /// # Errors
    /// The statement fails.
    pub fn query(&self, sql: &str) -> anyhow::Result<Vec<Vec<String>>> {
        let text = self.run("-qAtF '|' -c \"$0\"", sql)?;
        Ok(text.lines().map(|line| line.split('|').map(str::to_owned).collect()).collect())
    }

    /// The one number that a statement returns.
    ///
    /// # Errors
    /// The statement fails, or returns something else.
    pub fn number(&self, sql: &str) -> anyhow::Result<f64> {
        let rows = self.query(sql)?;
        let text = rows.first().and_then(|row| row.first()).with_context(|| format!("{sql}: no row"))?;
        text.parse().with_context(|| format!("{sql}: {text}"))
    }

    /// Rows of a statement, and the median of its times in so many runs of one session, seconds.
    ///
    /// # Errors
    /// The statement fails.
    pub fn timed(&self, sql: &str, runs: usize) -> anyhow::Result<(usize, f64)> {
        let each = "-c \"$0\" ".repeat(runs);
        let text = self.run(&format!("-Atc '\\timing on' {each}"), sql)?;
        let is_time = |line: &&str| line.starts_with("Time: ");
        let times = text.lines().filter(is_time).filter_map(|line| line.split(' ').nth(1)?.parse().ok());
        let mut times: Vec<f64> = times.collect();
        anyhow::ensure!(times.len() == runs, "{sql}: {} times of {runs} runs", times.len());
        times.sort_by(f64::total_cmp);
        let rows = text.lines().filter(|line| !is_time(line) && !line.starts_with("Timing")).count() / runs;
        Ok((rows, times[runs / 2] / 1000.0))
    }
}
