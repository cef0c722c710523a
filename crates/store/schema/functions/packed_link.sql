CREATE OR REPLACE FUNCTION packed_link(
    samples bytea, metrics integer[], elements integer[], offsets integer[], series integer, link integer)
RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    -- Inlined, as packed_part.
    SELECT substr(samples, offsets[packed_place(metrics, elements, series, link)] + 1,
                  offsets[packed_place(metrics, elements, series, link) + 1]
                      - offsets[packed_place(metrics, elements, series, link)])
$$;
COMMENT ON FUNCTION packed_link IS 'One series of a link, from 0, of an hour that is packed in one row; NULL where the hour does not have it.';
