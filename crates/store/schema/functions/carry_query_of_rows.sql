-- Each row is the total of its series. Rows of one rank or node keep their order: some are of earlier epochs.
CREATE OR REPLACE FUNCTION internal.carry_query_of_rows() RETURNS text
LANGUAGE sql IMMUTABLE
RETURN $$
    WITH last AS (
        SELECT DISTINCT ON ({key}) m.* FROM {table} m
        WHERE m.time <= $1 AND m.job_id = ANY ($2)
        ORDER BY {key}, m.time DESC
    ), written AS (
        INSERT INTO {table} (time, {columns})
        SELECT $1 + row_number() OVER (PARTITION BY {sender} ORDER BY m.time) * INTERVAL '1 microsecond', {columns}
        FROM last m
        WHERE NOT EXISTS (SELECT FROM {table} n WHERE {same} AND n.time > $1)
        ON CONFLICT DO NOTHING
        RETURNING 1
    )
    SELECT count(*) FROM written
$$;
COMMENT ON FUNCTION internal.carry_query_of_rows IS
    'For carry_query: of a table whose rows are totals by themselves.';
