CREATE OR REPLACE FUNCTION internal.job_final_cells(job bigint)
RETURNS TABLE (
    operation text, size_class_bytes bigint, algorithm text, algorithm_source text, calls bigint, bytes bigint, received_bytes bigint,
    elapsed_seconds double precision, wait_seconds double precision, longest_seconds double precision)
LANGUAGE sql STABLE ROWS 20
BEGIN ATOMIC
    SELECT split_part(f.operations[p.c1], E'\t', 1), p.c8, split_part(f.operations[p.c1], E'\t', 2),
           split_part(f.operations[p.c1], E'\t', 3), p.c2, p.c3, p.c7, p.c4 * (f.unit_nanoseconds / 1e9::double precision),
           p.c6 * (f.unit_nanoseconds / 1e9::double precision), p.c5 * (f.unit_nanoseconds / 1e9::double precision)
    FROM internal.job_final f
    CROSS JOIN LATERAL (SELECT * FROM internal.packed_rows(f.cells) OFFSET 0) p
    WHERE f.job_id = job_final_cells.job;
END;
COMMENT ON FUNCTION internal.job_final_cells IS
    'Final totals of a job over all ranks by operation, size class and algorithm.';
