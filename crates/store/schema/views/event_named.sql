CREATE OR REPLACE VIEW public.event_named AS
SELECT e.time, e.severity, e.kind, e.text, internal.instance_name(e.instance) AS instance, e.source, e.ib_guid, e.ib_port, n.description AS ib_description,
       e.gpu_uuid, e.job_key, coalesce(j.native_id, j.key) AS job, j.user_name, e.before, e.after
FROM internal.events e
LEFT JOIN LATERAL (
    SELECT coalesce(nullif(n.description, ''), k.guid) AS description
    FROM internal.ib_node_key k
    LEFT JOIN internal.ib_node n ON n.ib_node_id = k.id AND n.valid_to IS NULL
    WHERE k.guid = e.ib_guid
    LIMIT 1) n ON true
LEFT JOIN internal.run_visible j ON j.key = e.job_key;
COMMENT ON VIEW public.event_named IS
    'Events with the names of their subjects: the node of the fabric as it is called now, the job and its user. Condition time, so that only those days are read.';
