//! What is in a database: the site that it knows, and how large its tables are.

use std::time::SystemTime;

use tokio_postgres::Client;

use crate::error::Error;
use crate::retention::RetentionWay;
use crate::tables::Site;

/// A table that has rows.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedTable {
    /// Its name.
    pub table: String,
    /// Chunks in number; `None` of a plain table.
    pub chunks: Option<i64>,
    /// Bytes on disk, with indexes and TOAST.
    pub bytes: i64,
    /// Bytes of a row in the chunks, or the table, whose rows PostgreSQL has counted; `None` without such a chunk.
    pub bytes_per_row: Option<f64>,
    /// When its first row may have come: when the oldest chunk begins, or the database was made.
    pub since: SystemTime,
}

/// The hypertables that have chunks, by name, then plain tables larger than a megabyte.
///
/// # Errors
/// The database is away or refuses.
pub async fn observed_tables(client: &Client) -> Result<Vec<ObservedTable>, Error> {
    // Functions of TimescaleDB count columns, too. A chunk that was never analysed has no rows; one with few rows has more pages of
    // indexes than of rows.
    let query = "SELECT h.hypertable_name::text, count(*), sum(s.total_bytes)::bigint, \
                     (sum(s.total_bytes) FILTER (WHERE r.rows >= 1000) / sum(r.rows) FILTER (WHERE r.rows >= 1000))::double precision, \
                     greatest(min(c.range_start), (SELECT min(applied_at) FROM internal.schema_migrations)) \
                 FROM timescaledb_information.hypertables h \
                 CROSS JOIN LATERAL public.chunks_detailed_size(format('%I.%I', h.hypertable_schema, h.hypertable_name)::regclass) s \
                 JOIN timescaledb_information.chunks c ON c.chunk_schema = s.chunk_schema AND c.chunk_name = s.chunk_name \
                 CROSS JOIN LATERAL public.approximate_row_count(format('%I.%I', c.chunk_schema, c.chunk_name)::regclass) r (rows) \
                 WHERE h.hypertable_schema = 'internal' GROUP BY 1 ORDER BY 1";
    let plain = "SELECT c.relname::text, NULL::bigint, pg_total_relation_size(c.oid), \
                     CASE WHEN c.reltuples >= 1000 THEN pg_total_relation_size(c.oid) / c.reltuples::double precision END, \
                     (SELECT min(applied_at) FROM internal.schema_migrations) \
                 FROM pg_class c \
                 WHERE c.relkind = 'r' AND c.relnamespace = 'internal'::regnamespace AND pg_total_relation_size(c.oid) > 1048576 \
                     AND NOT EXISTS (SELECT FROM timescaledb_information.hypertables h \
                         WHERE h.hypertable_schema = 'internal' AND h.hypertable_name = c.relname) ORDER BY 1";
    let mut rows = client.query(query, &[]).await.map_err(Error::sql("measuring the tables"))?;
    rows.extend(client.query(plain, &[]).await.map_err(Error::sql("measuring the plain tables"))?);
    let table = |row: &tokio_postgres::Row| ObservedTable {
        table: row.get(0),
        chunks: row.get(1),
        bytes: row.get(2),
        bytes_per_row: row.get(3),
        since: row.get(4),
    };
    Ok(rows.iter().map(table).collect())
}

/// How upkeep found the database to do retention; [`RetentionWay::Upkeep`] also where none has run yet.
///
/// # Errors
/// The database is away or refuses.
pub async fn observed_retention_way(client: &Client) -> Result<RetentionWay, Error> {
    let query = "SELECT EXISTS (SELECT FROM timescaledb_information.jobs WHERE proc_schema = 'internal' AND proc_name = 'expire')";
    let row = client.query_one(query, &[]).await.map_err(Error::sql("reading the database's jobs"))?;
    Ok(if row.get(0) { RetentionWay::DatabaseJob } else { RetentionWay::Upkeep })
}

/// The site as the database knows it now: nodes, ports that are read, GPUs, and the ranks that run. Intervals are the defaults of
/// the daemons.
///
/// # Errors
/// The database is away or refuses.
pub async fn observed_site(client: &Client) -> Result<Site, Error> {
    // Of a cable's two ends one may be read. Before there are minutes, both are taken to be.
    let query = "SELECT (SELECT count(*) FROM internal.node WHERE valid_to IS NULL), \
                     (SELECT count(*) FROM internal.rank_claim r JOIN internal.run j ON j.id = r.job_id \
                      WHERE r.end_time IS NULL AND j.end_time IS NULL), \
                     (SELECT coalesce(nullif((SELECT count(DISTINCT m.port_id) FROM internal.ib_port_minutes m \
                              WHERE m.time > (SELECT max(made_until) FROM internal.minute_state) - INTERVAL '10 minutes'), 0), \
                          (SELECT count(*) FROM internal.ib_port WHERE valid_to IS NULL AND remote_port_id IS NOT NULL))), \
                     (SELECT count(*) FROM internal.host_port_key), \
                     (SELECT count(*) FROM internal.gpu WHERE valid_to IS NULL AND parent_gpu_id IS NULL), \
                     (SELECT coalesce(max(g.links), 0) FROM (SELECT count(*) AS links FROM internal.gpu_link \
                      WHERE valid_to IS NULL AND active GROUP BY gpu_id) g)";
    let row = client.query_one(query, &[]).await.map_err(Error::sql("counting what the site has"))?;
    let number = |column: usize| u64::try_from(row.get::<_, i64>(column)).unwrap_or(0);
    let nodes = number(0);
    Ok(Site {
        nodes,
        ranks_per_node: if nodes == 0 { 0 } else { number(1).div_ceil(nodes) },
        ports: number(2),
        host_ports: number(3),
        gpus: number(4),
        links_per_gpu: number(5),
        ..Site::default()
    })
}
