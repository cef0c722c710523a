-- Bookkeeping of writing, export and crawlers.
CREATE TABLE internal.batch_ledger (
    spool_id uuid NOT NULL,
    sequence bigint NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT now(),
    owner text,
    PRIMARY KEY (spool_id)
);
COMMENT ON TABLE internal.batch_ledger IS
    'Highest committed sequence of each spool, changed in the transaction of the rows: a replay adds nothing.';
COMMENT ON COLUMN internal.batch_ledger.owner IS
    'The sender that first used the spool, as node:NAME or crawler:NAME; entries of others are refused. NULL where the sender has no name.';

CREATE TABLE internal.batch_quarantine (
    spool_id uuid NOT NULL,
    sequence bigint NOT NULL,
    quarantined_at timestamptz NOT NULL DEFAULT now(),
    reason text NOT NULL,
    batch bytea NOT NULL,
    PRIMARY KEY (spool_id, sequence)
);
COMMENT ON TABLE internal.batch_quarantine IS
    'Batches that cannot be stored for a reason of their own, as they came; the spool goes on behind them.';

CREATE TABLE internal.record_quarantine (
    day date NOT NULL DEFAULT CURRENT_DATE,
    sender text NOT NULL,
    reason text NOT NULL,
    kind text NOT NULL,
    records bigint NOT NULL,
    example bytea NOT NULL,
    first_at timestamptz NOT NULL DEFAULT now(),
    last_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (day, sender, reason, kind)
);
COMMENT ON TABLE internal.record_quarantine IS
    'Records that were rejected, counted by day, sender, reason and kind; the rest of their batches is stored.';
COMMENT ON COLUMN internal.record_quarantine.example IS 'The first of them, as a batch of its own with no more than its first bytes.';

CREATE TABLE internal.node_bar (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    node text,
    serial text,
    since timestamptz NOT NULL DEFAULT now(),
    barred_by text NOT NULL,
    reason text NOT NULL DEFAULT '',
    until timestamptz,
    unbarred_by text,
    PRIMARY KEY (id),
    CHECK (num_nonnulls(node, serial) = 1)
);
CREATE UNIQUE INDEX node_bar_node_idx ON internal.node_bar (node) WHERE until IS NULL;
CREATE UNIQUE INDEX node_bar_serial_idx ON internal.node_bar (serial) WHERE until IS NULL;
COMMENT ON TABLE internal.node_bar IS
    'Nodes and certificates that the collector refuses (throughline node bar), and those that it refused once.';
COMMENT ON COLUMN internal.node_bar.node IS 'A DNS name of the refused certificates; NULL where one certificate is refused by its serial number.';
COMMENT ON COLUMN internal.node_bar.serial IS 'Serial number of the refused certificate: hexadecimal, lower case, without leading zeros.';
COMMENT ON COLUMN internal.node_bar.barred_by IS 'The user of the server''s machine who barred it.';
COMMENT ON COLUMN internal.node_bar.until IS 'When it was let in again; NULL while it is barred.';

CREATE TABLE internal.node_certificate (
    node text NOT NULL,
    serial text NOT NULL,
    first_at timestamptz NOT NULL DEFAULT now(),
    last_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (node, serial)
);
CREATE INDEX node_certificate_serial_idx ON internal.node_certificate (serial);
COMMENT ON TABLE internal.node_certificate IS
    'Names that each certificate sent records as: what a bar by serial number is about.';
COMMENT ON COLUMN internal.node_certificate.serial IS 'As in node_bar.serial.';
COMMENT ON COLUMN internal.node_certificate.last_at IS 'When it last did, within an hour.';

CREATE TABLE internal.crawler_term (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    fabric_id bigint NOT NULL,
    crawler uuid NOT NULL,
    name text NOT NULL DEFAULT '',
    began_at timestamptz NOT NULL,
    ended_at timestamptz,
    covered_to timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (id),
    FOREIGN KEY (fabric_id) REFERENCES internal.fabric(id)
);
CREATE INDEX crawler_term_fabric_id_ended_at_idx ON internal.crawler_term (fabric_id, ended_at);
CREATE UNIQUE INDEX crawler_term_fabric_id_idx ON internal.crawler_term (fabric_id) WHERE (ended_at IS NULL);
COMMENT ON TABLE internal.crawler_term IS
    'Terms of the crawlers of a fabric. A batch of another crawler within a term is left out, so never two write.';
COMMENT ON COLUMN internal.crawler_term.crawler IS 'The crawler: the identity of its spool.';
COMMENT ON COLUMN internal.crawler_term.name IS 'Its host, for people; empty until it requested a lease.';
COMMENT ON COLUMN internal.crawler_term.began_at IS 'From then on only this crawler is written, by its clock.';
COMMENT ON COLUMN internal.crawler_term.ended_at IS 'When the next one took over; NULL in the present term.';
COMMENT ON COLUMN internal.crawler_term.covered_to IS 'Newest record of the term so far: the next one begins later.';
COMMENT ON COLUMN internal.crawler_term.expires_at IS
    'Another crawler may take over then, by the database''s clock; each request and each batch of it postpones this.';

CREATE TABLE internal.export_target (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    name text NOT NULL,
    exported_until timestamptz NOT NULL,
    noticed_until timestamptz NOT NULL,
    part text,
    after text,
    acknowledged bigint NOT NULL DEFAULT 0,
    refused bigint NOT NULL DEFAULT 0,
    version bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (id),
    UNIQUE (name)
);
COMMENT ON TABLE internal.export_target IS
    'Receivers of remote write and how far samples are sent to each.';
COMMENT ON COLUMN internal.export_target.name IS 'As in the configuration of serve: export.remote_write.name.';
COMMENT ON COLUMN internal.export_target.exported_until IS 'Samples until then are sent and acknowledged, but for those in export_late.';
COMMENT ON COLUMN internal.export_target.noticed_until IS
    'End of the window that is being sent, else exported_until: writers note in export_late what arrives for times until then.';
COMMENT ON COLUMN internal.export_target.part IS 'Within the window: the table or info metric that was sent last. NULL between windows.';
COMMENT ON COLUMN internal.export_target.after IS 'Within the window: what of that part was sent last; parts and their things have an order.';
COMMENT ON COLUMN internal.export_target.acknowledged IS 'Samples that the receiver acknowledged.';
COMMENT ON COLUMN internal.export_target.refused IS 'Samples that the receiver refused because of their content, and that are not sent again.';
COMMENT ON COLUMN internal.export_target.version IS 'Grows with each change: of two servers that send, one stops.';

CREATE TABLE internal.export_late (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    target_id bigint NOT NULL,
    part text NOT NULL,
    thing text NOT NULL,
    since timestamptz NOT NULL,
    until timestamptz NOT NULL,
    PRIMARY KEY (id),
    FOREIGN KEY (target_id) REFERENCES internal.export_target(id) ON DELETE CASCADE
);
CREATE INDEX export_late_by_target ON internal.export_late (target_id, since);
COMMENT ON TABLE internal.export_late IS
    'Samples that arrived after their window was sent: they are sent by themselves.';
COMMENT ON COLUMN internal.export_late.part IS 'The hypertable.';
COMMENT ON COLUMN internal.export_late.thing IS 'Id of the port or GPU; of self_stats the instance.';
COMMENT ON COLUMN internal.export_late.since IS 'Time of the first of them.';
COMMENT ON COLUMN internal.export_late.until IS 'Time of the last of them.';

CREATE TABLE internal.clock_check (
    one boolean NOT NULL DEFAULT true,
    state text NOT NULL DEFAULT 'unchecked',
    reason text,
    off_seconds double precision,
    reporting integer NOT NULL DEFAULT 0,
    agreeing integer NOT NULL DEFAULT 0,
    since timestamptz NOT NULL DEFAULT now(),
    trusted_at timestamptz,
    permitted_until timestamptz NOT NULL DEFAULT '-infinity',
    estimate timestamptz NOT NULL DEFAULT '-infinity',
    anchor_at timestamptz,
    anchor_boot text,
    anchor_seconds double precision,
    accept_requested_at timestamptz,
    accepted_at timestamptz,
    accepted_by text,
    accepted_off_seconds double precision,
    PRIMARY KEY (one),
    CHECK (one),
    CHECK (state IN ('unchecked', 'waiting', 'trusted', 'unreported', 'unconfirmed', 'outvoted', 'jumped'))
);
COMMENT ON TABLE internal.clock_check IS
    'Whether the database''s clock is believed, checked every few seconds by the server that does upkeep: rows are dropped, thinned and packed only by a time that was checked.';
COMMENT ON COLUMN internal.clock_check.state IS
    'trusted: rows may be dropped. jumped: it moved otherwise than the monotonic clock of the server. outvoted: most senders'' clocks say another time. unconfirmed: since the server''s boot most senders have not confirmed it. unreported: nobody reports. waiting: the checks have just begun. unchecked: no upkeep has run.';
COMMENT ON COLUMN internal.clock_check.reason IS 'Why it is not believed, for people.';
COMMENT ON COLUMN internal.clock_check.off_seconds IS 'How far it is ahead of the witness against it; negative where it is behind.';
COMMENT ON COLUMN internal.clock_check.reporting IS 'Senders whose clocks were measured lately.';
COMMENT ON COLUMN internal.clock_check.agreeing IS 'Those of them whose clocks agree with it.';
COMMENT ON COLUMN internal.clock_check.since IS 'Since when the state is so, by this clock.';
COMMENT ON COLUMN internal.clock_check.trusted_at IS 'What the clock said when it was believed last: the time of the last round. expiry_time() is no later.';
COMMENT ON COLUMN internal.clock_check.permitted_until IS 'The permission to drop, thin and pack ends then, unless another check renews it.';
COMMENT ON COLUMN internal.clock_check.estimate IS
    'What time it is by the last check: this clock where it is believed, else by the monotonic clock or by most senders. upkeep_time() is hardly later.';
COMMENT ON COLUMN internal.clock_check.anchor_at IS 'What the clock said when most senders confirmed it last; the monotonic clock counts from there.';
COMMENT ON COLUMN internal.clock_check.anchor_boot IS 'The boot of the server that read it, from /proc/sys/kernel/random/boot_id.';
COMMENT ON COLUMN internal.clock_check.anchor_seconds IS 'CLOCK_BOOTTIME of that boot at anchor_at.';
COMMENT ON COLUMN internal.clock_check.accept_requested_at IS 'What the clock said when somebody accepted it (throughline db clock accept), until upkeep has taken note.';
COMMENT ON COLUMN internal.clock_check.accepted_by IS 'The user of the server''s machine who accepted it last.';
COMMENT ON COLUMN internal.clock_check.accepted_off_seconds IS 'How far it was ahead of most senders when it was accepted: they are no witnesses while that stays so.';

CREATE TABLE internal.retention_policy (
    hypertable text NOT NULL,
    keep interval NOT NULL,
    columns_after interval,
    carried_by text,
    carried_key text[],
    carried_to timestamptz,
    dropped_chunks bigint NOT NULL DEFAULT 0,
    dropped_until timestamptz,
    PRIMARY KEY (hypertable),
    CHECK (carried_by IN ('row', 'cells', 'peers'))
);
COMMENT ON TABLE internal.retention_policy IS
    'How long each hypertable has its rows, as throughline serve is configured: what the procedure expire goes by.';
COMMENT ON COLUMN internal.retention_policy.columns_after IS
    'Chunks become columns once they are so old; NULL: never, as on the Apache edition.';
COMMENT ON COLUMN internal.retention_policy.carried_by IS
    'What a total of a job is: a row, or the last values of packed cells or peers. Those that chunks would take with them are written once more before (carry_totals). NULL: the table has none.';
COMMENT ON COLUMN internal.retention_policy.carried_key IS 'Columns that distinguish series of totals.';
COMMENT ON COLUMN internal.retention_policy.carried_to IS 'Time of the rows that were written so last.';
COMMENT ON COLUMN internal.retention_policy.dropped_chunks IS 'Chunks that were dropped since the database was made.';
COMMENT ON COLUMN internal.retention_policy.dropped_until IS 'Chunks that ended by then were dropped; NULL: none was.';

-- There is one row.
INSERT INTO internal.clock_check DEFAULT VALUES;

CREATE TABLE internal.schema_objects (
    name text NOT NULL,
    kind text NOT NULL,
    schema text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (name),
    CHECK (kind IN ('function', 'procedure', 'view'))
);
COMMENT ON TABLE internal.schema_objects IS
    'Functions, procedures and views of Throughline as they are installed. Each start of throughline serve compares them with its own.';
COMMENT ON COLUMN internal.schema_objects.checksum IS 'MD5 of the file that the object was made from.';
