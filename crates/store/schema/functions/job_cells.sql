CREATE OR REPLACE FUNCTION internal.job_cells(job bigint, until timestamptz, is_of_nodes boolean)
RETURNS TABLE (
    operation text, size_class_bytes bigint, algorithm text, algorithm_source text, calls bigint, bytes bigint, received_bytes bigint,
    elapsed_seconds double precision, wait_seconds double precision, longest_seconds double precision)
LANGUAGE plpgsql STABLE ROWS 100 COST 1000000
SET search_path = ''
AS $$
BEGIN
    IF job_cells.until IS NULL AND internal.job_rows_gone(job_cells.job, 'mpi_rank_rows') THEN
        RETURN QUERY SELECT f.operation, f.size_class_bytes, f.algorithm, f.algorithm_source, f.calls, f.bytes, f.received_bytes,
            f.elapsed_seconds, f.wait_seconds, f.longest_seconds
        FROM internal.job_final_cells(job_cells.job) f;
    ELSIF job_cells.until IS NOT NULL AND is_of_nodes THEN
        RETURN QUERY SELECT n.operation, n.size_class_bytes, n.algorithm, n.algorithm_source, internal.stored_total(sum(n.calls)),
            internal.stored_total(sum(n.bytes)), internal.stored_total(sum(n.received_bytes)), coalesce(sum(n.elapsed_seconds), 0),
            sum(n.wait_seconds), max(n.longest_seconds)
        FROM internal.job_node_cells(job_cells.job, job_cells.until) n
        GROUP BY n.operation, n.size_class_bytes, n.algorithm, n.algorithm_source;
    ELSE
        RETURN QUERY SELECT c.operation, c.size_class_bytes, c.algorithm, c.algorithm_source, internal.stored_total(sum(c.calls)),
            internal.stored_total(sum(c.bytes)), internal.stored_total(sum(c.received_bytes)), coalesce(sum(c.elapsed_seconds), 0),
            sum(c.wait_seconds), max(c.longest_seconds)
        FROM internal.mpi_op_cells(job_cells.job, coalesce(job_cells.until, 'infinity')) c
        GROUP BY c.operation, c.size_class_bytes, c.algorithm, c.algorithm_source;
    END IF;
END
$$;
COMMENT ON FUNCTION internal.job_cells IS
    'Operations of a job over all ranks by size class and algorithm, as of the time that job_as_of has, or final ones where there is none.';
