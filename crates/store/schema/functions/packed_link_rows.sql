CREATE OR REPLACE FUNCTION packed_link_rows(
    samples bytea, metrics integer[], elements integer[], offsets integer[], link integer, readings integer)
RETURNS boolean[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 30000
AS $$
-- The form is that of crates/store/src/chunks/series.rs.
DECLARE
    part bytea;
    numbers bigint[];
    has_values boolean[] := '{}';
BEGIN
    FOR n IN 1 .. cardinality(metrics) LOOP
        CONTINUE WHEN metrics[n] < 0 OR coalesce(elements[n], 0) <> link;
        part := substr(samples, offsets[n] + 1, offsets[n + 1] - offsets[n]);
        IF get_byte(part, 5) = 1 THEN
            -- The first ones have a value, so many.
            numbers := ARRAY(SELECT generate_series(0, ('x' || encode(substr(part, 7, 4), 'hex'))::bit(32)::integer - 1));
        ELSE
            numbers := (packed_stream(part, 6)).integers;
        END IF;
        IF cardinality(numbers) = readings THEN
            RETURN NULL;
        END IF;
        FOR place IN 1 .. cardinality(numbers) LOOP
            has_values[numbers[place]::integer + 1] := true;
        END LOOP;
    END LOOP;
    RETURN has_values;
END
$$;
COMMENT ON FUNCTION packed_link_rows IS
    'Which readings of a packed hour have anything of a link, by their number, from 1: true, else NULL; NULL in place of the array where all have.';
