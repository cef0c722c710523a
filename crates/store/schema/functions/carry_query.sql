CREATE OR REPLACE FUNCTION internal.carry_query(policy internal.retention_policy) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = ''
AS $$
DECLARE
    columns text[] := (SELECT array_agg(a.attname::text ORDER BY a.attnum) FROM pg_catalog.pg_attribute a
        WHERE a.attrelid = format('internal.%I', policy.hypertable)::regclass AND a.attnum > 0 AND NOT a.attisdropped AND a.attname <> 'time');
    statement text := CASE policy.carried_by WHEN 'row' THEN internal.carry_query_of_rows()
        WHEN 'cells' THEN internal.carry_query_of_cells() WHEN 'peers' THEN internal.carry_query_of_peers() END;
    has_since boolean := 'since' = ANY (columns);
    part record;
BEGIN
    FOR part IN
        SELECT 'table' AS name, format('internal.%I', policy.hypertable) AS text
        UNION ALL SELECT 'whole', CASE WHEN 'is_folded' = ANY (columns) THEN 'is_folded' ELSE 'is_whole' END
        UNION ALL SELECT 'columns', (SELECT string_agg(quote_ident(c), ', ') FROM unnest(columns) c)
        UNION ALL SELECT 'names', (SELECT string_agg(quote_ident(c), ', ') FROM unnest(policy.carried_key) c)
        UNION ALL SELECT 'key', (SELECT string_agg('m.' || quote_ident(c), ', ') FROM unnest(policy.carried_key) c)
        UNION ALL SELECT 'same', (SELECT string_agg(format('n.%1$I = m.%1$I', c), ' AND ') FROM unnest(policy.carried_key) c)
        UNION ALL SELECT 'sender', CASE WHEN 'rank' = ANY (columns) THEN 'm.job_id, m.node_id, m.rank' ELSE 'm.job_id, m.node_id' END
        UNION ALL SELECT 'since', CASE WHEN has_since THEN 'since, ' ELSE '' END
        UNION ALL SELECT 'since_time', CASE WHEN has_since THEN '$1 + INTERVAL ''1 microsecond'', ' ELSE '' END
    LOOP
        statement := replace(statement, '{' || part.name || '}', part.text);
    END LOOP;
    RETURN statement;
END $$;
COMMENT ON FUNCTION internal.carry_query IS
    'The statement by which carry_totals writes last rows of a table once more: $1 is the beginning of the chunk that goes next, $2 the jobs, $3 the present. Rows at $1 itself are taken with those that go, so that the new ones come after them.';
