-- Increase between two stored readings of one epoch. Stored counters are 63 bits wide and start again at 0. NULL of NULL without STRICT: a
-- function that is STRICT is not part of the plan, and is called for each row.
CREATE OR REPLACE FUNCTION public.counter_increase(before bigint, after bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN after >= before THEN after - before
            ELSE (after - before) + 9223372036854775807 + 1 END;
COMMENT ON FUNCTION public.counter_increase IS 'Increase of a counter between two readings of one epoch, modulo 2^63.';
