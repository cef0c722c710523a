-- The call tree of a rank's program: its annotated regions by the path of regions around them. Immutable once released: later
-- changes are new files.

CREATE TABLE mpi_region_paths (
    time timestamptz NOT NULL,
    job_id integer NOT NULL,
    rank integer NOT NULL,
    path text NOT NULL,
    epoch timestamptz NOT NULL,
    source text NOT NULL,
    visits bigint,
    elapsed_seconds double precision,
    own_seconds double precision,
    mpi_calls bigint,
    mpi_seconds double precision,
    PRIMARY KEY (job_id, rank, path, time)
);
COMMENT ON TABLE mpi_region_paths IS
    'Paths of annotated regions of a rank''s program, cumulative since epoch, over its threads; only paths that changed, every ten seconds and at the end.';
COMMENT ON COLUMN mpi_region_paths.path IS
    'The regions that a thread was in, from the outermost to the innermost one, separated by /; in a name, / is written \/ and \ is written \\.';
SELECT create_hypertable('mpi_region_paths', by_range('time', INTERVAL '1 hour'), create_default_indexes => false);
