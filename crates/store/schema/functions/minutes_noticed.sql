CREATE OR REPLACE FUNCTION internal.minutes_noticed() RETURNS timestamptz
LANGUAGE plpgsql VOLATILE
SET search_path = ''
AS $$
BEGIN
    -- "tlminute" as ASCII. Upkeep takes it whole to move noticed_until: who wrote before is committed by then, and who
    -- comes later reads the new time. The next statement sees what was committed while this one waited.
    PERFORM pg_advisory_xact_lock_shared(x'746c6d696e757465'::bigint);
    RETURN (SELECT s.noticed_until FROM internal.minute_state s);
END $$;
COMMENT ON FUNCTION internal.minutes_noticed IS
    'minute_state.noticed_until, which stays so until the transaction ends. For writers of readings.';
