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
    firsts integer[] := '{}';
    widths integer[] := '{}';
    starts integer[] := '{}';
    counts integer[] := '{}';
    packed bit varying;
    n integer := 0;
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
    FOR run IN 1 .. runs LOOP
        head := (get_byte(samples, place + 2 * run - 2) << 8) | get_byte(samples, place + 2 * run - 1);
        firsts[run] := n;
        widths[run] := head >> 9;
        starts[run] := bits;
        counts[run] := (head & 511) + 1;
        n := n + counts[run];
        bits := bits + widths[run] * counts[run];
    END LOOP;
    IF bits = 0 THEN
        -- It stands still or grows evenly.
        integers := ARRAY(SELECT value + base * s.step FROM generate_series(0, length - 1) AS s (step));
        place := place + 2 * runs;
        RETURN;
    END IF;
    packed := ('x' || encode(substr(samples, place + 2 * runs + 1, (bits + 7) / 8), 'hex'))::bit varying;
    -- One statement: a loop takes several times as long.
    integers := value || ARRAY(
        SELECT (value + sum(base + CASE
                    WHEN w.written IS NULL THEN 0
                    WHEN is_signed THEN (((w.written >> 1) & 9223372036854775807) # -(w.written & 1)) << zeros
                    ELSE w.written << zeros END) OVER (ORDER BY r.first + i.step ROWS UNBOUNDED PRECEDING))::bigint
        FROM unnest(firsts, widths, starts, counts) AS r (first, width, start, count)
        CROSS JOIN LATERAL generate_series(0, r.count - 1) AS i (step)
        CROSS JOIN LATERAL (SELECT CASE WHEN r.width > 0
            THEN substring(packed, r.start + i.step * r.width + 1, r.width)::bigint END AS written) w
        ORDER BY r.first + i.step);
    place := place + 2 * runs + (bits + 7) / 8;
END
$$;
COMMENT ON FUNCTION packed_stream IS
    'Integers that stand bit-packed in samples of a table of blocks from a byte on, and the byte behind them. For packed_integers.';
