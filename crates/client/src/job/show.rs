//! `job show`: one job on one page: what slows it down, who, where, its ranks, operations, regions and links, and what is worth knowing.

mod broadcast;
mod findings;
mod gpu_traffic;
mod gpus;
mod identity;
mod link_shares;
mod links;
mod lost;
pub(super) mod open_calls;
mod operations;
mod ranks;
mod regions;
mod verdicts;

use super::as_of;
use super::live;
use super::name::find;
use super::whole::ReferenceTime;
use crate::text::{columns, count, folded};
use crate::{Answer, Server, answer};
use std::io::Write;
use std::process::ExitCode;
use std::thread::ScopedJoinHandle;
use throughline_api::account::JobAccount;
use throughline_api::broadcast::JobBroadcast;
use throughline_api::gpu_traffic::GpuTraffic;
use throughline_api::jobs::{
    AsOf, Job, JobDetail, JobGpus, JobLinkPeaks, JobRanks, JobRegions, JobTraffic, LinkPeak, LostRank,
    OpenCalls, Operation, Region, RegionPath, Setting, Traffic,
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
  throughline job show last --links-within 10   with NVLinks and adapters that it uses
  throughline job show last --ranks        with the GPUs of each rank and the ports near them
  throughline job show last --json | jq '.job.operations[0]'

The first lines say what slows it down and what to do; docs/VERDICTS.md has all that may stand there.
Figures of a running job are as of the time that stands beside them: sums of all ranks are at most 15 s
old, those of single ranks, pairs and regions a minute, in a long run five. A node whose rows have not
come by then is named with its own time.

TIME is time inside the operation, summed over ranks, and beside it its part of the time that the ranks
ran; where threads of a rank were in MPI at the same time, of the MPI time. All shares on the page have
that same basis, which is named. SENT is what the program handed over for sending, whatever the algorithm
really sends; RECEIVED what arrived in it, absent where that is not counted; PENDING is the time
from the return of a call that began something to its completion, summed; LARGEST is the largest
class of sizes. Algorithms are named as the MPI library names them: seen at work, or with the way in
which they are known (forced by a setting, pvar); `unknown` where nobody says.

Of a job that runs its nodes send figures of now, waited for at most 3 seconds; where they do not come, or 8 other
jobs are shown so ([detail] live_jobs_max of server.toml), a line on the standard error says so, and the figures are the
stored ones.

Links are those that the job's ranks use, of all of a node where that is not known; what else used them is in their
figures, too. GPUs of ranks (--ranks) are known by the driver's list of processes; where there is none, by the device
files that a rank has open. `unknown` is not `none`.
Busiest links are those of the whole fabric that the job sends over: USED is what their ports counted,
OWN PART the job's part of that and KIND how it is known; `throughline link --help` explains the kinds.

--json prints one object with the answers of the API to GET /api/v1/jobs/JOB (`job`) and the routes below it: `ranks`,
`regions`, `traffic`, `link_shares`, `link_peaks` (null without --links-within), `gpus` (null without --ranks), `account`,
`waits`, `broadcast`, `gpu_traffic`; and `findings`, the
lines of the page that are worth knowing.";

/// Steps in which NVLinks are summed: a GPU that was reset costs one of them.
const GPU_STEPS: &str = "30";

/// Options of `job show`.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = HELP)]
pub struct Options {
    /// Choose the job: key, scheduler's id, unique beginning, `last` or `last-1`
    #[arg(value_name = "JOB")]
    job: String,
    /// Read the links of its nodes, too, (NVLink, adapters) while it ran, for at most so long: seconds for a long job
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    links_within: u32,
    /// Print the GPUs of each rank, too, with the nearest port and the switch behind it
    #[arg(long)]
    ranks: bool,
    /// Print the answers of the API as one JSON object
    #[arg(long)]
    json: bool,
}

/// All that is shown of a job.
#[derive(Debug, Default)]
pub struct Report {
    job: Job,
    identity: identity::Identity,
    /// Calls that have not returned; not part of `operations`.
    open_calls: Vec<OpenCalls>,
    operations: Vec<Operation>,
    regions: Vec<Region>,
    region_paths: Vec<RegionPath>,
    ranks: Vec<ranks::RankTotal>,
    traffic: Vec<Traffic>,
    /// `None` where they were left out.
    links: Option<Vec<LinkPeak>>,
    /// GPUs of its ranks; `None` where they were not requested.
    gpus: Option<JobGpus>,
    /// Its busiest links in its last ten minutes, with its own part and the others'.
    link_shares: Vec<JobLink>,
    findings: Vec<String>,
    /// The rank that ended first without MPI_Finalize.
    first_lost: Option<LostRank>,
    /// Settings of its MPI libraries that decide what they do.
    settings: Vec<Setting>,
    /// What slows it down, the most important first.
    verdicts: Vec<JobVerdict>,
    /// Where the time of its ranks went.
    account: JobAccount,
    /// What of its time in MPI was waiting for other ranks.
    waits: JobWaits,
    /// What its ranks received in MPI_Bcast, and the PCIe links of their hosts.
    broadcast: JobBroadcast,
    /// NVLinks of its GPUs beside its messages.
    gpu_traffic: GpuTraffic,
    /// As of when figures of single ranks are, of pairs of them, and of regions: rows of ranks come less often.
    ranks_as_of: Option<AsOf>,
    traffic_as_of: Option<AsOf>,
    regions_as_of: Option<AsOf>,
}

/// What the API answers of a job.
#[derive(Clone)]
struct Answers {
    job: Answer<JobDetail>,
    ranks: Answer<JobRanks>,
    regions: Answer<JobRegions>,
    traffic: Answer<JobTraffic>,
    link_shares: Answer<JobLinkShares>,
    link_peaks: Option<Answer<JobLinkPeaks>>,
    gpus: Option<Answer<JobGpus>>,
    account: Answer<JobAccount>,
    waits: Answer<JobWaits>,
    broadcast: Answer<JobBroadcast>,
    gpu_traffic: Answer<GpuTraffic>,
}

/// Prints the page.
///
/// # Errors
/// No such job (1); see [`crate::Error`].
pub fn run(server: &Server, options: &Options) -> anyhow::Result<ExitCode> {
    let key = find(server, &options.job)?;
    live::look(server, &key);
    let answers = read(server, &key, options)?;
    if options.json {
        let document = document(&answers)?;
        answer::print([document.as_str()])?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = std::io::stdout().lock();
    out.write_all(text(&Report::new(answers), columns()).as_bytes())?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn read(server: &Server, key: &str, options: &Options) -> Result<Answers, Failure> {
    let seconds = options.links_within.to_string();
    // At once: the page takes as long as its slowest part.
    std::thread::scope(|scope| {
        let job = scope.spawn(|| server.answer(&["jobs", key], &[]));
        let ranks = scope.spawn(|| server.answer(&["jobs", key, "ranks"], &[]));
        let regions = scope.spawn(|| server.answer(&["jobs", key, "regions"], &[]));
        let traffic = scope.spawn(|| server.answer(&["jobs", key, "traffic"], &[]));
        let link_shares = scope.spawn(|| server.answer(&["jobs", key, "link-shares"], &[]));
        let account = scope.spawn(|| server.answer(&["jobs", key, "account"], &[]));
        let waits = scope.spawn(|| server.answer(&["jobs", key, "waits"], &[]));
        let broadcast = scope.spawn(|| server.answer(&["jobs", key, "broadcast"], &[]));
        let gpu_traffic =
            scope.spawn(|| server.answer(&["jobs", key, "gpu-traffic"], &[("points", GPU_STEPS)]));
        let gpus = options.ranks.then(|| scope.spawn(|| server.answer(&["jobs", key, "gpus"], &[])));
        let link_peaks = (options.links_within > 0)
            .then(|| scope.spawn(|| server.answer(&["jobs", key, "link-peaks"], &[("seconds", &seconds)])));
        Ok(Answers {
            job: finished(job)?,
            ranks: finished(ranks)?,
            regions: finished(regions)?,
            traffic: finished(traffic)?,
            link_shares: finished(link_shares)?,
            link_peaks: link_peaks.map(finished).transpose()?,
            gpus: gpus.map(finished).transpose()?,
            account: finished(account)?,
            waits: finished(waits)?,
            broadcast: finished(broadcast)?,
            gpu_traffic: finished(gpu_traffic)?,
        })
    })
}

/// What a request of its own thread was answered with.
fn finished<T>(request: ScopedJoinHandle<'_, Result<T, crate::Error>>) -> Result<T, Failure> {
    Ok(request.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?)
}

/// The answers under the names of their routes, and what is made of them here.
fn document(answers: &Answers) -> serde_json::Result<String> {
    let findings = serde_json::to_string(&Report::new(answers.clone()).findings)?;
    Ok(answer::joined([
        ("job", answers.job.body.as_str()),
        ("ranks", &answers.ranks.body),
        ("regions", &answers.regions.body),
        ("traffic", &answers.traffic.body),
        ("link_shares", &answers.link_shares.body),
        ("link_peaks", answers.link_peaks.as_ref().map_or("null", |peaks| &peaks.body)),
        ("gpus", answers.gpus.as_ref().map_or("null", |gpus| &gpus.body)),
        ("account", &answers.account.body),
        ("waits", &answers.waits.body),
        ("broadcast", &answers.broadcast.body),
        ("gpu_traffic", &answers.gpu_traffic.body),
        ("findings", &findings),
    ]))
}

impl Report {
    fn new(answers: Answers) -> Report {
        let detail = answers.job.value;
        let regions = answers.regions.value;
        let mut report = Report {
            link_shares: answers.link_shares.value.links,
            identity: identity::Identity {
                contests: detail.contests,
                ..identity::Identity::new(detail.hosts, detail.libraries, detail.endings)
            },
            job: detail.job,
            open_calls: detail.open_calls,
            operations: detail.operations,
            regions: regions.regions,
            region_paths: regions.paths,
            regions_as_of: regions.as_of,
            ranks_as_of: answers.ranks.value.as_of.clone(),
            traffic_as_of: answers.traffic.value.as_of,
            ranks: ranks::of(&answers.ranks.value),
            traffic: answers.traffic.value.traffic,
            links: answers.link_peaks.and_then(|peaks| peaks.value.links),
            gpus: answers.gpus.map(|gpus| gpus.value),
            findings: Vec::new(),
            first_lost: detail.first_lost,
            settings: detail.settings,
            verdicts: detail.verdicts,
            account: answers.account.value,
            waits: answers.waits.value,
            broadcast: answers.broadcast.value,
            gpu_traffic: answers.gpu_traffic.value,
        };
        report.findings = findings::of(&report);
        report
    }
}

fn text(report: &Report, width: usize) -> String {
    let mut text = verdicts::text(&report.verdicts, &report.job, width) + "\n";
    text.push_str(&identity::text(&report.job, &report.identity, width));
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
    let heading = format!("\nOperations{so_far}{}", as_of::suffix(report.job.as_of.as_ref()));
    text.push_str(&(heading + "\n"));
    text.push_str(&match report.operations.as_slice() {
        [] => operations::nothing(&report.job),
        operations => operations::text(operations, ReferenceTime::of(&report.job), width),
    });
    let account = super::account::section(&report.account, width);
    if !account.is_empty() {
        text.push_str(&format!("\n{}\n{account}", super::account::heading(&report.account)));
    }
    let waits = super::waits::section(&report.waits, width);
    if !waits.is_empty() {
        let at = as_of::suffix(report.waits.as_of.as_ref());
        text.push_str(&format!("\nWaiting for other ranks (all of it: job waits){at}\n"));
        text.push_str(&(folded(&super::waits::basis(&report.waits), width).join("\n") + "\n"));
        text.push_str(&waits);
    }
    let broadcast = broadcast::text(&report.broadcast, width);
    if !broadcast.is_empty() {
        let at = as_of::suffix(report.broadcast.as_of.as_ref());
        text.push_str(&format!("\nBroadcasts, the slowest ranks first{at}\n"));
        text.push_str(&broadcast);
    }
    let gpu_traffic = gpu_traffic::text(&report.gpu_traffic, width);
    if !gpu_traffic.is_empty() {
        text.push_str(&format!("\nNVLinks of its GPUs, and MPI within nodes\n{gpu_traffic}"));
    }
    if !report.regions.is_empty() {
        text.push_str(&format!("\nRegions{}\n", as_of::suffix(report.regions_as_of.as_ref())));
        text.push_str(&regions::text(&report.regions, &report.region_paths, width));
    }
    if let Some(gpus) = &report.gpus {
        text.push_str("\nGPUs of its ranks, the nearest ports and the switches behind them\n");
        text.push_str(&gpus::text(gpus, width));
    }
    match report.links.as_deref() {
        Some([]) => {}
        Some(links) => {
            text.push_str("\nLinks that it used, while it ran\n");
            text.push_str(&links::text(links, width));
        }
        None => text.push_str("\nLinks that it used, NVLinks too, are left out (--links-within SECONDS)\n"),
    }
    if !report.link_shares.is_empty() {
        text.push_str("\nBusiest links of its last 10 minutes, and whose bytes were on them\n");
        text.push_str(&link_shares::text(&report.job.job_key, &report.link_shares, width));
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
