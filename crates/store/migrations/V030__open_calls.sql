-- MPI calls that go on for long: the newest report of each thread, not a row for each. Immutable once released: later changes
-- are new files.

CREATE TABLE mpi_open_call (
    job_id integer NOT NULL REFERENCES job,
    rank integer NOT NULL,
    thread integer NOT NULL,
    epoch timestamptz NOT NULL,
    operation text NOT NULL,
    start_time timestamptz NOT NULL,
    reported_at timestamptz NOT NULL,
    has_returned boolean NOT NULL,
    is_on_world boolean NOT NULL,
    comm integer,
    comm_size integer,
    peer integer,
    pending_requests integer NOT NULL,
    oldest_request text,
    PRIMARY KEY (job_id, rank, thread)
) WITH (fillfactor = 50);
COMMENT ON TABLE mpi_open_call IS
    'The last MPI call of each thread that went on for half a second or more, as reported last. The view mpi_open_calls has those that go on, or in which their rank was killed.';
COMMENT ON COLUMN mpi_open_call.thread IS 'The rank''s own number of the thread.';
COMMENT ON COLUMN mpi_open_call.epoch IS 'When the rank''s MPI_Init ended: job_rank.start_time.';
COMMENT ON COLUMN mpi_open_call.operation IS 'MPI name without the prefix, in lower case.';
COMMENT ON COLUMN mpi_open_call.reported_at IS
    'When the rank reported it last; of a call that goes on it is behind by at most 2 % of the call''s age and a second, and 10 s.';
COMMENT ON COLUMN mpi_open_call.has_returned IS 'It is over, and counted in mpi_ops.';
COMMENT ON COLUMN mpi_open_call.is_on_world IS 'It is on MPI_COMM_WORLD.';
COMMENT ON COLUMN mpi_open_call.comm IS 'job_comm.comm of the communicator; NULL where it has no name.';
COMMENT ON COLUMN mpi_open_call.comm_size IS 'Members that can be addressed; NULL where they are not known.';
COMMENT ON COLUMN mpi_open_call.peer IS 'Rank in MPI_COMM_WORLD that the call names: destination, source or root.';
COMMENT ON COLUMN mpi_open_call.pending_requests IS 'Requests of the thread that are pending, persistent ones left out.';
COMMENT ON COLUMN mpi_open_call.oldest_request IS 'The operation that began the oldest of them.';
