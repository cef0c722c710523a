-- A row for each pair of ends, as INAM has it: an end is a GPU, or a switch or CPU by its place on the bus.
CREATE OR REPLACE VIEW public.intra_node_topo AS
SELECT row_number() OVER (ORDER BY p.node_name, p.source_id, p.gpu_id, p.destination_id NULLS LAST, p.remote_type, p.remote_pci_bus_id, p.is_c2c) AS id,
       p.node_name, p.physical_link_count, p.link_capacity, p.source, p.source_id,
       coalesce(p.peer, p.remote_type || coalesce(' ' || p.place, '')) AS destination,
       coalesce(p.destination_id, p.place) AS destination_id, nullif(p.remote_pci_bus_id, '') AS destination_pci_bus_id
FROM (
    SELECT e.*,
           -- Switches and CPUs of a node are numbered by their places on the bus.
           CASE WHEN e.peer IS NULL AND e.remote_pci_bus_id <> ''
                THEN (dense_rank() OVER (PARTITION BY e.node_id, e.peer IS NULL, e.remote_type ORDER BY e.remote_pci_bus_id) - 1
                      - max((e.remote_pci_bus_id = '')::integer) OVER (PARTITION BY e.node_id, e.peer IS NULL, e.remote_type))::integer
           END AS place
    FROM (
        SELECT g.node_id, n.name AS node_name, g.gpu_id, g.name || ' ' || g.index AS source, g.index AS source_id,
               r.name || ' ' || r.index AS peer, r.index AS destination_id, l.remote_type, l.remote_pci_bus_id, l.link >= 40 AS is_c2c,
               count(*) AS physical_link_count, sum(l.speed_bytes_per_second)::bigint AS link_capacity
        FROM internal.gpu_link l
        JOIN internal.gpu g ON g.gpu_id = l.gpu_id AND g.valid_to IS NULL AND NOT g.is_lost
        LEFT JOIN internal.node_key n ON n.id = g.node_id
        LEFT JOIN internal.gpu r ON r.gpu_id = l.remote_gpu_id AND r.valid_to IS NULL
        WHERE l.valid_to IS NULL AND l.active
        GROUP BY g.node_id, n.name, g.gpu_id, g.name, g.index, r.gpu_id, r.name, r.index, l.remote_type, l.remote_pci_bus_id, l.link >= 40
    ) e
) p;
COMMENT ON VIEW public.intra_node_topo IS
    'INAM, figure 4: a row for each GPU and what its active links lead to: another GPU, or a switch or CPU, which are numbered by their places on the bus; how many links, and their capacity in bytes per second, one direction. Links to a CPU over C2C and over NVLink are two rows.';
