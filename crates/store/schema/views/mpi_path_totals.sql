CREATE OR REPLACE VIEW internal.mpi_path_totals AS
SELECT j.key AS job_key, j.id AS job_id, t.rank, t.path, internal.stored_total(sum(t.visits)) AS visits,
       sum(t.elapsed_seconds) AS elapsed_seconds, sum(t.own_seconds) AS own_seconds,
       internal.stored_total(sum(t.mpi_calls)) AS mpi_calls, sum(t.mpi_seconds) AS mpi_seconds, max(t.last_time) AS last_time
FROM internal.run_visible j
CROSS JOIN LATERAL internal.mpi_path_cells(j.id) t
GROUP BY j.key, j.id, t.rank, t.path;
COMMENT ON VIEW internal.mpi_path_totals IS 'Each rank''s paths of annotated regions so far: visits, inclusive and exclusive time, and MPI in the exclusive one.';
