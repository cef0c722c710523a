CREATE OR REPLACE FUNCTION internal.job_span(job bigint, OUT since timestamptz, OUT ending timestamptz)
LANGUAGE sql STABLE
BEGIN ATOMIC
    -- Clocks of nodes differ a little, and last rows come from bins that end after the rank.
    SELECT coalesce(min(r.start_time) - INTERVAL '2 minutes', '-infinity'),
           CASE WHEN bool_and(r.end_time IS NOT NULL) THEN max(r.end_time) + INTERVAL '10 minutes'
                ELSE 'infinity' END
    FROM (
        SELECT r.start_time, r.end_time FROM internal.job_rank r WHERE r.job_id = job_span.job
        UNION ALL
        SELECT f.began_at, f.ended_at FROM internal.job_final f WHERE f.job_id = job_span.job AND f.is_released
    ) r;
END;
COMMENT ON FUNCTION internal.job_span IS 'The time in which rows of a job lie, so that other chunks are not looked into.';
