//! When tables' chunks begin and end, for readers. The view `timescaledb_information.chunks` joins all chunks of all tables, which takes
//! tens of milliseconds with a year of them; what TimescaleDB keeps of their ranges has an index.

/// SQL for when the oldest chunk of a table of the schema `internal` begins: NULL where it has none. The table is SQL, too.
#[must_use]
pub fn oldest_chunk(table: &str) -> String {
    format!(
        "to_timestamp((SELECT min(s.range_start) FROM _timescaledb_catalog.dimension_slice s WHERE s.dimension_id = ( \
             SELECT d.id FROM _timescaledb_catalog.dimension d JOIN _timescaledb_catalog.hypertable t ON t.id = d.hypertable_id \
             WHERE t.schema_name = 'internal' AND t.table_name = {table})) / 1000000.0)"
    )
}

/// A query of each table of the schema `internal` that has chunks, and from when to when these are.
pub const CHUNK_RANGES: &str = "
    SELECT t.table_name, to_timestamp(b.first / 1000000.0) AS first, to_timestamp(e.last / 1000000.0) AS last
    FROM _timescaledb_catalog.hypertable t
    JOIN _timescaledb_catalog.dimension d ON d.hypertable_id = t.id
    CROSS JOIN LATERAL (SELECT min(s.range_start) AS first FROM _timescaledb_catalog.dimension_slice s WHERE s.dimension_id = d.id) b
    CROSS JOIN LATERAL (SELECT s.range_end AS last FROM _timescaledb_catalog.dimension_slice s WHERE s.dimension_id = d.id
                        ORDER BY s.range_start DESC LIMIT 1) e
    WHERE t.schema_name = 'internal'";
