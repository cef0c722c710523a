CREATE OR REPLACE VIEW internal.mpi_op_rows AS
SELECT m.time, m.job_id, m.rank, k.operation, k.size_class_bytes, k.region, k.algorithm, k.algorithm_source, m.epoch,
       m.source, p.calls, p.bytes, p.elapsed_nanoseconds / 1e9::double precision AS elapsed_seconds,
       p.longest_nanoseconds / 1e9::double precision AS longest_seconds, p.wait_nanoseconds / 1e9::double precision AS wait_seconds,
       p.received_bytes, p.least_nanoseconds / 1e9::double precision AS least_seconds, m.is_folded, m.time AS stored_time,
       CASE WHEN NOT m.is_folded THEN INTERVAL '0.1 seconds' END AS bin_length,
       CASE WHEN NOT m.is_folded THEN TIMESTAMPTZ '-infinity' END AS covered_since,
       CASE WHEN NOT m.is_folded THEN TIMESTAMPTZ 'infinity' END AS covered_until
FROM internal.mpi_rank_rows m
CROSS JOIN LATERAL internal.mpi_packed_cells(m.cells) p
JOIN internal.mpi_cell_key k ON k.id = p.cell_id
WHERE NOT EXISTS (SELECT FROM internal.rank_claim x
    WHERE x.contest IS NOT NULL AND x.job_id = m.job_id AND x.rank = m.rank AND x.node_id = m.node_id)
UNION ALL
SELECT b.time, m.job_id, m.rank, d.operation, d.size_class_bytes, d.region, d.algorithm,
       d.algorithm_source, m.epoch, m.source, c.calls, c.bytes, c.elapsed / 1e9::double precision,
       c.longest / 1e9::double precision, c.wait / 1e9::double precision, c.received, c.least / 1e9::double precision, false,
       m.time,
       w.length,
       CASE WHEN w.is_whole THEN greatest(q.since, n.recorded_from) ELSE TIMESTAMPTZ 'infinity' END,
       CASE WHEN w.is_whole THEN date_bin(w.length, q.until - INTERVAL '1 microsecond', TIMESTAMPTZ 'epoch') ELSE TIMESTAMPTZ '-infinity' END
FROM internal.detail_mpi_bins m
LEFT JOIN internal.detail_request q ON q.id = m.request_id
LEFT JOIN internal.detail_request_node n ON n.request_id = m.request_id AND n.node_id = m.node_id
CROSS JOIN LATERAL (SELECT make_interval(secs => greatest(coalesce(q.resolution_seconds, 0), 0.1)) AS length,
                           coalesce(n.state = 'done' AND n.damaged = 0, false) AS is_whole) w
CROSS JOIN LATERAL unnest(
    m.bins, m.cells, m.calls, m.bytes, m.elapsed_nanoseconds, m.longest_nanoseconds, m.wait_nanoseconds, m.received_bytes,
    m.least_nanoseconds) c (bin, cell, calls, bytes, elapsed, longest, wait, received, least)
CROSS JOIN LATERAL (SELECT m.since + c.bin * INTERVAL '1 microsecond' AS time) b
JOIN LATERAL unnest(m.operations, m.size_classes_bytes, m.regions, m.algorithms, m.algorithm_sources)
    WITH ORDINALITY d (operation, size_class_bytes, region, algorithm, algorithm_source, cell) ON d.cell = c.cell
WHERE NOT EXISTS (SELECT FROM internal.rank_claim x
    WHERE x.contest IS NOT NULL AND x.job_id = m.job_id AND x.rank = m.rank AND x.node_id = m.node_id);
COMMENT ON VIEW internal.mpi_op_rows IS
    'MPI operations of ranks over time, a row for each cell: those of mpi_rank_rows, and of detail on demand. Cumulative since epoch. is_folded: it has what the rank did in some minutes before its time; else in the bin that ends then.';
COMMENT ON COLUMN internal.mpi_op_rows.stored_time IS
    'Time of the row in its table: at time, of detail on demand up to a minute behind it. A condition on it spares reading all detail of a job.';
COMMENT ON COLUMN internal.mpi_op_rows.bin_length IS
    'Length of the bin in which time is: bins begin at multiples of it since 1970. NULL for a folded row, which has all since the row before.';
COMMENT ON COLUMN internal.mpi_op_rows.covered_since IS
    'Since when all bins of the rank are there, so that what a cell grew by lies in its bin. Before, and where it is infinity, in the time since the row before. NULL for a folded row.';
COMMENT ON COLUMN internal.mpi_op_rows.covered_until IS 'Up to when they are: what they do not have until then did not happen. Infinity where bins come by themselves, -infinity where some may be missing, NULL for a folded row.';
