-- MPI operations in the forms that a site's database can hold: all cells of a rank in one row a minute, and the sums over a node's
-- ranks more often. Immutable once released: later changes are new files.

CREATE TABLE mpi_rank_rows (
    time timestamptz NOT NULL,
    job_id integer NOT NULL,
    rank integer NOT NULL,
    epoch timestamptz NOT NULL,
    source text NOT NULL,
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
    PRIMARY KEY (job_id, rank, epoch, time)
);
COMMENT ON TABLE mpi_rank_rows IS
    'All MPI operations of a rank in one row, cumulative since epoch: element n of each array is of the same cell. At most one row a minute unless configured, only where a cell changed, and an exact one when the rank ends. The view mpi_op_rows has a row for each cell.';
COMMENT ON COLUMN mpi_rank_rows.time IS 'End of the last time bin that is in it.';
SELECT create_hypertable('mpi_rank_rows', by_range('time', INTERVAL '1 hour'), create_default_indexes => false);

CREATE TABLE mpi_node_cells (
    time timestamptz NOT NULL,
    job_id integer NOT NULL,
    node_id integer NOT NULL,
    operation text NOT NULL,
    size_class_bytes bigint NOT NULL,
    region text NOT NULL,
    algorithm text NOT NULL,
    algorithm_source text NOT NULL,
    epoch timestamptz NOT NULL,
    since timestamptz NOT NULL,
    source text NOT NULL,
    calls bigint,
    bytes bigint,
    elapsed_seconds double precision,
    longest_seconds double precision,
    wait_seconds double precision,
    received_bytes bigint,
    least_seconds double precision,
    ranks integer NOT NULL,
    least_rank integer NOT NULL,
    least_rank_seconds double precision NOT NULL,
    most_rank integer NOT NULL,
    most_rank_seconds double precision NOT NULL,
    PRIMARY KEY (job_id, node_id, operation, size_class_bytes, region, algorithm, epoch, time)
);
COMMENT ON TABLE mpi_node_cells IS
    'MPI operations of a job summed over its ranks on a node, cumulative since epoch, as of the end of an interval; only cells that grew in it.';
COMMENT ON COLUMN mpi_node_cells.epoch IS
    'When the node began to count the job: another one after a restart of its agent. What ranks did before is in no cell; mpi_rank_rows has it.';
COMMENT ON COLUMN mpi_node_cells.since IS 'Where the interval began that ends at time.';
COMMENT ON COLUMN mpi_node_cells.ranks IS 'Ranks of the node that called it in the interval.';
COMMENT ON COLUMN mpi_node_cells.least_rank IS 'Of these the one with the least time in it in the interval; in MPI_COMM_WORLD.';
COMMENT ON COLUMN mpi_node_cells.least_rank_seconds IS 'Its time in the interval.';
COMMENT ON COLUMN mpi_node_cells.most_rank IS 'Of these the one with the most time in it in the interval; in MPI_COMM_WORLD.';
COMMENT ON COLUMN mpi_node_cells.most_rank_seconds IS 'Its time in the interval.';
SELECT create_hypertable('mpi_node_cells', by_range('time', INTERVAL '1 hour'), create_default_indexes => false);
