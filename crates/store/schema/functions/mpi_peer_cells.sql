-- The last row of each rank, kind and epoch is one step of the index away from the next one. Where not all peers are in it, the last
-- one that has all is looked for, and the rows since are read with it. What a rank read (`read`) its peer has sent.
CREATE OR REPLACE FUNCTION internal.mpi_peer_cells(job bigint, until timestamptz DEFAULT 'infinity')
RETURNS TABLE (
    rank integer, peer integer, kind text, epoch timestamptz, bytes bigint, messages bigint, last_time timestamptz)
LANGUAGE plpgsql STABLE ROWS 10000 COST 1000000
-- As in mpi_op_cells.
SET search_path = '' SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
AS $$
DECLARE
    span record;
BEGIN
    SELECT * INTO span FROM internal.job_span(mpi_peer_cells.job);
    RETURN QUERY EXECUTE internal.of_counted(mpi_peer_cells.job, $query$
        WITH RECURSIVE newest AS (
            (SELECT m AS line FROM internal.mpi_rank_peers m
             WHERE m.job_id = $1 AND m.time >= $2 AND m.time <= $3{of_counted_rank}
             ORDER BY m.rank DESC, m.kind DESC, m.epoch DESC, m.time DESC
             LIMIT 1)
            UNION ALL
            SELECT n.line FROM newest l CROSS JOIN LATERAL (
                SELECT m AS line FROM internal.mpi_rank_peers m
                WHERE m.job_id = $1 AND m.time >= $2 AND m.time <= $3{of_counted_rank}
                  AND (m.rank, m.kind, m.epoch) < ((l.line).rank, (l.line).kind, (l.line).epoch)
                ORDER BY m.rank DESC, m.kind DESC, m.epoch DESC, m.time DESC
                LIMIT 1) n
        ), lines AS (
            SELECT line FROM newest
            UNION ALL
            SELECT b.line FROM newest l
            LEFT JOIN LATERAL (
                SELECT m.time FROM internal.mpi_rank_peers m
                WHERE m.job_id = $1 AND m.rank = (l.line).rank AND m.kind = (l.line).kind AND m.epoch = (l.line).epoch
                  AND m.time >= $2 AND m.time <= $3 AND m.time < (l.line).time AND m.is_whole{of_counted_rank}
                ORDER BY m.time DESC
                LIMIT 1) w ON true
            CROSS JOIN LATERAL (
                SELECT m AS line FROM internal.mpi_rank_peers m
                WHERE m.job_id = $1 AND m.rank = (l.line).rank AND m.kind = (l.line).kind AND m.epoch = (l.line).epoch
                  AND m.time >= $2 AND m.time <= $3
                  AND m.time >= coalesce(w.time, $2) AND m.time < (l.line).time{of_counted_rank}) b
            WHERE NOT (l.line).is_whole
        )
        SELECT CASE (line).kind WHEN 'read' THEN c.peer ELSE (line).rank END,
               CASE (line).kind WHEN 'read' THEN (line).rank ELSE c.peer END,
               CASE (line).kind WHEN 'read' THEN 'logical' ELSE (line).kind END,
               (line).epoch, max(c.bytes), max(c.messages), max((line).time)
        FROM lines
        CROSS JOIN LATERAL unnest((line).peers, (line).bytes, (line).messages) c (peer, bytes, messages)
        WHERE c.peer IS NOT NULL -- arrays of unequal length, of rows that the collector did not write
        GROUP BY (line).rank, c.peer, (line).kind, (line).epoch
    $query$) USING job, span.since, least(span.ending, until);
END
$$;
COMMENT ON FUNCTION internal.mpi_peer_cells IS
    'The last value of each pair of ranks, kind and epoch of a job, up to a time: their sums are the traffic until then. What '
    'one-sided operations read is traffic of kind logical from the rank that they read from, in rows of its own.';
