CREATE OR REPLACE VIEW internal.mpi_op_cell_totals AS
SELECT j.key AS job_key, j.id AS job_id, t.rank, t.operation, t.size_class_bytes, t.region, t.algorithm,
       max(t.algorithm_source) AS algorithm_source, internal.stored_total(sum(t.calls)) AS calls,
       internal.stored_total(sum(t.bytes)) AS bytes,
       sum(t.elapsed_seconds) AS elapsed_seconds, max(t.longest_seconds) AS longest_seconds,
       sum(t.wait_seconds) AS wait_seconds, internal.stored_total(sum(t.received_bytes)) AS received_bytes,
       max(t.last_time) AS last_time
FROM internal.run_visible j
CROSS JOIN LATERAL internal.job_op_cells(j.id) t
GROUP BY j.key, j.id, t.rank, t.operation, t.size_class_bytes, t.region, t.algorithm;
COMMENT ON VIEW internal.mpi_op_cell_totals IS
    'Each rank''s operations so far by size class, region and algorithm: calls, bytes, time. Of a job whose rows are gone the size class is NULL and the others are empty.';
