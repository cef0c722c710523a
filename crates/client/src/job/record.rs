//! `job record`: fetches the full resolution of a job, which stays on its nodes for an hour, into the database.

use super::name::find;
use crate::Server;
use crate::detail::{self, Subject};
use std::process::ExitCode;
use throughline_sample::from_rfc3339;

/// Shown below the options.
const HELP: &str = "\
Examples:
  throughline job record last                        its last ten minutes, all records
  throughline job record last --last 2m --wait       and wait until they are there
  throughline job record 4711 --resolution 1s --from 2026-11-25T12:00:00Z --to 2026-11-25T12:10:00Z
  throughline job record last --list                 what was requested of it, and what came

Nodes keep an hour or 512 MB (docs/RECORDER.md). What was fetched stays in the database for a day: `job export --step` and
`job trace` read it, and the job's page. Requests are within quotas ([detail] of server.toml).

Exit status with --wait: 0 all is there, 1 a node refused, lost some of it or did not answer in time.";

/// Options of `job record`.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = HELP)]
pub struct Options {
    /// Which job: key, scheduler's id, unique beginning, `last` or `last-1`
    #[arg(value_name = "JOB")]
    job: String,
    /// The last so much before now, or before the job's end: 90s, 10m, 1h
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = milliseconds)]
    last: i64,
    /// From this time on (RFC 3339), in place of --last
    #[arg(long, value_name = "TIME", value_parser = time)]
    from: Option<String>,
    /// Up to before this time [default: now, or the job's end]
    #[arg(long, value_name = "TIME", value_parser = time)]
    to: Option<String>,
    /// Of counters that only grow the last within such a time: 100ms, 1s [default: all records]
    #[arg(long, value_name = "DURATION", value_parser = milliseconds)]
    resolution: Option<i64>,
    /// Wait at most so many seconds until it is there
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "60")]
    wait: Option<u64>,
    /// List earlier requests; requests nothing
    #[arg(long, conflicts_with_all = ["last", "from", "to", "resolution", "wait"])]
    list: bool,
    /// Print the answer of the API
    #[arg(long)]
    json: bool,
}

/// A number with ms, s, m or h.
fn milliseconds(text: &str) -> Result<i64, String> {
    let wrong = || format!("{text:?} is no duration as 100ms, 90s, 10m or 1h");
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "ms" => 1,
        "s" => 1000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        _ => return Err(wrong()),
    };
    let number: i64 = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(unit).filter(|time| *time > 0).ok_or_else(wrong)
}

fn time(text: &str) -> Result<String, String> {
    let known = from_rfc3339(text).map(|_| text.to_owned());
    known.ok_or_else(|| format!("{text:?} is no time as 2026-11-25T12:00:00Z"))
}

/// Requests, and waits where that is wanted.
///
/// # Errors
/// No such job, refused by a quota, or not all is there in time (1); see [`crate::Error`].
pub fn run(server: &Server, options: &Options) -> anyhow::Result<ExitCode> {
    let key = find(server, &options.job)?;
    let list = format!("throughline job record {} --list", options.job);
    let subject = Subject { path: &["jobs", &key], name: &key, list: &list };
    if options.list {
        return detail::list_earlier(server, subject, options.json);
    }
    let (last, resolution) =
        (((options.last + 999) / 1000).to_string(), options.resolution.unwrap_or(0).to_string());
    let mut query = vec![("last_seconds", last.as_str()), ("resolution_ms", resolution.as_str())];
    query.extend(options.from.as_deref().map(|from| ("from", from)));
    query.extend(options.to.as_deref().map(|to| ("to", to)));
    detail::request(server, subject, &query, options.wait, options.json)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit() {
        let all = [("100ms", 100), ("90s", 90_000), ("10m", 600_000), ("1h", 3_600_000)];
        for (text, expected) in all {
            assert_eq!(milliseconds(text), Ok(expected));
        }
        for wrong in ["10", "0s", "-1s", "soon", "1d", "99999999999999999h"] {
            assert!(milliseconds(wrong).unwrap_err().contains(wrong), "{wrong}");
        }
    }
}
