//! `throughline status`: what arrives in the database, for people and as JSON.
//!
//! Reads with the read-only role and changes nothing; it starts no database and needs no daemon.

mod read;
mod report;
mod table;

use crate::Site;
use crate::reader::Reader;
use anyhow::Context;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;
use throughline_store::Database;
use tokio_postgres::Client;

pub use report::Report;

/// Shortest time between two prints of `--watch`: the report itself costs the database some work.
const SHORTEST_WATCH: Duration = Duration::from_millis(500);

/// What a terminal does to show the next report in place of the last: cursor home, clear to the end.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Shown below the options.
const HELP: &str = "\
Examples:
  throughline status                      of the database that `throughline serve` runs
  throughline status --watch              anew every 2 seconds
  throughline status --json | jq '.jobs[0].operations'
  throughline status --state-dir /var/lib/throughline/demo        of the demo

In the table a source is `up` or `down` by its daemon's word, `rows` if rows arrive without one,
`silent` if neither does any more. NEWEST is the age of its newest row. DROPPED and FAILED READS
count since the daemon's start. REASON says why records of a sender were not stored (docs/SECURITY.md);
the rest of their batches was. Tables and views to ask yourself: docs/DATABASE.md; the command for
psql: `throughline db status`.

Exit status: 0 done, 64 wrong usage, 69 no database to read, 77 no permission, 1 any other
failure.";

/// Options of `status`.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// Which database to read.
    #[command(flatten)]
    pub reader: Reader,
    /// Print one JSON document instead of tables
    #[arg(long)]
    pub json: bool,
    /// Print anew every SECONDS until Ctrl-C
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2", value_parser = watch_interval)]
    pub watch: Option<Duration>,
    /// Most jobs shown, the newest first
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
/// 69 when there is no database to read.
pub async fn run(arguments: Arguments, site: &Site) -> anyhow::Result<ExitCode> {
    let database = arguments.reader.database(site)?;
    let mut client = crate::reader::connect(&database).await?;
    let Some(interval) = arguments.watch else {
        print(&report(&client, &database, &arguments).await?, arguments.json, false)?;
        return Ok(ExitCode::SUCCESS);
    };
    let in_place = std::io::stdout().is_terminal() && !arguments.json;
    loop {
        match report(&client, &database, &arguments).await {
            Ok(report) => print(&report, arguments.json, in_place)?,
            // The server was restarted: the next look may find it again.
            Err(error) => {
                tracing::warn!("{error:#}");
                if let Ok(again) = database.connect_reader().await {
                    client = again;
                }
            }
        }
        tokio::select! {
            () = tokio::time::sleep(interval) => {}
            stopped = tokio::signal::ctrl_c() => {
                stopped.context("waiting for Ctrl-C")?;
                return Ok(ExitCode::SUCCESS);
            }
        }
    }
}

/// Reads a report; also for the demo's table.
///
/// # Errors
/// The database is gone, or has no schema of this build.
pub async fn report(client: &Client, database: &Database, arguments: &Arguments) -> anyhow::Result<Report> {
    let mut report = read::report(client, arguments.jobs).await?;
    database.place().clone_into(&mut report.database);
    Ok(report)
}

fn print(report: &Report, json: bool, in_place: bool) -> anyhow::Result<()> {
    let mut text = if in_place { CLEAR.to_owned() } else { String::new() };
    if json {
        text.push_str(&serde_json::to_string(report)?);
        text.push('\n');
    } else {
        text.push_str(&table::text(report));
    }
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}
