-- What an operation of a rank is told apart by, besides size: the region of the program, and what the library did.
-- Immutable once released: later changes are new files.

ALTER TABLE mpi_ops
    ADD COLUMN region text NOT NULL DEFAULT '',
    ADD COLUMN algorithm text NOT NULL DEFAULT '',
    ADD COLUMN algorithm_source text NOT NULL DEFAULT '',
    ADD COLUMN wait_seconds double precision,
    ADD COLUMN received_bytes bigint;
ALTER TABLE mpi_ops DROP CONSTRAINT mpi_ops_pkey;
ALTER TABLE mpi_ops ADD PRIMARY KEY (job_id, rank, operation, size_class_bytes, region, algorithm, time);
COMMENT ON COLUMN mpi_ops.region IS 'The innermost annotated region of the program at the call; empty outside of all.';
COMMENT ON COLUMN mpi_ops.algorithm IS
    'What the library did inside a collective, by its own name: ring, recursivedoubling. Empty where it is not known.';
COMMENT ON COLUMN mpi_ops.algorithm_source IS
    'observed: seen at work. forced: a setting asked for it. pvar: a performance variable counted it. unknown: nobody says. Empty: the operation has none.';

ALTER TABLE mpi_regions
    ADD COLUMN own_seconds double precision,
    ADD COLUMN mpi_calls bigint,
    ADD COLUMN mpi_seconds double precision;
COMMENT ON TABLE mpi_regions IS
    'Annotated regions of a rank''s program, cumulative since epoch, over its threads; only regions that changed.';
COMMENT ON COLUMN mpi_regions.region IS 'Its name: begin and end in the program, MPI_Pcontrol, Caliper, NVTX.';

CREATE TABLE job_comm (
    job_id integer NOT NULL REFERENCES job,
    rank integer NOT NULL,
    epoch timestamptz NOT NULL,
    comm integer NOT NULL,
    name text NOT NULL,
    size integer NOT NULL,
    rank_in_comm integer,
    named_at timestamptz NOT NULL,
    PRIMARY KEY (job_id, rank, epoch, comm)
);
COMMENT ON TABLE job_comm IS 'Communicators that a program gave a name (MPI_Comm_set_name), as each of their ranks sees them.';
COMMENT ON COLUMN job_comm.comm IS 'The rank''s own number of the communicator; other ranks number theirs otherwise.';
COMMENT ON COLUMN job_comm.rank_in_comm IS 'NULL in an intercommunicator, whose size is that of the remote group.';

CREATE TABLE job_setting (
    job_id integer NOT NULL REFERENCES job,
    name text NOT NULL,
    value text NOT NULL,
    rank integer NOT NULL,
    told_at timestamptz NOT NULL,
    PRIMARY KEY (job_id, name, value)
);
COMMENT ON TABLE job_setting IS
    'Control variables (MPI_T CVARs) of a job''s MPI library that decide algorithms: one row for each value that any rank has.';
COMMENT ON COLUMN job_setting.rank IS 'A rank that has it: the first that told.';

-- A cell is one combination of all that the primary key of mpi_ops names beside the time.
CREATE VIEW mpi_op_cell_totals AS
SELECT j.key AS job_key, t.job_id, t.rank, t.operation, t.size_class_bytes, t.region, t.algorithm, t.algorithm_source,
       sum(t.calls)::bigint AS calls, sum(t.bytes)::bigint AS bytes,
       sum(t.elapsed_seconds) AS elapsed_seconds, max(t.longest_seconds) AS longest_seconds,
       sum(t.wait_seconds) AS wait_seconds, sum(t.received_bytes)::bigint AS received_bytes,
       max(t.last_time) AS last_time
FROM (
    SELECT job_id, rank, operation, size_class_bytes, region, algorithm, max(algorithm_source) AS algorithm_source, epoch,
           max(calls) AS calls, max(bytes) AS bytes, max(elapsed_seconds) AS elapsed_seconds,
           max(longest_seconds) AS longest_seconds, max(wait_seconds) AS wait_seconds,
           max(received_bytes) AS received_bytes, max(time) AS last_time
    FROM mpi_ops GROUP BY job_id, rank, operation, size_class_bytes, region, algorithm, epoch
) t
JOIN job j ON j.id = t.job_id
GROUP BY j.key, t.job_id, t.rank, t.operation, t.size_class_bytes, t.region, t.algorithm, t.algorithm_source;
COMMENT ON VIEW mpi_op_cell_totals IS
    'Each rank''s operations so far by size class, region and algorithm: calls, bytes, time.';

CREATE OR REPLACE VIEW mpi_op_totals AS
SELECT job_key, job_id, rank, operation, sum(calls)::bigint AS calls, sum(bytes)::bigint AS bytes,
       sum(elapsed_seconds) AS elapsed_seconds, max(longest_seconds) AS longest_seconds, max(last_time) AS last_time,
       sum(wait_seconds) AS wait_seconds, sum(received_bytes)::bigint AS received_bytes
FROM mpi_op_cell_totals
GROUP BY job_key, job_id, rank, operation;

CREATE VIEW mpi_region_totals AS
SELECT j.key AS job_key, t.job_id, t.rank, t.region, sum(t.visits)::bigint AS visits,
       sum(t.elapsed_seconds) AS elapsed_seconds, sum(t.own_seconds) AS own_seconds,
       sum(t.mpi_calls)::bigint AS mpi_calls, sum(t.mpi_seconds) AS mpi_seconds, max(t.last_time) AS last_time
FROM (
    SELECT job_id, rank, region, epoch, max(visits) AS visits, max(elapsed_seconds) AS elapsed_seconds,
           max(own_seconds) AS own_seconds, max(mpi_calls) AS mpi_calls, max(mpi_seconds) AS mpi_seconds,
           max(time) AS last_time
    FROM mpi_regions GROUP BY job_id, rank, region, epoch
) t
JOIN job j ON j.id = t.job_id
GROUP BY j.key, t.job_id, t.rank, t.region;
COMMENT ON VIEW mpi_region_totals IS 'Each rank''s annotated regions so far: visits, time, and time of it inside MPI.';
