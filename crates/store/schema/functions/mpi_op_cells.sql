CREATE OR REPLACE FUNCTION mpi_op_cells(job integer, until timestamptz DEFAULT 'infinity')
RETURNS TABLE (
    rank integer, operation text, size_class_bytes bigint, region text, algorithm text, algorithm_source text,
    epoch timestamptz, calls bigint, bytes bigint, elapsed_seconds double precision,
    longest_seconds double precision, wait_seconds double precision, received_bytes bigint, last_time timestamptz)
LANGUAGE plpgsql STABLE ROWS 10000 COST 1000000
SET jit = off
AS $$
BEGIN
    RETURN QUERY
        SELECT n.rank, n.operation, n.size_class_bytes, n.region, n.algorithm, n.algorithm_source, n.epoch, n.calls, n.bytes,
               n.elapsed_seconds, n.longest_seconds, n.wait_seconds, n.received_bytes, n.last_time
        FROM mpi_op_newest(mpi_op_cells.job, mpi_op_cells.until) n;
END
$$;
COMMENT ON FUNCTION mpi_op_cells IS
    'The last value of each cell and epoch of a job''s operations, up to a time: their sums are the job''s totals as of then.';
