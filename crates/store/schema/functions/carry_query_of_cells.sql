-- Rows have all cells, or those that changed: of a series the last row that has all is needed, and of the others those with the last
-- value of a cell. They keep their order. Numbers of cells are used for as long as rows have them.
CREATE OR REPLACE FUNCTION internal.carry_query_of_cells() RETURNS text
LANGUAGE sql IMMUTABLE
RETURN $$
    WITH old AS MATERIALIZED (
        SELECT m.*, row_number() OVER () AS number,
               coalesce(max(m.time) FILTER (WHERE m.{whole}) OVER (PARTITION BY {key}), '-infinity') AS whole_time
        FROM {table} m WHERE m.time <= $1 AND m.job_id = ANY ($2)
    ), needed AS MATERIALIZED (
        SELECT * FROM old m
        WHERE m.time >= m.whole_time AND NOT EXISTS (SELECT FROM {table} n WHERE {same} AND n.{whole} AND n.time > $1)
    ), written AS (
        INSERT INTO {table} (time, {columns})
        SELECT $1 + row_number() OVER (PARTITION BY {sender} ORDER BY m.time) * INTERVAL '1 microsecond', {columns}
        FROM needed m
        WHERE m.time = m.whole_time OR m.number IN (
            SELECT c.number FROM (
                SELECT DISTINCT ON ({key}, p.cell_id) m.number
                FROM needed m CROSS JOIN LATERAL internal.mpi_packed_cells(m.cells) p
                ORDER BY {key}, p.cell_id, m.time DESC) c)
        ON CONFLICT DO NOTHING
        RETURNING cells
    ), used AS (
        UPDATE internal.mpi_cell_key SET used_at = $3 WHERE id IN (
            SELECT k.id FROM internal.mpi_cell_key k
            WHERE k.id IN (SELECT p.cell_id FROM written w CROSS JOIN LATERAL internal.mpi_packed_cells(w.cells) p)
                AND k.used_at < $3 - INTERVAL '12 hours'
            ORDER BY k.id FOR UPDATE OF k)
    )
    SELECT count(*) FROM written
$$;
COMMENT ON FUNCTION internal.carry_query_of_cells IS
    'For carry_query: of a table whose rows have packed cells, all of them or those that changed.';
