CREATE OR REPLACE FUNCTION internal.job_as_of(job bigint, is_finest boolean DEFAULT false)
RETURNS TABLE (as_of timestamptz, is_of_nodes boolean, node_id bigint, node_as_of timestamptz)
LANGUAGE plpgsql STABLE ROWS 10 COST 100000
SET search_path = ''
AS $$
DECLARE
    span record;
    is_beyond boolean;
BEGIN
    IF EXISTS (SELECT FROM internal.run j WHERE j.id = job_as_of.job AND j.end_time IS NOT NULL) THEN
        RETURN;
    END IF;
    SELECT * INTO span FROM internal.job_span(job_as_of.job);
    -- Cells beyond what agents fold are in no row of a node.
    EXECUTE 'SELECT EXISTS (SELECT FROM internal.mpi_rank_rows m WHERE m.job_id = $1 AND NOT m.is_folded AND m.time >= $2 AND m.time <= $3)'
        INTO is_beyond USING job, span.since, span.ending;
    IF NOT is_beyond THEN
        RETURN QUERY
        WITH nodes AS MATERIALIZED (
            SELECT c.node_id, c.folded_until, c.end_time IS NULL AS runs
            FROM internal.run_claim c WHERE c.job_id = job_as_of.job AND c.has_ranks AND NOT c.is_excluded
        ), newest AS MATERIALIZED (
            -- While somebody looks at it all nodes may have newer ones.
            SELECT CASE WHEN f.all_until > f.ended AND job_as_of.is_finest THEN f.all_until ELSE least(f.ended, f.until) END AS as_of
            FROM (SELECT public.time_bucket('10 seconds', now() - INTERVAL '4 seconds') AS ended,
                         CASE WHEN bool_and(n.folded_until IS NOT NULL) FILTER (WHERE n.runs)
                         THEN date_trunc('second', least(min(n.folded_until) FILTER (WHERE n.runs), now())) END AS all_until,
                         coalesce(max(n.folded_until) FILTER (WHERE n.runs), max(n.folded_until)) AS until
                  FROM nodes n) f
            WHERE f.until IS NOT NULL
        )
        SELECT w.as_of, true, n.node_id,
               CASE WHEN NOT n.runs THEN w.as_of WHEN n.folded_until IS NOT NULL THEN least(w.as_of, n.folded_until) END
        FROM nodes n CROSS JOIN newest w
        JOIN internal.run j ON j.id = job_as_of.job AND w.as_of > coalesce(j.start_time, j.first_seen);
        IF FOUND THEN
            RETURN;
        END IF;
    END IF;
    -- The time of the newest of them: sums as of an older one would have an older row of those nodes.
    RETURN QUERY SELECT coalesce(max(r.node_as_of) OVER (), r.as_of), false, r.node_id, r.node_as_of
        FROM internal.job_ranks_as_of(job_as_of.job) r;
END
$$;
COMMENT ON FUNCTION internal.job_as_of IS
    'As of when the sums of a running job are: the newest whole ten seconds that ended at least 4 s ago, from rows of its nodes, with is_finest the newest second that all of them have one of; before their first one, and where cells are beyond what agents fold, the rows of its ranks. A node that is behind has its own time, NULL where nothing of it is known; its newest figures are in the sums. No row of a job that has ended.';
