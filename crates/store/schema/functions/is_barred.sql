CREATE OR REPLACE FUNCTION internal.is_barred(node text, at timestamptz DEFAULT NULL)
RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT EXISTS (
        SELECT FROM internal.barred_nodes b
        WHERE b.node = is_barred.node AND (is_barred.at IS NULL OR b.serial IS NULL OR is_barred.at <= b.since));
END;
COMMENT ON FUNCTION internal.is_barred IS
    'Whether a node is barred, so that nothing that it claimed counts. With a time: whether what it claimed then counts not; what '
    'came after a certificate was barred by its serial number is of another certificate of that node.';
