//! What one rank did with MPI, step by step, in cells of operation, size class, region and algorithm: for traces of jobs that were not
//! traced, and for export. Rows are cumulative: of each cell the last in a step, less the last before.

use crate::time::Grid;
use throughline_api::operation_steps::{OperationStepColumns, OperationSteps};
use throughline_store::Error;
use throughline_store::sql_time::moment;
use tokio_postgres::{Client, Row};

/// Where there is detail, so much of it before a grid has each cell that was called: rows that are made anyway come once a minute.
const BEFORE_MS: i64 = 120_000;

/// Steps of a rank in the steps of a grid; at most `limit` rows, of whole steps: what follows is behind `next_ms`.
///
/// # Errors
/// The database's.
pub async fn steps(
    client: &Client,
    job: i64,
    rank: i32,
    grid: &Grid,
    limit: usize,
) -> Result<OperationSteps, Error> {
    const CELL: &str = "operation, size_class_bytes, region, algorithm, epoch";
    const BEFORE: &str =
        "m.algorithm_source, m.calls, m.bytes, m.elapsed_seconds, m.wait_seconds, m.received_bytes";
    let sql = format!(
        "WITH packed AS MATERIALIZED (
             SELECT * FROM internal.mpi_op_cells($1, {from}, $2)
         ), detailed AS MATERIALIZED (
             SELECT DISTINCT ON ({CELL}) {CELL}, {BEFORE}, m.time FROM internal.mpi_op_rows m
             WHERE job_id = $1 AND rank = $2 AND time > {from} - interval '2 minutes' AND time <= {from} AND {before}
             ORDER BY {CELL}, m.time DESC
         ), counted AS (
             SELECT {CELL}, {step} AS step, max(algorithm_source) AS algorithm_source, max(calls) AS calls, max(bytes) AS bytes,
                    max(elapsed_seconds) AS elapsed, max(wait_seconds) AS wait, max(received_bytes) AS received
             FROM internal.mpi_op_rows WHERE job_id = $1 AND rank = $2 AND time > {from} AND time <= {to} AND {within} GROUP BY {CELL}, step
         ), before AS (
             SELECT c.operation, c.size_class_bytes, c.region, c.algorithm, c.epoch, -1 AS step, m.algorithm_source, m.calls, m.bytes,
                    m.elapsed_seconds AS elapsed, m.wait_seconds AS wait, m.received_bytes AS received
             FROM (SELECT DISTINCT {CELL} FROM counted) c
             CROSS JOIN LATERAL (
                 SELECT * FROM (
                     SELECT {BEFORE}, m.last_time AS time FROM packed m
                     WHERE m.operation = c.operation AND m.size_class_bytes = c.size_class_bytes AND m.region = c.region
                       AND m.algorithm = c.algorithm AND m.epoch = c.epoch
                     UNION ALL
                     SELECT {BEFORE}, m.time FROM detailed m
                     WHERE m.operation = c.operation AND m.size_class_bytes = c.size_class_bytes AND m.region = c.region
                       AND m.algorithm = c.algorithm AND m.epoch = c.epoch) all_forms
                 ORDER BY time DESC LIMIT 1) m
         ), steps AS (
             SELECT {CELL}, step, algorithm_source, calls - coalesce(lag(calls) OVER cell, 0) AS calls,
                    bytes - coalesce(lag(bytes) OVER cell, 0) AS bytes, elapsed - coalesce(lag(elapsed) OVER cell, 0) AS elapsed,
                    wait - coalesce(lag(wait) OVER cell, 0) AS wait, received - coalesce(lag(received) OVER cell, 0) AS received
             FROM (SELECT * FROM counted UNION ALL SELECT * FROM before) r
             WINDOW cell AS (PARTITION BY {CELL} ORDER BY step)
         )
         SELECT step, operation, size_class_bytes, region, algorithm, algorithm_source, internal.stored_total(sum(calls)), internal.stored_total(sum(bytes)),
                sum(elapsed)::float8, sum(wait)::float8, internal.stored_total(sum(received))
         FROM steps WHERE step >= 0 GROUP BY 1, 2, 3, 4, 5, 6 ORDER BY 1, 2, 3, 4, 5, 6 LIMIT $3",
        step = grid.step_of("time"),
        from = moment(grid.from),
        to = moment(grid.to()),
        within = crate::detail::stored(grid.from, grid.to()),
        before = crate::detail::stored(grid.from - BEFORE_MS, grid.from),
    );
    let most = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
    let rows = client.query(&sql, &[&job, &rank, &most]).await;
    let rows = rows.map_err(Error::sql("reading the operations of a rank step by step"))?;
    let (whole, next) = cut(&rows, limit);
    let end = |step: i32| grid.from + (i64::from(step) + 1) * grid.step;
    let mut columns = OperationStepColumns::default();
    for row in &rows[..whole] {
        columns.time_ms.push(end(row.get(0)));
        columns.operation.push(row.get(1));
        columns.size_class_bytes.push(row.get(2));
        columns.region.push(row.get(3));
        columns.algorithm.push(row.get(4));
        columns.algorithm_source.push(row.get(5));
        columns.calls.push(row.get::<_, Option<i64>>(6).unwrap_or_default());
        columns.bytes.push(row.get::<_, Option<i64>>(7).unwrap_or_default());
        columns.elapsed_seconds.push(row.get::<_, Option<f64>>(8).unwrap_or_default());
        columns.wait_seconds.push(row.get(9));
        columns.received_bytes.push(row.get(10));
    }
    Ok(OperationSteps {
        next_ms: next.map(|step| end(step) - grid.step),
        steps: columns,
        ..OperationSteps::default()
    })
}

/// How many rows are of whole steps, and the step that is the first of what follows.
fn cut(rows: &[Row], limit: usize) -> (usize, Option<i32>) {
    let Some(beyond) = rows.get(limit) else { return (rows.len(), None) };
    let step: i32 = beyond.get(0);
    let whole = rows.iter().take_while(|row| row.get::<_, i32>(0) < step).count();
    // A single step that is larger is returned as far as it goes: it has thousands of cells.
    if whole == 0 { (limit, Some(step + 1)) } else { (whole, Some(step)) }
}
