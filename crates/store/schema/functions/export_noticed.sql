CREATE OR REPLACE FUNCTION export_noticed() RETURNS timestamptz
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    -- The lock of minutes_noticed(), for the same reason.
    PERFORM pg_advisory_xact_lock_shared(x'746c6d696e757465'::bigint);
    RETURN (SELECT max(t.noticed_until) FROM export_target t);
END $$;
COMMENT ON FUNCTION export_noticed IS
    'The latest export_target.noticed_until, NULL where nothing is exported; it stays so until the transaction ends. For writers of samples.';
