-- All functions that read what crates/packed writes: packed_rows the rows of crates/packed/src/rows.rs, packed_numbers those of
-- crates/packed/src/numbers.rs, the others the series of crates/packed/src/series.rs and stream.rs in a row of a table of blocks.
CREATE OR REPLACE FUNCTION internal.packed_rows(packed bit varying)
RETURNS TABLE (
    number integer, c1 bigint, c2 bigint, c3 bigint, c4 bigint, c5 bigint, c6 bigint, c7 bigint, c8 bigint)
LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 10
BEGIN ATOMIC
    -- Inlined, so that only columns that a query uses are taken. The form is that of crates/packed/src/rows.rs: widths w, ends of bases
    -- z, whether some rows lack a number f. Each OFFSET 0 keeps what is inside from being computed again for each row.
    SELECT n,
        p.b1 + substring(p.bits, p.at1 + n * p.w1, p.w1)::bigint, p.b2 + substring(p.bits, p.at2 + n * p.w2, p.w2)::bigint,
        p.b3 + substring(p.bits, p.at3 + n * p.w3, p.w3)::bigint, p.b4 + substring(p.bits, p.at4 + n * p.w4, p.w4)::bigint,
        p.b5 + substring(p.bits, p.at5 + n * p.w5, p.w5)::bigint,
        -- A bit for each row that has a number, and the numbers of those.
        CASE WHEN NOT p.f6 THEN substring(p.bits, p.at6 + n * p.w6, p.w6)::bigint
             WHEN get_bit(p.bits, p.at6 - 1 + n) = 1 THEN substring(
                 p.bits, p.at6 + p.count + bit_count(substring(p.bits, p.at6, n))::integer * p.w6, p.w6)::bigint END,
        CASE WHEN NOT p.f7 THEN substring(p.bits, p.at7 + n * p.w7, p.w7)::bigint
             WHEN get_bit(p.bits, p.at7 - 1 + n) = 1 THEN substring(
                 p.bits, p.at7 + p.count + bit_count(substring(p.bits, p.at7, n))::integer * p.w7, p.w7)::bigint END,
        CASE WHEN NOT p.f8 THEN substring(p.bits, p.at8 + n * p.w8, p.w8)::bigint
             WHEN get_bit(p.bits, p.at8 - 1 + n) = 1 THEN substring(
                 p.bits, p.at8 + p.count + bit_count(substring(p.bits, p.at8, n))::integer * p.w8, p.w8)::bigint END
    FROM (
        SELECT *, at7 + CASE WHEN f7 THEN count + bit_count(substring(bits, at7, count))::integer * w7 ELSE count * w7 END AS at8
        FROM (
            SELECT *, at6 + CASE WHEN f6 THEN count + bit_count(substring(bits, at6, count))::integer * w6 ELSE count * w6 END AS at7,
                   (y1 >> 1) # -(y1 & 1) AS b1, (y2 >> 1) # -(y2 & 1) AS b2, (y3 >> 1) # -(y3 & 1) AS b3,
                   (y4 >> 1) # -(y4 & 1) AS b4, (y5 >> 1) # -(y5 & 1) AS b5
            FROM (
                SELECT *, at1 + count * w1 AS at2, at1 + count * (w1 + w2) AS at3, at1 + count * (w1 + w2 + w3) AS at4,
                       at1 + count * (w1 + w2 + w3 + w4) AS at5, at1 + count * (w1 + w2 + w3 + w4 + w5) AS at6
                FROM (
                    SELECT *, 129 + z5 AS at1, substring(bits, 129, z1)::bigint AS y1, substring(bits, 129 + z1, z2 - z1)::bigint AS y2,
                           substring(bits, 129 + z2, z3 - z2)::bigint AS y3, substring(bits, 129 + z3, z4 - z3)::bigint AS y4,
                           substring(bits, 129 + z4, z5 - z4)::bigint AS y5
                    FROM (
                        SELECT bits, substring(bits, 1, 24)::integer AS count,
                               substring(bits, 25, 7)::integer AS w1, substring(bits, 32, 7)::integer AS w2,
                               substring(bits, 39, 7)::integer AS w3, substring(bits, 46, 7)::integer AS w4,
                               substring(bits, 53, 7)::integer AS w5, substring(bits, 60, 7)::integer AS w6,
                               substring(bits, 67, 7)::integer AS w7, substring(bits, 74, 7)::integer AS w8,
                               substring(bits, 81, 9)::integer AS z1, substring(bits, 90, 9)::integer AS z2,
                               substring(bits, 99, 9)::integer AS z3, substring(bits, 108, 9)::integer AS z4,
                               substring(bits, 117, 9)::integer AS z5,
                               get_bit(bits, 125) = 1 AS f6, get_bit(bits, 126) = 1 AS f7, get_bit(bits, 127) = 1 AS f8
                        -- Out of the table once.
                        FROM (SELECT packed || B'' AS bits OFFSET 0) whole OFFSET 0) heads OFFSET 0) bases OFFSET 0) fixed OFFSET 0) gaps
        OFFSET 0) p
    CROSS JOIN LATERAL generate_series(0, p.count - 1) n;
END;
COMMENT ON FUNCTION internal.packed_rows IS
    'The rows of some that are bit-packed, by their index, from 0; NULL where one has no number in columns 6 to 8. The functions that name the columns are mpi_packed_cells, mpi_packed_round, mpi_packed_calls.';

CREATE OR REPLACE FUNCTION internal.packed_numbers(packed bit varying)
RETURNS bigint[]
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE COST 1000
SET search_path = ''
AS $$
-- The form is that of crates/packed/src/numbers.rs.
DECLARE
    count integer := substring(packed, 1, 5)::integer;
    place integer := 6 + 6 * count;
    width integer;
    numbers bigint[] := '{}';
BEGIN
    FOR n IN 1 .. count LOOP
        width := substring(packed, 6 * n, 6)::integer;
        numbers[n] := substring(packed, place, width)::bigint;
        place := place + width;
    END LOOP;
    RETURN numbers;
END
$$;
COMMENT ON FUNCTION internal.packed_numbers IS
    'Some numbers that are bit-packed, without zeros at the end. The function that names them is mpi_packed_account.';

CREATE OR REPLACE FUNCTION internal.packed_bytes(scaled bigint)
RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT (scaled & 16777215) << (scaled >> 24)::integer;
END;
COMMENT ON FUNCTION internal.packed_bytes IS
    'Bytes that are rounded to seven digits, as shares of links have them: 24 bits, and above them by how many places these are moved.';

CREATE OR REPLACE FUNCTION internal.packed_shares(minutes bit varying, shares bit varying, contributors integer)
RETURNS TABLE (
    who integer, minute bigint, windows smallint, bytes bigint, low_bytes bigint, high_bytes bigint, counted_bytes bigint,
    peak_counted_bytes bigint)
-- A session plans it once: planned with each query that calls it, it would take several times as long as unpacking an hour.
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = '' SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    RETURN QUERY
    SELECT s.who, m.minutes[s.at], m.windows[s.at]::smallint, internal.packed_bytes(s.bytes), internal.packed_bytes(s.bytes - s.less),
           internal.packed_bytes(s.bytes + s.more),
           CASE WHEN m.are_counted[s.at] = 1 THEN (sum(internal.packed_bytes(s.bytes)) OVER (PARTITION BY s.at))::bigint END,
           internal.packed_bytes(m.peaks[s.at])
    FROM (
        SELECT array_agg(p.c1 ORDER BY p.number) AS minutes, array_agg(p.c2 ORDER BY p.number) AS windows,
               array_agg(p.c3 ORDER BY p.number) AS are_counted, array_agg(p.c6 ORDER BY p.number) AS peaks
        FROM internal.packed_rows(packed_shares.minutes) p
    ) m
    CROSS JOIN LATERAL (
        -- On its own, or each is unpacked as often as it is named.
        SELECT p.number / contributors + 1 AS at, p.number % contributors + 1 AS who, p.c6 AS bytes, p.c7 AS less, p.c8 AS more
        FROM internal.packed_rows(packed_shares.shares) p OFFSET 0
    ) s
    WHERE s.bytes IS NOT NULL;
END $$;
COMMENT ON FUNCTION internal.packed_shares IS
    'What a row of link_share_hours has of each of its contributors (who, from 1) in each minute of the hour.';

CREATE OR REPLACE FUNCTION internal.packed_time(microseconds bigint)
RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT TIMESTAMPTZ '2000-01-01 00:00:00+00' + microseconds * INTERVAL '1 microsecond';
END;
COMMENT ON FUNCTION internal.packed_time IS 'A time as packed readings have it: microseconds since 2000.';

CREATE OR REPLACE FUNCTION internal.packed_stream(samples bytea, INOUT place integer, OUT integers bigint[])
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE COST 10000
SET search_path = ''
AS $$
-- The form is that of crates/packed/src/stream.rs; place is a number of bytes.
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
COMMENT ON FUNCTION internal.packed_stream IS
    'Integers that stand bit-packed in samples of a table of blocks from a byte on, and the byte behind them. For packed_integers.';

CREATE OR REPLACE FUNCTION internal.packed_integers(samples bytea)
RETURNS bigint[]
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE COST 30000
SET search_path = ''
AS $$
-- The form is that of crates/packed/src/series.rs.
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
        RETURN (internal.packed_stream(whole, place)).integers;
    ELSIF get_byte(whole, 5) <> 0 THEN
        RAISE EXCEPTION 'a series that is packed as what differs from another one: use packed_beside';
    END IF;
    SELECT s.place, s.integers INTO place, numbers FROM internal.packed_stream(whole, place) s;
    SELECT s.integers INTO values FROM internal.packed_stream(whole, place) s;
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
COMMENT ON FUNCTION internal.packed_integers IS
    'What a packed series has, by the number of the reading in its hour, from 1: NULL for readings that have no value.';

CREATE OR REPLACE FUNCTION internal.packed_texts(samples bytea)
RETURNS text[]
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE COST 30000
SET search_path = ''
AS $$
DECLARE
    numbers bigint[] := internal.packed_integers(samples);
    place integer := 6;
    length integer;
    texts text[] := '{}';
BEGIN
    -- Texts come behind the streams.
    IF get_byte(samples, 5) = 0 THEN
        place := (internal.packed_stream(samples, place)).place;
    END IF;
    place := (internal.packed_stream(samples, place)).place;
    WHILE place < length(samples) LOOP
        length := ('x' || encode(substr(samples, place + 1, 4), 'hex'))::bit(32)::integer;
        texts := texts || convert_from(substr(samples, place + 5, length), 'UTF8');
        place := place + 4 + length;
    END LOOP;
    RETURN ARRAY(SELECT texts[u.number + 1] FROM unnest(numbers) WITH ORDINALITY AS u (number, place) ORDER BY u.place);
END
$$;
COMMENT ON FUNCTION internal.packed_texts IS 'What a packed series has, as packed_integers, of texts.';

CREATE OR REPLACE FUNCTION internal.packed_beside(samples bytea, other bytea)
RETURNS bigint[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 60000
SET search_path = ''
AS $$
-- The form is that of crates/packed/src/series.rs.
DECLARE
    values bigint[];
    others bigint[];
    n integer := 0;
BEGIN
    IF samples IS NULL OR get_byte(samples, 0) <> 1 OR get_byte(samples, 5) <> 2 THEN
        RETURN internal.packed_integers(samples);
    END IF;
    values := (internal.packed_stream(samples || ''::bytea, 6)).integers;
    others := internal.packed_integers(other);
    FOR place IN 1 .. cardinality(others) LOOP
        IF others[place] IS NOT NULL THEN
            n := n + 1;
            others[place] := others[place] + values[n];
        END IF;
    END LOOP;
    RETURN others;
END
$$;
COMMENT ON FUNCTION internal.packed_beside IS
    'What a packed series has, as packed_integers, where it may be packed as what differs from another one.';

CREATE OR REPLACE FUNCTION internal.packed_part(samples bytea, metrics integer[], offsets integer[], series integer)
RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    -- Inlined, and then only these bytes are read of a row of a table of blocks.
    SELECT substr(samples, offsets[array_position(metrics, series)] + 1,
                  offsets[array_position(metrics, series) + 1] - offsets[array_position(metrics, series)]);
END;
COMMENT ON FUNCTION internal.packed_part IS 'One series of an hour that is packed in one row; NULL where the hour does not have it.';

CREATE OR REPLACE FUNCTION internal.packed_place(metrics integer[], elements integer[], series integer, link integer)
RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    -- Series of a metric lie one behind the other. Where the only link is the first one, none has a number.
    SELECT CASE
        WHEN elements IS NULL THEN CASE WHEN link = 0 THEN array_position(metrics, series) END
        WHEN metrics[array_position(elements, link, coalesce(array_position(metrics, series), cardinality(metrics) + 1))] = series
        THEN array_position(elements, link, coalesce(array_position(metrics, series), cardinality(metrics) + 1))
    END;
END;
COMMENT ON FUNCTION internal.packed_place IS 'Which series of an hour that is packed in one row is that of a metric and link; NULL where there is none.';

CREATE OR REPLACE FUNCTION internal.packed_link(
    samples bytea, metrics integer[], elements integer[], offsets integer[], series integer, link integer)
RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    -- Inlined, as packed_part.
    SELECT substr(samples, offsets[internal.packed_place(metrics, elements, series, link)] + 1,
                  offsets[internal.packed_place(metrics, elements, series, link) + 1]
                      - offsets[internal.packed_place(metrics, elements, series, link)]);
END;
COMMENT ON FUNCTION internal.packed_link IS 'One series of a link, from 0, of an hour that is packed in one row; NULL where the hour does not have it.';

CREATE OR REPLACE FUNCTION internal.packed_link_rows(
    samples bytea, metrics integer[], elements integer[], offsets integer[], link integer, readings integer)
RETURNS boolean[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 30000
SET search_path = ''
AS $$
-- The form is that of crates/packed/src/series.rs.
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
            numbers := (internal.packed_stream(part, 6)).integers;
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
COMMENT ON FUNCTION internal.packed_link_rows IS
    'Which readings of a packed hour have anything of a link, by their number, from 1: true, else NULL; NULL in place of the array where all have.';

CREATE OR REPLACE FUNCTION internal.packed_span(of_readings text, since timestamptz, until timestamptz)
RETURNS TABLE (first timestamptz, last timestamptz)
LANGUAGE plpgsql STABLE PARALLEL SAFE COST 100 ROWS 1
SET search_path = ''
AS $$
BEGIN
    RETURN QUERY
    SELECT w.first, w.last
    FROM internal.packed_state s
    CROSS JOIN LATERAL (
        SELECT greatest(s.packed_from, date_bin('1 hour', since, TIMESTAMPTZ '2000-01-01 00:00:00+00')) AS first,
               least(s.packed_until - INTERVAL '1 hour', until) AS last
    ) w
    WHERE s.readings = of_readings AND w.first <= w.last;
END
$$;
COMMENT ON FUNCTION internal.packed_span IS
    'When the first and the last packed hour with readings of a table from since to until begin; no row where all of that is rows.';
