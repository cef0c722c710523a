CREATE OR REPLACE FUNCTION counter_rate(before bigint, after bigint, interval_seconds double precision)
RETURNS double precision
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN counter_increase(before, after) / nullif(interval_seconds, 0);
COMMENT ON FUNCTION counter_rate IS 'Increase of a counter per second; NULL where the interval is 0 or a reading is missing.';
