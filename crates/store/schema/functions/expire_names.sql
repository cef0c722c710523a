CREATE OR REPLACE FUNCTION internal.expire_names() RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = ''
AS $$
DECLARE
    -- How long a name stays after the last row that may have it: a writer uses one for a day until it looks it up again, which is noted
    -- where the last note is half a day old; and a chunk goes as a whole.
    older timestamptz := internal.expiry_time() - INTERVAL '3 days';
    removed bigint;
    more bigint;
BEGIN
    DELETE FROM internal.mpi_cell_key k
    WHERE k.used_at < older - (SELECT max(p.keep) FROM internal.retention_policy p WHERE p.hypertable IN ('mpi_rank_rows', 'mpi_node_rows'));
    GET DIAGNOSTICS removed = ROW_COUNT;
    -- Rows get the numbers of their lists when their chunk is thinned, at most a day after it ended.
    DELETE FROM internal.self_stat_names n
    WHERE n.used_at < older - (SELECT p.keep FROM internal.retention_policy p WHERE p.hypertable = 'self_stat_rows');
    GET DIAGNOSTICS more = ROW_COUNT;
    RETURN removed + more;
END $$;
COMMENT ON FUNCTION internal.expire_names IS
    'Removes numbers of cells and lists of self-metrics that no row has any more, by expiry_time(); how many. For the procedure expire.';
