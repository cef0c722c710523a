-- INAM's view, by one source for each link too.
CREATE OR REPLACE VIEW public.nvlink_metrics AS
SELECT row_number() OVER (ORDER BY c.time, c.gpu_id, c.link) AS id, c.link AS link_id, n.name AS node_name,
       g.name || ' ' || g.index AS source_name, c.link AS source_port, g.index AS source_id,
       coalesce(r.name || ' ' || r.index, l.remote_type) AS dest_name, l.remote_link AS dest_port,
       r.index AS dest_id, c.time AS added_on,
       c.transmit_bytes AS data_sent, c.receive_bytes AS data_recv,
       public.counter_rate(lag(c.transmit_bytes) OVER w, c.transmit_bytes,
                    extract(epoch FROM c.time - lag(c.time) OVER w)::double precision) AS data_sent_rate,
       public.counter_rate(lag(c.receive_bytes) OVER w, c.receive_bytes,
                    extract(epoch FROM c.time - lag(c.time) OVER w)::double precision) AS data_recv_rate
FROM (SELECT a.*,
             min(internal.gpu_source_rank(a.source)) FILTER (WHERE a.transmit_bytes IS NOT NULL OR a.receive_bytes IS NOT NULL)
                 OVER s AS counts,
             min(internal.gpu_source_rank(a.source)) OVER s AS reports
      FROM public.nvlink_link_readings('-infinity', 'infinity') a
      WINDOW s AS (PARTITION BY a.gpu_id, a.link)) c
LEFT JOIN internal.gpu g ON g.gpu_id = c.gpu_id AND g.valid_to IS NULL
LEFT JOIN internal.node_key n ON n.id = g.node_id
LEFT JOIN internal.gpu_link l ON l.gpu_id = c.gpu_id AND l.link = c.link AND l.valid_to IS NULL
LEFT JOIN internal.gpu r ON r.gpu_id = l.remote_gpu_id AND r.valid_to IS NULL
WHERE internal.gpu_source_rank(c.source) = coalesce(c.counts, c.reports)
WINDOW w AS (PARTITION BY c.gpu_id, c.link, c.source, c.epoch ORDER BY c.time);
COMMENT ON VIEW public.nvlink_metrics IS
    'INAM, figure 4: data sent and received on each physical NVLink, in bytes and bytes per second, by one source for each link.';
