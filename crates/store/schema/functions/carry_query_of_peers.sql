-- Rows have all peers, or those that changed: one row with the last value of each. Nothing flowed in it: it is since its own time.
CREATE OR REPLACE FUNCTION internal.carry_query_of_peers() RETURNS text
LANGUAGE sql IMMUTABLE
RETURN $$
    WITH old AS MATERIALIZED (
        SELECT m.*, coalesce(max(m.time) FILTER (WHERE m.{whole}) OVER (PARTITION BY {key}), min(m.time) OVER (PARTITION BY {key})) AS first_time
        FROM {table} m WHERE m.time <= $1 AND m.job_id = ANY ($2)
    ), needed AS (
        SELECT * FROM old m
        WHERE m.time >= m.first_time AND NOT EXISTS (SELECT FROM {table} n WHERE {same} AND n.{whole} AND n.time > $1)
    ), peers AS (
        SELECT {key}, c.peer, max(c.bytes) AS bytes, max(c.messages) AS messages, max(m.source) AS source, bool_or(m.{whole}) AS is_whole
        FROM needed m CROSS JOIN LATERAL unnest(m.peers, m.bytes, m.messages) c (peer, bytes, messages)
        WHERE c.peer IS NOT NULL
        GROUP BY {key}, c.peer
    ), written AS (
        INSERT INTO {table} (time, {names}, {since}source, is_whole, peers, bytes, messages)
        SELECT $1 + INTERVAL '1 microsecond', {key}, {since_time}max(m.source), bool_or(m.is_whole), array_agg(m.peer ORDER BY m.peer),
               array_agg(m.bytes ORDER BY m.peer), array_agg(m.messages ORDER BY m.peer)
        FROM peers m
        GROUP BY {key}
        ON CONFLICT DO NOTHING
        RETURNING 1
    )
    SELECT count(*) FROM written
$$;
COMMENT ON FUNCTION internal.carry_query_of_peers IS
    'For carry_query: of a table whose rows have arrays of peers, all of them or those that changed.';
