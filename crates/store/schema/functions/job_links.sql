CREATE OR REPLACE FUNCTION public.job_links(job bigint)
RETURNS TABLE (
    kind text, node_name text, link text, direction text, rate_bytes_per_second bigint, bytes double precision,
    p95_bytes_per_second double precision, max_bytes_per_second double precision,
    p95_utilisation double precision, max_utilisation double precision, readings bigint, is_shared boolean)
LANGUAGE plpgsql STABLE
SET search_path = '' SET jit = off
AS $$
DECLARE
    began timestamptz;
    ended timestamptz;
BEGIN
    SELECT s.start_time, coalesce(s.end_time, now()) INTO began, ended FROM public.job_summary s WHERE s.id = job_links.job;
    RETURN QUERY
    WITH hosts AS (
        -- Where it is known of all ranks of a node which GPUs and ports they use, others are none of the job's.
        SELECT k.id, k.name, bool_and(r.gpu_evidence IS NOT NULL) AS knows_gpus, bool_and(r.hca_ports IS NOT NULL) AS knows_ports
        FROM internal.job_rank r JOIN internal.node_key k ON k.id = r.node_id WHERE r.job_id = job_links.job GROUP BY k.id, k.name
    ), own_gpus AS MATERIALIZED (
        SELECT v.gpu_id, bool_or(v.is_shared) AS is_shared FROM internal.job_rank_gpus v
        WHERE v.job_id = job_links.job AND v.is_own GROUP BY v.gpu_id
    ), own_ports AS MATERIALIZED (
        SELECT DISTINCT p.node_id, p.id, p.guid, p.port FROM internal.job_rank r
        JOIN internal.host_port_key p ON p.node_id = r.node_id AND p.device || '/' || p.port = ANY (r.hca_ports) WHERE r.job_id = job_links.job
    ), rates AS (
        SELECT 'host' AS kind, false AS is_shared, h.name AS node_name, p.device || ' port ' || p.port AS link, p.guid, p.port,
               r.interval_seconds AS seconds,
               r.rate_bytes_per_second AS rate, r.transmit_bytes_per_second AS transmit,
               r.receive_bytes_per_second AS receive
        FROM hosts h
        JOIN internal.host_port_key p ON p.node_id = h.id
        CROSS JOIN LATERAL (
            -- What began before the job is not its own.
            SELECT * FROM public.host_port_rates(began, ended) a
            WHERE a.host_port_id = p.id AND a.time - make_interval(secs => a.interval_seconds) > began
        ) r
        WHERE NOT h.knows_ports OR EXISTS (SELECT FROM own_ports o WHERE o.id = p.id)
        UNION ALL
        SELECT 'nvlink', coalesce(o.is_shared, false), h.name, 'GPU ' || coalesce(r.gpu_index::text, g.uuid) || ' link ' || r.link, NULL, NULL, r.interval_seconds, r.speed_bytes_per_second,
               r.transmit_bytes_per_second, r.receive_bytes_per_second
        FROM hosts h
        -- Those that were there then.
        JOIN internal.gpu_key g ON g.node_id = h.id AND EXISTS (
            SELECT FROM internal.gpu v WHERE v.gpu_id = g.id AND v.parent_gpu_id IS NULL AND v.valid_from <= ended
                                         AND coalesce(v.valid_to, 'infinity') >= began)
        CROSS JOIN LATERAL (
            SELECT * FROM public.nvlink_rates(began, ended) a
            WHERE a.gpu_id = g.id AND a.time - make_interval(secs => a.interval_seconds) > began
        ) r
        LEFT JOIN own_gpus o ON o.gpu_id = g.id
        WHERE NOT h.knows_gpus OR o.gpu_id IS NOT NULL
        UNION ALL
        SELECT 'fabric', false, h.name, r.link_name, k.guid, p.port, r.interval_seconds, r.rate_bytes_per_second, r.transmit_bytes_per_second,
               r.receive_bytes_per_second
        FROM hosts h
        JOIN internal.node n ON n.node_id = h.id AND n.valid_to IS NULL
        JOIN internal.ib_node_key k ON k.guid = ANY (n.hca_guids)
        JOIN internal.ib_port_key p ON p.ib_node_id = k.id
        CROSS JOIN LATERAL (SELECT * FROM public.ib_port_rates(began, ended) a WHERE a.port_id = p.id) r
        WHERE NOT h.knows_ports OR EXISTS (SELECT FROM own_ports o WHERE o.node_id = h.id AND o.guid = k.guid AND o.port = p.port)
            OR NOT EXISTS (SELECT FROM internal.host_port_key o WHERE o.node_id = h.id AND o.guid = k.guid AND o.port = p.port)
    ), own_readings AS (
        SELECT DISTINCT a.node_name, a.guid, a.port FROM rates a WHERE a.kind = 'host'
    ), cables AS (
        -- A host's port is read by the host and by the fabric's crawler: one cable, which the host reads more often.
        SELECT a.* FROM rates a
        LEFT JOIN own_readings o ON a.kind = 'fabric' AND o.node_name = a.node_name AND o.guid = a.guid AND o.port = a.port
        WHERE o.guid IS NULL
    ), directions AS (
        SELECT a.kind, a.is_shared, a.node_name, a.link, 'out' AS direction, a.rate, a.seconds, a.transmit AS speed FROM cables a
        UNION ALL
        SELECT a.kind, a.is_shared, a.node_name, a.link, 'in', a.rate, a.seconds, a.receive FROM cables a
    ), weighed AS (
        -- A reading stands for the time since the one before.
        SELECT d.*, sum(d.seconds) OVER (PARTITION BY d.kind, d.node_name, d.link, d.direction ORDER BY d.speed) AS below,
               sum(d.seconds) OVER (PARTITION BY d.kind, d.node_name, d.link, d.direction) AS total
        FROM directions d WHERE d.speed IS NOT NULL
    )
    SELECT w.kind, w.node_name, w.link, w.direction, max(w.rate), sum(w.speed * w.seconds),
           min(w.speed) FILTER (WHERE w.below >= 0.95 * w.total), max(w.speed),
           min(w.speed) FILTER (WHERE w.below >= 0.95 * w.total) / nullif(max(w.rate), 0),
           max(w.speed) / nullif(max(w.rate), 0), count(*), bool_or(w.is_shared)
    FROM weighed w
    GROUP BY w.kind, w.node_name, w.link, w.direction;
END
$$;
COMMENT ON FUNCTION public.job_links IS
    'Host ports, NVLinks and fabric ports that a job''s ranks use, of all of a node where that is not known, between its start and its end, those of the fabric where the host itself did not read its port: bytes, and the 95th percentile and maximum of the rate and of the share of the link''s own speed. The links carry what else uses them, too. is_shared: of NVLinks, others use the GPU as well, or the job is on a partition of it.';
