CREATE OR REPLACE FUNCTION internal.row_gap(kind text, since timestamptz, until timestamptz DEFAULT now())
RETURNS TABLE (gap interval)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT make_interval(secs => greatest(max(a.largest_gap_seconds), max(d.largest_gap_seconds)))
    FROM internal.row_rules_default() d
    LEFT JOIN internal.row_rules a
        ON a.valid_from <= until AND coalesce(a.valid_to, 'infinity') >= since
           AND CASE a.source WHEN 'mad' THEN 'ib_port' WHEN 'sysfs' THEN 'host_port' ELSE 'gpu' END = row_gap.kind;
END;
COMMENT ON FUNCTION internal.row_gap IS
    'How far before a range the predecessor of a row in it may be: the largest gap of all senders of fabric ports (ib_port), ports '
    'of hosts (host_port) or GPUs (gpu) in the range. Whether two rows of one thing have known time between them is its own '
    'sender''s rule, see row_rules_of.';
