-- The form is that of crates/store/src/writer/packed_cells.rs. Each OFFSET 0 keeps what is inside from being computed again for each
-- cell; bits are taken out of the table once.
CREATE OR REPLACE FUNCTION mpi_packed_cells(cells bit varying)
RETURNS TABLE (
    number integer, cell_id integer, calls bigint, bytes bigint, elapsed_nanoseconds bigint, longest_nanoseconds bigint,
    wait_nanoseconds bigint, received_bytes bigint, least_nanoseconds bigint)
LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 10
AS $$
    SELECT n, p.first + substring(p.bits, 113 + n * p.w1, p.w1)::integer,
           substring(p.bits, p.at2 + n * p.w2, p.w2)::bigint, substring(p.bits, p.at3 + n * p.w3, p.w3)::bigint,
           substring(p.bits, p.at4 + n * p.w4, p.w4)::bigint, substring(p.bits, p.at5 + n * p.w5, p.w5)::bigint,
           -- A bit for each cell that has it, and the values of those.
           CASE WHEN get_bit(p.bits, p.at6 - 1 + n) = 1 THEN substring(
               p.bits, p.at6 + p.count + bit_count(substring(p.bits, p.at6, n))::integer * p.w6, p.w6)::bigint END,
           CASE WHEN get_bit(p.bits, p.at7 - 1 + n) = 1 THEN substring(
               p.bits, p.at7 + p.count + bit_count(substring(p.bits, p.at7, n))::integer * p.w7, p.w7)::bigint END,
           CASE WHEN get_bit(p.bits, p.at8 - 1 + n) = 1 THEN substring(
               p.bits, p.at8 + p.count + bit_count(substring(p.bits, p.at8, n))::integer * p.w8, p.w8)::bigint END
    FROM (
        SELECT *, at7 + count + bit_count(substring(bits, at7, count))::integer * w7 AS at8
        FROM (
            SELECT *, at6 + count + bit_count(substring(bits, at6, count))::integer * w6 AS at7
            FROM (
                SELECT *, 113 + count * w1 AS at2, 113 + count * (w1 + w2) AS at3, 113 + count * (w1 + w2 + w3) AS at4,
                       113 + count * (w1 + w2 + w3 + w4) AS at5, 113 + count * (w1 + w2 + w3 + w4 + w5) AS at6
                FROM (
                    SELECT bits, substring(bits, 1, 24)::integer AS count, substring(bits, 25, 32)::integer AS first,
                           substring(bits, 57, 7)::integer AS w1, substring(bits, 64, 7)::integer AS w2,
                           substring(bits, 71, 7)::integer AS w3, substring(bits, 78, 7)::integer AS w4,
                           substring(bits, 85, 7)::integer AS w5, substring(bits, 92, 7)::integer AS w6,
                           substring(bits, 99, 7)::integer AS w7, substring(bits, 106, 7)::integer AS w8
                    FROM (SELECT cells || B'' AS bits OFFSET 0) whole OFFSET 0) heads OFFSET 0) fixed OFFSET 0) waits OFFSET 0) p
    CROSS JOIN LATERAL generate_series(0, p.count - 1) n
$$;
COMMENT ON FUNCTION mpi_packed_cells IS
    'The cells of a row of mpi_rank_rows or mpi_node_rows, a row for each; number: its index among them, from 0.';
