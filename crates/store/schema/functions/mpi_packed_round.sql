CREATE OR REPLACE FUNCTION internal.mpi_packed_round(rounds bit varying, number integer)
RETURNS TABLE (
    ranks integer, least_rank integer, least_rank_nanoseconds bigint, most_rank integer, most_rank_nanoseconds bigint)
LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 1
BEGIN ATOMIC
    SELECT p.c1::integer, p.c6::integer, p.c2, p.c7::integer, p.c3
    FROM internal.packed_rows(rounds) p WHERE p.number = mpi_packed_round.number;
END;
COMMENT ON FUNCTION internal.mpi_packed_round IS
    'What an interval brought of a cell of a row of mpi_node_rows, given its rounds and the number of the cell: ranks that called it, 0: none, and those with the least and the most time in it.';
