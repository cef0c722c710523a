CREATE OR REPLACE VIEW internal.mpi_peer_rows AS
SELECT m.time, m.job_id, m.rank, c.peer, m.kind, m.epoch, m.source, c.bytes, c.messages
FROM internal.mpi_rank_peers m
CROSS JOIN LATERAL unnest(m.peers, m.bytes, m.messages) c (peer, bytes, messages)
WHERE NOT EXISTS (SELECT FROM internal.rank_claim x
    WHERE x.contest IS NOT NULL AND x.job_id = m.job_id AND x.rank = m.rank AND x.node_id = m.node_id);
COMMENT ON VIEW internal.mpi_peer_rows IS
    'Traffic from ranks to others over time, a row for each pair; of kind read what one-sided operations read from the others. '
    'Cumulative since epoch.';
