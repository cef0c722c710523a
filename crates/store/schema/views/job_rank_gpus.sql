CREATE OR REPLACE VIEW internal.job_rank_gpus AS
SELECT j.key AS job_key, r.job_id, r.rank, r.start_time, r.end_time, r.node_id, k.name AS node_name, r.gpu_evidence, r.visible_devices,
       g.gpu_id, gk.uuid AS gpu_uuid, i.index AS gpu_index, i.name AS gpu_name, g.partition_id, pk.uuid AS partition_uuid,
       p.index AS partition_index, p.name AS partition_name, g.evidence,
       coalesce(g.evidence IN ('driver', r.gpu_evidence), false) AS is_own, g.minor, g.first_seen,
       coalesce(g.last_seen, r.end_time) AS last_seen, i.numa_node, g.nearest_distance, h.host_port_id, h.device, h.port,
       h.has_queue_pairs, f.port_id, b.port_guid, b.lid, b.rate_bytes_per_second, b.remote_port_id, s.guid AS remote_guid,
       q.port AS remote_port, s.description AS remote_description,
       g.partition_id IS NOT NULL OR g.has_others OR EXISTS (
           SELECT FROM internal.rank_gpu o
           JOIN internal.job_rank x ON x.job_id = o.job_id AND x.rank = o.rank AND x.node_id = o.node_id AND x.start_time = o.start_time
           WHERE o.gpu_id = g.gpu_id AND o.job_id <> g.job_id AND o.evidence = 'driver'
               AND o.first_seen <= coalesce(g.last_seen, r.end_time, 'infinity')
               AND coalesce(o.last_seen, x.end_time, 'infinity') >= g.first_seen) AS is_shared
FROM internal.job_rank r
JOIN internal.run_visible j ON j.id = r.job_id
LEFT JOIN internal.node_key k ON k.id = r.node_id
-- What is known of a GPU by the driver is not repeated by weaker evidence.
LEFT JOIN internal.rank_gpu g ON g.job_id = r.job_id AND g.rank = r.rank AND g.node_id = r.node_id AND g.start_time = r.start_time
    AND NOT EXISTS (
        SELECT FROM internal.rank_gpu o
        WHERE o.job_id = g.job_id AND o.rank = g.rank AND o.node_id = g.node_id AND o.start_time = g.start_time AND o.gpu_id = g.gpu_id
            AND array_position(ARRAY['driver', 'device', 'visible'], o.evidence)
                < array_position(ARRAY['driver', 'device', 'visible'], g.evidence))
LEFT JOIN internal.gpu_key gk ON gk.id = g.gpu_id
LEFT JOIN internal.gpu_key pk ON pk.id = g.partition_id
-- Names of the time: a GPU's number can change.
LEFT JOIN LATERAL (
    SELECT o.index, o.name, o.numa_node, o.nearest_hcas FROM internal.gpu o
    WHERE o.gpu_id = g.gpu_id AND o.valid_from <= coalesce(g.last_seen, r.end_time, 'infinity')
    ORDER BY o.valid_from DESC LIMIT 1) i ON true
LEFT JOIN LATERAL (
    SELECT o.index, o.name FROM internal.gpu o
    WHERE o.gpu_id = g.partition_id AND o.valid_from <= coalesce(g.last_seen, r.end_time, 'infinity')
    ORDER BY o.valid_from DESC LIMIT 1) p ON true
-- Of several ports that are equally near, the one that the rank uses.
LEFT JOIN LATERAL (
    SELECT o.id AS host_port_id, o.device, o.port, o.guid, o.port_guid,
           o.device || '/' || o.port = ANY (r.hca_ports) AS has_queue_pairs
    FROM internal.host_port_key o
    WHERE o.node_id = r.node_id AND o.device = ANY (i.nearest_hcas)
    ORDER BY array_position(r.hca_ports, o.device || '/' || o.port), o.device, o.port LIMIT 1) h ON true
LEFT JOIN LATERAL internal.fabric_port_of(h.port_guid, h.guid, h.port, coalesce(r.end_time, 'infinity')) f
    ON NOT internal.is_device_contested(h.guid, r.node_id)
LEFT JOIN internal.ib_port b ON b.port_id = f.port_id AND b.valid_from <= coalesce(r.end_time, now())
    AND (b.valid_to IS NULL OR b.valid_to > coalesce(r.end_time, now()))
LEFT JOIN internal.ib_port_key q ON q.id = b.remote_port_id
LEFT JOIN internal.ib_node s ON s.ib_node_id = q.ib_node_id AND s.valid_to IS NULL;
COMMENT ON VIEW internal.job_rank_gpus IS
    'From a rank to its GPUs, and from each to the nearest port of an adapter, the port of the fabric and the switch port behind it. A rank '
    'without a GPU has one row without: it uses none where gpu_evidence is not NULL, and else that is not known. gpu_* are of the whole '
    'GPU, partition_* of the partition of it (MIG) that the rank is on. evidence is the strongest: driver, device or visible. is_own: '
    'the rank uses it, by the best that is known (gpu_evidence); else it may. has_queue_pairs: the rank uses that port; NULL where '
    'its ports are not known. is_shared: what is counted of the GPU (links, PCIe) may be others'' as well: the rank is on a partition, or '
    'a rank of another job, or another process, was on the GPU in the same time.';
