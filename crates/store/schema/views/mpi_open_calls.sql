-- Of a call that goes on there is a report each ten seconds at least. A rank that reported nothing for longer may have returned while no agent ran on its node. One that is gone without an end of
-- its call was in it until its last report.
CREATE OR REPLACE VIEW internal.mpi_open_calls AS
SELECT j.key AS job_key, c.job_id, c.rank, c.thread, r.host, c.operation,
       CASE WHEN c.is_on_world THEN 'MPI_COMM_WORLD' ELSE n.name END AS comm, c.comm_size, c.peer, c.is_from_any, c.tag,
       c.requests, c.pending_requests, c.oldest_request, c.oldest_peer, c.oldest_tag, c.is_counted, c.threads_elsewhere, c.threads_to_come,
       c.start_time, c.reported_at, r.end_time AS rank_end_time, r.ending AS rank_ending,
       extract(epoch FROM c.reported_at - c.start_time)::double precision AS seconds
FROM internal.mpi_open_call c
JOIN internal.run_visible j ON j.id = c.job_id
JOIN internal.job_rank r ON r.job_id = c.job_id AND r.rank = c.rank AND r.start_time = c.epoch
    AND r.node_id IS NOT DISTINCT FROM c.node_id
LEFT JOIN internal.job_comm n ON n.job_id = c.job_id AND n.rank = c.rank AND n.epoch = c.epoch AND n.comm = c.comm
WHERE NOT c.has_returned AND c.reported_at > coalesce(r.end_time, now()) - internal.default_gap();
COMMENT ON VIEW internal.mpi_open_calls IS
    'MPI calls of half a second and more that go on, and those in which their rank was killed: which one, on which communicator, with whom, since when, and for how long by the last report.';
