-- All series of a thing's hour are one row: less of it is rows, pages and indexes. Immutable once released: later changes are
-- new files.

DO $$
DECLARE
    kind record;
BEGIN
    FOR kind IN SELECT * FROM (VALUES
        ('ib_port_blocks', 'ib_port_counters'), ('host_port_blocks', 'host_port_counters'),
        ('nvlink_blocks', 'nvlink_counters')
    ) AS t (blocks, readings) LOOP
        EXECUTE format('ALTER TABLE %I ADD COLUMN metrics integer[], ADD COLUMN elements integer[], ADD COLUMN offsets integer[]',
            kind.blocks);
        EXECUTE format('COMMENT ON COLUMN %I.metric IS %L', kind.blocks,
            '-6: all series of the hour; 0: the hour is packed. Until version 38 a row was one series, and this is its number.');
        EXECUTE format('COMMENT ON COLUMN %I.element IS %L', kind.blocks, 'Until version 38 the number of the link; else 0.');
        EXECUTE format('COMMENT ON COLUMN %I.metrics IS %L', kind.blocks,
            'Of each series the number of the metric in the catalogue; -2: times of its rows; -3: when counting began; '
            '-4: who read it; -5: which counters stand at their end.');
        EXECUTE format('COMMENT ON COLUMN %I.elements IS %L', kind.blocks,
            'Of each series the number of the link, from 0; NULL where all are 0.');
        EXECUTE format('COMMENT ON COLUMN %I.offsets IS %L', kind.blocks,
            'Where in samples each series begins, in bytes from 0, and where the last one ends.');
        EXECUTE format('COMMENT ON COLUMN %I.samples IS %L', kind.blocks,
            'The series, one behind the other: bit-packed differences with a checksum each.');
    END LOOP;
END $$;
