CREATE OR REPLACE VIEW internal.job_rank_ports AS
SELECT j.key AS job_key, r.job_id, r.rank, r.start_time, r.end_time, r.node_id, k.name AS node_name, r.gpu_uuids,
       r.cpus, r.numa_nodes, h.host_port_id, h.device, h.port, h.guid,
       r.hca_ports IS NOT NULL AND (h.host_port_id IS NOT NULL OR h.guid IS NULL) AS is_exact,
       p.id AS port_id, b.port_guid, b.lid, b.rate_bytes_per_second, b.remote_port_id,
       s.guid AS remote_guid, q.port AS remote_port, s.description AS remote_description
FROM internal.job_rank r
JOIN internal.run_visible j ON j.id = r.job_id
LEFT JOIN internal.node_key k ON k.id = r.node_id
LEFT JOIN LATERAL (
    SELECT o.id AS host_port_id, o.device, o.port, o.guid, f.port_id FROM internal.host_port_key o
    LEFT JOIN LATERAL internal.fabric_port_of(o.port_guid, o.guid, o.port, coalesce(r.end_time, 'infinity')) f ON true
    WHERE o.node_id = r.node_id AND NOT internal.is_device_contested(o.guid, r.node_id) AND (r.hca_ports IS NULL OR o.device || '/' || o.port = ANY (r.hca_ports))
    UNION ALL
    -- Of a node that reads no ports of its own (its source sysfs is off) those of the adapters that it names.
    SELECT NULL, NULL, a.port, c.guid, a.id FROM internal.node n
    JOIN internal.ib_node_key c ON c.guid = ANY (n.hca_guids)
    JOIN internal.ib_port_key a ON a.ib_node_id = c.id AND a.port > 0
    WHERE n.node_id = r.node_id AND n.valid_to IS NULL AND r.hca_ports IS DISTINCT FROM '{}'
        AND NOT internal.is_device_contested(c.guid, r.node_id)
        AND NOT EXISTS (SELECT FROM internal.host_port_key o WHERE o.node_id = r.node_id)) h ON true
LEFT JOIN internal.ib_port_key p ON p.id = h.port_id
LEFT JOIN internal.ib_port b ON b.port_id = p.id AND b.valid_from <= coalesce(r.end_time, now())
    AND (b.valid_to IS NULL OR b.valid_to > coalesce(r.end_time, now()))
LEFT JOIN internal.ib_port_key q ON q.id = b.remote_port_id
LEFT JOIN internal.ib_node s ON s.ib_node_id = q.ib_node_id AND s.valid_to IS NULL;
COMMENT ON VIEW internal.job_rank_ports IS
    'The way from a rank to its links: one row for each adapter port that it used, with the port of the fabric and '
    'the switch port at the other end of the cable, as they were when the rank ended. is_exact is false where the '
    'ports of a rank are not known: then every port of its node is listed, and where the node reads none itself every '
    'port of the adapters that it names.';
