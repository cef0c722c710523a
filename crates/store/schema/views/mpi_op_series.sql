CREATE OR REPLACE VIEW mpi_op_series AS
SELECT time, NULL::timestamptz AS since, job_id, NULL::integer AS node_id, rank, operation, size_class_bytes, region, algorithm, algorithm_source, epoch,
       calls, bytes, elapsed_seconds, wait_seconds, received_bytes
FROM mpi_ops
UNION ALL
SELECT time, since, job_id, node_id, NULL, operation, size_class_bytes, region, algorithm, algorithm_source, epoch, calls, bytes,
       elapsed_seconds, wait_seconds, received_bytes
FROM mpi_node_cells;
COMMENT ON VIEW mpi_op_series IS
    'MPI operations over time as finely as there are rows, to be summed over a job: of each rank where it has rows in mpi_ops, and of the ranks of a node together in mpi_node_cells. Cumulative since epoch in each cell of a node or rank.';
