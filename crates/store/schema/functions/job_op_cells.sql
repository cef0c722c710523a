CREATE OR REPLACE FUNCTION internal.job_op_cells(job bigint)
RETURNS TABLE (
    rank integer, operation text, size_class_bytes bigint, region text, algorithm text, algorithm_source text,
    epoch timestamptz, calls bigint, bytes bigint, elapsed_seconds double precision,
    longest_seconds double precision, wait_seconds double precision, received_bytes bigint, last_time timestamptz)
LANGUAGE plpgsql STABLE ROWS 10000 COST 1000000
SET search_path = ''
AS $$
BEGIN
    IF internal.job_rows_gone(job_op_cells.job, 'mpi_rank_rows') THEN
        RETURN QUERY SELECT o.rank, o.operation, NULL::bigint, ''::text, ''::text, ''::text, o.epoch, o.calls, o.bytes,
            o.elapsed_nanoseconds / 1e9::double precision, o.longest_nanoseconds / 1e9::double precision,
            o.wait_nanoseconds / 1e9::double precision, o.received_bytes, o.last_time
        FROM internal.job_final_operations(job_op_cells.job) o;
    ELSE
        RETURN QUERY SELECT c.rank, c.operation, c.size_class_bytes, c.region, c.algorithm, c.algorithm_source, c.epoch, c.calls, c.bytes,
            c.elapsed_seconds, c.longest_seconds, c.wait_seconds, c.received_bytes, c.last_time
        FROM internal.mpi_op_cells(job_op_cells.job) c;
    END IF;
END $$;
COMMENT ON FUNCTION internal.job_op_cells IS
    'The last value of each cell and epoch of a job''s operations; of a job whose rows are gone its final totals, over size classes, regions and algorithms.';
