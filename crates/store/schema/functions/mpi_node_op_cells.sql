-- A node has what it counted since an epoch either in mpi_node_cells, from an older agent, or in mpi_node_rows. Of the one each cell
-- and epoch is one step of the index; of the other each node and epoch, with the rows since the last whole one.
CREATE OR REPLACE FUNCTION mpi_node_op_cells(job integer, until timestamptz DEFAULT 'infinity')
RETURNS TABLE (
    node_id integer, operation text, size_class_bytes bigint, region text, algorithm text, epoch timestamptz,
    calls bigint, bytes bigint, elapsed_seconds double precision, wait_seconds double precision, received_bytes bigint,
    since timestamptz, last_time timestamptz)
LANGUAGE plpgsql STABLE ROWS 1000 COST 1000000
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
AS $$
DECLARE
    span record;
BEGIN
    SELECT * INTO span FROM job_span(mpi_node_op_cells.job);
    RETURN QUERY EXECUTE $query$
        WITH RECURSIVE newest AS (
            (SELECT m AS line FROM mpi_node_rows m
             WHERE m.job_id = $1 AND m.time >= $2 AND m.time <= $3
             ORDER BY m.node_id DESC, m.epoch DESC, m.time DESC
             LIMIT 1)
            UNION ALL
            SELECT n.line FROM newest l CROSS JOIN LATERAL (
                SELECT m AS line FROM mpi_node_rows m
                WHERE m.job_id = $1 AND m.time >= $2 AND m.time <= $3
                  AND (m.node_id, m.epoch) < ((l.line).node_id, (l.line).epoch)
                ORDER BY m.node_id DESC, m.epoch DESC, m.time DESC
                LIMIT 1) n
        ), lines AS (
            SELECT line FROM newest
            UNION ALL
            SELECT b.line FROM newest l
            LEFT JOIN LATERAL (
                SELECT m.time FROM mpi_node_rows m
                WHERE m.job_id = $1 AND m.node_id = (l.line).node_id AND m.epoch = (l.line).epoch
                  AND m.time >= $2 AND m.time < (l.line).time AND m.is_whole
                ORDER BY m.time DESC
                LIMIT 1) w ON true
            CROSS JOIN LATERAL (
                SELECT m AS line FROM mpi_node_rows m
                WHERE m.job_id = $1 AND m.node_id = (l.line).node_id AND m.epoch = (l.line).epoch
                  AND m.time >= coalesce(w.time, $2) AND m.time < (l.line).time) b
            WHERE NOT (l.line).is_whole
        ), cells AS (
            SELECT line, c.*
            FROM lines
            CROSS JOIN LATERAL unnest(
                (line).operations, (line).size_classes_bytes, (line).regions, (line).algorithms, (line).calls, (line).bytes,
                (line).elapsed_nanoseconds, (line).wait_nanoseconds, (line).received_bytes, (line).ranks)
                c (operation, size_class_bytes, region, algorithm, calls, bytes, elapsed, wait, received, ranks)
            UNION ALL
            SELECT line, k.operation, k.size_class_bytes, k.region, k.algorithm, p.calls, p.bytes, p.elapsed_nanoseconds,
                   p.wait_nanoseconds, p.received_bytes, r.ranks
            FROM lines
            CROSS JOIN LATERAL mpi_packed_cells((line).cells) p
            CROSS JOIN LATERAL mpi_packed_round((line).rounds, p.number) r
            JOIN mpi_cell_key k ON k.id = p.cell_id
        )
        -- When a cell grew last; of one that is in a whole row alone it is not known.
        SELECT (line).node_id, c.operation, c.size_class_bytes, c.region, c.algorithm, (line).epoch, max(c.calls), max(c.bytes),
               max(c.elapsed) / 1e9::double precision, max(c.wait) / 1e9::double precision, max(c.received),
               max((line).since) FILTER (WHERE c.ranks > 0),
               coalesce(max((line).time) FILTER (WHERE c.ranks > 0), max((line).time))
        FROM cells c
        GROUP BY 1, 2, 3, 4, 5, 6
    $query$ USING job, span.since, least(span.ending, until);
    RETURN QUERY EXECUTE $query$
        WITH RECURSIVE newest AS (
            (SELECT m AS cell FROM mpi_node_cells m
             WHERE m.job_id = $1 AND m.time >= $2 AND m.time <= $3
             ORDER BY m.node_id DESC, m.operation DESC, m.size_class_bytes DESC, m.region DESC, m.algorithm DESC,
                      m.epoch DESC, m.time DESC
             LIMIT 1)
            UNION ALL
            SELECT n.cell FROM newest l CROSS JOIN LATERAL (
                SELECT m AS cell FROM mpi_node_cells m
                WHERE m.job_id = $1 AND m.time >= $2 AND m.time <= $3
                  AND (m.node_id, m.operation, m.size_class_bytes, m.region, m.algorithm, m.epoch)
                      < ((l.cell).node_id, (l.cell).operation, (l.cell).size_class_bytes, (l.cell).region,
                         (l.cell).algorithm, (l.cell).epoch)
                ORDER BY m.node_id DESC, m.operation DESC, m.size_class_bytes DESC, m.region DESC, m.algorithm DESC,
                         m.epoch DESC, m.time DESC
                LIMIT 1) n
        )
        SELECT (cell).node_id, (cell).operation, (cell).size_class_bytes, (cell).region, (cell).algorithm, (cell).epoch,
               (cell).calls, (cell).bytes, (cell).elapsed_seconds, (cell).wait_seconds, (cell).received_bytes,
               (cell).since, (cell).time
        FROM newest
    $query$ USING job, span.since, least(span.ending, until);
END
$$;
COMMENT ON FUNCTION mpi_node_op_cells IS
    'The last value of each cell and epoch in mpi_node_rows and mpi_node_cells of a job, up to a time: what its nodes have counted by then.';
