-- As mpi_peer_cells, but the epoch is part of the key, so that each cell and epoch is one step.
CREATE OR REPLACE FUNCTION mpi_traffic_cells(job integer, until timestamptz DEFAULT 'infinity')
RETURNS TABLE (
    node_id integer, operation text, kind text, direction text, peer integer, epoch timestamptz, bytes bigint,
    messages bigint, last_time timestamptz)
LANGUAGE plpgsql STABLE ROWS 10000 COST 1000000
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
AS $$
DECLARE
    span record;
BEGIN
    SELECT * INTO span FROM job_span(mpi_traffic_cells.job);
    RETURN QUERY EXECUTE $query$
        WITH RECURSIVE newest AS (
            (SELECT m AS cell FROM mpi_traffic m
             WHERE m.job_id = $1 AND m.time >= $2 AND m.time <= $3
             ORDER BY m.node_id DESC, m.operation DESC, m.kind DESC, m.direction DESC, m.peer DESC, m.epoch DESC,
                      m.time DESC
             LIMIT 1)
            UNION ALL
            SELECT n.cell FROM newest l CROSS JOIN LATERAL (
                SELECT m AS cell FROM mpi_traffic m
                WHERE m.job_id = $1 AND m.time >= $2 AND m.time <= $3
                  AND (m.node_id, m.operation, m.kind, m.direction, m.peer, m.epoch)
                      < ((l.cell).node_id, (l.cell).operation, (l.cell).kind, (l.cell).direction, (l.cell).peer,
                         (l.cell).epoch)
                ORDER BY m.node_id DESC, m.operation DESC, m.kind DESC, m.direction DESC, m.peer DESC, m.epoch DESC,
                         m.time DESC
                LIMIT 1) n
        )
        SELECT (cell).node_id, (cell).operation, (cell).kind, (cell).direction, (cell).peer, (cell).epoch,
               (cell).bytes, (cell).messages, (cell).time
        FROM newest
    $query$ USING job, span.since, least(span.ending, until);
END
$$;
COMMENT ON FUNCTION mpi_traffic_cells IS
    'The last row of each cell and epoch of a job''s traffic by operation, up to a time: their sums are the traffic until then.';
