-- From one rank and epoch to the next down the primary key, as mpi_op_cells.
CREATE OR REPLACE FUNCTION internal.job_ranks_as_of(job bigint)
RETURNS TABLE (as_of timestamptz, node_id bigint, node_as_of timestamptz)
LANGUAGE plpgsql STABLE ROWS 10 COST 100000
SET search_path = '' SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
AS $$
DECLARE
    span record;
BEGIN
    SELECT * INTO span FROM internal.job_span(job_ranks_as_of.job);
    RETURN QUERY EXECUTE internal.of_counted(job_ranks_as_of.job, $query$
        WITH RECURSIVE newest AS (
            (SELECT m.rank, m.epoch, m.time, m.node_id FROM internal.mpi_rank_rows m
             WHERE m.job_id = $1 AND m.time >= $2 AND m.time <= $3{of_counted_rank}
             ORDER BY m.rank DESC, m.epoch DESC, m.time DESC
             LIMIT 1)
            UNION ALL
            SELECT n.* FROM newest l CROSS JOIN LATERAL (
                SELECT m.rank, m.epoch, m.time, m.node_id FROM internal.mpi_rank_rows m
                WHERE m.job_id = $1 AND m.time >= $2 AND m.time <= $3{of_counted_rank} AND (m.rank, m.epoch) < (l.rank, l.epoch)
                ORDER BY m.rank DESC, m.epoch DESC, m.time DESC
                LIMIT 1) n
        ), edges AS MATERIALIZED (
            -- Rows are as of whole seconds, and the time in a row is that of the last report in it. Ranks that ended have one of their end.
            -- Of a larger job some may have newer rows than the others, while somebody looks at them.
            SELECT n.node_id, date_trunc('second', CASE WHEN count(*) <= 64 THEN max(n.time)
                       ELSE percentile_disc(0.5) WITHIN GROUP (ORDER BY n.time) END + INTERVAL '0.999999 seconds') AS edge
            FROM newest n
            JOIN (SELECT r.rank, r.start_time FROM internal.job_rank r WHERE r.job_id = $1 AND r.end_time IS NULL) r
                ON r.rank = n.rank AND r.start_time = n.epoch
            GROUP BY n.node_id
        ), of_node AS MATERIALIZED (
            SELECT c.node_id, e.edge,
                   CASE WHEN c.folded_until IS NOT NULL
                   THEN least(c.folded_until, public.time_bucket('10 seconds', now() - INTERVAL '4 seconds')) END AS folded_until
            FROM internal.run_claim c LEFT JOIN edges e ON e.node_id = c.node_id
            WHERE c.job_id = $1 AND c.has_ranks AND NOT c.is_excluded
        ), known AS MATERIALIZED (
            -- A node whose ranks called nothing since has no newer rows of them, and none is missing.
            SELECT o.node_id, o.edge, q.is_quiet, CASE WHEN q.is_quiet THEN greatest(o.edge, o.folded_until) ELSE o.edge END AS until
            FROM of_node o CROSS JOIN LATERAL (
                SELECT o.folded_until IS NOT NULL AND NOT EXISTS (
                    SELECT FROM internal.mpi_node_rows m
                    WHERE m.job_id = $1 AND m.node_id = o.node_id AND m.time >= $2 AND m.time <= $3
                      AND m.time > coalesce(o.edge, '-infinity')
                      AND EXISTS (SELECT FROM internal.packed_rows(m.rounds) p WHERE p.c1 > 0)) AS is_quiet) q
        ), at AS MATERIALIZED (
            -- Before the newest row of a quiet one it is not known what that had done.
            SELECT coalesce(CASE WHEN bool_or(k.edge IS NOT NULL AND NOT k.is_quiet) THEN max(k.edge) END, max(k.until),
                            (SELECT max(time) FROM newest)) AS edge FROM known k
        ), times AS MATERIALIZED (
            SELECT k.node_id, CASE WHEN k.until IS NOT NULL THEN least(k.until, a.edge) END AS node_as_of
            FROM known k CROSS JOIN at a WHERE a.edge IS NOT NULL
        ), stated AS MATERIALIZED (
            -- First rows of ranks that began together may be a second apart between nodes.
            SELECT min(t.node_as_of) AS as_of FROM times t CROSS JOIN at a WHERE t.node_as_of > a.edge - INTERVAL '5 seconds'
        )
        SELECT s.as_of, t.node_id, t.node_as_of FROM stated s CROSS JOIN times t
        UNION ALL
        SELECT a.edge, NULL, NULL FROM at a WHERE a.edge IS NOT NULL AND NOT EXISTS (SELECT FROM times)
    $query$) USING job, span.since, span.ending;
END
$$;
COMMENT ON FUNCTION internal.job_ranks_as_of IS
    'As of when the rows of a job''s ranks are, by node; no row where it has none. A node that is far behind as_of is late: what it sent last is in the sums.';
