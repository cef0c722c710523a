//! How far history goes back, and what the next 24 hours take of it: from the bounds of chunks, whatever is in them, so that it costs the
//! same however much that is.

use std::time::{SystemTime, UNIX_EPOCH};

use throughline_api::status::StoredHistory;
use throughline_store::Error;
use throughline_store::rollup_kind::Kind;
use tokio_postgres::Client;

/// The begins of the oldest chunks by group; chunks that are too old a day from now, and their bytes as the statistics have them, with
/// indexes, long values and columns. From TimescaleDB's own tables: its views take three times as long.
const HISTORY: &str = "
    WITH chunk AS MATERIALIZED (
        SELECT h.table_name AS hypertable, k.schema_name, k.table_name, k.compressed_chunk_id, s.range_start,
               s.range_end <= extract(epoch FROM now() + INTERVAL '1 day' - p.keep) * 1e6 AS goes
        FROM _timescaledb_catalog.hypertable h JOIN _timescaledb_catalog.chunk k ON k.hypertable_id = h.id
        JOIN _timescaledb_catalog.chunk_constraint t ON t.chunk_id = k.id JOIN _timescaledb_catalog.dimension_slice s ON s.id = t.dimension_slice_id
        LEFT JOIN internal.retention_policy p ON p.hypertable = h.table_name
        WHERE h.schema_name = 'internal'
    ), tables AS MATERIALIZED (
        SELECT r.oid, r.relpages, r.reltoastrelid FROM (
            SELECT schema_name, table_name FROM chunk WHERE goes
            UNION ALL SELECT k.schema_name, k.table_name FROM chunk g JOIN _timescaledb_catalog.chunk k ON k.id = g.compressed_chunk_id WHERE g.goes) c
        JOIN pg_namespace n ON n.nspname = c.schema_name JOIN pg_class r ON r.relnamespace = n.oid AND r.relname = c.table_name
    ), pages AS (
        SELECT relpages FROM tables
        UNION ALL SELECT o.relpages FROM tables t JOIN pg_class o ON o.oid = t.reltoastrelid
        UNION ALL SELECT o.relpages FROM tables t JOIN pg_index i ON i.indrelid = t.oid JOIN pg_class o ON o.oid = i.indexrelid
    ), oldest AS (SELECT hypertable, to_timestamp(min(range_start) / 1e6) AS begin FROM chunk GROUP BY hypertable)
    SELECT (SELECT min(begin) FROM oldest WHERE hypertable = ANY ($1)), (SELECT min(begin) FROM oldest WHERE hypertable = ANY ($2)),
        (SELECT min(begin) FROM oldest WHERE hypertable IN ('link_shares', 'link_share_minutes', 'link_share_hours')),
        (SELECT min(coalesce(start_time, first_seen)) FROM internal.run), (SELECT count(*) FROM chunk WHERE goes),
        (SELECT coalesce(sum(greatest(relpages, 0)), 0) FROM pages)::bigint * current_setting('block_size')::bigint,
        internal.is_backup_running()";

/// Reads it.
///
/// # Errors
/// The database's.
pub async fn read(client: &Client) -> Result<StoredHistory, Error> {
    let readings: Vec<&str> = Kind::ALL.iter().flat_map(|kind| [kind.readings(), kind.blocks()]).collect();
    let minutes: Vec<&str> = Kind::ALL.iter().map(|kind| kind.table()).collect();
    let row = client.query_one(HISTORY, &[&readings, &minutes]).await;
    let row = row.map_err(Error::sql("reading how far history goes back"))?;
    let time = |at: usize| row.get::<_, Option<SystemTime>>(at).map(milliseconds);
    Ok(StoredHistory {
        readings_ms: time(0),
        minutes_ms: time(1),
        shares_ms: time(2),
        jobs_ms: time(3),
        next_day_chunks: row.get::<_, i64>(4).unsigned_abs(),
        next_day_bytes: row.get::<_, i64>(5).unsigned_abs(),
        is_backup_running: row.get(6),
    })
}

fn milliseconds(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use throughline_store::{Retention, apply_retention, testing};

    #[tokio::test]
    async fn the_oldest_chunks_and_those_that_go_within_a_day() {
        let database = testing::database().await;
        let client = database.connect().await.unwrap();
        let empty = read(&database.connect_reader().await.unwrap()).await.unwrap();
        assert_eq!(empty, StoredHistory::default());
        let rows = "INSERT INTO internal.ib_port_counters (time, port_id, epoch, source)
                        SELECT now() - make_interval(hours => h), 1, now(), 'mad' FROM generate_series(0, 60, 12) h;
                    INSERT INTO internal.run (key, start_time) VALUES ('slurm:1', 'epoch'); ANALYZE";
        client.batch_execute(rows).await.unwrap();
        apply_retention(&client, &Retention::for_all(Duration::from_secs(3 * 86_400)), None).await.unwrap();
        let history = read(&database.connect_reader().await.unwrap()).await.unwrap();
        // Of 60 hours ago: the chunks of 60 and of 48 hours ago may be 72 hours old a day from now.
        let age = milliseconds(SystemTime::now()) - history.readings_ms.unwrap();
        assert!((60 * 3_600_000..61 * 3_600_000 + 60_000).contains(&age), "{age}");
        assert_eq!((history.minutes_ms, history.shares_ms, history.jobs_ms), (None, None, Some(0)));
        assert!((1..=2).contains(&history.next_day_chunks), "{history:?}");
        assert!(history.next_day_bytes >= 8192 && !history.is_backup_running, "{history:?}");
        let backup = database.connect().await.unwrap();
        backup.batch_execute("SELECT pg_advisory_lock(x'746c6261636b7570'::bigint)").await.unwrap();
        assert!(read(&client).await.unwrap().is_backup_running);
    }
}
