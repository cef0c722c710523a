-- Chunks of packed hours are longer now; those that were packed before stay as they are. Immutable once released: later
-- changes are new files.

DO $$
DECLARE
    blocks text;
BEGIN
    FOREACH blocks IN ARRAY ARRAY['ib_port_blocks', 'host_port_blocks', 'nvlink_blocks'] LOOP
        EXECUTE format('COMMENT ON COLUMN %I.samples IS %L', blocks,
            'Chunks of at most 720 samples, of 120 until version 19, in Prometheus'' encoding, with their times and a checksum.');
    END LOOP;
END $$;
