//! What a job's ranks sent to each other, and their operations over time.

use crate::job_span::Span;
use crate::time::{Grid, QueryTime, milliseconds};
use throughline_api::jobs::{NodePairs, PairColumns};
use throughline_store::Error;
use throughline_store::sql_time::moment;
use tokio_postgres::Client;
use tokio_postgres::types::ToSql;

/// What a matrix counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Bytes.
    Bytes,
    /// Messages.
    Messages,
}

/// Traffic from one rank to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Who sends.
    pub rank: i32,
    /// Who receives.
    pub peer: i32,
    /// Bytes or messages.
    pub value: i64,
}

/// What a job's ranks sent to each other until a time, by rank and peer; at most `limit` pairs.
///
/// # Errors
/// The database's.
pub async fn pairs(
    client: &Client,
    job: i64,
    kind: &str,
    measure: Measure,
    at: QueryTime,
    limit: i64,
) -> Result<Vec<Pair>, Error> {
    let column = match measure {
        Measure::Bytes => "bytes",
        Measure::Messages => "messages",
    };
    let until = match at {
        QueryTime::Latest => "TIMESTAMPTZ 'infinity'".to_owned(),
        QueryTime::Time(time) => moment(time),
    };
    let sql = format!(
        "SELECT rank, peer, internal.stored_total(sum({column})) FROM internal.mpi_peer_cells($1, {until}) WHERE kind = $2
         GROUP BY rank, peer HAVING sum({column}) > 0 ORDER BY rank, peer LIMIT $3"
    );
    let rows = client.query(&sql, &[&job, &kind, &limit]).await;
    let rows = rows.map_err(Error::sql("reading who sent how much to whom"))?;
    Ok(rows.iter().map(|row| Pair { rank: row.get(0), peer: row.get(1), value: row.get(2) }).collect())
}

const ALL_PAIRS: &str = "
    SELECT rank, peer, bytes, messages FROM public.mpi_peer_totals
    WHERE job_id = $1 AND kind = $2 AND ($3::integer IS NULL OR (rank, peer) > ($3, $4::integer))
    ORDER BY rank, peer LIMIT $5";

/// Bytes and messages of the pairs of ranks behind a pair, by rank and peer; at most `limit`.
///
/// # Errors
/// The database's.
pub async fn pairs_behind(
    client: &Client,
    job: i64,
    kind: &str,
    behind: Option<(i32, i32)>,
    limit: i64,
) -> Result<PairColumns, Error> {
    let (rank, peer) = behind.unzip();
    let rows = client.query(ALL_PAIRS, &[&job, &kind, &rank, &peer, &limit]).await;
    let mut pairs = PairColumns::default();
    for row in rows.map_err(Error::sql("reading who sent how much to whom"))? {
        pairs.from.push(row.get(0));
        pairs.to.push(row.get(1));
        pairs.bytes.push(row.get::<_, Option<i64>>(2).unwrap_or_default());
        pairs.messages.push(row.get::<_, Option<i64>>(3).unwrap_or_default());
    }
    Ok(pairs)
}

/// From one rank and kind to the next down the primary key; a job that has both kinds has both for the first of them.
const KINDS: &str = "
    WITH RECURSIVE lines (rank, kind) AS (
        (SELECT rank, kind FROM internal.mpi_rank_peers m
         WHERE m.job_id = $1 AND m.time >= SINCE AND m.time <= UNTIL ORDER BY rank, kind LIMIT 1)
        UNION ALL SELECT n.rank, n.kind FROM lines l CROSS JOIN LATERAL (
            SELECT m.rank, m.kind FROM internal.mpi_rank_peers m
            WHERE m.job_id = $1 AND m.time >= SINCE AND m.time <= UNTIL AND (m.rank, m.kind) > (l.rank, l.kind)
            ORDER BY m.rank, m.kind LIMIT 1) n
    )
    SELECT DISTINCT CASE kind WHEN 'read' THEN 'logical' ELSE kind END AS kind FROM (SELECT kind FROM lines LIMIT 16) first
    UNION
    SELECT unnest(f.pair_kinds) FROM internal.job_final f WHERE f.job_id = $1 AND internal.job_rows_gone($1, 'mpi_rank_peers')
    ORDER BY kind";

/// Kinds of matrices that a job has.
///
/// # Errors
/// The database's.
pub async fn kinds(client: &Client, job: i64) -> Result<Vec<String>, Error> {
    let sql = Span::of_job(client, job).await?.within(KINDS);
    let rows = client.query(&sql, &[&job]).await.map_err(Error::sql("looking for a job's matrices"))?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// Hosts of the final pairs, and when the rows of ranks went.
const FINAL_NODES: &str = "
    SELECT coalesce((SELECT array_agg(n.host ORDER BY n.place) FROM internal.job_node_final n WHERE n.job_id = f.job_id), '{}'),
           f.ended_at + p.keep
    FROM internal.job_final f CROSS JOIN internal.retention_policy p
    WHERE f.job_id = $1 AND p.hypertable = 'mpi_rank_peers' AND internal.job_rows_gone($1, 'mpi_rank_peers')";

const FINAL_PAIRS: &str = "
    SELECT from_place, to_place, bytes, messages, rank_pairs FROM internal.job_final_pairs($1) WHERE kind = $2
    ORDER BY from_place, to_place";

/// Traffic between the nodes of a job whose pairs of ranks are kept no longer; `None` where these are there.
///
/// # Errors
/// The database's.
pub async fn node_pairs(client: &Client, job: i64, kind: &str) -> Result<Option<NodePairs>, Error> {
    const WHAT: &str = "reading which node sent how much to which";
    let Some(row) = client.query_opt(FINAL_NODES, &[&job]).await.map_err(Error::sql(WHAT))? else {
        return Ok(None);
    };
    let mut pairs =
        NodePairs { hosts: row.get(0), ranks_until_ms: milliseconds(row.get(1)), ..NodePairs::default() };
    for row in client.query(FINAL_PAIRS, &[&job, &kind]).await.map_err(Error::sql(WHAT))? {
        let place = |column: usize| usize::try_from(row.get::<_, i32>(column) - 1).ok();
        if let Some((from, to)) = place(0).zip(place(1)) {
            pairs.from.push(from);
            pairs.to.push(to);
            pairs.bytes.push(row.get(2));
            pairs.messages.push(row.get(3));
        } else {
            pairs.others_bytes += row.get::<_, i64>(2);
            pairs.others_messages += row.get::<_, i64>(3);
            pairs.others_rank_pairs += row.get::<_, i64>(4);
        }
    }
    Ok(Some(pairs))
}

/// What operations over time are distinguished by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepGrouping {
    /// Each operation, over all ranks.
    Operation,
    /// Each rank, over all operations.
    Rank,
}

/// Operations in one step of a grid.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Which operation, or `None` where it is by rank.
    pub operation: Option<String>,
    /// Which rank, or `None` where it is by operation.
    pub rank: Option<i32>,
    /// The step of the grid, from 0.
    pub step: i32,
    /// Calls in it.
    pub calls: i64,
    /// Bytes passed to send in it.
    pub bytes: i64,
    /// Time inside that was reported in it.
    pub elapsed_seconds: f64,
}

/// One operation or one rank, where only that is requested.
#[derive(Clone, Copy, Debug, Default)]
pub struct TrafficFilter<'a> {
    /// This operation.
    pub operation: Option<&'a str>,
    /// This rank.
    pub rank: Option<i32>,
}

/// SQL for the last value of each cell of each rank before a grid with detail: that of the last minutes is newer than the rows that are
/// made anyway.
fn before_detail(grid: &Grid) -> String {
    let from = moment(grid.from);
    let cell = "rank, operation, size_class_bytes, region, algorithm, epoch";
    format!(
        "SELECT rank AS place, {cell}, max(calls) AS calls, max(bytes) AS bytes, max(elapsed_seconds) AS elapsed_seconds
         FROM (SELECT {cell}, calls, bytes, elapsed_seconds FROM internal.mpi_op_cells($1, {from})
               UNION ALL
               SELECT {cell}, calls, bytes, elapsed_seconds FROM internal.mpi_op_rows
               WHERE job_id = $1 AND time > {from} - interval '2 minutes' AND time <= {from} AND {stored}) known
         GROUP BY {cell}",
        stored = crate::detail::stored(grid.from - 120_000, grid.from),
    )
}

/// A job's operations in the steps of a grid, of each rank where there is detail of that time, ordered by the columns that
/// distinguish them; at most `limit` rows.
///
/// # Errors
/// The database's.
pub async fn operations(
    client: &Client,
    job: i64,
    grid: &Grid,
    by: StepGrouping,
    only: TrafficFilter<'_>,
    is_detailed: bool,
    limit: i64,
) -> Result<Vec<Step>, Error> {
    let key = match by {
        StepGrouping::Operation => "operation, NULL::integer",
        StepGrouping::Rank => "NULL::text, rank",
    };
    // Of a rank there are rows less often than of the ranks of a node together.
    if !is_detailed && (by == StepGrouping::Rank || only.rank.is_some()) {
        return read(client, &of_ranks(grid, key), job, only, limit).await;
    }
    let (rows, place, before) = if is_detailed {
        ("internal.mpi_op_rows", "rank", before_detail(grid))
    } else {
        let columns = "operation, size_class_bytes, region, algorithm, epoch, calls, bytes, elapsed_seconds";
        let before = format!(
            "SELECT rank AS place, NULL::integer AS rank, {columns} FROM internal.mpi_overflow_cells($1, {from})
             UNION ALL SELECT -1 - node_id, NULL, {columns} FROM internal.mpi_node_op_cells($1, {from})",
            from = moment(grid.from)
        );
        ("public.mpi_op_series", "coalesce(rank, -1 - node_id)", before)
    };
    // Rows are cumulative: of each cell the last in each step, less the last before.
    let sql = format!(
        "WITH cells AS (
             SELECT {place} AS place, rank, operation, size_class_bytes, region, algorithm, epoch, {step} AS step,
                    max(calls) AS calls, max(bytes) AS bytes, max(elapsed_seconds) AS elapsed
             FROM {rows} WHERE job_id = $1 AND time > {from} AND time <= {to} AND {within}
               AND ($2::text IS NULL OR operation = $2) AND ($3::integer IS NULL OR rank = $3)
             GROUP BY place, rank, operation, size_class_bytes, region, algorithm, epoch, step
             UNION ALL
             SELECT place, rank, operation, size_class_bytes, region, algorithm, epoch, -1, calls, bytes, elapsed_seconds
             FROM ({before}) before
             WHERE ($2::text IS NULL OR operation = $2) AND ($3::integer IS NULL OR rank = $3)
         ), steps AS (
             SELECT rank, operation, step, calls - coalesce(lag(calls) OVER cell, 0) AS calls,
                    bytes - coalesce(lag(bytes) OVER cell, 0) AS bytes,
                    elapsed - coalesce(lag(elapsed) OVER cell, 0) AS elapsed
             FROM cells
             WINDOW cell AS (PARTITION BY place, operation, size_class_bytes, region, algorithm, epoch ORDER BY step)
         )
         SELECT {key}, step, internal.stored_total(sum(calls)), internal.stored_total(sum(bytes)), sum(elapsed)::float8
         FROM steps WHERE step >= 0 GROUP BY 1, 2, 3 ORDER BY 1, 2, 3 LIMIT $4",
        step = grid.step_of("time"),
        from = moment(grid.from),
        to = moment(grid.to()),
        within = if is_detailed { crate::detail::stored(grid.from, grid.to()) } else { "true".to_owned() },
    );
    read(client, &sql, job, only, limit).await
}

/// Longest time before a row of a rank in which it did what the row has more than that before: `[mpi] rank_later_seconds` of agent.toml
/// unless it was changed. Where the rank was idle, the row before is older.
const FOLDED_SECONDS_MAX: u32 = 300;

/// The same of hours whose rows are thinned: of each half hour the last one is left.
const THINNED_SECONDS_MAX: u32 = 1800;

/// SQL for the one of them that holds for a row of a time.
fn folded_at_most(time: &str) -> String {
    format!(
        "CASE WHEN {time} < (SELECT max(range_end) FROM internal.thinned_chunk WHERE hypertable = 'mpi_rank_rows')
         THEN interval '{THINNED_SECONDS_MAX} seconds' ELSE interval '{FOLDED_SECONDS_MAX} seconds' END"
    )
}

/// SQL for operations of ranks in the steps of a grid. What a row has more than that before is spread evenly over the time between them,
/// in whole calls and bytes that add up to it: rows of a rank come each five minutes in a long run, and steps may be much shorter.
fn of_ranks(grid: &Grid, key: &str) -> String {
    const CELL: &str = "rank, operation, size_class_bytes, region, algorithm, epoch";
    let (from, to, step) = (moment(grid.from), moment(grid.to()), grid.step);
    let edge = |steps: &str| format!("(extract(epoch FROM {from}) + ({steps}) * {step} / 1000.0)::float8");
    // The part of a stretch that lies before an edge.
    let part =
        |steps: &str| format!("least(greatest(({} - since) / nullif(until - since, 0), 0), 1)", edge(steps));
    let whole = |column: &str| {
        format!(
            "CASE WHEN is_folded THEN round({column} * {later}) - round({column} * {before}) ELSE {column} END",
            later = part("s + 1"),
            before = part("s")
        )
    };
    format!(
        "WITH counted AS (
             SELECT {CELL}, time, is_folded, calls, bytes, elapsed_seconds AS elapsed FROM internal.mpi_op_rows
             WHERE job_id = $1 AND time > {from} AND time <= {to} + {after}
               AND ($2::text IS NULL OR operation = $2) AND ($3::integer IS NULL OR rank = $3)
             UNION ALL
             SELECT {CELL}, last_time, false, calls, bytes, elapsed_seconds FROM internal.mpi_op_cells($1, {from})
             WHERE ($2::text IS NULL OR operation = $2) AND ($3::integer IS NULL OR rank = $3)
         ), grown AS (
             SELECT rank, operation, time, is_folded,
                    greatest(coalesce(lag(time) OVER cell, epoch), time - {longest}) AS since,
                    calls - coalesce(lag(calls) OVER cell, 0) AS calls, bytes - coalesce(lag(bytes) OVER cell, 0) AS bytes,
                    elapsed - coalesce(lag(elapsed) OVER cell, 0) AS elapsed
             FROM counted WINDOW cell AS (PARTITION BY {CELL} ORDER BY time, is_folded)
         ), stretches AS (
             SELECT {key}, is_folded, extract(epoch FROM since)::float8 AS since, extract(epoch FROM time)::float8 AS until,
                    {step_of} AS last, sum(calls)::float8 AS calls, sum(bytes)::float8 AS bytes, sum(elapsed) AS elapsed
             FROM grown WHERE time > {from} GROUP BY 1, 2, 3, since, time
         ), spread AS (
             SELECT operation, rank, s AS step, {calls} AS calls, {bytes} AS bytes,
                    CASE WHEN is_folded THEN elapsed * ({later} - {before}) ELSE elapsed END AS elapsed
             FROM (SELECT *, CASE WHEN is_folded AND until > since
                              THEN greatest(floor((since - {begin}) * 1000 / {step}), 0)::integer ELSE last END AS first
                   FROM stretches) stretches (operation, rank, is_folded, since, until, last, calls, bytes, elapsed, first)
             CROSS JOIN LATERAL generate_series(first, least(last, {steps} - 1)) s
         )
         SELECT operation, rank, step, internal.stored_total(sum(calls)::numeric), internal.stored_total(sum(bytes)::numeric), sum(elapsed)::float8
         FROM spread GROUP BY 1, 2, 3 ORDER BY 1, 2, 3 LIMIT $4",
        after = folded_at_most(&to),
        longest = folded_at_most("time"),
        step_of = grid.step_of("time"),
        begin = edge("0"),
        calls = whole("calls"),
        bytes = whole("bytes"),
        later = part("s + 1"),
        before = part("s"),
        steps = grid.steps,
    )
}

async fn read(
    client: &Client,
    sql: &str,
    job: i64,
    only: TrafficFilter<'_>,
    limit: i64,
) -> Result<Vec<Step>, Error> {
    let parameters: [&(dyn ToSql + Sync); 4] = [&job, &only.operation, &only.rank, &limit];
    let rows = client.query(sql, &parameters).await.map_err(Error::sql("reading operations over time"))?;
    let step = |row: &tokio_postgres::Row| Step {
        operation: row.get(0),
        rank: row.get(1),
        step: row.get(2),
        calls: row.get::<_, Option<i64>>(3).unwrap_or_default(),
        bytes: row.get::<_, Option<i64>>(4).unwrap_or_default(),
        elapsed_seconds: row.get::<_, Option<f64>>(5).unwrap_or_default(),
    };
    Ok(rows.iter().map(step).collect())
}
