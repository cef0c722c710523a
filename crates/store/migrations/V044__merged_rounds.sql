-- Equal rounds of a source in a row of coverage, in place of a row for each. Immutable once released: later changes are new files.

ALTER TABLE coverage ADD COLUMN rounds integer NOT NULL DEFAULT 1;
ALTER TABLE coverage ADD COLUMN first_time timestamptz;
COMMENT ON TABLE coverage IS
    'What rounds of a source were to read and what they read: unchanged and unread differ. A row stands for equal rounds in a row of which none was missed; the function coverage_rounds has a row for each.';
COMMENT ON COLUMN coverage.time IS 'When the last of these rounds was.';
COMMENT ON COLUMN coverage.expected IS 'What each of these rounds was to read.';
COMMENT ON COLUMN coverage.read IS 'What each of them read.';
COMMENT ON COLUMN coverage.failed IS 'What each of them could not read.';
COMMENT ON COLUMN coverage.elapsed_seconds IS 'How long the slowest of these rounds took.';
COMMENT ON COLUMN coverage.rounds IS 'How many rounds the row stands for: 1 in rows of crawlers and of agents of earlier versions.';
COMMENT ON COLUMN coverage.first_time IS 'When the first of these rounds was; NULL where it is one.';
