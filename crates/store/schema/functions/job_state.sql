CREATE OR REPLACE FUNCTION internal.job_state(
    end_time timestamptz, ranks_lost bigint, ranks_silent bigint, reported_at timestamptz, at timestamptz)
RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT CASE
        WHEN end_time IS NOT NULL AND ranks_lost > 0 THEN 'lost'
        WHEN end_time IS NOT NULL AND ranks_silent > 0 THEN 'silent'
        WHEN end_time IS NOT NULL THEN 'ended'
        -- Agents report each job once a minute, whether its ranks call MPI or not.
        WHEN at - reported_at > internal.minutely_gap() THEN 'silent'
        ELSE 'running' END;
END;
COMMENT ON FUNCTION internal.job_state IS
    'State of a job: running: not ended, and a node reported it within minutely_gap(). silent: no node did, or its end was concluded from that. lost: ended, and a rank of it without MPI_Finalize. ended: ended otherwise. reported_at is when a node last reported it, by the clock of the database.';
