CREATE OR REPLACE FUNCTION internal.mpi_packed_calls(packed bit varying)
RETURNS TABLE (
    call bigint, ranks bigint, elapsed_nanoseconds bigint, least_nanoseconds bigint, least_rank bigint, level bigint)
LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 40
BEGIN ATOMIC
    SELECT c1, c2, c3, c4, c5, c6 FROM internal.packed_rows(packed);
END;
COMMENT ON FUNCTION internal.mpi_packed_calls IS
    'The calls of a row of mpi_sampled_calls, a row for each.';
