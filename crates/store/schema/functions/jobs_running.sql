CREATE OR REPLACE FUNCTION public.jobs_running(at timestamptz) RETURNS SETOF bigint
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT j.id FROM internal.run_visible j
    WHERE coalesce(j.start_time, j.first_seen) <= at
      AND (j.end_time > at OR j.end_time IS NULL AND internal.job_state(NULL, 0, 0,
          coalesce((SELECT coalesce(max(n.reported_at) FILTER (WHERE n.has_ranks), max(n.reported_at))
                   FROM internal.run_claim n WHERE n.job_id = j.id AND NOT n.is_excluded), j.first_seen), at) = 'running');
END;
COMMENT ON FUNCTION public.jobs_running IS
    'Ids of the jobs that ran at a time. For now() these are the jobs whose state is running (job_state).';
