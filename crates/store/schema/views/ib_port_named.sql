CREATE OR REPLACE VIEW public.ib_port_named AS
SELECT k.id AS port_id, s.name AS fabric, nk.id AS ib_node_id, nk.guid, k.port,
       n.type AS node_type, coalesce(nullif(n.description, ''), nk.guid) AS description,
       p.lid, p.state, p.width, p.speed, p.rate_bytes_per_second, p.remote_port_id,
       rnk.guid AS remote_guid, rk.port AS remote_port, rn.type AS remote_type,
       coalesce(nullif(rn.description, ''), rnk.guid) AS remote_description,
       coalesce(nullif(n.description, ''), nk.guid) || '[' || k.port || ']'
           || coalesce(' > ' || coalesce(nullif(rn.description, ''), rnk.guid) || '[' || rk.port || ']', '')
           AS link_name
FROM internal.ib_port_key k
JOIN internal.ib_node_key nk ON nk.id = k.ib_node_id
JOIN internal.fabric s ON s.id = nk.fabric_id
LEFT JOIN internal.ib_node n ON n.ib_node_id = nk.id AND n.valid_to IS NULL
LEFT JOIN internal.ib_port p ON p.port_id = k.id AND p.valid_to IS NULL
LEFT JOIN internal.ib_port_key rk ON rk.id = p.remote_port_id
LEFT JOIN internal.ib_node_key rnk ON rnk.id = rk.ib_node_id
LEFT JOIN internal.ib_node rn ON rn.ib_node_id = rnk.id AND rn.valid_to IS NULL;
COMMENT ON VIEW public.ib_port_named IS 'Fabric ports with what is known of them now, and the name of the link that leaves them.';
