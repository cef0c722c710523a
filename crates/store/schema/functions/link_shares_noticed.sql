CREATE OR REPLACE FUNCTION internal.link_shares_noticed() RETURNS timestamptz
LANGUAGE plpgsql VOLATILE
SET search_path = ''
AS $$
BEGIN
    -- The lock of minutes_noticed(), for the same reason.
    PERFORM pg_advisory_xact_lock_shared(x'746c6d696e757465'::bigint);
    RETURN (SELECT s.noticed_until FROM internal.link_share_state s);
END $$;
COMMENT ON FUNCTION internal.link_shares_noticed IS
    'link_share_state.noticed_until, which stays so until the transaction ends. For writers of counters of ports and of traffic of jobs.';
