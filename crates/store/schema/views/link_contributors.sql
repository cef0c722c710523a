CREATE OR REPLACE VIEW public.link_contributors AS
SELECT s.time, s.port_id, k.guid, p.port, s.contributor, j.key AS job_key, coalesce(j.native_id, j.key) AS job, j.user_name,
       s.operation, s.name,
       internal.contributor_label(s.contributor, s.operation, coalesce(j.native_id, j.key), j.user_name, s.name) AS label,
       CASE WHEN s.is_bound THEN 'bound' ELSE s.kind END AS known,
       s.bytes, s.low_bytes, s.high_bytes, s.counted_bytes
FROM internal.link_shares s
JOIN internal.ib_port_key p ON p.id = s.port_id
JOIN internal.ib_node_key k ON k.id = p.ib_node_id
LEFT JOIN internal.run_visible j ON j.id = s.job_id;
COMMENT ON VIEW public.link_contributors IS
    'link_shares with names. label: who, as alerts and dashboards write it. known: measured, modelled, logical or unreported, see link_shares.kind, and bound where only low_bytes and high_bytes are known.';
