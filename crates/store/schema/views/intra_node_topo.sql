CREATE OR REPLACE VIEW public.intra_node_topo AS
SELECT row_number() OVER (ORDER BY n.name, g.index, r.index NULLS LAST) AS id,
       n.name AS node_name, count(*) AS physical_link_count,
       sum(l.speed_bytes_per_second)::bigint AS link_capacity,
       g.name || ' ' || g.index AS source, g.index AS source_id,
       coalesce(r.name || ' ' || r.index, l.remote_type) AS destination, r.index AS destination_id
FROM internal.gpu_link l
JOIN internal.gpu g ON g.gpu_id = l.gpu_id AND g.valid_to IS NULL
LEFT JOIN internal.node_key n ON n.id = g.node_id
LEFT JOIN internal.gpu r ON r.gpu_id = l.remote_gpu_id AND r.valid_to IS NULL
WHERE l.valid_to IS NULL AND l.active
GROUP BY n.name, g.name, g.index, r.name, r.index, l.remote_type;
COMMENT ON VIEW public.intra_node_topo IS 'INAM, figure 4: which GPUs are connected by how many NVLinks; capacity in bytes per second, one direction.';
