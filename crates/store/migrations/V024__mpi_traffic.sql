-- Traffic of jobs by operation, from a node to ranks: what shares of links are made of. Immutable once released: later
-- changes are new files.

CREATE TABLE mpi_traffic (
    time timestamptz NOT NULL,
    job_id integer NOT NULL,
    node_id integer NOT NULL,
    operation text NOT NULL,
    kind text NOT NULL,
    direction text NOT NULL,
    peer integer NOT NULL,
    epoch timestamptz NOT NULL,
    since timestamptz NOT NULL,
    source text NOT NULL,
    bytes bigint,
    messages bigint,
    PRIMARY KEY (job_id, node_id, operation, kind, direction, peer, epoch, time)
);
COMMENT ON TABLE mpi_traffic IS
    'Traffic between a job''s ranks on a node and other ranks by operation, cumulative since epoch; only cells that changed. Cells are additive: a message is in one of them, so that all kinds are summed.';
COMMENT ON COLUMN mpi_traffic.node_id IS 'The node whose ranks send, or read; as in job_rank.';
COMMENT ON COLUMN mpi_traffic.operation IS
    'Lower-case MPI name without the prefix; other: messages within no wrapped operation.';
COMMENT ON COLUMN mpi_traffic.kind IS
    'measured: messages that the MPI library reported. modelled: call arguments laid out by the algorithm that carries them out. logical: call arguments, to each member that they are meant for.';
COMMENT ON COLUMN mpi_traffic.direction IS
    'transmit: from the node to the peer. receive: from the peer to the node; one-sided reads only.';
COMMENT ON COLUMN mpi_traffic.peer IS 'Rank in MPI_COMM_WORLD.';
COMMENT ON COLUMN mpi_traffic.epoch IS 'When the node began to count the job: another one after a restart of its agent.';
COMMENT ON COLUMN mpi_traffic.since IS
    'What the cell grew by since its row before flowed between this time and that of the row.';
SELECT create_hypertable('mpi_traffic', by_range('time', INTERVAL '1 hour'), create_default_indexes => false);
-- Shares of links are made window by window.
CREATE INDEX mpi_traffic_time ON mpi_traffic (time);
