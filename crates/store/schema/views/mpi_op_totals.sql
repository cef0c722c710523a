CREATE OR REPLACE VIEW mpi_op_totals AS
SELECT job_key, job_id, rank, operation, stored_total(sum(calls)) AS calls, stored_total(sum(bytes)) AS bytes,
       sum(elapsed_seconds) AS elapsed_seconds, max(longest_seconds) AS longest_seconds, max(last_time) AS last_time,
       sum(wait_seconds) AS wait_seconds, stored_total(sum(received_bytes)) AS received_bytes
FROM mpi_op_cell_totals
GROUP BY job_key, job_id, rank, operation;
COMMENT ON VIEW mpi_op_totals IS 'Each rank''s operations so far: calls, bytes, time.';
