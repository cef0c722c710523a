-- Jobs and their ranks as one reads them. Immutable once released: later changes are new files.

CREATE VIEW job_summary AS
SELECT j.id, j.key AS job_key, j.scheduler, j.native_id, j.step, j.uid, j.user_name, j.command, j.start_time,
       -- The ranks know: a job's own end is told by each node for itself, and one node may be done before another.
       CASE WHEN r.ranks IS NULL THEN j.end_time WHEN r.running = 0 THEN r.last_end END AS end_time,
       j.first_seen, j.world_size, coalesce(r.ranks, 0) AS ranks, coalesce(r.nodes, 0) AS nodes,
       coalesce(r.running, 0) AS ranks_running, coalesce(r.lost, 0) AS ranks_lost,
       coalesce(r.started, 0) AS rank_starts, r.libraries
FROM job j
LEFT JOIN LATERAL (
    SELECT count(DISTINCT rank) AS ranks, count(DISTINCT host) AS nodes, count(*) AS started,
           count(*) FILTER (WHERE end_time IS NULL) AS running,
           count(*) FILTER (WHERE ending = 'lost') AS lost, max(end_time) AS last_end,
           array_agg(DISTINCT mpi_library) AS libraries
    FROM job_rank WHERE job_id = j.id HAVING count(*) > 0) r ON true;
COMMENT ON VIEW job_summary IS
    'Jobs with their ranks counted: end_time is NULL as long as a rank runs; rank_starts is larger than ranks where ranks were started again.';

CREATE VIEW mpi_rank_totals AS
SELECT t.job_key, t.job_id, t.rank, t.calls, t.bytes, t.elapsed_seconds, s.observed_seconds, t.last_time
FROM (
    SELECT job_key, job_id, rank, sum(calls)::bigint AS calls, sum(bytes)::bigint AS bytes,
           sum(elapsed_seconds) AS elapsed_seconds, max(last_time) AS last_time
    FROM mpi_op_totals GROUP BY job_key, job_id, rank) t
CROSS JOIN LATERAL (
    SELECT sum(extract(epoch FROM coalesce(r.end_time, greatest(t.last_time, r.start_time)) - r.start_time))
               ::double precision AS observed_seconds
    FROM job_rank r WHERE r.job_id = t.job_id AND r.rank = t.rank) s;
COMMENT ON VIEW mpi_rank_totals IS
    'Each rank''s MPI so far, over all operations, and how long it was observed: from MPI_Init to its end or its newest row.';
