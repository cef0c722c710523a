-- A total is the last row of its series, whenever that was written: a job that runs for longer than rows are kept, or was quiet for so
-- long, would lose it with its chunk. What would be lost is written once more, at the beginning of the chunk that goes next: the total so
-- far is still true then, and readers have one place to look. At no later time, so that all rows that stay come after it.
CREATE OR REPLACE FUNCTION internal.carry_totals(of_table text) RETURNS bigint
LANGUAGE plpgsql VOLATILE
-- Whether a series has a newer row is one step of the index for each chunk; the other way is to read a week.
SET search_path = '' SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    policy internal.retention_policy;
    older timestamptz;
    beginning timestamptz;
    jobs bigint[];
    carried bigint;
BEGIN
    SELECT * INTO policy FROM internal.retention_policy p WHERE p.hypertable = of_table AND p.carried_by IS NOT NULL;
    older := internal.expiry_time() - policy.keep;
    SELECT greatest(c.range_end, date_bin(c.range_end - c.range_start, older, TIMESTAMPTZ 'epoch')) INTO beginning
    FROM timescaledb_information.chunks c
    WHERE c.hypertable_schema = 'internal' AND c.hypertable_name = of_table AND c.range_end <= older
    ORDER BY c.range_end DESC LIMIT 1;
    IF beginning IS NULL THEN
        RETURN 0;
    END IF;
    -- Readers look for rows of a job up to its end.
    SELECT array_agg(r.id) INTO jobs FROM internal.run r WHERE r.end_time IS NULL OR r.end_time > older;
    -- Beside columns of the same job, which may become rows.
    PERFORM pg_catalog.set_config(s.name, '0', true) FROM pg_catalog.pg_settings s
    WHERE s.name = 'timescaledb.max_tuples_decompressed_per_dml_transaction';
    EXECUTE internal.carry_query(policy) INTO carried USING beginning, jobs, internal.expiry_time();
    UPDATE internal.retention_policy p SET carried_to = beginning WHERE p.hypertable = of_table;
    RETURN carried;
END $$;
COMMENT ON FUNCTION internal.carry_totals IS
    'Writes the last rows of series of totals once more that would go with the next chunks, of jobs that run or ended later; how many. Before expire_table, in the same transaction. For the procedure expire.';
