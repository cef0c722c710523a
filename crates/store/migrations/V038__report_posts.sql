-- Reports of jobs that wait to be posted to the site's address. Immutable once released: later changes are new files.

CREATE TABLE report_post (
    job_id integer PRIMARY KEY REFERENCES job,
    id uuid NOT NULL DEFAULT gen_random_uuid(),
    created_at timestamptz NOT NULL DEFAULT now(),
    state text NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'failed')),
    tries integer NOT NULL DEFAULT 0,
    next_try timestamptz NOT NULL DEFAULT now(),
    error text
);
CREATE INDEX report_post_waiting ON report_post (next_try) WHERE state = 'waiting';
COMMENT ON TABLE report_post IS
    'Reports (job_judgement.report) that the address of [report] webhook has not taken. One that it took has no row.';
COMMENT ON COLUMN report_post.id IS 'Sent with the report (Throughline-Report-Id): the same each time, so that a receiver knows one that comes twice.';
COMMENT ON COLUMN report_post.state IS 'waiting: is posted at next_try. failed: was refused, or not taken within a day, and is not posted again.';
COMMENT ON COLUMN report_post.tries IS 'How often it was posted in vain.';
COMMENT ON COLUMN report_post.error IS 'Why the last try failed.';
