CREATE OR REPLACE VIEW mpi_peer_rows AS
SELECT time, job_id, rank, peer, kind, epoch, source, bytes, messages
FROM mpi_peers
UNION ALL
SELECT m.time, m.job_id, m.rank, c.peer, m.kind, m.epoch, m.source, c.bytes, c.messages
FROM mpi_rank_peers m
CROSS JOIN LATERAL unnest(m.peers, m.bytes, m.messages) c (peer, bytes, messages);
COMMENT ON VIEW mpi_peer_rows IS
    'Traffic from ranks to others over time, a row for each pair: those of mpi_peers, and those of mpi_rank_peers. Cumulative since epoch.';
