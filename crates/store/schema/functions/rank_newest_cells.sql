CREATE OR REPLACE FUNCTION internal.rank_newest_cells(job bigint, of_rank integer, node bigint, started timestamptz)
RETURNS TABLE (cells bit varying)
LANGUAGE plpgsql STABLE ROWS 1
SET search_path = ''
AS $$
BEGIN
    -- Planned with these values, and only where there is such a rank: no older chunk is opened.
    RETURN QUERY
    SELECT m.cells FROM internal.mpi_rank_rows m
    WHERE m.job_id = job AND m.rank = of_rank AND m.epoch = started AND m.node_id = node AND m.is_folded AND m.time >= started
    ORDER BY m.time DESC LIMIT 1;
END
$$;
COMMENT ON FUNCTION internal.rank_newest_cells IS 'The newest totals that a node reports of a rank that started at a time.';
