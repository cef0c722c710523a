CREATE OR REPLACE FUNCTION packed_texts(samples bytea)
RETURNS text[]
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE COST 30000
AS $$
DECLARE
    numbers bigint[] := packed_integers(samples);
    place integer := 6;
    length integer;
    texts text[] := '{}';
BEGIN
    -- Texts come behind the streams.
    IF get_byte(samples, 5) = 0 THEN
        place := (packed_stream(samples, place)).place;
    END IF;
    place := (packed_stream(samples, place)).place;
    WHILE place < length(samples) LOOP
        length := ('x' || encode(substr(samples, place + 1, 4), 'hex'))::bit(32)::integer;
        texts := texts || convert_from(substr(samples, place + 5, length), 'UTF8');
        place := place + 4 + length;
    END LOOP;
    RETURN ARRAY(SELECT texts[u.number + 1] FROM unnest(numbers) WITH ORDINALITY AS u (number, place) ORDER BY u.place);
END
$$;
COMMENT ON FUNCTION packed_texts IS 'What a packed series has, as packed_integers, of texts.';
