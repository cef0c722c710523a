CREATE OR REPLACE FUNCTION public.nvlink_metrics_between(since timestamptz, until timestamptz DEFAULT now(), node text DEFAULT NULL)
RETURNS TABLE (
    id numeric, link_id integer, node_name text, source_name text, source_port integer, source_id integer, dest_name text,
    dest_port integer, dest_id integer, added_on timestamptz, data_sent bigint, data_recv bigint,
    data_sent_rate double precision, data_recv_rate double precision)
LANGUAGE plpgsql STABLE
SET search_path = '' SET jit = off SET plan_cache_mode = force_custom_plan
AS $$
DECLARE
    gap interval;
BEGIN
    SELECT b.gap INTO gap FROM internal.row_gap('gpu', since, until) b;
    -- Planned with these times: no other chunk is opened.
    RETURN QUERY
    SELECT internal.nvlink_metrics_id(c.time, k.id, (u.position - 1)::integer),
           (u.position - 1)::integer, n.name, g.name || ' ' || g.index, (u.position - 1)::integer, g.index,
           coalesce(r.name || ' ' || r.index, l.remote_type), l.remote_link, r.index, c.time, u.sent, u.received,
           public.counter_rate(u.sent_before, u.sent, c.seconds), public.counter_rate(u.received_before, u.received, c.seconds)
    FROM internal.node_key n
    JOIN internal.gpu_key k ON k.node_id = n.id
    CROSS JOIN LATERAL (
        SELECT a.time, a.transmit_bytes, a.receive_bytes, a.rank,
               min(a.rank) FILTER (WHERE a.transmit_bytes IS NOT NULL OR a.receive_bytes IS NOT NULL) OVER () AS counts,
               min(a.rank) OVER () AS reports,
               lag(a.transmit_bytes) OVER w AS transmit_before, lag(a.receive_bytes) OVER w AS receive_before,
               -- Over a longer time it was not read.
               CASE WHEN a.time - lag(a.time) OVER w <= gap
                    THEN extract(epoch FROM a.time - lag(a.time) OVER w)::double precision END AS seconds
        FROM (
            SELECT c.time, c.epoch, c.source, c.transmit_bytes, c.receive_bytes, internal.gpu_source_rank(c.source) AS rank
            FROM public.nvlink_readings(since - gap, until) c
            WHERE c.gpu_id = k.id
        ) a
        WINDOW w AS (PARTITION BY a.source, a.epoch ORDER BY a.time)
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
    LEFT JOIN internal.gpu r
        ON r.gpu_id = l.remote_gpu_id AND (r.valid_to IS NULL OR r.valid_to > c.time)
        AND (r.valid_from <= c.time OR NOT EXISTS (
            SELECT FROM internal.gpu e WHERE e.gpu_id = r.gpu_id AND e.valid_from < r.valid_from))
    WHERE (nvlink_metrics_between.node IS NULL OR n.name = nvlink_metrics_between.node)
      AND c.time > since AND c.rank = coalesce(c.counts, c.reports)
      AND (u.sent IS NOT NULL OR u.received IS NOT NULL);
END
$$;
COMMENT ON FUNCTION public.nvlink_metrics_between IS
    'INAM, figure 4, of a time: data sent and received on each physical NVLink, in bytes and bytes per second, by one source for each '
    'GPU, with the names of that time. id is of the reading and stays its own, later ones have greater ones. Name a node, or the others are read, too.';
