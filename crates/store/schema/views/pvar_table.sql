CREATE OR REPLACE VIEW pvar_table AS
WITH local AS (
    SELECT job_id, rank, node_id,
           row_number() OVER (PARTITION BY job_id, node_id ORDER BY rank) - 1 AS local_rank
    FROM (SELECT DISTINCT ON (job_id, rank) job_id, rank, node_id
          FROM job_rank ORDER BY job_id, rank, start_time DESC) newest
), sent AS (
    SELECT p.*,
           counter_rate(lag(p.bytes) OVER w, p.bytes,
                        extract(epoch FROM p.time - lag(p.time) OVER w)::double precision) AS rate
    FROM mpi_peers p
    WINDOW w AS (PARTITION BY p.job_id, p.rank, p.peer, p.kind, p.epoch ORDER BY p.time)
)
SELECT row_number() OVER (ORDER BY s.time, s.job_id, s.rank, s.peer) AS id, j.key AS job_key,
       n.name AS node_name,
       s.rank AS source_global_rank, d.local_rank AS dest_local_rank, s.peer AS dest_global_rank,
       'bytes'::text AS data_unit, back.bytes AS data_recv, s.bytes AS data_sent,
       back.rate AS data_recv_rate, s.rate AS data_sent_rate,
       'unknown'::text AS algorithm, o.local_rank AS source_rank, d.local_rank AS dest_rank,
       s.time AS added_on, s.kind
FROM sent s
JOIN job j ON j.id = s.job_id
LEFT JOIN local o ON o.job_id = s.job_id AND o.rank = s.rank
LEFT JOIN local d ON d.job_id = s.job_id AND d.rank = s.peer
LEFT JOIN node_key n ON n.id = o.node_id
LEFT JOIN sent back ON back.job_id = s.job_id AND back.rank = s.peer AND back.peer = s.rank
    AND back.kind = s.kind AND back.time = s.time;
COMMENT ON VIEW pvar_table IS
    'INAM, figure 4: traffic between ranks. data_recv is what the other rank reported sent in the same bin; '
    'algorithm is unknown unless it was observed.';
