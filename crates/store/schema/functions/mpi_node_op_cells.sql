-- As mpi_traffic_cells: the epoch is part of the key, so that each cell and epoch is one step.
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
    'The last row of each cell and epoch in mpi_node_cells of a job, up to a time: what its nodes have counted by then.';
