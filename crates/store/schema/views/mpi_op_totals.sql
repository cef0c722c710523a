CREATE OR REPLACE VIEW public.mpi_op_totals AS
SELECT job_key, job_id, rank, operation, internal.stored_total(sum(calls)) AS calls, internal.stored_total(sum(bytes)) AS bytes,
       sum(elapsed_seconds) AS elapsed_seconds, max(longest_seconds) AS longest_seconds, max(last_time) AS last_time,
       sum(wait_seconds) AS wait_seconds, internal.stored_total(sum(received_bytes)) AS received_bytes
FROM internal.mpi_op_cell_totals
GROUP BY job_key, job_id, rank, operation;
COMMENT ON VIEW public.mpi_op_totals IS 'Each rank''s operations so far: calls, bytes, time.';
