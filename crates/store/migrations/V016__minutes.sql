-- One row a minute of each port and of each GPU's NVLinks, made by upkeep and kept longer than readings. Immutable once
-- released: later changes are new files.
--
-- A minute is made of the time between each two readings of one epoch that are at most 75 seconds apart; of such a time
-- a minute has the part that lies within it. A counter that began anew within a minute has a row for each epoch.

CREATE TABLE ib_port_minutes (
    time timestamptz NOT NULL,
    port_id integer NOT NULL,
    epoch timestamptz NOT NULL,
    seconds real NOT NULL,
    transmit_bytes_per_second real,
    receive_bytes_per_second real,
    transmit_peak_bytes_per_second real,
    receive_peak_bytes_per_second real,
    transmit_busy_ratio real,
    receive_busy_ratio real,
    transmit_wait_bytes_per_second real,
    errors bigint,
    rate_bytes_per_second bigint,
    last_time timestamptz,
    transmit_data_bytes bigint,
    receive_data_bytes bigint,
    PRIMARY KEY (port_id, time, epoch)
);
COMMENT ON TABLE ib_port_minutes IS 'The fabric''s ports by the minute, made of ib_port_counters. See ib_port_minutes_named.';
SELECT create_hypertable('ib_port_minutes', by_range('time', INTERVAL '1 day'), create_default_indexes => false);

CREATE TABLE host_port_minutes (
    time timestamptz NOT NULL,
    host_port_id integer NOT NULL,
    epoch timestamptz NOT NULL,
    seconds real NOT NULL,
    transmit_bytes_per_second real,
    receive_bytes_per_second real,
    transmit_peak_bytes_per_second real,
    receive_peak_bytes_per_second real,
    transmit_busy_ratio real,
    receive_busy_ratio real,
    rate_bytes_per_second bigint,
    last_time timestamptz,
    port_data_transmitted_bytes bigint,
    port_data_received_bytes bigint,
    PRIMARY KEY (host_port_id, time, epoch)
);
COMMENT ON TABLE host_port_minutes IS
    'Ports of hosts'' own adapters by the minute, made of host_port_counters. See host_port_minutes_named.';
SELECT create_hypertable('host_port_minutes', by_range('time', INTERVAL '1 day'), create_default_indexes => false);

CREATE TABLE nvlink_minutes (
    time timestamptz NOT NULL,
    gpu_id integer NOT NULL,
    source text NOT NULL,
    epoch timestamptz NOT NULL,
    seconds real[] NOT NULL,
    transmit_bytes_per_second real[],
    receive_bytes_per_second real[],
    transmit_peak_bytes_per_second real[],
    receive_peak_bytes_per_second real[],
    transmit_busy_ratio real[],
    receive_busy_ratio real[],
    speed_bytes_per_second bigint[],
    last_time timestamptz,
    transmit_bytes bigint[],
    receive_bytes bigint[],
    PRIMARY KEY (gpu_id, time, source, epoch)
);
COMMENT ON TABLE nvlink_minutes IS
    'GPUs'' NVLinks by the minute, made of nvlink_counters: element 1 of each array is link 0. See nvlink_link_minutes.';
SELECT create_hypertable('nvlink_minutes', by_range('time', INTERVAL '1 day'), create_default_indexes => false);

DO $$
DECLARE
    place text;
    said record;
BEGIN
    FOREACH place IN ARRAY ARRAY['ib_port_minutes', 'host_port_minutes', 'nvlink_minutes'] LOOP
        FOR said IN SELECT * FROM (VALUES
            ('time', 'When the minute begins.'),
            ('epoch', 'When the counting began of which this is made; a minute in which it began anew has two rows.'),
            ('seconds', 'How much of the minute is known. Weigh by it when averaging.'),
            ('transmit_bytes_per_second', 'Mean rate.'),
            ('receive_bytes_per_second', 'Mean rate.'),
            ('transmit_peak_bytes_per_second', 'Largest rate between two readings.'),
            ('receive_peak_bytes_per_second', 'Largest rate between two readings.'),
            ('transmit_busy_ratio', 'Share of the known seconds in which more than 90 % of the speed was used.'),
            ('receive_busy_ratio', 'Share of the known seconds in which more than 90 % of the speed was used.'),
            ('transmit_wait_bytes_per_second', 'What could have been sent while data had to wait, where the device tells its tick.'),
            ('errors', 'Errors of all kinds counted in the minute.'),
            ('rate_bytes_per_second', 'Speed of the link, one direction.'),
            ('speed_bytes_per_second', 'Speed of the link, one direction.'),
            ('last_time', 'When it was read last in the minute; the counters are as of then.')
        ) AS t (name, meaning) LOOP
            IF EXISTS (SELECT FROM information_schema.columns
                       WHERE table_schema = 'public' AND table_name = place AND column_name = said.name) THEN
                EXECUTE format('COMMENT ON COLUMN %I.%I IS %L', place, said.name, said.meaning);
            END IF;
        END LOOP;
    END LOOP;
END $$;

-- Until when minutes are made. There is one row.
CREATE TABLE minute_state (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    made_until timestamptz,
    noticed_until timestamptz
);
COMMENT ON TABLE minute_state IS 'Until when upkeep has made the rows of the *_minutes tables.';
COMMENT ON COLUMN minute_state.made_until IS 'Minutes before it are made.';
COMMENT ON COLUMN minute_state.noticed_until IS
    'Minutes before it are made or being made: writers note in minute_late what comes for them.';
INSERT INTO minute_state DEFAULT VALUES;

CREATE TABLE minute_late (
    kind text NOT NULL,
    id integer NOT NULL,
    since timestamptz NOT NULL,
    until timestamptz NOT NULL
);
COMMENT ON TABLE minute_late IS
    'Readings that came after their minutes were made: a table of minutes, what was read, times of the first and the last.';
CREATE INDEX minute_late_by_time ON minute_late (kind, since);

CREATE FUNCTION minutes_noticed() RETURNS timestamptz
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    -- "tlminute" as ASCII. Upkeep takes it whole to move noticed_until: who wrote before is committed by then, and who
    -- comes later reads the new time. The next statement sees what was committed while this one waited.
    PERFORM pg_advisory_xact_lock_shared(x'746c6d696e757465'::bigint);
    RETURN (SELECT s.noticed_until FROM minute_state s);
END $$;
COMMENT ON FUNCTION minutes_noticed IS
    'minute_state.noticed_until, which stays so until the transaction ends. For whoever writes readings.';

CREATE VIEW ib_port_minutes_named AS
SELECT m.time, m.port_id, n.guid, n.port, n.description, n.node_type, n.link_name, m.seconds,
       m.transmit_bytes_per_second, m.receive_bytes_per_second,
       m.transmit_peak_bytes_per_second, m.receive_peak_bytes_per_second,
       m.rate_bytes_per_second,
       m.transmit_bytes_per_second / nullif(m.rate_bytes_per_second, 0) AS transmit_utilisation,
       m.receive_bytes_per_second / nullif(m.rate_bytes_per_second, 0) AS receive_utilisation,
       m.transmit_peak_bytes_per_second / nullif(m.rate_bytes_per_second, 0) AS transmit_peak_utilisation,
       m.receive_peak_bytes_per_second / nullif(m.rate_bytes_per_second, 0) AS receive_peak_utilisation,
       m.transmit_busy_ratio, m.receive_busy_ratio,
       least(m.transmit_wait_bytes_per_second / nullif(m.rate_bytes_per_second, 0), 1) AS transmit_wait_ratio,
       m.errors, m.epoch
FROM ib_port_minutes m
JOIN ib_port_named n ON n.port_id = m.port_id;
COMMENT ON VIEW ib_port_minutes_named IS
    'ib_port_minutes with the names that ports have now, and shares of the link''s own speed.';

CREATE VIEW host_port_minutes_named AS
SELECT m.time, m.host_port_id, n.name AS node_name, k.device, k.port, k.guid, m.seconds,
       m.transmit_bytes_per_second, m.receive_bytes_per_second,
       m.transmit_peak_bytes_per_second, m.receive_peak_bytes_per_second,
       m.rate_bytes_per_second,
       m.transmit_bytes_per_second / nullif(m.rate_bytes_per_second, 0) AS transmit_utilisation,
       m.receive_bytes_per_second / nullif(m.rate_bytes_per_second, 0) AS receive_utilisation,
       m.transmit_busy_ratio, m.receive_busy_ratio, m.epoch
FROM host_port_minutes m
JOIN host_port_key k ON k.id = m.host_port_id
JOIN node_key n ON n.id = k.node_id;
COMMENT ON VIEW host_port_minutes_named IS 'host_port_minutes with names, and shares of the link''s own speed.';

CREATE VIEW nvlink_link_minutes AS
SELECT m.time, m.gpu_id, g.uuid AS gpu, (u.position - 1)::integer AS link, m.source, u.seconds,
       u.transmit_bytes_per_second, u.receive_bytes_per_second,
       u.transmit_peak_bytes_per_second, u.receive_peak_bytes_per_second, u.speed_bytes_per_second,
       u.transmit_bytes_per_second / nullif(u.speed_bytes_per_second, 0) AS transmit_utilisation,
       u.receive_bytes_per_second / nullif(u.speed_bytes_per_second, 0) AS receive_utilisation,
       u.transmit_busy_ratio, u.receive_busy_ratio, m.epoch
FROM nvlink_minutes m
JOIN gpu_key g ON g.id = m.gpu_id
CROSS JOIN LATERAL unnest(m.seconds, m.transmit_bytes_per_second, m.receive_bytes_per_second,
                          m.transmit_peak_bytes_per_second, m.receive_peak_bytes_per_second,
                          m.transmit_busy_ratio, m.receive_busy_ratio, m.speed_bytes_per_second)
    WITH ORDINALITY AS u (seconds, transmit_bytes_per_second, receive_bytes_per_second,
                          transmit_peak_bytes_per_second, receive_peak_bytes_per_second,
                          transmit_busy_ratio, receive_busy_ratio, speed_bytes_per_second, position)
WHERE u.seconds > 0;
COMMENT ON VIEW nvlink_link_minutes IS
    'nvlink_minutes with a row for each link and source. Where several sources read a link, take one: gpu_source_rank(source).';
