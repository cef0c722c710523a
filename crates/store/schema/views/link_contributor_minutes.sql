CREATE OR REPLACE VIEW link_contributor_minutes AS
SELECT m.time, m.port_id, k.guid, p.port, m.contributor, j.key AS job_key, coalesce(j.native_id, j.key) AS job, j.user_name,
       m.operation, m.name,
       contributor_label(m.contributor, m.operation, coalesce(j.native_id, j.key), j.user_name, m.name) AS label,
       CASE WHEN m.is_bound THEN 'bound' ELSE m.kind END AS known,
       m.bytes, m.low_bytes, m.high_bytes, m.counted_bytes, m.peak_counted_bytes, m.windows
FROM link_share_minutes m
JOIN ib_port_key p ON p.id = m.port_id
JOIN ib_node_key k ON k.id = p.ib_node_id
LEFT JOIN job j ON j.id = m.job_id;
COMMENT ON VIEW link_contributor_minutes IS
    'link_share_minutes with names, as link_contributors has those of windows. A rate is bytes divided by ten times as many seconds as there are windows.';
