//! `throughline job export`: what a job's ranks did with MPI, as a table for pandas or as a tree for Hatchet.

mod rows;
mod tree;

use super::finer::{self, Wanted};
use super::name::find;
use super::output::Output;
use super::trace::{Ranks, ranks};
use crate::Server;
use crate::csv::text_field;
use anyhow::Context;
use rows::{Range, Row, Rows};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use throughline_api::jobs::{JobDetail, JobRanks};
use throughline_daemon::Failure;

/// Shown below the options.
const HELP: &str = "\
csv and json have a row for each rank, annotated region, operation, size class and algorithm: calls, bytes
passed to send, seconds inside, seconds from the return of a call to its completion (empty where nothing
completed later), bytes received. With --step there is a row for each step of time with calls as well: they returned
after `since` and until `time`. The nodes' record, an hour of all bins of 0.1 s, is fetched for it unless it was
before. Without, a step is that of a row in the database, a minute and more of a rank, whatever --step is.
hatchet is the list of Hatchet's GraphFrame.from_literal, always of the whole job: the job, its regions within each
other, and the operations in each, with seconds (inclusive and exclusive), calls and bytes summed over ranks.

Examples:
  throughline job export last -o last.csv
  throughline job export 4711 --step 1 --ranks 0-7 --format json -o steps.json
  throughline job export last --format hatchet -o tree.json

In Python:
  pandas.read_csv('last.csv').groupby('operation').elapsed_seconds.sum()
  hatchet.GraphFrame.from_literal(json.load(open('tree.json'))).tree(metric_column='time (inc)')

Exit status: 0 done, 64 wrong usage or the file is there already, 69 no server, 77 no permission,
1 no such job or any other failure.";

/// How it is written.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A table with a line of names.
    Csv,
    /// An object with the job and an array of rows.
    Json,
    /// A tree for Hatchet.
    Hatchet,
}

/// What to write, and where.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = HELP)]
pub struct Options {
    /// Choose the job: key, scheduler's id, unique beginning, `last` or `last-1`
    #[arg(value_name = "JOB")]
    job: String,
    /// Write to FILE; - for standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// Overwrite the file
    #[arg(long)]
    force: bool,
    /// Write in this format
    #[arg(long, value_enum, default_value_t = Format::Csv)]
    format: Format,
    /// Write a row for each step of so long, at least 0.1 s; without it, all of the time in one row
    #[arg(long, value_name = "SECONDS", value_parser = step)]
    step: Option<i64>,
    /// Write only what returned after, in seconds from the job's start
    #[arg(long = "from-seconds", value_name = "SECONDS", value_parser = milliseconds)]
    from: Option<i64>,
    /// Write only what returned before, in seconds from the job's start
    #[arg(long = "to-seconds", value_name = "SECONDS", value_parser = milliseconds)]
    to: Option<i64>,
    /// Write only these ranks, for instance 0-3,8
    #[arg(long, value_name = "LIST", value_parser = ranks)]
    ranks: Option<Ranks>,
    /// Write what the database has and fetch nothing from the nodes
    #[arg(long)]
    no_fetch: bool,
}

/// Milliseconds of a number of seconds.
fn milliseconds(text: &str) -> Result<i64, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.0..1e9).contains(seconds));
    seconds
        .map(|seconds| (seconds * 1e3).round() as i64)
        .ok_or_else(|| "expected seconds, 0 or more".to_owned())
}

/// The server's shortest and longest steps.
fn step(text: &str) -> Result<i64, String> {
    let step = milliseconds(text).ok().filter(|step| (100..=86_400_000).contains(step));
    step.ok_or_else(|| "expected seconds from 0.1 to 86400".to_owned())
}

/// Writes the file.
///
/// # Errors
/// 64 when the file is there and `--force` is not, or a part of a job is requested as a tree; no such job (1); see [`crate::Error`].
pub fn run(server: &Server, options: &Options) -> anyhow::Result<ExitCode> {
    let has_part =
        options.step.is_some() || options.from.is_some() || options.to.is_some() || options.ranks.is_some();
    if options.format == Format::Hatchet && has_part {
        // Times of regions are sums over the whole job: operations of a part of it would not add up to them.
        let why = "a tree is of the whole job: leave out --step, --from-seconds, --to-seconds and --ranks, or take csv or json";
        return Err(Failure::usage(why).into());
    }
    let mut output = Output::new(&options.output, options.force)?;
    let key = find(server, &options.job)?;
    let detail: JobDetail = server.get(&["jobs", &key], &[])?;
    let all: JobRanks = server.get(&["jobs", &key, "ranks"], &[])?;
    let start = all.ranks.start_ms.iter().min().copied().or(detail.job.start_ms);
    let at = |milliseconds: Option<i64>| Some(start?.saturating_add(milliseconds?));
    let range = Range { from_ms: at(options.from), to_ms: at(options.to), step_ms: options.step };
    let is_wanted = |rank: i32| options.ranks.as_ref().is_none_or(|wanted| wanted.has(rank));
    let is_of_time = options.step.is_some() || options.from.is_some() || options.to.is_some();
    if let (Some(start), true) = (start, is_of_time && !options.no_fetch) {
        // Ranks report the last bins a little after they ended.
        let end = detail.job.end_ms.map_or(i64::MAX, |end| end + AFTER_END_MS);
        let (from_ms, to_ms) = (range.from_ms.unwrap_or(start), range.to_ms.unwrap_or(end));
        let fetched = finer::fetch(
            server,
            &key,
            Wanted { from_ms, to_ms, step_ms: options.step.unwrap_or(BIN_MS), start_ms: detail.job.start_ms },
        );
        writeln!(std::io::stderr(), "{}", fetched.text).context("writing to standard error")?;
    }
    let rows = Rows { server, key: &key, all: &all, range };
    match options.format {
        Format::Csv => csv(rows, is_wanted, &mut output),
        Format::Json => json(rows, is_wanted, &mut output),
        Format::Hatchet => tree::write(server, &detail, rows, is_wanted, &mut output),
    }?;
    output.finish()?;
    Ok(ExitCode::SUCCESS)
}

const WRITING: &str = "writing the file";
/// As the server's `operation-steps` has it where no end is given.
const AFTER_END_MS: i64 = 1_000;
/// What sums of a part of a job are made of.
const BIN_MS: i64 = 100;

fn csv(rows: Rows<'_>, is_wanted: impl Fn(i32) -> bool, out: &mut Output) -> anyhow::Result<()> {
    writeln!(out, "{}", Row::NAMES.join(",")).context(WRITING)?;
    rows.each(is_wanted, |row| {
        let cells = row.cells().into_iter().map(|cell| field(&cell));
        writeln!(out, "{}", cells.collect::<Vec<_>>().join(",")).context(WRITING)
    })
}

/// A value of a table: what is not known is empty.
fn field(cell: &serde_json::Value) -> String {
    match cell {
        serde_json::Value::Null => String::new(),
        serde_json::Value::String(text) => text_field(text),
        other => other.to_string(),
    }
}

fn json(rows: Rows<'_>, is_wanted: impl Fn(i32) -> bool, out: &mut Output) -> anyhow::Result<()> {
    let step = rows.range.step_ms.map(|step| step as f64 / 1e3);
    let head = serde_json::json!({ "job_key": rows.key, "step_seconds": step });
    let head = head.to_string();
    write!(out, "{},\"rows\":[", head.trim_end_matches('}')).context(WRITING)?;
    let mut separator = "\n";
    rows.each(is_wanted, |row| {
        let members = Row::NAMES.iter().map(|name| (*name).to_owned()).zip(row.cells());
        let members: serde_json::Map<_, _> = members.collect();
        write!(out, "{separator}{}", serde_json::Value::Object(members)).context(WRITING)?;
        separator = ",\n";
        Ok(())
    })?;
    writeln!(out, "\n]}}").context(WRITING)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attack_28_cells_of_a_users_text_are_no_formulas_and_numbers_are_as_they_are() {
        let cell = |value: serde_json::Value| field(&value);
        assert_eq!(cell(serde_json::json!("=1+1")), "'=1+1");
        assert_eq!(
            (cell(serde_json::json!(-0.25)), cell(serde_json::Value::Null)),
            ("-0.25".into(), "".into())
        );
        assert_eq!((step("0.1"), milliseconds("1.5")), (Ok(100), Ok(1_500)));
        assert!(step("0.01").is_err() && milliseconds("-1").is_err());
    }
}
