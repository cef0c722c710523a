//! What a job's ranks sent to each other, and their operations over time.

use crate::job_span::Span;
use crate::rank_growth::RankGrowth;
use crate::time::{Grid, QueryTime, RowTimes, milliseconds};
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

/// A job's operations in the steps of a grid, of each rank where there is detail of that time, ordered by the columns that
/// distinguish them; at most `limit` rows. What a row has is spread evenly over the time in which it was counted, in whole calls and bytes
/// that add up to it: the rate of a step is the mean of rows, and never more than theirs.
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
    let rows = if is_detailed || is_of_ranks(by, only) {
        RankGrowth { job: "$1", rank: "$3", operation: "$2", from: grid.from, to: grid.to() }.expressions()
    } else {
        node_growth(grid)
    };
    let sql = format!("WITH {rows}, {}", spread(grid, key));
    let parameters: [&(dyn ToSql + Sync); 4] = [&job, &only.operation, &only.rank, &limit];
    let rows = client.query(&sql, &parameters).await.map_err(Error::sql("reading operations over time"))?;
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

/// Distances of rows, the shortest first, milliseconds: agents are configured with one of them.
const DISTANCES_MS: [i64; 12] =
    [1_000, 2_000, 5_000, 10_000, 15_000, 20_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000];

/// The distance of rows where there are not two of them: of nodes and ranks.
const USUAL_MS: (i64, i64) = (10_000, 60_000);

/// Where there are none that are folded, all rows are of bins: no step is shorter than a second.
const BINS_MS: i64 = 1_000;

/// When the rows come that answer [`operations`] without detail, in a time in milliseconds since 1970: the longest distance that there is.
///
/// # Errors
/// The database's.
pub async fn row_times(
    client: &Client,
    job: i64,
    (from, to): (i64, i64),
    by: StepGrouping,
    only: TrafficFilter<'_>,
) -> Result<RowTimes, Error> {
    let what = "looking how far apart rows of a job are";
    let (begin, end) = (moment(from), moment(to));
    if !is_of_ranks(by, only) {
        let sql = format!(
            "SELECT (extract(epoch FROM max(time - since)) * 1000)::bigint FROM internal.mpi_node_rows
             WHERE job_id = $1 AND time > {begin} AND time <= {end} + interval '{NODE_ROWS_MS} milliseconds' AND since < {end}"
        );
        let row = client.query_one(&sql, &[&job]).await.map_err(Error::sql(what))?;
        let longest = row.get::<_, Option<i64>>(0).unwrap_or(BINS_MS);
        return Ok(RowTimes { distance: listed(longest), phase: 0, newest: None });
    }
    // Rows of all ranks of a job come at the same times: those of one show it.
    let sql = format!(
        "WITH rows AS MATERIALIZED (
             SELECT rank, time, epoch FROM internal.mpi_rank_rows
             WHERE job_id = $1 AND is_folded AND time > {begin} AND time <= {end} + interval '5 minutes'
               AND rank = coalesce($2, (SELECT rank FROM internal.mpi_rank_rows WHERE job_id = $1 AND is_folded AND time > {begin}
                                        AND time <= {end} + interval '5 minutes' ORDER BY rank LIMIT 1)))
         SELECT (extract(epoch FROM time) * 1000)::bigint FROM rows ORDER BY time"
    );
    let rows = client.query(&sql, &[&job, &only.rank]).await.map_err(Error::sql(what))?;
    Ok(of_rank(&rows.iter().map(|row| row.get(0)).collect::<Vec<i64>>()))
}

/// The distance of a rank's rows. The first come sooner after its start, and the last when it ends.
fn of_rank(times: &[i64]) -> RowTimes {
    if times.is_empty() {
        return RowTimes { distance: BINS_MS, phase: 0, newest: None };
    }
    let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
    let distance = listed(gaps.max().unwrap_or(USUAL_MS.1).max(USUAL_MS.1));
    // A row ends with the last bin in which its rank called something, a little before it is made.
    let between = times.len().checked_sub(2).and_then(|place| times.get(place)).or(times.first());
    let phase = between.map_or(0, |time| (time + USUAL_MS.0 - 1).div_euclid(USUAL_MS.0) * USUAL_MS.0);
    RowTimes { distance, phase, newest: times.last().copied() }
}

/// The distance in the list that is no shorter; what exceeds one by a tenth is late.
fn listed(longest: i64) -> i64 {
    DISTANCES_MS.into_iter().find(|distance| longest * 10 <= distance * 11).unwrap_or(longest)
}

/// Whether rows of ranks answer it, those of nodes do not.
fn is_of_ranks(by: StepGrouping, only: TrafficFilter<'_>) -> bool {
    by == StepGrouping::Rank || only.rank.is_some()
}

/// Longest interval of rows of nodes: `[mpi] fold_seconds` of agent.toml, and a minute where rows are thinned.
const NODE_ROWS_MS: i64 = 60_000;

/// SQL of what the ranks of nodes counted together, and of a rank what its agent does not fold.
fn node_growth(grid: &Grid) -> String {
    const CELL: &str = "place, operation, size_class_bytes, region, algorithm, epoch";
    let grown =
        |column: &str| format!("greatest({column} - coalesce(lag({column}) OVER cell, 0), 0) AS {column}");
    format!(
        "counted AS (
             SELECT coalesce(rank, -1 - node_id) AS place, operation, size_class_bytes, region, algorithm, epoch, time,
                    coalesce(since, date_bin('0.1 seconds', time - interval '1 microsecond', TIMESTAMPTZ 'epoch')) AS since,
                    calls, bytes, elapsed_seconds AS elapsed
             FROM public.mpi_op_series WHERE job_id = $1 AND time > {from} AND time <= {to} + interval '{NODE_ROWS_MS} milliseconds'
             UNION ALL
             SELECT rank, operation, size_class_bytes, region, algorithm, epoch, {from}, {from}, calls, bytes, elapsed_seconds
             FROM internal.mpi_overflow_cells($1, {from}, $3)
             UNION ALL
             SELECT -1 - node_id, operation, size_class_bytes, region, algorithm, epoch, {from}, {from}, calls, bytes, elapsed_seconds
             FROM internal.mpi_node_op_cells($1, {from})
         ), grown AS (
             SELECT * FROM (
                 SELECT NULL::integer AS rank, operation, time, since, {calls}, {bytes}, {elapsed} FROM counted
                 WHERE $2::text IS NULL OR operation = $2
                 WINDOW cell AS (PARTITION BY {CELL} ORDER BY time)) rows
             WHERE time > {from} AND since < {to}
         )",
        from = moment(grid.from),
        to = moment(grid.to()),
        calls = grown("calls"),
        bytes = grown("bytes"),
        elapsed = grown("elapsed"),
    )
}

/// SQL of the steps of a grid, from the rows of `grown`.
pub(crate) fn spread(grid: &Grid, key: &str) -> String {
    let (from, step) = (moment(grid.from), grid.step);
    let edge = |steps: &str| format!("(extract(epoch FROM {from}) + ({steps}) * {step} / 1000.0)::float8");
    // The part of a stretch that lies before an edge.
    let part =
        |steps: &str| format!("least(greatest(({} - since) / nullif(until - since, 0), 0), 1)", edge(steps));
    let (later, before) = (part("s + 1"), part("s"));
    let whole = |column: &str| {
        format!(
            "CASE WHEN first < last THEN round({column} * {later}) - round({column} * {before}) ELSE {column} END"
        )
    };
    // The end of a step belongs to it, its begin to the one before.
    let step_of_since =
        format!("floor((extract(epoch FROM since) * 1000 - {}) / {step})::integer", grid.from);
    format!(
        "stretches AS (
             SELECT {key}, extract(epoch FROM since)::float8 AS since, extract(epoch FROM time)::float8 AS until,
                    {step_of_since} AS first, {step_of} AS last,
                    sum(calls)::float8 AS calls, sum(bytes)::float8 AS bytes, sum(elapsed) AS elapsed
             FROM grown GROUP BY 1, 2, since, time
         ), spread AS (
             SELECT operation, rank, s AS step, {calls} AS calls, {bytes} AS bytes,
                    CASE WHEN first < last THEN elapsed * ({later} - {before}) ELSE elapsed END AS elapsed
             FROM stretches stretches (operation, rank, since, until, first, last, calls, bytes, elapsed)
             CROSS JOIN LATERAL generate_series(greatest(least(first, last), 0), least(last, {steps} - 1)) s
         )
         SELECT operation, rank, step, internal.stored_total(sum(calls)::numeric), internal.stored_total(sum(bytes)::numeric), sum(elapsed)::float8
         FROM spread GROUP BY 1, 2, 3 ORDER BY 1, 2, 3 LIMIT $4",
        step_of = grid.step_of("time"),
        calls = whole("calls"),
        bytes = whole("bytes"),
        steps = grid.steps,
    )
}
