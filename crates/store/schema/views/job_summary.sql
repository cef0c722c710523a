CREATE OR REPLACE VIEW public.job_summary AS
SELECT j.id, j.key AS job_key, j.scheduler, j.native_id, j.step, j.uid, j.user_name, j.command, j.start_time,
       -- Ranks decide: each node reports a job's end for itself, and one node may be done before another.
       CASE WHEN r.ranks IS NULL THEN j.end_time WHEN r.running = 0 THEN r.last_end END AS end_time,
       j.first_seen, j.world_size, coalesce(r.ranks, 0) AS ranks, coalesce(r.nodes, 0) AS nodes,
       coalesce(r.running, 0) AS ranks_running, coalesce(r.lost, 0) AS ranks_lost,
       coalesce(r.started, 0) AS rank_starts, r.libraries, coalesce(r.unseen, 0) AS ranks_unseen,
       coalesce(r.silent, 0) AS ranks_silent, j.name, j.account, j.queue, j.array_id,
       n.reported_at,
       -- By columns of the job alone where it has an end and no rank without one: a condition on the state counts the ranks of no others.
       CASE WHEN j.end_time IS NOT NULL AND NOT EXISTS (SELECT FROM internal.job_rank u WHERE u.job_id = j.id AND u.end_time IS NULL)
       THEN internal.job_state(j.end_time,
           CASE WHEN EXISTS (SELECT FROM internal.job_rank f WHERE f.job_id = j.id AND f.ending = 'lost')
                OR EXISTS (SELECT FROM internal.job_final f WHERE f.job_id = j.id AND f.is_released AND f.lost > 0) THEN 1 ELSE 0 END,
           CASE WHEN EXISTS (SELECT FROM internal.job_rank f WHERE f.job_id = j.id AND f.ending = 'silent')
                OR EXISTS (SELECT FROM internal.job_final f WHERE f.job_id = j.id AND f.is_released AND f.silent > 0) THEN 1 ELSE 0 END,
           j.end_time, j.end_time)
       ELSE (
           SELECT internal.job_state(CASE WHEN c.ranks IS NULL THEN j.end_time WHEN c.running = 0 THEN c.last_end END, c.lost, c.silent,
                      coalesce(internal.job_reported_at(j.id), j.first_seen), now())
           FROM (VALUES (true)) one (row) LEFT JOIN LATERAL internal.job_ranks_counted(j.id) c ON true)
       END AS state,
       j.cluster
FROM internal.run_visible j
LEFT JOIN LATERAL internal.job_ranks_counted(j.id) r ON true
LEFT JOIN LATERAL (SELECT internal.job_reported_at(j.id) AS reported_at) n ON true;
COMMENT ON VIEW public.job_summary IS
    'Jobs with their ranks counted: end_time is NULL as long as a rank runs; state is that of job_state; reported_at is when a node last reported the job; rank_starts is larger than ranks where ranks were started again.';
