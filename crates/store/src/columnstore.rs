//! Chunks that are no longer written become columns on TimescaleDB's full edition: the settings of their tables, for those entries of
//! [`crate::tables::TABLES`] that have columns, and from which age on. The procedure `internal.expire` makes them. The Apache edition has no
//! columnstore; there old chunks stay rows. `thinning` leaves fewer of them on either.
//!
//! Batches of up to a thousand rows hold the values of one segment (a job, port, GPU or daemon), in an order in which neighbours are
//! alike; the smallest and largest value of each column of the order stand beside a batch, so that a query of a rank or a time reads few.
//! Readings of ports, NVLinks and PCIe are not here: bit-packed hours (`chunks`) are smaller, and their rows go after the same time. So do
//! minutes of link shares, which become hours (`link_shares`), and their windows go then. Nor is detail on demand, which goes after a
//! day, nor events, which are few.

use std::time::Duration;

use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Row};

use crate::error::Error;
use crate::retention::{Retention, RetentionWay};
use crate::tables::{Chunks, Columns, StoredTable, hypertables};

/// How long the lock of a table is waited for; where somebody works on it for longer, the next call sets its columnstore.
const LOCK_LIMIT: &str = "2s";

/// Upkeep thins a chunk before it becomes columns, which are not rewritten: so long after its rows are old.
const THINNED_FIRST: Duration = Duration::from_secs(24 * 3600);

/// How a table's old chunks are held as columns on a server that does retention in this way; `None` where they stay rows.
pub(crate) fn columns_of(chunks: &Chunks, way: RetentionWay) -> Option<Columns> {
    match way {
        RetentionWay::DatabaseJob => chunks.columns,
        RetentionWay::Upkeep => None,
    }
}

/// From which age on chunks of a table become columns; `None` where they stay rows, or go before. Without a time of rows none becomes
/// columns, and chunks that are columns stay so.
pub(crate) fn columns_after(
    table: &StoredTable,
    chunks: &Chunks,
    retention: &Retention,
    way: RetentionWay,
) -> Option<Duration> {
    columns_of(chunks, way)?;
    let first = if chunks.thinned.is_some() { THINNED_FIRST } else { Duration::ZERO };
    let after = retention.full_rate(table.name)? + first;
    Some(after).filter(|after| *after < retention.of(table.name))
}

/// Sets the columnstores of all tables whose chunks become columns. Returns how many settings it changed. On the full edition only.
///
/// # Errors
/// The database is away or refuses.
pub(crate) async fn apply(client: &Client, retention: &Retention) -> Result<usize, Error> {
    let mut changed = 0;
    for (table, chunks) in hypertables() {
        let Some(columns) = chunks.columns else { continue };
        if columns_after(table, chunks, retention, RetentionWay::DatabaseJob).is_none() {
            continue;
        }
        let what = format!("setting the columnstore of {}", table.name);
        match set(client, table.name, &columns).await {
            Ok(has_changed) => changed += usize::from(has_changed),
            Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
                tracing::debug!(table = table.name, "in use: its columnstore is set later");
            }
            Err(error) => return Err(Error::sql(&what)(error)),
        }
    }
    Ok(changed)
}

/// Makes a table's columnstore as it should be; `true` where it was not.
async fn set(client: &Client, table: &str, columns: &Columns) -> Result<bool, tokio_postgres::Error> {
    let query = "
        SELECT (SELECT string_agg(attname::text, ', ' ORDER BY segmentby_column_index) FROM timescaledb_information.compression_settings
                WHERE hypertable_schema = 'internal' AND hypertable_name = $1::text AND segmentby_column_index IS NOT NULL),
            (SELECT string_agg(attname::text, ', ' ORDER BY orderby_column_index) FROM timescaledb_information.compression_settings
                WHERE hypertable_schema = 'internal' AND hypertable_name = $1::text AND orderby_column_index IS NOT NULL)";
    let row: Row = client.query_one(query, &[&table]).await?;
    let (segment, order): (Option<&str>, Option<&str>) = (row.get(0), row.get(1));
    let Columns { segment_by, order_by, .. } = columns;
    if segment == Some(segment_by) && order == Some(order_by) {
        return Ok(false);
    }
    // One transaction. Chunks that are columns already keep the order that they were written in.
    let sql = format!(
        "SET LOCAL lock_timeout = '{LOCK_LIMIT}';
         ALTER TABLE internal.{table} SET (timescaledb.compress, timescaledb.compress_segmentby = '{segment_by}',
             timescaledb.compress_orderby = '{order_by}')"
    );
    client.batch_execute(&sql).await?;
    Ok(true)
}
