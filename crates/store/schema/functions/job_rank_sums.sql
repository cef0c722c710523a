CREATE OR REPLACE FUNCTION internal.job_rank_sums(job bigint, until timestamptz, nodes bigint[], times timestamptz[])
RETURNS TABLE (rank integer, calls bigint, bytes bigint, elapsed_seconds double precision, observed_seconds double precision)
LANGUAGE sql STABLE ROWS 100
BEGIN ATOMIC
    WITH counted AS MATERIALIZED (
        SELECT c.rank, internal.stored_total(sum(c.calls)) AS calls, internal.stored_total(sum(c.bytes)) AS bytes,
               sum(c.elapsed_seconds) AS elapsed_seconds
        FROM internal.mpi_op_cells(job_rank_sums.job, job_rank_sums.until) c GROUP BY c.rank
    ), times AS MATERIALIZED (
        SELECT t.rank, t.observed_seconds, t.open_seconds
        FROM internal.job_rank_times(job_rank_sums.job, job_rank_sums.until, job_rank_sums.nodes, job_rank_sums.times) t
    )
    SELECT coalesce(c.rank, t.rank), coalesce(c.calls, 0), coalesce(c.bytes, 0),
           coalesce(c.elapsed_seconds, 0) + coalesce(t.open_seconds, 0), t.observed_seconds
    FROM counted c FULL JOIN times t ON t.rank = c.rank
    WHERE c.rank IS NOT NULL OR t.open_seconds > 0;
END;
COMMENT ON FUNCTION internal.job_rank_sums IS
    'Each rank''s MPI of a running job as of a time (job_ranks_as_of), over all operations, the time in a call that goes on included.';
