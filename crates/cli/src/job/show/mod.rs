//! `job show`: one job on one page: who, where, its ranks, its operations.

mod identity;
mod operations;

use super::find::find;
use super::summary::{self, Summary};
use crate::text::columns;
use serde::Serialize;
use std::io::Write;
use std::process::ExitCode;
use tokio_postgres::Client;

/// Shown below the options.
const HELP: &str = "\
Examples:
  throughline job show last                the newest job
  throughline job show 4711                by the scheduler's id
  throughline job show last --json | jq '.operations[0]'

TIME is time inside the operation, summed over ranks; SHARE is its part of all time inside MPI; SENT
is what the program handed over for sending, whatever the algorithm really sends.";

/// Options of `job show`.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = HELP)]
pub struct Options {
    /// Which job: key, scheduler's id, unique beginning, `last` or `last-1`
    #[arg(value_name = "JOB")]
    job: String,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// All that is shown of a job.
#[derive(Debug, Serialize)]
pub struct Report {
    #[serde(flatten)]
    summary: Summary,
    #[serde(flatten)]
    identity: identity::Identity,
    operations: Vec<operations::Operation>,
}

/// Prints the page.
///
/// # Errors
/// No such job, or the database is gone.
pub async fn run(client: &Client, options: &Options) -> anyhow::Result<ExitCode> {
    let found = find(client, &options.job).await?;
    let summary = summary::one(client, found.id).await?;
    let identity = identity::read(client, found.id).await?;
    let operations = operations::read(client, found.id).await?;
    let report = Report { summary, identity, operations };
    let mut out = std::io::stdout().lock();
    if options.json {
        serde_json::to_writer(&mut out, &report)?;
        writeln!(out)?;
    } else {
        out.write_all(text(&report, columns()).as_bytes())?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn text(report: &Report, width: usize) -> String {
    let mut text = identity::text(&report.summary, &report.identity, width);
    text.push_str("\nOperations\n");
    text.push_str(&operations::text(&report.operations, width));
    text
}
