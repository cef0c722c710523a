CREATE OR REPLACE FUNCTION packed_part(samples bytea, metrics integer[], offsets integer[], series integer)
RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    -- Inlined, and then only these bytes are read of a row of a table of blocks.
    SELECT substr(samples, offsets[array_position(metrics, series)] + 1,
                  offsets[array_position(metrics, series) + 1] - offsets[array_position(metrics, series)])
$$;
COMMENT ON FUNCTION packed_part IS 'One series of an hour that is packed in one row; NULL where the hour does not have it.';
