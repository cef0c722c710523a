CREATE OR REPLACE FUNCTION internal.next_columns(of_table text) RETURNS SETOF regclass
LANGUAGE plpgsql STABLE
SET search_path = ''
AS $$
DECLARE
    older timestamptz := (SELECT internal.expiry_time() - p.columns_after FROM internal.retention_policy p WHERE p.hypertable = of_table);
BEGIN
    IF older IS NULL THEN
        RETURN;
    END IF;
    RETURN QUERY
    SELECT format('%I.%I', c.chunk_schema, c.chunk_name)::regclass
    FROM timescaledb_information.chunks c
    JOIN timescaledb_information.hypertables h ON h.hypertable_schema = c.hypertable_schema AND h.hypertable_name = c.hypertable_name
    JOIN _timescaledb_catalog.chunk k ON k.schema_name = c.chunk_schema AND k.table_name = c.chunk_name
    WHERE c.hypertable_schema = 'internal' AND c.hypertable_name = of_table AND c.range_end <= older AND h.compression_enabled
      -- Rows, or columns with late rows beside them (TimescaleDB's status: 1 columns, 4 frozen).
      AND k.status <> 1 AND k.status & 4 = 0
    ORDER BY c.range_start;
END $$;
COMMENT ON FUNCTION internal.next_columns IS
    'Chunks of a table that are to become columns, the oldest first, by expiry_time(); none on the Apache edition. For the procedure expire.';
