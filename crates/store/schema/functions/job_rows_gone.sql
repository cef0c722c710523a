CREATE OR REPLACE FUNCTION internal.job_rows_gone(job bigint, of_table text) RETURNS boolean
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT EXISTS (
        SELECT FROM internal.job_final f
        JOIN internal.run j ON j.id = f.job_id AND j.end_time IS NOT NULL
        JOIN internal.retention_policy p ON p.hypertable = job_rows_gone.of_table
        WHERE f.job_id = job_rows_gone.job AND f.ended_at < now() - p.keep);
END;
COMMENT ON FUNCTION internal.job_rows_gone IS
    'Whether rows of a hypertable that are of a job may be gone: it ended before the table''s retention, and its final totals are packed. Readers take these then.';
