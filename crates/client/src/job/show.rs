//! `job show`: one job on one page: what slows it down, who, where, its ranks, operations, regions and links, and what is worth knowing.

mod broadcast;
mod findings;
mod identity;
mod link_shares;
mod links;
mod lost;
pub(super) mod open_calls;
mod operations;
mod ranks;
mod regions;
mod verdicts;

use super::name::find;
use super::summary::{Summary, Whole};
use crate::Server;
use crate::text::{columns, count, folded};
use serde::Serialize;
use std::io::Write;
use std::process::ExitCode;
use std::thread::ScopedJoinHandle;
use throughline_api::broadcast::JobBroadcast;
use throughline_api::jobs::{
    JobDetail, JobLinkPeaks, JobRanks, JobRegions, JobTraffic, LinkPeak, LostRank, OpenCalls, Operation,
    Region, RegionPath, Setting, Traffic,
};
use throughline_api::link_shares::{JobLink, JobLinkShares};
use throughline_api::verdicts::JobVerdict;
use throughline_api::waits::JobWaits;
use throughline_daemon::Failure;

/// Shown below the options.
const HELP: &str = "\
Examples:
  throughline job show last                the newest job
  throughline job show 4711                by the scheduler's id
  throughline job show last --links-within 10   with NVLinks and adapters of its nodes
  throughline job show last --json | jq '.operations[0]'

The first lines say what slows it down and what to do; docs/VERDICTS.md has all that may stand there.

TIME is time inside the operation, summed over ranks, and beside it its part of the time that the ranks
ran; where threads of a rank were in MPI at the same time, of the MPI time. All shares on the page have
that same basis, which is named. SENT is what the program handed over for sending, whatever the algorithm
really sends; RECEIVED what arrived in it, absent where that is not counted; PENDING is the time
from the return of a call that began something to its completion, summed; LARGEST is the largest
class of sizes. Algorithms are named as the MPI library names them: seen at work, or with the way in
which they are known (forced by a setting, pvar); `unknown` where nobody says.

Links are those of the job's nodes while it ran; what else ran there is in their figures, too.
Busiest links are those of the whole fabric that the job sends over: USED is what their ports counted,
OWN PART the job's part of that and KIND how it is known; `throughline link --help` explains the kinds.";

/// Options of `job show`.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = HELP)]
pub struct Options {
    /// Which job: key, scheduler's id, unique beginning, `last` or `last-1`
    #[arg(value_name = "JOB")]
    job: String,
    /// Also read the links of its nodes (NVLink, adapters) while it ran, for at most so long: seconds for a long job
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
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
    /// Calls that have not returned; not part of `operations`.
    open_calls: Vec<OpenCalls>,
    operations: Vec<Operation>,
    regions: Vec<Region>,
    region_paths: Vec<RegionPath>,
    region_paths_left_out: u64,
    #[serde(rename = "rank_totals")]
    ranks: Vec<ranks::RankTotal>,
    traffic: Vec<Traffic>,
    /// null where they were left out.
    links: Option<Vec<LinkPeak>>,
    /// Its busiest links in its last ten minutes, with its own part and the others'.
    link_shares: Vec<JobLink>,
    findings: Vec<String>,
    /// The rank that ended first without MPI_Finalize.
    first_lost: Option<LostRank>,
    /// Settings of its MPI libraries that decide what they do.
    settings: Vec<Setting>,
    /// What slows it down, the most important first.
    verdicts: Vec<JobVerdict>,
    /// What of its time in MPI was waiting for other ranks.
    waits: JobWaits,
    /// What its ranks received in MPI_Bcast, and the PCIe links of their hosts.
    broadcast: JobBroadcast,
}

/// Prints the page.
///
/// # Errors
/// No such job (1); see [`crate::Error`].
pub fn run(server: &Server, options: &Options) -> anyhow::Result<ExitCode> {
    let report = read(server, &find(server, &options.job)?, options.links_within)?;
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

fn read(server: &Server, key: &str, links_within: u32) -> Result<Report, Failure> {
    let seconds = links_within.to_string();
    // At once: the page takes as long as its slowest part.
    let parts = std::thread::scope(|scope| {
        let detail = scope.spawn(|| server.get::<JobDetail>(&["jobs", key], &[]));
        let columns = scope.spawn(|| server.get::<JobRanks>(&["jobs", key, "ranks"], &[]));
        let regions = scope.spawn(|| server.get::<JobRegions>(&["jobs", key, "regions"], &[]));
        let traffic = scope.spawn(|| server.get::<JobTraffic>(&["jobs", key, "traffic"], &[]));
        let shares = scope.spawn(|| server.get::<JobLinkShares>(&["jobs", key, "link-shares"], &[]));
        let waits = scope.spawn(|| server.get::<JobWaits>(&["jobs", key, "waits"], &[]));
        let broadcast = scope.spawn(|| server.get::<JobBroadcast>(&["jobs", key, "broadcast"], &[]));
        let peaks = (links_within > 0).then(|| {
            scope.spawn(|| server.get::<JobLinkPeaks>(&["jobs", key, "link-peaks"], &[("seconds", &seconds)]))
        });
        let parts = (
            joined(detail)?,
            joined(columns)?,
            joined(regions)?,
            joined(traffic)?,
            joined(shares)?,
            joined(waits)?,
            joined(broadcast)?,
        );
        Ok::<_, Failure>((parts, peaks.map(joined).transpose()?))
    });
    let ((detail, columns, regions, traffic, shares, waits, broadcast), peaks) = parts?;
    let links = peaks.and_then(|peaks| peaks.links);
    let mut report = Report {
        link_shares: shares.links,
        identity: identity::Identity::new(detail.hosts, detail.libraries, detail.endings),
        summary: detail.job.into(),
        open_calls: detail.open_calls,
        operations: detail.operations,
        regions: regions.regions,
        region_paths: regions.paths,
        region_paths_left_out: regions.paths_left_out,
        ranks: ranks::of(&columns),
        traffic: traffic.traffic,
        links,
        findings: Vec::new(),
        first_lost: detail.first_lost,
        settings: detail.settings,
        verdicts: detail.verdicts,
        waits,
        broadcast,
    };
    report.findings = findings::of(&report);
    Ok(report)
}

/// What a request of its own thread was answered with.
fn joined<T>(request: ScopedJoinHandle<'_, Result<T, crate::Error>>) -> Result<T, Failure> {
    Ok(request.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?)
}

fn text(report: &Report, width: usize) -> String {
    let mut text = verdicts::text(&report.verdicts, width) + "\n";
    text.push_str(&identity::text(&report.summary, &report.identity, width));
    if let Some(lost) = &report.first_lost {
        text.push_str(&(folded(&lost::text(lost), width).join("\n") + "\n"));
    }
    if !report.open_calls.is_empty() {
        text.push_str("\nIn calls that have not returned\n");
        text.push_str(&open_calls::text(&report.open_calls, width));
    }
    // Sums that are not final must not look so.
    let so_far = match report.identity.ranks_incomplete {
        0 => String::new(),
        ranks => format!(", without the last calls of {}", count(ranks, "rank")),
    };
    text.push_str(&format!("\nOperations{so_far}\n"));
    text.push_str(&operations::text(&report.operations, Whole::of(&report.summary), width));
    let waits = super::waits::section(&report.waits, width);
    if !waits.is_empty() {
        text.push_str("\nWaiting for other ranks (all of it: job waits)\n");
        text.push_str(&(folded(&super::waits::basis(&report.waits), width).join("\n") + "\n"));
        text.push_str(&waits);
    }
    let broadcast = broadcast::text(&report.broadcast, width);
    if !broadcast.is_empty() {
        text.push_str("\nBroadcasts, the slowest ranks first\n");
        text.push_str(&broadcast);
    }
    if !report.regions.is_empty() {
        text.push_str("\nRegions\n");
        text.push_str(&regions::text(&report.regions, &report.region_paths, width));
    }
    match report.links.as_deref() {
        Some([]) => {}
        Some(links) => {
            text.push_str("\nLinks of its nodes while it ran\n");
            text.push_str(&links::text(links, width));
        }
        None => text.push_str("\nLinks of its nodes, NVLinks too, are left out (--links-within SECONDS)\n"),
    }
    if !report.link_shares.is_empty() {
        text.push_str("\nBusiest links of its last 10 minutes, and whose bytes were on them\n");
        text.push_str(&link_shares::text(&report.summary.job_key, &report.link_shares, width));
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
