CREATE OR REPLACE FUNCTION internal.mpi_packed_cells(cells bit varying)
RETURNS TABLE (
    number integer, cell_id bigint, calls bigint, bytes bigint, elapsed_nanoseconds bigint, longest_nanoseconds bigint,
    wait_nanoseconds bigint, received_bytes bigint, least_nanoseconds bigint)
LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 10
BEGIN ATOMIC
    SELECT number, c1, c2, c3, c4, c5, c6, c7, c8 FROM internal.packed_rows(cells);
END;
COMMENT ON FUNCTION internal.mpi_packed_cells IS
    'The cells of a row of mpi_rank_rows or mpi_node_rows, a row for each; number: its index among them, from 0.';
