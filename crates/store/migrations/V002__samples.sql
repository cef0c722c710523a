-- Samples: hypertables. Immutable once released: later changes are new files.
--
-- The columns of metrics follow the catalogue (throughline_sample::catalogue), and so do their comments,
-- which the program writes after the migrations; a test compares. NULL means: not read, or saturated, never 0.
-- epoch is when the present counting began; values of different epochs are not subtracted.
-- There is one index on each of the large tables: its primary key.

CREATE TABLE ib_port_counters (
    time timestamptz NOT NULL,
    port_id integer NOT NULL,
    epoch timestamptz NOT NULL,
    source text NOT NULL,
    transmit_data_bytes bigint,
    receive_data_bytes bigint,
    transmit_packets bigint,
    receive_packets bigint,
    unicast_transmit_packets bigint,
    unicast_receive_packets bigint,
    multicast_transmit_packets bigint,
    multicast_receive_packets bigint,
    transmit_wait bigint,
    symbol_error bigint,
    link_error_recovery bigint,
    link_downed bigint,
    receive_errors bigint,
    receive_remote_physical_errors bigint,
    receive_switch_relay_errors bigint,
    transmit_discards bigint,
    transmit_constraint_errors bigint,
    receive_constraint_errors bigint,
    local_link_integrity_errors bigint,
    excessive_buffer_overrun_errors bigint,
    vl15_dropped bigint,
    qp1_dropped bigint,
    rate_bytes_per_second bigint,
    saturated text[],
    PRIMARY KEY (port_id, time)
);
COMMENT ON TABLE ib_port_counters IS 'Counters of the fabric''s ports, read through MADs.';
COMMENT ON COLUMN ib_port_counters.saturated IS 'Counters that stood at their largest value and are NULL for that reason.';
SELECT create_hypertable('ib_port_counters', by_range('time', INTERVAL '1 hour'), create_default_indexes => false);

CREATE TABLE host_port_counters (
    time timestamptz NOT NULL,
    host_port_id integer NOT NULL,
    epoch timestamptz NOT NULL,
    source text NOT NULL,
    port_data_transmitted_bytes bigint,
    port_data_received_bytes bigint,
    port_packets_transmitted bigint,
    port_packets_received bigint,
    unicast_packets_transmitted bigint,
    unicast_packets_received bigint,
    multicast_packets_transmitted bigint,
    multicast_packets_received bigint,
    port_transmit_wait bigint,
    symbol_error bigint,
    link_error_recovery bigint,
    link_downed bigint,
    port_errors_received bigint,
    port_receive_remote_physical_errors bigint,
    port_receive_switch_relay_errors bigint,
    port_discards_transmitted bigint,
    port_constraint_errors_transmitted bigint,
    port_constraint_errors_received bigint,
    local_link_integrity_errors bigint,
    excessive_buffer_overrun_errors bigint,
    vl15_dropped bigint,
    rate_bytes_per_second bigint,
    state_id bigint,
    physical_state_id bigint,
    PRIMARY KEY (host_port_id, time)
);
COMMENT ON TABLE host_port_counters IS 'Counters of hosts'' own adapter ports, read in sysfs.';
SELECT create_hypertable('host_port_counters', by_range('time', INTERVAL '1 hour'), create_default_indexes => false);

CREATE TABLE nvlink_counters (
    time timestamptz NOT NULL,
    gpu_id integer NOT NULL,
    epoch timestamptz NOT NULL,
    source text NOT NULL,
    transmit_bytes bigint[],
    receive_bytes bigint[],
    replay_errors bigint[],
    recovery_errors bigint[],
    crc_errors bigint[],
    speed_bytes_per_second bigint[],
    up bigint[],
    PRIMARY KEY (gpu_id, time, source)
);
COMMENT ON TABLE nvlink_counters IS
    'Counters of a GPU''s NVLinks, one row per GPU and tick: element 1 of each array is link 0. See nvlink_link_counters.';
SELECT create_hypertable('nvlink_counters', by_range('time', INTERVAL '1 hour'), create_default_indexes => false);

CREATE TABLE gpu_pcie_counters (
    time timestamptz NOT NULL,
    gpu_id integer NOT NULL,
    epoch timestamptz NOT NULL,
    source text NOT NULL,
    transmit_bytes bigint,
    receive_bytes bigint,
    PRIMARY KEY (gpu_id, time, source)
);
COMMENT ON TABLE gpu_pcie_counters IS 'PCIe traffic of GPUs.';
SELECT create_hypertable('gpu_pcie_counters', by_range('time', INTERVAL '1 hour'), create_default_indexes => false);

CREATE TABLE mpi_ops (
    time timestamptz NOT NULL,
    job_id integer NOT NULL,
    rank integer NOT NULL,
    operation text NOT NULL,
    size_class_bytes bigint NOT NULL,
    epoch timestamptz NOT NULL,
    source text NOT NULL,
    calls bigint,
    bytes bigint,
    elapsed_seconds double precision,
    longest_seconds double precision,
    PRIMARY KEY (job_id, rank, operation, size_class_bytes, time)
);
COMMENT ON TABLE mpi_ops IS
    'MPI operations of a rank, cumulative since epoch, as of the end of a time bin; only cells that changed.';
COMMENT ON COLUMN mpi_ops.operation IS 'MPI name without the prefix, in lower case: allreduce, isend, waitall.';
COMMENT ON COLUMN mpi_ops.size_class_bytes IS 'Largest message size of the class: 0 or a power of two.';
SELECT create_hypertable('mpi_ops', by_range('time', INTERVAL '1 hour'), create_default_indexes => false);

CREATE TABLE mpi_peers (
    time timestamptz NOT NULL,
    job_id integer NOT NULL,
    rank integer NOT NULL,
    peer integer NOT NULL,
    kind text NOT NULL,
    epoch timestamptz NOT NULL,
    source text NOT NULL,
    bytes bigint,
    messages bigint,
    PRIMARY KEY (job_id, rank, peer, kind, time)
);
COMMENT ON TABLE mpi_peers IS 'Traffic from rank to rank of MPI_COMM_WORLD, cumulative since epoch; only pairs that changed.';
COMMENT ON COLUMN mpi_peers.kind IS 'logical: from call arguments. wire: messages that really went, also inside collectives.';
SELECT create_hypertable('mpi_peers', by_range('time', INTERVAL '1 hour'), create_default_indexes => false);

CREATE TABLE mpi_pvars (
    time timestamptz NOT NULL,
    job_id integer NOT NULL,
    rank integer NOT NULL,
    name text NOT NULL,
    element integer NOT NULL,
    source text NOT NULL,
    variable_class text NOT NULL,
    value double precision NOT NULL,
    PRIMARY KEY (job_id, rank, name, element, time)
);
COMMENT ON TABLE mpi_pvars IS 'MPI_T performance variables.';
COMMENT ON COLUMN mpi_pvars.element IS 'Element of an array variable; for queue lengths the peer.';
SELECT create_hypertable('mpi_pvars', by_range('time', INTERVAL '1 hour'), create_default_indexes => false);

CREATE TABLE mpi_regions (
    time timestamptz NOT NULL,
    job_id integer NOT NULL,
    rank integer NOT NULL,
    region text NOT NULL,
    epoch timestamptz NOT NULL,
    source text NOT NULL,
    visits bigint,
    elapsed_seconds double precision,
    PRIMARY KEY (job_id, rank, region, time)
);
COMMENT ON TABLE mpi_regions IS 'Annotated regions of programs; nothing writes it yet.';
SELECT create_hypertable('mpi_regions', by_range('time', INTERVAL '1 hour'), create_default_indexes => false);

-- The three tables below are small. instance is who reports: a node's name, or a crawler's subnet prefix.

CREATE TABLE events (
    time timestamptz NOT NULL,
    instance text NOT NULL,
    source text NOT NULL,
    kind text NOT NULL,
    severity text NOT NULL,
    text text NOT NULL,
    ib_guid text,
    ib_port integer,
    gpu_uuid text,
    job_key text
);
COMMENT ON COLUMN events.kind IS 'Dotted, for instance link.down, source.silent, counter.cleared.';
COMMENT ON COLUMN events.severity IS 'debug, info, warning or error.';
SELECT create_hypertable('events', by_range('time', INTERVAL '1 day'), create_default_indexes => false);
CREATE INDEX events_by_time ON events (time DESC);

CREATE TABLE coverage (
    time timestamptz NOT NULL,
    instance text NOT NULL,
    source text NOT NULL,
    expected bigint NOT NULL,
    read bigint NOT NULL,
    failed bigint NOT NULL,
    elapsed_seconds double precision NOT NULL,
    reasons jsonb,
    PRIMARY KEY (source, instance, time)
);
COMMENT ON TABLE coverage IS 'What each round of a source was to read and what it read: unchanged and unread differ.';
COMMENT ON COLUMN coverage.reasons IS 'Reasons and counts of what was not read.';
SELECT create_hypertable('coverage', by_range('time', INTERVAL '1 day'), create_default_indexes => false);

CREATE TABLE self_stats (
    time timestamptz NOT NULL,
    instance text NOT NULL,
    source text NOT NULL,
    name text NOT NULL,
    value double precision NOT NULL,
    PRIMARY KEY (name, source, instance, time)
);
COMMENT ON TABLE self_stats IS 'Figures about Throughline itself; the names are those of the catalogue.';
SELECT create_hypertable('self_stats', by_range('time', INTERVAL '1 day'), create_default_indexes => false);
