CREATE OR REPLACE VIEW public.mpi_rank_totals AS
SELECT j.key AS job_key, j.id AS job_id, t.rank, t.calls, t.bytes, t.elapsed_seconds, t.observed_seconds, t.last_time,
       t.wait_seconds, t.received_bytes
FROM internal.run_visible j
CROSS JOIN LATERAL internal.job_rank_totals(j.id) t;
COMMENT ON VIEW public.mpi_rank_totals IS
    'Each rank''s MPI so far, over all operations, and the time in a call that goes on included, and how long it was observed: from MPI_Init to its end or its newest report.';
