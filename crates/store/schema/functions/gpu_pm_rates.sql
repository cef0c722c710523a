CREATE OR REPLACE FUNCTION public.gpu_pm_rates(since timestamptz, until timestamptz DEFAULT now())
RETURNS TABLE (
    "time" timestamptz, gpu_id bigint, gpu text, node_name text, gpu_index integer, interval_seconds double precision,
    nvlink_transmit_bytes_per_second double precision, nvlink_receive_bytes_per_second double precision,
    pcie_read_bytes_per_second double precision, pcie_write_bytes_per_second double precision,
    nvlink_transmit_peak_bytes_per_second bigint, nvlink_receive_peak_bytes_per_second bigint,
    pcie_read_peak_bytes_per_second bigint, pcie_write_peak_bytes_per_second bigint,
    samples bigint, void_samples bigint, buffer_overflows bigint)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    WITH pairs AS (
        SELECT c.*, nullif(extract(epoch FROM c.time - lag(c.time) OVER w), 0)::double precision AS seconds,
               public.counter_increase(lag(c.nvlink_transmit_bytes) OVER w, c.nvlink_transmit_bytes) AS sent,
               public.counter_increase(lag(c.nvlink_receive_bytes) OVER w, c.nvlink_receive_bytes) AS received,
               public.counter_increase(lag(c.pcie_read_bytes) OVER w, c.pcie_read_bytes) AS read,
               public.counter_increase(lag(c.pcie_write_bytes) OVER w, c.pcie_write_bytes) AS written,
               public.counter_increase(lag(c.samples) OVER w, c.samples) AS taken,
               public.counter_increase(lag(c.void_samples) OVER w, c.void_samples) AS void,
               public.counter_increase(lag(c.buffer_overflows) OVER w, c.buffer_overflows) AS overflows
        -- The first row in the range has its predecessor before it, less than an hour nearly always: that bound is a constant when the
        -- database plans, and no older chunk is part of the plan.
        FROM internal.row_gap('gpu', since, until) b
        CROSS JOIN LATERAL (
            SELECT * FROM internal.gpu_pm_counters m
            WHERE m.time > since - b.gap AND m.time > since - INTERVAL '1 hour' AND m.time <= until
            UNION ALL
            SELECT * FROM internal.gpu_pm_before(since - b.gap, since - INTERVAL '1 hour')
        ) c
        WINDOW w AS (PARTITION BY c.gpu_id, c.source, c.epoch ORDER BY c.time)
    )
    SELECT p.time, p.gpu_id, k.uuid, n.name, g.index, p.seconds, p.sent / p.seconds, p.received / p.seconds,
           p.read / p.seconds, p.written / p.seconds,
           p.nvlink_transmit_peak_bytes_per_second, p.nvlink_receive_peak_bytes_per_second,
           p.pcie_read_peak_bytes_per_second, p.pcie_write_peak_bytes_per_second, p.taken, p.void, p.overflows
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
COMMENT ON FUNCTION public.gpu_pm_rates IS
    'What GPUs'' performance monitors were sampled for, between each two rows of one epoch: mean rates, the highest rate in '
    'one sample, and how many samples that was made of. NULL for what the chip does not offer.';
