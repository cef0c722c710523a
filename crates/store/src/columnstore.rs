//! Chunks that are no longer written become columns on TimescaleDB's full edition: the policies that do it, for those entries of
//! [`crate::tables::TABLES`] that have columns. The Apache edition has no columnstore; there old chunks stay rows. `thinning` leaves fewer of them on either.
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
use crate::tables::{Chunks, Columns, hypertables};

/// How long the lock of a table is waited for; where somebody works on it for longer, the next call sets its columnstore.
const LOCK_LIMIT: &str = "2s";

/// Upkeep thins a chunk before it becomes columns, which are not rewritten: so long after its rows are old.
const THINNED_FIRST: Duration = Duration::from_secs(24 * 3600);

/// How a table's old chunks are held as columns on a server that does retention in this way; `None` where they stay rows.
pub(crate) fn columns_of(chunks: &Chunks, way: RetentionWay) -> Option<Columns> {
    match way {
        RetentionWay::Native => chunks.columns,
        RetentionWay::DropChunks => None,
    }
}

/// The columnstore settings that a table has.
struct ColumnstoreSettings {
    segment_by: Option<String>,
    order_by: Option<String>,
    after_seconds: Option<f64>,
}

/// Sets the columnstores of all tables and the policies that fill them with chunks older than rows are kept at the full rate; without such a time the
/// policies go, and chunks that are columns stay so. Returns how many policies or settings it changed. On the full edition only.
///
/// # Errors
/// The database is away or refuses.
pub(crate) async fn apply(client: &Client, retention: &Retention) -> Result<usize, Error> {
    let mut changed = 0;
    for (table, chunks) in hypertables() {
        let (table, Some(columns)) = (table.name, chunks.columns) else { continue };
        let what = format!("setting the columnstore of {table}");
        let first = if chunks.thinned.is_some() { THINNED_FIRST } else { Duration::ZERO };
        // A table whose rows go sooner never has a chunk that is old enough.
        let after = retention.full_rate(table).map(|rows| rows + first);
        let after = after.filter(|after| *after < retention.of(table));
        let present = present(client, table).await.map_err(Error::sql(&what))?;
        match set(client, table, &columns, &present, after).await {
            Ok(has_changed) => changed += usize::from(has_changed),
            Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
                tracing::debug!(table, "in use: its columnstore is set later");
            }
            Err(error) => return Err(Error::sql(&what)(error)),
        }
    }
    Ok(changed)
}

async fn present(client: &Client, table: &str) -> Result<ColumnstoreSettings, tokio_postgres::Error> {
    let query = "
        SELECT (SELECT string_agg(attname::text, ', ' ORDER BY segmentby_column_index) FROM timescaledb_information.compression_settings
                WHERE hypertable_schema = 'internal' AND hypertable_name = $1::text AND segmentby_column_index IS NOT NULL),
            (SELECT string_agg(attname::text, ', ' ORDER BY orderby_column_index) FROM timescaledb_information.compression_settings
                WHERE hypertable_schema = 'internal' AND hypertable_name = $1::text AND orderby_column_index IS NOT NULL),
            (SELECT extract(epoch FROM (config->>'compress_after')::interval)::float8 FROM timescaledb_information.jobs
                WHERE hypertable_schema = 'internal' AND hypertable_name = $1::text AND proc_name = 'policy_compression')";
    let row: Row = client.query_one(query, &[&table]).await?;
    Ok(ColumnstoreSettings { segment_by: row.get(0), order_by: row.get(1), after_seconds: row.get(2) })
}

/// Makes a table's columnstore and policy as they should be; `true` where something changed.
async fn set(
    client: &Client,
    table: &str,
    columns: &Columns,
    present: &ColumnstoreSettings,
    after: Option<Duration>,
) -> Result<bool, tokio_postgres::Error> {
    let Columns { segment_by, order_by, .. } = columns;
    let wanted = after.map(|time| time.as_secs_f64());
    let is_set =
        present.segment_by.as_deref() == Some(segment_by) && present.order_by.as_deref() == Some(order_by);
    if wanted.is_some() && !is_set {
        // One transaction. Chunks that are columns already keep the order that they were written in.
        let sql = format!(
            "SET LOCAL lock_timeout = '{LOCK_LIMIT}';
             ALTER TABLE internal.{table} SET (timescaledb.compress, timescaledb.compress_segmentby = '{segment_by}',
                 timescaledb.compress_orderby = '{order_by}')"
        );
        client.batch_execute(&sql).await?;
    }
    if present.after_seconds == wanted {
        return Ok(wanted.is_some() && !is_set);
    }
    if present.after_seconds.is_some() {
        let remove =
            "SELECT public.remove_compression_policy(('internal.' || $1::text)::regclass, if_exists => true)";
        client.execute(remove, &[&table]).await?;
    }
    if let Some(seconds) = wanted {
        let add = "SELECT public.add_compression_policy(('internal.' || $1::text)::regclass, make_interval(secs => $2), if_not_exists => true)";
        client.execute(add, &[&table, &seconds]).await?;
    }
    Ok(true)
}
