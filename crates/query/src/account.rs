//! Where the time of a job's ranks went: what their threads did outside of MPI, as they and the kernel counted it, and what of the time
//! in MPI was waiting.

mod newer;
mod regions;
mod steps;

pub use steps::steps;

use crate::as_of;
use crate::jobs::{self, Job};
use crate::node_accounts;
use crate::open_calls::{self, OpenCall};
use crate::rank_cpu::{RankCpu, rank_cpu};
use crate::waits::{Cell, OfJob};
use std::collections::{BTreeMap, HashMap};
use throughline_api::account as api;
use throughline_store::Error;
use throughline_verdicts::account::{LineSeconds, MpiTimes, OffReasons, RankTimes, account};
use tokio_postgres::{Client, Row};

/// Ranks of a response.
const RANKS_MAX: usize = 1000;
/// Readings at the end of ten seconds come within this time after it.
const READING_MS: i64 = 1_000;

/// A rank with what is known of it.
struct RankAccount {
    rank: u32,
    node: String,
    /// When it was read.
    read_ms: Option<i64>,
    times: RankTimes,
    mpi: Option<MpiTimes>,
}

/// A job's account, given its operations and what of them was waiting.
///
/// # Errors
/// The database's.
pub async fn of_job(
    client: &Client,
    job: &Job,
    cells: &[Cell],
    waits: &OfJob,
) -> Result<api::JobAccount, Error> {
    let known: HashMap<i32, RankCpu> =
        rank_cpu(client, job.id).await?.into_iter().map(|one| (one.rank, one)).collect();
    let mut mpi = mpi_times(cells, waits);
    let open = open_starts(&open_calls::of_jobs(client, &[job.id]).await?);
    let (mut ranks, mut all, mut read) = (Vec::new(), 0_u32, Vec::new());
    for one in jobs::ranks(client, job.id).await? {
        all += 1;
        let cpu = known.get(&one.rank);
        let (Some(times), Ok(rank)) = (cpu.and_then(|cpu| cpu.times), u32::try_from(one.rank)) else {
            continue;
        };
        let read_ms = cpu.and_then(|cpu| cpu.read_ms);
        read.extend(read_ms);
        if let Some(mpi) = mpi.get_mut(&rank) {
            let start = open.get(&one.rank).copied();
            mpi.open = seconds(start.zip(read_ms).map_or(0, |(start, read)| read.saturating_sub(start)));
        }
        ranks.push(RankAccount { rank, node: one.host, read_ms, times, mpi: mpi.get(&rank).copied() });
    }
    let count = |ranks: usize| u32::try_from(ranks).unwrap_or(u32::MAX);
    if ranks.is_empty() {
        return packed(client, job, all).await;
    }
    let as_of = as_of::sums(client, &[job.id]).await?.remove(&job.id);
    let newer = newer(client, job, &ranks, as_of.as_ref(), &open).await?;
    // Where all ranks have newer readings it is as of these.
    let is_of_nodes =
        |at: &as_of::AsOf| newer.is_some() && read.iter().any(|read| *read <= at.milliseconds() + READING_MS);
    let described = as_of.as_ref().filter(|at| is_of_nodes(at)).map(as_of::AsOf::described);
    let newer = newer.unwrap_or_default();
    let nodes = nodes(&ranks, &newer);
    let whole: Vec<&RankAccount> = ranks.iter().chain(&newer).collect();
    let (elapsed_seconds, of_all) = lines(&whole);
    let mut order: Vec<&RankAccount> = ranks.iter().collect();
    order.sort_by(|one, other| {
        computing_share(&[one]).total_cmp(&computing_share(&[other])).then(one.rank.cmp(&other.rank))
    });
    let by_rank = order.iter().take(RANKS_MAX).map(|rank| {
        let (elapsed_seconds, lines) = lines(&[rank]);
        api::RankAccount { rank: rank.rank, node: rank.node.clone(), elapsed_seconds, lines }
    });
    Ok(api::JobAccount {
        job_key: job.key.clone(),
        regions: regions::of_job(client, job.id, as_of.as_ref()).await?,
        trends: steps::trends(client, job, as_of.as_ref()).await?,
        as_of: described,
        oldest_ms: read.iter().min().copied(),
        newest_ms: read.iter().max().copied(),
        ranks: all,
        ranks_without: all - count(ranks.len()),
        elapsed_seconds,
        lines: of_all,
        nodes,
        by_rank: by_rank.collect(),
    })
}

/// What nodes have beyond their ranks' rows; `None` where none reported anything.
async fn newer(
    client: &Client,
    job: &Job,
    ranks: &[RankAccount],
    as_of: Option<&as_of::AsOf>,
    open: &HashMap<i32, i64>,
) -> Result<Option<Vec<RankAccount>>, Error> {
    let Some(as_of) = as_of else { return Ok(None) };
    let newest = node_accounts::newest(client, job.id, as_of.until).await?;
    let beyond = by_node(ranks).into_iter().filter_map(|(node, ranks)| {
        newer::beyond(node, &ranks, newest.get(node)?, |rank| newer::open_since(open, rank, as_of))
    });
    Ok((!newest.is_empty()).then(|| beyond.collect()))
}

fn by_node(ranks: &[RankAccount]) -> BTreeMap<&str, Vec<&RankAccount>> {
    let mut by_node: BTreeMap<&str, Vec<&RankAccount>> = BTreeMap::new();
    ranks.iter().for_each(|rank| by_node.entry(&rank.node).or_default().push(rank));
    by_node
}

/// Those with the least computing first.
fn nodes(ranks: &[RankAccount], newer: &[RankAccount]) -> Vec<api::NodeAccount> {
    let newer = by_node(newer);
    let mut nodes: Vec<(f64, api::NodeAccount)> = by_node(ranks)
        .into_iter()
        .map(|(node, mut ranks)| {
            let count = u32::try_from(ranks.len()).unwrap_or(u32::MAX);
            ranks.extend(newer.get(node).into_iter().flatten());
            let (elapsed_seconds, lines) = lines(&ranks);
            let account = api::NodeAccount { node: node.to_owned(), ranks: count, elapsed_seconds, lines };
            (computing_share(&ranks), account)
        })
        .collect();
    nodes.sort_by(|one, other| one.0.total_cmp(&other.0).then_with(|| one.1.node.cmp(&other.1.node)));
    nodes.into_iter().map(|(_, node)| node).collect()
}

const PACKED: &str = "
    SELECT host, ranks, elapsed_microseconds, mpi_microseconds, off_outside_microseconds, queued_outside_microseconds,
           off_inside_microseconds, queued_inside_microseconds, throttled_microseconds, file_samples, sleep_samples, lock_samples,
           stopped_samples, other_samples
    FROM internal.job_final_account($1)";

/// Of a job whose rows are gone: what stays of each node.
async fn packed(client: &Client, job: &Job, all: u32) -> Result<api::JobAccount, Error> {
    let rows =
        client.query(PACKED, &[&job.id]).await.map_err(Error::sql("reading where the time of ranks went"))?;
    let node = |row: &Row| {
        #[allow(clippy::cast_precision_loss)] // below 2^53 in a hundred years
        let seconds = |at: usize| row.get::<_, i64>(at) as f64 / 1e6;
        let samples = |at: usize| u32::try_from(row.get::<_, i64>(at)).unwrap_or(u32::MAX);
        let found = OffReasons {
            file: samples(9),
            sleep: samples(10),
            lock: samples(11),
            stopped: samples(12),
            other: samples(13),
        };
        let times = RankTimes {
            found,
            off_in_mpi: seconds(6),
            queued_in_mpi: seconds(7),
            throttled: seconds(8),
            ..RankTimes::of(seconds(2), seconds(3), seconds(4), seconds(5))
        };
        (u32::try_from(row.get::<_, i64>(1)).unwrap_or(u32::MAX), of_node(row.get(0), times))
    };
    let mut nodes: Vec<(u32, RankAccount)> = rows.iter().map(node).collect();
    nodes.sort_by(|(_, one), (_, other)| {
        computing_share(&[one]).total_cmp(&computing_share(&[other])).then_with(|| one.node.cmp(&other.node))
    });
    let (elapsed_seconds, of_all) = lines(&nodes.iter().map(|(_, node)| node).collect::<Vec<_>>());
    let ranks = nodes.iter().map(|(ranks, _)| ranks).sum::<u32>();
    let of_nodes = nodes.iter().map(|(ranks, node)| {
        let (elapsed_seconds, lines) = lines(&[node]);
        api::NodeAccount { node: node.node.clone(), ranks: *ranks, elapsed_seconds, lines }
    });
    Ok(api::JobAccount {
        job_key: job.key.clone(),
        ranks: all,
        ranks_without: all.saturating_sub(ranks),
        elapsed_seconds,
        lines: of_all,
        nodes: of_nodes.collect(),
        ..api::JobAccount::default()
    })
}

/// All ranks of a node as one.
fn of_node(node: String, times: RankTimes) -> RankAccount {
    RankAccount { rank: 0, node, read_ms: None, times, mpi: None }
}

/// By rank: what was waiting, and what its calls only began.
fn mpi_times(cells: &[Cell], waits: &OfJob) -> HashMap<u32, MpiTimes> {
    let mut by: HashMap<u32, MpiTimes> = HashMap::new();
    for rank in &waits.states.ranks {
        let waiting = rank.parts.waiting();
        by.entry(rank.rank).or_default().waiting = (waiting.seconds, waiting.low, waiting.high);
    }
    for Cell { sums, .. } in cells.iter().filter(|cell| begins(&cell.sums.operation)) {
        if let Some(of_rank) = by.get_mut(&sums.rank) {
            of_rank.starting += sums.elapsed_seconds;
        }
    }
    by
}

/// When the calls began that first threads are in and that have not returned, by rank, milliseconds since 1970.
fn open_starts(calls: &[OpenCall]) -> HashMap<i32, i64> {
    let own = calls.iter().filter(|call| call.thread == 0 && !call.is_counted);
    own.map(|call| (call.rank, call.start_ms)).collect()
}

#[allow(clippy::cast_precision_loss)] // milliseconds
fn seconds(milliseconds: i64) -> f64 {
    milliseconds.max(0) as f64 / 1e3
}

/// Whether an operation only begins something: `isend`, `iallreduce`, `start`; not `iprobe`.
fn begins(operation: &str) -> bool {
    let is_nonblocking =
        operation.starts_with('i') && !operation.starts_with("intercomm") && !operation.contains("probe");
    is_nonblocking || operation.starts_with("start") || operation.ends_with("_init")
}

fn computing_share(ranks: &[&RankAccount]) -> f64 {
    let sum = |of: fn(&RankTimes) -> f64| ranks.iter().map(|rank| of(&rank.times)).sum::<f64>();
    sum(|times| times.computing) / sum(|times| times.elapsed).max(f64::MIN_POSITIVE)
}

/// The elapsed time and the lines of some ranks.
fn lines(ranks: &[&RankAccount]) -> (f64, Vec<api::AccountLine>) {
    let times: Vec<RankTimes> = ranks.iter().map(|rank| rank.times).collect();
    let mut mpi = Some(MpiTimes::default());
    for rank in ranks {
        mpi = mpi.zip(rank.mpi).map(|(sum, one)| MpiTimes {
            waiting: (
                sum.waiting.0 + one.waiting.0,
                sum.waiting.1 + one.waiting.1,
                sum.waiting.2 + one.waiting.2,
            ),
            starting: sum.starting + one.starting,
            open: sum.open + one.open,
        });
    }
    let line = |one: LineSeconds| api::AccountLine {
        line: one.line.name().to_owned(),
        group: one.line.group().name().to_owned(),
        seconds: one.seconds,
        low: one.low,
        high: one.high,
    };
    let lines = account(&times, mpi).into_iter().map(line).collect();
    // The sum of nothing is negative zero.
    (times.iter().map(|times| times.elapsed).sum::<f64>() + 0.0, lines)
}

#[cfg(test)]
mod tests {
    use super::begins;

    #[test]
    fn calls_that_only_begin_something() {
        let of = ["isend", "irecv", "iallreduce", "start", "startall", "send_init", "ineighbor_alltoall"];
        assert!(of.into_iter().all(begins));
        let not = ["iprobe", "improbe", "intercomm_merge", "intercomm_create", "send", "wait", "finalize"];
        assert!(!not.into_iter().any(begins));
    }
}
