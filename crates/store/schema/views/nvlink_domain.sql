-- GPUs that are lost are still in their domain.
CREATE OR REPLACE VIEW public.nvlink_domain AS
SELECT g.fabric_cluster_uuid || '.' || g.fabric_clique_id AS domain, g.fabric_cluster_uuid AS cluster_uuid, g.fabric_clique_id AS clique_id,
       count(DISTINCT g.node_id) AS node_count, count(*) AS gpu_count,
       array_agg(DISTINCT n.name ORDER BY n.name) AS nodes, array_agg(g.uuid ORDER BY n.name, g.index, g.uuid) AS gpus
FROM internal.gpu g JOIN internal.node_key n ON n.id = g.node_id
WHERE g.valid_to IS NULL AND g.parent_gpu_id IS NULL AND g.fabric_cluster_uuid IS NOT NULL
GROUP BY g.fabric_cluster_uuid, g.fabric_clique_id;
COMMENT ON VIEW public.nvlink_domain IS
    'NVLink domains over several nodes (GB200 NVL72), by the registration of their GPUs with NVIDIA''s fabric manager. GPUs of one can reach one another over NVLink, and what goes that way is in no InfiniBand port''s counters. The name is UUID of the cluster, a dot and the clique.';
