//! `throughline status`: what arrives at the server, for people and as JSON.

mod table;
mod verdict;

use crate::{Answer, Connection, answer, pause};
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;
use throughline_api::status::Status;
use throughline_daemon::Failure;

/// Shortest time between two prints of `--watch`: the report itself costs the database some work.
const SHORTEST_WATCH: Duration = Duration::from_millis(500);

/// What a terminal does to show the next report in place of the last: cursor home, clear to the end.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Shown below the options.
const HELP: &str = "\
Examples:
  throughline status                      of the server on this machine, or the one of client.toml
  throughline status --server https://monitor.example:9460 --token-file ~/.config/throughline/token
  throughline status --watch              anew every 2 seconds
  throughline status --json | jq '.jobs[0].operations'     what GET /api/v1/status answers

The first lines say what is wrong with the monitoring itself. In the table a source is `up` or `down` as its daemon reports, `rows` if rows arrive without a report,
`silent` if neither does any more. NEWEST is the age of its newest row, REPORTED that of a daemon's
last report. DROPPED and FAILED READS count since the daemon's start. REASON says why records of a
sender were not stored (docs/SECURITY.md); the rest of their batches was. The same over HTTP:
docs/API.md; in SQL: docs/DATABASE.md.

Exit status: 0 done, 64 wrong usage, 69 no server, no database or another version, 77 no permission,
1 any other failure.";

/// Options of `status`.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// Which server.
    #[command(flatten)]
    pub connection: Connection,
    /// Print the answer of the API instead of tables
    #[arg(long)]
    pub json: bool,
    /// Print anew every SECONDS until Ctrl-C
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2", value_parser = watch_interval)]
    pub watch: Option<Duration>,
    /// Show at most N jobs, the newest first
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(0..=1000))]
    pub jobs: u16,
}

fn watch_interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let interval = seconds.filter(|interval| *interval >= SHORTEST_WATCH);
    interval.ok_or_else(|| format!("expected seconds, at least {}", SHORTEST_WATCH.as_secs_f64()))
}

/// Prints the status once, or again and again with `--watch`.
///
/// # Errors
/// See [`crate::Error`]; with `--watch` only what is wrong with the options.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let server = arguments.connection.server()?;
    let jobs = arguments.jobs.to_string();
    let read = || server.answer::<Status>(&["status"], &[("jobs", &jobs)]).map_err(Failure::from);
    let print = |status: &Answer<Status>, in_place: bool| -> anyhow::Result<()> {
        if arguments.json {
            return Ok(answer::print([status.body.as_str()])?);
        }
        let clear = if in_place { CLEAR } else { "" };
        let mut out = std::io::stdout().lock();
        out.write_all((clear.to_owned() + &table::text(&status.value, server.url())).as_bytes())?;
        Ok(out.flush()?)
    };
    let Some(interval) = arguments.watch else {
        print(&read()?, false)?;
        return Ok(ExitCode::SUCCESS);
    };
    let in_place = std::io::stdout().is_terminal() && !arguments.json;
    loop {
        match read() {
            Ok(status) => print(&status, in_place)?,
            // The next request may find it again.
            Err(failure) => tracing::warn!("{failure}"),
        }
        if pause::until_stopped(interval)? {
            return Ok(ExitCode::SUCCESS);
        }
    }
}
