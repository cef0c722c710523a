CREATE OR REPLACE VIEW public.job_summary AS
-- In two parts, so that a query of the jobs that run counts no ranks of those that have ended: these have an end, and no rank without one.
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
LEFT JOIN LATERAL internal.job_ranks_counted(j.id) r ON true
LEFT JOIN LATERAL (
    SELECT coalesce(max(reported_at) FILTER (WHERE has_ranks), max(reported_at)) AS reported_at
    FROM internal.run_claim WHERE job_id = j.id AND NOT is_excluded) n ON true
WHERE j.end_time IS NULL OR EXISTS (SELECT FROM internal.job_rank u WHERE u.job_id = j.id AND u.end_time IS NULL)
UNION ALL
SELECT j.id, j.key, j.scheduler, j.native_id, j.step, j.uid, j.user_name, j.command, j.start_time,
       coalesce(r.last_end, j.end_time), j.first_seen, j.world_size, coalesce(r.ranks, 0), coalesce(r.nodes, 0),
       0, coalesce(r.lost, 0), coalesce(r.started, 0), r.libraries, coalesce(r.unseen, 0), coalesce(r.silent, 0),
       j.name, j.account, j.queue, j.array_id, n.reported_at,
       internal.job_state(j.end_time,
           CASE WHEN EXISTS (SELECT FROM internal.job_rank f WHERE f.job_id = j.id AND f.ending = 'lost')
                OR EXISTS (SELECT FROM internal.job_final f WHERE f.job_id = j.id AND f.is_released AND f.lost > 0) THEN 1 ELSE 0 END,
           CASE WHEN EXISTS (SELECT FROM internal.job_rank f WHERE f.job_id = j.id AND f.ending = 'silent')
                OR EXISTS (SELECT FROM internal.job_final f WHERE f.job_id = j.id AND f.is_released AND f.silent > 0) THEN 1 ELSE 0 END,
           j.end_time, j.end_time),
       j.cluster
FROM internal.run_visible j
LEFT JOIN LATERAL internal.job_ranks_counted(j.id) r ON true
LEFT JOIN LATERAL (
    SELECT coalesce(max(reported_at) FILTER (WHERE has_ranks), max(reported_at)) AS reported_at
    FROM internal.run_claim WHERE job_id = j.id AND NOT is_excluded) n ON true
WHERE NOT (j.end_time IS NULL OR EXISTS (SELECT FROM internal.job_rank u WHERE u.job_id = j.id AND u.end_time IS NULL));
COMMENT ON VIEW public.job_summary IS
    'Jobs with their ranks counted: end_time is NULL as long as a rank runs; state is that of job_state; reported_at is when a node last reported the job; rank_starts is larger than ranks where ranks were started again.';
