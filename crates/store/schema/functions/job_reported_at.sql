CREATE OR REPLACE FUNCTION internal.job_reported_at(job bigint) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT coalesce(max(reported_at) FILTER (WHERE has_ranks), max(reported_at))
    FROM internal.run_claim WHERE job_id = job AND NOT is_excluded;
END;
COMMENT ON FUNCTION internal.job_reported_at IS 'When a node last reported a job, by the clock of the database: of those that had ranks of it, where any had.';
