-- Cells of MPI operations as numbers, bit-packed, in place of arrays. Rows with arrays stay and are read as before. Immutable once
-- released: later changes are new files.

CREATE TABLE mpi_cell_key (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    operation text NOT NULL,
    size_class_bytes bigint NOT NULL,
    region text NOT NULL,
    algorithm text NOT NULL,
    algorithm_source text NOT NULL,
    used_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (operation, size_class_bytes, region, algorithm, algorithm_source)
);
COMMENT ON TABLE mpi_cell_key IS
    'The small numbers of cells in mpi_rank_rows and mpi_node_rows: operation, size class, region, algorithm and how it is known.';
COMMENT ON COLUMN mpi_cell_key.used_at IS
    'When a row had it last, to within two days. A number is removed once all rows that have it have expired.';

ALTER TABLE mpi_rank_rows ADD COLUMN cells bit varying;
ALTER TABLE mpi_rank_rows
    ALTER COLUMN operations DROP NOT NULL, ALTER COLUMN size_classes_bytes DROP NOT NULL, ALTER COLUMN regions DROP NOT NULL,
    ALTER COLUMN algorithms DROP NOT NULL, ALTER COLUMN algorithm_sources DROP NOT NULL, ALTER COLUMN calls DROP NOT NULL,
    ALTER COLUMN bytes DROP NOT NULL, ALTER COLUMN elapsed_nanoseconds DROP NOT NULL, ALTER COLUMN longest_nanoseconds DROP NOT NULL,
    ALTER COLUMN wait_nanoseconds DROP NOT NULL, ALTER COLUMN received_bytes DROP NOT NULL,
    ALTER COLUMN least_nanoseconds DROP NOT NULL;
COMMENT ON TABLE mpi_rank_rows IS
    'All MPI operations of a rank in one row, cumulative since epoch. At most one row a minute unless configured, in a long run one in five, only where a cell changed, and an exact one when the rank ends. The view mpi_op_rows has a row for each cell.';
COMMENT ON COLUMN mpi_rank_rows.cells IS
    'The cells, bit-packed: mpi_packed_cells(cells) has a row for each, with its number in mpi_cell_key. NULL in rows of a version before schema 45, which have arrays: element n of each is of the same cell.';

ALTER TABLE mpi_node_rows ADD COLUMN cells bit varying, ADD COLUMN rounds bit varying;
ALTER TABLE mpi_node_rows
    ALTER COLUMN operations DROP NOT NULL, ALTER COLUMN size_classes_bytes DROP NOT NULL, ALTER COLUMN regions DROP NOT NULL,
    ALTER COLUMN algorithms DROP NOT NULL, ALTER COLUMN algorithm_sources DROP NOT NULL, ALTER COLUMN calls DROP NOT NULL,
    ALTER COLUMN bytes DROP NOT NULL, ALTER COLUMN elapsed_nanoseconds DROP NOT NULL, ALTER COLUMN longest_nanoseconds DROP NOT NULL,
    ALTER COLUMN wait_nanoseconds DROP NOT NULL, ALTER COLUMN received_bytes DROP NOT NULL,
    ALTER COLUMN least_nanoseconds DROP NOT NULL, ALTER COLUMN ranks DROP NOT NULL, ALTER COLUMN least_ranks DROP NOT NULL,
    ALTER COLUMN least_rank_nanoseconds DROP NOT NULL, ALTER COLUMN most_ranks DROP NOT NULL,
    ALTER COLUMN most_rank_nanoseconds DROP NOT NULL;
COMMENT ON COLUMN mpi_node_rows.cells IS
    'The sums of its cells, bit-packed as in mpi_rank_rows. NULL in rows of a version before schema 45, which have arrays.';
COMMENT ON COLUMN mpi_node_rows.rounds IS
    'What the interval brought, bit-packed: mpi_packed_round(rounds, n) has of the nth cell how many ranks called it, and which spent the least and the most time in it.';
