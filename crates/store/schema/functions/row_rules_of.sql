CREATE OR REPLACE FUNCTION internal.row_rules_of(kind text, since timestamptz, until timestamptz DEFAULT now())
RETURNS TABLE (id bigint, heartbeat_seconds double precision, largest_gap_seconds double precision, quiet_bytes bigint)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT t.id, coalesce(r.heartbeat_seconds, d.heartbeat_seconds), coalesce(r.largest_gap_seconds, d.largest_gap_seconds),
           coalesce(r.quiet_bytes, d.quiet_bytes)
    FROM (
        SELECT k.id, 'fabric:' || n.fabric_id AS instance
        FROM internal.ib_port_key k
        JOIN internal.ib_node_key n ON n.id = k.ib_node_id
        WHERE row_rules_of.kind = 'ib_port'
        UNION ALL
        SELECT k.id, n.name FROM internal.host_port_key k JOIN internal.node_key n ON n.id = k.node_id
        WHERE row_rules_of.kind = 'host_port'
        UNION ALL
        SELECT k.id, n.name FROM internal.gpu_key k JOIN internal.node_key n ON n.id = k.node_id
        WHERE row_rules_of.kind = 'gpu'
    ) t
    LEFT JOIN internal.row_rules_of_senders(row_rules_of.kind, since, until) r ON r.instance = t.instance
    CROSS JOIN internal.row_rules_default() d;
END;
COMMENT ON FUNCTION internal.row_rules_of IS
    'By which rules rows are left out, for each fabric port (ib_port), port of a host (host_port) or GPU (gpu): the largest '
    'values that its sender reported in the range, else row_rules_default().';
