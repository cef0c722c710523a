-- Cumulative, so that any two rows of a node and epoch are compared. What ranks had before the epoch is not in it.
CREATE OR REPLACE VIEW public.mpi_node_account AS
SELECT m.job_id, m.node_id, m.epoch, m.time, m.time - a.behind AS as_of, a.elapsed_seconds,
       greatest(a.elapsed_seconds - a.mpi_seconds - a.off_outside_seconds, 0) AS computing_seconds,
       a.queued_outside_seconds AS core_wait_seconds,
       greatest(a.off_outside_seconds - a.queued_outside_seconds, 0) AS off_processor_seconds, a.mpi_seconds,
       a.off_inside_seconds AS off_processor_in_mpi_seconds, a.queued_inside_seconds AS core_wait_in_mpi_seconds, a.throttled_seconds,
       a.file_seconds, a.sleep_seconds, a.lock_seconds, a.stopped_seconds
FROM internal.mpi_node_rows m
CROSS JOIN LATERAL internal.mpi_packed_account(m.account) a
WHERE NOT EXISTS (SELECT FROM internal.rank_claim x WHERE x.contest IS NOT NULL AND x.job_id = m.job_id AND x.node_id = m.node_id);
COMMENT ON VIEW public.mpi_node_account IS
    'Where the time of a job''s ranks on a node went, summed over them and cumulative since `epoch`, as of each ten seconds: as mpi_rank_account, and what of off_processor_seconds was in a file, asleep, at a lock and stopped. Times of rows are within seconds of `as_of`.';
