CREATE OR REPLACE FUNCTION packed_place(metrics integer[], elements integer[], series integer, link integer)
RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    -- Series of a metric lie one behind the other. Where the only link is the first one, none has a number.
    SELECT CASE
        WHEN elements IS NULL THEN CASE WHEN link = 0 THEN array_position(metrics, series) END
        WHEN metrics[array_position(elements, link, coalesce(array_position(metrics, series), cardinality(metrics) + 1))] = series
        THEN array_position(elements, link, coalesce(array_position(metrics, series), cardinality(metrics) + 1))
    END
$$;
COMMENT ON FUNCTION packed_place IS 'Which series of an hour that is packed in one row is that of a metric and link; NULL where there is none.';
