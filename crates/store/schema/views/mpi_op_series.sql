CREATE OR REPLACE VIEW mpi_op_series AS
SELECT time, NULL::timestamptz AS since, job_id, NULL::integer AS node_id, rank, operation, size_class_bytes, region, algorithm, algorithm_source, epoch,
       calls, bytes, elapsed_seconds, wait_seconds, received_bytes
FROM mpi_ops
UNION ALL
SELECT time, since, job_id, node_id, NULL, operation, size_class_bytes, region, algorithm, algorithm_source, epoch, calls, bytes,
       elapsed_seconds, wait_seconds, received_bytes
FROM mpi_node_cells
UNION ALL
SELECT m.time, m.since, m.job_id, m.node_id, NULL, c.operation, c.size_class_bytes, c.region, c.algorithm, c.algorithm_source, m.epoch,
       c.calls, c.bytes, c.elapsed / 1e9::double precision, c.wait / 1e9::double precision, c.received
FROM mpi_node_rows m
CROSS JOIN LATERAL unnest(
    m.operations, m.size_classes_bytes, m.regions, m.algorithms, m.algorithm_sources, m.calls, m.bytes, m.elapsed_nanoseconds,
    m.wait_nanoseconds, m.received_bytes)
    c (operation, size_class_bytes, region, algorithm, algorithm_source, calls, bytes, elapsed, wait, received)
UNION ALL
SELECT m.time, m.since, m.job_id, m.node_id, NULL, k.operation, k.size_class_bytes, k.region, k.algorithm, k.algorithm_source, m.epoch,
       p.calls, p.bytes, p.elapsed_nanoseconds / 1e9::double precision, p.wait_nanoseconds / 1e9::double precision, p.received_bytes
FROM mpi_node_rows m
CROSS JOIN LATERAL mpi_packed_cells(m.cells) p
JOIN mpi_cell_key k ON k.id = p.cell_id;
COMMENT ON VIEW mpi_op_series IS
    'MPI operations over time as finely as there are rows, to be summed over a job: of each rank where it has rows in mpi_ops, and of the ranks of a node together in mpi_node_rows, or mpi_node_cells. Cumulative since epoch in each cell of a node or rank.';
