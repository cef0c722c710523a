-- The last row of each node and epoch is one step of the index away from the next one. Where not all cells are in it, the last one that
-- has all is looked for, and the rows since are read with it.
CREATE OR REPLACE FUNCTION internal.mpi_node_op_cells(job bigint, until timestamptz DEFAULT 'infinity')
RETURNS TABLE (
    node_id bigint, operation text, size_class_bytes bigint, region text, algorithm text, epoch timestamptz,
    calls bigint, bytes bigint, elapsed_seconds double precision, wait_seconds double precision, received_bytes bigint,
    since timestamptz, last_time timestamptz, algorithm_source text, longest_seconds double precision)
LANGUAGE plpgsql STABLE ROWS 1000 COST 1000000
SET search_path = '' SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
AS $$
DECLARE
    span record;
BEGIN
    SELECT * INTO span FROM internal.job_span(mpi_node_op_cells.job);
    RETURN QUERY EXECUTE internal.of_counted(mpi_node_op_cells.job, $query$
        WITH RECURSIVE newest AS (
            (SELECT m AS line FROM internal.mpi_node_rows m
             WHERE m.job_id = $1 AND m.time >= $2 AND m.time <= $3{of_counted_node}
             ORDER BY m.node_id DESC, m.epoch DESC, m.time DESC
             LIMIT 1)
            UNION ALL
            SELECT n.line FROM newest l CROSS JOIN LATERAL (
                SELECT m AS line FROM internal.mpi_node_rows m
                WHERE m.job_id = $1 AND m.time >= $2 AND m.time <= $3{of_counted_node}
                  AND (m.node_id, m.epoch) < ((l.line).node_id, (l.line).epoch)
                ORDER BY m.node_id DESC, m.epoch DESC, m.time DESC
                LIMIT 1) n
        ), lines AS (
            SELECT line FROM newest
            UNION ALL
            SELECT b.line FROM newest l
            LEFT JOIN LATERAL (
                SELECT m.time FROM internal.mpi_node_rows m
                WHERE m.job_id = $1 AND m.node_id = (l.line).node_id AND m.epoch = (l.line).epoch
                  AND m.time >= $2 AND m.time <= $3 AND m.time < (l.line).time AND m.is_whole
                ORDER BY m.time DESC
                LIMIT 1) w ON true
            CROSS JOIN LATERAL (
                SELECT m AS line FROM internal.mpi_node_rows m
                WHERE m.job_id = $1 AND m.node_id = (l.line).node_id AND m.epoch = (l.line).epoch
                  AND m.time >= $2 AND m.time <= $3
                  AND m.time >= coalesce(w.time, $2) AND m.time < (l.line).time) b
            WHERE NOT (l.line).is_whole
        ), cells AS (
            SELECT line, k.operation, k.size_class_bytes, k.region, k.algorithm, k.algorithm_source, p.calls, p.bytes,
                   p.elapsed_nanoseconds AS elapsed, p.wait_nanoseconds AS wait, p.received_bytes AS received,
                   p.longest_nanoseconds AS longest, r.ranks
            FROM lines
            CROSS JOIN LATERAL internal.mpi_packed_cells((line).cells) p
            CROSS JOIN LATERAL internal.mpi_packed_round((line).rounds, p.number) r
            JOIN internal.mpi_cell_key k ON k.id = p.cell_id
        )
        -- When a cell grew last; of one that is in a whole row alone it is not known.
        SELECT (line).node_id, c.operation, c.size_class_bytes, c.region, c.algorithm, (line).epoch, max(c.calls), max(c.bytes),
               max(c.elapsed) / 1e9::double precision, max(c.wait) / 1e9::double precision, max(c.received),
               max((line).since) FILTER (WHERE c.ranks > 0),
               coalesce(max((line).time) FILTER (WHERE c.ranks > 0), max((line).time)), max(c.algorithm_source),
               max(c.longest) / 1e9::double precision
        FROM cells c
        GROUP BY 1, 2, 3, 4, 5, 6
    $query$) USING job, span.since, least(span.ending, until);
END
$$;
COMMENT ON FUNCTION internal.mpi_node_op_cells IS
    'The last value of each cell and epoch in mpi_node_rows of a job, up to a time: what its nodes have counted by then.';
