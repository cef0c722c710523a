-- Ranks have their peers in one row (mpi_rank_peers); those of older agents, and what is beyond an agent's limits, are rows of mpi_peers.
-- A pair has both where an agent was replaced while its rank ran: sums grow, so the larger one is the later.
CREATE OR REPLACE FUNCTION mpi_peer_cells(job integer, until timestamptz DEFAULT 'infinity')
RETURNS TABLE (
    rank integer, peer integer, kind text, epoch timestamptz, bytes bigint, messages bigint, last_time timestamptz)
LANGUAGE plpgsql STABLE ROWS 10000 COST 1000000
SET jit = off
AS $$
DECLARE
    span record;
    has_singles boolean;
BEGIN
    SELECT * INTO span FROM job_span(mpi_peer_cells.job);
    EXECUTE 'SELECT EXISTS (SELECT FROM mpi_peers m WHERE m.job_id = $1 AND m.time >= $2 AND m.time <= $3)'
        INTO has_singles USING job, span.since, span.ending;
    IF NOT has_singles THEN
        RETURN QUERY SELECT * FROM mpi_rank_peer_cells(mpi_peer_cells.job, mpi_peer_cells.until);
        RETURN;
    END IF;
    RETURN QUERY
        SELECT c.rank, c.peer, c.kind, c.epoch, max(c.bytes), max(c.messages), max(c.last_time)
        FROM (SELECT * FROM mpi_single_peer_cells(mpi_peer_cells.job, mpi_peer_cells.until)
              UNION ALL SELECT * FROM mpi_rank_peer_cells(mpi_peer_cells.job, mpi_peer_cells.until)) c
        GROUP BY c.rank, c.peer, c.kind, c.epoch;
END
$$;
COMMENT ON FUNCTION mpi_peer_cells IS
    'The last value of each pair of ranks, kind and epoch of a job, up to a time: their sums are the traffic until then.';
