//! The table of operations over all ranks.

use crate::job::summary::whole;
use crate::reader::SCHEMA;
use crate::text::{ABSENT, Table, bytes, clean, seconds, thousands};
use anyhow::Context;
use serde::Serialize;
use tokio_postgres::Client;

/// One operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Operation {
    /// Its MPI name without the prefix.
    pub operation: String,
    /// Calls of all ranks.
    pub calls: u64,
    /// What callers passed to send.
    pub bytes: u64,
    /// Time inside it, summed over ranks.
    pub elapsed_seconds: f64,
    /// Part of the time inside all operations.
    pub time_share: f64,
    /// Longest single call.
    pub longest_seconds: Option<f64>,
}

const OPERATIONS: &str = "
    SELECT operation, least(sum(calls), 9223372036854775807)::bigint AS calls,
           least(sum(bytes), 9223372036854775807)::bigint AS bytes,
           coalesce(sum(elapsed_seconds), 0) AS elapsed_seconds, max(longest_seconds) AS longest_seconds
    FROM mpi_op_totals WHERE job_id = $1
    GROUP BY operation ORDER BY elapsed_seconds DESC, operation";

/// Reads them, those with the most time first.
///
/// # Errors
/// The database is gone.
pub async fn read(client: &Client, id: i32) -> anyhow::Result<Vec<Operation>> {
    let rows = client.query(OPERATIONS, &[&id]).await.context(SCHEMA)?;
    let mut operations = Vec::with_capacity(rows.len());
    for row in &rows {
        operations.push(Operation {
            operation: row.try_get("operation")?,
            calls: whole(row, "calls")?.unwrap_or_default(),
            bytes: whole(row, "bytes")?.unwrap_or_default(),
            elapsed_seconds: row.try_get("elapsed_seconds")?,
            longest_seconds: row.try_get("longest_seconds")?,
            ..Operation::default()
        });
    }
    let all: f64 = operations.iter().map(|operation| operation.elapsed_seconds).sum();
    for operation in &mut operations {
        operation.time_share = if all > 0.0 { operation.elapsed_seconds / all } else { 0.0 };
    }
    Ok(operations)
}

/// The table as lines.
pub fn text(operations: &[Operation], width: usize) -> String {
    if operations.is_empty() {
        return "  none recorded\n".to_owned();
    }
    let mut table = Table::new(&["OPERATION", "<CALLS", "<SENT", "<TIME", "<SHARE", "<MEAN", "<LONGEST"]);
    for operation in operations {
        #[allow(clippy::cast_precision_loss)] // a mean, for people
        let mean = (operation.calls > 0).then(|| operation.elapsed_seconds / operation.calls as f64);
        table.row(vec![
            clean(&operation.operation, 24),
            thousands(operation.calls),
            bytes(operation.bytes),
            seconds(operation.elapsed_seconds),
            format!("{:.1} %", operation.time_share * 100.0),
            mean.map_or(ABSENT.to_owned(), seconds),
            operation.longest_seconds.map_or(ABSENT.to_owned(), seconds),
        ]);
    }
    table.text().lines().map(|line| clean(line, width) + "\n").collect()
}
