-- Readings of an hour packed as Prometheus packs them, made by upkeep beside the readings, for remote-read. Immutable once
-- released: later changes are new files.
--
-- A row is a series of one hour: a metric of the catalogue (throughline_sample::catalogue, by its number) of one port, or
-- of one link of a GPU as one source read it. Metric 0 says that the hour of this port or GPU is packed: a metric without
-- a row has no samples then. A chunk of these tables has the time of a chunk of readings, and goes with it.

DO $$
DECLARE
    kind record;
BEGIN
    FOR kind IN SELECT * FROM (VALUES
        ('ib_port_blocks', 'port_id', 'ib_port_counters'),
        ('host_port_blocks', 'host_port_id', 'host_port_counters'),
        ('nvlink_blocks', 'gpu_id', 'nvlink_counters')
    ) AS t (blocks, id, readings) LOOP
        -- Rows up to a page stay whole, so that those of one metric are read from pages that lie together; nothing is
        -- compressed that is packed already.
        EXECUTE format(
            'CREATE TABLE %I (
                time timestamptz NOT NULL, %I integer NOT NULL, metric integer NOT NULL, source text NOT NULL,
                element integer NOT NULL, samples bytea,
                PRIMARY KEY (metric, %I, time, source, element)
             ) WITH (toast_tuple_target = 8160)', kind.blocks, kind.id, kind.id);
        EXECUTE format('ALTER TABLE %I ALTER COLUMN samples SET STORAGE EXTERNAL', kind.blocks);
        PERFORM create_hypertable(kind.blocks::regclass, by_range('time', INTERVAL '1 hour'), create_default_indexes => false);
        EXECUTE format('COMMENT ON TABLE %I IS %L', kind.blocks,
            'Hours of ' || kind.readings || ' packed for remote-read, which answers from the readings where a row is missing.');
        EXECUTE format('COMMENT ON COLUMN %I.time IS %L', kind.blocks, 'When the hour begins.');
        EXECUTE format('COMMENT ON COLUMN %I.metric IS %L', kind.blocks,
            'Number of the metric in the catalogue; 0: the hour is packed.');
        EXECUTE format('COMMENT ON COLUMN %I.source IS %L', kind.blocks, 'Who read it, where several may; else empty.');
        EXECUTE format('COMMENT ON COLUMN %I.element IS %L', kind.blocks, 'Number of the link, from 0; 0 of ports.');
        EXECUTE format('COMMENT ON COLUMN %I.samples IS %L', kind.blocks,
            'Chunks of at most 120 samples in Prometheus'' encoding, with their times and a checksum.');
    END LOOP;
END $$;

ALTER TABLE minute_state ADD COLUMN blocks_until timestamptz;
COMMENT ON COLUMN minute_state.blocks_until IS 'Hours before it are packed or stand in block_wanted.';

CREATE TABLE block_wanted (
    kind text NOT NULL,
    time timestamptz NOT NULL,
    id integer NOT NULL,
    PRIMARY KEY (time, kind, id)
);
COMMENT ON TABLE block_wanted IS
    'Hours that upkeep has to pack: a table of blocks, when the hour begins, a port or GPU. All once, those of late readings again.';
