-- Shares of links by the minute, made of the windows of link_shares and retained longer. Immutable once released: later
-- changes are new files.

CREATE TABLE link_share_minutes (
    time timestamptz NOT NULL,
    port_id integer NOT NULL,
    contributor text NOT NULL
        CHECK (contributor IN ('job', 'group', 'host', 'management', 'other', 'rest')),
    job_id integer,
    operation text,
    name text,
    bytes bigint NOT NULL,
    low_bytes bigint NOT NULL,
    high_bytes bigint NOT NULL,
    kind text NOT NULL CHECK (kind IN ('measured', 'modelled', 'logical', 'unreported')),
    is_bound boolean NOT NULL,
    counted_bytes bigint,
    peak_counted_bytes bigint,
    windows smallint NOT NULL
);
SELECT create_hypertable('link_share_minutes', by_range('time', INTERVAL '1 day'), create_default_indexes => false);
CREATE INDEX link_share_minutes_by_port ON link_share_minutes (port_id, time);
CREATE INDEX link_share_minutes_by_job ON link_share_minutes (job_id, time) WHERE job_id IS NOT NULL;
COMMENT ON TABLE link_share_minutes IS
    'Contributors of each direction of a link by the minute, summed over the windows of link_shares that end in it. The bytes of a port and minute add up to counted_bytes.';
COMMENT ON COLUMN link_share_minutes.time IS 'When the minute begins.';
COMMENT ON COLUMN link_share_minutes.port_id IS 'The port that sends: ib_port_key.id.';
COMMENT ON COLUMN link_share_minutes.contributor IS
    'As in link_shares. other: those that are small over the minute, and those that were small in a window.';
COMMENT ON COLUMN link_share_minutes.operation IS 'Of a job: MPI name without the prefix, in lower case.';
COMMENT ON COLUMN link_share_minutes.name IS 'Of a group or host.';
COMMENT ON COLUMN link_share_minutes.bytes IS 'Bytes as ports count them, fitted to the counters.';
COMMENT ON COLUMN link_share_minutes.low_bytes IS 'At least so many.';
COMMENT ON COLUMN link_share_minutes.high_bytes IS 'At most so many.';
COMMENT ON COLUMN link_share_minutes.kind IS 'The least certain kind of a window, see link_shares.kind.';
COMMENT ON COLUMN link_share_minutes.is_bound IS 'Whether it is a bound in a window, see link_shares.is_bound.';
COMMENT ON COLUMN link_share_minutes.counted_bytes IS
    'What passed in the windows of the minute in which the link carried traffic; NULL where no port was read.';
COMMENT ON COLUMN link_share_minutes.peak_counted_bytes IS 'The largest counted_bytes of a window.';
COMMENT ON COLUMN link_share_minutes.windows IS
    'Windows of 10 s in which the link carried traffic: six, fewer where it was idle. Divide by ten times as many seconds for a rate.';

-- Minutes, and series of /metrics, are made of all ports of a time. Many rows have one time: it takes few bytes.
CREATE INDEX link_shares_by_time ON link_shares (time);

ALTER TABLE link_share_state ADD COLUMN minutes_since timestamptz, ADD COLUMN minutes_until timestamptz;
COMMENT ON COLUMN link_share_state.minutes_since IS 'From when on link_share_minutes is made. NULL before the first minute.';
COMMENT ON COLUMN link_share_state.minutes_until IS 'Minutes before it are made.';
