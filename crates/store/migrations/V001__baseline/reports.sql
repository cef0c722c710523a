-- What daemons report of themselves and of others.
CREATE TABLE internal.events (
    time timestamptz NOT NULL,
    instance text NOT NULL,
    source text NOT NULL,
    kind text NOT NULL,
    severity text NOT NULL,
    text text NOT NULL,
    ib_guid text,
    ib_port integer,
    gpu_uuid text,
    job_key text,
    remote_ib_guid text,
    remote_ib_port integer,
    before text,
    after text
);
SELECT public.create_hypertable('internal.events', public.by_range('time', INTERVAL '1 day'), create_default_indexes => false);
CREATE INDEX events_by_time ON internal.events (time DESC);
COMMENT ON COLUMN internal.events.kind IS 'Dotted, for instance link.down, source.silent, counter.cleared.';
COMMENT ON COLUMN internal.events.severity IS 'debug, info, warning or error.';
COMMENT ON COLUMN internal.events.ib_guid IS 'Node GUID of the node or port of the event; of a cable, of one end.';
COMMENT ON COLUMN internal.events.ib_port IS 'Port of that node; 0 where it is about the node.';
COMMENT ON COLUMN internal.events.remote_ib_guid IS 'Node GUID of the other end of a cable, NULL where there is none.';
COMMENT ON COLUMN internal.events.remote_ib_port IS 'Port of the other end.';
COMMENT ON COLUMN internal.events.before IS 'What was before; NULL where there was nothing.';
COMMENT ON COLUMN internal.events.after IS 'What is after; NULL where there is nothing.';

CREATE TABLE internal.coverage (
    time timestamptz NOT NULL,
    instance text NOT NULL,
    source text NOT NULL,
    expected bigint NOT NULL,
    read bigint NOT NULL,
    failed bigint NOT NULL,
    elapsed_seconds double precision NOT NULL,
    reasons jsonb,
    rounds integer NOT NULL DEFAULT 1,
    first_time timestamptz,
    PRIMARY KEY (source, instance, time)
);
SELECT public.create_hypertable('internal.coverage', public.by_range('time', INTERVAL '1 day'), create_default_indexes => false);
COMMENT ON TABLE internal.coverage IS
    'What rounds of a source were to read and what they read: unchanged and unread differ. A row stands for equal rounds in a row, none of them missed, in thinned chunks for those of five minutes; the function coverage_rounds has a row for each.';
COMMENT ON COLUMN internal.coverage.time IS 'When the last of these rounds was.';
COMMENT ON COLUMN internal.coverage.expected IS 'What each of these rounds was to read.';
COMMENT ON COLUMN internal.coverage.read IS 'What each of them read.';
COMMENT ON COLUMN internal.coverage.failed IS 'What each of them could not read.';
COMMENT ON COLUMN internal.coverage.elapsed_seconds IS 'How long the slowest of these rounds took.';
COMMENT ON COLUMN internal.coverage.reasons IS 'Reasons and counts of what was not read.';
COMMENT ON COLUMN internal.coverage.rounds IS
    'How many rounds the row stands for: 1 in rows of crawlers, unless their chunk is thinned.';
COMMENT ON COLUMN internal.coverage.first_time IS 'When the first of these rounds was; NULL where it is one.';

CREATE TABLE internal.row_rules (
    instance text NOT NULL,
    source text NOT NULL,
    valid_from timestamptz NOT NULL,
    valid_to timestamptz,
    heartbeat_seconds double precision NOT NULL,
    largest_gap_seconds double precision NOT NULL,
    quiet_bytes bigint NOT NULL,
    PRIMARY KEY (instance, source, valid_from)
);
CREATE UNIQUE INDEX row_rules_current ON internal.row_rules (instance, source) WHERE (valid_to IS NULL);
COMMENT ON TABLE internal.row_rules IS
    'By which rules each sender leaves out rows of what does not change. The function row_rules_of has those of each port and GPU, also where a sender has not reported any.';
COMMENT ON COLUMN internal.row_rules.instance IS 'Who reports: a node''s name, or for a crawler fabric: and the id of its fabric. instance_name() makes a name of it.';
COMMENT ON COLUMN internal.row_rules.source IS 'As in coverage: mad, sysfs, nvml.';
COMMENT ON COLUMN internal.row_rules.valid_to IS 'NULL in the current row.';
COMMENT ON COLUMN internal.row_rules.heartbeat_seconds IS 'What is read and does not change has at least one row in this time.';
COMMENT ON COLUMN internal.row_rules.largest_gap_seconds IS 'Between two rows farther apart it was not read: no rate is made across.';
COMMENT ON COLUMN internal.row_rules.quiet_bytes IS 'Data since the last row, in either direction, that count as unchanged.';

CREATE TABLE internal.self_stat_names (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    digest text NOT NULL,
    sources text[] NOT NULL,
    labels text[] NOT NULL,
    names text[] NOT NULL,
    listed_at timestamptz NOT NULL DEFAULT now(),
    used_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (id),
    UNIQUE (digest)
);
COMMENT ON TABLE internal.self_stat_names IS
    'Lists of self-metrics, which rows of self_stat_rows in thinned chunks have the number of.';
COMMENT ON COLUMN internal.self_stat_names.digest IS 'Of sources, labels and names.';
COMMENT ON COLUMN internal.self_stat_names.sources IS 'The source of each of names.';
COMMENT ON COLUMN internal.self_stat_names.labels IS 'The label of each of names.';
COMMENT ON COLUMN internal.self_stat_names.names IS 'As in the catalogue.';
COMMENT ON COLUMN internal.self_stat_names.listed_at IS 'Since when it is there. Rows have its number an hour later.';
COMMENT ON COLUMN internal.self_stat_names.used_at IS 'When rows were last given its number.';

CREATE TABLE internal.self_stat_rows (
    time timestamptz NOT NULL,
    instance text NOT NULL,
    sources text[] NOT NULL,
    labels text[] NOT NULL,
    names text[] NOT NULL,
    readings double precision[] NOT NULL,
    names_id bigint
);
SELECT public.create_hypertable('internal.self_stat_rows', public.by_range('time', INTERVAL '1 hour'), create_default_indexes => false);
CREATE INDEX self_stat_rows_by_instance ON internal.self_stat_rows (instance, time DESC);
COMMENT ON TABLE internal.self_stat_rows IS
    'Self-metrics of Throughline, of a daemon at a time: element n of each array is of the same value. The view self_stats has a row for each value.';
COMMENT ON COLUMN internal.self_stat_rows.labels IS
    'The value of the label that the catalogue gives the metric besides source, such as a reason. Empty where it has none.';
COMMENT ON COLUMN internal.self_stat_rows.names IS
    'As in the catalogue. Not each row has all of a daemon: agents report those that changed, and each minute all.';
COMMENT ON COLUMN internal.self_stat_rows.names_id IS 'In self_stat_names: sources, labels and names are there, and empty here. NULL where they are here.';

CREATE TABLE internal.self_stat_series (
    name text NOT NULL,
    source text NOT NULL,
    label text NOT NULL,
    instance text NOT NULL,
    PRIMARY KEY (name, source, label, instance)
);
COMMENT ON TABLE internal.self_stat_series IS
    'The series that self_stat_rows has or had: each daemon''s metrics, their sources and labels.';
