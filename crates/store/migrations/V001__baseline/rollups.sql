-- Made of readings by upkeep: minutes, packed hours, shares of links.
CREATE TABLE internal.ib_port_minutes (
    time timestamptz NOT NULL,
    port_id bigint NOT NULL,
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
SELECT public.create_hypertable('internal.ib_port_minutes', public.by_range('time', INTERVAL '1 day'), create_default_indexes => false);
COMMENT ON TABLE internal.ib_port_minutes IS
    'The fabric''s ports by the minute, made of ib_port_counters. See ib_port_minutes_named.';
COMMENT ON COLUMN internal.ib_port_minutes.time IS 'When the minute begins.';
COMMENT ON COLUMN internal.ib_port_minutes.epoch IS 'When the counters began to count; a minute in which they began anew has two rows.';
COMMENT ON COLUMN internal.ib_port_minutes.seconds IS 'How much of the minute is known. Weigh by it when averaging.';
COMMENT ON COLUMN internal.ib_port_minutes.transmit_bytes_per_second IS 'Mean rate.';
COMMENT ON COLUMN internal.ib_port_minutes.receive_bytes_per_second IS 'Mean rate.';
COMMENT ON COLUMN internal.ib_port_minutes.transmit_peak_bytes_per_second IS 'Largest rate between two readings.';
COMMENT ON COLUMN internal.ib_port_minutes.receive_peak_bytes_per_second IS 'Largest rate between two readings.';
COMMENT ON COLUMN internal.ib_port_minutes.transmit_busy_ratio IS 'Share of the known seconds in which more than 90 % of the speed was used.';
COMMENT ON COLUMN internal.ib_port_minutes.receive_busy_ratio IS 'Share of the known seconds in which more than 90 % of the speed was used.';
COMMENT ON COLUMN internal.ib_port_minutes.transmit_wait_bytes_per_second IS
    'What could have been sent while data had to wait, where the device reports its tick.';
COMMENT ON COLUMN internal.ib_port_minutes.errors IS 'Errors of all kinds counted in the minute.';
COMMENT ON COLUMN internal.ib_port_minutes.rate_bytes_per_second IS 'Speed of the link, one direction.';
COMMENT ON COLUMN internal.ib_port_minutes.last_time IS 'When it was read last in the minute; the counters are as of then.';

CREATE TABLE internal.host_port_minutes (
    time timestamptz NOT NULL,
    host_port_id bigint NOT NULL,
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
SELECT public.create_hypertable('internal.host_port_minutes', public.by_range('time', INTERVAL '1 day'), create_default_indexes => false);
COMMENT ON TABLE internal.host_port_minutes IS
    'Ports of hosts'' own adapters by the minute, made of host_port_counters. See host_port_minutes_named.';
COMMENT ON COLUMN internal.host_port_minutes.time IS 'When the minute begins.';
COMMENT ON COLUMN internal.host_port_minutes.epoch IS 'When the counters began to count; a minute in which they began anew has two rows.';
COMMENT ON COLUMN internal.host_port_minutes.seconds IS 'How much of the minute is known. Weigh by it when averaging.';
COMMENT ON COLUMN internal.host_port_minutes.transmit_bytes_per_second IS 'Mean rate.';
COMMENT ON COLUMN internal.host_port_minutes.receive_bytes_per_second IS 'Mean rate.';
COMMENT ON COLUMN internal.host_port_minutes.transmit_peak_bytes_per_second IS 'Largest rate between two readings.';
COMMENT ON COLUMN internal.host_port_minutes.receive_peak_bytes_per_second IS 'Largest rate between two readings.';
COMMENT ON COLUMN internal.host_port_minutes.transmit_busy_ratio IS 'Share of the known seconds in which more than 90 % of the speed was used.';
COMMENT ON COLUMN internal.host_port_minutes.receive_busy_ratio IS 'Share of the known seconds in which more than 90 % of the speed was used.';
COMMENT ON COLUMN internal.host_port_minutes.rate_bytes_per_second IS 'Speed of the link, one direction.';
COMMENT ON COLUMN internal.host_port_minutes.last_time IS 'When it was read last in the minute; the counters are as of then.';

CREATE TABLE internal.nvlink_minutes (
    time timestamptz NOT NULL,
    gpu_id bigint NOT NULL,
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
SELECT public.create_hypertable('internal.nvlink_minutes', public.by_range('time', INTERVAL '1 day'), create_default_indexes => false);
COMMENT ON TABLE internal.nvlink_minutes IS
    'GPUs'' NVLinks by the minute, made of nvlink_counters: element 1 of each array is link 0. See nvlink_link_minutes.';
COMMENT ON COLUMN internal.nvlink_minutes.time IS 'When the minute begins.';
COMMENT ON COLUMN internal.nvlink_minutes.epoch IS 'When the counters began to count; a minute in which they began anew has two rows.';
COMMENT ON COLUMN internal.nvlink_minutes.seconds IS 'How much of the minute is known. Weigh by it when averaging.';
COMMENT ON COLUMN internal.nvlink_minutes.transmit_bytes_per_second IS 'Mean rate.';
COMMENT ON COLUMN internal.nvlink_minutes.receive_bytes_per_second IS 'Mean rate.';
COMMENT ON COLUMN internal.nvlink_minutes.transmit_peak_bytes_per_second IS 'Largest rate between two readings.';
COMMENT ON COLUMN internal.nvlink_minutes.receive_peak_bytes_per_second IS 'Largest rate between two readings.';
COMMENT ON COLUMN internal.nvlink_minutes.transmit_busy_ratio IS 'Share of the known seconds in which more than 90 % of the speed was used.';
COMMENT ON COLUMN internal.nvlink_minutes.receive_busy_ratio IS 'Share of the known seconds in which more than 90 % of the speed was used.';
COMMENT ON COLUMN internal.nvlink_minutes.speed_bytes_per_second IS 'Speed of the link, one direction.';
COMMENT ON COLUMN internal.nvlink_minutes.last_time IS 'When it was read last in the minute; the counters are as of then.';

CREATE TABLE internal.minute_state (
    one boolean NOT NULL DEFAULT true,
    made_until timestamptz,
    noticed_until timestamptz,
    blocks_until timestamptz,
    rounds_in_vain integer NOT NULL DEFAULT 0,
    PRIMARY KEY (one),
    CHECK (one)
);
COMMENT ON TABLE internal.minute_state IS
    'Until when upkeep has made the rows of the *_minutes tables.';
COMMENT ON COLUMN internal.minute_state.made_until IS 'Minutes before it are made.';
COMMENT ON COLUMN internal.minute_state.noticed_until IS
    'Minutes before it are made or being made: writers note in minute_late what comes for them.';
COMMENT ON COLUMN internal.minute_state.blocks_until IS 'Hours before it are packed or listed in block_wanted.';
COMMENT ON COLUMN internal.minute_state.rounds_in_vain IS
    'Rounds of upkeep since minutes were made last: readings wait for their minutes, but not for ever (expire_table).';

CREATE TABLE internal.minute_late (
    kind text NOT NULL,
    id bigint NOT NULL,
    since timestamptz NOT NULL,
    until timestamptz NOT NULL
);
CREATE INDEX minute_late_by_time ON internal.minute_late (kind, since);
COMMENT ON TABLE internal.minute_late IS
    'Readings that came after their minutes were made: a table of minutes, what was read, times of the first and the last.';

CREATE TABLE internal.ib_port_blocks (
    time timestamptz NOT NULL,
    port_id bigint NOT NULL,
    samples bytea,
    metrics integer[],
    offsets integer[],
    PRIMARY KEY (port_id, time)
);
SELECT public.create_hypertable('internal.ib_port_blocks', public.by_range('time', INTERVAL '1 hour'), create_default_indexes => false);
COMMENT ON TABLE internal.ib_port_blocks IS
    'Hours of ib_port_counters, packed. One without readings has NULL in place of the series.';
COMMENT ON COLUMN internal.ib_port_blocks.time IS 'When the hour begins.';
COMMENT ON COLUMN internal.ib_port_blocks.samples IS 'The series, one behind the other: bit-packed differences with a checksum each.';
COMMENT ON COLUMN internal.ib_port_blocks.metrics IS
    'Of each series the number of the metric in the catalogue; -2: times of its rows; -3: when counting began; -4: who read it; -5: which counters stand at their end.';
COMMENT ON COLUMN internal.ib_port_blocks.offsets IS 'Where in samples each series begins, in bytes from 0, and where the last one ends.';

CREATE TABLE internal.host_port_blocks (
    time timestamptz NOT NULL,
    host_port_id bigint NOT NULL,
    samples bytea,
    metrics integer[],
    offsets integer[],
    PRIMARY KEY (host_port_id, time)
);
SELECT public.create_hypertable('internal.host_port_blocks', public.by_range('time', INTERVAL '1 hour'), create_default_indexes => false);
COMMENT ON TABLE internal.host_port_blocks IS
    'Hours of host_port_counters, packed. One without readings has NULL in place of the series.';
COMMENT ON COLUMN internal.host_port_blocks.time IS 'When the hour begins.';
COMMENT ON COLUMN internal.host_port_blocks.samples IS 'The series, one behind the other: bit-packed differences with a checksum each.';
COMMENT ON COLUMN internal.host_port_blocks.metrics IS
    'Of each series the number of the metric in the catalogue; -2: times of its rows; -3: when counting began; -4: who read it.';
COMMENT ON COLUMN internal.host_port_blocks.offsets IS 'Where in samples each series begins, in bytes from 0, and where the last one ends.';

CREATE TABLE internal.nvlink_blocks (
    time timestamptz NOT NULL,
    gpu_id bigint NOT NULL,
    source text NOT NULL,
    samples bytea,
    metrics integer[],
    elements integer[],
    offsets integer[],
    PRIMARY KEY (gpu_id, time, source)
);
SELECT public.create_hypertable('internal.nvlink_blocks', public.by_range('time', INTERVAL '1 hour'), create_default_indexes => false);
COMMENT ON TABLE internal.nvlink_blocks IS
    'Hours of nvlink_counters, packed. One without readings has NULL in place of the series.';
COMMENT ON COLUMN internal.nvlink_blocks.time IS 'When the hour begins.';
COMMENT ON COLUMN internal.nvlink_blocks.source IS 'Who read it; empty where nobody did.';
COMMENT ON COLUMN internal.nvlink_blocks.samples IS 'The series, one behind the other: bit-packed differences with a checksum each.';
COMMENT ON COLUMN internal.nvlink_blocks.metrics IS
    'Of each series the number of the metric in the catalogue; -2: times of its rows; -3: when counting began.';
COMMENT ON COLUMN internal.nvlink_blocks.elements IS 'Of each series the number of the link, from 0; NULL where all are 0.';
COMMENT ON COLUMN internal.nvlink_blocks.offsets IS 'Where in samples each series begins, in bytes from 0, and where the last one ends.';

CREATE TABLE internal.gpu_pcie_blocks (
    time timestamptz NOT NULL,
    gpu_id bigint NOT NULL,
    source text NOT NULL,
    samples bytea,
    metrics integer[],
    offsets integer[],
    PRIMARY KEY (gpu_id, time, source)
);
SELECT public.create_hypertable('internal.gpu_pcie_blocks', public.by_range('time', INTERVAL '1 hour'), create_default_indexes => false);
COMMENT ON TABLE internal.gpu_pcie_blocks IS
    'Hours of gpu_pcie_counters, packed. One without readings has NULL in place of the series.';
COMMENT ON COLUMN internal.gpu_pcie_blocks.time IS 'When the hour begins.';
COMMENT ON COLUMN internal.gpu_pcie_blocks.source IS 'Who read it; empty where nobody did.';
COMMENT ON COLUMN internal.gpu_pcie_blocks.samples IS 'The series, one behind the other: bit-packed differences with a checksum each.';
COMMENT ON COLUMN internal.gpu_pcie_blocks.metrics IS
    'Of each series the number of the metric in the catalogue; -2: times of its rows; -3: when counting began.';
COMMENT ON COLUMN internal.gpu_pcie_blocks.offsets IS 'Where in samples each series begins, in bytes from 0, and where the last one ends.';

CREATE TABLE internal.block_wanted (
    kind text NOT NULL,
    time timestamptz NOT NULL,
    id bigint NOT NULL,
    PRIMARY KEY (time, kind, id)
);
COMMENT ON TABLE internal.block_wanted IS
    'Hours that upkeep has to pack: a table of blocks, when the hour begins, a port or GPU. All once, those of late readings again.';

CREATE TABLE internal.packed_state (
    readings text NOT NULL,
    packed_from timestamptz NOT NULL,
    packed_until timestamptz NOT NULL,
    PRIMARY KEY (readings),
    CHECK (packed_from <= packed_until)
);
COMMENT ON TABLE internal.packed_state IS
    'Which hours of a table of readings are in its table of blocks only. A row there is of a reading that came late, and is to be packed.';
COMMENT ON COLUMN internal.packed_state.packed_from IS 'The first hour that was packed. Older readings are rows.';
COMMENT ON COLUMN internal.packed_state.packed_until IS 'Later readings are rows, whether packed or not.';

CREATE TABLE internal.link_shares (
    time timestamptz NOT NULL,
    port_id bigint NOT NULL,
    contributor text NOT NULL,
    job_id bigint,
    operation text,
    name text,
    bytes bigint NOT NULL,
    low_bytes bigint NOT NULL,
    high_bytes bigint NOT NULL,
    kind text NOT NULL,
    is_bound boolean NOT NULL,
    counted_bytes bigint,
    CHECK (contributor IN ('job', 'group', 'host', 'management', 'other', 'rest')),
    CHECK (kind IN ('measured', 'modelled', 'logical', 'unreported'))
);
SELECT public.create_hypertable('internal.link_shares', public.by_range('time', INTERVAL '1 hour'), create_default_indexes => false);
CREATE INDEX link_shares_by_job ON internal.link_shares (job_id, time) WHERE (job_id IS NOT NULL);
CREATE INDEX link_shares_by_port ON internal.link_shares (port_id, time);
CREATE INDEX link_shares_by_time ON internal.link_shares (time);
COMMENT ON TABLE internal.link_shares IS
    'Contributors of each direction of a link in each window of 10 s, for links that carry traffic. The bytes of a port and window add up to counted_bytes.';
COMMENT ON COLUMN internal.link_shares.time IS 'End of the window.';
COMMENT ON COLUMN internal.link_shares.port_id IS 'The port that sends: ib_port_key.id.';
COMMENT ON COLUMN internal.link_shares.contributor IS
    'job: an operation of a job. group, host: traffic that nobody reported, of a group of hosts of the configuration or of a host. other: all smaller ones together. rest: counted bytes of nobody known, subnet management among them; each port and window has one such row.';
COMMENT ON COLUMN internal.link_shares.operation IS 'Of a job: MPI name without the prefix, in lower case.';
COMMENT ON COLUMN internal.link_shares.name IS 'Of a group or host.';
COMMENT ON COLUMN internal.link_shares.bytes IS 'Bytes as ports count them, fitted to the counters.';
COMMENT ON COLUMN internal.link_shares.low_bytes IS 'At least so many.';
COMMENT ON COLUMN internal.link_shares.high_bytes IS 'At most so many.';
COMMENT ON COLUMN internal.link_shares.kind IS
    'How the bytes are known, by the least certain part: measured (messages that the library reported), modelled (operations laid out by their algorithm), logical (send buffers to the members that they are meant for), unreported (found in the counters alone).';
COMMENT ON COLUMN internal.link_shares.is_bound IS
    'Some of it may have taken other links: low_bytes and high_bytes are what is known, bytes is one possibility.';
COMMENT ON COLUMN internal.link_shares.counted_bytes IS
    'What passed in the window by the port''s counter, or by that of the port at the other end; NULL where neither was read.';

CREATE TABLE internal.link_share_minutes (
    time timestamptz NOT NULL,
    port_id bigint NOT NULL,
    contributor text NOT NULL,
    job_id bigint,
    operation text,
    name text,
    bytes bigint NOT NULL,
    low_bytes bigint NOT NULL,
    high_bytes bigint NOT NULL,
    kind text NOT NULL,
    is_bound boolean NOT NULL,
    counted_bytes bigint,
    peak_counted_bytes bigint,
    windows smallint NOT NULL,
    CHECK (contributor IN ('job', 'group', 'host', 'management', 'other', 'rest')),
    CHECK (kind IN ('measured', 'modelled', 'logical', 'unreported'))
);
SELECT public.create_hypertable('internal.link_share_minutes', public.by_range('time', INTERVAL '1 hour'), create_default_indexes => false);
CREATE INDEX link_share_minutes_by_job ON internal.link_share_minutes (job_id, time) WHERE (job_id IS NOT NULL);
CREATE INDEX link_share_minutes_by_port ON internal.link_share_minutes (port_id, time);
COMMENT ON TABLE internal.link_share_minutes IS
    'Contributors of each direction of a link by the minute, summed over the windows of link_shares that end in it, until they are put into link_share_hours: the function link_minute_shares has both. The bytes of a port and minute add up to counted_bytes.';
COMMENT ON COLUMN internal.link_share_minutes.time IS 'When the minute begins.';
COMMENT ON COLUMN internal.link_share_minutes.port_id IS 'The port that sends: ib_port_key.id.';
COMMENT ON COLUMN internal.link_share_minutes.contributor IS
    'As in link_shares. other: those that are small over the minute, and those that were small in a window. rest: each port and minute has one such row.';
COMMENT ON COLUMN internal.link_share_minutes.operation IS 'Of a job: MPI name without the prefix, in lower case.';
COMMENT ON COLUMN internal.link_share_minutes.name IS 'Of a group or host.';
COMMENT ON COLUMN internal.link_share_minutes.bytes IS 'Bytes as ports count them, fitted to the counters.';
COMMENT ON COLUMN internal.link_share_minutes.low_bytes IS 'At least so many.';
COMMENT ON COLUMN internal.link_share_minutes.high_bytes IS 'At most so many.';
COMMENT ON COLUMN internal.link_share_minutes.kind IS 'The least certain kind of a window, see link_shares.kind.';
COMMENT ON COLUMN internal.link_share_minutes.is_bound IS 'Whether it is a bound in a window, see link_shares.is_bound.';
COMMENT ON COLUMN internal.link_share_minutes.counted_bytes IS
    'What passed in the windows of the minute in which the link carried traffic; NULL where no port was read.';
COMMENT ON COLUMN internal.link_share_minutes.peak_counted_bytes IS 'The largest counted_bytes of a window.';
COMMENT ON COLUMN internal.link_share_minutes.windows IS
    'Windows of 10 s in which the link carried traffic: six, fewer where it was idle. Divide by ten times as many seconds for a rate.';

CREATE TABLE internal.link_share_hours (
    time timestamptz NOT NULL,
    port_id bigint NOT NULL,
    contributors text[] NOT NULL,
    job_ids bigint[] NOT NULL,
    operations text[] NOT NULL,
    names text[] NOT NULL,
    kinds text[] NOT NULL,
    are_bounds boolean[] NOT NULL,
    minutes bit varying NOT NULL,
    shares bit varying NOT NULL,
    PRIMARY KEY (port_id, time)
);
SELECT public.create_hypertable('internal.link_share_hours', public.by_range('time', INTERVAL '1 day'), create_default_indexes => false);
CREATE INDEX link_share_hours_by_job ON internal.link_share_hours USING gin (job_ids);
COMMENT ON TABLE internal.link_share_hours IS
    'Rows of link_share_minutes of a port and hour in one: who there is, what is of a minute, and what each has in each minute. The function link_minute_shares has them as rows.';
COMMENT ON COLUMN internal.link_share_hours.time IS 'When the hour begins.';
COMMENT ON COLUMN internal.link_share_hours.port_id IS 'The port that sends: ib_port_key.id.';
COMMENT ON COLUMN internal.link_share_hours.contributors IS
    'Who there is in the hour, as in link_share_minutes: contributors to are_bounds have an element for each, once for each kind.';
COMMENT ON COLUMN internal.link_share_hours.minutes IS
    'Minutes with rows, bit-packed; packed_rows(minutes) has of each: minute of the hour, windows, 1 where it has counted_bytes, which are the bytes of all in it; in column 6 the peak, see packed_bytes.';
COMMENT ON COLUMN internal.link_share_hours.shares IS
    'What each of contributors has in the first minute, then in the second, bit-packed; packed_rows(shares) has in columns 6 to 8: bytes to seven digits, how much less low_bytes and how much more high_bytes are, see packed_bytes; NULL for one that has no row.';

CREATE TABLE internal.link_share_state (
    one boolean NOT NULL DEFAULT true,
    computed_until timestamptz,
    noticed_until timestamptz,
    minutes_since timestamptz,
    minutes_until timestamptz,
    hours_until timestamptz,
    PRIMARY KEY (one),
    CHECK (one)
);
COMMENT ON TABLE internal.link_share_state IS
    'How far link_shares is made.';
COMMENT ON COLUMN internal.link_share_state.computed_until IS 'Windows that end by then are made.';
COMMENT ON COLUMN internal.link_share_state.noticed_until IS
    'Windows that end by then are made or being made: writers note in link_share_late what arrives for them.';
COMMENT ON COLUMN internal.link_share_state.minutes_since IS 'From when on link_share_minutes is made. NULL before the first minute.';
COMMENT ON COLUMN internal.link_share_state.minutes_until IS 'Minutes before it are made.';
COMMENT ON COLUMN internal.link_share_state.hours_until IS
    'Minutes before it are in link_share_hours, rows of link_share_minutes that are still there are not read. NULL before the first hour.';

CREATE TABLE internal.link_share_late (
    time timestamptz NOT NULL,
    noted_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE internal.link_share_late IS
    'Windows for which counters or traffic arrived after they were made: they are made again.';
COMMENT ON COLUMN internal.link_share_late.time IS 'End of the window.';

CREATE TABLE internal.thinned_chunk (
    chunk text NOT NULL,
    hypertable text NOT NULL,
    range_start timestamptz NOT NULL,
    range_end timestamptz NOT NULL,
    rows_before bigint NOT NULL,
    rows_after bigint NOT NULL,
    bytes_after bigint NOT NULL,
    thinned_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (chunk)
);
COMMENT ON TABLE internal.thinned_chunk IS
    'Chunks whose rows upkeep has replaced by fewer, as they are older than retention.rows_seconds. What came late for one is a row as it was sent.';
COMMENT ON COLUMN internal.thinned_chunk.chunk IS 'Its schema and name, quoted.';
COMMENT ON COLUMN internal.thinned_chunk.rows_before IS 'Its rows before it was thinned last.';
COMMENT ON COLUMN internal.thinned_chunk.bytes_after IS
    'Its rows'' pages after that, without indexes and TOAST. Where late rows make it an eighth larger it is thinned again.';

-- There is one row of each.
INSERT INTO internal.minute_state DEFAULT VALUES;
INSERT INTO internal.link_share_state DEFAULT VALUES;
INSERT INTO internal.packed_state (readings, packed_from, packed_until)
SELECT readings, '-infinity', '-infinity'
FROM unnest(ARRAY['ib_port_counters', 'host_port_counters', 'nvlink_counters', 'gpu_pcie_counters']) readings;

-- Hours are packed before they are stored: nothing is compressed again.
ALTER TABLE internal.ib_port_blocks ALTER COLUMN samples SET STORAGE EXTERNAL;
ALTER TABLE internal.host_port_blocks ALTER COLUMN samples SET STORAGE EXTERNAL;
ALTER TABLE internal.nvlink_blocks ALTER COLUMN samples SET STORAGE EXTERNAL;
ALTER TABLE internal.gpu_pcie_blocks ALTER COLUMN samples SET STORAGE EXTERNAL;
