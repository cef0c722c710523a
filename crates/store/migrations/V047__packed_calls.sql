-- Sampled calls of collectives as bits in place of six arrays. Rows with arrays stay and are read as before. Immutable once released:
-- later changes are new files.

ALTER TABLE mpi_sampled_calls ADD COLUMN packed bit varying;
ALTER TABLE mpi_sampled_calls
    ALTER COLUMN calls DROP NOT NULL, ALTER COLUMN ranks DROP NOT NULL, ALTER COLUMN elapsed_nanoseconds DROP NOT NULL,
    ALTER COLUMN least_nanoseconds DROP NOT NULL, ALTER COLUMN least_ranks DROP NOT NULL, ALTER COLUMN levels DROP NOT NULL;
COMMENT ON COLUMN mpi_sampled_calls.packed IS
    'The calls, bit-packed: mpi_packed_calls(packed) has a row for each. NULL in rows of an earlier version, which have arrays: element n of each is of the same call.';
