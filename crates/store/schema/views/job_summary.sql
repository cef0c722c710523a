CREATE OR REPLACE VIEW public.job_summary AS
SELECT j.id, j.key AS job_key, j.scheduler, j.native_id, j.step, j.uid, j.user_name, j.command, j.start_time,
       -- Ranks decide: each node reports a job's end for itself, and one node may be done before another.
       CASE WHEN r.ranks IS NULL THEN j.end_time WHEN r.running = 0 THEN r.last_end END AS end_time,
       j.first_seen, j.world_size, coalesce(r.ranks, 0) AS ranks, coalesce(r.nodes, 0) AS nodes,
       coalesce(r.running, 0) AS ranks_running, coalesce(r.lost, 0) AS ranks_lost,
       coalesce(r.started, 0) AS rank_starts, r.libraries, coalesce(r.unseen, 0) AS ranks_unseen,
       coalesce(r.silent, 0) AS ranks_silent, j.name, j.account, j.queue, j.array_id,
       n.reported_at,
       internal.job_state(CASE WHEN r.ranks IS NULL THEN j.end_time WHEN r.running = 0 THEN r.last_end END, r.lost, r.silent,
                 coalesce(n.reported_at, j.first_seen), now()) AS state,
       j.cluster
FROM internal.run_visible j
LEFT JOIN LATERAL (
    SELECT count(DISTINCT rank) AS ranks, count(DISTINCT host) AS nodes, count(*) AS started,
           count(*) FILTER (WHERE end_time IS NULL) AS running,
           count(*) FILTER (WHERE ending = 'lost') AS lost, count(*) FILTER (WHERE ending = 'unseen') AS unseen,
           count(*) FILTER (WHERE ending = 'silent') AS silent, max(end_time) AS last_end,
           array_agg(DISTINCT mpi_library) AS libraries
    FROM internal.job_rank WHERE job_id = j.id HAVING count(*) > 0) r ON true
LEFT JOIN LATERAL (
    SELECT coalesce(max(reported_at) FILTER (WHERE has_ranks), max(reported_at)) AS reported_at
    FROM internal.run_claim WHERE job_id = j.id AND NOT is_excluded) n ON true;
COMMENT ON VIEW public.job_summary IS
    'Jobs with their ranks counted: end_time is NULL as long as a rank runs; state is that of job_state; reported_at is when a node last reported the job; rank_starts is larger than ranks where ranks were started again.';
