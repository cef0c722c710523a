-- MPI operations of a job's ranks on a node with all cells in one row, in place of a row for each. Immutable once released: later
-- changes are new files.

CREATE TABLE mpi_node_rows (
    time timestamptz NOT NULL,
    job_id integer NOT NULL,
    node_id integer NOT NULL,
    epoch timestamptz NOT NULL,
    since timestamptz NOT NULL,
    source text NOT NULL,
    is_whole boolean NOT NULL,
    operations text[] NOT NULL,
    size_classes_bytes bigint[] NOT NULL,
    regions text[] NOT NULL,
    algorithms text[] NOT NULL,
    algorithm_sources text[] NOT NULL,
    calls bigint[] NOT NULL,
    bytes bigint[] NOT NULL,
    elapsed_nanoseconds bigint[] NOT NULL,
    longest_nanoseconds bigint[] NOT NULL,
    wait_nanoseconds bigint[] NOT NULL,
    received_bytes bigint[] NOT NULL,
    least_nanoseconds bigint[] NOT NULL,
    ranks integer[] NOT NULL,
    least_ranks integer[] NOT NULL,
    least_rank_nanoseconds bigint[] NOT NULL,
    most_ranks integer[] NOT NULL,
    most_rank_nanoseconds bigint[] NOT NULL,
    PRIMARY KEY (job_id, node_id, epoch, time)
);
COMMENT ON TABLE mpi_node_rows IS
    'MPI operations of a job summed over its ranks on a node, as mpi_node_cells, with the cells in one row: element n of each array is of the same cell. The view mpi_op_series has a row for each cell.';
COMMENT ON COLUMN mpi_node_rows.epoch IS
    'When the node began to count the job: another one after a restart of its agent. What ranks did before is in no cell; mpi_rank_rows has it.';
COMMENT ON COLUMN mpi_node_rows.since IS 'Where the interval began that ends at time.';
COMMENT ON COLUMN mpi_node_rows.is_whole IS
    'Whether all cells are in it; else only those that grew in the interval. The totals are those of the last such row and the rows after it.';
COMMENT ON COLUMN mpi_node_rows.ranks IS 'Ranks of the node that called it in the interval; 0: the cell did not grow.';
COMMENT ON COLUMN mpi_node_rows.least_ranks IS 'Of these the one with the least time in it in the interval; in MPI_COMM_WORLD.';
COMMENT ON COLUMN mpi_node_rows.least_rank_nanoseconds IS 'Its time in the interval.';
COMMENT ON COLUMN mpi_node_rows.most_ranks IS 'Of these the one with the most time in it in the interval; in MPI_COMM_WORLD.';
COMMENT ON COLUMN mpi_node_rows.most_rank_nanoseconds IS 'Its time in the interval.';
SELECT create_hypertable('mpi_node_rows', by_range('time', INTERVAL '1 hour'), create_default_indexes => false);
