//! What is packed of a job, as rows have it, and as it was packed before where these are gone.

use serde_json::Value;
use std::collections::BTreeMap;
use std::time::SystemTime;
use tokio_postgres::{Row, Transaction};

use super::WHAT;
use super::account::{Accounts, accounts};
use crate::error::Error;

/// Pairs of nodes of each kind of traffic; the rest is one.
const PAIRS: i64 = 10_000;

/// Regions and paths that stay, those with the most time.
const REGIONS: i64 = 1024;
const PATHS: i64 = 4096;

/// Pairs of ranks of each kind that stay, as many as a job's page lists.
const BUSIEST: i64 = 3;

/// A start of a rank, as its node reported it. Times are microseconds since 2000.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RankStart {
    pub rank: i32,
    pub node_id: Option<i64>,
    pub host: String,
    /// `None` where only totals are known.
    pub pid: Option<i64>,
    pub world_size: Option<i32>,
    pub library: Option<String>,
    pub start: i64,
    pub end: Option<i64>,
    pub ending: Option<String>,
    /// Lists as the database writes arrays.
    pub gpus: Option<String>,
    pub ports: Option<String>,
    pub cpus: Option<String>,
    pub numa: Option<String>,
    pub port_numa: Option<String>,
    /// A call in which it was killed, and its nanoseconds.
    pub open: Option<(String, i64)>,
}

/// What a start of a rank did in an operation.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct OperationTotals {
    pub rank: i32,
    pub epoch: i64,
    pub operation: String,
    pub calls: i64,
    pub bytes: i64,
    pub elapsed: i64,
    pub longest: i64,
    pub wait: Option<i64>,
    pub received: Option<i64>,
}

/// What all ranks did in an operation with messages of a size class by an algorithm. Times are seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct CellTotals {
    pub operation: String,
    pub size_class_bytes: Option<i64>,
    pub algorithm: String,
    pub source: String,
    pub calls: i64,
    pub bytes: i64,
    pub received: Option<i64>,
    pub elapsed: f64,
    pub wait: Option<f64>,
    pub longest: Option<f64>,
}

/// Traffic from a node to another one; `None` for all others together.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct NodePair {
    pub kind: String,
    pub hosts: Option<(String, String)>,
    pub bytes: i64,
    pub messages: i64,
    pub rank_pairs: i64,
}

/// Counts of a job's ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RankSums {
    pub ranks: i32,
    pub starts: i32,
    pub nodes: i32,
    pub lost: i32,
    pub unseen: i32,
    pub silent: i32,
}

/// All that is packed of a job.
#[derive(Clone, Debug, Default)]
pub(super) struct JobTotals {
    pub began: Option<SystemTime>,
    pub sums: RankSums,
    /// In the order of ranks.
    pub ranks: Vec<RankStart>,
    pub operations: Vec<OperationTotals>,
    pub libraries: Vec<String>,
    pub cells: Vec<CellTotals>,
    pub pairs: Vec<NodePair>,
    pub regions: Option<Value>,
    pub paths: Option<Value>,
    pub traffic: Option<Value>,
    pub accounts: Accounts,
}

impl JobTotals {
    pub fn began(&self) -> Option<SystemTime> {
        self.began
    }

    /// What most ranks report.
    pub fn world_size(&self) -> Option<i32> {
        let mut counts: BTreeMap<i32, usize> = BTreeMap::new();
        self.ranks
            .iter()
            .filter_map(|rank| rank.world_size)
            .for_each(|size| *counts.entry(size).or_default() += 1);
        counts.into_iter().max_by_key(|(_, count)| *count).map(|(size, _)| size)
    }
}

/// Whether the job has ended, and whether rows of it are gone: then what is packed stays beside what came since.
const STATE: &str = "
SELECT coalesce(f.is_released, false) OR internal.job_rows_gone(j.id, 'mpi_rank_rows') OR internal.job_rows_gone(j.id, 'mpi_rank_peers'),
       coalesce(f.is_released, false), f.regions, f.paths, f.traffic
FROM internal.run j LEFT JOIN internal.job_final f ON f.job_id = j.id WHERE j.id = $1 AND j.end_time IS NOT NULL";

const MICROSECONDS: &str = "(extract(epoch FROM $) * 1000000)::bigint - 946684800000000";

fn microseconds(time: &str) -> String {
    MICROSECONDS.replace('$', time)
}

/// The totals of a job that has ended.
pub(super) async fn totals(transaction: &Transaction<'_>, job: i64) -> Result<Option<JobTotals>, Error> {
    let Some(state) = transaction.query_opt(STATE, &[&job]).await.map_err(Error::sql(WHAT))? else {
        return Ok(None);
    };
    let is_gone: bool = state.get(0);
    let mut totals = JobTotals::default();
    ranks(transaction, job, &mut totals).await?;
    totals.operations = operations(transaction, job, is_gone).await?;
    totals.cells = cells(transaction, job, is_gone).await?;
    totals.pairs = pairs(transaction, job, is_gone).await?;
    totals.accounts = accounts(transaction, job).await?;
    // Sums over ranks of what came so late can't be separated from what is packed.
    [totals.regions, totals.paths, totals.traffic] = match is_gone {
        true => [state.get(2), state.get(3), state.get(4)],
        false => documents(transaction, job).await?,
    };
    Ok(Some(totals))
}

async fn ranks(transaction: &Transaction<'_>, job: i64, totals: &mut JobTotals) -> Result<(), Error> {
    let sql = format!(
        "SELECT r.rank, r.node_id, r.host, r.pid, r.world_size, r.mpi_library, {start}, {end}, r.ending,
                CASE WHEN r.gpu_uuids = '{{}}' THEN '{{}}' ELSE (
                    SELECT array_agg(coalesce('#' || k.id, u.uuid) ORDER BY u.n)::text FROM unnest(r.gpu_uuids) WITH ORDINALITY u (uuid, n)
                    LEFT JOIN internal.gpu_key k ON k.node_id = r.node_id AND k.uuid = u.uuid) END,
                r.hca_ports::text, r.cpus, r.numa_nodes::text, r.hca_numa_nodes::text, r.start_time
         FROM internal.job_ranks($1) r ORDER BY r.rank, r.start_time, r.node_id",
        start = microseconds("r.start_time"),
        end = microseconds("r.end_time"),
    );
    let rows = transaction.query(&sql, &[&job]).await.map_err(Error::sql(WHAT))?;
    let rank = |row: &Row| RankStart {
        rank: row.get(0),
        node_id: row.get(1),
        host: row.get(2),
        pid: row.get(3),
        world_size: row.get(4),
        library: row.get(5),
        start: row.get(6),
        end: row.get(7),
        ending: row.get(8),
        gpus: row.get(9),
        ports: row.get(10),
        cpus: row.get(11),
        numa: row.get(12),
        port_numa: row.get(13),
        open: None,
    };
    totals.ranks = rows.iter().map(rank).collect();
    totals.began = rows.iter().map(|row| row.get::<_, SystemTime>(14)).min();
    let all = &totals.ranks;
    let ended =
        |ending: &str| count(all.iter().filter(|rank| rank.ending.as_deref() == Some(ending)).count());
    let distinct = |mut names: Vec<String>| {
        names.sort();
        names.dedup();
        names
    };
    let mut numbers: Vec<i32> = all.iter().map(|rank| rank.rank).collect();
    numbers.dedup();
    totals.sums = RankSums {
        ranks: count(numbers.len()),
        starts: count(all.len()),
        nodes: count(distinct(all.iter().map(|rank| rank.host.clone()).collect()).len()),
        lost: ended("lost"),
        unseen: ended("unseen"),
        silent: ended("silent"),
    };
    totals.libraries = distinct(all.iter().filter_map(|rank| rank.library.clone()).collect());
    open_calls(transaction, job, &mut totals.ranks).await
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// Calls in which ranks were killed: of each start the one that took the longest, and the time of all of its threads.
async fn open_calls(transaction: &Transaction<'_>, job: i64, ranks: &mut [RankStart]) -> Result<(), Error> {
    let sql = format!(
        "SELECT rank, {end}, (array_agg(operation ORDER BY nanoseconds DESC))[1],
                internal.stored_total(sum(nanoseconds))
         FROM (
             SELECT c.rank, c.rank_end_time, c.operation, round(c.seconds::numeric * 1000000000)::bigint AS nanoseconds
             FROM internal.mpi_open_calls c WHERE c.job_id = $1
             UNION ALL
             SELECT e.rank, e.end_time, e.open_operation, e.open_nanoseconds FROM internal.job_final_ranks($1) e
             WHERE e.is_released AND e.open_nanoseconds IS NOT NULL
         ) o WHERE rank_end_time IS NOT NULL GROUP BY rank, rank_end_time",
        end = microseconds("rank_end_time"),
    );
    for row in transaction.query(&sql, &[&job]).await.map_err(Error::sql(WHAT))? {
        let (rank, end): (i32, i64) = (row.get(0), row.get(1));
        if let Some(start) = ranks.iter_mut().find(|start| start.rank == rank && start.end == Some(end)) {
            start.open = Some((row.get(2), row.get(3)));
        }
    }
    Ok(())
}

/// Sums of whole nanoseconds: each cell is a whole number of them.
async fn operations(
    transaction: &Transaction<'_>,
    job: i64,
    is_gone: bool,
) -> Result<Vec<OperationTotals>, Error> {
    let sql = format!(
        "SELECT rank, {epoch}, operation, max(calls), max(bytes), max(elapsed), max(longest), max(wait), max(received)
         FROM (
             SELECT c.rank, c.epoch, c.operation, internal.stored_total(sum(c.calls)) AS calls, internal.stored_total(sum(c.bytes)) AS bytes,
                    internal.stored_total(sum(round(c.elapsed_seconds::numeric * 1000000000))) AS elapsed,
                    coalesce(round(max(c.longest_seconds)::numeric * 1000000000)::bigint, 0) AS longest,
                    internal.stored_total(sum(round(c.wait_seconds::numeric * 1000000000))) AS wait,
                    internal.stored_total(sum(c.received_bytes)) AS received
             FROM internal.mpi_op_cells($1) c GROUP BY 1, 2, 3
             UNION ALL
             SELECT o.rank, o.epoch, o.operation, o.calls, o.bytes, o.elapsed_nanoseconds, o.longest_nanoseconds, o.wait_nanoseconds,
                    o.received_bytes
             FROM internal.job_final_operations($1) o WHERE $2
         ) totals GROUP BY rank, epoch, operation ORDER BY rank, epoch, operation",
        epoch = microseconds("epoch"),
    );
    let rows = transaction.query(&sql, &[&job, &is_gone]).await.map_err(Error::sql(WHAT))?;
    let totals = |row: &Row| OperationTotals {
        rank: row.get(0),
        epoch: row.get(1),
        operation: row.get(2),
        calls: row.get(3),
        bytes: row.get(4),
        elapsed: row.get(5),
        longest: row.get(6),
        wait: row.get(7),
        received: row.get(8),
    };
    Ok(rows.iter().map(totals).collect())
}

/// As a job's page has them. Starts of ranks that are packed are in what is packed.
async fn cells(transaction: &Transaction<'_>, job: i64, is_gone: bool) -> Result<Vec<CellTotals>, Error> {
    let sql = "
        SELECT operation, size_class_bytes, algorithm, algorithm_source, internal.stored_total(sum(calls)),
               internal.stored_total(sum(bytes)), internal.stored_total(sum(received_bytes)), coalesce(sum(elapsed_seconds), 0),
               sum(wait_seconds), max(longest_seconds)
        FROM (
            SELECT c.operation, c.size_class_bytes, c.algorithm, max(c.algorithm_source) AS algorithm_source, sum(c.calls) AS calls,
                   sum(c.bytes) AS bytes, sum(c.received_bytes) AS received_bytes, sum(c.elapsed_seconds) AS elapsed_seconds,
                   sum(c.wait_seconds) AS wait_seconds, max(c.longest_seconds) AS longest_seconds
            FROM internal.mpi_op_cells($1) c
            WHERE NOT $2 OR (c.rank, c.epoch) NOT IN (SELECT o.rank, o.epoch FROM internal.job_final_operations($1) o)
            GROUP BY c.rank, c.operation, c.size_class_bytes, c.region, c.algorithm
            UNION ALL
            SELECT f.operation, f.size_class_bytes, f.algorithm, f.algorithm_source, f.calls, f.bytes, f.received_bytes, f.elapsed_seconds,
                   f.wait_seconds, f.longest_seconds
            FROM internal.job_final_cells($1) f WHERE $2
        ) c GROUP BY operation, size_class_bytes, algorithm, algorithm_source
        ORDER BY operation, size_class_bytes, algorithm, algorithm_source";
    let rows = transaction.query(sql, &[&job, &is_gone]).await.map_err(Error::sql(WHAT))?;
    let cell = |row: &Row| CellTotals {
        operation: row.get(0),
        size_class_bytes: row.get(1),
        algorithm: row.get(2),
        source: row.get(3),
        calls: row.get::<_, Option<i64>>(4).unwrap_or_default(),
        bytes: row.get::<_, Option<i64>>(5).unwrap_or_default(),
        received: row.get(6),
        elapsed: row.get(7),
        wait: row.get(8),
        longest: row.get(9),
    };
    Ok(rows.iter().map(cell).collect())
}

/// The largest pairs of nodes of each kind, and the rest; ranks whose host is not known are in the rest.
async fn pairs(transaction: &Transaction<'_>, job: i64, is_gone: bool) -> Result<Vec<NodePair>, Error> {
    let sql = "
        WITH hosts AS MATERIALIZED (
            SELECT DISTINCT ON (rank) rank, host FROM internal.job_ranks($1) ORDER BY rank, start_time DESC
        ), counted AS (
            SELECT p.kind, s.host AS from_host, d.host AS to_host, sum(p.bytes) AS bytes, sum(p.messages) AS messages, count(*) AS rank_pairs
            FROM (SELECT c.kind, c.rank, c.peer, sum(c.bytes) AS bytes, sum(c.messages) AS messages
                  FROM internal.mpi_peer_cells($1) c GROUP BY 1, 2, 3) p
            LEFT JOIN hosts s ON s.rank = p.rank LEFT JOIN hosts d ON d.rank = p.peer GROUP BY 1, 2, 3
            UNION ALL
            SELECT f.kind, f.from_host, f.to_host, f.bytes, f.messages, f.rank_pairs FROM internal.job_final_pairs($1) f WHERE $2
        ), merged AS (
            SELECT kind, from_host, to_host, max(bytes) AS bytes, max(messages) AS messages, max(rank_pairs) AS rank_pairs,
                   row_number() OVER (PARTITION BY kind, from_host IS NULL OR to_host IS NULL
                                      ORDER BY max(bytes) DESC, max(messages) DESC, from_host, to_host) AS place
            FROM counted GROUP BY kind, from_host, to_host
        )
        SELECT kind, CASE WHEN is_listed THEN from_host END, CASE WHEN is_listed THEN to_host END, internal.stored_total(sum(bytes)),
               internal.stored_total(sum(messages)), internal.stored_total(sum(rank_pairs))
        FROM (SELECT *, place <= $3 AND from_host IS NOT NULL AND to_host IS NOT NULL AS is_listed FROM merged) m
        GROUP BY 1, 2, 3 ORDER BY 1, 2, 3";
    let rows = transaction.query(sql, &[&job, &is_gone, &PAIRS]).await.map_err(Error::sql(WHAT))?;
    let pair = |row: &Row| NodePair {
        kind: row.get(0),
        hosts: row.get::<_, Option<String>>(1).zip(row.get(2)),
        bytes: row.get::<_, Option<i64>>(3).unwrap_or_default(),
        messages: row.get::<_, Option<i64>>(4).unwrap_or_default(),
        rank_pairs: row.get::<_, Option<i64>>(5).unwrap_or_default(),
    };
    Ok(rows.iter().map(pair).collect())
}

/// Regions, paths and traffic, as a job's page has them.
async fn documents(transaction: &Transaction<'_>, job: i64) -> Result<[Option<Value>; 3], Error> {
    let regions = "
        SELECT json_agg(json_build_array(region, ranks, visits, elapsed_seconds, mpi_calls, mpi_seconds)) FROM (
            SELECT region, count(DISTINCT rank) AS ranks, internal.stored_total(sum(visits)) AS visits,
                   coalesce(sum(elapsed_seconds), 0) AS elapsed_seconds, internal.stored_total(sum(mpi_calls)) AS mpi_calls,
                   sum(mpi_seconds) AS mpi_seconds
            FROM internal.mpi_region_totals WHERE job_id = $1
            GROUP BY region ORDER BY sum(elapsed_seconds) DESC, region LIMIT $2) r";
    let paths = "
        SELECT json_agg(json_build_array(path, ranks, visits, elapsed_seconds, own_seconds, mpi_calls, mpi_seconds)) FROM (
            SELECT path, count(DISTINCT rank) AS ranks, internal.stored_total(sum(visits)) AS visits,
                   coalesce(sum(elapsed_seconds), 0) AS elapsed_seconds, coalesce(sum(own_seconds), 0) AS own_seconds,
                   internal.stored_total(sum(mpi_calls)) AS mpi_calls, coalesce(sum(mpi_seconds), 0) AS mpi_seconds
            FROM internal.mpi_path_totals WHERE job_id = $1
            GROUP BY path ORDER BY elapsed_seconds DESC, path LIMIT $2) p";
    let traffic = "
        SELECT json_agg(json_build_array(kind, all_bytes, all_messages, all_pairs, between_bytes, rank, peer, bytes, messages, same_node)) FROM (
            WITH hosts AS MATERIALIZED (
                SELECT DISTINCT ON (rank) rank, host FROM internal.job_ranks($1) ORDER BY rank, start_time DESC
            ), pairs AS MATERIALIZED (
                SELECT p.kind, p.rank, p.peer, p.bytes, p.messages, s.host = d.host AS same_node,
                       row_number() OVER (PARTITION BY p.kind ORDER BY p.bytes DESC, p.messages DESC, p.rank, p.peer) AS place
                FROM public.mpi_peer_totals p LEFT JOIN hosts s ON s.rank = p.rank LEFT JOIN hosts d ON d.rank = p.peer
                WHERE p.job_id = $1
            ), sums AS (
                SELECT kind, internal.stored_total(sum(bytes)) AS all_bytes, internal.stored_total(sum(messages)) AS all_messages,
                       count(*) AS all_pairs,
                       internal.stored_total(coalesce(sum(bytes) FILTER (WHERE NOT same_node), 0)) AS between_bytes
                FROM pairs GROUP BY kind
            )
            SELECT s.*, p.rank, p.peer, p.bytes, p.messages, p.same_node
            FROM sums s JOIN pairs p ON p.kind = s.kind AND p.place <= $2 ORDER BY s.kind, p.place) t";
    let mut documents = [None, None, None];
    for ((sql, limit), document) in
        [(regions, REGIONS), (paths, PATHS), (traffic, BUSIEST)].into_iter().zip(&mut documents)
    {
        *document = transaction.query_one(sql, &[&job, &limit]).await.map_err(Error::sql(WHAT))?.get(0);
    }
    Ok(documents)
}
