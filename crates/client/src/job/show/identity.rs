//! The head of the page: who ran what, where, with which library, and how its ranks ended.

use crate::text::{age, clean, count, folded, thousands, whole_second};
use throughline_api::JobState;
use throughline_api::jobs::{Ending, FactVersion, Job, JobContests, JobHost};

/// Most nodes named on the page; all are in the JSON document.
const NODES_SHOWN: usize = 12;

/// Endings of ranks that no agent observed, so that what they did since their last push is not known.
const INCOMPLETE: [&str; 2] = ["unseen", "silent"];

/// Where a job ran and how its ranks ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Identity {
    /// Its nodes with their ranks, by the smallest rank.
    pub hosts: Vec<JobHost>,
    /// First lines of what its MPI libraries say of themselves.
    pub libraries: Vec<String>,
    /// How many ranks ended in which way: clean, lost, running.
    pub endings: Vec<Ending>,
    /// Starts of ranks; more than ranks where some were started again.
    pub rank_starts: u64,
    /// Ranks whose end no agent observed (unseen, silent): their totals lack their last calls.
    pub ranks_incomplete: u64,
    /// What its nodes report against each other.
    pub contests: JobContests,
}

impl Identity {
    /// Of what the server has.
    pub fn new(hosts: Vec<JobHost>, libraries: Vec<String>, endings: Vec<Ending>) -> Self {
        let incomplete = |ending: &&Ending| INCOMPLETE.contains(&ending.ending.as_str());
        let ranks_incomplete = endings.iter().filter(incomplete).map(|ending| ending.ranks).sum();
        let rank_starts = endings.iter().map(|ending| ending.ranks).sum();
        Self { hosts, libraries, endings, rank_starts, ranks_incomplete, contests: JobContests::default() }
    }
}

/// The head as lines.
pub fn text(job: &Job, identity: &Identity, width: usize) -> String {
    let name = job.name.as_deref().filter(|name| !name.is_empty());
    let name = name.map_or_else(String::new, |name| format!("  {name}"));
    let mut lines = vec![clean(&format!("Job {}{name}", job.job_key), width)];
    if let Some(command) = &job.command {
        lines.push(clean(&format!("  {command}"), width));
    }
    let mut facts = vec![format!("user {}", job.user.as_deref().unwrap_or("unknown"))];
    if let (Some(scheduler), Some(native)) = (&job.scheduler, &job.native_id) {
        let cluster = job.cluster.as_ref().map_or_else(String::new, |cluster| format!(" of {cluster}"));
        facts.push(match job.step.as_deref().filter(|step| !step.is_empty()) {
            Some(step) => format!("{scheduler} job {native}{cluster}, step {step}"),
            None => format!("{scheduler} job {native}{cluster}"),
        });
    }
    let ranks = match job.world_size {
        Some(size) if size > job.ranks => {
            format!("{} of {}", thousands(job.ranks), count(size, "rank"))
        }
        _ => count(job.ranks, "rank"),
    };
    for (what, value) in [("account", &job.account), ("queue", &job.queue)] {
        facts.extend(value.as_ref().map(|value| format!("{what} {value}")));
    }
    facts.push(match &job.only_node {
        Some(node) => format!("{ranks} on {}, which {node} alone reports", count(job.nodes, "node")),
        None => format!("{ranks} on {}", count(job.nodes, "node")),
    });
    lines.extend(folded(&facts.join("; "), width));
    lines.extend(folded(&times(job), width));
    if !identity.hosts.is_empty() {
        lines.extend(folded(&format!("nodes: {}", hosts(&identity.hosts)), width));
    }
    for library in &identity.libraries {
        // Open MPI goes on with its package and the day it was built.
        let library = library.split(", package").next().unwrap_or(library);
        lines.extend(folded(&format!("MPI library: {library}"), width));
    }
    lines.extend(folded(&endings(job, identity), width));
    contested(job, &identity.contests).iter().for_each(|line| lines.extend(folded(line, width)));
    lines.retain(|line| !line.trim().is_empty());
    lines.join("\n") + "\n"
}

/// What its nodes report against each other, a line for each node and each fact.
fn contested(job: &Job, contests: &JobContests) -> Vec<String> {
    let mut lines = Vec::new();
    if job.ranks_contested > 0 {
        let all = job.world_size.unwrap_or(0).max(job.ranks + job.ranks_contested);
        lines.push(format!(
            "CONTESTED: {} of {}. Several nodes say that they run them; they are in nothing below until it is known which one does \
             (`throughline node bar NAME` refuses a node that lies)",
            thousands(job.ranks_contested),
            count(all, "rank")
        ));
    }
    for one in &contests.ranks {
        let ranks = match one.ranks {
            1 => format!("rank {}", one.first_rank),
            ranks => format!("{ranks} ranks from {} to {}", one.first_rank, one.last_rank),
        };
        let calls = one.calls.map_or("no calls yet".to_owned(), |calls| count(calls, "call"));
        lines.push(format!("{}: {} reports {ranks} with {calls}", one.state, one.node));
    }
    for fact in &contests.facts {
        let version = |one: &FactVersion| match one.nodes {
            1 => format!("{} says {}", one.node, one.value),
            nodes => format!("{nodes} nodes, {} for instance, say {}", one.node, one.value),
        };
        let versions: Vec<String> = fact.versions.iter().take(NODES_SHOWN).map(version).collect();
        lines.push(format!(
            "nodes disagree about its {}: {}",
            fact.fact.replace('_', " "),
            versions.join("; ")
        ));
    }
    lines
}

fn times(job: &Job) -> String {
    let second = |time: Option<i64>| time.map_or("unknown".to_owned(), whole_second);
    let lasted = job.lasted_seconds().map_or(String::new(), |seconds| format!(", {}", age(seconds)));
    match (job.state, job.end_ms) {
        (JobState::Running, _) => format!("running since {}{lasted} so far", second(job.start_ms)),
        (JobState::Silent, None) => format!(
            "silent: began {}; not ended, and no report since {}{lasted}",
            second(job.start_ms),
            second(job.reported_ms),
        ),
        (state, _) => {
            format!("{state}: from {} to {}{lasted}", second(job.start_ms), second(job.end_ms))
        }
    }
}

fn hosts(hosts: &[JobHost]) -> String {
    let ranks = |host: &JobHost| match host.ranks {
        1 => format!("{} (rank {})", host.host, host.first_rank),
        ranks if i64::from(host.last_rank - host.first_rank) + 1 == i64::try_from(ranks).unwrap_or(0) => {
            format!("{} (ranks {} to {})", host.host, host.first_rank, host.last_rank)
        }
        ranks => format!("{} ({ranks} ranks from {} on)", host.host, host.first_rank),
    };
    let shown: Vec<String> = hosts.iter().take(NODES_SHOWN).map(ranks).collect();
    let more = hosts.len().saturating_sub(shown.len());
    if more > 0 { format!("{}, and {more} more", shown.join(", ")) } else { shown.join(", ") }
}

fn endings(job: &Job, identity: &Identity) -> String {
    let one = |ending: &Ending| {
        let ranks = count(ending.ranks, "rank");
        let list: Vec<String> = ending.examples.iter().map(ToString::to_string).collect();
        let more = if ending.ranks > list.len() as u64 { ", …" } else { "" };
        match ending.ending.as_str() {
            "clean" => format!("{ranks} reached MPI_Finalize"),
            "running" => format!("{ranks} not ended"),
            "lost" => format!("{ranks} ended without MPI_Finalize ({}{more})", list.join(", ")),
            "unseen" => {
                format!("{ranks} ended while no agent ran on the node ({}{more})", list.join(", "))
            }
            "silent" => format!("{ranks} of nodes that report nothing any more ({}{more})", list.join(", ")),
            other => format!("{ranks} {other}"),
        }
    };
    let mut text: Vec<String> = identity.endings.iter().map(one).collect();
    if identity.rank_starts > job.ranks && job.ranks > 0 {
        text.push(format!("{} starts of {}", thousands(identity.rank_starts), count(job.ranks, "rank")));
    }
    text.join("; ")
}
