CREATE OR REPLACE FUNCTION internal.job_ranks_counted(job bigint)
RETURNS TABLE (
    ranks bigint, nodes bigint, started bigint, running bigint, lost bigint, unseen bigint, silent bigint, last_end timestamptz,
    libraries text[])
LANGUAGE sql STABLE PARALLEL SAFE ROWS 1
BEGIN ATOMIC
    SELECT coalesce(f.ranks, r.ranks), coalesce(f.nodes, r.nodes), coalesce(f.rank_starts, r.started), r.running, coalesce(f.lost, r.lost),
           coalesce(f.unseen, r.unseen), coalesce(f.silent, r.silent), greatest(r.last_end, f.ended_at), coalesce(f.libraries, r.libraries)
    FROM (
        SELECT count(DISTINCT rank) AS ranks, count(DISTINCT host) AS nodes, count(*) AS started,
               count(*) FILTER (WHERE end_time IS NULL) AS running, count(*) FILTER (WHERE ending = 'lost') AS lost,
               count(*) FILTER (WHERE ending = 'unseen') AS unseen, count(*) FILTER (WHERE ending = 'silent') AS silent,
               max(end_time) AS last_end, array_agg(DISTINCT mpi_library) AS libraries
        FROM internal.job_rank WHERE job_id = job) r
    -- Where claims of ranks are gone.
    LEFT JOIN internal.job_final f ON f.job_id = job AND f.is_released
    WHERE r.started > 0 OR f.ranks > 0;
END;
COMMENT ON FUNCTION internal.job_ranks_counted IS 'The ranks of a job, counted; no row where none is known.';
