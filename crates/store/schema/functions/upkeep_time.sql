CREATE OR REPLACE FUNCTION internal.upkeep_time() RETURNS timestamptz
LANGUAGE sql STABLE
RETURN (
    -- Checks are some seconds apart: for so long the clock may go on by itself.
    SELECT least(now(), c.estimate + INTERVAL '10 seconds') FROM internal.clock_check c
);
COMMENT ON FUNCTION internal.upkeep_time IS
    'The time by which upkeep makes minutes, hours and shares: now(), but no later than the last check of this clock says. A clock that lies moves no watermark.';
