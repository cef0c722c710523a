CREATE OR REPLACE FUNCTION public.gpu_pcie_rates(since timestamptz, until timestamptz DEFAULT now())
RETURNS TABLE (
    "time" timestamptz, gpu_id bigint, gpu text, node_name text, gpu_index integer, source text,
    interval_seconds double precision, transmit_bytes_per_second double precision,
    receive_bytes_per_second double precision, speed_bytes_per_second bigint, is_above_speed boolean)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    WITH readings AS (
        SELECT c.*, internal.gpu_source_rank(c.source) AS rank,
               min(internal.gpu_source_rank(c.source)) FILTER (WHERE c.time > since) OVER (PARTITION BY c.gpu_id) AS best
        -- As in ib_port_rates.
        FROM internal.row_gap('gpu', since, until) b
        CROSS JOIN LATERAL public.gpu_pcie_readings(since - b.gap, until) c
        WHERE c.time > since - b.gap AND c.time > since - INTERVAL '1 day' AND c.time <= until
    ), pairs AS (
        SELECT c.time, c.gpu_id, c.source, nullif(extract(epoch FROM c.time - lag(c.time) OVER w), 0)::double precision AS seconds,
               public.counter_increase(lag(c.transmit_bytes) OVER w, c.transmit_bytes) AS transmit,
               public.counter_increase(lag(c.receive_bytes) OVER w, c.receive_bytes) AS receive
        FROM readings c
        WHERE c.rank = c.best
        WINDOW w AS (PARTITION BY c.gpu_id, c.source, c.epoch ORDER BY c.time)
    )
    SELECT p.time, p.gpu_id, k.uuid, n.name, g.index, p.source, p.seconds, p.transmit / p.seconds, p.receive / p.seconds,
           g.pcie_bytes_per_second, coalesce(greatest(p.transmit, p.receive) / p.seconds > g.pcie_bytes_per_second, false)
    FROM pairs p
    JOIN internal.gpu_key k ON k.id = p.gpu_id
    JOIN internal.node_key n ON n.id = k.node_id
    -- As it was then; what was read before its first row has the names of that.
    LEFT JOIN internal.gpu g ON g.gpu_id = p.gpu_id AND (g.valid_to IS NULL OR g.valid_to > p.time)
        AND (g.valid_from <= p.time OR NOT EXISTS (
            SELECT FROM internal.gpu e WHERE e.gpu_id = g.gpu_id AND e.valid_from < g.valid_from))
    JOIN internal.row_rules_of('gpu', since, until) r ON r.id = p.gpu_id
    WHERE p.time > since AND p.seconds <= r.largest_gap_seconds;
END;
COMMENT ON FUNCTION public.gpu_pcie_rates IS
    'PCIe rates of each GPU between each two readings of one epoch, by one source: the first by gpu_source_rank in the range. '
    'is_above_speed marks more than the slot carries in one direction, see ib_port_rates.';
