-- Rows are cumulative, so a total is the last row of each cell and epoch. The primary key ends with the time: going down
-- the key, the first row of each cell is its last one, and the next cell is one step of the index away. So the cost follows
-- the number of cells, whatever a job's length. Each cell of a rank that was started again costs one more step per start.
CREATE OR REPLACE FUNCTION mpi_single_peer_cells(job integer, until timestamptz DEFAULT 'infinity')
RETURNS TABLE (
    rank integer, peer integer, kind text, epoch timestamptz, bytes bigint, messages bigint, last_time timestamptz)
LANGUAGE plpgsql STABLE ROWS 10000 COST 1000000
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
AS $$
DECLARE
    span record;
    dense boolean;
BEGIN
    SELECT * INTO span FROM job_span(mpi_single_peer_cells.job);
    -- A step of the index costs as much as reading some 30 rows. A large world where all send to all seldom has few
    -- rows for each of very many pairs: then all are read.
    EXECUTE $query$
        SELECT count(*) < 30 * count(DISTINCT (s.rank, s.peer, s.kind))
        FROM (SELECT m.rank, m.peer, m.kind FROM mpi_peers m
              WHERE m.job_id = $1 AND m.time >= $2 AND m.time <= $3
              ORDER BY m.rank, m.peer, m.kind, m.time LIMIT 20000) s
    $query$ INTO dense USING job, span.since, least(span.ending, until);
    IF dense THEN
        RETURN QUERY EXECUTE $query$
            SELECT m.rank, m.peer, m.kind, m.epoch, max(m.bytes), max(m.messages), max(m.time) FROM mpi_peers m
            WHERE m.job_id = $1 AND m.time >= $2 AND m.time <= $3
            GROUP BY m.rank, m.peer, m.kind, m.epoch
        $query$ USING job, span.since, least(span.ending, until);
        RETURN;
    END IF;
    RETURN QUERY EXECUTE $query$
        WITH RECURSIVE newest AS (
            (SELECT m AS cell FROM mpi_peers m
             WHERE m.job_id = $1 AND m.time >= $2 AND m.time <= $3
             ORDER BY m.rank DESC, m.peer DESC, m.kind DESC, m.time DESC
             LIMIT 1)
            UNION ALL
            SELECT n.cell FROM newest l CROSS JOIN LATERAL (
                SELECT m AS cell FROM mpi_peers m
                WHERE m.job_id = $1 AND m.time >= $2 AND m.time <= $3
                  AND (m.rank, m.peer, m.kind) < ((l.cell).rank, (l.cell).peer, (l.cell).kind)
                ORDER BY m.rank DESC, m.peer DESC, m.kind DESC, m.time DESC
                LIMIT 1) n
        ), earlier AS (
            SELECT e.cell FROM newest l
            JOIN job_rank r ON r.job_id = $1 AND r.rank = (l.cell).rank AND r.start_time <> (l.cell).epoch
            CROSS JOIN LATERAL (
                SELECT m AS cell FROM mpi_peers m
                WHERE m.job_id = $1 AND m.rank = r.rank AND m.peer = (l.cell).peer AND m.kind = (l.cell).kind
                  AND m.epoch = r.start_time AND m.time >= greatest($2, r.start_time)
                  AND m.time <= least($3, r.end_time + INTERVAL '10 minutes')
                ORDER BY m.time DESC
                LIMIT 1) e
        )
        SELECT (cell).rank, (cell).peer, (cell).kind, (cell).epoch, (cell).bytes, (cell).messages, (cell).time
        FROM (SELECT cell FROM newest UNION ALL SELECT cell FROM earlier) cells
    $query$ USING job, span.since, least(span.ending, until);
END
$$;
COMMENT ON FUNCTION mpi_single_peer_cells IS
    'The last row of each pair of ranks, kind and epoch in mpi_peers of a job, up to a time.';
