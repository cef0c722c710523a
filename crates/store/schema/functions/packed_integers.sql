CREATE OR REPLACE FUNCTION packed_integers(samples bytea)
RETURNS bigint[]
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE COST 30000
AS $$
-- The form is that of crates/store/src/chunks/series.rs.
DECLARE
    whole bytea := samples || ''::bytea; -- Out of the table once, and not for each byte.
    numbers bigint[];
    values bigint[];
    all_rows bigint[];
    place integer := 6;
BEGIN
    IF get_byte(whole, 0) <> 1 THEN
        RAISE EXCEPTION 'readings in a form that this version does not know: %', get_byte(whole, 0);
    ELSIF get_byte(whole, 5) = 1 THEN
        RETURN (packed_stream(whole, place)).integers;
    ELSIF get_byte(whole, 5) <> 0 THEN
        RAISE EXCEPTION 'a series that is packed as what differs from another one: use packed_beside';
    END IF;
    SELECT s.place, s.integers INTO place, numbers FROM packed_stream(whole, place) s;
    SELECT s.integers INTO values FROM packed_stream(whole, place) s;
    IF numbers[1] = 0 AND numbers[cardinality(numbers)] = cardinality(numbers) - 1 THEN
        RETURN values;
    END IF;
    all_rows := array_fill(NULL::bigint, ARRAY[numbers[cardinality(numbers)]::integer + 1]);
    FOR n IN 1 .. cardinality(numbers) LOOP
        all_rows[numbers[n] + 1] := values[n];
    END LOOP;
    RETURN all_rows;
END
$$;
COMMENT ON FUNCTION packed_integers IS
    'What a packed series has, by the number of the reading in its hour, from 1: NULL for readings that have no value.';
