-- As in mpi_peer_cells, of each operation, kind, direction and epoch of a node.
CREATE OR REPLACE FUNCTION internal.mpi_traffic_cells(job bigint, until timestamptz DEFAULT 'infinity')
RETURNS TABLE (
    node_id bigint, operation text, kind text, direction text, peer integer, epoch timestamptz, bytes bigint,
    messages bigint, last_time timestamptz)
LANGUAGE plpgsql STABLE ROWS 10000 COST 1000000
SET search_path = '' SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
AS $$
DECLARE
    span record;
BEGIN
    SELECT * INTO span FROM internal.job_span(mpi_traffic_cells.job);
    RETURN QUERY EXECUTE internal.of_counted(mpi_traffic_cells.job, $query$
        WITH RECURSIVE newest AS (
            (SELECT m AS line FROM internal.mpi_node_traffic m
             WHERE m.job_id = $1 AND m.time >= $2 AND m.time <= $3{of_counted_node}
             ORDER BY m.node_id DESC, m.operation DESC, m.kind DESC, m.direction DESC, m.epoch DESC, m.time DESC
             LIMIT 1)
            UNION ALL
            SELECT n.line FROM newest l CROSS JOIN LATERAL (
                SELECT m AS line FROM internal.mpi_node_traffic m
                WHERE m.job_id = $1 AND m.time >= $2 AND m.time <= $3{of_counted_node}
                  AND (m.node_id, m.operation, m.kind, m.direction, m.epoch)
                      < ((l.line).node_id, (l.line).operation, (l.line).kind, (l.line).direction, (l.line).epoch)
                ORDER BY m.node_id DESC, m.operation DESC, m.kind DESC, m.direction DESC, m.epoch DESC, m.time DESC
                LIMIT 1) n
        ), lines AS (
            SELECT line FROM newest
            UNION ALL
            SELECT b.line FROM newest l
            LEFT JOIN LATERAL (
                SELECT m.time FROM internal.mpi_node_traffic m
                WHERE m.job_id = $1 AND m.node_id = (l.line).node_id AND m.operation = (l.line).operation
                  AND m.kind = (l.line).kind AND m.direction = (l.line).direction AND m.epoch = (l.line).epoch
                  AND m.time >= $2 AND m.time <= $3 AND m.time < (l.line).time AND m.is_whole
                ORDER BY m.time DESC
                LIMIT 1) w ON true
            CROSS JOIN LATERAL (
                SELECT m AS line FROM internal.mpi_node_traffic m
                WHERE m.job_id = $1 AND m.node_id = (l.line).node_id AND m.operation = (l.line).operation
                  AND m.kind = (l.line).kind AND m.direction = (l.line).direction AND m.epoch = (l.line).epoch
                  AND m.time >= $2 AND m.time <= $3
                  AND m.time >= coalesce(w.time, $2) AND m.time < (l.line).time) b
            WHERE NOT (l.line).is_whole
        )
        SELECT (line).node_id, (line).operation, (line).kind, (line).direction, c.peer, (line).epoch, max(c.bytes),
               max(c.messages), max((line).time)
        FROM lines
        CROSS JOIN LATERAL unnest((line).peers, (line).bytes, (line).messages) c (peer, bytes, messages)
        WHERE c.peer IS NOT NULL
        GROUP BY 1, 2, 3, 4, 5, 6
    $query$) USING job, span.since, least(span.ending, until);
END
$$;
COMMENT ON FUNCTION internal.mpi_traffic_cells IS
    'The last value of each cell and epoch of a job''s traffic by operation, up to a time: their sums are the traffic until then.';
