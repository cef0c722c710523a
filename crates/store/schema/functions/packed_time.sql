CREATE OR REPLACE FUNCTION packed_time(microseconds bigint)
RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT TIMESTAMPTZ '2000-01-01 00:00:00+00' + microseconds * INTERVAL '1 microsecond' $$;
COMMENT ON FUNCTION packed_time IS 'A time as packed readings have it: microseconds since 2000.';
