//! A job's operations by size class, region and algorithm, summed over its ranks: what `show` and `diff` are made of.

use super::summary::whole;
use crate::reader::SCHEMA;
use anyhow::Context;
use tokio_postgres::Client;

/// One combination of operation, size class, region and algorithm.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// MPI name without the prefix.
    pub operation: String,
    /// Largest message of the class, bytes.
    pub size_class_bytes: u64,
    /// What the library did inside; empty where it is not known or there is none.
    pub algorithm: String,
    /// observed, pvar, forced, unknown, or empty for an operation that has none.
    pub algorithm_source: String,
    /// Calls of all ranks.
    pub calls: u64,
    /// What callers passed to send.
    pub bytes: u64,
    /// What receives got; absent where nothing was received.
    pub received_bytes: Option<u64>,
    /// Time inside it, summed over ranks.
    pub elapsed_seconds: f64,
    /// From the return of the call that began it to its completion, summed; absent where nothing completed later.
    pub wait_seconds: Option<f64>,
    /// Longest single call.
    pub longest_seconds: Option<f64>,
}

const CELLS: &str = "
    SELECT operation, size_class_bytes, algorithm, algorithm_source,
           stored_total(sum(calls)) AS calls,
           stored_total(sum(bytes)) AS bytes,
           stored_total(sum(received_bytes)) AS received_bytes,
           coalesce(sum(elapsed_seconds), 0) AS elapsed_seconds, sum(wait_seconds) AS wait_seconds,
           max(longest_seconds) AS longest_seconds
    FROM mpi_op_cell_totals WHERE job_id = $1
    GROUP BY operation, size_class_bytes, algorithm, algorithm_source
    ORDER BY operation, size_class_bytes, algorithm, algorithm_source";

/// Reads them.
///
/// # Errors
/// The database is gone.
pub async fn read(client: &Client, id: i32) -> anyhow::Result<Vec<Cell>> {
    let rows = client.query(CELLS, &[&id]).await.context(SCHEMA)?;
    let mut cells = Vec::with_capacity(rows.len());
    for row in &rows {
        cells.push(Cell {
            operation: row.try_get("operation")?,
            size_class_bytes: whole(row, "size_class_bytes")?.unwrap_or_default(),
            algorithm: row.try_get("algorithm")?,
            algorithm_source: row.try_get("algorithm_source")?,
            calls: whole(row, "calls")?.unwrap_or_default(),
            bytes: whole(row, "bytes")?.unwrap_or_default(),
            received_bytes: whole(row, "received_bytes")?,
            elapsed_seconds: row.try_get("elapsed_seconds")?,
            wait_seconds: row.try_get("wait_seconds")?,
            longest_seconds: row.try_get("longest_seconds")?,
        });
    }
    Ok(cells)
}

/// Adds what may be absent: absent and absent stay so.
pub fn add<T: std::ops::Add<Output = T>>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one + other),
        (one, other) => one.or(other),
    }
}

/// Mean of a sum.
#[allow(clippy::cast_precision_loss)] // for people
pub fn mean(sum: f64, count: u64) -> Option<f64> {
    (count > 0).then(|| sum / count as f64)
}

/// A share of a whole; absent where the whole is none.
pub fn part(of: f64, all: f64) -> Option<f64> {
    (all > 0.0).then(|| of / all)
}
