CREATE OR REPLACE FUNCTION internal.claims_overlap(
    start_time timestamptz, end_time timestamptz, other_start_time timestamptz, other_end_time timestamptz)
RETURNS boolean
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT least(coalesce(end_time, now() + INTERVAL '1 hour'), coalesce(other_end_time, now() + INTERVAL '1 hour'))
           - greatest(start_time, other_start_time)
        > least(INTERVAL '5 seconds', least(coalesce(end_time, now() + INTERVAL '1 hour') - start_time,
                                            coalesce(other_end_time, now() + INTERVAL '1 hour') - other_start_time) / 2);
END;
COMMENT ON FUNCTION internal.claims_overlap IS
    'Whether two nodes say that they run the same rank at one time. A rank that moved to another node does not overlap: clocks differ by less than five seconds.';
