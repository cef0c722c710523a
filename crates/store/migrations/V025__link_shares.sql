-- Whose bytes were on each link: contributors of each direction of a link in windows of ten seconds, made by upkeep.
-- Immutable once released: later changes are new files.

CREATE TABLE link_shares (
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
    counted_bytes bigint
);
SELECT create_hypertable('link_shares', by_range('time', INTERVAL '6 hours'), create_default_indexes => false);
CREATE INDEX link_shares_by_port ON link_shares (port_id, time);
CREATE INDEX link_shares_by_job ON link_shares (job_id, time) WHERE job_id IS NOT NULL;
COMMENT ON TABLE link_shares IS
    'Contributors of each direction of a link in each window of 10 s, for links that carry traffic. The bytes of a port and window add up to counted_bytes.';
COMMENT ON COLUMN link_shares.time IS 'End of the window.';
COMMENT ON COLUMN link_shares.port_id IS 'The port that sends: ib_port_key.id.';
COMMENT ON COLUMN link_shares.contributor IS
    'job: an operation of a job. group, host: traffic that nobody reported, of a group of hosts of the configuration or of a host. management: of subnet management. other: all smaller ones together. rest: counted bytes of nobody known; each port and window has one such row.';
COMMENT ON COLUMN link_shares.operation IS 'Of a job: MPI name without the prefix, in lower case.';
COMMENT ON COLUMN link_shares.name IS 'Of a group or host.';
COMMENT ON COLUMN link_shares.bytes IS 'Bytes as ports count them, fitted to the counters.';
COMMENT ON COLUMN link_shares.low_bytes IS 'At least so many.';
COMMENT ON COLUMN link_shares.high_bytes IS 'At most so many.';
COMMENT ON COLUMN link_shares.kind IS
    'How the bytes are known, by the least certain part: measured (messages that the library reported), modelled (operations laid out by their algorithm), logical (send buffers to the members that they are meant for), unreported (found in the counters alone).';
COMMENT ON COLUMN link_shares.is_bound IS
    'Some of it may have taken other links: low_bytes and high_bytes are what is known, bytes is one possibility.';
COMMENT ON COLUMN link_shares.counted_bytes IS
    'What passed in the window by the port''s counter, or by that of the port at the other end; NULL where neither was read.';

CREATE TABLE link_share_state (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    computed_until timestamptz,
    noticed_until timestamptz
);
INSERT INTO link_share_state DEFAULT VALUES;
COMMENT ON TABLE link_share_state IS 'How far link_shares is made.';
COMMENT ON COLUMN link_share_state.computed_until IS 'Windows that end by then are made.';
COMMENT ON COLUMN link_share_state.noticed_until IS
    'Windows that end by then are made or being made: writers note in link_share_late what arrives for them.';

CREATE TABLE link_share_late (
    time timestamptz NOT NULL,
    noted_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE link_share_late IS 'Windows for which counters or traffic arrived after they were made: they are made again.';
COMMENT ON COLUMN link_share_late.time IS 'End of the window.';
