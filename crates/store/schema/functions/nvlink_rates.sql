CREATE OR REPLACE FUNCTION public.nvlink_rates(since timestamptz, until timestamptz DEFAULT now())
RETURNS TABLE (
    "time" timestamptz, gpu_id bigint, gpu text, node_name text, gpu_index integer, link integer, source text,
    link_name text, interval_seconds double precision,
    transmit_bytes_per_second double precision, receive_bytes_per_second double precision,
    speed_bytes_per_second bigint, transmit_utilisation double precision, receive_utilisation double precision,
    is_above_speed boolean)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    WITH readings AS (
        -- Bytes decide: a source that knows the state of a link and not its bytes leaves it to one that does.
        SELECT c.time, c.gpu_id, c.gpu, c.link, c.source, c.epoch, c.speed_bytes_per_second, c.transmit_bytes,
               c.receive_bytes, internal.gpu_source_rank(c.source) AS rank,
               min(internal.gpu_source_rank(c.source))
                   FILTER (WHERE c.time > since AND (c.transmit_bytes IS NOT NULL OR c.receive_bytes IS NOT NULL)) OVER l AS counts,
               min(internal.gpu_source_rank(c.source)) FILTER (WHERE c.time > since) OVER l AS reports
        -- As in ib_port_rates.
        FROM internal.row_gap('gpu', since, until) b
        CROSS JOIN LATERAL public.nvlink_link_readings(since - b.gap, until) c
        WHERE c.time > since - b.gap AND c.time > since - INTERVAL '1 day' AND c.time <= until
        WINDOW l AS (PARTITION BY c.gpu_id, c.link)
    ), pairs AS (
        SELECT c.time, c.gpu_id, c.gpu, c.link, c.source, c.speed_bytes_per_second AS speed,
               nullif(extract(epoch FROM c.time - lag(c.time) OVER w), 0)::double precision AS seconds,
               public.counter_increase(lag(c.transmit_bytes) OVER w, c.transmit_bytes) AS transmit,
               public.counter_increase(lag(c.receive_bytes) OVER w, c.receive_bytes) AS receive
        FROM readings c
        WHERE c.rank = coalesce(c.counts, c.reports)
        WINDOW w AS (PARTITION BY c.gpu_id, c.link, c.source, c.epoch ORDER BY c.time)
    )
    SELECT p.time, p.gpu_id, p.gpu, n.name, g.index, p.link, p.source,
           n.name || ' GPU ' || coalesce(g.index::text, p.gpu) || ' link ' || p.link, p.seconds,
           p.transmit / p.seconds, p.receive / p.seconds, s.speed,
           p.transmit / p.seconds / nullif(s.speed, 0),
           p.receive / p.seconds / nullif(s.speed, 0),
           greatest(p.transmit, p.receive) / p.seconds > nullif(s.speed, 0)
    FROM pairs p
    JOIN internal.gpu_key k ON k.id = p.gpu_id
    JOIN internal.node_key n ON n.id = k.node_id
    -- As it was then; what was read before its first row has the names of that.
    LEFT JOIN internal.gpu g ON g.gpu_id = p.gpu_id AND (g.valid_to IS NULL OR g.valid_to > p.time)
        AND (g.valid_from <= p.time OR NOT EXISTS (
            SELECT FROM internal.gpu e WHERE e.gpu_id = g.gpu_id AND e.valid_from < g.valid_from))
    LEFT JOIN internal.gpu_link l
        ON l.gpu_id = p.gpu_id AND l.link = p.link AND (l.valid_to IS NULL OR l.valid_to > p.time)
        AND (l.valid_from <= p.time OR NOT EXISTS (
            SELECT FROM internal.gpu_link e WHERE e.gpu_id = l.gpu_id AND e.link = l.link AND e.valid_from < l.valid_from))
    CROSS JOIN LATERAL (SELECT coalesce(p.speed, l.speed_bytes_per_second) AS speed) s
    JOIN internal.row_rules_of('gpu', since, until) r ON r.id = p.gpu_id
    -- Readings farther apart have a time between them in which the link was not read.
    WHERE p.time > since AND p.seconds <= r.largest_gap_seconds;
END;
COMMENT ON FUNCTION public.nvlink_rates IS
    'Rates and utilisation of each NVLink between each two readings of one epoch, by one source: of those that counted '
    'its bytes in the range the first by gpu_source_rank. is_above_speed marks a utilisation above 1, see '
    'ib_port_rates.';
