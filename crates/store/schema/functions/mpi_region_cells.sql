-- Rows are cumulative, so a total is the last row of each cell and epoch. The primary key ends with the time: going down
-- the key, the first row of each cell is its last one, and the next cell is one step of the index away. So the cost follows
-- the number of cells, whatever a job's length. Each cell of a rank that was started again costs one more step per start; its row may be
-- one that was carried (carry_totals).
CREATE OR REPLACE FUNCTION internal.mpi_region_cells(job bigint, until timestamptz DEFAULT 'infinity')
RETURNS TABLE (
    rank integer, region text, epoch timestamptz, visits bigint, elapsed_seconds double precision,
    own_seconds double precision, mpi_calls bigint, mpi_seconds double precision, last_time timestamptz)
LANGUAGE plpgsql STABLE ROWS 1000 COST 1000000
SET search_path = '' SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
AS $$
DECLARE
    span record;
BEGIN
    SELECT * INTO span FROM internal.job_span(mpi_region_cells.job);
    RETURN QUERY EXECUTE internal.of_counted(mpi_region_cells.job, $query$
        WITH RECURSIVE newest AS (
            (SELECT m AS cell FROM internal.mpi_regions m
             WHERE m.job_id = $1 AND m.time >= $2 AND m.time <= $3{of_counted_rank}
             ORDER BY m.rank DESC, m.region DESC, m.time DESC
             LIMIT 1)
            UNION ALL
            SELECT n.cell FROM newest l CROSS JOIN LATERAL (
                SELECT m AS cell FROM internal.mpi_regions m
                WHERE m.job_id = $1 AND m.time >= $2 AND m.time <= $3{of_counted_rank}
                  AND (m.rank, m.region) < ((l.cell).rank, (l.cell).region)
                ORDER BY m.rank DESC, m.region DESC, m.time DESC
                LIMIT 1) n
        ), earlier AS (
            SELECT e.cell FROM newest l
            JOIN internal.job_rank r ON r.job_id = $1 AND r.rank = (l.cell).rank AND r.start_time <> (l.cell).epoch
            CROSS JOIN LATERAL (
                SELECT m AS cell FROM internal.mpi_regions m
                WHERE m.job_id = $1 AND m.rank = r.rank AND m.region = (l.cell).region AND m.epoch = r.start_time{of_counted_rank}
                  -- The first two are constants of the plan.
                  AND m.time >= $2 AND m.time <= $3 AND m.time >= r.start_time
                  AND m.time <= greatest(coalesce(r.end_time + INTERVAL '10 minutes', $3), $4)
                ORDER BY m.time DESC
                LIMIT 1) e
        )
        SELECT (cell).rank, (cell).region, (cell).epoch, (cell).visits, (cell).elapsed_seconds, (cell).own_seconds,
               (cell).mpi_calls, (cell).mpi_seconds, (cell).time
        FROM (SELECT cell FROM newest UNION ALL SELECT cell FROM earlier) cells
    $query$) USING job, span.since, least(span.ending, until),
        (SELECT p.carried_to + INTERVAL '1 second' FROM internal.retention_policy p WHERE p.hypertable = 'mpi_regions');
END
$$;
COMMENT ON FUNCTION internal.mpi_region_cells IS 'The last row of each region and epoch of a job''s ranks, up to a time.';
