CREATE OR REPLACE FUNCTION at_most_one(ratio double precision) RETURNS double precision
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN least(ratio, 1);
COMMENT ON FUNCTION at_most_one IS 'A share that the moments of two readings may make a little larger than 1; NULL of NULL.';
