-- Which chunks have rows of their times less often, as they are older than rows at the full rate. Immutable once released: later
-- changes are new files.

CREATE TABLE thinned_chunk (
    chunk text PRIMARY KEY,
    hypertable text NOT NULL,
    range_start timestamptz NOT NULL,
    range_end timestamptz NOT NULL,
    rows_before bigint NOT NULL,
    rows_after bigint NOT NULL,
    bytes_after bigint NOT NULL,
    thinned_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE thinned_chunk IS
    'Chunks whose rows upkeep has replaced by fewer, as they are older than retention.rows_seconds. What came late for one is a row as it was sent.';
COMMENT ON COLUMN thinned_chunk.chunk IS 'Its schema and name, quoted.';
COMMENT ON COLUMN thinned_chunk.rows_before IS 'Its rows before it was thinned last.';
COMMENT ON COLUMN thinned_chunk.bytes_after IS
    'Its rows'' pages after that, without indexes and TOAST. Where late rows make it an eighth larger it is thinned again.';
