-- Ranks send all of their cells in one row (mpi_rank_rows); those of older agents, and cells beyond what an agent folds, are rows of
-- mpi_ops. A cell has both where an agent was replaced while its rank ran: the later one is its total.
CREATE OR REPLACE FUNCTION mpi_op_newest(job integer, until timestamptz DEFAULT 'infinity')
RETURNS TABLE (
    rank integer, operation text, size_class_bytes bigint, region text, algorithm text, algorithm_source text,
    epoch timestamptz, calls bigint, bytes bigint, elapsed_seconds double precision,
    longest_seconds double precision, wait_seconds double precision, received_bytes bigint, last_time timestamptz,
    least_seconds double precision)
LANGUAGE plpgsql STABLE ROWS 10000 COST 1000000
SET jit = off
AS $$
DECLARE
    span record;
    has_bins boolean;
BEGIN
    SELECT * INTO span FROM job_span(mpi_op_newest.job);
    EXECUTE 'SELECT EXISTS (SELECT FROM mpi_ops m WHERE m.job_id = $1 AND m.time >= $2 AND m.time <= $3)'
        INTO has_bins USING job, span.since, span.ending;
    IF NOT has_bins THEN
        RETURN QUERY SELECT * FROM mpi_rank_row_cells(mpi_op_newest.job, mpi_op_newest.until);
        RETURN;
    END IF;
    RETURN QUERY
        SELECT DISTINCT ON (c.rank, c.operation, c.size_class_bytes, c.region, c.algorithm, c.epoch) c.*
        FROM (SELECT * FROM mpi_bin_cells(mpi_op_newest.job, mpi_op_newest.until)
              UNION ALL SELECT * FROM mpi_rank_row_cells(mpi_op_newest.job, mpi_op_newest.until)) c
        ORDER BY c.rank, c.operation, c.size_class_bytes, c.region, c.algorithm, c.epoch, c.last_time DESC;
END
$$;
COMMENT ON FUNCTION mpi_op_newest IS
    'As mpi_op_cells, with least_seconds.';
