-- Operations of detail on demand: some seconds of a rank in a row, in place of a row each 100 ms in detail_mpi_ops. Immutable once
-- released: later changes are new files.

CREATE TABLE detail_mpi_bins (
    time timestamptz NOT NULL,
    since timestamptz NOT NULL,
    job_id integer NOT NULL,
    rank integer NOT NULL,
    node_id integer NOT NULL,
    epoch timestamptz NOT NULL,
    source text NOT NULL,
    request_id bigint NOT NULL,
    attempt bigint NOT NULL,
    operations text[] NOT NULL,
    size_classes_bytes bigint[] NOT NULL,
    regions text[] NOT NULL,
    algorithms text[] NOT NULL,
    algorithm_sources text[] NOT NULL,
    bins integer[] NOT NULL,
    cells integer[] NOT NULL,
    calls bigint[] NOT NULL,
    bytes bigint[] NOT NULL,
    elapsed_nanoseconds bigint[] NOT NULL,
    longest_nanoseconds bigint[] NOT NULL,
    wait_nanoseconds bigint[] NOT NULL,
    received_bytes bigint[] NOT NULL,
    least_nanoseconds bigint[] NOT NULL
);
COMMENT ON TABLE detail_mpi_bins IS
    'MPI operations of a rank in bins of 100 ms, on demand: some seconds in a row, at most a minute, with the cells that changed in each bin, cumulative since epoch. operations to algorithm_sources name the cells that there are; element n of the arrays from bins on is of the same bin and cell. The view mpi_op_rows has a row for each.';
COMMENT ON COLUMN detail_mpi_bins.time IS 'End of the last bin.';
COMMENT ON COLUMN detail_mpi_bins.since IS 'End of the first bin.';
COMMENT ON COLUMN detail_mpi_bins.node_id IS 'The node that answered. A later answer to a request that has all of this takes its place.';
COMMENT ON COLUMN detail_mpi_bins.bins IS 'End of the bin: microseconds after since.';
COMMENT ON COLUMN detail_mpi_bins.cells IS 'Which cell: its place in operations and so on, from 1.';

-- Numbers that grow slowly: lz4 takes a fifth of the processor of pglz for them. Not every PostgreSQL has it.
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['bins', 'cells', 'calls', 'bytes', 'elapsed_nanoseconds', 'longest_nanoseconds', 'wait_nanoseconds',
                                'received_bytes', 'least_nanoseconds'] LOOP
        EXECUTE format('ALTER TABLE detail_mpi_bins ALTER COLUMN %I SET COMPRESSION lz4', name);
    END LOOP;
EXCEPTION WHEN feature_not_supported THEN
    NULL;
END $$;
SELECT create_hypertable('detail_mpi_bins', by_range('time', INTERVAL '1 hour'), create_default_indexes => false);
CREATE INDEX detail_mpi_bins_by_rank ON detail_mpi_bins (job_id, rank, time);

COMMENT ON TABLE detail_mpi_ops IS
    'As detail_mpi_bins, in the form of releases before it: a row each 100 ms. It gets no more rows.';
