-- By which rules rows of unchanged counters are left out, as senders report them with their rounds: what readers need to
-- tell unchanged from unread. Immutable once released: later changes are new files.

CREATE TABLE row_rules (
    instance text NOT NULL,
    source text NOT NULL,
    valid_from timestamptz NOT NULL,
    valid_to timestamptz,
    heartbeat_seconds double precision NOT NULL,
    largest_gap_seconds double precision NOT NULL,
    quiet_bytes bigint NOT NULL,
    PRIMARY KEY (instance, source, valid_from)
);
CREATE UNIQUE INDEX row_rules_current ON row_rules (instance, source) WHERE valid_to IS NULL;
COMMENT ON TABLE row_rules IS
    'By which rules each sender leaves out rows of what does not change. The function row_rules_of has those of each port and GPU, also where a sender does not report them.';
COMMENT ON COLUMN row_rules.instance IS 'Who reports: a node''s name, or a crawler''s subnet prefix.';
COMMENT ON COLUMN row_rules.source IS 'As in coverage: mad, sysfs, nvml.';
COMMENT ON COLUMN row_rules.valid_to IS 'NULL in the current row.';
COMMENT ON COLUMN row_rules.heartbeat_seconds IS
    'What is read and does not change has at least one row in this time.';
COMMENT ON COLUMN row_rules.largest_gap_seconds IS
    'Between two rows farther apart it was not read: no rate is made across.';
COMMENT ON COLUMN row_rules.quiet_bytes IS 'Data since the last row, in either direction, that count as unchanged.';
