CREATE OR REPLACE VIEW public.pvar_table AS
WITH local AS (
    SELECT job_id, rank, node_id,
           row_number() OVER (PARTITION BY job_id, node_id ORDER BY rank) - 1 AS local_rank
    FROM (SELECT DISTINCT ON (job_id, rank) job_id, rank, node_id
          FROM internal.job_rank ORDER BY job_id, rank, start_time DESC) newest
), seconds AS (
    -- Ranks report at whole seconds, some microseconds apart: one row for both ends of a pair.
    SELECT job_id, rank, peer, kind, epoch, date_bin('1 second', time + INTERVAL '500 milliseconds', 'epoch') AS second,
           max(time) AS time, max(bytes) AS bytes
    FROM internal.mpi_peer_rows
    GROUP BY job_id, rank, peer, kind, epoch, second
), reported AS (
    SELECT s.job_id, s.rank, s.peer, s.kind, s.second AS time, s.bytes,
           public.counter_rate(lag(s.bytes) OVER w, s.bytes,
                        extract(epoch FROM s.time - lag(s.time) OVER w)::double precision) AS rate
    FROM seconds s
    WINDOW w AS (PARTITION BY s.job_id, s.rank, s.peer, s.kind, s.epoch ORDER BY s.time)
), both_ways AS (
    -- A row for each second in which one of the two reported: what the other one sends is what this one receives. What a rank read, it
    -- received.
    SELECT job_id, rank, peer, kind, time, max(sent) AS sent, max(sent_rate) AS sent_rate, max(received) AS received,
           max(received_rate) AS received_rate
    FROM (SELECT job_id, rank, peer, kind, time, bytes AS sent, rate AS sent_rate,
                 NULL::bigint AS received, NULL::double precision AS received_rate
          FROM reported WHERE kind <> 'read'
          UNION ALL
          SELECT job_id, peer, rank, kind, time, NULL, NULL, bytes, rate FROM reported WHERE kind <> 'read'
          UNION ALL
          SELECT job_id, rank, peer, kind, time, NULL, NULL, bytes, rate FROM reported WHERE kind = 'read'
          UNION ALL
          SELECT job_id, peer, rank, kind, time, bytes, rate, NULL, NULL FROM reported WHERE kind = 'read') ways
    GROUP BY job_id, rank, peer, kind, time
), numbered AS (
    SELECT b.*, count(sent) OVER w AS sent_number, count(received) OVER w AS received_number
    FROM both_ways b
    WINDOW w AS (PARTITION BY job_id, rank, peer, kind ORDER BY time)
), pair AS (
    -- Only pairs that changed are reported: until its next row, a sum stands.
    SELECT job_id, rank, peer, kind, time, sent_rate, received_rate,
           max(sent) OVER (PARTITION BY job_id, rank, peer, kind, sent_number) AS sent,
           max(received) OVER (PARTITION BY job_id, rank, peer, kind, received_number) AS received
    FROM numbered
), collective AS (
    -- The report of peers that follows the bin of each collective whose algorithm is known.
    SELECT job_id, rank, operation, algorithm, algorithm_source, is_cell,
           min(second) FILTER (WHERE NOT is_cell)
               OVER (PARTITION BY job_id, rank ORDER BY time DESC, is_cell) AS time
    FROM (SELECT job_id, rank, time, NULL::timestamptz AS second, operation, algorithm, algorithm_source, true AS is_cell
          FROM internal.mpi_op_rows WHERE algorithm <> ''
          UNION ALL
          SELECT job_id, rank, max(time), second, '', '', '', false
          FROM seconds GROUP BY job_id, rank, second) points
), chosen AS (
    SELECT job_id, rank, time, string_agg(DISTINCT operation || ' ' || algorithm, ', ') AS algorithm,
           string_agg(DISTINCT algorithm_source, ', ') AS algorithm_source
    FROM collective WHERE is_cell AND time IS NOT NULL
    GROUP BY job_id, rank, time
)
SELECT row_number() OVER (ORDER BY s.time, s.job_id, s.rank, s.peer, s.kind) AS id, j.key AS job_key,
       n.name AS node_name,
       s.rank AS source_global_rank, d.local_rank AS dest_local_rank, s.peer AS dest_global_rank,
       'bytes'::text AS data_unit, s.received AS data_recv, s.sent AS data_sent,
       s.received_rate AS data_recv_rate, s.sent_rate AS data_sent_rate,
       coalesce(own.algorithm, other.algorithm) AS algorithm, o.local_rank AS source_rank,
       d.local_rank AS dest_rank, s.time AS added_on, s.kind,
       CASE WHEN own.algorithm IS NULL THEN other.algorithm_source ELSE own.algorithm_source END AS algorithm_source
FROM pair s
JOIN internal.run_visible j ON j.id = s.job_id
LEFT JOIN local o ON o.job_id = s.job_id AND o.rank = s.rank
LEFT JOIN local d ON d.job_id = s.job_id AND d.rank = s.peer
LEFT JOIN internal.node_key n ON n.id = o.node_id
LEFT JOIN chosen own ON own.job_id = s.job_id AND own.rank = s.rank AND own.time = s.time
LEFT JOIN chosen other ON other.job_id = s.job_id AND other.rank = s.peer AND other.time = s.time;
COMMENT ON VIEW public.pvar_table IS
    'INAM, figure 4: traffic between ranks, a row for each second in which one of the two reported. data_recv is what the '
    'other rank sent so far; rates stand where that direction was reported at that time. algorithm: of each collective '
    'that the rank (else the other one) called since its report before, where it is known, and how; NULL: not known. '
    'Rows of kind read are what one-sided operations of the receiver read.';
