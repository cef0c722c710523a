-- What is said of jobs: by job, kind and subject, from when until when. Immutable once released: later changes are new files.

CREATE TABLE job_judgement (
    job_id integer PRIMARY KEY REFERENCES job,
    judged_at timestamptz NOT NULL,
    is_final boolean NOT NULL,
    report text
) WITH (fillfactor = 70);
COMMENT ON TABLE job_judgement IS 'When each job was judged last: each minute while it runs, and once after its end.';
COMMENT ON COLUMN job_judgement.is_final IS 'After its end, with all that its nodes and the fabric reported.';
COMMENT ON COLUMN job_judgement.report IS 'What throughline job report prints; NULL until it is final.';

CREATE TABLE job_verdict (
    job_id integer NOT NULL REFERENCES job,
    kind text NOT NULL,
    subject text NOT NULL,
    first_at timestamptz NOT NULL,
    last_at timestamptz NOT NULL,
    place smallint NOT NULL,
    observation text NOT NULL,
    remedy text NOT NULL,
    confidence text NOT NULL CHECK (confidence IN ('certain', 'likely')),
    cost double precision,
    other_job text,
    facts jsonb NOT NULL,
    PRIMARY KEY (job_id, kind, subject)
) WITH (fillfactor = 70);
COMMENT ON TABLE job_verdict IS
    'What slows a job down: docs/VERDICTS.md. One that is true now has the last_at of its job''s judged_at; others were true once.';
COMMENT ON COLUMN job_verdict.kind IS 'hung, link_bound, victim and so on.';
COMMENT ON COLUMN job_verdict.subject IS 'The rank, host, link, operation or region; job where it is about all of it.';
COMMENT ON COLUMN job_verdict.first_at IS 'When it was said first.';
COMMENT ON COLUMN job_verdict.last_at IS 'When it was said last.';
COMMENT ON COLUMN job_verdict.place IS 'Among those said at the same time, the most important one first, from 0.';
COMMENT ON COLUMN job_verdict.observation IS 'What was observed, with its figures.';
COMMENT ON COLUMN job_verdict.remedy IS 'What to do.';
COMMENT ON COLUMN job_verdict.cost IS 'Part of the ranks'' time that it costs, at most 1; NULL where it can''t be said.';
COMMENT ON COLUMN job_verdict.other_job IS 'Key of the other job: whose bytes hold it up, or whom it holds up.';
COMMENT ON COLUMN job_verdict.facts IS 'Figures that it rests on: name, value, unit and the threshold from which on it is said.';
