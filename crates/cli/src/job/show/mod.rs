//! `job show`: one job on one page: who, where, its ranks, operations, regions and links, and what is worth knowing.

mod findings;
mod identity;
mod links;
mod operations;
mod regions;
mod spread;

use super::cells;
use super::find::find;
use super::summary::{self, Summary};
use crate::text::{columns, count, folded};
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
is what the program handed over for sending, whatever the algorithm really sends; PENDING is the time
from the return of a call that began something to its completion, summed; LARGEST is the largest
class of sizes. Algorithms are named as the MPI library names them: seen at work, or with the way in
which they are known (forced by a setting, pvar); `unknown` where nobody says.

Links are those of the job's nodes while it ran; what else ran there is in their figures, too.";

/// Options of `job show`.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = HELP)]
pub struct Options {
    /// Which job: key, scheduler's id, unique beginning, `last` or `last-1`
    #[arg(value_name = "JOB")]
    job: String,
    /// Give up reading its links after so long; 0 leaves them out
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    links_within: u32,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// All that is shown of a job.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    #[serde(flatten)]
    summary: Summary,
    #[serde(flatten)]
    identity: identity::Identity,
    operations: Vec<operations::Operation>,
    regions: Vec<regions::Region>,
    #[serde(rename = "rank_totals")]
    ranks: Vec<spread::RankTotal>,
    traffic: Vec<spread::Traffic>,
    /// null where they were left out.
    links: Option<Vec<links::Link>>,
    findings: Vec<String>,
}

/// Prints the page.
///
/// # Errors
/// No such job, or the database is gone.
pub async fn run(client: &Client, options: &Options) -> anyhow::Result<ExitCode> {
    let found = find(client, &options.job).await?;
    let report = read(client, found.id, options.links_within).await?;
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

async fn read(client: &Client, id: i32, links_within: u32) -> anyhow::Result<Report> {
    let mut report = Report {
        summary: summary::one(client, id).await?,
        identity: identity::read(client, id).await?,
        operations: operations::of(&cells::read(client, id).await?),
        regions: regions::read(client, id).await?,
        ranks: spread::ranks(client, id).await?,
        traffic: spread::traffic(client, id).await?,
        links: links::read(client, id, links_within).await?,
        findings: Vec::new(),
    };
    report.findings = findings::of(&report);
    Ok(report)
}

fn text(report: &Report, width: usize) -> String {
    let mut text = identity::text(&report.summary, &report.identity, width);
    // Sums that are not final must not look so.
    let so_far = match report.identity.ranks_incomplete {
        0 => String::new(),
        ranks => format!(", without the last calls of {}", count(ranks, "rank")),
    };
    text.push_str(&format!("\nOperations{so_far}\n"));
    text.push_str(&operations::text(&report.operations, width));
    if !report.regions.is_empty() {
        text.push_str("\nRegions\n");
        text.push_str(&regions::text(&report.regions, width));
    }
    match report.links.as_deref() {
        Some([]) => {}
        Some(links) => {
            text.push_str("\nLinks of its nodes while it ran\n");
            text.push_str(&links::text(links, width));
        }
        None => text.push_str("\nLinks of its nodes are left out (--links-within SECONDS)\n"),
    }
    if !report.findings.is_empty() {
        text.push_str("\nWorth knowing\n");
    }
    for finding in &report.findings {
        text.push_str(&folded(finding, width).join("\n"));
        text.push('\n');
    }
    text
}
