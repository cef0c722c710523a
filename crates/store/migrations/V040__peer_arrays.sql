-- Traffic of jobs and of ranks with all peers in one row, in place of a row for each. Immutable once released: later changes are new
-- files.

CREATE TABLE mpi_node_traffic (
    time timestamptz NOT NULL,
    job_id integer NOT NULL,
    node_id integer NOT NULL,
    operation text NOT NULL,
    kind text NOT NULL,
    direction text NOT NULL,
    epoch timestamptz NOT NULL,
    since timestamptz NOT NULL,
    source text NOT NULL,
    is_whole boolean NOT NULL,
    peers integer[] NOT NULL,
    bytes bigint[] NOT NULL,
    messages bigint[] NOT NULL,
    PRIMARY KEY (job_id, node_id, operation, kind, direction, epoch, time)
);
COMMENT ON TABLE mpi_node_traffic IS
    'Traffic between a job''s ranks on a node and other ranks by operation, as mpi_traffic, with the peers in one row: element n of each array is of the same peer. The view mpi_traffic_rows has a row for each peer.';
COMMENT ON COLUMN mpi_node_traffic.node_id IS 'The node whose ranks send, or read; as in job_rank.';
COMMENT ON COLUMN mpi_node_traffic.operation IS
    'Lower-case MPI name without the prefix; other: messages within no wrapped operation.';
COMMENT ON COLUMN mpi_node_traffic.kind IS
    'measured: messages that the MPI library reported. modelled: call arguments laid out by the algorithm that carries them out. logical: call arguments, to each member that they are meant for.';
COMMENT ON COLUMN mpi_node_traffic.direction IS
    'transmit: from the node to the peer. receive: from the peer to the node; one-sided reads only.';
COMMENT ON COLUMN mpi_node_traffic.epoch IS
    'When the node began to count the job: another one after a restart of its agent.';
COMMENT ON COLUMN mpi_node_traffic.since IS
    'What the peers'' sums grew by since their row before flowed between this time and that of the row.';
COMMENT ON COLUMN mpi_node_traffic.is_whole IS
    'Whether all peers are in it; else only those that changed since the row before. The totals are those of the last such row and the rows after it.';
COMMENT ON COLUMN mpi_node_traffic.peers IS 'Ranks in MPI_COMM_WORLD.';
SELECT create_hypertable('mpi_node_traffic', by_range('time', INTERVAL '1 hour'), create_default_indexes => false);
-- Shares of links are made window by window.
CREATE INDEX mpi_node_traffic_time ON mpi_node_traffic (time);

CREATE TABLE mpi_rank_peers (
    time timestamptz NOT NULL,
    job_id integer NOT NULL,
    rank integer NOT NULL,
    kind text NOT NULL,
    epoch timestamptz NOT NULL,
    source text NOT NULL,
    is_whole boolean NOT NULL,
    peers integer[] NOT NULL,
    bytes bigint[] NOT NULL,
    messages bigint[] NOT NULL,
    PRIMARY KEY (job_id, rank, kind, epoch, time)
);
COMMENT ON TABLE mpi_rank_peers IS
    'Traffic from a rank to others, cumulative since epoch, as mpi_peers, with the peers in one row: element n of each array is of the same peer. The view mpi_peer_rows has a row for each peer.';
COMMENT ON COLUMN mpi_rank_peers.kind IS
    'logical: call arguments. wire: messages that the library really sent, also inside collectives.';
COMMENT ON COLUMN mpi_rank_peers.is_whole IS
    'Whether all peers are in it; else only those that changed since the row before. The totals are those of the last such row and the rows after it.';
COMMENT ON COLUMN mpi_rank_peers.peers IS 'Ranks in MPI_COMM_WORLD.';
SELECT create_hypertable('mpi_rank_peers', by_range('time', INTERVAL '1 hour'), create_default_indexes => false);
