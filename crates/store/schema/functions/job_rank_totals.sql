CREATE OR REPLACE FUNCTION internal.job_rank_totals(job bigint)
RETURNS TABLE (
    rank integer, calls bigint, bytes bigint, elapsed_seconds double precision, observed_seconds double precision, last_time timestamptz,
    wait_seconds double precision, received_bytes bigint)
LANGUAGE sql STABLE ROWS 100
BEGIN ATOMIC
    WITH ranks AS MATERIALIZED (
        SELECT r.rank, r.start_time, r.end_time FROM internal.job_ranks(job_rank_totals.job) r
    ), counted AS MATERIALIZED (
        SELECT o.rank, internal.stored_total(sum(o.calls)) AS calls, internal.stored_total(sum(o.bytes)) AS bytes,
               sum(o.elapsed_seconds) AS elapsed_seconds, max(o.last_time) AS last_time, sum(o.wait_seconds) AS wait_seconds,
               internal.stored_total(sum(o.received_bytes)) AS received_bytes
        FROM (
            SELECT c.rank, c.calls, c.bytes, c.elapsed_seconds, c.last_time, c.wait_seconds, c.received_bytes
            FROM internal.job_op_cells(job_rank_totals.job) c
            UNION ALL
            -- Not counted yet, and never where the rank was killed in it.
            SELECT c.rank, 0, 0, c.seconds, c.reported_at, NULL, NULL FROM internal.mpi_open_calls c WHERE c.job_id = job_rank_totals.job
            UNION ALL
            SELECT e.rank, 0, 0, e.open_nanoseconds / 1e9::double precision, e.end_time, NULL, NULL
            FROM internal.job_final f CROSS JOIN LATERAL internal.job_final_ranks(f.job_id) e
            WHERE f.job_id = job_rank_totals.job AND f.is_released AND e.open_nanoseconds IS NOT NULL) o
        GROUP BY o.rank
    )
    SELECT t.rank, t.calls, t.bytes, t.elapsed_seconds,
           sum(extract(epoch FROM coalesce(r.end_time, greatest(t.last_time, r.start_time)) - r.start_time))::double precision,
           t.last_time, t.wait_seconds, t.received_bytes
    FROM counted t LEFT JOIN ranks r ON r.rank = t.rank
    GROUP BY t.rank, t.calls, t.bytes, t.elapsed_seconds, t.last_time, t.wait_seconds, t.received_bytes;
END;
COMMENT ON FUNCTION internal.job_rank_totals IS 'The rows of mpi_rank_totals of one job.';
