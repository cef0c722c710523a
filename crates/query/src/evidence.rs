//! What is known of a job, as verdicts need it. What a query has no rows for stays absent.

mod earlier;
mod gpus;
mod links;
mod nodes;
mod places;

use crate::as_of::{self, AsOf};
use crate::jobs::{self, Job};
use crate::link_shares::Source;
use crate::rank_cpu::{RankCpu, rank_cpu};
use crate::time::now;
use crate::waits::{self, Cell, Depth};
use crate::{open_calls, traffic};
use places::Places;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};
use throughline_store::Error;
use throughline_verdicts::evidence::{
    Evidence, LastArrival, OpenCall, Operation, OperationWaiting, Rank, Region, Scheduling, Traffic, Waiting,
};
use tokio_postgres::Client;

/// Of a job that runs links are judged over this time: what was full an hour ago is no matter now.
const RECENT_MS: i64 = 600_000;

/// Shares of links of the last window of a job are of a window that ends later.
const WINDOW_MS: i64 = 10_000;

/// How long names of ports are cached.
const FRESH: Duration = Duration::from_secs(600);

/// Who sends to whom, and where ranks are, is read again when a job is three times as old as it was then: early, as a job's start
/// is not what it does later, and ever more seldom, as it takes ten times as long as all the rest.
const AGES: f64 = 2.0;

/// But not sooner and not later than this, seconds.
const REREAD_SECONDS: (f64, f64) = (120.0, 1800.0);

/// Pairs of ranks that are read of a job's traffic; a job with more is not arranged anew.
const PAIRS_MAX: i64 = 200_000;

/// A job and what is known of it.
#[derive(Clone, Debug, Default)]
pub struct OfJob {
    /// Which job it is: `Job 4711 of alice (./a.out 12)`.
    pub heading: String,
    /// What verdicts need.
    pub evidence: Evidence,
    /// Seconds since it began, or that it ran.
    pub age_seconds: f64,
    /// As of when figures of its ranks are while it runs.
    pub as_of: Option<AsOf>,
    /// Whether it was read who sends to whom. Where it was not, nothing is known of it.
    pub has_traffic: bool,
}

/// What changes little and costs much to read, of jobs that are looked at again and again: where ranks are, when it was read
/// who sends to whom, and names of ports.
#[derive(Debug, Default)]
pub struct Cache {
    jobs: HashMap<i64, CachedPlaces>,
    ports: links::KnownPorts,
}

#[derive(Debug)]
struct CachedPlaces {
    since: Instant,
    fresh_for: Duration,
    ranks: usize,
    places: Arc<Places>,
}

impl Cache {
    /// Forgets jobs that are not among these, and what is old.
    pub fn retain(&mut self, is_known: impl Fn(i64) -> bool) {
        self.jobs.retain(|job, _| is_known(*job));
        self.ports.forget();
    }

    /// Places of a job that are not old, as long as it has as many ranks.
    fn places(&self, job: i64, ranks: usize) -> Option<Arc<Places>> {
        let cached = self.jobs.get(&job)?;
        (cached.ranks == ranks && cached.since.elapsed() < cached.fresh_for)
            .then(|| Arc::clone(&cached.places))
    }
}

/// How long what was read of a job of this age, seconds, is cached.
fn fresh_for(age: f64) -> Duration {
    Duration::from_secs_f64((AGES * age).clamp(REREAD_SECONDS.0, REREAD_SECONDS.1))
}

/// Prepares a connection for many jobs: a statement that takes longer than 10 s ends, so that one job costs the others no more,
/// and plans of small answers are not compiled, which would take longer than running them.
///
/// # Errors
/// The database's.
pub async fn limit(client: &Client) -> Result<(), Error> {
    let settings = "SET statement_timeout = '10s'; SET jit = off";
    client.batch_execute(settings).await.map_err(Error::sql("setting how long a statement may take"))
}

/// What is known of a job. Who sends to whom is read where the cache has no places of it.
///
/// # Errors
/// The database's.
pub async fn of_job(client: &Client, job: &Job, source: &Source, cache: &mut Cache) -> Result<OfJob, Error> {
    let (id, at) = (job.id, now(client).await?);
    let start = job.start.unwrap_or(job.first_seen);
    let end = job.end.unwrap_or(at).max(start);
    let as_of = as_of::ranks(client, id).await?;
    let cells = waits::cells(client, id, as_of.as_ref()).await?;
    let mut evidence = Evidence {
        job: job.native_id.clone().unwrap_or_else(|| job.key.clone()),
        is_running: job.end.is_none(),
        // Shares of times are of one moment.
        seconds: milliseconds_as_seconds(
            as_of.as_ref().map_or(end, |at| at.milliseconds().max(start)) - start,
        ),
        world_size: job.world_size.and_then(|size| u32::try_from(size).ok()).unwrap_or_default(),
        ranks: ranks(client, id, as_of.as_ref(), &cells).await?,
        operations: operations(&cells),
        regions: regions(client, id).await?,
        open_calls: calls(client, id).await?,
        waiting: waiting(client, job, &cells).await?,
        ..Evidence::default()
    };
    let observed = evidence.ranks.iter().map(|rank| rank.observed_seconds).fold(0.0, f64::max);
    evidence.seconds = evidence.seconds.max(observed);
    let from = if evidence.is_running { (end - RECENT_MS).max(start) } else { start };
    let known = cache.places(id, evidence.ranks.len()).filter(|_| evidence.is_running);
    let has_traffic = known.is_none();
    let places = match known {
        Some(places) => places,
        None => Arc::new(places::of_job(client, id).await?),
    };
    places.put_into(&mut evidence.ranks);
    let links = links::of_job(client, id, &places, (from, end + WINDOW_MS), source, &mut cache.ports).await?;
    links.put_errors(&mut evidence.ranks, &places);
    nodes::bindings(client, id, &mut evidence.ranks, (from, end)).await?;
    nodes::gpu_links(client, id, &mut evidence.ranks, (from, end)).await?;
    nodes::slowed_gpus(client, id, &mut evidence.ranks, (from, end)).await?;
    // Operations are of the whole time, and what their bytes take of a part of it.
    let whole_time = evidence.seconds / milliseconds_as_seconds(end - from).max(1.0);
    evidence.ideals = links.ideals(&evidence.ranks, &places, whole_time);
    evidence.links = links.links;
    if has_traffic {
        evidence.traffic = pairs(client, id, &evidence.ranks, &places).await?;
        let ranks = evidence.ranks.len();
        let fresh_for = fresh_for(evidence.seconds);
        cache.jobs.insert(id, CachedPlaces { since: Instant::now(), fresh_for, ranks, places });
    }
    evidence.gpu_links = gpus::links(client, id, from, end).await?;
    evidence.before = earlier::run(client, job).await?;
    let heading =
        as_of.as_ref().map_or_else(|| heading(job), |at| format!("{}, {}", heading(job), at.words()));
    let age_seconds = milliseconds_as_seconds(end - start);
    Ok(OfJob { heading, evidence, age_seconds, has_traffic, as_of })
}

/// Which job it is, for its report.
fn heading(job: &Job) -> String {
    let name = job.native_id.as_deref().unwrap_or(&job.key);
    let user = job.user.as_ref().map_or_else(String::new, |user| format!(" of {user}"));
    let command = job.command.as_ref().map_or_else(String::new, |command| {
        let cut: String = command.chars().take(60).collect();
        format!(" ({}{})", cut.trim(), if cut.len() < command.len() { "…" } else { "" })
    });
    let node =
        job.only_node.as_ref().map_or_else(String::new, |node| format!(", which {node} alone reports"));
    let contested = match job.ranks_contested {
        0 => String::new(),
        ranks => format!(", {ranks} more of its ranks contested between nodes and left out"),
    };
    format!("Job {name}{user}{command}{node}{contested}")
}

#[allow(clippy::cast_precision_loss)] // milliseconds
fn milliseconds_as_seconds(milliseconds: i64) -> f64 {
    milliseconds as f64 / 1e3
}

/// Operations in which a rank waits for whatever message comes.
const RECEIVES: [&str; 4] = ["recv", "mrecv", "probe", "mprobe"];

async fn ranks(client: &Client, id: i64, as_of: Option<&AsOf>, cells: &[Cell]) -> Result<Vec<Rank>, Error> {
    let mut receives: HashMap<u32, f64> = HashMap::new();
    for Cell { sums, .. } in cells.iter().filter(|cell| RECEIVES.contains(&&*cell.sums.operation)) {
        *receives.entry(sums.rank).or_default() += sums.elapsed_seconds;
    }
    let totals: HashMap<i32, jobs::Totals> =
        jobs::rank_totals(client, id, as_of).await?.into_iter().collect();
    let cpu = rank_cpu(client, id).await?.into_iter().map(|one| (one.rank, one));
    let cpu: HashMap<i32, RankCpu> = cpu.collect();
    let rank = |one: jobs::Rank| {
        let totals = totals.get(&one.rank).copied().unwrap_or_default();
        let cpu = cpu.get(&one.rank);
        // A rank that calls nothing has no new row, and its time goes on.
        let read =
            cpu.and_then(|cpu| cpu.times).filter(|_| one.end.is_none()).map_or(0.0, |times| times.elapsed);
        let observed = totals.observed_seconds.unwrap_or_default().max(read);
        let scheduling = cpu.and_then(|cpu| {
            let (cpu_seconds, runqueue_wait_seconds) = cpu.cpu_seconds.zip(cpu.runqueue_wait_seconds)?;
            Some(Scheduling { cpu_seconds, runqueue_wait_seconds })
        });
        let rank = u32::try_from(one.rank).ok()?;
        Some(Rank {
            rank,
            receive_seconds: receives.get(&rank).copied().unwrap_or_default(),
            times: cpu.and_then(|cpu| cpu.times).map(|times| times.in_seconds(observed)),
            stopped_seconds: cpu.and_then(|cpu| cpu.stopped_seconds).filter(|_| one.end.is_none()),
            ended_ms: one.end,
            host: one.host,
            has_ended: one.end.is_some(),
            ending: one.ending,
            observed_seconds: observed,
            // Several threads may be inside at a time.
            mpi_seconds: totals.mpi_seconds.min(observed),
            cpus: one.cpus.as_deref().map(numbers).unwrap_or_default(),
            scheduling,
            recent_cpu_share: cpu.and_then(|cpu| cpu.recent_cpu_share).filter(|_| one.end.is_none()),
            cpu_hertz: cpu.and_then(|cpu| cpu.cpu_hertz),
            is_far_from_adapter: cpu.and_then(RankCpu::is_far_from_adapter),
            ..Rank::default()
        })
    };
    Ok(jobs::ranks(client, id).await?.into_iter().filter_map(rank).collect())
}

/// `0-3,8` as numbers; at most a thousand of them.
fn numbers(list: &str) -> Vec<u32> {
    let part = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse::<u32>().ok()?..=last.trim().parse::<u32>().ok()?)
    };
    list.split(',').filter_map(part).flatten().take(1024).collect()
}

/// What was waiting; absent where no call is known.
async fn waiting(client: &Client, job: &Job, cells: &[Cell]) -> Result<Option<Waiting>, Error> {
    let states = waits::of_job(client, job, cells, Depth::Quick).await?.states;
    let operation = |one: &throughline_waits::OperationWaits| {
        let waiting = one.parts.waiting();
        OperationWaiting {
            operation: one.operation.clone(),
            seconds: waiting.seconds,
            low_seconds: waiting.low,
            high_seconds: waiting.high,
        }
    };
    let last = |one: &throughline_waits::LastArrival| LastArrival {
        rank: one.rank,
        share: one.share,
        waited_seconds: one.waited_seconds,
    };
    let waiting = Waiting {
        operations: states.operations.iter().map(operation).collect(),
        last_arrivals: states.last_arrivals.iter().map(last).collect(),
    };
    Ok(Some(waiting).filter(|waiting| !waiting.operations.is_empty()))
}

/// By operation and size class, over all ranks.
fn operations(cells: &[Cell]) -> Vec<Operation> {
    let mut all: BTreeMap<(&str, u64), Operation> = BTreeMap::new();
    for Cell { sums, bytes } in cells {
        let one = all.entry((&sums.operation, sums.size_class_bytes)).or_insert_with(|| Operation {
            operation: sums.operation.clone(),
            size_class_bytes: sums.size_class_bytes,
            ..Operation::default()
        });
        one.calls += sums.calls;
        one.bytes = one.bytes.saturating_add(*bytes);
        one.seconds += sums.elapsed_seconds;
    }
    all.into_values().collect()
}

async fn regions(client: &Client, id: i64) -> Result<Vec<Region>, Error> {
    let sql = "SELECT rank, region, greatest(own_seconds - coalesce(mpi_seconds, 0), 0)::float8 FROM internal.mpi_region_totals
               WHERE job_id = $1 AND own_seconds IS NOT NULL ORDER BY region, rank";
    let rows = client.query(sql, &[&id]).await.map_err(Error::sql("summing the regions of ranks"))?;
    let region = |row: &tokio_postgres::Row| {
        Some(Region {
            rank: u32::try_from(row.get::<_, i32>(0)).ok()?,
            region: row.get(1),
            compute_seconds: row.get(2),
        })
    };
    Ok(rows.iter().filter_map(region).collect())
}

async fn calls(client: &Client, id: i64) -> Result<Vec<OpenCall>, Error> {
    let call = |call: open_calls::OpenCall| {
        Some(OpenCall {
            rank: u32::try_from(call.rank).ok()?,
            operation: call.operation,
            comm: call.comm,
            comm_size: call.comm_size.and_then(|size| u32::try_from(size).ok()),
            peer: call.peer.and_then(|peer| u32::try_from(peer).ok()),
            is_from_any: call.is_from_any,
            tag: call.tag.and_then(|tag| u32::try_from(tag).ok()),
            requests: u32::try_from(call.requests).unwrap_or_default(),
            pending_requests: u32::try_from(call.pending_requests).unwrap_or_default(),
            oldest_request: call.oldest_request,
            oldest_peer: call.oldest_peer.and_then(|peer| u32::try_from(peer).ok()),
            oldest_tag: call.oldest_tag.and_then(|tag| u32::try_from(tag).ok()),
            is_counted: call.is_counted,
            threads_elsewhere: u32::try_from(call.threads_elsewhere).unwrap_or_default(),
            threads_to_come: u32::try_from(call.threads_to_come).unwrap_or_default(),
            seconds: call.seconds,
            has_ended: call.is_of_ended_rank,
        })
    };
    Ok(open_calls::of_jobs(client, &[id]).await?.into_iter().filter_map(call).collect())
}

/// Who sends how much to whom, as the library sends it where that is known.
async fn pairs(client: &Client, id: i64, ranks: &[Rank], places: &Places) -> Result<Option<Traffic>, Error> {
    // Ranks are numbered from 0 without gaps, or some are not known.
    if ranks.iter().zip(0..).any(|(rank, number)| rank.rank != number) {
        return Ok(None);
    }
    let names: BTreeSet<&str> = ranks.iter().map(|rank| rank.host.as_str()).collect();
    let numbers: BTreeMap<&str, u32> = names.into_iter().zip(0..).collect();
    let kinds = traffic::kinds(client, id).await?;
    let Some(kind) = kinds.iter().find(|kind| *kind == "wire").or(kinds.first()) else { return Ok(None) };
    let found = traffic::pairs_behind(client, id, kind, None, PAIRS_MAX).await?;
    if found.from.is_empty() || i64::try_from(found.from.len()).is_ok_and(|pairs| pairs >= PAIRS_MAX) {
        return Ok(None);
    }
    let number = |rank: i32| u32::try_from(rank).unwrap_or(u32::MAX);
    #[allow(clippy::cast_precision_loss)] // below 2^53
    let pairs = found
        .from
        .iter()
        .zip(&found.to)
        .zip(&found.bytes)
        .map(|((from, to), bytes)| (number(*from), number(*to), *bytes as f64))
        .collect();
    let hosts = ranks.iter().map(|rank| numbers[rank.host.as_str()]).collect();
    Ok(Some(Traffic { pairs, hosts, leaves: places.leaves(&numbers) }))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_young_jobs_traffic_is_read_again_soon() {
        let seconds = |age: f64| super::fresh_for(age).as_secs();
        assert_eq!([seconds(10.0), seconds(200.0), seconds(86_400.0)], [120, 400, 1800]);
    }

    #[test]
    fn lists_of_cpus_are_numbers() {
        assert_eq!(super::numbers("0-3,8"), [0, 1, 2, 3, 8]);
        assert_eq!(super::numbers("5"), [5]);
        assert_eq!(super::numbers("x,4-"), [0_u32; 0]);
        assert_eq!(super::numbers("0-4000000000").len(), 1024);
    }
}
