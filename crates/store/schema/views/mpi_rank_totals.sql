CREATE OR REPLACE VIEW public.mpi_rank_totals AS
SELECT t.job_key, t.job_id, t.rank, t.calls, t.bytes, t.elapsed_seconds, s.observed_seconds, t.last_time,
       t.wait_seconds, t.received_bytes
FROM (
    SELECT job_key, job_id, rank, internal.stored_total(sum(calls)) AS calls, internal.stored_total(sum(bytes)) AS bytes,
           sum(elapsed_seconds) AS elapsed_seconds, max(last_time) AS last_time, sum(wait_seconds) AS wait_seconds,
           internal.stored_total(sum(received_bytes)) AS received_bytes
    FROM (
        SELECT job_key, job_id, rank, calls, bytes, elapsed_seconds, last_time, wait_seconds, received_bytes
        FROM public.mpi_op_totals
        UNION ALL
        -- Not counted yet, and never where the rank was killed in it.
        SELECT job_key, job_id, rank, 0, 0, seconds, reported_at, NULL, NULL FROM internal.mpi_open_calls) o
    GROUP BY job_key, job_id, rank) t
CROSS JOIN LATERAL (
    SELECT sum(extract(epoch FROM coalesce(r.end_time, greatest(t.last_time, r.start_time)) - r.start_time))
               ::double precision AS observed_seconds
    FROM internal.job_rank r WHERE r.job_id = t.job_id AND r.rank = t.rank) s;
COMMENT ON VIEW public.mpi_rank_totals IS
    'Each rank''s MPI so far, over all operations, and the time in a call that goes on included, and how long it was observed: from MPI_Init to its end or its newest report.';
