-- Rows are cumulative, so a total is the last row of each cell and epoch. The primary key ends with the time: going down
-- the key, the first row of each cell is its last one, and the next cell is one step of the index away. So the cost follows
-- the number of cells, whatever a job's length. Each cell of a rank that was started again costs one more step per start.
CREATE OR REPLACE FUNCTION mpi_bin_cells(job integer, until timestamptz DEFAULT 'infinity')
RETURNS TABLE (
    rank integer, operation text, size_class_bytes bigint, region text, algorithm text, algorithm_source text,
    epoch timestamptz, calls bigint, bytes bigint, elapsed_seconds double precision,
    longest_seconds double precision, wait_seconds double precision, received_bytes bigint, last_time timestamptz,
    least_seconds double precision)
LANGUAGE plpgsql STABLE ROWS 10000 COST 1000000
-- Statistics of a chunk that has just begun are none: without these the planner may sort a job's whole history.
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
AS $$
DECLARE
    span record;
BEGIN
    SELECT * INTO span FROM job_span(mpi_bin_cells.job);
    -- EXECUTE, so that the times are constants of the plan and chunks outside of them no part of it.
    RETURN QUERY EXECUTE $query$
        WITH RECURSIVE newest AS (
            (SELECT m AS cell FROM mpi_ops m
             WHERE m.job_id = $1 AND m.time >= $2 AND m.time <= $3
             ORDER BY m.rank DESC, m.operation DESC, m.size_class_bytes DESC, m.region DESC, m.algorithm DESC, m.time DESC
             LIMIT 1)
            UNION ALL
            SELECT n.cell FROM newest l CROSS JOIN LATERAL (
                SELECT m AS cell FROM mpi_ops m
                WHERE m.job_id = $1 AND m.time >= $2 AND m.time <= $3
                  AND (m.rank, m.operation, m.size_class_bytes, m.region, m.algorithm)
                      < ((l.cell).rank, (l.cell).operation, (l.cell).size_class_bytes, (l.cell).region, (l.cell).algorithm)
                ORDER BY m.rank DESC, m.operation DESC, m.size_class_bytes DESC, m.region DESC, m.algorithm DESC, m.time DESC
                LIMIT 1) n
        ), earlier AS (
            SELECT e.cell FROM newest l
            JOIN job_rank r ON r.job_id = $1 AND r.rank = (l.cell).rank AND r.start_time <> (l.cell).epoch
            CROSS JOIN LATERAL (
                SELECT m AS cell FROM mpi_ops m
                WHERE m.job_id = $1 AND m.rank = r.rank AND m.operation = (l.cell).operation
                  AND m.size_class_bytes = (l.cell).size_class_bytes AND m.region = (l.cell).region
                  AND m.algorithm = (l.cell).algorithm AND m.epoch = r.start_time
                  AND m.time >= greatest($2, r.start_time)
                  AND m.time <= least($3, r.end_time + INTERVAL '10 minutes')
                ORDER BY m.time DESC
                LIMIT 1) e
        )
        SELECT (cell).rank, (cell).operation, (cell).size_class_bytes, (cell).region, (cell).algorithm,
               (cell).algorithm_source, (cell).epoch, (cell).calls, (cell).bytes, (cell).elapsed_seconds,
               (cell).longest_seconds, (cell).wait_seconds, (cell).received_bytes, (cell).time, (cell).least_seconds
        FROM (SELECT cell FROM newest UNION ALL SELECT cell FROM earlier) cells
    $query$ USING job, span.since, least(span.ending, until);
END
$$;
COMMENT ON FUNCTION mpi_bin_cells IS
    'The last row of each cell and epoch in mpi_ops of a job, up to a time. mpi_op_cells has these and what ranks send in one row.';
