-- Neither STRICT nor least(): PostgreSQL puts it into the queries that call it, and it costs nothing.
CREATE OR REPLACE FUNCTION internal.at_most_one(ratio double precision) RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN ratio > 1 THEN 1 ELSE ratio END;
COMMENT ON FUNCTION internal.at_most_one IS
    'A share of time, at most 1: times of readings that are not exact may make it a little larger. NULL of NULL.';
