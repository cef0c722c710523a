//! `throughline job trace`: a job on one time axis, as a file for Chrome's and Perfetto's viewers: its calls and messages, or its operations
//! step by step where it was not traced, and under them what its nodes and links counted and what happened.
//!
//! Page by page from the server to the file: a trace of any length takes the same memory. Clocks of the ranks are lined up here, from what their comparisons with rank 0 said.

mod bins;
mod calls;
mod chrome;
mod clocks;
mod events;
mod export;
mod known;
mod lanes;
mod read;
mod summary;

use super::name::find;
use super::output::Output;
use crate::Server;
use anyhow::Context;
use jiff::SignedDuration;
use known::TracedJob;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use throughline_daemon::Failure;
use throughline_daemon::arguments::duration;

/// Shown below the options.
const HELP: &str = "\
Open the file at https://ui.perfetto.dev or in chrome://tracing. On one time axis it has
  ranks     of a job run with `throughline-exec --trace` (or THROUGHLINE_TRACE=1 in the environment of all
            ranks) each call, one process a rank, one thread a thread, arrows from sends to receives; of
            any other job the share of time inside each operation and its bytes, in steps of 0.1 s where
            nodes still have their record (an hour), else of the rows of a rank, a minute and more
  nodes     NVLinks and PCIe of the job's GPUs, ports of its adapters
  links     the busiest links on its way through the fabric: used, this job's part, how long data waits
  events    of the job, its nodes and the fabric
  verdicts  what slows the job down, from when it was said until when, with evidence
  open      calls that have not returned, or in which ranks were killed
The record of the time is fetched from the nodes unless it was before; standard error shows how far it is, and
a rank's name how long its steps are. Names say how well each is aligned. A counter that was not read stays as it was, and a slice `no value` says so.

Examples:
  throughline job trace slurm:42.0 -o trace.json
  throughline job trace slurm:42.0 -o trace.json --from-seconds 10 --to-seconds 12.5 --ranks 0-3,8
  throughline job trace slurm:42.0 -o trace.json --last 60s --lanes ranks,links
  throughline job trace slurm:42.0 -o - | gzip > trace.json.gz

Times are on rank 0's clock, seconds from the first record, or of a job that was not traced from its start.
Where a clock stepped, the stretch in which it did is marked and times in it are not to be relied on; records
that were lost are marked as well.

Exit status: 0 done, 64 wrong usage or the file is there already, 69 no server, or nothing of this job,
77 no permission, 1 any other failure.";

/// A file of 1 GB: browsers read no more.
const EVENTS_MAX: u64 = 5_000_000;

/// What to write, and where.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = HELP)]
pub struct Options {
    /// Choose the job: key, scheduler's id, unique beginning, `last` or `last-1`
    #[arg(value_name = "JOB")]
    pub job: String,
    /// Write to FILE; - for standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Overwrite the file
    #[arg(long)]
    pub force: bool,
    /// Leave out what ended before, in seconds from the first record
    #[arg(long = "from-seconds", value_name = "SECONDS", value_parser = seconds)]
    pub from: Option<i64>,
    /// Leave out what began after, in seconds from the first record
    #[arg(long = "to-seconds", value_name = "SECONDS", value_parser = seconds)]
    pub to: Option<i64>,
    /// Write only the last so much: 90s, 10m, 1h
    #[arg(long, value_name = "DURATION", value_parser = duration, conflicts_with = "from")]
    pub last: Option<SignedDuration>,
    /// Write only these ranks, for instance 0-3,8
    #[arg(long, value_name = "LIST", value_parser = ranks)]
    pub ranks: Option<Ranks>,
    /// Write only these: ranks, nodes, links, events, verdicts, open
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub lanes: Vec<LaneKind>,
    /// Write at most so many events of ranks, each rank's share of them
    #[arg(long, value_name = "EVENTS", default_value_t = EVENTS_MAX)]
    pub limit: u64,
    /// Write what the database has and fetch nothing from the nodes
    #[arg(long)]
    pub no_fetch: bool,
    /// Leave the clocks as they are
    #[arg(long)]
    pub raw_clocks: bool,
    /// Print the summary as one JSON document
    #[arg(long)]
    pub json: bool,
}

/// What a file can contain.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneKind {
    /// Calls of ranks, or their operations step by step.
    Ranks,
    /// Counters of nodes.
    Nodes,
    /// Links on the job's way.
    Links,
    /// What happened.
    Events,
    /// What is said of the job.
    Verdicts,
    /// Calls that have not returned.
    Open,
}

impl Options {
    /// Whether the file is to have it; all of it unless chosen.
    pub fn has(&self, kind: LaneKind) -> bool {
        self.lanes.is_empty() || self.lanes.contains(&kind)
    }
}

/// Ranks in ranges, both ends included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranks(Vec<(i32, i32)>);

impl Ranks {
    /// Whether a rank is among them.
    pub fn has(&self, rank: i32) -> bool {
        self.0.iter().any(|(first, last)| (*first..=*last).contains(&rank))
    }
}

/// Ranks of a text like `0-3,8`.
pub(super) fn ranks(text: &str) -> Result<Ranks, String> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (0 <= first && first <= last).then_some((first, last))
    };
    let ranges: Option<Vec<_>> = text.split(',').map(range).collect();
    ranges.map(Ranks).ok_or_else(|| "expected ranks like 0-3,8".to_owned())
}

/// A duration in nanoseconds.
fn nanoseconds(duration: SignedDuration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// Nanoseconds of a number of seconds.
fn seconds(text: &str) -> Result<i64, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.0..1e9).contains(seconds));
    seconds.map(|seconds| (seconds * 1e9) as i64).ok_or_else(|| "expected seconds, 0 or more".to_owned())
}

/// Writes the file and says what is in it.
///
/// # Errors
/// 64 when the file is there and `--force` is not; 69 without a server or a trace of the job.
pub fn run(server: &Server, options: &Options) -> anyhow::Result<ExitCode> {
    let output = Output::new(&options.output, options.force)?;
    let job = find(server, &options.job)?;
    let mut traced = read::all_of(server, &job)?;
    let is_traced = !traced.is_empty();
    if let Some(wanted) = &options.ranks {
        traced.retain(|rank| wanted.has(rank.rank));
    }
    let known = TracedJob {
        detail: server.get(&["jobs", &job], &[])?,
        all: server.get(&["jobs", &job, "ranks"], &[])?,
        traced,
    };
    let wanted = |rank: &i32| options.ranks.as_ref().is_none_or(|wanted| wanted.has(*rank));
    if (is_traced && known.traced.is_empty()) || !known.all.ranks.rank.iter().any(wanted) {
        return Err(nothing(&job).into());
    }
    let summary = export::export(server, known, options, output)?;
    let text = if options.json { format!("{}\n", serde_json::to_string(&summary)?) } else { summary.text() };
    // With `-o -` standard output is the trace's.
    let written = if options.output.as_os_str() == "-" {
        std::io::stderr().write_all(text.as_bytes())
    } else {
        std::io::stdout().write_all(text.as_bytes())
    };
    written.context("writing the summary")?;
    Ok(ExitCode::SUCCESS)
}

fn nothing(key: &str) -> Failure {
    Failure::unavailable(format!(
        "nothing to write of job {key}: these ranks are none of its, have no records, or are older than the retention"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_ranks() {
        let some = ranks("0-3, 8").unwrap();
        let has: Vec<i32> = (0..10).filter(|rank| some.has(*rank)).collect();
        assert_eq!(has, [0, 1, 2, 3, 8]);
        for wrong in ["", "a", "3-1", "-1", "1,,2"] {
            assert!(ranks(wrong).is_err(), "{wrong}");
        }
        assert_eq!(seconds("1.5"), Ok(1_500_000_000));
        assert!(seconds("-1").is_err() && seconds("nan").is_err());
    }
}
