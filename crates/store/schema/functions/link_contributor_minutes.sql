CREATE OR REPLACE FUNCTION public.link_contributor_minutes(since timestamptz, until timestamptz DEFAULT now(), of_job bigint DEFAULT NULL)
RETURNS TABLE (
    "time" timestamptz, port_id bigint, guid text, port integer, contributor text, job_key text, job text, user_name text,
    operation text, name text, label text, known text, bytes bigint, low_bytes bigint, high_bytes bigint, counted_bytes bigint,
    peak_counted_bytes bigint, windows smallint)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT m.time, m.port_id, k.guid, p.port, m.contributor, j.key, coalesce(j.native_id, j.key), j.user_name, m.operation, m.name,
           internal.contributor_label(m.contributor, m.operation, coalesce(j.native_id, j.key), j.user_name, m.name),
           CASE WHEN m.is_bound THEN 'bound' ELSE m.kind END,
           m.bytes, m.low_bytes, m.high_bytes, m.counted_bytes, m.peak_counted_bytes, m.windows
    FROM public.link_minute_shares(since, until, of_job) m
    JOIN internal.ib_port_key p ON p.id = m.port_id
    JOIN internal.ib_node_key k ON k.id = p.ib_node_id
    LEFT JOIN internal.run_visible j ON j.id = m.job_id;
END;
COMMENT ON FUNCTION public.link_contributor_minutes IS
    'link_minute_shares with names, as link_contributors has those of windows. A rate is bytes divided by ten times as many seconds as there are windows.';
