-- Calls of collectives that all members sampled: what their waiting is made of. Immutable once released: later changes are new
-- files.

CREATE TABLE mpi_sampled_calls (
    time timestamptz NOT NULL,
    job_id integer NOT NULL,
    node_id integer NOT NULL,
    comm_group bigint NOT NULL,
    operation text NOT NULL,
    size_class_bytes bigint NOT NULL,
    cell bigint NOT NULL,
    group_size integer NOT NULL,
    members text NOT NULL,
    calls bigint[] NOT NULL,
    ranks bigint[] NOT NULL,
    elapsed_nanoseconds bigint[] NOT NULL,
    least_nanoseconds bigint[] NOT NULL,
    least_ranks bigint[] NOT NULL,
    levels bigint[] NOT NULL,
    PRIMARY KEY (job_id, time, node_id, comm_group, operation, size_class_bytes, cell)
);
COMMENT ON TABLE mpi_sampled_calls IS
    'Single calls of collectives, as a node''s ranks sampled them: all members of a communicator sample the same ones. Who spent the least arrived last, and what others spent beyond it was waiting. A row for each node, members, operation, size class and second.';
COMMENT ON COLUMN mpi_sampled_calls.comm_group IS 'Names the members: a hash of their world ranks in their order.';
COMMENT ON COLUMN mpi_sampled_calls.cell IS 'Tells calls apart that are counted apart: a hash of algorithm and root.';
COMMENT ON COLUMN mpi_sampled_calls.members IS 'World ranks of the members, for people: FIRST-LAST:DISTANCE, the first runs of many.';
COMMENT ON COLUMN mpi_sampled_calls.calls IS 'Running number of each call among those of the row''s members, operation, size class and cell.';
COMMENT ON COLUMN mpi_sampled_calls.ranks IS 'Of each call: the node''s ranks that sampled it.';
COMMENT ON COLUMN mpi_sampled_calls.elapsed_nanoseconds IS 'Of each call: time in it, summed over these ranks.';
COMMENT ON COLUMN mpi_sampled_calls.least_nanoseconds IS 'Of each call: time of the rank with the least.';
COMMENT ON COLUMN mpi_sampled_calls.least_ranks IS 'Of each call: that rank, in MPI_COMM_WORLD.';
COMMENT ON COLUMN mpi_sampled_calls.levels IS 'Of each call: it stands for 2^level calls.';
SELECT create_hypertable('mpi_sampled_calls', by_range('time', INTERVAL '1 hour'), create_default_indexes => false);
