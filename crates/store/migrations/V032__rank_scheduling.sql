-- What the kernel counts of each rank's process, and where its adapters are. Immutable once released: later changes are new
-- files.

CREATE TABLE mpi_rank_scheduling (
    job_id integer NOT NULL REFERENCES job,
    rank integer NOT NULL,
    epoch timestamptz NOT NULL,
    first_time timestamptz NOT NULL,
    first_cpu_nanoseconds bigint,
    first_runqueue_wait_nanoseconds bigint,
    first_involuntary_switches bigint,
    time timestamptz NOT NULL,
    cpu_nanoseconds bigint,
    runqueue_wait_nanoseconds bigint,
    involuntary_switches bigint,
    before_time timestamptz,
    before_cpu_nanoseconds bigint,
    PRIMARY KEY (job_id, rank, epoch)
) WITH (fillfactor = 50);
COMMENT ON TABLE mpi_rank_scheduling IS
    'What the kernel counted of each rank''s process: its first reading, the newest one and the one before. Cumulative since the start of the process; NULL where the kernel does not say.';
COMMENT ON COLUMN mpi_rank_scheduling.epoch IS 'When the rank''s MPI_Init ended: job_rank.start_time.';
COMMENT ON COLUMN mpi_rank_scheduling.first_time IS 'Of the first reading, just after MPI_Init.';
COMMENT ON COLUMN mpi_rank_scheduling.cpu_nanoseconds IS 'Processor time of all threads.';
COMMENT ON COLUMN mpi_rank_scheduling.runqueue_wait_nanoseconds IS
    'Time that the first thread could have run and waited for a processor.';
COMMENT ON COLUMN mpi_rank_scheduling.involuntary_switches IS
    'How often the first thread was taken off its processor.';
COMMENT ON COLUMN mpi_rank_scheduling.before_time IS 'Of the reading before the newest, some 10 s earlier.';

ALTER TABLE job_rank ADD COLUMN hca_numa_nodes integer[];
COMMENT ON COLUMN job_rank.hca_numa_nodes IS
    'NUMA nodes of the adapters that it used, or of all adapters of its host where these are not known; NULL where sysfs does not say.';
