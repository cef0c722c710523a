CREATE OR REPLACE FUNCTION packed_beside(samples bytea, other bytea)
RETURNS bigint[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 60000
AS $$
-- The form is that of crates/store/src/chunks/series.rs.
DECLARE
    values bigint[];
    others bigint[];
    n integer := 0;
BEGIN
    IF samples IS NULL OR get_byte(samples, 0) <> 1 OR get_byte(samples, 5) <> 2 THEN
        RETURN packed_integers(samples);
    END IF;
    values := (packed_stream(samples || ''::bytea, 6)).integers;
    others := packed_integers(other);
    FOR place IN 1 .. cardinality(others) LOOP
        IF others[place] IS NOT NULL THEN
            n := n + 1;
            others[place] := others[place] + values[n];
        END IF;
    END LOOP;
    RETURN others;
END
$$;
COMMENT ON FUNCTION packed_beside IS
    'What a packed series has, as packed_integers, where it may be packed as what differs from another one.';
