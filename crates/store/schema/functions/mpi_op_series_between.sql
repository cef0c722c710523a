CREATE OR REPLACE FUNCTION internal.mpi_op_series_between(job bigint, first timestamptz, last timestamptz)
RETURNS TABLE (
    "time" timestamptz, since timestamptz, node_id bigint, rank integer, operation text, size_class_bytes bigint, region text,
    algorithm text, epoch timestamptz, calls bigint, bytes bigint, elapsed_seconds double precision)
LANGUAGE plpgsql STABLE ROWS 10000 COST 1000000
SET search_path = '' SET jit = off
AS $$
BEGIN
    -- Planned with these times: no other chunk is opened.
    RETURN QUERY
    SELECT m.time, m.since, m.node_id, m.rank, m.operation, m.size_class_bytes, m.region, m.algorithm, m.epoch, m.calls, m.bytes,
           m.elapsed_seconds
    FROM public.mpi_op_series m
    WHERE m.job_id = job AND m.time >= first AND m.time <= last;
END
$$;
COMMENT ON FUNCTION internal.mpi_op_series_between IS
    'What mpi_op_series has of a job in a range of time that is a column of a query: with it as a condition on the view, all chunks would be part of the plan.';
