-- INAM's table. Of all history it would be a billion rows.
CREATE OR REPLACE VIEW public.nvlink_metrics AS
SELECT internal.nvlink_metrics_id(c.time, k.id, (u.position - 1)::integer) AS id, (u.position - 1)::integer AS link_id, n.name AS node_name,
       g.name || ' ' || g.index AS source_name, (u.position - 1)::integer AS source_port, g.index AS source_id,
       coalesce(r.name || ' ' || r.index, l.remote_type) AS dest_name, l.remote_link AS dest_port, r.index AS dest_id, c.time AS added_on,
       u.sent AS data_sent, u.received AS data_recv,
       public.counter_rate(u.sent_before, u.sent, c.seconds) AS data_sent_rate,
       public.counter_rate(u.received_before, u.received, c.seconds) AS data_recv_rate
FROM internal.row_gap('gpu', now() - INTERVAL '1 hour', now()) b
CROSS JOIN internal.node_key n
JOIN internal.gpu_key k ON k.node_id = n.id
CROSS JOIN LATERAL (
    -- The reader that counts its bytes now.
    SELECT s.source
    FROM (SELECT a.source FROM internal.nvlink_counters a
          WHERE a.gpu_id = k.id AND a.time > now() - INTERVAL '1 hour' AND (a.transmit_bytes IS NOT NULL OR a.receive_bytes IS NOT NULL)
          ORDER BY a.time DESC LIMIT 20) s
    ORDER BY internal.gpu_source_rank(s.source) LIMIT 1
) s
CROSS JOIN LATERAL (
    -- All links of a GPU at once, in the order of its index.
    SELECT a.time, a.transmit_bytes, a.receive_bytes,
           lag(a.transmit_bytes) OVER w AS transmit_before, lag(a.receive_bytes) OVER w AS receive_before,
           -- Within an epoch, and where it was read between.
           CASE WHEN a.epoch = lag(a.epoch) OVER w AND a.time - lag(a.time) OVER w <= b.gap
                THEN extract(epoch FROM a.time - lag(a.time) OVER w)::double precision END AS seconds
    FROM internal.nvlink_counters a
    WHERE a.gpu_id = k.id AND a.source = s.source AND a.time > now() - INTERVAL '1 hour'
    WINDOW w AS (ORDER BY a.time)
) c
CROSS JOIN LATERAL unnest(c.transmit_bytes, c.receive_bytes, c.transmit_before, c.receive_before)
    WITH ORDINALITY AS u (sent, received, sent_before, received_before, position)
LEFT JOIN internal.gpu g ON g.gpu_id = k.id AND (g.valid_to IS NULL OR g.valid_to > c.time)
        AND (g.valid_from <= c.time OR NOT EXISTS (
            SELECT FROM internal.gpu e WHERE e.gpu_id = g.gpu_id AND e.valid_from < g.valid_from))
LEFT JOIN internal.gpu_link l
    ON l.gpu_id = k.id AND l.link = u.position - 1 AND (l.valid_to IS NULL OR l.valid_to > c.time)
        AND (l.valid_from <= c.time OR NOT EXISTS (
            SELECT FROM internal.gpu_link e WHERE e.gpu_id = l.gpu_id AND e.link = l.link AND e.valid_from < l.valid_from))
LEFT JOIN internal.gpu r ON r.gpu_id = l.remote_gpu_id AND (r.valid_to IS NULL OR r.valid_to > c.time)
        AND (r.valid_from <= c.time OR NOT EXISTS (
            SELECT FROM internal.gpu e WHERE e.gpu_id = r.gpu_id AND e.valid_from < r.valid_from))
WHERE u.sent IS NOT NULL OR u.received IS NOT NULL;
COMMENT ON VIEW public.nvlink_metrics IS
    'INAM, figure 4: data sent and received on each physical NVLink in the last hour, in bytes and bytes per second, with the names of that time. Of any other time: nvlink_metrics_between(since, until, node).';
