-- Packs cells of MPI operations as rows of ranks have them, given their numbers in mpi_cell_key: calls, bytes and nanoseconds inside.
-- Numbers have the full width and no base: the form is that of crates/packed/src/rows.rs. For rows that tests and benches make in SQL.
CREATE FUNCTION pg_temp.packed_cells(ids integer[], calls bigint[], bytes bigint[], elapsed bigint[]) RETURNS bit varying
LANGUAGE sql AS $$
    SELECT cardinality(ids)::bit(24) || 32::bit(7) || 64::bit(7) || 64::bit(7) || 64::bit(7) || 64::bit(7) || 0::bit(21) || 0::bit(45)
        || B'111' || string_agg(id::bit(32)::text, '' ORDER BY n)::bit varying
        || string_agg(c::bit(64)::text, '' ORDER BY n)::bit varying || string_agg(b::bit(64)::text, '' ORDER BY n)::bit varying
        || string_agg(e::bit(64)::text, '' ORDER BY n)::bit varying || string_agg(e::bit(64)::text, '' ORDER BY n)::bit varying
        || repeat('000', cardinality(ids))::bit varying
    FROM unnest(ids, calls, bytes, elapsed) WITH ORDINALITY u (id, c, b, e, n)
$$;
-- What an interval brought of as many cells: ranks that called each, the one with the least time, and that with the most.
CREATE FUNCTION pg_temp.packed_rounds(cells integer, ranks bigint, least_rank bigint, least_time bigint, most_rank bigint, most_time bigint)
RETURNS bit varying LANGUAGE sql AS $$
    SELECT cells::bit(24) || 64::bit(7) || 64::bit(7) || 64::bit(7) || 0::bit(14) || 64::bit(7) || 64::bit(7) || 0::bit(7) || 0::bit(45)
        || B'000' || string_agg(repeat(v::bit(64)::text, cells), '' ORDER BY n)::bit varying
    FROM unnest(ARRAY[ranks, least_time, most_time, least_rank, most_rank]) WITH ORDINALITY u (v, n)
$$;
