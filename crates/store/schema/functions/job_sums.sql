CREATE OR REPLACE FUNCTION internal.job_sums(
    job bigint, until timestamptz, is_of_nodes boolean, nodes bigint[], times timestamptz[])
RETURNS TABLE (calls bigint, bytes bigint, elapsed_seconds double precision, observed_seconds double precision)
LANGUAGE plpgsql STABLE ROWS 1 COST 1000000
SET search_path = ''
AS $$
BEGIN
    IF job_sums.until IS NULL THEN
        RETURN QUERY SELECT internal.stored_total(sum(t.calls)), internal.stored_total(sum(t.bytes)), sum(t.elapsed_seconds),
            sum(t.observed_seconds)
        FROM internal.job_rank_totals(job_sums.job) t HAVING count(*) > 0;
    ELSIF is_of_nodes THEN
        RETURN QUERY SELECT c.calls, c.bytes, coalesce(c.elapsed_seconds, 0) + coalesce(t.open_seconds, 0), t.observed_seconds
        FROM (SELECT coalesce(internal.stored_total(sum(n.calls)), 0) AS calls, coalesce(internal.stored_total(sum(n.bytes)), 0) AS bytes,
                     sum(n.elapsed_seconds) AS elapsed_seconds, count(*) AS cells
              FROM internal.job_node_cells(job_sums.job, job_sums.until) n) c
        CROSS JOIN (SELECT sum(r.observed_seconds) AS observed_seconds, sum(r.open_seconds) AS open_seconds
                    FROM internal.job_rank_times(job_sums.job, job_sums.until, job_sums.nodes, job_sums.times) r) t
        WHERE c.cells > 0 OR t.open_seconds > 0;
    ELSE
        RETURN QUERY SELECT internal.stored_total(sum(r.calls)), internal.stored_total(sum(r.bytes)), sum(r.elapsed_seconds),
            sum(r.observed_seconds)
        FROM internal.job_rank_sums(job_sums.job, job_sums.until, job_sums.nodes, job_sums.times) r HAVING count(*) > 0;
    END IF;
END
$$;
COMMENT ON FUNCTION internal.job_sums IS
    'Sums of a job over all ranks and operations as of the time that job_as_of has, or final ones where there is none; no row where nothing was counted.';
