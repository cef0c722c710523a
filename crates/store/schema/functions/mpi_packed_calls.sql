-- The form is that of crates/store/src/sampled_calls.rs; as in mpi_packed_cells.
CREATE OR REPLACE FUNCTION mpi_packed_calls(packed bit varying)
RETURNS TABLE (
    call bigint, ranks bigint, elapsed_nanoseconds bigint, least_nanoseconds bigint, least_rank bigint, level bigint)
LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 40
AS $$
    SELECT p.first[1] + substring(p.bits, 451 + n * p.w[1], p.w[1])::bigint,
           p.first[2] + substring(p.bits, 451 + p.count * p.w[1] + n * p.w[2], p.w[2])::bigint,
           p.first[3] + substring(p.bits, 451 + p.count * (p.w[1] + p.w[2]) + n * p.w[3], p.w[3])::bigint,
           p.first[4] + substring(p.bits, 451 + p.count * (p.w[1] + p.w[2] + p.w[3]) + n * p.w[4], p.w[4])::bigint,
           p.first[5] + substring(p.bits, 451 + p.count * (p.w[1] + p.w[2] + p.w[3] + p.w[4]) + n * p.w[5], p.w[5])::bigint,
           p.first[6] + substring(
               p.bits, 451 + p.count * (p.w[1] + p.w[2] + p.w[3] + p.w[4] + p.w[5]) + n * p.w[6], p.w[6])::bigint
    FROM (
        SELECT bits, substring(bits, 1, 24)::integer AS count,
               ARRAY(SELECT substring(bits, 25 + 71 * c, 7)::integer FROM generate_series(0, 5) c ORDER BY c) AS w,
               ARRAY(SELECT substring(bits, 32 + 71 * c, 64)::bigint FROM generate_series(0, 5) c ORDER BY c) AS first
        FROM (SELECT packed || B'' AS bits OFFSET 0) whole OFFSET 0) p
    CROSS JOIN LATERAL generate_series(0, p.count - 1) n
$$;
COMMENT ON FUNCTION mpi_packed_calls IS
    'The calls of a row of mpi_sampled_calls, a row for each.';
