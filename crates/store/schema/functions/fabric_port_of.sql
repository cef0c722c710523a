CREATE OR REPLACE FUNCTION internal.fabric_port_of(port_guid text, adapter_guid text, port integer, at timestamptz DEFAULT 'infinity')
RETURNS TABLE (port_id bigint)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT CASE WHEN count(DISTINCT x.port_id) FILTER (WHERE x.is_valid) = 1 THEN min(x.port_id) FILTER (WHERE x.is_valid)
                WHEN count(*) FILTER (WHERE x.is_valid) = 0 AND count(DISTINCT x.port_id) = 1 THEN min(x.port_id) END
    FROM (
        SELECT a.port_id, a.valid_from <= fabric_port_of.at AND (a.valid_to IS NULL OR a.valid_to > fabric_port_of.at) AS is_valid
        FROM internal.ib_port a WHERE a.port_guid = fabric_port_of.port_guid
        UNION ALL
        SELECT q.id, true FROM internal.ib_node_key c
        JOIN internal.ib_port_key q ON q.ib_node_id = c.id AND q.port = fabric_port_of.port
        WHERE fabric_port_of.port_guid IS NULL AND c.guid = fabric_port_of.adapter_guid) x;
END;
COMMENT ON FUNCTION internal.fabric_port_of IS
    'The fabric''s port that a host''s port was at a time (now by default): by its own GUID, or where that was not read by its adapter''s GUID and its number. NULL where no fabric has it, or two have it at that time.';
