CREATE OR REPLACE VIEW internal.mpi_messages AS
SELECT s.job_id, s.rank AS source, r.rank AS destination, s.comm, s.tag, s.sequence, s.bytes, s.time AS send_time,
       s.operation AS send_operation, s.start_ns AS send_start_ns, s.end_ns AS send_end_ns,
       r.operation AS receive_operation, r.start_ns AS receive_start_ns, r.end_ns AS receive_end_ns
FROM internal.mpi_trace s
JOIN internal.mpi_trace r ON r.job_id = s.job_id AND r.rank = s.peer AND r.peer = s.rank
    AND r.comm = s.comm AND r.tag = s.tag AND r.sequence = s.sequence AND r.kind IN ('receive', 'arrival')
WHERE s.kind IN ('send', 'departure');
COMMENT ON VIEW internal.mpi_messages IS 'Trace mode: sends with their receives. Times ending in _ns are on two clocks, see mpi_clock.';
