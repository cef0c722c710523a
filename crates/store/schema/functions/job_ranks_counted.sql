CREATE OR REPLACE FUNCTION internal.job_ranks_counted(job bigint)
RETURNS TABLE (
    ranks bigint, nodes bigint, started bigint, running bigint, lost bigint, unseen bigint, silent bigint, last_end timestamptz,
    libraries text[])
LANGUAGE sql STABLE PARALLEL SAFE ROWS 1
BEGIN ATOMIC
    SELECT count(DISTINCT rank), count(DISTINCT host), count(*), count(*) FILTER (WHERE end_time IS NULL),
           count(*) FILTER (WHERE ending = 'lost'), count(*) FILTER (WHERE ending = 'unseen'),
           count(*) FILTER (WHERE ending = 'silent'), max(end_time), array_agg(DISTINCT mpi_library)
    FROM internal.job_rank WHERE job_id = job HAVING count(*) > 0;
END;
COMMENT ON FUNCTION internal.job_ranks_counted IS 'The ranks of a job, counted; no row where none is known.';
