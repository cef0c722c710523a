//! Chunks that are no longer written become columns on TimescaleDB's full edition: which tables, in which order, and the policies that
//! do it. The Apache edition has no columnstore; there old chunks stay rows. `thinning` leaves fewer of them on either.
//!
//! Batches of up to a thousand rows hold the values of one segment (a job, port, GPU or daemon), in an order in which neighbours are
//! alike; the smallest and largest value of each column of the order stand beside a batch, so that a query of a rank or a time reads few.
//! Readings of ports, NVLinks and PCIe are not here: bit-packed hours (`chunks`) are smaller, and their rows go after the same time. So do
//! minutes of link shares, which become hours (`link_shares`), and their windows go then. Nor is detail on demand, which goes after a
//! day, nor events, which are few.

use std::time::Duration;

use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Row};

use crate::Error;
use crate::forms::{
    PEERS_PER_RANK, Site, TableForm, by_links, by_peers, by_values, own_values, traffic_cells,
};
use crate::retention::{Retention, RetentionWay};

/// How long the lock of a table is waited for; where somebody works on it for longer, the next call sets its columnstore.
const LOCK_LIMIT: &str = "2s";

/// Upkeep thins a chunk before it becomes columns, which are not rewritten: so long after its rows are old.
const THINNED_FIRST: Duration = Duration::from_secs(24 * 3600);

/// How a table is held as columns.
#[derive(Clone, Copy, Debug)]
pub struct Columnstore {
    /// The hypertable.
    pub table: &'static str,
    /// Column of which each batch has one value: what queries name first.
    pub segment_by: &'static str,
    /// Order of rows in a segment: what queries name next, and time.
    pub order_by: &'static str,
    /// Bytes of a row on disk as columns, measured with values that are as irregular as a site's: `benches/row-bytes.sh`.
    pub row_bytes: fn(&Site) -> f64,
}

const fn columns(table: &'static str, segment_by: &'static str, order_by: &'static str) -> Columnstore {
    Columnstore { table, segment_by, order_by, row_bytes: |_| 0.0 }
}

impl Columnstore {
    const fn of_bytes(self, row_bytes: fn(&Site) -> f64) -> Self {
        Self { row_bytes, ..self }
    }
}

/// Each table with a columnstore.
pub static COLUMNSTORES: [Columnstore; 17] = [
    columns("ib_port_lane_counters", "port_id", "time"),
    columns("gpu_pm_counters", "gpu_id", "source, time"),
    columns("mpi_pvars", "job_id", "rank, name, element, time"),
    columns("mpi_regions", "job_id", "rank, region, time"),
    columns("mpi_region_paths", "job_id", "rank, path, time"),
    columns("mpi_sampled_calls", "job_id", "time, node_id").of_bytes(|_| 423.0),
    columns("mpi_rank_rows", "job_id", "rank, epoch, time").of_bytes(|_| 286.0),
    columns("mpi_node_rows", "job_id", "node_id, epoch, time").of_bytes(|_| 435.0),
    columns("mpi_node_traffic", "job_id", "node_id, operation, kind, direction, epoch, time")
        .of_bytes(|s| by_peers(55.0, 1439.0, traffic_cells(s))),
    columns("mpi_rank_peers", "job_id", "rank, kind, epoch, time")
        .of_bytes(|_| by_peers(54.0, 1438.0, PEERS_PER_RANK)),
    columns("mpi_trace", "job_id", "rank, epoch, number, time"),
    columns("mpi_clock", "job_id", "rank, epoch, number, time"),
    columns("coverage", "instance", "source, time").of_bytes(|_| 19.0),
    columns("self_stat_rows", "instance", "time").of_bytes(|s| by_values(41.0, 212.0, own_values(s))),
    columns("ib_port_minutes", "port_id", "epoch, time").of_bytes(|_| 41.0),
    columns("host_port_minutes", "host_port_id", "epoch, time").of_bytes(|_| 37.0),
    columns("nvlink_minutes", "gpu_id", "source, epoch, time")
        .of_bytes(|s| by_links(196.0, 570.0, s.links())),
];

/// How a table's old chunks are held as columns on a server that does retention in this way; `None` where they stay rows.
pub fn columnstore_of(table: &str, way: RetentionWay) -> Option<&'static Columnstore> {
    match way {
        RetentionWay::Native => COLUMNSTORES.iter().find(|columns| columns.table == table),
        RetentionWay::DropChunks => None,
    }
}

/// What a table has.
struct Present {
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
    for columns in &COLUMNSTORES {
        let what = format!("setting the columnstore of {}", columns.table);
        let is_thinned = TableForm::of(columns.table).is_some_and(|form| form.thinned.is_some());
        let first = if is_thinned { THINNED_FIRST } else { Duration::ZERO };
        // A table whose rows go sooner never has a chunk that is old enough.
        let after = retention.full_rate(columns.table).map(|rows| rows + first);
        let after = after.filter(|after| *after < retention.of(columns.table));
        let present = present(client, columns.table).await.map_err(Error::sql(&what))?;
        match set(client, columns, &present, after).await {
            Ok(has_changed) => changed += usize::from(has_changed),
            Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
                tracing::debug!(table = columns.table, "in use: its columnstore is set later");
            }
            Err(error) => return Err(Error::sql(&what)(error)),
        }
    }
    Ok(changed)
}

async fn present(client: &Client, table: &str) -> Result<Present, tokio_postgres::Error> {
    let query = "
        SELECT (SELECT string_agg(attname::text, ', ' ORDER BY segmentby_column_index) FROM timescaledb_information.compression_settings
                WHERE hypertable_schema = 'public' AND hypertable_name = $1::text AND segmentby_column_index IS NOT NULL),
            (SELECT string_agg(attname::text, ', ' ORDER BY orderby_column_index) FROM timescaledb_information.compression_settings
                WHERE hypertable_schema = 'public' AND hypertable_name = $1::text AND orderby_column_index IS NOT NULL),
            (SELECT extract(epoch FROM (config->>'compress_after')::interval)::float8 FROM timescaledb_information.jobs
                WHERE hypertable_schema = 'public' AND hypertable_name = $1::text AND proc_name = 'policy_compression')";
    let row: Row = client.query_one(query, &[&table]).await?;
    Ok(Present { segment_by: row.get(0), order_by: row.get(1), after_seconds: row.get(2) })
}

/// Makes a table's columnstore and policy as they should be; `true` where something changed.
async fn set(
    client: &Client,
    columns: &Columnstore,
    present: &Present,
    after: Option<Duration>,
) -> Result<bool, tokio_postgres::Error> {
    let Columnstore { table, segment_by, order_by, .. } = columns;
    let wanted = after.map(|time| time.as_secs_f64());
    let is_set =
        present.segment_by.as_deref() == Some(segment_by) && present.order_by.as_deref() == Some(order_by);
    if wanted.is_some() && !is_set {
        // One transaction. Chunks that are columns already keep the order that they were written in.
        let sql = format!(
            "SET LOCAL lock_timeout = '{LOCK_LIMIT}';
             ALTER TABLE {table} SET (timescaledb.compress, timescaledb.compress_segmentby = '{segment_by}',
                 timescaledb.compress_orderby = '{order_by}')"
        );
        client.batch_execute(&sql).await?;
    }
    if present.after_seconds == wanted {
        return Ok(wanted.is_some() && !is_set);
    }
    if present.after_seconds.is_some() {
        let remove = "SELECT remove_compression_policy($1::text::regclass, if_exists => true)";
        client.execute(remove, &[table]).await?;
    }
    if let Some(seconds) = wanted {
        let add = "SELECT add_compression_policy($1::text::regclass, make_interval(secs => $2), if_not_exists => true)";
        client.execute(add, &[table, &seconds]).await?;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forms::{FORMS, Form, Keep};
    use throughline_sample::catalogue::HYPERTABLES;

    #[test]
    fn tables_are_hypertables_once_each_and_packed_ones_are_none_of_them() {
        for (at, columns) in COLUMNSTORES.iter().enumerate() {
            assert!(HYPERTABLES.contains(&columns.table), "{}", columns.table);
            assert!(
                !COLUMNSTORES[..at].iter().any(|other| other.table == columns.table),
                "{}",
                columns.table
            );
            assert!(columns.order_by.split(", ").any(|column| column == "time"), "{}", columns.table);
            assert!(
                columns.order_by.split(", ").all(|column| column != columns.segment_by),
                "{}",
                columns.table
            );
            let found = columnstore_of(columns.table, RetentionWay::Native).unwrap();
            assert_eq!(found.order_by, columns.order_by);
            assert!(columnstore_of(columns.table, RetentionWay::DropChunks).is_none());
        }
        for form in FORMS.iter().filter(|form| form.form == Form::Packed || matches!(form.keep, Keep::Detail))
        {
            assert!(columnstore_of(form.table, RetentionWay::Native).is_none(), "{}", form.table);
        }
    }
}
