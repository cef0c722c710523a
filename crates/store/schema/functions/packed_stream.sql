CREATE OR REPLACE FUNCTION packed_stream(samples bytea, INOUT place integer, OUT integers bigint[])
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE COST 10000
AS $$
-- The form is that of crates/store/src/chunks/stream.rs; place is a number of bytes.
DECLARE
    length integer := ('x' || encode(substr(samples, place + 1, 4), 'hex'))::bit(32)::integer;
    is_signed boolean;
    zeros integer;
    value bigint;
    base bigint;
    runs integer;
    head integer;
    width integer;
    written bigint;
    packed bit varying;
    at integer := 1;
    n integer := 1;
    bits integer := 0;
BEGIN
    place := place + 4;
    integers := '{}';
    IF length = 0 THEN
        RETURN;
    END IF;
    is_signed := get_byte(samples, place) & 1 = 1;
    zeros := get_byte(samples, place) >> 1;
    value := ('x' || encode(substr(samples, place + 2, 8), 'hex'))::bit(64)::bigint;
    base := ('x' || encode(substr(samples, place + 10, 8), 'hex'))::bit(64)::bigint;
    runs := ('x' || encode(substr(samples, place + 18, 4), 'hex'))::bit(32)::integer;
    place := place + 21;
    FOR run IN 0 .. runs - 1 LOOP
        head := (get_byte(samples, place + 2 * run) << 8) | get_byte(samples, place + 2 * run + 1);
        bits := bits + (head >> 9) * ((head & 511) + 1);
    END LOOP;
    IF bits = 0 THEN
        -- It stands still or grows evenly.
        integers := ARRAY(SELECT value + base * s.step FROM generate_series(0, length - 1) AS s (step));
        place := place + 2 * runs;
        RETURN;
    END IF;
    packed := ('x' || encode(substr(samples, place + 2 * runs + 1, (bits + 7) / 8), 'hex'))::bit varying;
    integers[1] := value;
    FOR run IN 0 .. runs - 1 LOOP
        head := (get_byte(samples, place + 2 * run) << 8) | get_byte(samples, place + 2 * run + 1);
        width := head >> 9;
        IF width = 0 THEN
            FOR one IN 0 .. head & 511 LOOP
                value := value + base;
                n := n + 1;
                integers[n] := value;
            END LOOP;
        ELSIF is_signed THEN
            FOR one IN 0 .. head & 511 LOOP
                written := substring(packed, at, width)::bigint;
                value := value + (base + ((((written >> 1) & 9223372036854775807) # -(written & 1)) << zeros));
                n := n + 1;
                integers[n] := value;
                at := at + width;
            END LOOP;
        ELSE
            FOR one IN 0 .. head & 511 LOOP
                value := value + (base + (substring(packed, at, width)::bigint << zeros));
                n := n + 1;
                integers[n] := value;
                at := at + width;
            END LOOP;
        END IF;
    END LOOP;
    place := place + 2 * runs + (bits + 7) / 8;
END
$$;
COMMENT ON FUNCTION packed_stream IS
    'Integers that stand bit-packed in samples of a table of blocks from a byte on, and the byte behind them. For packed_integers.';
