-- Trace mode: each call and each message of a rank, and what its clock is worth against rank 0's.
--
-- Times ending in _ns are on the rank's own clock (CLOCK_MONOTONIC of its node), never adjusted. `time` is the same
-- moment in UTC as the rank's node had it: for ranges and retention, not for comparing ranks. Whoever does that
-- adds mpi_clock.offset_ns, interpolated; `throughline job trace` does.

CREATE TABLE mpi_trace (
    time timestamptz NOT NULL,
    job_id integer NOT NULL,
    rank integer NOT NULL,
    epoch timestamptz NOT NULL,
    number bigint NOT NULL,
    thread integer NOT NULL,
    kind text NOT NULL,
    operation text NOT NULL,
    region text NOT NULL,
    start_ns bigint NOT NULL,
    end_ns bigint NOT NULL,
    peer integer,
    tag integer,
    bytes bigint,
    comm bigint,
    sequence bigint,
    PRIMARY KEY (job_id, rank, epoch, number, time)
);
COMMENT ON TABLE mpi_trace IS 'Trace mode: calls and messages of ranks, on each rank''s own clock.';
COMMENT ON COLUMN mpi_trace.number IS 'Counts all records of the rank, those lost on their way too: a gap is what is missing.';
COMMENT ON COLUMN mpi_trace.kind IS 'call, send, receive: a call, and the message that it sent or received. arrival: a message that an earlier call asked for, from the asking to the end of the call that saw it complete. departure: one of several messages of a call. end: the limit of records was reached.';
COMMENT ON COLUMN mpi_trace.comm IS 'The communicator by a number that is the same in all its members; 1 is MPI_COMM_WORLD, NULL where it is not known.';
COMMENT ON COLUMN mpi_trace.sequence IS 'Running count of the message among those of its source, destination, communicator and tag: the same in the row of the send and in that of the receive.';
SELECT create_hypertable('mpi_trace', by_range('time', INTERVAL '1 hour'), create_default_indexes => false);

CREATE TABLE mpi_clock (
    time timestamptz NOT NULL,
    job_id integer NOT NULL,
    rank integer NOT NULL,
    epoch timestamptz NOT NULL,
    number bigint NOT NULL,
    clock_ns bigint NOT NULL,
    offset_ns bigint NOT NULL,
    uncertainty_ns bigint NOT NULL,
    round_trip_ns bigint NOT NULL,
    PRIMARY KEY (job_id, rank, epoch, number, time)
);
COMMENT ON TABLE mpi_clock IS 'Trace mode: comparisons of the clock of a rank with that of rank 0.';
COMMENT ON COLUMN mpi_clock.offset_ns IS 'To be added to the rank''s clock at clock_ns for rank 0''s clock; not wrong by more than uncertainty_ns.';
SELECT create_hypertable('mpi_clock', by_range('time', INTERVAL '1 hour'), create_default_indexes => false);

CREATE VIEW mpi_messages AS
SELECT s.job_id, s.rank AS source, r.rank AS destination, s.comm, s.tag, s.sequence, s.bytes, s.time AS send_time,
       s.operation AS send_operation, s.start_ns AS send_start_ns, s.end_ns AS send_end_ns,
       r.operation AS receive_operation, r.start_ns AS receive_start_ns, r.end_ns AS receive_end_ns
FROM mpi_trace s
JOIN mpi_trace r ON r.job_id = s.job_id AND r.rank = s.peer AND r.peer = s.rank
    AND r.comm = s.comm AND r.tag = s.tag AND r.sequence = s.sequence AND r.kind IN ('receive', 'arrival')
WHERE s.kind IN ('send', 'departure');
COMMENT ON VIEW mpi_messages IS 'Trace mode: sends with their receives. Times ending in _ns are on two clocks, see mpi_clock.';
