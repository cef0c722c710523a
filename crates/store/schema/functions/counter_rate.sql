CREATE OR REPLACE FUNCTION public.counter_rate(before bigint, after bigint, interval_seconds double precision)
RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN public.counter_increase(before, after) / nullif(interval_seconds, 0);
COMMENT ON FUNCTION public.counter_rate IS 'Increase of a counter per second; NULL where the interval is 0 or a reading is missing.';
