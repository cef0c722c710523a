CREATE OR REPLACE VIEW internal.mpi_traffic_totals AS
SELECT j.key AS job_key, j.id AS job_id, n.name AS node_name, t.operation, t.kind, t.direction, t.peer,
       internal.stored_total(sum(t.bytes)) AS bytes, internal.stored_total(sum(t.messages)) AS messages, max(t.last_time) AS last_time
FROM internal.run_visible j
CROSS JOIN LATERAL internal.mpi_traffic_cells(j.id) t
JOIN internal.node_key n ON n.id = t.node_id
GROUP BY j.key, j.id, n.name, t.operation, t.kind, t.direction, t.peer;
COMMENT ON VIEW internal.mpi_traffic_totals IS
    'Bytes and messages by operation between each node of a job and each rank so far; all kinds are to be summed.';
