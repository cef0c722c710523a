-- Rows of NVLinks may go, too, once their hour is packed: nvlink_readings reads hours that are packed in one row. Immutable once
-- released: later changes are new files.

-- Hours in an earlier form keep their rows until they expire.
UPDATE packed_state SET packed_from = b.until, packed_until = b.until
FROM (SELECT max(time) + INTERVAL '1 hour' AS until FROM nvlink_blocks WHERE metric NOT IN (0, -6)) b
WHERE readings = 'nvlink_counters' AND packed_from = packed_until AND b.until > packed_until;
