-- How far samples are sent to receivers of Prometheus' remote write. Immutable once released: later changes are new files.

CREATE TABLE export_target (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,
    exported_until timestamptz NOT NULL,
    noticed_until timestamptz NOT NULL,
    part text,
    after text,
    acknowledged bigint NOT NULL DEFAULT 0,
    refused bigint NOT NULL DEFAULT 0,
    version bigint NOT NULL DEFAULT 0
);
COMMENT ON TABLE export_target IS 'Receivers of remote write and how far samples are sent to each.';
COMMENT ON COLUMN export_target.name IS 'As in the configuration of serve: export.remote_write.name.';
COMMENT ON COLUMN export_target.exported_until IS 'Samples until then are sent and acknowledged, but for those in export_late.';
COMMENT ON COLUMN export_target.noticed_until IS
    'End of the window that is being sent, else exported_until: writers note in export_late what arrives for times until then.';
COMMENT ON COLUMN export_target.part IS 'Within the window: the table or info metric that was sent last. NULL between windows.';
COMMENT ON COLUMN export_target.after IS 'Within the window: what of that part was sent last; parts and their things have an order.';
COMMENT ON COLUMN export_target.acknowledged IS 'Samples that the receiver acknowledged.';
COMMENT ON COLUMN export_target.refused IS 'Samples that the receiver refused for what they are, and that are not sent again.';
COMMENT ON COLUMN export_target.version IS 'Grows with each change: of two servers that send, one stops.';

CREATE TABLE export_late (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    target_id integer NOT NULL REFERENCES export_target (id) ON DELETE CASCADE,
    part text NOT NULL,
    thing text NOT NULL,
    since timestamptz NOT NULL,
    until timestamptz NOT NULL
);
CREATE INDEX export_late_by_target ON export_late (target_id, since);
COMMENT ON TABLE export_late IS 'Samples that arrived after their window was sent: they are sent by themselves.';
COMMENT ON COLUMN export_late.part IS 'The hypertable.';
COMMENT ON COLUMN export_late.thing IS 'Id of the port or GPU; of self_stats the instance.';
COMMENT ON COLUMN export_late.since IS 'Time of the first of them.';
COMMENT ON COLUMN export_late.until IS 'Time of the last of them.';
