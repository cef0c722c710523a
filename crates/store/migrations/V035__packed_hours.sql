-- Hours of readings are bit-packed integers now, and may be all that is left of readings. Immutable once released: later
-- changes are new files.

DO $$
DECLARE
    kind record;
BEGIN
    FOR kind IN SELECT * FROM (VALUES
        ('ib_port_blocks', 'ib_port_counters'), ('host_port_blocks', 'host_port_counters'),
        ('nvlink_blocks', 'nvlink_counters')
    ) AS t (blocks, readings) LOOP
        -- Series of a busy hour fill half a page or more: whole in pages they would leave much of these empty.
        EXECUTE format('ALTER TABLE %I RESET (toast_tuple_target)', kind.blocks);
        EXECUTE format('COMMENT ON TABLE %I IS %L', kind.blocks, 'Hours of ' || kind.readings || ', packed.');
        EXECUTE format('COMMENT ON COLUMN %I.metric IS %L', kind.blocks,
            'Number of the metric in the catalogue; 0: the hour is packed; -2: times of its rows; -3: when counting began; '
            '-4: who read it; -5: which counters stand at their end.');
        EXECUTE format('COMMENT ON COLUMN %I.samples IS %L', kind.blocks,
            'Rows that have a value, and the values, as bit-packed differences with a checksum; until version 34 chunks in '
            'Prometheus'' encoding.');
    END LOOP;
END $$;

CREATE TABLE packed_state (
    readings text PRIMARY KEY,
    packed_from timestamptz NOT NULL,
    packed_until timestamptz NOT NULL,
    CHECK (packed_from <= packed_until)
);
COMMENT ON TABLE packed_state IS
    'Which hours of a table of readings are in its table of blocks only. A row there is of a reading that came late, and is to be '
    'packed.';
COMMENT ON COLUMN packed_state.packed_from IS 'Older hours were packed by an earlier version, and rows have them.';
COMMENT ON COLUMN packed_state.packed_until IS 'Later readings are rows, whether packed or not.';
INSERT INTO packed_state (readings, packed_from, packed_until)
SELECT t.readings, coalesce(s.blocks_until, '-infinity'), coalesce(s.blocks_until, '-infinity')
FROM minute_state s, (VALUES ('ib_port_counters'), ('host_port_counters'), ('nvlink_counters')) AS t (readings);
