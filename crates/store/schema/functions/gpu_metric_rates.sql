CREATE OR REPLACE FUNCTION public.gpu_metric_rates(since timestamptz, until timestamptz DEFAULT now())
RETURNS TABLE (
    "time" timestamptz, gpu_id bigint, gpu text, node_name text, gpu_index integer, metric text, source text,
    interval_seconds double precision, increase bigint, per_second double precision, value double precision)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    WITH pairs AS (
        SELECT c.*, nullif(extract(epoch FROM c.time - lag(c.time) OVER w), 0)::double precision AS seconds,
               public.counter_increase(lag(c.sum) OVER w, c.sum) AS grown
        -- The first row in the range has its predecessor before it, at most an hour: that bound is a constant when the database plans,
        -- and no older chunk is part of the plan.
        FROM internal.row_gap('gpu', since, until) b
        CROSS JOIN LATERAL (
            SELECT * FROM internal.gpu_metrics m
            WHERE m.time > since - b.gap AND m.time > since - INTERVAL '1 hour' AND m.time <= until
        ) c
        WINDOW w AS (PARTITION BY c.gpu_metric_id, c.source, c.epoch ORDER BY c.time)
    )
    SELECT p.time, m.gpu_id, k.uuid, n.name, g.index, m.name, p.source,
           CASE WHEN p.seconds <= r.largest_gap_seconds THEN p.seconds END, p.grown, p.grown / p.seconds, p.value
    FROM pairs p
    JOIN internal.gpu_metric_key m ON m.id = p.gpu_metric_id
    JOIN internal.gpu_key k ON k.id = m.gpu_id
    JOIN internal.node_key n ON n.id = k.node_id
    -- As it was then; what was read before its first row has the names of that.
    LEFT JOIN internal.gpu g ON g.gpu_id = m.gpu_id AND (g.valid_to IS NULL OR g.valid_to > p.time)
        AND (g.valid_from <= p.time OR NOT EXISTS (
            SELECT FROM internal.gpu e WHERE e.gpu_id = g.gpu_id AND e.valid_from < g.valid_from))
    JOIN internal.row_rules_of('gpu', since, until) r ON r.id = m.gpu_id
    WHERE p.time > since AND (p.value IS NOT NULL OR p.seconds <= r.largest_gap_seconds);
END;
COMMENT ON FUNCTION public.gpu_metric_rates IS
    'Metrics of GPUs that the site chose ([cupti] metrics of agent.toml): of those that end in .sum what they grew by between each '
    'two rows of one epoch and that in a second, of others the value of each row. The other columns are NULL.';
