-- Shares of links by the minute, an hour of a port in one row; and shorter chunks of what is made of windows, which go sooner. Immutable
-- once released: later changes are new files.

CREATE TABLE link_share_hours (
    time timestamptz NOT NULL,
    port_id integer NOT NULL,
    contributors text[] NOT NULL,
    job_ids integer[] NOT NULL,
    operations text[] NOT NULL,
    names text[] NOT NULL,
    kinds text[] NOT NULL,
    are_bounds boolean[] NOT NULL,
    minutes smallint[] NOT NULL,
    windows smallint[] NOT NULL,
    are_counted boolean[] NOT NULL,
    peak_counted_bytes real[] NOT NULL,
    bytes real[] NOT NULL,
    low_bytes real[] NOT NULL,
    high_bytes real[] NOT NULL,
    PRIMARY KEY (port_id, time)
);
COMMENT ON TABLE link_share_hours IS
    'Rows of link_share_minutes of a port and hour in one: who there is, what is of a minute, and what each has in each minute. The function link_minute_shares has them as rows.';
COMMENT ON COLUMN link_share_hours.time IS 'When the hour begins.';
COMMENT ON COLUMN link_share_hours.port_id IS 'The port that sends: ib_port_key.id.';
COMMENT ON COLUMN link_share_hours.contributors IS
    'Who there is in the hour, as in link_share_minutes: contributors to are_bounds have an element for each, once for each kind.';
COMMENT ON COLUMN link_share_hours.minutes IS
    'Minutes with rows, from 0: windows, are_counted and peak_counted_bytes have an element for each.';
COMMENT ON COLUMN link_share_hours.are_counted IS
    'Whether the minute has counted_bytes: the bytes of all in it.';
COMMENT ON COLUMN link_share_hours.bytes IS
    'To seven digits, as low_bytes and high_bytes: of the first minute what each of contributors has, NULL for one that has no row, then of the second minute.';
SELECT create_hypertable('link_share_hours', by_range('time', INTERVAL '1 day'), create_default_indexes => false);
CREATE INDEX link_share_hours_by_job ON link_share_hours USING gin (job_ids);

-- Little of it repeats: a fifth of the processor of pglz. Not every PostgreSQL has it.
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['minutes', 'windows', 'are_counted', 'peak_counted_bytes', 'bytes', 'low_bytes', 'high_bytes'] LOOP
        EXECUTE format('ALTER TABLE link_share_hours ALTER COLUMN %I SET COMPRESSION lz4', name);
    END LOOP;
EXCEPTION WHEN feature_not_supported THEN
    NULL;
END $$;

ALTER TABLE link_share_state ADD COLUMN hours_until timestamptz;
COMMENT ON COLUMN link_share_state.hours_until IS
    'Minutes before it are in link_share_hours, rows of link_share_minutes that are still there are not read. NULL before the first hour.';
COMMENT ON TABLE link_share_minutes IS
    'Contributors of each direction of a link by the minute, summed over the windows of link_shares that end in it, until they are put into link_share_hours: the function link_minute_shares has both. The bytes of a port and minute add up to counted_bytes.';

SELECT set_chunk_time_interval('link_share_minutes', INTERVAL '1 hour');
SELECT set_chunk_time_interval('link_shares', INTERVAL '1 hour');
