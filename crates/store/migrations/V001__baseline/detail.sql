-- Detail on demand.
CREATE TABLE internal.detail_request (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    requested_at timestamptz NOT NULL DEFAULT now(),
    requested_by text NOT NULL,
    reason text NOT NULL,
    job_id bigint,
    since timestamptz NOT NULL,
    until timestamptz NOT NULL,
    resolution_seconds double precision NOT NULL,
    records_max bigint NOT NULL,
    expires_at timestamptz NOT NULL,
    ib_port_ids bigint[],
    node_id bigint,
    uid bigint,
    ranks integer[],
    PRIMARY KEY (id)
);
CREATE INDEX detail_request_by_ib_port ON internal.detail_request USING gin (ib_port_ids) WHERE (ib_port_ids IS NOT NULL);
CREATE INDEX detail_request_by_job ON internal.detail_request (job_id, requested_at);
CREATE INDEX detail_request_by_time ON internal.detail_request (requested_at);
COMMENT ON TABLE internal.detail_request IS
    'Requests for records in full resolution that stay with agents and crawlers. detail_request_node has what became of each.';
COMMENT ON COLUMN internal.detail_request.requested_by IS 'Whose quota it counts against: local:UID, proxy:USER, address:IP, or server for its own.';
COMMENT ON COLUMN internal.detail_request.reason IS 'person, live (somebody looks at the job), job_end (it ended badly), verdict, alert.';
COMMENT ON COLUMN internal.detail_request.job_id IS 'Records of this job; NULL for readings of a node or a link.';
COMMENT ON COLUMN internal.detail_request.resolution_seconds IS
    'Of cumulative records within such a time the last was requested; 0 for all that there are. Of a live one the time between rows.';
COMMENT ON COLUMN internal.detail_request.records_max IS 'Most records of each node.';
COMMENT ON COLUMN internal.detail_request.node_id IS
    'Of a request that the server made by itself: the node in whose turn it was, as in job_judgement.';
COMMENT ON COLUMN internal.detail_request.uid IS 'Of a request that the server made by itself: the owner in whose turn it was.';
COMMENT ON COLUMN internal.detail_request.expires_at IS
    'What has not arrived by then is given up. Of a live one the time until which rows are made, unless it is renewed.';
COMMENT ON COLUMN internal.detail_request.ranks IS
    'Of a live one: these ranks have rows of their own each second, those that differ most from the others. NULL for others.';
COMMENT ON COLUMN internal.detail_request.ib_port_ids IS
    'Readings of these ports of the fabric, the ends of a link; NULL for those of jobs and nodes.';

CREATE TABLE internal.detail_request_node (
    request_id bigint NOT NULL,
    node_id bigint NOT NULL,
    state text NOT NULL DEFAULT 'waiting',
    attempt bigint,
    records bigint NOT NULL DEFAULT 0,
    recorded_from timestamptz,
    damaged bigint NOT NULL DEFAULT 0,
    refusal text,
    remark text,
    sent_at timestamptz,
    done_at timestamptz,
    ranks_until timestamptz,
    PRIMARY KEY (request_id, node_id),
    FOREIGN KEY (request_id) REFERENCES internal.detail_request(id) ON DELETE CASCADE
);
CREATE INDEX detail_request_node_open ON internal.detail_request_node (request_id) WHERE (state = ANY (ARRAY['waiting', 'sent', 'receiving']));
COMMENT ON TABLE internal.detail_request_node IS
    'What became of a request on each of its nodes.';
COMMENT ON COLUMN internal.detail_request_node.node_id IS 'The node; 0 for the crawler of the fabric that the ports are in.';
COMMENT ON COLUMN internal.detail_request_node.state IS
    'waiting (no collector has its agent), sent, receiving, done, incomplete (parts were lost), refused, expired.';
COMMENT ON COLUMN internal.detail_request_node.attempt IS
    'Of an agent that was stopped meanwhile the present one: an answer is that of one attempt.';
COMMENT ON COLUMN internal.detail_request_node.records IS 'Records of the present attempt that have arrived.';
COMMENT ON COLUMN internal.detail_request_node.recorded_from IS 'Time of the oldest block that the recorder had: what was before it is gone.';
COMMENT ON COLUMN internal.detail_request_node.damaged IS 'Spots of the recorder that could not be read; each costs up to a minute.';
COMMENT ON COLUMN internal.detail_request_node.refusal IS
    'Why not all came: off, failed (the recorder), agent (too old for it), limit, expired. NULL where all did.';
COMMENT ON COLUMN internal.detail_request_node.ranks_until IS
    'Of a live one: until then all ranks of the node have rows each second, as somebody looks at them; NULL for others.';
COMMENT ON COLUMN internal.detail_request_node.remark IS 'The same for people, with what to do.';

CREATE TABLE internal.detail_mpi_bins (
    time timestamptz NOT NULL,
    since timestamptz NOT NULL,
    job_id bigint NOT NULL,
    rank integer NOT NULL,
    node_id bigint NOT NULL,
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
SELECT public.create_hypertable('internal.detail_mpi_bins', public.by_range('time', INTERVAL '1 hour'), create_default_indexes => false);
CREATE INDEX detail_mpi_bins_by_rank ON internal.detail_mpi_bins (job_id, rank, time);
COMMENT ON TABLE internal.detail_mpi_bins IS
    'MPI operations of a rank in bins of 100 ms, on demand: some seconds in a row, at most a minute, with the cells that changed in each bin, cumulative since epoch. operations to algorithm_sources name the cells that there are; element n of the arrays from bins on is of the same bin and cell. The view mpi_op_rows has a row for each.';
COMMENT ON COLUMN internal.detail_mpi_bins.time IS 'End of the last bin.';
COMMENT ON COLUMN internal.detail_mpi_bins.since IS 'End of the first bin.';
COMMENT ON COLUMN internal.detail_mpi_bins.node_id IS 'The node that answered. A later answer to a request that has all of this takes its place.';
COMMENT ON COLUMN internal.detail_mpi_bins.bins IS 'End of the bin: microseconds after since.';
COMMENT ON COLUMN internal.detail_mpi_bins.cells IS 'Which cell: its place in operations and so on, from 1.';

CREATE TABLE internal.detail_mpi_peers (
    time timestamptz NOT NULL,
    job_id bigint NOT NULL,
    rank integer NOT NULL,
    kind text NOT NULL,
    epoch timestamptz NOT NULL,
    source text NOT NULL,
    peers bigint[] NOT NULL,
    bytes bigint[] NOT NULL,
    messages bigint[] NOT NULL,
    digest bigint NOT NULL,
    PRIMARY KEY (job_id, rank, kind, epoch, time, digest)
);
SELECT public.create_hypertable('internal.detail_mpi_peers', public.by_range('time', INTERVAL '1 hour'), create_default_indexes => false);
COMMENT ON TABLE internal.detail_mpi_peers IS
    'Traffic from a rank to others, on demand: peers that changed, cumulative since epoch, element n of each array is of the same peer.';

CREATE TABLE internal.detail_mpi_regions (
    time timestamptz NOT NULL,
    job_id bigint NOT NULL,
    rank integer NOT NULL,
    epoch timestamptz NOT NULL,
    source text NOT NULL,
    regions text[] NOT NULL,
    visits bigint[] NOT NULL,
    elapsed_nanoseconds bigint[] NOT NULL,
    own_nanoseconds bigint[] NOT NULL,
    mpi_calls bigint[] NOT NULL,
    mpi_nanoseconds bigint[] NOT NULL,
    digest bigint NOT NULL,
    PRIMARY KEY (job_id, rank, epoch, time, digest)
);
SELECT public.create_hypertable('internal.detail_mpi_regions', public.by_range('time', INTERVAL '1 hour'), create_default_indexes => false);
COMMENT ON TABLE internal.detail_mpi_regions IS
    'Annotated regions of a rank, on demand: those that changed, cumulative since epoch, element n of each array is of the same region.';

CREATE TABLE internal.detail_mpi_pvars (
    time timestamptz NOT NULL,
    job_id bigint NOT NULL,
    rank integer NOT NULL,
    name text NOT NULL,
    element integer NOT NULL,
    source text NOT NULL,
    variable_class text NOT NULL,
    value double precision NOT NULL,
    PRIMARY KEY (job_id, rank, name, element, time)
);
SELECT public.create_hypertable('internal.detail_mpi_pvars', public.by_range('time', INTERVAL '1 hour'), create_default_indexes => false);
COMMENT ON TABLE internal.detail_mpi_pvars IS
    'Performance variables of ranks, on demand; as mpi_pvars.';

CREATE TABLE internal.detail_host_ports (
    time timestamptz NOT NULL,
    host_port_id bigint NOT NULL,
    epoch timestamptz NOT NULL,
    source text NOT NULL,
    PRIMARY KEY (host_port_id, time)
);
SELECT public.create_hypertable('internal.detail_host_ports', public.by_range('time', INTERVAL '1 hour'), create_default_indexes => false);
COMMENT ON TABLE internal.detail_host_ports IS
    'Readings of hosts'' own adapter ports, on demand; as host_port_counters.';

CREATE TABLE internal.detail_nvlink (
    time timestamptz NOT NULL,
    gpu_id bigint NOT NULL,
    epoch timestamptz NOT NULL,
    source text NOT NULL,
    PRIMARY KEY (gpu_id, time, source)
);
SELECT public.create_hypertable('internal.detail_nvlink', public.by_range('time', INTERVAL '1 hour'), create_default_indexes => false);
COMMENT ON TABLE internal.detail_nvlink IS
    'Readings of GPUs'' links, on demand; as nvlink_counters.';

CREATE TABLE internal.detail_gpu_pcie (
    time timestamptz NOT NULL,
    gpu_id bigint NOT NULL,
    epoch timestamptz NOT NULL,
    source text NOT NULL,
    PRIMARY KEY (gpu_id, time, source)
);
SELECT public.create_hypertable('internal.detail_gpu_pcie', public.by_range('time', INTERVAL '1 hour'), create_default_indexes => false);
COMMENT ON TABLE internal.detail_gpu_pcie IS
    'Readings of GPUs'' PCIe traffic, on demand; as gpu_pcie_counters.';

CREATE TABLE internal.detail_gpu_pm (
    time timestamptz NOT NULL,
    gpu_id bigint NOT NULL,
    epoch timestamptz NOT NULL,
    source text NOT NULL,
    PRIMARY KEY (gpu_id, time, source)
);
SELECT public.create_hypertable('internal.detail_gpu_pm', public.by_range('time', INTERVAL '1 hour'), create_default_indexes => false);
COMMENT ON TABLE internal.detail_gpu_pm IS
    'Samples of GPUs'' performance monitors, on demand; as gpu_pm_counters.';

CREATE TABLE internal.detail_ib_ports (
    time timestamptz NOT NULL,
    port_id bigint NOT NULL,
    epoch timestamptz NOT NULL,
    source text NOT NULL,
    saturated text[],
    PRIMARY KEY (port_id, time)
);
SELECT public.create_hypertable('internal.detail_ib_ports', public.by_range('time', INTERVAL '1 hour'), create_default_indexes => false);
COMMENT ON TABLE internal.detail_ib_ports IS
    'Readings of the fabric''s ports, on demand: also where nothing changed; as ib_port_counters.';

-- Numbers that grow slowly: lz4 takes a fifth of the processor of pglz for them. Not every PostgreSQL has it.
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['bins', 'cells', 'calls', 'bytes', 'elapsed_nanoseconds', 'longest_nanoseconds', 'wait_nanoseconds',
                                'received_bytes', 'least_nanoseconds'] LOOP
        EXECUTE format('ALTER TABLE internal.detail_mpi_bins ALTER COLUMN %I SET COMPRESSION lz4', name);
    END LOOP;
EXCEPTION WHEN feature_not_supported THEN
    NULL;
END $$;
