CREATE OR REPLACE FUNCTION internal.expiry_time() RETURNS timestamptz
LANGUAGE sql STABLE
RETURN (
    SELECT least(now(), c.trusted_at) FROM internal.clock_check c WHERE now() <= c.permitted_until
);
COMMENT ON FUNCTION internal.expiry_time IS
    'The time by which rows are dropped, thinned and packed: no later than that of the last check that believed this clock. NULL without a permission that holds; nothing is older than NULL.';
