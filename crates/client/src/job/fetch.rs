//! `job fetch`: fetches the full resolution of a job, which stays on its nodes for an hour, into the database.

use super::name::find;
use crate::Server;
use crate::detail::{self, Subject};
use jiff::{SignedDuration, Timestamp};
use std::process::ExitCode;
use throughline_daemon::arguments::{duration, time};

/// Shown below the options.
const HELP: &str = "\
Examples:
  throughline job fetch last                        its last ten minutes, all records
  throughline job fetch last --last 2m --wait       and wait until they are there
  throughline job fetch 4711 --resolution 1s --from 2026-11-25T12:00:00Z --to 2026-11-25T12:10:00Z
  throughline job fetch last --list                 what was requested of it, and what came

Nodes keep an hour or 512 MB (docs/RECORDER.md). What was fetched stays in the database for a day: `job export --step` and
`job trace` read it, and the job's page. Requests are within quotas ([detail] of server.toml).

Exit status with --wait: 0 all is there, 1 a node refused, lost some of it or did not answer in time.";

/// Options of `job fetch`.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = HELP)]
pub struct Options {
    /// Choose the job: key, scheduler's id, unique beginning, `last` or `last-1`
    #[arg(value_name = "JOB")]
    job: String,
    /// Fetch the last so much before now, or before the job's end: 90s, 10m, 1h
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration)]
    last: SignedDuration,
    /// Fetch what is of this time or later, in place of --last: RFC 3339, a day, or an age
    #[arg(long, value_name = "TIME", value_parser = time)]
    from: Option<Timestamp>,
    /// Fetch what is before this time [default: now, or the job's end]
    #[arg(long, value_name = "TIME", value_parser = time)]
    to: Option<Timestamp>,
    /// Fetch of counters that only grow the last within such a time: 100ms, 1s [default: all records]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    resolution: Option<SignedDuration>,
    /// Wait at most SECONDS until all is there
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "60")]
    wait: Option<u64>,
    /// List earlier requests and request nothing
    #[arg(long, conflicts_with_all = ["last", "from", "to", "resolution", "wait"])]
    list: bool,
    /// Print the answer of the API
    #[arg(long)]
    json: bool,
}

/// Requests, and waits where that is wanted.
///
/// # Errors
/// No such job, refused by a quota, or not all is there in time (1); see [`crate::Error`].
pub fn run(server: &Server, options: &Options) -> anyhow::Result<ExitCode> {
    let key = find(server, &options.job)?;
    let list = format!("throughline job fetch {} --list", options.job);
    let subject = Subject { path: &["jobs", &key], name: &key, list: &list };
    if options.list {
        return detail::list_earlier(server, subject, options.json);
    }
    // Whole seconds that hold it.
    let last = (options.last.as_millis() + 999) / 1000;
    let resolution = options.resolution.map_or(0, |resolution| resolution.as_millis());
    let (last, resolution) = (last.to_string(), resolution.to_string());
    let [from, to] = [options.from, options.to].map(|time| time.map(|time| time.to_string()));
    let mut query = vec![("last_seconds", last.as_str()), ("resolution_ms", resolution.as_str())];
    query.extend(from.as_deref().map(|from| ("from", from)));
    query.extend(to.as_deref().map(|to| ("to", to)));
    detail::request(server, subject, &query, options.wait, options.json)
}
