//! The head of the page: who ran what, where, with which library, and how its ranks ended.

use crate::job::list::whole_second;
use crate::job::summary::Summary;
use crate::reader::SCHEMA;
use crate::text::{age, clean, count, folded, thousands};
use anyhow::Context;
use serde::Serialize;
use tokio_postgres::Client;

/// Most nodes named on the page; all are in the JSON document.
const NODES_SHOWN: usize = 12;

/// Endings of ranks that nobody heard of, so that what they did since their last push is not known.
const INCOMPLETE: [&str; 2] = ["unseen", "silent"];

/// Where a job ran and how its ranks ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Identity {
    /// Its nodes with their ranks, by the smallest rank.
    pub hosts: Vec<Host>,
    /// First lines of what its MPI libraries say of themselves.
    pub libraries: Vec<String>,
    /// How many ranks ended in which way: clean, lost, running.
    pub endings: Vec<Ending>,
    /// Starts of ranks; more than ranks where some were started again.
    pub rank_starts: u64,
    /// Ranks that ended where no agent could be told (unseen, silent): their totals lack their last calls.
    pub ranks_incomplete: u64,
}

/// A node of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Host {
    /// Its name.
    pub host: String,
    /// Ranks on it.
    pub ranks: u64,
    /// The smallest of them.
    pub first_rank: i32,
    /// The largest of them.
    pub last_rank: i32,
}

/// Ranks that ended in one way.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Ending {
    /// clean, lost, unseen, silent (see `job_rank.ending`) or running.
    pub ending: String,
    /// How many.
    pub ranks: u64,
    /// Some of them.
    pub examples: Vec<i32>,
}

const HOSTS: &str = "
    SELECT host, count(DISTINCT rank) AS ranks, min(rank) AS first_rank, max(rank) AS last_rank
    FROM job_rank WHERE job_id = $1 GROUP BY host ORDER BY min(rank), host";

const LIBRARIES: &str =
    "SELECT DISTINCT mpi_library FROM job_rank WHERE job_id = $1 AND mpi_library <> '' ORDER BY 1";

const ENDINGS: &str = "
    SELECT coalesce(ending, 'running') AS ending, count(*) AS ranks, (array_agg(rank ORDER BY rank))[1:8] AS examples
    FROM job_rank WHERE job_id = $1 GROUP BY 1 ORDER BY 2 DESC, 1";

/// Reads it.
///
/// # Errors
/// The database is gone.
pub async fn read(client: &Client, id: i32) -> anyhow::Result<Identity> {
    let mut identity = Identity::default();
    for row in client.query(HOSTS, &[&id]).await.context(SCHEMA)? {
        identity.hosts.push(Host {
            host: row.try_get("host")?,
            ranks: crate::job::summary::whole(&row, "ranks")?.unwrap_or_default(),
            first_rank: row.try_get("first_rank")?,
            last_rank: row.try_get("last_rank")?,
        });
    }
    for row in client.query(LIBRARIES, &[&id]).await.context(SCHEMA)? {
        identity.libraries.push(row.try_get(0)?);
    }
    for row in client.query(ENDINGS, &[&id]).await.context(SCHEMA)? {
        let ranks = crate::job::summary::whole(&row, "ranks")?.unwrap_or_default();
        identity.rank_starts += ranks;
        let ending: String = row.try_get("ending")?;
        identity.ranks_incomplete += if INCOMPLETE.contains(&ending.as_str()) { ranks } else { 0 };
        identity.endings.push(Ending { ending, ranks, examples: row.try_get("examples")? });
    }
    Ok(identity)
}

/// The head as lines.
pub fn text(summary: &Summary, identity: &Identity, width: usize) -> String {
    let mut lines = vec![clean(&format!("Job {}", summary.job_key), width)];
    if let Some(command) = &summary.command {
        lines.push(clean(&format!("  {command}"), width));
    }
    let mut facts = vec![format!("user {}", summary.user.as_deref().unwrap_or("unknown"))];
    if let (Some(scheduler), Some(native)) = (&summary.scheduler, &summary.native_id) {
        facts.push(match summary.step.as_deref().filter(|step| !step.is_empty()) {
            Some(step) => format!("{scheduler} job {native}, step {step}"),
            None => format!("{scheduler} job {native}"),
        });
    }
    let ranks = match summary.world_size {
        Some(size) if size > summary.ranks => {
            format!("{} of {}", thousands(summary.ranks), count(size, "rank"))
        }
        _ => count(summary.ranks, "rank"),
    };
    for (what, value) in [("name", &summary.name), ("account", &summary.account), ("queue", &summary.queue)] {
        facts.extend(value.as_ref().map(|value| format!("{what} {value}")));
    }
    facts.push(format!("{ranks} on {}", count(summary.nodes, "node")));
    lines.extend(folded(&facts.join("; "), width));
    lines.extend(folded(&times(summary), width));
    if !identity.hosts.is_empty() {
        lines.extend(folded(&format!("nodes: {}", hosts(&identity.hosts)), width));
    }
    for library in &identity.libraries {
        // Open MPI goes on with its package and the day it was built.
        let library = library.split(", package").next().unwrap_or(library);
        lines.extend(folded(&format!("MPI library: {library}"), width));
    }
    lines.extend(folded(&endings(summary, identity), width));
    lines.retain(|line| !line.trim().is_empty());
    lines.join("\n") + "\n"
}

fn times(summary: &Summary) -> String {
    let second = |time: &Option<String>| time.as_deref().map_or("unknown".to_owned(), whole_second);
    let lasted = summary.duration_seconds.map_or(String::new(), |seconds| format!(", {}", age(seconds)));
    match (summary.state, &summary.end) {
        ("running", _) => format!("running since {}{lasted} so far", second(&summary.start)),
        ("silent", _) => format!(
            "began {}; not ended, and nothing came since {}{lasted}",
            second(&summary.start),
            second(&summary.newest.map(throughline_sample::to_rfc3339)),
        ),
        _ => format!("from {} to {}{lasted}", second(&summary.start), second(&summary.end)),
    }
}

fn hosts(hosts: &[Host]) -> String {
    let ranks = |host: &Host| match host.ranks {
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

fn endings(summary: &Summary, identity: &Identity) -> String {
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
    if identity.rank_starts > summary.ranks && summary.ranks > 0 {
        text.push(format!("{} starts of {}", thousands(identity.rank_starts), count(summary.ranks, "rank")));
    }
    text.join("; ")
}
