CREATE OR REPLACE VIEW public.mpi_op_series AS
SELECT m.time, NULL::timestamptz AS since, m.job_id, NULL::bigint AS node_id, m.rank, k.operation, k.size_class_bytes, k.region,
       k.algorithm, k.algorithm_source, m.epoch, p.calls, p.bytes, p.elapsed_nanoseconds / 1e9::double precision AS elapsed_seconds,
       p.wait_nanoseconds / 1e9::double precision AS wait_seconds, p.received_bytes
FROM internal.mpi_rank_rows m
CROSS JOIN LATERAL internal.mpi_packed_cells(m.cells) p
JOIN internal.mpi_cell_key k ON k.id = p.cell_id
WHERE NOT m.is_folded AND NOT EXISTS (SELECT FROM internal.rank_claim x
    WHERE x.contest IS NOT NULL AND x.job_id = m.job_id AND x.rank = m.rank AND x.node_id = m.node_id)
UNION ALL
SELECT m.time, m.since, m.job_id, m.node_id, NULL, k.operation, k.size_class_bytes, k.region, k.algorithm, k.algorithm_source, m.epoch,
       p.calls, p.bytes, p.elapsed_nanoseconds / 1e9::double precision, p.wait_nanoseconds / 1e9::double precision, p.received_bytes
FROM internal.mpi_node_rows m
CROSS JOIN LATERAL internal.mpi_packed_cells(m.cells) p
JOIN internal.mpi_cell_key k ON k.id = p.cell_id
WHERE NOT EXISTS (SELECT FROM internal.rank_claim x WHERE x.contest IS NOT NULL AND x.job_id = m.job_id AND x.node_id = m.node_id);
COMMENT ON VIEW public.mpi_op_series IS
    'MPI operations over time as finely as there are rows, to be summed over a job: of the ranks of a node together, and of a rank what its agent does not fold. Cumulative since epoch in each cell of a node or rank.';
