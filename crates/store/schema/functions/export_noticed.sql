CREATE OR REPLACE FUNCTION internal.export_noticed() RETURNS timestamptz
LANGUAGE plpgsql VOLATILE
SET search_path = ''
AS $$
BEGIN
    -- The lock of minutes_noticed(), for the same reason.
    PERFORM pg_advisory_xact_lock_shared(x'746c6d696e757465'::bigint);
    RETURN (SELECT max(t.noticed_until) FROM internal.export_target t);
END $$;
COMMENT ON FUNCTION internal.export_noticed IS
    'The latest export_target.noticed_until, NULL where nothing is exported; it stays so until the transaction ends. For writers of samples.';
