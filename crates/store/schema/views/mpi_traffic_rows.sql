CREATE OR REPLACE VIEW internal.mpi_traffic_rows AS
SELECT m.time, m.job_id, m.node_id, m.operation, m.kind, m.direction, c.peer, m.epoch, m.since, m.source, c.bytes, c.messages
FROM internal.mpi_node_traffic m
CROSS JOIN LATERAL unnest(m.peers, m.bytes, m.messages) c (peer, bytes, messages)
WHERE NOT EXISTS (SELECT FROM internal.rank_claim x WHERE x.contest IS NOT NULL AND x.job_id = m.job_id AND x.node_id = m.node_id);
COMMENT ON VIEW internal.mpi_traffic_rows IS
    'Traffic of jobs by operation over time, a row for each peer. Cumulative since epoch.';
