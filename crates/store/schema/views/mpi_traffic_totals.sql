CREATE OR REPLACE VIEW mpi_traffic_totals AS
SELECT j.key AS job_key, j.id AS job_id, n.name AS node_name, t.operation, t.kind, t.direction, t.peer,
       stored_total(sum(t.bytes)) AS bytes, stored_total(sum(t.messages)) AS messages, max(t.last_time) AS last_time
FROM run_visible j
CROSS JOIN LATERAL mpi_traffic_cells(j.id) t
JOIN node_key n ON n.id = t.node_id
GROUP BY j.key, j.id, n.name, t.operation, t.kind, t.direction, t.peer;
COMMENT ON VIEW mpi_traffic_totals IS
    'Bytes and messages by operation between each node of a job and each rank so far; all kinds are to be summed.';
