CREATE OR REPLACE FUNCTION internal.row_rules_of_senders(kind text, since timestamptz, until timestamptz DEFAULT now())
RETURNS TABLE (instance text, heartbeat_seconds double precision, largest_gap_seconds double precision, quiet_bytes bigint)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT a.instance, max(a.heartbeat_seconds), max(a.largest_gap_seconds), max(a.quiet_bytes)
    FROM internal.row_rules a
    WHERE a.valid_from <= until AND coalesce(a.valid_to, 'infinity') >= since
      AND CASE a.source WHEN 'mad' THEN 'ib_port' WHEN 'sysfs' THEN 'host_port' ELSE 'gpu' END = row_rules_of_senders.kind
    GROUP BY a.instance;
END;
COMMENT ON FUNCTION internal.row_rules_of_senders IS
    'By which rules each sender leaves out rows of fabric ports (ib_port), ports of its host (host_port) or GPUs (gpu): the largest '
    'values that it reported in the range. Instance as in row_rules.';
