CREATE OR REPLACE FUNCTION internal.stored_total(total numeric) RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN least(total, 9223372036854775807)::bigint;
COMMENT ON FUNCTION internal.stored_total IS 'A sum of counters as bigint; NULL stays NULL.';
