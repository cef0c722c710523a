//! What one rank did with MPI, step by step, in cells of operation, size class, region and algorithm: for traces of jobs that were not
//! traced, and for export. Rows are cumulative: of each cell what a row has more than that before, with the time in which it was counted.

use crate::rank_growth::RankGrowth;
use crate::time::Grid;
use throughline_api::operation_steps::{OperationStepColumns, OperationSteps};
use throughline_store::Error;
use throughline_store::sql_time::moment;
use tokio_postgres::{Client, Row};

/// Steps of a rank in the steps of a grid; at most `limit` rows, of whole steps: what follows is behind `next_ms`. Where a row has more
/// time than a step, it is that time that is returned, not the step: of a row that goes on behind the grid too, if the grid is the last.
///
/// # Errors
/// The database's.
pub async fn steps(
    client: &Client,
    job: i64,
    rank: i32,
    grid: &Grid,
    is_last: bool,
    limit: usize,
) -> Result<OperationSteps, Error> {
    const MILLISECONDS: &str = "(extract(epoch FROM {}) * 1000)::bigint";
    let growth = RankGrowth { job: "$1", rank: "$2", operation: "NULL", from: grid.from, to: grid.to() };
    let milliseconds = |time: &str| MILLISECONDS.replace("{}", time);
    let step_end = format!("to_timestamp(({} + (step + 1) * {}::bigint) / 1000.0)", grid.from, grid.step);
    // A step has what its bins have, and is as long where a bin ends with it, or from the rank's start on. A folded row has its own time, in whichever step it ends.
    let sql = format!(
        "WITH {growth}, placed AS (
             SELECT *, {step} AS step, calls > 0 OR bytes > 0 OR elapsed > 0 OR wait > 0 OR received > 0 AS has_grown FROM grown {within}
         ), steps AS (
             SELECT step, operation, size_class_bytes, region, algorithm, algorithm_source, calls, bytes, elapsed, wait, received, has_grown,
                    {since} AS since, {until} AS until, {known} AS known, floor(extract(epoch FROM epoch) * 1000)::bigint AS start, {begin} + step * {length}::bigint AS begin, is_folded
             FROM placed
         )
         SELECT step, operation, size_class_bytes, region, algorithm, max(algorithm_source), internal.stored_total(sum(calls)),
                internal.stored_total(sum(bytes)), sum(elapsed)::float8, sum(wait)::float8, internal.stored_total(sum(received)),
                CASE WHEN bool_or(has_grown AND (is_folded OR since < begin)) THEN min(since) FILTER (WHERE has_grown) ELSE greatest(min(begin), min(start)) END,
                CASE WHEN step >= {steps} OR bool_or(has_grown AND is_folded) THEN max(until) FILTER (WHERE has_grown) ELSE max(known) END
         FROM steps GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5 LIMIT $3",
        growth = growth.expressions(),
        step = grid.step_of("time"),
        within = if is_last { String::new() } else { format!("WHERE time <= {}", moment(grid.to())) },
        since = milliseconds("since"),
        until = milliseconds("time"),
        known = milliseconds(&format!("greatest(time, least(covered_until, date_bin(bin_length, {step_end}, timestamptz 'epoch')))")),
        begin = grid.from,
        steps = grid.steps,
        length = grid.step,
    );
    let most = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
    let rows = client.query(&sql, &[&job, &rank, &most]).await;
    let rows = rows.map_err(Error::sql("reading the operations of a rank step by step"))?;
    let (whole, next) = cut(&rows, limit);
    let mut columns = OperationStepColumns::default();
    for row in &rows[..whole] {
        columns.since_ms.push(row.get(11));
        columns.time_ms.push(row.get(12));
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
        next_ms: next.map(|step| grid.from + i64::from(step) * grid.step),
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
