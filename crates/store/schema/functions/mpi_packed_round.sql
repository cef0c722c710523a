-- The form is that of crates/store/src/writer/packed_cells.rs.
CREATE OR REPLACE FUNCTION mpi_packed_round(rounds bit varying, number integer)
RETURNS TABLE (
    ranks integer, least_rank integer, least_rank_nanoseconds bigint, most_rank integer, most_rank_nanoseconds bigint)
LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 1
AS $$
    SELECT substring(p.bits, 92 + number * p.w1, p.w1)::integer,
           CASE WHEN substring(p.bits, 92 + number * p.w1, p.w1)::integer > 0
               THEN p.first + substring(p.bits, 92 + p.count * p.w1 + number * p.w2, p.w2)::integer END,
           substring(p.bits, 92 + p.count * (p.w1 + p.w2) + number * p.w3, p.w3)::bigint,
           CASE WHEN substring(p.bits, 92 + number * p.w1, p.w1)::integer > 0
               THEN p.first + substring(p.bits, 92 + p.count * (p.w1 + p.w2 + p.w3) + number * p.w4, p.w4)::integer END,
           substring(p.bits, 92 + p.count * (p.w1 + p.w2 + p.w3 + p.w4) + number * p.w5, p.w5)::bigint
    FROM (
        SELECT bits, substring(bits, 1, 24)::integer AS count, substring(bits, 25, 32)::integer AS first,
               substring(bits, 57, 7)::integer AS w1, substring(bits, 64, 7)::integer AS w2, substring(bits, 71, 7)::integer AS w3,
               substring(bits, 78, 7)::integer AS w4, substring(bits, 85, 7)::integer AS w5
        FROM (SELECT rounds || B'' AS bits OFFSET 0) whole OFFSET 0) p
$$;
COMMENT ON FUNCTION mpi_packed_round IS
    'What an interval brought of a cell of a row of mpi_node_rows, given its rounds and the number of the cell: ranks that called it, 0: none, and those with the least and the most time in it.';
