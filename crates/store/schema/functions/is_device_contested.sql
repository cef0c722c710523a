CREATE OR REPLACE FUNCTION internal.is_device_contested(adapter text, node bigint) RETURNS boolean
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT EXISTS (SELECT FROM internal.device_claim d
                   WHERE d.kind = 'hca' AND d.name = is_device_contested.adapter AND d.node_id <> is_device_contested.node
                     AND d.holds_until > now())
        AND NOT EXISTS (SELECT FROM internal.ib_node s JOIN internal.node_key k ON k.id = is_device_contested.node
                        WHERE s.guid = is_device_contested.adapter AND s.valid_to IS NULL
                          AND split_part(s.description, ' ', 1) IN (k.name, split_part(k.name, '.', 1)));
END;
COMMENT ON FUNCTION internal.is_device_contested IS
    'Whether another node reports the same adapter (node GUID) as its own, and the fabric does not describe it as this node''s: what the subnet calls a channel adapter begins with its host''s name.';
