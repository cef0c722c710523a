-- Who sent what: spools have an owner, records that were rejected are counted by sender, jobs name the node that reported
-- them first, devices the node they are in. Immutable once released: later changes are new files.

ALTER TABLE batch_ledger ADD COLUMN owner text;
COMMENT ON COLUMN batch_ledger.owner IS
    'The sender that first used the spool, as node:NAME or crawler:NAME; entries of others are refused. NULL until the first entry after version 20.';

CREATE TABLE record_quarantine (
    day date NOT NULL DEFAULT current_date,
    sender text NOT NULL,
    reason text NOT NULL,
    kind text NOT NULL,
    records bigint NOT NULL,
    example bytea NOT NULL,
    first_at timestamptz NOT NULL DEFAULT now(),
    last_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (day, sender, reason, kind)
);
COMMENT ON TABLE record_quarantine IS
    'Records that were rejected, counted by day, sender, reason and kind; the rest of their batches is stored.';
COMMENT ON COLUMN record_quarantine.example IS 'The first of them, as a batch of its own with no more than its first bytes.';

CREATE VIEW rejected_records AS
SELECT sender, reason, sum(records)::bigint AS records, string_agg(DISTINCT kind, ', ' ORDER BY kind) AS kinds,
       min(first_at) AS first_at, max(last_at) AS last_at
FROM record_quarantine WHERE last_at > now() - interval '1 day' GROUP BY sender, reason;
COMMENT ON VIEW rejected_records IS 'Records rejected since yesterday, by sender and reason.';

ALTER TABLE job ADD COLUMN reported_by text;
COMMENT ON COLUMN job.reported_by IS 'The node that reported the job''s owner first.';

CREATE TABLE device_owner (
    kind text NOT NULL,
    name text NOT NULL,
    node_id integer NOT NULL REFERENCES node_key,
    reported_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (kind, name)
);
COMMENT ON TABLE device_owner IS
    'The node that a GPU (gpu, by UUID) or an InfiniBand adapter (hca, by node GUID) is in; another node may have it only after this one has not reported it for a while.';
INSERT INTO device_owner (kind, name, node_id)
SELECT 'gpu', uuid, node_id FROM gpu WHERE valid_to IS NULL AND node_id IS NOT NULL ON CONFLICT DO NOTHING;
INSERT INTO device_owner (kind, name, node_id)
SELECT DISTINCT ON (guid) 'hca', guid, node_id FROM node, unnest(hca_guids) AS guid WHERE valid_to IS NULL
ORDER BY guid, valid_from DESC ON CONFLICT DO NOTHING;
