-- What ranks and nodes report of MPI.
CREATE TABLE internal.mpi_pvars (
    time timestamptz NOT NULL,
    job_id bigint NOT NULL,
    rank integer NOT NULL,
    node_id bigint NOT NULL,
    name text NOT NULL,
    element integer NOT NULL,
    source text NOT NULL,
    variable_class text NOT NULL,
    value double precision NOT NULL,
    PRIMARY KEY (job_id, rank, name, element, time, node_id)
);
SELECT public.create_hypertable('internal.mpi_pvars', public.by_range('time', INTERVAL '1 hour'), create_default_indexes => false);
COMMENT ON TABLE internal.mpi_pvars IS
    'MPI_T performance variables.';
COMMENT ON COLUMN internal.mpi_pvars.element IS 'Element of an array variable; for queue lengths the peer.';

CREATE TABLE internal.mpi_regions (
    time timestamptz NOT NULL,
    job_id bigint NOT NULL,
    rank integer NOT NULL,
    node_id bigint NOT NULL,
    region text NOT NULL,
    epoch timestamptz NOT NULL,
    source text NOT NULL,
    PRIMARY KEY (job_id, rank, region, time, node_id)
);
SELECT public.create_hypertable('internal.mpi_regions', public.by_range('time', INTERVAL '1 hour'), create_default_indexes => false);
COMMENT ON TABLE internal.mpi_regions IS
    'Annotated regions of a rank''s program, cumulative since epoch, over its threads; only regions that changed.';
COMMENT ON COLUMN internal.mpi_regions.region IS 'Its name: begin and end in the program, MPI_Pcontrol, Caliper, NVTX.';

CREATE TABLE internal.mpi_region_paths (
    time timestamptz NOT NULL,
    job_id bigint NOT NULL,
    rank integer NOT NULL,
    node_id bigint NOT NULL,
    path text NOT NULL,
    epoch timestamptz NOT NULL,
    source text NOT NULL,
    PRIMARY KEY (job_id, rank, path, time, node_id)
);
SELECT public.create_hypertable('internal.mpi_region_paths', public.by_range('time', INTERVAL '1 hour'), create_default_indexes => false);
COMMENT ON TABLE internal.mpi_region_paths IS
    'Paths of annotated regions of a rank''s program, cumulative since epoch, over its threads; only paths that changed, every ten seconds and at the end.';
COMMENT ON COLUMN internal.mpi_region_paths.path IS
    'The regions that a thread was in, from the outermost to the innermost one, separated by /; in a name, / is written \/ and \ is written \\.';

CREATE TABLE internal.mpi_sampled_calls (
    time timestamptz NOT NULL,
    job_id bigint NOT NULL,
    node_id bigint NOT NULL,
    comm_group bigint NOT NULL,
    library text NOT NULL DEFAULT 'mpi',
    operation text NOT NULL,
    size_class_bytes bigint NOT NULL,
    cell bigint NOT NULL,
    group_size integer NOT NULL,
    members text NOT NULL,
    packed bit varying NOT NULL,
    PRIMARY KEY (job_id, time, node_id, comm_group, operation, size_class_bytes, cell, library)
);
SELECT public.create_hypertable('internal.mpi_sampled_calls', public.by_range('time', INTERVAL '1 hour'), create_default_indexes => false);
COMMENT ON TABLE internal.mpi_sampled_calls IS
    'Single calls of collectives, as a node''s ranks sampled them: all members of a communicator sample the same ones. Who spent the least arrived last, and what others spent beyond it was waiting. A row for each node, members, operation, size class and second.';
COMMENT ON COLUMN internal.mpi_sampled_calls.comm_group IS 'Names the members: a hash of their world ranks in their order.';
COMMENT ON COLUMN internal.mpi_sampled_calls.cell IS 'Tells calls apart that are counted apart: a hash of algorithm and root.';
COMMENT ON COLUMN internal.mpi_sampled_calls.members IS 'World ranks of the members, for people: FIRST-LAST:DISTANCE, the first runs of many.';
COMMENT ON COLUMN internal.mpi_sampled_calls.packed IS
    'The calls, bit-packed: mpi_packed_calls(packed) has a row for each, with its running number among those of the row''s members, operation, size class and cell, and of the node''s ranks that sampled it how many, the sum of their times, and the one with the least.';

CREATE TABLE internal.mpi_rank_rows (
    time timestamptz NOT NULL,
    job_id bigint NOT NULL,
    rank integer NOT NULL,
    node_id bigint NOT NULL,
    epoch timestamptz NOT NULL,
    source text NOT NULL,
    is_folded boolean NOT NULL,
    cells bit varying NOT NULL,
    PRIMARY KEY (job_id, rank, epoch, time, is_folded, node_id)
);
SELECT public.create_hypertable('internal.mpi_rank_rows', public.by_range('time', INTERVAL '1 hour'), create_default_indexes => false);
CREATE INDEX mpi_rank_rows_not_folded ON internal.mpi_rank_rows (job_id, rank, epoch, time) WHERE (NOT is_folded);
COMMENT ON TABLE internal.mpi_rank_rows IS
    'MPI operations of a rank, cumulative since epoch, its cells in one row. Five rows in its first minute, then at most one a minute unless configured, in a long run one in five, only where a cell changed, and an exact one when the rank ends. The view mpi_op_rows has a row for each cell.';
COMMENT ON COLUMN internal.mpi_rank_rows.time IS 'End of the last time bin that is in it.';
COMMENT ON COLUMN internal.mpi_rank_rows.node_id IS 'The node that reports it.';
COMMENT ON COLUMN internal.mpi_rank_rows.is_folded IS
    'The row has all cells that the rank''s agent folds: those of the rank''s last such row are its totals, and mpi_node_rows has what they grew by. Else it has cells beyond the agent''s limits that changed in a time bin, which are in no row of the node.';
COMMENT ON COLUMN internal.mpi_rank_rows.cells IS
    'The cells, bit-packed: mpi_packed_cells(cells) has a row for each, with its number in mpi_cell_key.';

CREATE TABLE internal.mpi_node_rows (
    time timestamptz NOT NULL,
    job_id bigint NOT NULL,
    node_id bigint NOT NULL,
    epoch timestamptz NOT NULL,
    since timestamptz NOT NULL,
    source text NOT NULL,
    is_whole boolean NOT NULL,
    cells bit varying NOT NULL,
    rounds bit varying NOT NULL,
    account bit varying NOT NULL DEFAULT B'',
    PRIMARY KEY (job_id, node_id, epoch, time)
);
SELECT public.create_hypertable('internal.mpi_node_rows', public.by_range('time', INTERVAL '1 hour'), create_default_indexes => false);
COMMENT ON TABLE internal.mpi_node_rows IS
    'MPI operations of a job summed over its ranks on a node, cumulative since epoch, with the cells in one row each ten seconds unless configured. The view mpi_op_series has a row for each cell.';
COMMENT ON COLUMN internal.mpi_node_rows.epoch IS
    'When the node began to count the job: another one after a restart of its agent. What ranks did before is in no cell; mpi_rank_rows has it.';
COMMENT ON COLUMN internal.mpi_node_rows.since IS 'Where the interval began that ends at time.';
COMMENT ON COLUMN internal.mpi_node_rows.is_whole IS
    'Whether all cells are in it; else only those that grew in the interval. The totals are those of the last such row and the rows after it.';
COMMENT ON COLUMN internal.mpi_node_rows.cells IS
    'The sums of its cells, bit-packed as in mpi_rank_rows.';
COMMENT ON COLUMN internal.mpi_node_rows.rounds IS
    'What the interval brought, bit-packed: mpi_packed_round(rounds, n) has of the nth cell how many ranks called it, and which spent the least and the most time in it.';
COMMENT ON COLUMN internal.mpi_node_rows.account IS
    'Where the time of the node''s ranks went, bit-packed: mpi_packed_account(account) has the sums. In the first row after each ten seconds; empty in the others, and where no rank reports an account. A row may have it and no cell: then nothing was called.';

CREATE TABLE internal.mpi_node_traffic (
    time timestamptz NOT NULL,
    job_id bigint NOT NULL,
    node_id bigint NOT NULL,
    library text NOT NULL DEFAULT 'mpi',
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
    PRIMARY KEY (job_id, node_id, operation, kind, direction, epoch, time, library)
);
SELECT public.create_hypertable('internal.mpi_node_traffic', public.by_range('time', INTERVAL '1 hour'), create_default_indexes => false);
CREATE INDEX mpi_node_traffic_time ON internal.mpi_node_traffic (time);
COMMENT ON TABLE internal.mpi_node_traffic IS
    'Traffic between a job''s ranks on a node and other ranks by operation, cumulative since epoch, with the peers in one row: element n of each array is of the same peer. Peers are additive: a message is in one row, so that all kinds are summed. The view mpi_traffic_rows has a row for each peer.';
COMMENT ON COLUMN internal.mpi_node_traffic.node_id IS 'The node whose ranks send, or read; as in job_rank.';
COMMENT ON COLUMN internal.mpi_node_traffic.operation IS 'Lower-case MPI name without the prefix; other: messages within no wrapped operation.';
COMMENT ON COLUMN internal.mpi_node_traffic.kind IS
    'measured: messages that the MPI library reported. modelled: call arguments laid out by the algorithm that carries them out. logical: call arguments, to each member that they are meant for.';
COMMENT ON COLUMN internal.mpi_node_traffic.direction IS
    'transmit: from the node to the peer. receive: from the peer to the node; one-sided reads only.';
COMMENT ON COLUMN internal.mpi_node_traffic.epoch IS 'When the node began to count the job: another one after a restart of its agent.';
COMMENT ON COLUMN internal.mpi_node_traffic.since IS
    'What the peers'' sums grew by since their row before flowed between this time and that of the row.';
COMMENT ON COLUMN internal.mpi_node_traffic.is_whole IS
    'Whether all peers are in it; else only those that changed since the row before. The totals are those of the last such row and the rows after it.';
COMMENT ON COLUMN internal.mpi_node_traffic.peers IS 'Ranks in MPI_COMM_WORLD.';

CREATE TABLE internal.mpi_rank_peers (
    time timestamptz NOT NULL,
    job_id bigint NOT NULL,
    rank integer NOT NULL,
    node_id bigint NOT NULL,
    library text NOT NULL DEFAULT 'mpi',
    kind text NOT NULL,
    epoch timestamptz NOT NULL,
    source text NOT NULL,
    is_whole boolean NOT NULL,
    peers integer[] NOT NULL,
    bytes bigint[] NOT NULL,
    messages bigint[] NOT NULL,
    PRIMARY KEY (job_id, rank, kind, epoch, time, node_id, library)
);
SELECT public.create_hypertable('internal.mpi_rank_peers', public.by_range('time', INTERVAL '1 hour'), create_default_indexes => false);
COMMENT ON TABLE internal.mpi_rank_peers IS
    'Traffic from a rank to others, cumulative since epoch, with the peers in one row: element n of each array is of the same peer. The view mpi_peer_rows has a row for each peer.';
COMMENT ON COLUMN internal.mpi_rank_peers.kind IS
    'logical: call arguments. read: what one-sided operations of the rank read from the peer, which belongs to the logical matrix with sender and receiver the other way round. wire: messages that the library really sent, also inside collectives.';
COMMENT ON COLUMN internal.mpi_rank_peers.is_whole IS
    'Whether all peers are in it; else only those that changed since the row before. The totals are those of the last such row and the rows after it.';
COMMENT ON COLUMN internal.mpi_rank_peers.peers IS 'Ranks in MPI_COMM_WORLD.';

CREATE TABLE internal.mpi_trace (
    time timestamptz NOT NULL,
    job_id bigint NOT NULL,
    rank integer NOT NULL,
    node_id bigint NOT NULL,
    epoch timestamptz NOT NULL,
    number bigint NOT NULL,
    thread integer NOT NULL,
    kind text NOT NULL,
    operation text NOT NULL,
    region text NOT NULL,
    start_ns bigint NOT NULL,
    end_ns bigint NOT NULL,
    peer integer,
    tag integer,
    bytes bigint,
    comm bigint,
    sequence bigint,
    PRIMARY KEY (job_id, rank, epoch, number, time, node_id)
);
SELECT public.create_hypertable('internal.mpi_trace', public.by_range('time', INTERVAL '1 hour'), create_default_indexes => false);
COMMENT ON TABLE internal.mpi_trace IS
    'Trace mode: calls and messages of ranks, on each rank''s own clock.';
COMMENT ON COLUMN internal.mpi_trace.number IS 'Counts all records of the rank, those lost on their way too: a gap is what is missing.';
COMMENT ON COLUMN internal.mpi_trace.kind IS
    'call, send, receive: a call, and the message that it sent or received. arrival: a message that an earlier call asked for, from the asking to the end of the call that saw it complete. departure: one of several messages of a call. end: the limit of records was reached.';
COMMENT ON COLUMN internal.mpi_trace.comm IS
    'The communicator by a number that is the same in all its members; 1 is MPI_COMM_WORLD, NULL where it is not known.';
COMMENT ON COLUMN internal.mpi_trace.sequence IS
    'Running count of the message among those of its source, destination, communicator and tag: the same in the row of the send and in that of the receive.';

CREATE TABLE internal.mpi_clock (
    time timestamptz NOT NULL,
    job_id bigint NOT NULL,
    rank integer NOT NULL,
    node_id bigint NOT NULL,
    epoch timestamptz NOT NULL,
    number bigint NOT NULL,
    clock_ns bigint NOT NULL,
    offset_ns bigint NOT NULL,
    uncertainty_ns bigint NOT NULL,
    round_trip_ns bigint NOT NULL,
    PRIMARY KEY (job_id, rank, epoch, number, time, node_id)
);
SELECT public.create_hypertable('internal.mpi_clock', public.by_range('time', INTERVAL '1 hour'), create_default_indexes => false);
COMMENT ON TABLE internal.mpi_clock IS
    'Trace mode: comparisons of the clock of a rank with that of rank 0.';
COMMENT ON COLUMN internal.mpi_clock.offset_ns IS
    'To be added to the rank''s clock at clock_ns for rank 0''s clock; not wrong by more than uncertainty_ns.';
