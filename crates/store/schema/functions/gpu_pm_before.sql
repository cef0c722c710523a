CREATE OR REPLACE FUNCTION internal.gpu_pm_before(since timestamptz, until timestamptz)
RETURNS SETOF internal.gpu_pm_counters
LANGUAGE plpgsql STABLE PARALLEL SAFE ROWS 1
SET search_path = ''
AS $$
BEGIN
    IF since < until THEN
        RETURN QUERY SELECT * FROM internal.gpu_pm_counters c WHERE c.time > since AND c.time <= until;
    END IF;
END
$$;
COMMENT ON FUNCTION internal.gpu_pm_before IS 'Rows of gpu_pm_counters after a time until another one; none where that is not later.';
