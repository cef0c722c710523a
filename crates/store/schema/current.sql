-- The schema of version 1, as a new database has it. Written by `cargo xtask schema`; for reading only.

-- Highest committed sequence of each spool, changed in the transaction of the rows: a replay adds nothing.
CREATE TABLE internal.batch_ledger (
    spool_id uuid NOT NULL,
    sequence bigint NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT now(),
    -- The sender that first used the spool, as node:NAME or crawler:NAME; entries of others are refused. NULL where
    -- the sender has no name.
    owner text,
    PRIMARY KEY (spool_id)
);

-- Batches that cannot be stored for a reason of their own, as they came; the spool goes on behind them.
CREATE TABLE internal.batch_quarantine (
    spool_id uuid NOT NULL,
    sequence bigint NOT NULL,
    quarantined_at timestamptz NOT NULL DEFAULT now(),
    reason text NOT NULL,
    batch bytea NOT NULL,
    PRIMARY KEY (spool_id, sequence)
);

-- Hours that upkeep has to pack: a table of blocks, when the hour begins, a port or GPU. All once, those of late
-- readings again.
CREATE TABLE internal.block_wanted (
    kind text NOT NULL,
    time timestamptz NOT NULL,
    id bigint NOT NULL,
    PRIMARY KEY ("time", kind, id)
);

-- Whether the database's clock is believed, checked every few seconds by the server that does upkeep: rows are dropped,
-- thinned and packed only by a time that was checked.
CREATE TABLE internal.clock_check (
    one boolean NOT NULL DEFAULT true,
    -- trusted: rows may be dropped. jumped: it moved otherwise than the monotonic clock of the server. outvoted:
    -- most senders' clocks say another time. unconfirmed: since the server's boot most senders have not confirmed
    -- it. unreported: nobody reports. waiting: the checks have just begun. unchecked: no upkeep has run.
    state text NOT NULL DEFAULT 'unchecked'::text,
    -- Why it is not believed, for people.
    reason text,
    -- How far it is ahead of the witness against it; negative where it is behind.
    off_seconds double precision,
    -- Senders whose clocks were measured lately.
    reporting integer NOT NULL DEFAULT 0,
    -- Those of them whose clocks agree with it.
    agreeing integer NOT NULL DEFAULT 0,
    -- Since when the state is so, by this clock.
    since timestamptz NOT NULL DEFAULT now(),
    -- What the clock said when it was believed last: the time of the last round. expiry_time() is no later.
    trusted_at timestamptz,
    -- The permission to drop, thin and pack ends then, unless another check renews it.
    permitted_until timestamptz NOT NULL DEFAULT '-infinity'::timestamp with time zone,
    -- What time it is by the last check: this clock where it is believed, else by the monotonic clock or by most
    -- senders. upkeep_time() is hardly later.
    estimate timestamptz NOT NULL DEFAULT '-infinity'::timestamp with time zone,
    -- What the clock said when most senders confirmed it last; the monotonic clock counts from there.
    anchor_at timestamptz,
    -- The boot of the server that read it, from /proc/sys/kernel/random/boot_id.
    anchor_boot text,
    -- CLOCK_BOOTTIME of that boot at anchor_at.
    anchor_seconds double precision,
    -- What the clock said when somebody accepted it (throughline db clock accept), until upkeep has taken note.
    accept_requested_at timestamptz,
    accepted_at timestamptz,
    -- The user of the server's machine who accepted it last.
    accepted_by text,
    -- How far it was ahead of most senders when it was accepted: they are no witnesses while that stays so.
    accepted_off_seconds double precision,
    PRIMARY KEY (one),
    CHECK (one),
    CHECK ((state = ANY (ARRAY['unchecked'::text, 'waiting'::text, 'trusted'::text, 'unreported'::text, 'unconfirmed'::text, 'outvoted'::text, 'jumped'::text])))
);

-- Stretches in which the clock of a sender was not set. Times of its records of a span were moved back by
-- offset_seconds before they were stored.
CREATE TABLE internal.clock_span (
    -- As in sender_clock.
    sender_id text NOT NULL,
    -- The number that its batches name it by.
    span bigint NOT NULL,
    -- When it began, moved as its records are.
    began_at timestamptz NOT NULL,
    -- When it ended, moved likewise; NULL while it lasts, and where the sender was stopped in it.
    ended_at timestamptz,
    -- How far the clock was ahead of the server's, in whole 10 s, as measured when the span was first seen. NULL
    -- where that will never be known: its records are stored as they were sent.
    offset_seconds double precision,
    -- By how much less its first rows were moved, down to 0 within a minute or eight times as long: rows of two
    -- spans stay in their order.
    slew_seconds double precision NOT NULL DEFAULT 0,
    noted_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (sender_id, span)
);

-- What rounds of a source were to read and what they read: unchanged and unread differ. A row stands for equal rounds
-- in a row, none of them missed, in thinned chunks for those of five minutes; the function coverage_rounds has a row
-- for each.
CREATE TABLE internal.coverage (
    -- When the last of these rounds was.
    time timestamptz NOT NULL,
    instance text NOT NULL,
    source text NOT NULL,
    -- What each of these rounds was to read.
    expected bigint NOT NULL,
    -- What each of them read.
    read bigint NOT NULL,
    -- What each of them could not read.
    failed bigint NOT NULL,
    -- How long the slowest of these rounds took.
    elapsed_seconds double precision NOT NULL,
    -- Reasons and counts of what was not read.
    reasons jsonb,
    -- How many rounds the row stands for: 1 in rows of crawlers, unless their chunk is thinned.
    rounds integer NOT NULL DEFAULT 1,
    -- When the first of these rounds was; NULL where it is one.
    first_time timestamptz,
    PRIMARY KEY (source, instance, "time")
);
SELECT public.create_hypertable('internal.coverage', public.by_range('time', INTERVAL '1 day'));

-- Terms of the crawlers of a fabric. A batch of another crawler within a term is left out, so never two write.
CREATE TABLE internal.crawler_term (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    fabric_id bigint NOT NULL,
    -- The crawler: the identity of its spool.
    crawler uuid NOT NULL,
    -- Its host, for people; empty until it requested a lease.
    name text NOT NULL DEFAULT ''::text,
    -- From then on only this crawler is written, by its clock.
    began_at timestamptz NOT NULL,
    -- When the next one took over; NULL in the present term.
    ended_at timestamptz,
    -- Newest record of the term so far: the next one begins later.
    covered_to timestamptz NOT NULL,
    -- Another crawler may take over then, by the database's clock; each request and each batch of it postpones
    -- this.
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (id),
    FOREIGN KEY (fabric_id) REFERENCES internal.fabric(id)
);
CREATE INDEX crawler_term_fabric_id_ended_at_idx ON internal.crawler_term (fabric_id, ended_at);
CREATE UNIQUE INDEX crawler_term_fabric_id_idx ON internal.crawler_term (fabric_id) WHERE (ended_at IS NULL);

-- Readings of GPUs' PCIe traffic, on demand; as gpu_pcie_counters.
CREATE TABLE internal.detail_gpu_pcie (
    time timestamptz NOT NULL,
    gpu_id bigint NOT NULL,
    epoch timestamptz NOT NULL,
    source text NOT NULL,
    transmit_bytes bigint,
    receive_bytes bigint,
    PRIMARY KEY (gpu_id, "time", source)
);
SELECT public.create_hypertable('internal.detail_gpu_pcie', public.by_range('time', INTERVAL '01:00:00'));

-- Samples of GPUs' performance monitors, on demand; as gpu_pm_counters.
CREATE TABLE internal.detail_gpu_pm (
    time timestamptz NOT NULL,
    gpu_id bigint NOT NULL,
    epoch timestamptz NOT NULL,
    source text NOT NULL,
    nvlink_transmit_bytes bigint,
    nvlink_receive_bytes bigint,
    pcie_read_bytes bigint,
    pcie_write_bytes bigint,
    nvlink_transmit_peak_bytes_per_second bigint,
    nvlink_receive_peak_bytes_per_second bigint,
    pcie_read_peak_bytes_per_second bigint,
    pcie_write_peak_bytes_per_second bigint,
    samples bigint,
    void_samples bigint,
    buffer_overflows bigint,
    PRIMARY KEY (gpu_id, "time", source)
);
SELECT public.create_hypertable('internal.detail_gpu_pm', public.by_range('time', INTERVAL '01:00:00'));

-- Readings of hosts' own adapter ports, on demand; as host_port_counters.
CREATE TABLE internal.detail_host_ports (
    time timestamptz NOT NULL,
    host_port_id bigint NOT NULL,
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
    pcie_bytes_per_second bigint,
    PRIMARY KEY (host_port_id, "time")
);
SELECT public.create_hypertable('internal.detail_host_ports', public.by_range('time', INTERVAL '01:00:00'));

-- Readings of the fabric's ports, on demand: also where nothing changed; as ib_port_counters.
CREATE TABLE internal.detail_ib_ports (
    time timestamptz NOT NULL,
    port_id bigint NOT NULL,
    epoch timestamptz NOT NULL,
    source text NOT NULL,
    saturated text[],
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
    transmit_wait_tick_bytes bigint,
    local_physical_errors bigint,
    malformed_packet_errors bigint,
    buffer_overrun_errors bigint,
    dlid_mapping_errors bigint,
    vl_mapping_errors bigint,
    looping_errors bigint,
    inactive_discards bigint,
    neighbor_mtu_discards bigint,
    switch_lifetime_limit_discards bigint,
    switch_hoq_lifetime_limit_discards bigint,
    transmit_flow_packets bigint,
    receive_flow_packets bigint,
    operation_receive_packets bigint,
    operation_receive_data bigint,
    sync_header_errors bigint,
    unknown_blocks bigint,
    fec_corrected_blocks bigint,
    fec_uncorrected_blocks bigint,
    fec_corrected_symbols bigint,
    PRIMARY KEY (port_id, "time")
);
SELECT public.create_hypertable('internal.detail_ib_ports', public.by_range('time', INTERVAL '01:00:00'));

-- MPI operations of a rank in bins of 100 ms, on demand: some seconds in a row, at most a minute, with the cells that
-- changed in each bin, cumulative since epoch. operations to algorithm_sources name the cells that there are; element n
-- of the arrays from bins on is of the same bin and cell. The view mpi_op_rows has a row for each.
CREATE TABLE internal.detail_mpi_bins (
    -- End of the last bin.
    time timestamptz NOT NULL,
    -- End of the first bin.
    since timestamptz NOT NULL,
    job_id bigint NOT NULL,
    rank integer NOT NULL,
    -- The node that answered. A later answer to a request that has all of this takes its place.
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
    -- End of the bin: microseconds after since.
    bins integer[] NOT NULL,
    -- Which cell: its place in operations and so on, from 1.
    cells integer[] NOT NULL,
    calls bigint[] NOT NULL,
    bytes bigint[] NOT NULL,
    elapsed_nanoseconds bigint[] NOT NULL,
    longest_nanoseconds bigint[] NOT NULL,
    wait_nanoseconds bigint[] NOT NULL,
    received_bytes bigint[] NOT NULL,
    least_nanoseconds bigint[] NOT NULL
);
CREATE INDEX detail_mpi_bins_by_rank ON internal.detail_mpi_bins (job_id, rank, "time");
SELECT public.create_hypertable('internal.detail_mpi_bins', public.by_range('time', INTERVAL '01:00:00'));

-- Traffic from a rank to others, on demand: peers that changed, cumulative since epoch, element n of each array is of
-- the same peer.
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
    PRIMARY KEY (job_id, rank, kind, epoch, "time", digest)
);
SELECT public.create_hypertable('internal.detail_mpi_peers', public.by_range('time', INTERVAL '01:00:00'));

-- Performance variables of ranks, on demand; as mpi_pvars.
CREATE TABLE internal.detail_mpi_pvars (
    time timestamptz NOT NULL,
    job_id bigint NOT NULL,
    rank integer NOT NULL,
    name text NOT NULL,
    element integer NOT NULL,
    source text NOT NULL,
    variable_class text NOT NULL,
    value double precision NOT NULL,
    PRIMARY KEY (job_id, rank, name, element, "time")
);
SELECT public.create_hypertable('internal.detail_mpi_pvars', public.by_range('time', INTERVAL '01:00:00'));

-- Annotated regions of a rank, on demand: those that changed, cumulative since epoch, element n of each array is of the
-- same region.
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
    PRIMARY KEY (job_id, rank, epoch, "time", digest)
);
SELECT public.create_hypertable('internal.detail_mpi_regions', public.by_range('time', INTERVAL '01:00:00'));

-- Readings of GPUs' links, on demand; as nvlink_counters.
CREATE TABLE internal.detail_nvlink (
    time timestamptz NOT NULL,
    gpu_id bigint NOT NULL,
    epoch timestamptz NOT NULL,
    source text NOT NULL,
    transmit_bytes bigint[],
    receive_bytes bigint[],
    replay_errors bigint[],
    recovery_errors bigint[],
    crc_errors bigint[],
    speed_bytes_per_second bigint[],
    up bigint[],
    malformed_packet_errors bigint[],
    buffer_overrun_errors bigint[],
    receive_errors bigint[],
    remote_errors bigint[],
    general_errors bigint[],
    link_integrity_errors bigint[],
    transmit_discards bigint[],
    recovery_failures bigint[],
    effective_errors bigint[],
    symbol_errors bigint[],
    effective_ber_per_1e18 bigint[],
    symbol_ber_per_1e18 bigint[],
    fec_corrected_blocks bigint[],
    fec_most_symbols bigint[],
    PRIMARY KEY (gpu_id, "time", source)
);
SELECT public.create_hypertable('internal.detail_nvlink', public.by_range('time', INTERVAL '01:00:00'));

-- Requests for records in full resolution that stay with agents and crawlers. detail_request_node has what became of
-- each.
CREATE TABLE internal.detail_request (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    requested_at timestamptz NOT NULL DEFAULT now(),
    -- Whose quota it counts against: local:UID, proxy:USER, address:IP, or server for its own.
    requested_by text NOT NULL,
    -- person, live (somebody looks at the job), job_end (it ended badly), verdict, alert.
    reason text NOT NULL,
    -- Records of this job; NULL for readings of a node or a link.
    job_id bigint,
    since timestamptz NOT NULL,
    until timestamptz NOT NULL,
    -- Of cumulative records within such a time the last was requested; 0 for all that there are. Of a live one the
    -- time between rows.
    resolution_seconds double precision NOT NULL,
    -- Most records of each node.
    records_max bigint NOT NULL,
    -- What has not arrived by then is given up. Of a live one the time until which rows are made, unless it is
    -- renewed.
    expires_at timestamptz NOT NULL,
    -- Readings of these ports of the fabric, the ends of a link; NULL for those of jobs and nodes.
    ib_port_ids bigint[],
    -- Of a request that the server made by itself: the node in whose turn it was, as in job_judgement.
    node_id bigint,
    -- Of a request that the server made by itself: the owner in whose turn it was.
    uid bigint,
    -- Of a live one: these ranks have rows of their own each second, those that differ most from the others. NULL
    -- for others.
    ranks integer[],
    PRIMARY KEY (id)
);
CREATE INDEX detail_request_by_ib_port ON internal.detail_request USING gin (ib_port_ids) WHERE (ib_port_ids IS NOT NULL);
CREATE INDEX detail_request_by_job ON internal.detail_request (job_id, requested_at);
CREATE INDEX detail_request_by_time ON internal.detail_request (requested_at);

-- What became of a request on each of its nodes.
CREATE TABLE internal.detail_request_node (
    request_id bigint NOT NULL,
    -- The node; 0 for the crawler of the fabric that the ports are in.
    node_id bigint NOT NULL,
    -- waiting (no collector has its agent), sent, receiving, done, incomplete (parts were lost), refused, expired.
    state text NOT NULL DEFAULT 'waiting'::text,
    -- Of an agent that was stopped meanwhile the present one: an answer is that of one attempt.
    attempt bigint,
    -- Records of the present attempt that have arrived.
    records bigint NOT NULL DEFAULT 0,
    -- Time of the oldest block that the recorder had: what was before it is gone.
    recorded_from timestamptz,
    -- Spots of the recorder that could not be read; each costs up to a minute.
    damaged bigint NOT NULL DEFAULT 0,
    -- Why not all came: off, failed (the recorder), agent (too old for it), limit, expired. NULL where all did.
    refusal text,
    -- The same for people, with what to do.
    remark text,
    sent_at timestamptz,
    done_at timestamptz,
    -- Of a live one: until then all ranks of the node have rows each second, as somebody looks at them; NULL for
    -- others.
    ranks_until timestamptz,
    PRIMARY KEY (request_id, node_id),
    FOREIGN KEY (request_id) REFERENCES internal.detail_request(id) ON DELETE CASCADE
);
CREATE INDEX detail_request_node_open ON internal.detail_request_node (request_id) WHERE (state = ANY (ARRAY['waiting'::text, 'sent'::text, 'receiving'::text]));

-- The devices that nodes report as their own: GPUs (gpu, by UUID), InfiniBand adapters (hca, by node GUID) and their
-- ports (port, DEVICE/PORT). Two nodes that report the same GPU or adapter contest it.
CREATE TABLE internal.device_claim (
    kind text NOT NULL,
    name text NOT NULL,
    node_id bigint NOT NULL,
    -- Half an hour after the node reported it last, noted every ten minutes; from then on another node may have it.
    holds_until timestamptz NOT NULL,
    PRIMARY KEY (kind, name, node_id),
    FOREIGN KEY (node_id) REFERENCES internal.node_key(id)
);
CREATE INDEX device_claim_of_node ON internal.device_claim (node_id);

CREATE TABLE internal.events (
    time timestamptz NOT NULL,
    instance text NOT NULL,
    source text NOT NULL,
    -- Dotted, for instance link.down, source.silent, counter.cleared.
    kind text NOT NULL,
    -- debug, info, warning or error.
    severity text NOT NULL,
    text text NOT NULL,
    -- Node GUID of the node or port of the event; of a cable, of one end.
    ib_guid text,
    -- Port of that node; 0 where it is about the node.
    ib_port integer,
    gpu_uuid text,
    job_key text,
    -- Node GUID of the other end of a cable, NULL where there is none.
    remote_ib_guid text,
    -- Port of the other end.
    remote_ib_port integer,
    -- What was before; NULL where there was nothing.
    before text,
    -- What is after; NULL where there is nothing.
    after text
);
CREATE INDEX events_by_time ON internal.events ("time" DESC);
SELECT public.create_hypertable('internal.events', public.by_range('time', INTERVAL '1 day'));

-- Samples that arrived after their window was sent: they are sent by themselves.
CREATE TABLE internal.export_late (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    target_id bigint NOT NULL,
    -- The hypertable.
    part text NOT NULL,
    -- Id of the port or GPU; of self_stats the instance.
    thing text NOT NULL,
    -- Time of the first of them.
    since timestamptz NOT NULL,
    -- Time of the last of them.
    until timestamptz NOT NULL,
    PRIMARY KEY (id),
    FOREIGN KEY (target_id) REFERENCES internal.export_target(id) ON DELETE CASCADE
);
CREATE INDEX export_late_by_target ON internal.export_late (target_id, since);

-- Receivers of remote write and how far samples are sent to each.
CREATE TABLE internal.export_target (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    -- As in the configuration of serve: export.remote_write.name.
    name text NOT NULL,
    -- Samples until then are sent and acknowledged, but for those in export_late.
    exported_until timestamptz NOT NULL,
    -- End of the window that is being sent, else exported_until: writers note in export_late what arrives for times
    -- until then.
    noticed_until timestamptz NOT NULL,
    -- Within the window: the table or info metric that was sent last. NULL between windows.
    part text,
    -- Within the window: what of that part was sent last; parts and their things have an order.
    after text,
    -- Samples that the receiver acknowledged.
    acknowledged bigint NOT NULL DEFAULT 0,
    -- Samples that the receiver refused because of their content, and that are not sent again.
    refused bigint NOT NULL DEFAULT 0,
    -- Grows with each change: of two servers that send, one stops.
    version bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (id),
    UNIQUE (name)
);

-- InfiniBand fabrics. A fabric is known by its switches; prefix and subnet manager are in fabric_attribute, since two
-- fabrics may have the same ones.
CREATE TABLE internal.fabric (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    -- Its name: the one that the configuration of its first crawler has, or fabric- and the end of its lowest
    -- switch GUID then. Only a person changes it.
    name text NOT NULL,
    -- Its last topology: node GUIDs of switches, of more than 256 those of lowest hash; without switches port GUIDs
    -- of its hosts.
    guids text[] NOT NULL DEFAULT '{}'::text[],
    -- When that topology came last, within a minute.
    observed_at timestamptz NOT NULL DEFAULT now(),
    first_seen timestamptz NOT NULL DEFAULT now(),
    -- The fabric that it became a part of; NULL where it is one of its own.
    part_of bigint,
    PRIMARY KEY (id),
    UNIQUE (name),
    FOREIGN KEY (part_of) REFERENCES internal.fabric(id)
);

-- Subnet prefix and subnet manager of a fabric over time.
CREATE TABLE internal.fabric_attribute (
    fabric_id bigint NOT NULL,
    prefix text NOT NULL,
    -- GUID of the port of the master subnet manager; NULL where it is not known.
    subnet_manager text,
    valid_from timestamptz NOT NULL DEFAULT now(),
    valid_to timestamptz,
    PRIMARY KEY (fabric_id, valid_from),
    FOREIGN KEY (fabric_id) REFERENCES internal.fabric(id)
);
CREATE UNIQUE INDEX fabric_attribute_current ON internal.fabric_attribute (fabric_id) WHERE (valid_to IS NULL);

-- GPUs of hosts and their partitions. A survey that is complete ends what it lacks; a GPU that does not answer is lost,
-- a row of its own until it answers or is gone.
CREATE TABLE internal.gpu (
    gpu_id bigint NOT NULL,
    uuid text NOT NULL,
    node_id bigint,
    index integer NOT NULL,
    name text NOT NULL,
    pci_bus_id text NOT NULL,
    link_count integer NOT NULL,
    source text NOT NULL,
    valid_from timestamptz NOT NULL,
    valid_to timestamptz,
    -- The GPU that this is a partition of (MIG); NULL for a GPU.
    parent_gpu_id bigint,
    -- Its NUMA node by sysfs; NULL where that does not have it.
    numa_node integer,
    -- InfiniBand adapters with the shortest way to it over PCIe; NULL where the node has none or that is not known.
    nearest_hcas text[],
    -- Whether it is there and does not answer.
    is_lost boolean NOT NULL DEFAULT false,
    -- NVLink domain over several nodes, with fabric_clique_id: GPUs that have both in common reach one another over
    -- NVLink. NULL where it is in none, or not known.
    fabric_cluster_uuid text,
    fabric_clique_id bigint,
    -- How far its registration in a fabric of NVLinks is: not_started, in_progress, completed, failed, unknown;
    -- NULL where it takes part in none, or not known.
    fabric_state text,
    -- The most that its PCIe slot carries in one direction, by generation and lanes; NULL where that is not known.
    pcie_bytes_per_second bigint,
    PRIMARY KEY (gpu_id, valid_from),
    FOREIGN KEY (gpu_id) REFERENCES internal.gpu_key(id),
    FOREIGN KEY (node_id) REFERENCES internal.node_key(id),
    FOREIGN KEY (parent_gpu_id) REFERENCES internal.gpu_key(id)
);
CREATE UNIQUE INDEX gpu_current ON internal.gpu (gpu_id) WHERE (valid_to IS NULL);
CREATE INDEX gpu_of_domain ON internal.gpu (fabric_cluster_uuid, fabric_clique_id) WHERE (fabric_cluster_uuid IS NOT NULL);
CREATE INDEX gpu_of_node ON internal.gpu (node_id);

-- GPUs as nodes report them: one that was moved to another node has a key of each.
CREATE TABLE internal.gpu_key (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    node_id bigint NOT NULL,
    uuid text NOT NULL,
    PRIMARY KEY (id),
    UNIQUE (uuid, node_id),
    FOREIGN KEY (node_id) REFERENCES internal.node_key(id)
);

-- NVLinks and what is at their other end, where that is a GPU of the same node its key.
CREATE TABLE internal.gpu_link (
    gpu_id bigint NOT NULL,
    link integer NOT NULL,
    active boolean NOT NULL,
    version integer,
    -- Speed of one direction.
    speed_bytes_per_second bigint,
    remote_type text NOT NULL,
    remote_pci_bus_id text NOT NULL,
    remote_gpu_id bigint,
    remote_link integer,
    valid_from timestamptz NOT NULL,
    valid_to timestamptz,
    PRIMARY KEY (gpu_id, link, valid_from),
    FOREIGN KEY (gpu_id) REFERENCES internal.gpu_key(id),
    FOREIGN KEY (remote_gpu_id) REFERENCES internal.gpu_key(id)
);
CREATE UNIQUE INDEX gpu_link_current ON internal.gpu_link (gpu_id, link) WHERE (valid_to IS NULL);

-- Metrics of GPUs that sites chose ([cupti] metrics of agent.toml), as the vendor's library names them.
CREATE TABLE internal.gpu_metric_key (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    gpu_id bigint NOT NULL,
    name text NOT NULL,
    PRIMARY KEY (id),
    UNIQUE (gpu_id, name),
    FOREIGN KEY (gpu_id) REFERENCES internal.gpu_key(id)
);

-- Metrics of GPUs' performance monitors that the site chose by name, a row for each GPU, metric and reading: sum or
-- value. See gpu_metric_rates.
CREATE TABLE internal.gpu_metrics (
    time timestamptz NOT NULL,
    gpu_metric_id bigint NOT NULL,
    epoch timestamptz NOT NULL,
    source text NOT NULL,
    -- A metric that ends in .sum, as the site chose it: summed up over the samples of this GPU's performance
    -- monitor. Cumulative since epoch. Unit: the metric's own. Origin: CUPTI PM Sampling, [cupti] metrics.
    sum bigint,
    -- Any other metric that the site chose: its mean over the samples since the row before, its largest where it
    -- ends in .max, its least in .min. As of time. Unit: the metric's own. Origin: CUPTI PM Sampling, [cupti]
    -- metrics.
    value double precision,
    PRIMARY KEY (gpu_metric_id, "time", source)
);
SELECT public.create_hypertable('internal.gpu_metrics', public.by_range('time', INTERVAL '01:00:00'));

-- Hours of gpu_pcie_counters, packed. One without readings has NULL in place of the series.
CREATE TABLE internal.gpu_pcie_blocks (
    -- When the hour begins.
    time timestamptz NOT NULL,
    gpu_id bigint NOT NULL,
    -- Who read it; empty where nobody did.
    source text NOT NULL,
    -- The series, one behind the other: bit-packed differences with a checksum each.
    samples bytea,
    -- Of each series the number of the metric in the catalogue; -2: times of its rows; -3: when counting began.
    metrics integer[],
    -- Where in samples each series begins, in bytes from 0, and where the last one ends.
    offsets integer[],
    PRIMARY KEY (gpu_id, "time", source)
);
SELECT public.create_hypertable('internal.gpu_pcie_blocks', public.by_range('time', INTERVAL '01:00:00'));

-- PCIe traffic of GPUs.
CREATE TABLE internal.gpu_pcie_counters (
    time timestamptz NOT NULL,
    gpu_id bigint NOT NULL,
    epoch timestamptz NOT NULL,
    source text NOT NULL,
    -- Data this GPU sent over PCIe. Cumulative since epoch. Unit: bytes. Origin: NVML field 197; GPM metric 20 by
    -- rate and time.
    transmit_bytes bigint,
    -- Data this GPU received over PCIe. Cumulative since epoch. Unit: bytes. Origin: NVML field 198; GPM metric 21
    -- by rate and time.
    receive_bytes bigint,
    PRIMARY KEY (gpu_id, "time", source)
);
SELECT public.create_hypertable('internal.gpu_pcie_counters', public.by_range('time', INTERVAL '01:00:00'));

-- NVLink and PCIe traffic of whole GPUs, sampled by their performance monitors: cumulative since epoch, and the highest
-- rate in one sample since the row before.
CREATE TABLE internal.gpu_pm_counters (
    time timestamptz NOT NULL,
    gpu_id bigint NOT NULL,
    epoch timestamptz NOT NULL,
    source text NOT NULL,
    -- Bytes this GPU sent over all its NVLinks, headers included. Cumulative since epoch. Unit: bytes. Origin:
    -- CUPTI PM Sampling, nvltx__bytes.sum.
    nvlink_transmit_bytes bigint,
    -- Bytes this GPU received over all its NVLinks, headers included. Cumulative since epoch. Unit: bytes. Origin:
    -- CUPTI PM Sampling, nvlrx__bytes.sum.
    nvlink_receive_bytes bigint,
    -- Bytes this GPU read over PCIe. Cumulative since epoch. Unit: bytes. Origin: CUPTI PM Sampling,
    -- pcie__read_bytes.sum.
    pcie_read_bytes bigint,
    -- Bytes this GPU wrote over PCIe. Cumulative since epoch. Unit: bytes. Origin: CUPTI PM Sampling,
    -- pcie__write_bytes.sum.
    pcie_write_bytes bigint,
    -- Highest rate at which this GPU sent over its NVLinks in one sample since the row before. As of time. Unit:
    -- bytes per second. Origin: CUPTI PM Sampling, bytes and length of each sample.
    nvlink_transmit_peak_bytes_per_second bigint,
    -- Highest rate at which this GPU received over its NVLinks in one sample since the row before. As of time.
    -- Unit: bytes per second. Origin: CUPTI PM Sampling, bytes and length of each sample.
    nvlink_receive_peak_bytes_per_second bigint,
    -- Highest rate at which this GPU read over PCIe in one sample since the row before. As of time. Unit: bytes per
    -- second. Origin: CUPTI PM Sampling, bytes and length of each sample.
    pcie_read_peak_bytes_per_second bigint,
    -- Highest rate at which this GPU wrote over PCIe in one sample since the row before. As of time. Unit: bytes
    -- per second. Origin: CUPTI PM Sampling, bytes and length of each sample.
    pcie_write_peak_bytes_per_second bigint,
    -- Samples of this GPU's performance monitor that the sums hold. Cumulative since epoch. Unit: count. Origin:
    -- cuptiPmSamplingGetCounterDataInfo.
    samples bigint,
    -- Samples of this GPU's performance monitor that held no number (the first one, now and then) or more than any
    -- GPU carries. Cumulative since epoch. Unit: count. Origin: cuptiProfilerHostEvaluateToGpuValues.
    void_samples bigint,
    -- Times the buffer of this GPU's performance monitor was full, so that samples were lost. Cumulative since
    -- epoch. Unit: count. Origin: cuptiPmSamplingDecodeData.
    buffer_overflows bigint,
    PRIMARY KEY (gpu_id, "time", source)
);
SELECT public.create_hypertable('internal.gpu_pm_counters', public.by_range('time', INTERVAL '01:00:00'));

-- Hours of host_port_counters, packed. One without readings has NULL in place of the series.
CREATE TABLE internal.host_port_blocks (
    -- When the hour begins.
    time timestamptz NOT NULL,
    host_port_id bigint NOT NULL,
    -- The series, one behind the other: bit-packed differences with a checksum each.
    samples bytea,
    -- Of each series the number of the metric in the catalogue; -2: times of its rows; -3: when counting began; -4:
    -- who read it.
    metrics integer[],
    -- Where in samples each series begins, in bytes from 0, and where the last one ends.
    offsets integer[],
    PRIMARY KEY (host_port_id, "time")
);
SELECT public.create_hypertable('internal.host_port_blocks', public.by_range('time', INTERVAL '01:00:00'));

-- Counters of hosts' own adapter ports, read in sysfs.
CREATE TABLE internal.host_port_counters (
    time timestamptz NOT NULL,
    host_port_id bigint NOT NULL,
    epoch timestamptz NOT NULL,
    source text NOT NULL,
    -- Data sent on this port of the host. Cumulative since epoch. Unit: bytes. Origin: counters/port_xmit_data x 4.
    port_data_transmitted_bytes bigint,
    -- Data received on this port of the host. Cumulative since epoch. Unit: bytes. Origin: counters/port_rcv_data x
    -- 4.
    port_data_received_bytes bigint,
    -- Packets sent on this port of the host. Cumulative since epoch. Unit: packets. Origin:
    -- counters/port_xmit_packets.
    port_packets_transmitted bigint,
    -- Packets received on this port of the host. Cumulative since epoch. Unit: packets. Origin:
    -- counters/port_rcv_packets.
    port_packets_received bigint,
    -- Unicast packets sent on this port of the host. Cumulative since epoch. Unit: packets. Origin:
    -- counters/unicast_xmit_packets.
    unicast_packets_transmitted bigint,
    -- Unicast packets received on this port of the host. Cumulative since epoch. Unit: packets. Origin:
    -- counters/unicast_rcv_packets.
    unicast_packets_received bigint,
    -- Multicast packets sent on this port of the host. Cumulative since epoch. Unit: packets. Origin:
    -- counters/multicast_xmit_packets.
    multicast_packets_transmitted bigint,
    -- Multicast packets received on this port of the host. Cumulative since epoch. Unit: packets. Origin:
    -- counters/multicast_rcv_packets.
    multicast_packets_received bigint,
    -- Ticks in which this port of the host had data to send and could not. Cumulative since epoch. Unit: device
    -- ticks. Origin: counters/port_xmit_wait.
    port_transmit_wait bigint,
    -- Minor link errors on one or more lanes of this port of the host. Cumulative since epoch. Unit: count. Origin:
    -- counters/symbol_error.
    symbol_error bigint,
    -- Times this port's link retrained successfully after an error. Cumulative since epoch. Unit: count. Origin:
    -- counters/link_error_recovery.
    link_error_recovery bigint,
    -- Times this port's link failed to recover and went down. Cumulative since epoch. Unit: count. Origin:
    -- counters/link_downed.
    link_downed bigint,
    -- Packets received with an error on this port of the host. Cumulative since epoch. Unit: count. Origin:
    -- counters/port_rcv_errors.
    port_errors_received bigint,
    -- Packets received that were marked bad by another link. Cumulative since epoch. Unit: count. Origin:
    -- counters/port_rcv_remote_physical_errors.
    port_receive_remote_physical_errors bigint,
    -- Packets received that could not be forwarded. Cumulative since epoch. Unit: count. Origin:
    -- counters/port_rcv_switch_relay_errors.
    port_receive_switch_relay_errors bigint,
    -- Packets that were to be sent on this port of the host and were discarded. Cumulative since epoch. Unit:
    -- count. Origin: counters/port_xmit_discards.
    port_discards_transmitted bigint,
    -- Packets not sent by this port of the host because of a partition or raw-packet rule. Cumulative since epoch.
    -- Unit: count. Origin: counters/port_xmit_constraint_errors.
    port_constraint_errors_transmitted bigint,
    -- Packets received by this port of the host and discarded because of a partition or raw-packet rule. Cumulative
    -- since epoch. Unit: count. Origin: counters/port_rcv_constraint_errors.
    port_constraint_errors_received bigint,
    -- Times local physical errors of this port exceeded their threshold. Cumulative since epoch. Unit: count.
    -- Origin: counters/local_link_integrity_errors.
    local_link_integrity_errors bigint,
    -- Times consecutive flow-control update errors of this port exceeded their threshold. Cumulative since epoch.
    -- Unit: count. Origin: counters/excessive_buffer_overrun_errors.
    excessive_buffer_overrun_errors bigint,
    -- Management packets on VL15 that this port dropped for lack of a buffer. Cumulative since epoch. Unit: count.
    -- Origin: counters/VL15_dropped.
    vl15_dropped bigint,
    -- Data rate of this port's link in one direction. As of time. Unit: bytes per second. Origin: rate.
    rate_bytes_per_second bigint,
    -- Logical state of this port: 1 down, 2 initialize, 3 armed, 4 active. As of time. Unit: count. Origin: state.
    state_id bigint,
    -- Physical state of this port: 2 polling, 3 disabled, 4 training, 5 link up, 6 error recovery. As of time.
    -- Unit: count. Origin: phys_state.
    physical_state_id bigint,
    -- Bytes that the PCIe link of this port's adapter carries in one direction after line code, headers of PCIe
    -- among them; all ports of the adapter share it. As of time. Unit: bytes per second. Origin:
    -- ../../device/current_link_speed.
    pcie_bytes_per_second bigint,
    PRIMARY KEY (host_port_id, "time")
);
SELECT public.create_hypertable('internal.host_port_counters', public.by_range('time', INTERVAL '01:00:00'));

-- Ports of hosts' own adapters, as sysfs names them.
CREATE TABLE internal.host_port_key (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    node_id bigint NOT NULL,
    device text NOT NULL,
    port integer NOT NULL,
    -- Node GUID of the adapter, which may have ports in two fabrics.
    guid text,
    -- GUID of the port, the same as in ib_port: by it the port is found in its fabric.
    port_guid text,
    PRIMARY KEY (id),
    UNIQUE (node_id, device, port),
    FOREIGN KEY (node_id) REFERENCES internal.node_key(id)
);
CREATE INDEX host_port_key_port_guid ON internal.host_port_key (port_guid);

-- Ports of hosts' own adapters by the minute, made of host_port_counters. See host_port_minutes_named.
CREATE TABLE internal.host_port_minutes (
    -- When the minute begins.
    time timestamptz NOT NULL,
    host_port_id bigint NOT NULL,
    -- When the counters began to count; a minute in which they began anew has two rows.
    epoch timestamptz NOT NULL,
    -- How much of the minute is known. Weigh by it when averaging.
    seconds real NOT NULL,
    -- Mean rate.
    transmit_bytes_per_second real,
    -- Mean rate.
    receive_bytes_per_second real,
    -- Largest rate between two readings.
    transmit_peak_bytes_per_second real,
    -- Largest rate between two readings.
    receive_peak_bytes_per_second real,
    -- Share of the known seconds in which more than 90 % of the speed was used.
    transmit_busy_ratio real,
    -- Share of the known seconds in which more than 90 % of the speed was used.
    receive_busy_ratio real,
    -- Speed of the link, one direction.
    rate_bytes_per_second bigint,
    -- When it was read last in the minute; the counters are as of then.
    last_time timestamptz,
    port_data_transmitted_bytes bigint,
    port_data_received_bytes bigint,
    PRIMARY KEY (host_port_id, "time", epoch)
);
SELECT public.create_hypertable('internal.host_port_minutes', public.by_range('time', INTERVAL '1 day'));

CREATE TABLE internal.ib_lft (
    ib_node_id bigint NOT NULL,
    -- Byte i (from 0) is the output port for LID i; 255 where there is none.
    linear_forwarding_table bytea NOT NULL,
    valid_from timestamptz NOT NULL,
    valid_to timestamptz,
    PRIMARY KEY (ib_node_id, valid_from),
    FOREIGN KEY (ib_node_id) REFERENCES internal.ib_node_key(id)
);
CREATE UNIQUE INDEX ib_lft_current ON internal.ib_lft (ib_node_id) WHERE (valid_to IS NULL);

-- Cables: each once, the end with the smaller port_id first.
CREATE TABLE internal.ib_link (
    port_a_id bigint NOT NULL,
    port_b_id bigint NOT NULL,
    valid_from timestamptz NOT NULL,
    valid_to timestamptz,
    PRIMARY KEY (port_a_id, port_b_id, valid_from),
    FOREIGN KEY (port_a_id) REFERENCES internal.ib_port_key(id),
    FOREIGN KEY (port_b_id) REFERENCES internal.ib_port_key(id),
    CHECK ((port_a_id < port_b_id))
);
CREATE INDEX ib_link_b ON internal.ib_link (port_b_id) WHERE (valid_to IS NULL);
CREATE UNIQUE INDEX ib_link_current ON internal.ib_link (port_a_id, port_b_id) WHERE (valid_to IS NULL);

-- Multicast forwarding tables of switches, as whole walks read them.
CREATE TABLE internal.ib_mft (
    ib_node_id bigint NOT NULL,
    -- Ports by multicast LID, both decimal: {"49152": [1, 7]}. Port 0 is the switch itself.
    multicast_forwarding_table jsonb NOT NULL,
    valid_from timestamptz NOT NULL,
    valid_to timestamptz,
    PRIMARY KEY (ib_node_id, valid_from),
    FOREIGN KEY (ib_node_id) REFERENCES internal.ib_node_key(id)
);
CREATE UNIQUE INDEX ib_mft_current ON internal.ib_mft (ib_node_id) WHERE (valid_to IS NULL);

-- Multicast groups and their members by the subnet administrator, read after whole discoveries. Trees are in ib_mft.
CREATE TABLE internal.ib_multicast_group (
    fabric_id bigint NOT NULL,
    -- Multicast GID as an IPv6 address.
    mgid text NOT NULL,
    -- Multicast LID; several groups may share one.
    mlid integer NOT NULL,
    -- Partition key.
    pkey integer NOT NULL,
    -- Largest payload of a packet; NULL where the code has no meaning.
    mtu_bytes integer,
    -- Rate that each member must have; NULL where the code has no meaning.
    rate_bytes_per_second bigint,
    service_level integer NOT NULL,
    -- What the MGID is known to be for: the IPoIB groups of RFC 4391 and others with a signature; NULL where it is
    -- not known.
    name text,
    -- Members; NULL where the administrator does not report them.
    member_count integer,
    -- Join states by port GUID: {"0x0002c90300000001": 1}. Bits: 1 full member, 2 non-member, 4 send-only. NULL
    -- where members are not reported, or were more than the crawler records.
    members jsonb,
    -- Discovery after which it was read last, nanoseconds since 1970.
    generation bigint NOT NULL,
    valid_from timestamptz NOT NULL,
    valid_to timestamptz,
    PRIMARY KEY (fabric_id, mgid, valid_from),
    FOREIGN KEY (fabric_id) REFERENCES internal.fabric(id)
);
CREATE INDEX ib_multicast_group_by_mlid ON internal.ib_multicast_group (fabric_id, mlid);
CREATE UNIQUE INDEX ib_multicast_group_current ON internal.ib_multicast_group (fabric_id, mgid) WHERE (valid_to IS NULL);

-- Switches, channel adapters and routers of a fabric, as discovered.
CREATE TABLE internal.ib_node (
    ib_node_id bigint NOT NULL,
    guid text NOT NULL,
    type text NOT NULL,
    description text NOT NULL,
    lid integer NOT NULL,
    device_id integer NOT NULL,
    vendor_id integer NOT NULL,
    system_guid text NOT NULL,
    -- The last discovery that found it; a finished discovery ends rows that it did not find.
    generation bigint NOT NULL,
    valid_from timestamptz NOT NULL,
    valid_to timestamptz,
    -- How a switch chooses output ports, as it reported last: static, by its forwarding table alone; adaptive,
    -- among several ports by load. NULL where it never reported.
    routing text,
    PRIMARY KEY (ib_node_id, valid_from),
    FOREIGN KEY (ib_node_id) REFERENCES internal.ib_node_key(id),
    CHECK ((routing = ANY (ARRAY['static'::text, 'adaptive'::text])))
);
CREATE UNIQUE INDEX ib_node_current ON internal.ib_node (ib_node_id) WHERE (valid_to IS NULL);

CREATE TABLE internal.ib_node_key (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    fabric_id bigint NOT NULL,
    guid text NOT NULL,
    PRIMARY KEY (id),
    UNIQUE (fabric_id, guid),
    FOREIGN KEY (fabric_id) REFERENCES internal.fabric(id)
);

CREATE TABLE internal.ib_port (
    port_id bigint NOT NULL,
    ib_node_id bigint NOT NULL,
    port integer NOT NULL,
    port_guid text NOT NULL,
    lid integer NOT NULL,
    state text NOT NULL,
    physical_state text NOT NULL,
    width text NOT NULL,
    speed text NOT NULL,
    -- Data rate of the link in one direction; 0 while it is down.
    rate_bytes_per_second bigint NOT NULL,
    -- The port at the other end of the cable, NULL without one.
    remote_port_id bigint,
    valid_from timestamptz NOT NULL,
    valid_to timestamptz,
    -- LID mask control of the port of an adapter or router: it has 2^lmc LIDs from lid on, and a route to each.
    -- NULL on ports of switches and where it is not reported.
    lmc integer,
    PRIMARY KEY (port_id, valid_from),
    FOREIGN KEY (ib_node_id) REFERENCES internal.ib_node_key(id),
    FOREIGN KEY (port_id) REFERENCES internal.ib_port_key(id),
    FOREIGN KEY (remote_port_id) REFERENCES internal.ib_port_key(id),
    CHECK (((lmc >= 0) AND (lmc <= 7)))
);
CREATE INDEX ib_port_by_guid ON internal.ib_port (port_guid, valid_from);
CREATE UNIQUE INDEX ib_port_current ON internal.ib_port (port_id) WHERE (valid_to IS NULL);
CREATE INDEX ib_port_of_node ON internal.ib_port (ib_node_id) WHERE (valid_to IS NULL);

-- Hours of ib_port_counters, packed. One without readings has NULL in place of the series.
CREATE TABLE internal.ib_port_blocks (
    -- When the hour begins.
    time timestamptz NOT NULL,
    port_id bigint NOT NULL,
    -- The series, one behind the other: bit-packed differences with a checksum each.
    samples bytea,
    -- Of each series the number of the metric in the catalogue; -2: times of its rows; -3: when counting began; -4:
    -- who read it; -5: which counters stand at their end.
    metrics integer[],
    -- Where in samples each series begins, in bytes from 0, and where the last one ends.
    offsets integer[],
    PRIMARY KEY (port_id, "time")
);
SELECT public.create_hypertable('internal.ib_port_blocks', public.by_range('time', INTERVAL '01:00:00'));

-- Counters of the fabric's ports, read through MADs.
CREATE TABLE internal.ib_port_counters (
    time timestamptz NOT NULL,
    port_id bigint NOT NULL,
    epoch timestamptz NOT NULL,
    source text NOT NULL,
    -- Counters that stood at their largest value and are NULL for that reason.
    saturated text[],
    -- Data sent on this port, all virtual lanes, without link packets. Cumulative since epoch. Unit: bytes. Origin:
    -- PortXmitData x 4.
    transmit_data_bytes bigint,
    -- Data received on this port, all virtual lanes, without link packets. Cumulative since epoch. Unit: bytes.
    -- Origin: PortRcvData x 4.
    receive_data_bytes bigint,
    -- Packets sent on this port. Cumulative since epoch. Unit: packets. Origin: PortXmitPkts.
    transmit_packets bigint,
    -- Packets received on this port. Cumulative since epoch. Unit: packets. Origin: PortRcvPkts.
    receive_packets bigint,
    -- Unicast packets sent on this port. Cumulative since epoch. Unit: packets. Origin: PortUnicastXmitPkts.
    unicast_transmit_packets bigint,
    -- Unicast packets received on this port. Cumulative since epoch. Unit: packets. Origin: PortUnicastRcvPkts.
    unicast_receive_packets bigint,
    -- Multicast packets sent on this port. Cumulative since epoch. Unit: packets. Origin: PortMulticastXmitPkts.
    multicast_transmit_packets bigint,
    -- Multicast packets received on this port. Cumulative since epoch. Unit: packets. Origin: PortMulticastRcvPkts.
    multicast_receive_packets bigint,
    -- Ticks in which data was ready to be sent and no credit or arbitration allowed it: congestion. Cumulative
    -- since epoch. Unit: device ticks. Origin: PortXmitWait.
    transmit_wait bigint,
    -- Minor link errors on one or more lanes. Cumulative since epoch. Unit: count. Origin: SymbolErrorCounter.
    symbol_error bigint,
    -- Times the link retrained successfully after an error. Cumulative since epoch. Unit: count. Origin:
    -- LinkErrorRecoveryCounter.
    link_error_recovery bigint,
    -- Times the link failed to recover and went down. Cumulative since epoch. Unit: count. Origin:
    -- LinkDownedCounter.
    link_downed bigint,
    -- Packets received with an error: physical, malformed, or no buffer. Cumulative since epoch. Unit: count.
    -- Origin: PortRcvErrors.
    receive_errors bigint,
    -- Packets received that were marked bad by another link. Cumulative since epoch. Unit: count. Origin:
    -- PortRcvRemotePhysicalErrors.
    receive_remote_physical_errors bigint,
    -- Packets received that the switch could not forward. Cumulative since epoch. Unit: count. Origin:
    -- PortRcvSwitchRelayErrors.
    receive_switch_relay_errors bigint,
    -- Packets that were to be sent and were discarded because the port was down or congested. Cumulative since
    -- epoch. Unit: count. Origin: PortXmitDiscards.
    transmit_discards bigint,
    -- Packets not sent because of a partition or raw-packet rule. Cumulative since epoch. Unit: count. Origin:
    -- PortXmitConstraintErrors.
    transmit_constraint_errors bigint,
    -- Packets received and discarded because of a partition or raw-packet rule. Cumulative since epoch. Unit:
    -- count. Origin: PortRcvConstraintErrors.
    receive_constraint_errors bigint,
    -- Times local physical errors exceeded their threshold. Cumulative since epoch. Unit: count. Origin:
    -- LocalLinkIntegrityErrors.
    local_link_integrity_errors bigint,
    -- Times consecutive flow-control update errors exceeded their threshold. Cumulative since epoch. Unit: count.
    -- Origin: ExcessiveBufferOverrunErrors.
    excessive_buffer_overrun_errors bigint,
    -- Management packets on VL15 that were dropped for lack of a buffer. Cumulative since epoch. Unit: count.
    -- Origin: VL15Dropped.
    vl15_dropped bigint,
    -- General services packets on QP1 that were dropped. Cumulative since epoch. Unit: count. Origin: QP1Dropped.
    qp1_dropped bigint,
    -- Data rate of this port's link in one direction, after line coding. As of time. Unit: bytes per second.
    -- Origin: PortInfo: active width x active speed.
    rate_bytes_per_second bigint,
    -- Bytes that the link could have carried in one tick of transmit_wait; absent where the device does not tell
    -- its tick. As of time. Unit: bytes. Origin: PortSamplesControl: Tick.
    transmit_wait_tick_bytes bigint,
    -- Packets received with an error of this link: CRC, framing, length. Cumulative since epoch. Unit: count.
    -- Origin: PortRcvErrorDetails: PortLocalPhysicalErrors.
    local_physical_errors bigint,
    -- Packets received that were malformed. Cumulative since epoch. Unit: count. Origin: PortRcvErrorDetails:
    -- PortMalformedPktErrors.
    malformed_packet_errors bigint,
    -- Packets received and discarded because the buffer was full. Cumulative since epoch. Unit: count. Origin:
    -- PortRcvErrorDetails: PortBufferOverrunErrors.
    buffer_overrun_errors bigint,
    -- Packets received for a LID to which the switch has no way. Cumulative since epoch. Unit: count. Origin:
    -- PortRcvErrorDetails: PortDLIDMappingErrors.
    dlid_mapping_errors bigint,
    -- Packets received whose service level has no virtual lane on the way out. Cumulative since epoch. Unit: count.
    -- Origin: PortRcvErrorDetails: PortVLMappingErrors.
    vl_mapping_errors bigint,
    -- Packets received that would have left by the port they came in by. Cumulative since epoch. Unit: count.
    -- Origin: PortRcvErrorDetails: PortLoopingErrors.
    looping_errors bigint,
    -- Packets not sent because the port was not active. Cumulative since epoch. Unit: count. Origin:
    -- PortXmitDiscardDetails: PortInactiveDiscards.
    inactive_discards bigint,
    -- Packets not sent because they were longer than the neighbour's MTU. Cumulative since epoch. Unit: count.
    -- Origin: PortXmitDiscardDetails: PortNeighborMTUDiscards.
    neighbor_mtu_discards bigint,
    -- Packets not sent because they were in the switch for too long. Cumulative since epoch. Unit: count. Origin:
    -- PortXmitDiscardDetails: PortSwLifetimeLimitDiscards.
    switch_lifetime_limit_discards bigint,
    -- Packets not sent because they were at the head of the queue for too long: congestion. Cumulative since epoch.
    -- Unit: count. Origin: PortXmitDiscardDetails: PortSwHOQLifetimeLimitDiscards.
    switch_hoq_lifetime_limit_discards bigint,
    -- Flow-control packets sent. Cumulative since epoch. Unit: packets. Origin: PortFlowCtlCounters:
    -- PortXmitFlowPkts.
    transmit_flow_packets bigint,
    -- Flow-control packets received. Cumulative since epoch. Unit: packets. Origin: PortFlowCtlCounters:
    -- PortRcvFlowPkts.
    receive_flow_packets bigint,
    -- Packets received with operation code 0. Cumulative since epoch. Unit: packets. Origin: PortOpRcvCounters:
    -- PortOpRcvPkts.
    operation_receive_packets bigint,
    -- Data received with operation code 0, in the device's unit. Cumulative since epoch. Unit: count. Origin:
    -- PortOpRcvCounters: PortOpRcvData.
    operation_receive_data bigint,
    -- Blocks received with a wrong synchronisation header. Cumulative since epoch. Unit: count. Origin:
    -- PortExtendedSpeedsCounters: SyncHeaderErrorCounter.
    sync_header_errors bigint,
    -- Blocks received of an unknown type. Cumulative since epoch. Unit: count. Origin: PortExtendedSpeedsCounters:
    -- UnknownBlockCounter.
    unknown_blocks bigint,
    -- Blocks received with errors that forward error correction mended. Cumulative since epoch. Unit: count.
    -- Origin: PortExtendedSpeedsCounters: PortFECCorrectableBlockCtr, else the sum over lanes.
    fec_corrected_blocks bigint,
    -- Blocks received with errors that forward error correction could not mend. Cumulative since epoch. Unit:
    -- count. Origin: PortExtendedSpeedsCounters: PortFECUncorrectableBlockCtr, else the sum over lanes.
    fec_uncorrected_blocks bigint,
    -- Symbols of 10 bits that Reed-Solomon error correction mended. Cumulative since epoch. Unit: count. Origin:
    -- PortExtendedSpeedsCounters: PortFECCorrectedSymbolCtr.
    fec_corrected_symbols bigint,
    PRIMARY KEY (port_id, "time")
);
SELECT public.create_hypertable('internal.ib_port_counters', public.by_range('time', INTERVAL '01:00:00'));

CREATE TABLE internal.ib_port_key (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    ib_node_id bigint NOT NULL,
    port integer NOT NULL,
    PRIMARY KEY (id),
    UNIQUE (ib_node_id, port),
    FOREIGN KEY (ib_node_id) REFERENCES internal.ib_node_key(id)
);

-- Counters of the fabric's ports by service level (sl_) and virtual lane (vl_): element 1 of each array is number 0.
-- Only where the crawler is set to read them. See ib_port_lane_values.
CREATE TABLE internal.ib_port_lane_counters (
    time timestamptz NOT NULL,
    port_id bigint NOT NULL,
    epoch timestamptz NOT NULL,
    source text NOT NULL,
    -- Data sent on this port with this service level. Cumulative since epoch. Unit: bytes. Origin: PortXmitDataSL x
    -- 4.
    sl_transmit_data_bytes bigint[],
    -- Data received on this port with this service level. Cumulative since epoch. Unit: bytes. Origin:
    -- PortRcvDataSL x 4.
    sl_receive_data_bytes bigint[],
    -- Ticks in which data of this virtual lane was ready to be sent and was not. Cumulative since epoch. Unit:
    -- device ticks. Origin: PortVLXmitWaitCounters.
    vl_transmit_wait bigint[],
    -- Flow-control update errors of this virtual lane. Cumulative since epoch. Unit: count. Origin:
    -- PortVLXmitFlowCtlUpdateErrors.
    vl_flow_control_errors bigint[],
    -- Time for which this virtual lane of a switch port was congested. Cumulative since epoch. Unit: device ticks.
    -- Origin: SwPortVLCongestion.
    vl_congestion bigint[],
    -- Packets received on this virtual lane with operation code 0. Cumulative since epoch. Unit: packets. Origin:
    -- PortVLOpPackets.
    vl_operation_packets bigint[],
    -- Data received on this virtual lane with operation code 0, in the device's unit. Cumulative since epoch. Unit:
    -- count. Origin: PortVLOpData.
    vl_operation_data bigint[],
    PRIMARY KEY (port_id, "time")
);
SELECT public.create_hypertable('internal.ib_port_lane_counters', public.by_range('time', INTERVAL '01:00:00'));

-- The fabric's ports by the minute, made of ib_port_counters. See ib_port_minutes_named.
CREATE TABLE internal.ib_port_minutes (
    -- When the minute begins.
    time timestamptz NOT NULL,
    port_id bigint NOT NULL,
    -- When the counters began to count; a minute in which they began anew has two rows.
    epoch timestamptz NOT NULL,
    -- How much of the minute is known. Weigh by it when averaging.
    seconds real NOT NULL,
    -- Mean rate.
    transmit_bytes_per_second real,
    -- Mean rate.
    receive_bytes_per_second real,
    -- Largest rate between two readings.
    transmit_peak_bytes_per_second real,
    -- Largest rate between two readings.
    receive_peak_bytes_per_second real,
    -- Share of the known seconds in which more than 90 % of the speed was used.
    transmit_busy_ratio real,
    -- Share of the known seconds in which more than 90 % of the speed was used.
    receive_busy_ratio real,
    -- What could have been sent while data had to wait, where the device reports its tick.
    transmit_wait_bytes_per_second real,
    -- Errors of all kinds counted in the minute.
    errors bigint,
    -- Speed of the link, one direction.
    rate_bytes_per_second bigint,
    -- When it was read last in the minute; the counters are as of then.
    last_time timestamptz,
    transmit_data_bytes bigint,
    receive_data_bytes bigint,
    PRIMARY KEY (port_id, "time", epoch)
);
SELECT public.create_hypertable('internal.ib_port_minutes', public.by_range('time', INTERVAL '1 day'));

-- Communicators that a program gave a name (MPI_Comm_set_name), as each of their ranks sees them.
CREATE TABLE internal.job_comm (
    job_id bigint NOT NULL,
    rank integer NOT NULL,
    epoch timestamptz NOT NULL,
    library text NOT NULL DEFAULT 'mpi'::text,
    -- The rank's own number of the communicator; other ranks number theirs otherwise.
    comm integer NOT NULL,
    name text NOT NULL,
    size integer NOT NULL,
    -- NULL in an intercommunicator, whose size is that of the remote group.
    rank_in_comm integer,
    named_at timestamptz NOT NULL,
    PRIMARY KEY (job_id, rank, epoch, library, comm),
    FOREIGN KEY (job_id) REFERENCES internal.run(id)
);

-- Final totals of each job that has ended, packed by upkeep once its records are settled and again when late ones come.
-- Readers take them when rows of the job's time are gone (job_rows_gone); job_node_final has those of ranks.
CREATE TABLE internal.job_final (
    job_id bigint NOT NULL,
    packed_at timestamptz NOT NULL DEFAULT now(),
    began_at timestamptz NOT NULL,
    -- run.end_time of what is packed: where they differ it is packed again.
    ended_at timestamptz NOT NULL,
    -- Rows of rank_claim, mpi_open_call, mpi_rank_scheduling and job_comm are gone: what they had of its ranks is
    -- in job_node_final only.
    is_released boolean NOT NULL DEFAULT false,
    -- What most of its ranks report; job_node_final has that of others.
    world_size integer,
    ranks integer NOT NULL,
    rank_starts integer NOT NULL,
    nodes integer NOT NULL,
    lost integer NOT NULL,
    unseen integer NOT NULL,
    silent integer NOT NULL,
    -- MPI libraries of its ranks.
    libraries text[] NOT NULL,
    -- What cells are of: operation, algorithm and the algorithm's source, separated by tabs.
    operations text[] NOT NULL,
    -- Operations over all ranks by size class and algorithm, bit-packed: the function job_final_cells has a row for
    -- each.
    cells bit varying NOT NULL,
    -- Unit of times in cells: a large job's sum of nanoseconds has no place in 63 bits.
    unit_nanoseconds bigint NOT NULL DEFAULT 1,
    -- Annotated regions over all ranks, those with the most time; NULL without any.
    regions json,
    -- Paths of annotated regions over all ranks, those with the most time; NULL without any.
    paths json,
    -- Of each kind of traffic between ranks the sums, and the pairs of ranks with the most.
    traffic json,
    -- Kinds of traffic, as in mpi_rank_peers.
    pair_kinds text[] NOT NULL,
    -- Of each kind the traffic between nodes, bit-packed: the function job_final_pairs has a row for each of the
    -- 10,000 pairs with the most bytes, and one for all others.
    pairs bit varying[] NOT NULL,
    PRIMARY KEY (job_id),
    FOREIGN KEY (job_id) REFERENCES internal.run(id)
);

-- Jobs whose final totals are packed again: a record of an earlier time came.
CREATE TABLE internal.job_final_wanted (
    job_id bigint NOT NULL,
    noted_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (job_id)
);

-- When each job was judged last: each minute while it runs, and once after its end.
CREATE TABLE internal.job_judgement (
    job_id bigint NOT NULL,
    judged_at timestamptz NOT NULL,
    -- After its end, with all that its nodes and the fabric reported.
    is_final boolean NOT NULL,
    -- What throughline job report prints; NULL until it is final.
    report text,
    -- The node in whose turn it was judged: one of those that report the job.
    node_id bigint,
    -- The owner in whose turn it was judged, as that node reports; -1 where it does not.
    uid bigint,
    -- From when on the server requests detail of the job by itself, in the same turn; NULL where it need not.
    detail_after timestamptz,
    -- It ran for less than a minute: detail of others is requested first.
    is_brief boolean NOT NULL DEFAULT false,
    PRIMARY KEY (job_id),
    FOREIGN KEY (job_id) REFERENCES internal.run(id)
) WITH (fillfactor=70);
CREATE INDEX job_judgement_detail_turn ON internal.job_judgement (node_id, uid, is_brief, detail_after, job_id) WHERE (detail_after IS NOT NULL);

-- Final totals of a job's ranks on a node, and what rank_claim had of them, bit-packed. The functions job_final_ranks
-- and job_final_operations have a row for each.
CREATE TABLE internal.job_node_final (
    job_id bigint NOT NULL,
    -- Number of the node in the job, from 1, by its first rank: pairs of job_final have it.
    place integer NOT NULL,
    -- NULL where the ranks were reported by none.
    node_id bigint,
    host text NOT NULL,
    began_at timestamptz NOT NULL,
    ended_at timestamptz NOT NULL,
    -- Ranks in number, each once.
    rank_count integer NOT NULL,
    -- The operations that its ranks called, a line for each: totals has an element for each.
    operations text NOT NULL,
    -- Texts that places refers to by number, from 1, a line for each: of lists of GPUs each has its number in
    -- gpu_key.
    texts text NOT NULL,
    -- Each start of a rank: when, how long, how it ended, and a call in which it was killed.
    ranks bit varying NOT NULL,
    -- Of each start of a rank its library, CPUs, GPUs and adapter ports.
    places bit varying NOT NULL,
    -- Of each operation the calls, bytes and times of each start of a rank.
    totals bit varying[] NOT NULL,
    -- Where the time of its ranks went, summed; NULL where that is not known. The function job_final_account has
    -- it.
    account bit varying,
    PRIMARY KEY (job_id, place),
    FOREIGN KEY (job_id) REFERENCES internal.run(id),
    FOREIGN KEY (node_id) REFERENCES internal.node_key(id)
);
CREATE INDEX job_node_final_of_node ON internal.job_node_final (node_id, ended_at);

-- Control variables (MPI_T CVARs) of a job's MPI library that decide algorithms: one row for each node and value that
-- any rank of it has.
CREATE TABLE internal.job_setting (
    job_id bigint NOT NULL,
    node_id bigint,
    name text NOT NULL,
    value text NOT NULL,
    -- A rank that has it: the first of the node that reported it.
    rank integer NOT NULL,
    told_at timestamptz NOT NULL,
    UNIQUE NULLS NOT DISTINCT (job_id, name, value, node_id),
    FOREIGN KEY (job_id) REFERENCES internal.run(id)
);

-- What slows a job down: docs/VERDICTS.md. One that is true now has the last_at of its job's judged_at; others were
-- true once.
CREATE TABLE internal.job_verdict (
    job_id bigint NOT NULL,
    -- hung, link_bound, victim and so on.
    kind text NOT NULL,
    -- The rank, host, link, operation or region; job where it is about all of it.
    subject text NOT NULL,
    -- When it was said first.
    first_at timestamptz NOT NULL,
    -- When it was said last.
    last_at timestamptz NOT NULL,
    -- Among those said at the same time, the most important one first, from 0.
    place smallint NOT NULL,
    -- What was observed, with its figures.
    observation text NOT NULL,
    -- What to do.
    remedy text NOT NULL,
    confidence text NOT NULL,
    -- Part of the ranks' time that it costs, at most 1; NULL where it can't be said.
    cost double precision,
    -- Key of the other job: whose bytes hold it up, or whom it holds up.
    other_job text,
    -- Figures that it rests on: name, value, unit and the threshold from which on it is said.
    facts jsonb NOT NULL,
    PRIMARY KEY (job_id, kind, subject),
    FOREIGN KEY (job_id) REFERENCES internal.run(id),
    CHECK ((confidence = ANY (ARRAY['certain'::text, 'likely'::text])))
) WITH (fillfactor=70);

-- Rows of link_share_minutes of a port and hour in one: who there is, what is of a minute, and what each has in each
-- minute. The function link_minute_shares has them as rows.
CREATE TABLE internal.link_share_hours (
    -- When the hour begins.
    time timestamptz NOT NULL,
    -- The port that sends: ib_port_key.id.
    port_id bigint NOT NULL,
    -- Who there is in the hour, as in link_share_minutes: contributors to are_bounds have an element for each, once
    -- for each kind.
    contributors text[] NOT NULL,
    job_ids bigint[] NOT NULL,
    operations text[] NOT NULL,
    names text[] NOT NULL,
    kinds text[] NOT NULL,
    are_bounds boolean[] NOT NULL,
    -- Minutes with rows, bit-packed; packed_rows(minutes) has of each: minute of the hour, windows, 1 where it has
    -- counted_bytes, which are the bytes of all in it; in column 6 the peak, see packed_bytes.
    minutes bit varying NOT NULL,
    -- What each of contributors has in the first minute, then in the second, bit-packed; packed_rows(shares) has in
    -- columns 6 to 8: bytes to seven digits, how much less low_bytes and how much more high_bytes are, see
    -- packed_bytes; NULL for one that has no row.
    shares bit varying NOT NULL,
    PRIMARY KEY (port_id, "time")
);
CREATE INDEX link_share_hours_by_job ON internal.link_share_hours USING gin (job_ids);
SELECT public.create_hypertable('internal.link_share_hours', public.by_range('time', INTERVAL '1 day'));

-- Windows for which counters or traffic arrived after they were made: they are made again.
CREATE TABLE internal.link_share_late (
    -- End of the window.
    time timestamptz NOT NULL,
    noted_at timestamptz NOT NULL DEFAULT now()
);

-- Contributors of each direction of a link by the minute, summed over the windows of link_shares that end in it, until
-- they are put into link_share_hours: the function link_minute_shares has both. The bytes of a port and minute add up
-- to counted_bytes.
CREATE TABLE internal.link_share_minutes (
    -- When the minute begins.
    time timestamptz NOT NULL,
    -- The port that sends: ib_port_key.id.
    port_id bigint NOT NULL,
    -- As in link_shares. other: those that are small over the minute, and those that were small in a window. rest:
    -- each port and minute has one such row.
    contributor text NOT NULL,
    job_id bigint,
    -- Of a job: MPI name without the prefix, in lower case.
    operation text,
    -- Of a group or host.
    name text,
    -- Bytes as ports count them, fitted to the counters.
    bytes bigint NOT NULL,
    -- At least so many.
    low_bytes bigint NOT NULL,
    -- At most so many.
    high_bytes bigint NOT NULL,
    -- The least certain kind of a window, see link_shares.kind.
    kind text NOT NULL,
    -- Whether it is a bound in a window, see link_shares.is_bound.
    is_bound boolean NOT NULL,
    -- What passed in the windows of the minute in which the link carried traffic; NULL where no port was read.
    counted_bytes bigint,
    -- The largest counted_bytes of a window.
    peak_counted_bytes bigint,
    -- Windows of 10 s in which the link carried traffic: six, fewer where it was idle. Divide by ten times as many
    -- seconds for a rate.
    windows smallint NOT NULL,
    CHECK ((contributor = ANY (ARRAY['job'::text, 'group'::text, 'host'::text, 'management'::text, 'other'::text, 'rest'::text]))),
    CHECK ((kind = ANY (ARRAY['measured'::text, 'modelled'::text, 'logical'::text, 'unreported'::text])))
);
CREATE INDEX link_share_minutes_by_job ON internal.link_share_minutes (job_id, "time") WHERE (job_id IS NOT NULL);
CREATE INDEX link_share_minutes_by_port ON internal.link_share_minutes (port_id, "time");
SELECT public.create_hypertable('internal.link_share_minutes', public.by_range('time', INTERVAL '01:00:00'));

-- How far link_shares is made.
CREATE TABLE internal.link_share_state (
    one boolean NOT NULL DEFAULT true,
    -- Windows that end by then are made.
    computed_until timestamptz,
    -- Windows that end by then are made or being made: writers note in link_share_late what arrives for them.
    noticed_until timestamptz,
    -- From when on link_share_minutes is made. NULL before the first minute.
    minutes_since timestamptz,
    -- Minutes before it are made.
    minutes_until timestamptz,
    -- Minutes before it are in link_share_hours, rows of link_share_minutes that are still there are not read. NULL
    -- before the first hour.
    hours_until timestamptz,
    PRIMARY KEY (one),
    CHECK (one)
);

-- Contributors of each direction of a link in each window of 10 s, for links that carry traffic. The bytes of a port
-- and window add up to counted_bytes.
CREATE TABLE internal.link_shares (
    -- End of the window.
    time timestamptz NOT NULL,
    -- The port that sends: ib_port_key.id.
    port_id bigint NOT NULL,
    -- job: an operation of a job. group, host: traffic that nobody reported, of a group of hosts of the
    -- configuration or of a host. other: all smaller ones together. rest: counted bytes of nobody known, subnet
    -- management among them; each port and window has one such row.
    contributor text NOT NULL,
    job_id bigint,
    -- Of a job: MPI name without the prefix, in lower case.
    operation text,
    -- Of a group or host.
    name text,
    -- Bytes as ports count them, fitted to the counters.
    bytes bigint NOT NULL,
    -- At least so many.
    low_bytes bigint NOT NULL,
    -- At most so many.
    high_bytes bigint NOT NULL,
    -- How the bytes are known, by the least certain part: measured (messages that the library reported), modelled
    -- (operations laid out by their algorithm), logical (send buffers to the members that they are meant for),
    -- unreported (found in the counters alone).
    kind text NOT NULL,
    -- Some of it may have taken other links: low_bytes and high_bytes are what is known, bytes is one possibility.
    is_bound boolean NOT NULL,
    -- What passed in the window by the port's counter, or by that of the port at the other end; NULL where neither
    -- was read.
    counted_bytes bigint,
    CHECK ((contributor = ANY (ARRAY['job'::text, 'group'::text, 'host'::text, 'management'::text, 'other'::text, 'rest'::text]))),
    CHECK ((kind = ANY (ARRAY['measured'::text, 'modelled'::text, 'logical'::text, 'unreported'::text])))
);
CREATE INDEX link_shares_by_job ON internal.link_shares (job_id, "time") WHERE (job_id IS NOT NULL);
CREATE INDEX link_shares_by_port ON internal.link_shares (port_id, "time");
CREATE INDEX link_shares_by_time ON internal.link_shares ("time");
SELECT public.create_hypertable('internal.link_shares', public.by_range('time', INTERVAL '01:00:00'));

-- Readings that came after their minutes were made: a table of minutes, what was read, times of the first and the last.
CREATE TABLE internal.minute_late (
    kind text NOT NULL,
    id bigint NOT NULL,
    since timestamptz NOT NULL,
    until timestamptz NOT NULL
);
CREATE INDEX minute_late_by_time ON internal.minute_late (kind, since);

-- Until when upkeep has made the rows of the *_minutes tables.
CREATE TABLE internal.minute_state (
    one boolean NOT NULL DEFAULT true,
    -- Minutes before it are made.
    made_until timestamptz,
    -- Minutes before it are made or being made: writers note in minute_late what comes for them.
    noticed_until timestamptz,
    -- Hours before it are packed or listed in block_wanted.
    blocks_until timestamptz,
    -- Rounds of upkeep since minutes were made last: readings wait for their minutes, but not for ever
    -- (expire_table).
    rounds_in_vain integer NOT NULL DEFAULT 0,
    PRIMARY KEY (one),
    CHECK (one)
);

-- The small numbers of cells in mpi_rank_rows and mpi_node_rows: library, operation, size class, region, algorithm and
-- how it is known.
CREATE TABLE internal.mpi_cell_key (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    -- The library of the operation: mpi.
    library text NOT NULL DEFAULT 'mpi'::text,
    operation text NOT NULL,
    size_class_bytes bigint NOT NULL,
    region text NOT NULL,
    algorithm text NOT NULL,
    algorithm_source text NOT NULL,
    -- When a row had it last, to within two days. A number is removed once all rows that have it have expired.
    used_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (id),
    UNIQUE (library, operation, size_class_bytes, region, algorithm, algorithm_source)
);

-- Trace mode: comparisons of the clock of a rank with that of rank 0.
CREATE TABLE internal.mpi_clock (
    time timestamptz NOT NULL,
    job_id bigint NOT NULL,
    rank integer NOT NULL,
    node_id bigint NOT NULL,
    epoch timestamptz NOT NULL,
    number bigint NOT NULL,
    clock_ns bigint NOT NULL,
    -- To be added to the rank's clock at clock_ns for rank 0's clock; not wrong by more than uncertainty_ns.
    offset_ns bigint NOT NULL,
    uncertainty_ns bigint NOT NULL,
    round_trip_ns bigint NOT NULL,
    PRIMARY KEY (job_id, rank, epoch, number, "time", node_id)
);
SELECT public.create_hypertable('internal.mpi_clock', public.by_range('time', INTERVAL '01:00:00'));

-- MPI operations of a job summed over its ranks on a node, cumulative since epoch, with the cells in one row each ten
-- seconds unless configured. The view mpi_op_series has a row for each cell.
CREATE TABLE internal.mpi_node_rows (
    time timestamptz NOT NULL,
    job_id bigint NOT NULL,
    node_id bigint NOT NULL,
    -- When the node began to count the job: another one after a restart of its agent. What ranks did before is in
    -- no cell; mpi_rank_rows has it.
    epoch timestamptz NOT NULL,
    -- Where the interval began that ends at time.
    since timestamptz NOT NULL,
    source text NOT NULL,
    -- Whether all cells are in it; else only those that grew in the interval. The totals are those of the last such
    -- row and the rows after it.
    is_whole boolean NOT NULL,
    -- The sums of its cells, bit-packed as in mpi_rank_rows.
    cells bit varying NOT NULL,
    -- What the interval brought, bit-packed: mpi_packed_round(rounds, n) has of the nth cell how many ranks called
    -- it, and which spent the least and the most time in it.
    rounds bit varying NOT NULL,
    -- Where the time of the node's ranks went, bit-packed: mpi_packed_account(account) has the sums. In the first
    -- row after each ten seconds; empty in the others, and where no rank reports an account. A row may have it and
    -- no cell: then nothing was called.
    account bit varying NOT NULL DEFAULT ''::"bit",
    PRIMARY KEY (job_id, node_id, epoch, "time")
);
SELECT public.create_hypertable('internal.mpi_node_rows', public.by_range('time', INTERVAL '01:00:00'));

-- Traffic between a job's ranks on a node and other ranks by operation, cumulative since epoch, with the peers in one
-- row: element n of each array is of the same peer. Peers are additive: a message is in one row, so that all kinds are
-- summed. The view mpi_traffic_rows has a row for each peer.
CREATE TABLE internal.mpi_node_traffic (
    time timestamptz NOT NULL,
    job_id bigint NOT NULL,
    -- The node whose ranks send, or read; as in job_rank.
    node_id bigint NOT NULL,
    library text NOT NULL DEFAULT 'mpi'::text,
    -- Lower-case MPI name without the prefix; other: messages within no wrapped operation.
    operation text NOT NULL,
    -- measured: messages that the MPI library reported. modelled: call arguments laid out by the algorithm that
    -- carries them out. logical: call arguments, to each member that they are meant for.
    kind text NOT NULL,
    -- transmit: from the node to the peer. receive: from the peer to the node; one-sided reads only.
    direction text NOT NULL,
    -- When the node began to count the job: another one after a restart of its agent.
    epoch timestamptz NOT NULL,
    -- What the peers' sums grew by since their row before flowed between this time and that of the row.
    since timestamptz NOT NULL,
    source text NOT NULL,
    -- Whether all peers are in it; else only those that changed since the row before. The totals are those of the
    -- last such row and the rows after it.
    is_whole boolean NOT NULL,
    -- Ranks in MPI_COMM_WORLD.
    peers integer[] NOT NULL,
    bytes bigint[] NOT NULL,
    messages bigint[] NOT NULL,
    PRIMARY KEY (job_id, node_id, operation, kind, direction, epoch, "time", library)
);
CREATE INDEX mpi_node_traffic_time ON internal.mpi_node_traffic ("time");
SELECT public.create_hypertable('internal.mpi_node_traffic', public.by_range('time', INTERVAL '01:00:00'));

-- The last MPI call of each thread that went on for half a second or more, as reported last. The view mpi_open_calls
-- has those that go on, or in which their rank was killed.
CREATE TABLE internal.mpi_open_call (
    job_id bigint NOT NULL,
    rank integer NOT NULL,
    node_id bigint,
    library text NOT NULL DEFAULT 'mpi'::text,
    -- The rank's own number of the thread.
    thread integer NOT NULL,
    -- When the rank's MPI_Init ended: job_rank.start_time.
    epoch timestamptz NOT NULL,
    -- MPI name without the prefix, in lower case.
    operation text NOT NULL,
    start_time timestamptz NOT NULL,
    -- When the rank reported it last; of a call that goes on it is behind by at most 2 % of the call's age and a
    -- second, and 10 s.
    reported_at timestamptz NOT NULL,
    -- It is over, and counted as other calls are.
    has_returned boolean NOT NULL,
    -- It is on MPI_COMM_WORLD.
    is_on_world boolean NOT NULL,
    -- job_comm.comm of the communicator; NULL where it has no name.
    comm integer,
    -- Members that can be addressed; NULL where they are not known.
    comm_size integer,
    -- Rank in MPI_COMM_WORLD that the call names: destination, source or root.
    peer integer,
    -- Requests of the thread that are pending, and active persistent ones of the rank.
    pending_requests integer NOT NULL,
    -- The operation that began the request that it waits for, of several the oldest pending one of the thread.
    oldest_request text,
    -- Tag of its message; NULL: any, or it has none.
    tag integer,
    -- It takes a message of any source.
    is_from_any boolean NOT NULL,
    -- Requests that it waits for or tests.
    requests integer NOT NULL,
    -- Rank in MPI_COMM_WORLD that the oldest request names.
    oldest_peer integer,
    -- Tag that the oldest request names; NULL: any, or it has none.
    oldest_tag integer,
    -- Threads of the rank that have called MPI and are in no call of this table that goes on.
    threads_elsewhere integer NOT NULL,
    -- Threads of the rank that were started since MPI_Init, have not called MPI, and may: MPI_THREAD_SERIALIZED and
    -- above.
    threads_to_come integer NOT NULL,
    -- A row of tests or probes that found nothing: each of them has returned, and its time is counted.
    is_counted boolean NOT NULL GENERATED ALWAYS AS (((operation ~~ 'test%'::text) OR (operation ~~ 'i%probe'::text))) STORED,
    UNIQUE NULLS NOT DISTINCT (job_id, rank, library, thread, node_id),
    FOREIGN KEY (job_id) REFERENCES internal.run(id)
) WITH (fillfactor=50);
CREATE INDEX mpi_open_call_open ON internal.mpi_open_call (job_id) WHERE (NOT has_returned);

-- MPI_T performance variables.
CREATE TABLE internal.mpi_pvars (
    time timestamptz NOT NULL,
    job_id bigint NOT NULL,
    rank integer NOT NULL,
    node_id bigint NOT NULL,
    name text NOT NULL,
    -- Element of an array variable; for queue lengths the peer.
    element integer NOT NULL,
    source text NOT NULL,
    variable_class text NOT NULL,
    value double precision NOT NULL,
    PRIMARY KEY (job_id, rank, name, element, "time", node_id)
);
SELECT public.create_hypertable('internal.mpi_pvars', public.by_range('time', INTERVAL '01:00:00'));

-- Traffic from a rank to others, cumulative since epoch, with the peers in one row: element n of each array is of the
-- same peer. The view mpi_peer_rows has a row for each peer.
CREATE TABLE internal.mpi_rank_peers (
    time timestamptz NOT NULL,
    job_id bigint NOT NULL,
    rank integer NOT NULL,
    node_id bigint NOT NULL,
    library text NOT NULL DEFAULT 'mpi'::text,
    -- logical: call arguments. read: what one-sided operations of the rank read from the peer, which belongs to the
    -- logical matrix with sender and receiver the other way round. wire: messages that the library really sent,
    -- also inside collectives.
    kind text NOT NULL,
    epoch timestamptz NOT NULL,
    source text NOT NULL,
    -- Whether all peers are in it; else only those that changed since the row before. The totals are those of the
    -- last such row and the rows after it.
    is_whole boolean NOT NULL,
    -- Ranks in MPI_COMM_WORLD.
    peers integer[] NOT NULL,
    bytes bigint[] NOT NULL,
    messages bigint[] NOT NULL,
    PRIMARY KEY (job_id, rank, kind, epoch, "time", node_id, library)
);
SELECT public.create_hypertable('internal.mpi_rank_peers', public.by_range('time', INTERVAL '01:00:00'));

-- MPI operations of a rank, cumulative since epoch, its cells in one row. Five rows in its first minute, then at most
-- one a minute unless configured, in a long run one in five, only where a cell changed, and an exact one when the rank
-- ends. The view mpi_op_rows has a row for each cell.
CREATE TABLE internal.mpi_rank_rows (
    -- End of the last time bin that is in it.
    time timestamptz NOT NULL,
    job_id bigint NOT NULL,
    rank integer NOT NULL,
    -- The node that reports it.
    node_id bigint NOT NULL,
    epoch timestamptz NOT NULL,
    source text NOT NULL,
    -- The row has all cells that the rank's agent folds: those of the rank's last such row are its totals, and
    -- mpi_node_rows has what they grew by. Else it has cells beyond the agent's limits that changed in a time bin,
    -- which are in no row of the node.
    is_folded boolean NOT NULL,
    -- The cells, bit-packed: mpi_packed_cells(cells) has a row for each, with its number in mpi_cell_key.
    cells bit varying NOT NULL,
    PRIMARY KEY (job_id, rank, epoch, "time", is_folded, node_id)
);
CREATE INDEX mpi_rank_rows_not_folded ON internal.mpi_rank_rows (job_id, rank, epoch, "time") WHERE (NOT is_folded);
SELECT public.create_hypertable('internal.mpi_rank_rows', public.by_range('time', INTERVAL '01:00:00'));

-- What the kernel counted of each rank's process: its first reading, the newest one and the one before. Cumulative
-- since the start of the process; NULL where the kernel does not say. And where the time of the thread went that called
-- MPI_Init, from there to the newest reading.
CREATE TABLE internal.mpi_rank_scheduling (
    job_id bigint NOT NULL,
    rank integer NOT NULL,
    -- When the rank's MPI_Init ended: job_rank.start_time.
    epoch timestamptz NOT NULL,
    -- Of the first reading, just after MPI_Init.
    first_time timestamptz NOT NULL,
    first_cpu_nanoseconds bigint,
    first_runqueue_wait_nanoseconds bigint,
    first_involuntary_switches bigint,
    time timestamptz NOT NULL,
    -- Processor time of all threads.
    cpu_nanoseconds bigint,
    -- Time that the thread that called MPI_Init could have run and waited for a processor.
    runqueue_wait_nanoseconds bigint,
    -- How often that thread was taken off its processor.
    involuntary_switches bigint,
    -- Of the reading before the newest, some 10 s earlier.
    before_time timestamptz,
    before_cpu_nanoseconds bigint,
    -- Clocks of the CPU that the rank ran on, summed over the readings in which it ran; NULL where the kernel does
    -- not say.
    cpu_hertz_sum double precision,
    -- How many readings that is the sum of.
    cpu_hertz_readings integer NOT NULL DEFAULT 0,
    -- From the end of MPI_Init to the newest reading; NULL, as what follows, where the rank does not report its
    -- account.
    elapsed_nanoseconds bigint,
    -- In MPI.
    mpi_nanoseconds bigint,
    -- Off the processor outside of MPI.
    off_outside_nanoseconds bigint,
    -- The part of it in which the thread could have run.
    queued_outside_nanoseconds bigint,
    -- Off the processor in MPI.
    off_inside_nanoseconds bigint,
    -- The part of it in which the thread could have run.
    queued_inside_nanoseconds bigint,
    -- How often the thread was found off the processor outside of MPI, in a file; looked at each second. The others
    -- are like it.
    file_samples integer,
    sleep_samples integer,
    lock_samples integer,
    stopped_samples integer,
    other_samples integer,
    -- By a signal, at the newest reading; NULL where it is not stopped.
    stopped_since timestamptz,
    -- The least that the CPU quota of a control group kept the thread from running, in MPI and outside of it; NULL
    -- where none of its groups has a quota.
    throttled_nanoseconds bigint,
    PRIMARY KEY (job_id, rank, epoch),
    FOREIGN KEY (job_id) REFERENCES internal.run(id)
) WITH (fillfactor=50);

-- Paths of annotated regions of a rank's program, cumulative since epoch, over its threads; only paths that changed,
-- every ten seconds and at the end.
CREATE TABLE internal.mpi_region_paths (
    time timestamptz NOT NULL,
    job_id bigint NOT NULL,
    rank integer NOT NULL,
    node_id bigint NOT NULL,
    -- The regions that a thread was in, from the outermost to the innermost one, separated by /; in a name, / is
    -- written \/ and \ is written \\.
    path text NOT NULL,
    epoch timestamptz NOT NULL,
    source text NOT NULL,
    -- Times that the innermost region of this path was entered from the path around it. Cumulative since epoch.
    -- Unit: count. Origin: annotations in the program.
    visits bigint,
    -- Inclusive time of this path of annotated regions, paths within it included, over all threads. Cumulative
    -- since epoch. Unit: seconds. Origin: annotations in the program.
    elapsed_seconds double precision,
    -- Exclusive time of this path of annotated regions, without paths within it, over all threads. Cumulative since
    -- epoch. Unit: seconds. Origin: annotations in the program.
    own_seconds double precision,
    -- MPI operations in the exclusive time of this path of annotated regions. Cumulative since epoch. Unit: count.
    -- Origin: calls counted by the shim.
    mpi_calls bigint,
    -- Time inside MPI operations in the exclusive time of this path of annotated regions. Cumulative since epoch.
    -- Unit: seconds. Origin: time around the call.
    mpi_seconds double precision,
    PRIMARY KEY (job_id, rank, path, "time", node_id)
);
SELECT public.create_hypertable('internal.mpi_region_paths', public.by_range('time', INTERVAL '01:00:00'));

-- Annotated regions of a rank's program, cumulative since epoch, over its threads; only regions that changed.
CREATE TABLE internal.mpi_regions (
    time timestamptz NOT NULL,
    job_id bigint NOT NULL,
    rank integer NOT NULL,
    node_id bigint NOT NULL,
    -- Its name: begin and end in the program, MPI_Pcontrol, Caliper, NVTX.
    region text NOT NULL,
    epoch timestamptz NOT NULL,
    source text NOT NULL,
    -- Times that this annotated region was entered. Cumulative since epoch. Unit: count. Origin: annotations in the
    -- program.
    visits bigint,
    -- Time in this annotated region, regions within it included, over all threads. Cumulative since epoch. Unit:
    -- seconds. Origin: annotations in the program.
    elapsed_seconds double precision,
    -- Time in which this annotated region was its thread's innermost one, over all threads. Cumulative since epoch.
    -- Unit: seconds. Origin: annotations in the program.
    own_seconds double precision,
    -- MPI operations while this annotated region was the innermost one. Cumulative since epoch. Unit: count.
    -- Origin: calls counted by the shim.
    mpi_calls bigint,
    -- Time inside MPI operations while this annotated region was the innermost one. Cumulative since epoch. Unit:
    -- seconds. Origin: time around the call.
    mpi_seconds double precision,
    PRIMARY KEY (job_id, rank, region, "time", node_id)
);
SELECT public.create_hypertable('internal.mpi_regions', public.by_range('time', INTERVAL '01:00:00'));

-- Single calls of collectives, as a node's ranks sampled them: all members of a communicator sample the same ones. Who
-- spent the least arrived last, and what others spent beyond it was waiting. A row for each node, members, operation,
-- size class and second.
CREATE TABLE internal.mpi_sampled_calls (
    time timestamptz NOT NULL,
    job_id bigint NOT NULL,
    node_id bigint NOT NULL,
    -- Names the members: a hash of their world ranks in their order.
    comm_group bigint NOT NULL,
    library text NOT NULL DEFAULT 'mpi'::text,
    operation text NOT NULL,
    size_class_bytes bigint NOT NULL,
    -- Tells calls apart that are counted apart: a hash of algorithm and root.
    cell bigint NOT NULL,
    group_size integer NOT NULL,
    -- World ranks of the members, for people: FIRST-LAST:DISTANCE, the first runs of many.
    members text NOT NULL,
    -- The calls, bit-packed: mpi_packed_calls(packed) has a row for each, with its running number among those of
    -- the row's members, operation, size class and cell, and of the node's ranks that sampled it how many, the sum
    -- of their times, and the one with the least.
    packed bit varying NOT NULL,
    PRIMARY KEY (job_id, "time", node_id, comm_group, operation, size_class_bytes, cell, library)
);
SELECT public.create_hypertable('internal.mpi_sampled_calls', public.by_range('time', INTERVAL '01:00:00'));

-- Trace mode: calls and messages of ranks, on each rank's own clock.
CREATE TABLE internal.mpi_trace (
    time timestamptz NOT NULL,
    job_id bigint NOT NULL,
    rank integer NOT NULL,
    node_id bigint NOT NULL,
    epoch timestamptz NOT NULL,
    -- Counts all records of the rank, those lost on their way too: a gap is what is missing.
    number bigint NOT NULL,
    thread integer NOT NULL,
    -- call, send, receive: a call, and the message that it sent or received. arrival: a message that an earlier
    -- call asked for, from the asking to the end of the call that saw it complete. departure: one of several
    -- messages of a call. end: the limit of records was reached.
    kind text NOT NULL,
    operation text NOT NULL,
    region text NOT NULL,
    start_ns bigint NOT NULL,
    end_ns bigint NOT NULL,
    peer integer,
    tag integer,
    bytes bigint,
    -- The communicator by a number that is the same in all its members; 1 is MPI_COMM_WORLD, NULL where it is not
    -- known.
    comm bigint,
    -- Running count of the message among those of its source, destination, communicator and tag: the same in the
    -- row of the send and in that of the receive.
    sequence bigint,
    PRIMARY KEY (job_id, rank, epoch, number, "time", node_id)
);
SELECT public.create_hypertable('internal.mpi_trace', public.by_range('time', INTERVAL '01:00:00'));

-- Hosts, one row per boot.
CREATE TABLE internal.node (
    node_id bigint NOT NULL,
    name text NOT NULL,
    boot_id text,
    boot_time timestamptz,
    -- Node GUIDs of the host's own InfiniBand adapters: the way from a job to its links.
    hca_guids text[] NOT NULL DEFAULT '{}'::text[],
    valid_from timestamptz NOT NULL,
    valid_to timestamptz,
    PRIMARY KEY (node_id, valid_from),
    FOREIGN KEY (node_id) REFERENCES internal.node_key(id)
);
CREATE UNIQUE INDEX node_current ON internal.node (node_id) WHERE (valid_to IS NULL);

-- Nodes and certificates that the collector refuses (throughline node bar), and those that it refused once.
CREATE TABLE internal.node_bar (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    -- A DNS name of the refused certificates; NULL where one certificate is refused by its serial number.
    node text,
    -- Serial number of the refused certificate: hexadecimal, lower case, without leading zeros.
    serial text,
    since timestamptz NOT NULL DEFAULT now(),
    -- The user of the server's machine who barred it.
    barred_by text NOT NULL,
    reason text NOT NULL DEFAULT ''::text,
    -- When it was let in again; NULL while it is barred.
    until timestamptz,
    unbarred_by text,
    PRIMARY KEY (id),
    CHECK ((num_nonnulls(node, serial) = 1))
);
CREATE UNIQUE INDEX node_bar_node_idx ON internal.node_bar (node) WHERE (until IS NULL);
CREATE UNIQUE INDEX node_bar_serial_idx ON internal.node_bar (serial) WHERE (until IS NULL);

-- Names that each certificate sent records as: what a bar by serial number is about.
CREATE TABLE internal.node_certificate (
    node text NOT NULL,
    -- As in node_bar.serial.
    serial text NOT NULL,
    first_at timestamptz NOT NULL DEFAULT now(),
    -- When it last did, within an hour.
    last_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (node, serial)
);
CREATE INDEX node_certificate_serial_idx ON internal.node_certificate (serial);

CREATE TABLE internal.node_key (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    name text NOT NULL,
    PRIMARY KEY (id),
    UNIQUE (name)
);

-- Hours of nvlink_counters, packed. One without readings has NULL in place of the series.
CREATE TABLE internal.nvlink_blocks (
    -- When the hour begins.
    time timestamptz NOT NULL,
    gpu_id bigint NOT NULL,
    -- Who read it; empty where nobody did.
    source text NOT NULL,
    -- The series, one behind the other: bit-packed differences with a checksum each.
    samples bytea,
    -- Of each series the number of the metric in the catalogue; -2: times of its rows; -3: when counting began.
    metrics integer[],
    -- Of each series the number of the link, from 0; NULL where all are 0.
    elements integer[],
    -- Where in samples each series begins, in bytes from 0, and where the last one ends.
    offsets integer[],
    PRIMARY KEY (gpu_id, "time", source)
);
SELECT public.create_hypertable('internal.nvlink_blocks', public.by_range('time', INTERVAL '01:00:00'));

-- Counters of a GPU's NVLinks, one row per GPU and tick: element 1 of each array is link 0. See nvlink_link_counters.
CREATE TABLE internal.nvlink_counters (
    time timestamptz NOT NULL,
    gpu_id bigint NOT NULL,
    epoch timestamptz NOT NULL,
    source text NOT NULL,
    -- Data sent on this NVLink, payload only. Cumulative since epoch. Unit: bytes. Origin: NVML fields 138 (KiB),
    -- 202 from NVLink 5.
    transmit_bytes bigint[],
    -- Data received on this NVLink, payload only. Cumulative since epoch. Unit: bytes. Origin: NVML fields 139
    -- (KiB), 204 from NVLink 5.
    receive_bytes bigint[],
    -- Packets sent again on this NVLink after an error. Cumulative since epoch. Unit: count. Origin: NVML DL replay
    -- counter of the link.
    replay_errors bigint[],
    -- Times this NVLink recovered from an error. Cumulative since epoch. Unit: count. Origin: NVML DL recovery
    -- counter of the link.
    recovery_errors bigint[],
    -- Flow-control units with a wrong checksum on this NVLink. Cumulative since epoch. Unit: count. Origin: NVML DL
    -- CRC FLIT counter of the link.
    crc_errors bigint[],
    -- Speed of this NVLink in one direction. As of time. Unit: bytes per second. Origin: NVML field 164 and its
    -- family (MB/s).
    speed_bytes_per_second bigint[],
    -- 1 while this NVLink is active, else 0. As of time. Unit: count. Origin: nvmlDeviceGetNvLinkState.
    up bigint[],
    -- Malformed packets received on this NVLink. Cumulative since epoch. Unit: count. Origin: NVML field 206
    -- (NVLink 5).
    malformed_packet_errors bigint[],
    -- Packets received on this NVLink and discarded because a buffer was full. Cumulative since epoch. Unit: count.
    -- Origin: NVML field 207 (NVLink 5).
    buffer_overrun_errors bigint[],
    -- Packets received on this NVLink with an error. Cumulative since epoch. Unit: count. Origin: NVML field 208
    -- (NVLink 5).
    receive_errors bigint[],
    -- Packets received on this NVLink that another device had marked as bad. Cumulative since epoch. Unit: count.
    -- Origin: NVML field 209 (NVLink 5).
    remote_errors bigint[],
    -- Packets received on this NVLink with a wrong header. Cumulative since epoch. Unit: count. Origin: NVML field
    -- 210 (NVLink 5).
    general_errors bigint[],
    -- Times the errors of this NVLink passed their threshold. Cumulative since epoch. Unit: count. Origin: NVML
    -- field 211 (NVLink 5).
    link_integrity_errors bigint[],
    -- Packets that this NVLink discarded and did not send. Cumulative since epoch. Unit: count. Origin: NVML field
    -- 212 (NVLink 5).
    transmit_discards bigint[],
    -- Times this NVLink failed to recover from an error. Cumulative since epoch. Unit: count. Origin: NVML field
    -- 214 (NVLink 5).
    recovery_failures bigint[],
    -- Errors of this NVLink that forward error correction did not mend. Cumulative since epoch. Unit: count.
    -- Origin: NVML field 219 (NVLink 5).
    effective_errors bigint[],
    -- Symbols with an error on this NVLink. Cumulative since epoch. Unit: count. Origin: NVML field 221 (NVLink 5).
    symbol_errors bigint[],
    -- Bit error ratio of this NVLink after forward error correction, in errors per 10^18 bits. As of time. Unit:
    -- count. Origin: NVML field 220 (NVLink 5).
    effective_ber_per_1e18 bigint[],
    -- Bit error ratio of this NVLink's symbols, in errors per 10^18 bits. As of time. Unit: count. Origin: NVML
    -- field 222 (NVLink 5).
    symbol_ber_per_1e18 bigint[],
    -- Blocks of this NVLink in which forward error correction mended at least one symbol. Cumulative since epoch.
    -- Unit: count. Origin: NVML fields 236 to 250, summed up (NVLink 5).
    fec_corrected_blocks bigint[],
    -- Most symbols that forward error correction mended in one block of this NVLink; 15 is its limit. As of time.
    -- Unit: count. Origin: the highest of NVML fields 236 to 250 that is not 0 (NVLink 5).
    fec_most_symbols bigint[],
    PRIMARY KEY (gpu_id, "time", source)
);
SELECT public.create_hypertable('internal.nvlink_counters', public.by_range('time', INTERVAL '01:00:00'));

-- GPUs' NVLinks by the minute, made of nvlink_counters: element 1 of each array is link 0. See nvlink_link_minutes.
CREATE TABLE internal.nvlink_minutes (
    -- When the minute begins.
    time timestamptz NOT NULL,
    gpu_id bigint NOT NULL,
    source text NOT NULL,
    -- When the counters began to count; a minute in which they began anew has two rows.
    epoch timestamptz NOT NULL,
    -- How much of the minute is known. Weigh by it when averaging.
    seconds real[] NOT NULL,
    -- Mean rate.
    transmit_bytes_per_second real[],
    -- Mean rate.
    receive_bytes_per_second real[],
    -- Largest rate between two readings.
    transmit_peak_bytes_per_second real[],
    -- Largest rate between two readings.
    receive_peak_bytes_per_second real[],
    -- Share of the known seconds in which more than 90 % of the speed was used.
    transmit_busy_ratio real[],
    -- Share of the known seconds in which more than 90 % of the speed was used.
    receive_busy_ratio real[],
    -- Speed of the link, one direction.
    speed_bytes_per_second bigint[],
    -- When it was read last in the minute; the counters are as of then.
    last_time timestamptz,
    transmit_bytes bigint[],
    receive_bytes bigint[],
    PRIMARY KEY (gpu_id, "time", source, epoch)
);
SELECT public.create_hypertable('internal.nvlink_minutes', public.by_range('time', INTERVAL '1 day'));

-- Which hours of a table of readings are in its table of blocks only. A row there is of a reading that came late, and
-- is to be packed.
CREATE TABLE internal.packed_state (
    readings text NOT NULL,
    -- The first hour that was packed. Older readings are rows.
    packed_from timestamptz NOT NULL,
    -- Later readings are rows, whether packed or not.
    packed_until timestamptz NOT NULL,
    PRIMARY KEY (readings),
    CHECK ((packed_from <= packed_until))
);

-- What each node says of the ranks that it runs. The view job_rank has those that count.
CREATE TABLE internal.rank_claim (
    job_id bigint NOT NULL,
    rank integer NOT NULL,
    -- The node that reports it.
    node_id bigint,
    host text NOT NULL,
    pid bigint NOT NULL,
    world_size integer NOT NULL,
    mpi_library text NOT NULL,
    -- When MPI_Init ended. A rank that connects anew has the same.
    start_time timestamptz NOT NULL,
    end_time timestamptz,
    -- clean: MPI_Finalize was seen. lost: the process or its connection ended without it. unseen: it ended while no
    -- agent ran on its node, and end_time is when it was last known to run. silent: its node reports nothing any
    -- more, and end_time is when it last did; taken back when it does again. NULL while the rank runs.
    ending text,
    -- By what the GPUs that it uses are known, which are the rows of rank_gpu with that evidence: driver, or device
    -- where the driver's list of processes could not be read. NULL: they are not known.
    gpu_evidence text,
    -- CUDA_VISIBLE_DEVICES as it was at MPI_Init; NULL where it was not set.
    visible_devices text,
    -- DEVICE/PORT of the host's adapters on which its process has queue pairs, the one with most first; NULL where
    -- not known.
    hca_ports text[],
    -- CPUs that it might run on when it connected, as the kernel writes a list.
    cpus text,
    -- NUMA nodes of these CPUs.
    numa_nodes integer[],
    -- NUMA nodes of the adapters that it used, or of all adapters of its host where these are not known; NULL where
    -- sysfs does not say.
    hca_numa_nodes integer[],
    -- NULL: it counts. contested: another node says that it runs this rank at that time, and it is not known which
    -- one does; neither counts. overruled: what other nodes report of the job, or of others that this node claims,
    -- is against it. barred: the node is (node_bar).
    contest text,
    UNIQUE NULLS NOT DISTINCT (job_id, rank, node_id, start_time),
    FOREIGN KEY (job_id) REFERENCES internal.run(id),
    FOREIGN KEY (node_id) REFERENCES internal.node_key(id),
    CHECK ((contest = ANY (ARRAY['contested'::text, 'overruled'::text, 'barred'::text])))
);
CREATE INDEX rank_claim_excluded ON internal.rank_claim (job_id, rank, node_id) WHERE (contest IS NOT NULL);
CREATE INDEX rank_claim_failed ON internal.rank_claim (job_id) WHERE (ending = ANY (ARRAY['lost'::text, 'silent'::text]));
CREATE INDEX rank_claim_of_node ON internal.rank_claim (node_id, start_time);
CREATE INDEX rank_claim_overruled ON internal.rank_claim (node_id, contest) WHERE (contest = ANY (ARRAY['overruled'::text, 'barred'::text]));
CREATE INDEX rank_claim_running ON internal.rank_claim (job_id) WHERE (end_time IS NULL);

-- GPUs that the ranks of rank_claim have to do with: one row for each kind of evidence. The view job_rank_gpus has them
-- by name, with the nearest port.
CREATE TABLE internal.rank_gpu (
    job_id bigint NOT NULL,
    rank integer NOT NULL,
    -- The node that reports it: rank_claim.node_id.
    node_id bigint NOT NULL,
    -- rank_claim.start_time.
    start_time timestamptz NOT NULL,
    -- The whole GPU.
    gpu_id bigint NOT NULL,
    -- The partition of it (MIG); NULL for the whole.
    partition_id bigint,
    -- driver: the driver lists the rank's process there. device: it has the GPU's device file open. visible:
    -- CUDA_VISIBLE_DEVICES names it by UUID, so that it may use it.
    evidence text NOT NULL,
    -- N of the device file /dev/nvidiaN, of a partition that of its GPU; NULL where it is not known.
    minor integer,
    -- How far gpu.nearest_hcas are from it: switch (PIX), switches (PXB), host_bridge (PHB), numa_node (NODE) or
    -- system (SYS); NULL where that is not known.
    nearest_distance text,
    -- While the rank was there, the driver listed processes on the GPU, or on a partition of it, that are no ranks
    -- of the job.
    has_others boolean NOT NULL DEFAULT false,
    -- The first look at which it was so: looks are 2 s to 5 minutes apart.
    first_seen timestamptz NOT NULL,
    -- The last such look; NULL while it is so.
    last_seen timestamptz,
    UNIQUE NULLS NOT DISTINCT (job_id, rank, node_id, start_time, gpu_id, partition_id, evidence),
    FOREIGN KEY (gpu_id) REFERENCES internal.gpu_key(id),
    FOREIGN KEY (job_id) REFERENCES internal.run(id),
    FOREIGN KEY (node_id) REFERENCES internal.node_key(id),
    FOREIGN KEY (partition_id) REFERENCES internal.gpu_key(id),
    CHECK ((evidence = ANY (ARRAY['driver'::text, 'device'::text, 'visible'::text])))
);
CREATE INDEX rank_gpu_of_gpu ON internal.rank_gpu (gpu_id, first_seen);

-- Records that were rejected, counted by day, sender, reason and kind; the rest of their batches is stored.
CREATE TABLE internal.record_quarantine (
    day date NOT NULL DEFAULT CURRENT_DATE,
    sender text NOT NULL,
    reason text NOT NULL,
    kind text NOT NULL,
    records bigint NOT NULL,
    -- The first of them, as a batch of its own with no more than its first bytes.
    example bytea NOT NULL,
    first_at timestamptz NOT NULL DEFAULT now(),
    last_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (day, sender, reason, kind)
);

-- Reports (job_judgement.report) that the address of [report] webhook has not taken. One that it took has no row.
CREATE TABLE internal.report_post (
    job_id bigint NOT NULL,
    -- Sent with the report (Throughline-Report-Id): the same each time, so that a receiver knows one that comes
    -- twice.
    id uuid NOT NULL DEFAULT gen_random_uuid(),
    created_at timestamptz NOT NULL DEFAULT now(),
    -- waiting: is posted at next_try. failed: was refused, or not taken within a day, and is not posted again.
    state text NOT NULL DEFAULT 'waiting'::text,
    -- How often it was posted in vain.
    tries integer NOT NULL DEFAULT 0,
    next_try timestamptz NOT NULL DEFAULT now(),
    -- Why the last try failed.
    error text,
    -- The node in whose turn it is posted, as in job_judgement.
    node_id bigint NOT NULL,
    -- The owner in whose turn it is posted, as in job_judgement.
    uid bigint NOT NULL,
    PRIMARY KEY (job_id),
    FOREIGN KEY (job_id) REFERENCES internal.run(id),
    CHECK ((state = ANY (ARRAY['waiting'::text, 'failed'::text])))
);
CREATE INDEX report_post_turn ON internal.report_post (node_id, uid, next_try, job_id) WHERE (state = 'waiting'::text);

-- How long each hypertable has its rows, as throughline serve is configured: what the procedure expire goes by.
CREATE TABLE internal.retention_policy (
    hypertable text NOT NULL,
    keep interval NOT NULL,
    -- Chunks become columns once they are so old; NULL: never, as on the Apache edition.
    columns_after interval,
    -- What a total of a job is: a row, or the last values of packed cells or peers. Those that chunks would take
    -- with them are written once more before (carry_totals). NULL: the table has none.
    carried_by text,
    -- Columns that distinguish series of totals.
    carried_key text[],
    -- Time of the rows that were written so last.
    carried_to timestamptz,
    -- Chunks that were dropped since the database was made.
    dropped_chunks bigint NOT NULL DEFAULT 0,
    -- Chunks that ended by then were dropped; NULL: none was.
    dropped_until timestamptz,
    PRIMARY KEY (hypertable),
    CHECK ((carried_by = ANY (ARRAY['row'::text, 'cells'::text, 'peers'::text])))
);

-- By which rules each sender leaves out rows of what does not change. The function row_rules_of has those of each port
-- and GPU, also where a sender has not reported any.
CREATE TABLE internal.row_rules (
    -- Who reports: a node's name, or for a crawler fabric: and the id of its fabric. instance_name() makes a name
    -- of it.
    instance text NOT NULL,
    -- As in coverage: mad, sysfs, nvml.
    source text NOT NULL,
    valid_from timestamptz NOT NULL,
    -- NULL in the current row.
    valid_to timestamptz,
    -- What is read and does not change has at least one row in this time.
    heartbeat_seconds double precision NOT NULL,
    -- Between two rows farther apart it was not read: no rate is made across.
    largest_gap_seconds double precision NOT NULL,
    -- Data since the last row, in either direction, that count as unchanged.
    quiet_bytes bigint NOT NULL,
    PRIMARY KEY (instance, source, valid_from)
);
CREATE UNIQUE INDEX row_rules_current ON internal.row_rules (instance, source) WHERE (valid_to IS NULL);

-- Jobs and job steps: what is shown of each. run_claim has what each node says of it, run_alias by which names it is
-- known.
CREATE TABLE internal.run (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    -- The name that it is shown by: scheduler:[cluster:]id[.step]@uid, or local:...@uid without a scheduler; the
    -- same on every node of the job.
    key text NOT NULL,
    scheduler text,
    -- The scheduler's own id. A requeued job of Slurm has the same one in each of its runs.
    native_id text,
    step text,
    uid bigint,
    user_name text,
    command text,
    start_time timestamptz,
    -- When the last of its ranks ended; NULL while one runs, wherever.
    end_time timestamptz,
    world_size integer,
    first_seen timestamptz NOT NULL DEFAULT now(),
    name text,
    -- Account or project, as the scheduler's variables name it.
    account text,
    -- Partition of Slurm, queue of others.
    queue text,
    -- Array and number in it, as the scheduler writes them, NULL for a job of its own.
    array_id text,
    -- What says that the ranks are in this job: cgroup (the kernel), environment (only their own word), launcher or
    -- process (no scheduler). The user is always the kernel's word.
    evidence text,
    -- Columns of it that are NULL because its nodes disagree about them: run_claim has what each says.
    contested_facts text[],
    -- The Slurm cluster in its key, NULL where it is not known and with other schedulers.
    cluster text GENERATED ALWAYS AS ("substring"(key, '^slurm:([^:]*):.*@[0-9]{1,10}$'::text)) STORED,
    -- The id and step in its key; since Slurm 26.05 the SLUID of the run, and native_id has the number.
    key_job text GENERATED ALWAYS AS ("substring"(key, '^(?:slurm:[^:]*:|[^:]*:)(.*)@[0-9]{1,10}$'::text)) STORED,
    -- The user in its key, by the kernel's word.
    key_uid text GENERATED ALWAYS AS ("substring"(key, ':.*@([0-9]{1,10})$'::text)) STORED,
    PRIMARY KEY (id),
    UNIQUE (key)
);
CREATE INDEX run_ended ON internal.run (end_time DESC, id DESC) WHERE (end_time IS NOT NULL);
CREATE INDEX run_native ON internal.run (native_id) WHERE (native_id IS NOT NULL);
CREATE INDEX run_unended ON internal.run (id) WHERE (end_time IS NULL);

-- Natural keys of schedulers and launchers by which senders name a run. Another name of a run is another row, and
-- changes no other table.
CREATE TABLE internal.run_alias (
    key text NOT NULL,
    job_id bigint NOT NULL,
    first_seen timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (key),
    FOREIGN KEY (job_id) REFERENCES internal.run(id)
);
CREATE INDEX run_alias_of_run ON internal.run_alias (job_id);

-- What each node said of a run last: agents do once a minute while ranks of it run there. Columns as in run; NULL where
-- the node says nothing.
CREATE TABLE internal.run_claim (
    job_id bigint NOT NULL,
    node_id bigint NOT NULL,
    scheduler text,
    native_id text,
    step text,
    uid bigint,
    user_name text,
    command text,
    start_time timestamptz,
    end_time timestamptz,
    world_size integer,
    name text,
    account text,
    queue text,
    array_id text,
    evidence text,
    first_seen timestamptz NOT NULL,
    -- When ranks were last known to run there, by the node's clock.
    last_seen timestamptz NOT NULL,
    -- When that was stored, by the database's clock.
    reported_at timestamptz NOT NULL DEFAULT now(),
    -- The node is barred, or its claims of ranks of the run are overruled: nothing that it says of the run counts.
    is_excluded boolean NOT NULL DEFAULT false,
    -- The node reports ranks of it. What others say of a run does not count beside what these say.
    has_ranks boolean NOT NULL DEFAULT false,
    -- From when on the job waits for its next verdict in the turn of this node; NULL after the last one.
    judge_after timestamptz DEFAULT now(),
    -- Whether the job had a verdict already; jobs that had none come first in the turn.
    was_judged boolean NOT NULL DEFAULT false,
    -- Up to when mpi_node_rows has all that the node counted of the run: its agent reports that each ten seconds,
    -- also when nothing was called. By the node's clock.
    folded_until timestamptz,
    PRIMARY KEY (job_id, node_id),
    FOREIGN KEY (job_id) REFERENCES internal.run(id),
    FOREIGN KEY (node_id) REFERENCES internal.node_key(id)
);
CREATE INDEX run_claim_turn ON internal.run_claim (node_id, COALESCE(uid, ('-1'::integer)::bigint), was_judged, judge_after, job_id) WHERE (judge_after IS NOT NULL);
CREATE INDEX run_claim_unended ON internal.run_claim (node_id) WHERE (end_time IS NULL);
CREATE INDEX run_claim_world ON internal.run_claim (job_id, world_size) WHERE has_ranks;

CREATE TABLE internal.schema_migrations (
    version integer NOT NULL,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (version)
);

-- Functions, procedures and views of Throughline as they are installed. Each start of throughline serve compares them
-- with its own.
CREATE TABLE internal.schema_objects (
    name text NOT NULL,
    kind text NOT NULL,
    schema text NOT NULL,
    -- MD5 of the file that the object was made from.
    checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (name),
    CHECK ((kind = ANY (ARRAY['function'::text, 'procedure'::text, 'view'::text])))
);

-- Lists of self-metrics, which rows of self_stat_rows in thinned chunks have the number of.
CREATE TABLE internal.self_stat_names (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    -- Of sources, labels and names.
    digest text NOT NULL,
    -- The source of each of names.
    sources text[] NOT NULL,
    -- The label of each of names.
    labels text[] NOT NULL,
    -- As in the catalogue.
    names text[] NOT NULL,
    -- Since when it is there. Rows have its number an hour later.
    listed_at timestamptz NOT NULL DEFAULT now(),
    -- When rows were last given its number.
    used_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (id),
    UNIQUE (digest)
);

-- Self-metrics of Throughline, of a daemon at a time: element n of each array is of the same value. The view self_stats
-- has a row for each value.
CREATE TABLE internal.self_stat_rows (
    time timestamptz NOT NULL,
    instance text NOT NULL,
    sources text[] NOT NULL,
    -- The value of the label that the catalogue gives the metric besides source, such as a reason. Empty where it
    -- has none.
    labels text[] NOT NULL,
    -- As in the catalogue. Not each row has all of a daemon: agents report those that changed, and each minute all.
    names text[] NOT NULL,
    readings double precision[] NOT NULL,
    -- In self_stat_names: sources, labels and names are there, and empty here. NULL where they are here.
    names_id bigint
);
CREATE INDEX self_stat_rows_by_instance ON internal.self_stat_rows (instance, "time" DESC);
SELECT public.create_hypertable('internal.self_stat_rows', public.by_range('time', INTERVAL '01:00:00'));

-- The series that self_stat_rows has or had: each daemon's metrics, their sources and labels.
CREATE TABLE internal.self_stat_series (
    name text NOT NULL,
    source text NOT NULL,
    label text NOT NULL,
    instance text NOT NULL,
    PRIMARY KEY (name, source, label, instance)
);

-- How far the clock of each sender was from the server's when it was measured last, by an exchange of its own.
CREATE TABLE internal.sender_clock (
    -- The sender as node:NAME or crawler:NAME, by its certificate.
    sender_id text NOT NULL,
    -- By the server's clock.
    measured_at timestamptz NOT NULL,
    -- By the sender's clock at that moment.
    sender_time timestamptz NOT NULL,
    -- Sender less server.
    offset_seconds double precision NOT NULL,
    -- Of the exchange; the offset is wrong by at most half of it.
    round_trip_seconds double precision NOT NULL,
    -- Time of the newest record that it sent, after it was moved.
    newest_record timestamptz,
    PRIMARY KEY (sender_id)
);

-- Whether the clock of a server is off against most of its senders, three or more: it stores nothing meanwhile.
CREATE TABLE internal.server_clock (
    server text NOT NULL,
    -- By its own clock.
    judged_at timestamptz NOT NULL,
    -- How far it is ahead of them; 0 where it is right or nobody knows.
    offset_seconds double precision NOT NULL,
    -- Senders that agree on that.
    senders_alike integer NOT NULL,
    -- Senders that were measured lately.
    senders integer NOT NULL,
    -- By the database's clock.
    noted_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (server)
);

-- Chunks whose rows upkeep has replaced by fewer, as they are older than retention.rows_seconds. What came late for one
-- is a row as it was sent.
CREATE TABLE internal.thinned_chunk (
    -- Its schema and name, quoted.
    chunk text NOT NULL,
    hypertable text NOT NULL,
    range_start timestamptz NOT NULL,
    range_end timestamptz NOT NULL,
    -- Its rows before it was thinned last.
    rows_before bigint NOT NULL,
    rows_after bigint NOT NULL,
    -- Its rows' pages after that, without indexes and TOAST. Where late rows make it an eighth larger it is thinned
    -- again.
    bytes_after bigint NOT NULL,
    thinned_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (chunk)
);

CREATE OR REPLACE VIEW internal.run_visible AS
SELECT id, key, scheduler, native_id, step, uid, user_name, command, start_time, end_time, world_size, first_seen, name, account, queue,
       array_id, evidence, contested_facts, cluster, key_job, key_uid
FROM internal.run;
COMMENT ON VIEW internal.run_visible IS 'The runs that readers see: all of them. Each view and query of jobs is over it.';

CREATE OR REPLACE VIEW internal.job_rank AS
SELECT r.job_id, r.rank, r.node_id, r.host, r.pid, r.world_size, r.mpi_library, r.start_time, r.end_time, r.ending, r.gpu_evidence,
       -- Which of the GPUs that a process has open it uses, only the driver knows.
       CASE WHEN r.gpu_evidence = 'driver' OR r.gpu_evidence = 'device' AND NOT EXISTS (
                SELECT FROM internal.rank_gpu g WHERE g.job_id = r.job_id AND g.rank = r.rank AND g.node_id = r.node_id
                AND g.start_time = r.start_time AND g.evidence = 'device') THEN ARRAY(
            SELECT k.uuid FROM internal.rank_gpu g JOIN internal.gpu_key k ON k.id = coalesce(g.partition_id, g.gpu_id)
            WHERE g.job_id = r.job_id AND g.rank = r.rank AND g.node_id = r.node_id AND g.start_time = r.start_time
                AND g.evidence = 'driver'
            ORDER BY g.first_seen, k.id) END AS gpu_uuids,
       r.visible_devices, r.hca_ports, r.cpus, r.numa_nodes, r.hca_numa_nodes
FROM internal.rank_claim r
WHERE r.contest IS NULL;
COMMENT ON VIEW internal.job_rank IS
    'The ranks of jobs, as the nodes report them whose claims count. Each view and query of ranks is over it. gpu_uuids are GPUs and '
    'partitions that a rank has used, by the driver''s list of processes; NULL where that is not known, {} for none.';

CREATE OR REPLACE FUNCTION internal.claims_overlap(
    start_time timestamptz, end_time timestamptz, other_start_time timestamptz, other_end_time timestamptz)
RETURNS boolean
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT least(coalesce(end_time, now() + INTERVAL '1 hour'), coalesce(other_end_time, now() + INTERVAL '1 hour'))
           - greatest(start_time, other_start_time)
        > least(INTERVAL '5 seconds', least(coalesce(end_time, now() + INTERVAL '1 hour') - start_time,
                                            coalesce(other_end_time, now() + INTERVAL '1 hour') - other_start_time) / 2);
END;
COMMENT ON FUNCTION internal.claims_overlap IS
    'Whether two nodes say that they run the same rank at one time. A rank that moved to another node does not overlap: clocks differ by less than five seconds.';

CREATE OR REPLACE VIEW internal.barred_nodes AS
SELECT b.node, NULL::text AS serial, b.since, b.barred_by, b.reason
FROM internal.node_bar b WHERE b.until IS NULL AND b.node IS NOT NULL
UNION ALL
SELECT c.node, b.serial, b.since, b.barred_by, b.reason
FROM internal.node_bar b JOIN internal.node_certificate c ON c.serial = b.serial WHERE b.until IS NULL;
COMMENT ON VIEW internal.barred_nodes IS
    'Nodes that are barred now: by name, and by the serial number of a certificate that sent records as that node.';

CREATE OR REPLACE VIEW public.moved_times AS
SELECT split_part(sender_id, ':', 2) AS instance, sender_id, began_at, ended_at, offset_seconds
FROM internal.clock_span WHERE offset_seconds <> 0;
COMMENT ON VIEW public.moved_times IS
    'Stretches in which the clock of a node or crawler was off: the times of its rows of a stretch were moved back by offset_seconds when they were stored.';
COMMENT ON COLUMN public.moved_times.instance IS 'The node, or the name of the crawler''s certificate.';
COMMENT ON COLUMN public.moved_times.sender_id IS 'The same as node:NAME or crawler:NAME.';
COMMENT ON COLUMN public.moved_times.began_at IS 'When the stretch began, moved as its rows are.';
COMMENT ON COLUMN public.moved_times.ended_at IS 'When it ended; NULL while it lasts, and where the sender was stopped in it.';
COMMENT ON COLUMN public.moved_times.offset_seconds IS 'How far the clock was ahead, in whole 10 s; negative: behind.';

CREATE OR REPLACE FUNCTION internal.is_barred(node text, at timestamptz DEFAULT NULL)
RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT EXISTS (
        SELECT FROM internal.barred_nodes b
        WHERE b.node = is_barred.node AND (is_barred.at IS NULL OR b.serial IS NULL OR is_barred.at <= b.since));
END;
COMMENT ON FUNCTION internal.is_barred IS
    'Whether a node is barred, so that nothing that it claimed counts. With a time: whether what it claimed then counts not; what '
    'came after a certificate was barred by its serial number is of another certificate of that node.';

-- Increase between two stored readings of one epoch. Stored counters are 63 bits wide and start again at 0. NULL of NULL without STRICT: a
-- function that is STRICT is not part of the plan, and is called for each row.
CREATE OR REPLACE FUNCTION public.counter_increase(before bigint, after bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN after >= before THEN after - before
            ELSE (after - before) + 9223372036854775807 + 1 END;
COMMENT ON FUNCTION public.counter_increase IS 'Increase of a counter between two readings of one epoch, modulo 2^63.';

CREATE OR REPLACE FUNCTION public.counter_rate(before bigint, after bigint, interval_seconds double precision)
RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN public.counter_increase(before, after) / nullif(interval_seconds, 0);
COMMENT ON FUNCTION public.counter_rate IS 'Increase of a counter per second; NULL where the interval is 0 or a reading is missing.';

CREATE OR REPLACE FUNCTION internal.stored_total(total numeric) RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN least(total, 9223372036854775807)::bigint;
COMMENT ON FUNCTION internal.stored_total IS 'A sum of counters as bigint; NULL stays NULL.';

-- Neither STRICT nor least(): PostgreSQL puts it into the queries that call it, and it costs nothing.
CREATE OR REPLACE FUNCTION internal.at_most_one(ratio double precision) RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN ratio > 1 THEN 1 ELSE ratio END;
COMMENT ON FUNCTION internal.at_most_one IS
    'A share of time, at most 1: times of readings that are not exact may make it a little larger. NULL of NULL.';

CREATE OR REPLACE FUNCTION internal.row_rules_default()
RETURNS TABLE (heartbeat_seconds double precision, largest_gap_seconds double precision, quiet_bytes bigint)
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT 60::double precision, 75::double precision, 65536::bigint;
END;
COMMENT ON FUNCTION internal.row_rules_default IS
    'By which rules rows are left out by a sender that has reported none: a heartbeat each 60 s, at most 75 s between two rows, and 65536 bytes that count as no change.';

CREATE OR REPLACE FUNCTION internal.default_gap()
RETURNS interval
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN INTERVAL '75 seconds';
COMMENT ON FUNCTION internal.default_gap IS
    'Daemons report each of their figures, and what goes on in MPI, at least once a minute: what is older than this is silence.';

CREATE OR REPLACE FUNCTION internal.minutely_gap()
RETURNS interval
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN INTERVAL '180 seconds';
COMMENT ON FUNCTION internal.minutely_gap IS
    'Agents report once a minute that a job runs, and what the kernel counted of its ranks: a newest report older than this is silence.';

CREATE OR REPLACE VIEW internal.rank_contests AS
SELECT a.job_id, a.rank, a.node_id, a.start_time, a.end_time, a.contest, b.node_id AS other_node_id
FROM internal.rank_claim a
-- Not b.node_id <> a.node_id, and no more than 64: a node that began the rank a thousand times would be compared with another such one
-- a million times. Where there are as many, their times decide nothing.
CROSS JOIN LATERAL (
    SELECT node_id, start_time, end_time, count(*) OVER () = 64 AS are_many FROM (
        SELECT * FROM internal.rank_claim b WHERE b.job_id = a.job_id AND b.rank = a.rank AND b.node_id < a.node_id
            AND coalesce(b.contest, 'contested') = 'contested' LIMIT 64) b
    UNION ALL
    SELECT node_id, start_time, end_time, count(*) OVER () = 64 AS are_many FROM (
        SELECT * FROM internal.rank_claim b WHERE b.job_id = a.job_id AND b.rank = a.rank AND b.node_id > a.node_id
            AND coalesce(b.contest, 'contested') = 'contested' LIMIT 64) b) b
LEFT JOIN internal.run_claim c ON c.job_id = a.job_id AND c.node_id = a.node_id
LEFT JOIN internal.run_claim d ON d.job_id = a.job_id AND d.node_id = b.node_id
-- A node that says nothing any more ran its ranks until it last did.
WHERE b.are_many OR internal.claims_overlap(
    a.start_time, coalesce(a.end_time, CASE WHEN c.reported_at < now() - internal.minutely_gap() THEN greatest(c.last_seen, a.start_time) END),
    b.start_time, coalesce(b.end_time, CASE WHEN d.reported_at < now() - internal.minutely_gap() THEN greatest(d.last_seen, b.start_time) END))
UNION ALL
-- A rank beyond the world that another node reports.
SELECT a.job_id, a.rank, a.node_id, a.start_time, a.end_time, a.contest, d.node_id
FROM internal.rank_claim a
JOIN internal.run_claim d ON d.job_id = a.job_id AND d.node_id <> a.node_id AND d.has_ranks AND NOT d.is_excluded AND d.world_size <= a.rank AND d.reported_at >= a.start_time
    AND d.first_seen <= coalesce(a.end_time, now());
COMMENT ON VIEW internal.rank_contests IS
    'Claims of ranks that another node''s claim is against, which is not overruled itself: the same rank at the same time, or a rank that its world does not have.';

CREATE OR REPLACE FUNCTION internal.of_counted(job bigint, query text) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = ''
AS $$
DECLARE
    is_contested boolean;
BEGIN
    SELECT EXISTS (SELECT FROM internal.rank_claim x WHERE x.job_id = of_counted.job AND x.contest IS NOT NULL) INTO is_contested;
    RETURN replace(replace(query,
        '{of_counted_rank}', CASE WHEN is_contested THEN ' AND NOT EXISTS (SELECT FROM internal.rank_claim x
            WHERE x.contest IS NOT NULL AND x.job_id = m.job_id AND x.rank = m.rank AND x.node_id = m.node_id)' ELSE '' END),
        '{of_counted_node}', CASE WHEN is_contested THEN ' AND NOT EXISTS (SELECT FROM internal.rank_claim x
            WHERE x.contest IS NOT NULL AND x.job_id = m.job_id AND x.node_id = m.node_id)' ELSE '' END);
END
$$;
COMMENT ON FUNCTION internal.of_counted IS
    'A query over rows m of ranks or nodes of a job, without those that are contested, overruled or barred, where the job has any: {of_counted_rank} and {of_counted_node} in its conditions become that. The sums of a node are left out as soon as one of its ranks is.';

CREATE OR REPLACE FUNCTION internal.is_device_contested(adapter text, node bigint) RETURNS boolean
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT EXISTS (SELECT FROM internal.device_claim d
                   WHERE d.kind = 'hca' AND d.name = is_device_contested.adapter AND d.node_id <> is_device_contested.node
                     AND d.holds_until > now())
        AND NOT EXISTS (SELECT FROM internal.ib_node s JOIN internal.node_key k ON k.id = is_device_contested.node
                        WHERE s.guid = is_device_contested.adapter AND s.valid_to IS NULL
                          AND split_part(s.description, ' ', 1) IN (k.name, split_part(k.name, '.', 1)));
END;
COMMENT ON FUNCTION internal.is_device_contested IS
    'Whether another node reports the same adapter (node GUID) as its own, and the fabric does not describe it as this node''s: what the subnet calls a channel adapter begins with its host''s name.';

CREATE OR REPLACE FUNCTION internal.fabric_port_of(port_guid text, adapter_guid text, port integer, at timestamptz DEFAULT 'infinity')
RETURNS TABLE (port_id bigint)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT CASE WHEN count(DISTINCT x.port_id) FILTER (WHERE x.is_valid) = 1 THEN min(x.port_id) FILTER (WHERE x.is_valid)
                WHEN count(*) FILTER (WHERE x.is_valid) = 0 AND count(DISTINCT x.port_id) = 1 THEN min(x.port_id) END
    FROM (
        SELECT a.port_id, a.valid_from <= fabric_port_of.at AND (a.valid_to IS NULL OR a.valid_to > fabric_port_of.at) AS is_valid
        FROM internal.ib_port a WHERE a.port_guid = fabric_port_of.port_guid
        UNION ALL
        SELECT q.id, true FROM internal.ib_node_key c
        JOIN internal.ib_port_key q ON q.ib_node_id = c.id AND q.port = fabric_port_of.port
        WHERE fabric_port_of.port_guid IS NULL AND c.guid = fabric_port_of.adapter_guid) x;
END;
COMMENT ON FUNCTION internal.fabric_port_of IS
    'The fabric''s port that a host''s port was at a time (now by default): by its own GUID, or where that was not read by its adapter''s GUID and its number. NULL where no fabric has it, or two have it at that time.';

CREATE OR REPLACE FUNCTION internal.instance_name(instance text) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT CASE WHEN instance_name.instance LIKE 'fabric:%'
        THEN coalesce((SELECT f.name FROM internal.fabric f WHERE 'fabric:' || f.id = instance_name.instance), instance_name.instance)
        ELSE instance_name.instance END;
END;
COMMENT ON FUNCTION internal.instance_name IS
    'Who reported, for people: a node, or a fabric by its name now. Rows of crawlers have fabric: and the id of the fabric.';

CREATE OR REPLACE FUNCTION internal.instances_named(name text) RETURNS text[]
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT ARRAY[instances_named.name] || ARRAY(SELECT 'fabric:' || f.id FROM internal.fabric f WHERE f.name = instances_named.name);
END;
COMMENT ON FUNCTION internal.instances_named IS
    'What instance is in rows of the node or fabric of this name: the other way round of instance_name.';

CREATE OR REPLACE FUNCTION internal.row_rules_of_senders(kind text, since timestamptz, until timestamptz DEFAULT now())
RETURNS TABLE (instance text, heartbeat_seconds double precision, largest_gap_seconds double precision, quiet_bytes bigint)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT a.instance, max(a.heartbeat_seconds), max(a.largest_gap_seconds), max(a.quiet_bytes)
    FROM internal.row_rules a
    WHERE a.valid_from <= until AND coalesce(a.valid_to, 'infinity') >= since
      AND CASE a.source WHEN 'mad' THEN 'ib_port' WHEN 'sysfs' THEN 'host_port' ELSE 'gpu' END = row_rules_of_senders.kind
    GROUP BY a.instance;
END;
COMMENT ON FUNCTION internal.row_rules_of_senders IS
    'By which rules each sender leaves out rows of fabric ports (ib_port), ports of its host (host_port) or GPUs (gpu): the largest '
    'values that it reported in the range. Instance as in row_rules.';

CREATE OR REPLACE FUNCTION internal.row_rules_of(kind text, since timestamptz, until timestamptz DEFAULT now())
RETURNS TABLE (id bigint, heartbeat_seconds double precision, largest_gap_seconds double precision, quiet_bytes bigint)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT t.id, coalesce(r.heartbeat_seconds, d.heartbeat_seconds), coalesce(r.largest_gap_seconds, d.largest_gap_seconds),
           coalesce(r.quiet_bytes, d.quiet_bytes)
    FROM (
        SELECT k.id, 'fabric:' || n.fabric_id AS instance
        FROM internal.ib_port_key k
        JOIN internal.ib_node_key n ON n.id = k.ib_node_id
        WHERE row_rules_of.kind = 'ib_port'
        UNION ALL
        SELECT k.id, n.name FROM internal.host_port_key k JOIN internal.node_key n ON n.id = k.node_id
        WHERE row_rules_of.kind = 'host_port'
        UNION ALL
        SELECT k.id, n.name FROM internal.gpu_key k JOIN internal.node_key n ON n.id = k.node_id
        WHERE row_rules_of.kind = 'gpu'
    ) t
    LEFT JOIN internal.row_rules_of_senders(row_rules_of.kind, since, until) r ON r.instance = t.instance
    CROSS JOIN internal.row_rules_default() d;
END;
COMMENT ON FUNCTION internal.row_rules_of IS
    'By which rules rows are left out, for each fabric port (ib_port), port of a host (host_port) or GPU (gpu): the largest '
    'values that its sender reported in the range, else row_rules_default().';

CREATE OR REPLACE FUNCTION internal.row_gap(kind text, since timestamptz, until timestamptz DEFAULT now())
RETURNS TABLE (gap interval)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT make_interval(secs => greatest(max(a.largest_gap_seconds), max(d.largest_gap_seconds)))
    FROM internal.row_rules_default() d
    LEFT JOIN internal.row_rules a
        ON a.valid_from <= until AND coalesce(a.valid_to, 'infinity') >= since
           AND CASE a.source WHEN 'mad' THEN 'ib_port' WHEN 'sysfs' THEN 'host_port' ELSE 'gpu' END = row_gap.kind;
END;
COMMENT ON FUNCTION internal.row_gap IS
    'How far before a range the predecessor of a row in it may be: the largest gap of all senders of fabric ports (ib_port), ports '
    'of hosts (host_port) or GPUs (gpu) in the range. Whether two rows of one thing have known time between them is its own '
    'sender''s rule, see row_rules_of.';

CREATE OR REPLACE FUNCTION internal.packed_rows(packed bit varying)
RETURNS TABLE (
    number integer, c1 bigint, c2 bigint, c3 bigint, c4 bigint, c5 bigint, c6 bigint, c7 bigint, c8 bigint)
LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 10
BEGIN ATOMIC
    -- Inlined, so that only columns that a query uses are taken. The form is that of crates/packed/src/rows.rs: widths w, ends of bases
    -- z, whether some rows lack a number f. Each OFFSET 0 keeps what is inside from being computed again for each row.
    SELECT n,
        p.b1 + substring(p.bits, p.at1 + n * p.w1, p.w1)::bigint, p.b2 + substring(p.bits, p.at2 + n * p.w2, p.w2)::bigint,
        p.b3 + substring(p.bits, p.at3 + n * p.w3, p.w3)::bigint, p.b4 + substring(p.bits, p.at4 + n * p.w4, p.w4)::bigint,
        p.b5 + substring(p.bits, p.at5 + n * p.w5, p.w5)::bigint,
        -- A bit for each row that has a number, and the numbers of those.
        CASE WHEN NOT p.f6 THEN substring(p.bits, p.at6 + n * p.w6, p.w6)::bigint
             WHEN get_bit(p.bits, p.at6 - 1 + n) = 1 THEN substring(
                 p.bits, p.at6 + p.count + bit_count(substring(p.bits, p.at6, n))::integer * p.w6, p.w6)::bigint END,
        CASE WHEN NOT p.f7 THEN substring(p.bits, p.at7 + n * p.w7, p.w7)::bigint
             WHEN get_bit(p.bits, p.at7 - 1 + n) = 1 THEN substring(
                 p.bits, p.at7 + p.count + bit_count(substring(p.bits, p.at7, n))::integer * p.w7, p.w7)::bigint END,
        CASE WHEN NOT p.f8 THEN substring(p.bits, p.at8 + n * p.w8, p.w8)::bigint
             WHEN get_bit(p.bits, p.at8 - 1 + n) = 1 THEN substring(
                 p.bits, p.at8 + p.count + bit_count(substring(p.bits, p.at8, n))::integer * p.w8, p.w8)::bigint END
    FROM (
        SELECT *, at7 + CASE WHEN f7 THEN count + bit_count(substring(bits, at7, count))::integer * w7 ELSE count * w7 END AS at8
        FROM (
            SELECT *, at6 + CASE WHEN f6 THEN count + bit_count(substring(bits, at6, count))::integer * w6 ELSE count * w6 END AS at7,
                   (y1 >> 1) # -(y1 & 1) AS b1, (y2 >> 1) # -(y2 & 1) AS b2, (y3 >> 1) # -(y3 & 1) AS b3,
                   (y4 >> 1) # -(y4 & 1) AS b4, (y5 >> 1) # -(y5 & 1) AS b5
            FROM (
                SELECT *, at1 + count * w1 AS at2, at1 + count * (w1 + w2) AS at3, at1 + count * (w1 + w2 + w3) AS at4,
                       at1 + count * (w1 + w2 + w3 + w4) AS at5, at1 + count * (w1 + w2 + w3 + w4 + w5) AS at6
                FROM (
                    SELECT *, 129 + z5 AS at1, substring(bits, 129, z1)::bigint AS y1, substring(bits, 129 + z1, z2 - z1)::bigint AS y2,
                           substring(bits, 129 + z2, z3 - z2)::bigint AS y3, substring(bits, 129 + z3, z4 - z3)::bigint AS y4,
                           substring(bits, 129 + z4, z5 - z4)::bigint AS y5
                    FROM (
                        SELECT bits, substring(bits, 1, 24)::integer AS count,
                               substring(bits, 25, 7)::integer AS w1, substring(bits, 32, 7)::integer AS w2,
                               substring(bits, 39, 7)::integer AS w3, substring(bits, 46, 7)::integer AS w4,
                               substring(bits, 53, 7)::integer AS w5, substring(bits, 60, 7)::integer AS w6,
                               substring(bits, 67, 7)::integer AS w7, substring(bits, 74, 7)::integer AS w8,
                               substring(bits, 81, 9)::integer AS z1, substring(bits, 90, 9)::integer AS z2,
                               substring(bits, 99, 9)::integer AS z3, substring(bits, 108, 9)::integer AS z4,
                               substring(bits, 117, 9)::integer AS z5,
                               get_bit(bits, 125) = 1 AS f6, get_bit(bits, 126) = 1 AS f7, get_bit(bits, 127) = 1 AS f8
                        -- Out of the table once.
                        FROM (SELECT packed || B'' AS bits OFFSET 0) whole OFFSET 0) heads OFFSET 0) bases OFFSET 0) fixed OFFSET 0) gaps
        OFFSET 0) p
    CROSS JOIN LATERAL generate_series(0, p.count - 1) n;
END;
COMMENT ON FUNCTION internal.packed_rows IS
    'The rows of some that are bit-packed, by their index, from 0; NULL where one has no number in columns 6 to 8. The functions that name the columns are mpi_packed_cells, mpi_packed_round, mpi_packed_calls.';


CREATE OR REPLACE FUNCTION internal.packed_numbers(packed bit varying)
RETURNS bigint[]
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE COST 1000
SET search_path = ''
AS $$
-- The form is that of crates/packed/src/numbers.rs.
DECLARE
    count integer := substring(packed, 1, 5)::integer;
    place integer := 6 + 6 * count;
    width integer;
    numbers bigint[] := '{}';
BEGIN
    FOR n IN 1 .. count LOOP
        width := substring(packed, 6 * n, 6)::integer;
        numbers[n] := substring(packed, place, width)::bigint;
        place := place + width;
    END LOOP;
    RETURN numbers;
END
$$;
COMMENT ON FUNCTION internal.packed_numbers IS
    'Some numbers that are bit-packed, without zeros at the end. The function that names them is mpi_packed_account.';


CREATE OR REPLACE FUNCTION internal.packed_bytes(scaled bigint)
RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT (scaled & 16777215) << (scaled >> 24)::integer;
END;
COMMENT ON FUNCTION internal.packed_bytes IS
    'Bytes that are rounded to seven digits, as shares of links have them: 24 bits, and above them by how many places these are moved.';


CREATE OR REPLACE FUNCTION internal.packed_shares(minutes bit varying, shares bit varying, contributors integer)
RETURNS TABLE (
    who integer, minute bigint, windows smallint, bytes bigint, low_bytes bigint, high_bytes bigint, counted_bytes bigint,
    peak_counted_bytes bigint)
-- A session plans it once: planned with each query that calls it, it would take several times as long as unpacking an hour.
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = '' SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    RETURN QUERY
    SELECT s.who, m.minutes[s.at], m.windows[s.at]::smallint, internal.packed_bytes(s.bytes), internal.packed_bytes(s.bytes - s.less),
           internal.packed_bytes(s.bytes + s.more),
           CASE WHEN m.are_counted[s.at] = 1 THEN (sum(internal.packed_bytes(s.bytes)) OVER (PARTITION BY s.at))::bigint END,
           internal.packed_bytes(m.peaks[s.at])
    FROM (
        SELECT array_agg(p.c1 ORDER BY p.number) AS minutes, array_agg(p.c2 ORDER BY p.number) AS windows,
               array_agg(p.c3 ORDER BY p.number) AS are_counted, array_agg(p.c6 ORDER BY p.number) AS peaks
        FROM internal.packed_rows(packed_shares.minutes) p
    ) m
    CROSS JOIN LATERAL (
        -- On its own, or each is unpacked as often as it is named.
        SELECT p.number / contributors + 1 AS at, p.number % contributors + 1 AS who, p.c6 AS bytes, p.c7 AS less, p.c8 AS more
        FROM internal.packed_rows(packed_shares.shares) p OFFSET 0
    ) s
    WHERE s.bytes IS NOT NULL;
END $$;
COMMENT ON FUNCTION internal.packed_shares IS
    'What a row of link_share_hours has of each of its contributors (who, from 1) in each minute of the hour.';


CREATE OR REPLACE FUNCTION internal.packed_time(microseconds bigint)
RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT TIMESTAMPTZ '2000-01-01 00:00:00+00' + microseconds * INTERVAL '1 microsecond';
END;
COMMENT ON FUNCTION internal.packed_time IS 'A time as packed readings have it: microseconds since 2000.';


CREATE OR REPLACE FUNCTION internal.packed_stream(samples bytea, INOUT place integer, OUT integers bigint[])
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE COST 10000
SET search_path = ''
AS $$
-- The form is that of crates/packed/src/stream.rs; place is a number of bytes.
DECLARE
    length integer := ('x' || encode(substr(samples, place + 1, 4), 'hex'))::bit(32)::integer;
    is_signed boolean;
    zeros integer;
    value bigint;
    base bigint;
    runs integer;
    head integer;
    firsts integer[] := '{}';
    widths integer[] := '{}';
    starts integer[] := '{}';
    counts integer[] := '{}';
    packed bit varying;
    n integer := 0;
    bits integer := 0;
BEGIN
    place := place + 4;
    integers := '{}';
    IF length = 0 THEN
        RETURN;
    END IF;
    is_signed := get_byte(samples, place) & 1 = 1;
    zeros := get_byte(samples, place) >> 1;
    value := ('x' || encode(substr(samples, place + 2, 8), 'hex'))::bit(64)::bigint;
    base := ('x' || encode(substr(samples, place + 10, 8), 'hex'))::bit(64)::bigint;
    runs := ('x' || encode(substr(samples, place + 18, 4), 'hex'))::bit(32)::integer;
    place := place + 21;
    FOR run IN 1 .. runs LOOP
        head := (get_byte(samples, place + 2 * run - 2) << 8) | get_byte(samples, place + 2 * run - 1);
        firsts[run] := n;
        widths[run] := head >> 9;
        starts[run] := bits;
        counts[run] := (head & 511) + 1;
        n := n + counts[run];
        bits := bits + widths[run] * counts[run];
    END LOOP;
    IF bits = 0 THEN
        -- It stands still or grows evenly.
        integers := ARRAY(SELECT value + base * s.step FROM generate_series(0, length - 1) AS s (step));
        place := place + 2 * runs;
        RETURN;
    END IF;
    packed := ('x' || encode(substr(samples, place + 2 * runs + 1, (bits + 7) / 8), 'hex'))::bit varying;
    -- One statement: a loop takes several times as long.
    integers := value || ARRAY(
        SELECT (value + sum(base + CASE
                    WHEN w.written IS NULL THEN 0
                    WHEN is_signed THEN (((w.written >> 1) & 9223372036854775807) # -(w.written & 1)) << zeros
                    ELSE w.written << zeros END) OVER (ORDER BY r.first + i.step ROWS UNBOUNDED PRECEDING))::bigint
        FROM unnest(firsts, widths, starts, counts) AS r (first, width, start, count)
        CROSS JOIN LATERAL generate_series(0, r.count - 1) AS i (step)
        CROSS JOIN LATERAL (SELECT CASE WHEN r.width > 0
            THEN substring(packed, r.start + i.step * r.width + 1, r.width)::bigint END AS written) w
        ORDER BY r.first + i.step);
    place := place + 2 * runs + (bits + 7) / 8;
END
$$;
COMMENT ON FUNCTION internal.packed_stream IS
    'Integers that stand bit-packed in samples of a table of blocks from a byte on, and the byte behind them. For packed_integers.';


CREATE OR REPLACE FUNCTION internal.packed_integers(samples bytea)
RETURNS bigint[]
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE COST 30000
SET search_path = ''
AS $$
-- The form is that of crates/packed/src/series.rs.
DECLARE
    whole bytea := samples || ''::bytea; -- Out of the table once, and not for each byte.
    numbers bigint[];
    values bigint[];
    all_rows bigint[];
    place integer := 6;
BEGIN
    IF get_byte(whole, 0) <> 1 THEN
        RAISE EXCEPTION 'readings in a form that this version does not know: %', get_byte(whole, 0);
    ELSIF get_byte(whole, 5) = 1 THEN
        RETURN (internal.packed_stream(whole, place)).integers;
    ELSIF get_byte(whole, 5) <> 0 THEN
        RAISE EXCEPTION 'a series that is packed as what differs from another one: use packed_beside';
    END IF;
    SELECT s.place, s.integers INTO place, numbers FROM internal.packed_stream(whole, place) s;
    SELECT s.integers INTO values FROM internal.packed_stream(whole, place) s;
    IF numbers[1] = 0 AND numbers[cardinality(numbers)] = cardinality(numbers) - 1 THEN
        RETURN values;
    END IF;
    all_rows := array_fill(NULL::bigint, ARRAY[numbers[cardinality(numbers)]::integer + 1]);
    FOR n IN 1 .. cardinality(numbers) LOOP
        all_rows[numbers[n] + 1] := values[n];
    END LOOP;
    RETURN all_rows;
END
$$;
COMMENT ON FUNCTION internal.packed_integers IS
    'What a packed series has, by the number of the reading in its hour, from 1: NULL for readings that have no value.';


CREATE OR REPLACE FUNCTION internal.packed_texts(samples bytea)
RETURNS text[]
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE COST 30000
SET search_path = ''
AS $$
DECLARE
    numbers bigint[] := internal.packed_integers(samples);
    place integer := 6;
    length integer;
    texts text[] := '{}';
BEGIN
    -- Texts come behind the streams.
    IF get_byte(samples, 5) = 0 THEN
        place := (internal.packed_stream(samples, place)).place;
    END IF;
    place := (internal.packed_stream(samples, place)).place;
    WHILE place < length(samples) LOOP
        length := ('x' || encode(substr(samples, place + 1, 4), 'hex'))::bit(32)::integer;
        texts := texts || convert_from(substr(samples, place + 5, length), 'UTF8');
        place := place + 4 + length;
    END LOOP;
    RETURN ARRAY(SELECT texts[u.number + 1] FROM unnest(numbers) WITH ORDINALITY AS u (number, place) ORDER BY u.place);
END
$$;
COMMENT ON FUNCTION internal.packed_texts IS 'What a packed series has, as packed_integers, of texts.';


CREATE OR REPLACE FUNCTION internal.packed_beside(samples bytea, other bytea)
RETURNS bigint[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 60000
SET search_path = ''
AS $$
-- The form is that of crates/packed/src/series.rs.
DECLARE
    values bigint[];
    others bigint[];
    n integer := 0;
BEGIN
    IF samples IS NULL OR get_byte(samples, 0) <> 1 OR get_byte(samples, 5) <> 2 THEN
        RETURN internal.packed_integers(samples);
    END IF;
    values := (internal.packed_stream(samples || ''::bytea, 6)).integers;
    others := internal.packed_integers(other);
    FOR place IN 1 .. cardinality(others) LOOP
        IF others[place] IS NOT NULL THEN
            n := n + 1;
            others[place] := others[place] + values[n];
        END IF;
    END LOOP;
    RETURN others;
END
$$;
COMMENT ON FUNCTION internal.packed_beside IS
    'What a packed series has, as packed_integers, where it may be packed as what differs from another one.';


CREATE OR REPLACE FUNCTION internal.packed_part(samples bytea, metrics integer[], offsets integer[], series integer)
RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    -- Inlined, and then only these bytes are read of a row of a table of blocks.
    SELECT substr(samples, offsets[array_position(metrics, series)] + 1,
                  offsets[array_position(metrics, series) + 1] - offsets[array_position(metrics, series)]);
END;
COMMENT ON FUNCTION internal.packed_part IS 'One series of an hour that is packed in one row; NULL where the hour does not have it.';


CREATE OR REPLACE FUNCTION internal.packed_place(metrics integer[], elements integer[], series integer, link integer)
RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    -- Series of a metric lie one behind the other. Where the only link is the first one, none has a number.
    SELECT CASE
        WHEN elements IS NULL THEN CASE WHEN link = 0 THEN array_position(metrics, series) END
        WHEN metrics[array_position(elements, link, coalesce(array_position(metrics, series), cardinality(metrics) + 1))] = series
        THEN array_position(elements, link, coalesce(array_position(metrics, series), cardinality(metrics) + 1))
    END;
END;
COMMENT ON FUNCTION internal.packed_place IS 'Which series of an hour that is packed in one row is that of a metric and link; NULL where there is none.';


CREATE OR REPLACE FUNCTION internal.packed_link(
    samples bytea, metrics integer[], elements integer[], offsets integer[], series integer, link integer)
RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    -- Inlined, as packed_part.
    SELECT substr(samples, offsets[internal.packed_place(metrics, elements, series, link)] + 1,
                  offsets[internal.packed_place(metrics, elements, series, link) + 1]
                      - offsets[internal.packed_place(metrics, elements, series, link)]);
END;
COMMENT ON FUNCTION internal.packed_link IS 'One series of a link, from 0, of an hour that is packed in one row; NULL where the hour does not have it.';


CREATE OR REPLACE FUNCTION internal.packed_link_rows(
    samples bytea, metrics integer[], elements integer[], offsets integer[], link integer, readings integer)
RETURNS boolean[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 30000
SET search_path = ''
AS $$
-- The form is that of crates/packed/src/series.rs.
DECLARE
    part bytea;
    numbers bigint[];
    has_values boolean[] := '{}';
BEGIN
    FOR n IN 1 .. cardinality(metrics) LOOP
        CONTINUE WHEN metrics[n] < 0 OR coalesce(elements[n], 0) <> link;
        part := substr(samples, offsets[n] + 1, offsets[n + 1] - offsets[n]);
        IF get_byte(part, 5) = 1 THEN
            -- The first ones have a value, so many.
            numbers := ARRAY(SELECT generate_series(0, ('x' || encode(substr(part, 7, 4), 'hex'))::bit(32)::integer - 1));
        ELSE
            numbers := (internal.packed_stream(part, 6)).integers;
        END IF;
        IF cardinality(numbers) = readings THEN
            RETURN NULL;
        END IF;
        FOR place IN 1 .. cardinality(numbers) LOOP
            has_values[numbers[place]::integer + 1] := true;
        END LOOP;
    END LOOP;
    RETURN has_values;
END
$$;
COMMENT ON FUNCTION internal.packed_link_rows IS
    'Which readings of a packed hour have anything of a link, by their number, from 1: true, else NULL; NULL in place of the array where all have.';


CREATE OR REPLACE FUNCTION internal.packed_span(of_readings text, since timestamptz, until timestamptz)
RETURNS TABLE (first timestamptz, last timestamptz)
LANGUAGE plpgsql STABLE PARALLEL SAFE COST 100 ROWS 1
SET search_path = ''
AS $$
BEGIN
    RETURN QUERY
    SELECT w.first, w.last
    FROM internal.packed_state s
    CROSS JOIN LATERAL (
        SELECT greatest(s.packed_from, date_bin('1 hour', since, TIMESTAMPTZ '2000-01-01 00:00:00+00')) AS first,
               least(s.packed_until - INTERVAL '1 hour', until) AS last
    ) w
    WHERE s.readings = of_readings AND w.first <= w.last;
END
$$;
COMMENT ON FUNCTION internal.packed_span IS
    'When the first and the last packed hour with readings of a table from since to until begin; no row where all of that is rows.';

CREATE OR REPLACE FUNCTION internal.ib_port_hours(thing bigint, first timestamptz, last timestamptz)
RETURNS TABLE (samples bytea, metrics integer[], offsets integer[])
LANGUAGE plpgsql STABLE PARALLEL SAFE COST 1000 ROWS 2
SET search_path = ''
AS $$
BEGIN
    -- Planned with these times: no other chunk is opened.
    RETURN QUERY
    SELECT m.samples, m.metrics, m.offsets
    FROM internal.ib_port_blocks m
    WHERE m.port_id = thing AND m.time >= first AND m.time <= last;
END
$$;
COMMENT ON FUNCTION internal.ib_port_hours IS
    'Packed hours of a port_id that begin from first to last, as ib_port_blocks has them.';

CREATE OR REPLACE FUNCTION internal.host_port_hours(thing bigint, first timestamptz, last timestamptz)
RETURNS TABLE (samples bytea, metrics integer[], offsets integer[])
LANGUAGE plpgsql STABLE PARALLEL SAFE COST 1000 ROWS 2
SET search_path = ''
AS $$
BEGIN
    -- Planned with these times: no other chunk is opened.
    RETURN QUERY
    SELECT m.samples, m.metrics, m.offsets
    FROM internal.host_port_blocks m
    WHERE m.host_port_id = thing AND m.time >= first AND m.time <= last;
END
$$;
COMMENT ON FUNCTION internal.host_port_hours IS
    'Packed hours of a host_port_id that begin from first to last, as host_port_blocks has them.';

CREATE OR REPLACE FUNCTION internal.nvlink_hours(thing bigint, first timestamptz, last timestamptz)
RETURNS TABLE (samples bytea, metrics integer[], offsets integer[], source text, elements integer[])
LANGUAGE plpgsql STABLE PARALLEL SAFE COST 1000 ROWS 2
SET search_path = ''
AS $$
BEGIN
    -- Planned with these times: no other chunk is opened.
    RETURN QUERY
    SELECT m.samples, m.metrics, m.offsets, m.source, m.elements
    FROM internal.nvlink_blocks m
    WHERE m.gpu_id = thing AND m.time >= first AND m.time <= last;
END
$$;
COMMENT ON FUNCTION internal.nvlink_hours IS
    'Packed hours of a gpu_id that begin from first to last, as nvlink_blocks has them.';

CREATE OR REPLACE FUNCTION internal.gpu_pcie_hours(thing bigint, first timestamptz, last timestamptz)
RETURNS TABLE (samples bytea, metrics integer[], offsets integer[], source text)
LANGUAGE plpgsql STABLE PARALLEL SAFE COST 1000 ROWS 2
SET search_path = ''
AS $$
BEGIN
    -- Planned with these times: no other chunk is opened.
    RETURN QUERY
    SELECT m.samples, m.metrics, m.offsets, m.source
    FROM internal.gpu_pcie_blocks m
    WHERE m.gpu_id = thing AND m.time >= first AND m.time <= last;
END
$$;
COMMENT ON FUNCTION internal.gpu_pcie_hours IS
    'Packed hours of a gpu_id that begin from first to last, as gpu_pcie_blocks has them.';

CREATE OR REPLACE FUNCTION public.ib_port_readings(since timestamptz, until timestamptz DEFAULT now())
RETURNS TABLE (
    "time" timestamptz, port_id bigint, epoch timestamptz, source text, saturated text[],
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
    transmit_wait_tick_bytes bigint,
    local_physical_errors bigint,
    malformed_packet_errors bigint,
    buffer_overrun_errors bigint,
    dlid_mapping_errors bigint,
    vl_mapping_errors bigint,
    looping_errors bigint,
    inactive_discards bigint,
    neighbor_mtu_discards bigint,
    switch_lifetime_limit_discards bigint,
    switch_hoq_lifetime_limit_discards bigint,
    transmit_flow_packets bigint,
    receive_flow_packets bigint,
    operation_receive_packets bigint,
    operation_receive_data bigint,
    sync_header_errors bigint,
    unknown_blocks bigint,
    fec_corrected_blocks bigint,
    fec_uncorrected_blocks bigint,
    fec_corrected_symbols bigint)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT
        c.time, c.port_id, c.epoch, c.source, c.saturated,
        c.transmit_data_bytes,
        c.receive_data_bytes,
        c.transmit_packets,
        c.receive_packets,
        c.unicast_transmit_packets,
        c.unicast_receive_packets,
        c.multicast_transmit_packets,
        c.multicast_receive_packets,
        c.transmit_wait,
        c.symbol_error,
        c.link_error_recovery,
        c.link_downed,
        c.receive_errors,
        c.receive_remote_physical_errors,
        c.receive_switch_relay_errors,
        c.transmit_discards,
        c.transmit_constraint_errors,
        c.receive_constraint_errors,
        c.local_link_integrity_errors,
        c.excessive_buffer_overrun_errors,
        c.vl15_dropped,
        c.qp1_dropped,
        c.rate_bytes_per_second,
        c.transmit_wait_tick_bytes,
        c.local_physical_errors,
        c.malformed_packet_errors,
        c.buffer_overrun_errors,
        c.dlid_mapping_errors,
        c.vl_mapping_errors,
        c.looping_errors,
        c.inactive_discards,
        c.neighbor_mtu_discards,
        c.switch_lifetime_limit_discards,
        c.switch_hoq_lifetime_limit_discards,
        c.transmit_flow_packets,
        c.receive_flow_packets,
        c.operation_receive_packets,
        c.operation_receive_data,
        c.sync_header_errors,
        c.unknown_blocks,
        c.fec_corrected_blocks,
        c.fec_uncorrected_blocks,
        c.fec_corrected_symbols
    FROM internal.ib_port_counters c
    WHERE c.time >= since AND c.time <= until
    UNION ALL
    SELECT
        internal.packed_time(h.times[r.number]), k.id, internal.packed_time(h.epochs[r.number]), h.sources[r.number], h.saturated[r.number]::text[],
        h.transmit_data_bytes[r.number],
        h.receive_data_bytes[r.number],
        h.transmit_packets[r.number],
        h.receive_packets[r.number],
        h.unicast_transmit_packets[r.number],
        h.unicast_receive_packets[r.number],
        h.multicast_transmit_packets[r.number],
        h.multicast_receive_packets[r.number],
        CASE WHEN 'transmit_wait' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.transmit_wait[r.number] END,
        CASE WHEN 'symbol_error' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.symbol_error[r.number] END,
        CASE WHEN 'link_error_recovery' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.link_error_recovery[r.number] END,
        CASE WHEN 'link_downed' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.link_downed[r.number] END,
        CASE WHEN 'receive_errors' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.receive_errors[r.number] END,
        CASE WHEN 'receive_remote_physical_errors' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.receive_remote_physical_errors[r.number] END,
        CASE WHEN 'receive_switch_relay_errors' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.receive_switch_relay_errors[r.number] END,
        CASE WHEN 'transmit_discards' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.transmit_discards[r.number] END,
        CASE WHEN 'transmit_constraint_errors' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.transmit_constraint_errors[r.number] END,
        CASE WHEN 'receive_constraint_errors' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.receive_constraint_errors[r.number] END,
        CASE WHEN 'local_link_integrity_errors' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.local_link_integrity_errors[r.number] END,
        CASE WHEN 'excessive_buffer_overrun_errors' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.excessive_buffer_overrun_errors[r.number] END,
        CASE WHEN 'vl15_dropped' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.vl15_dropped[r.number] END,
        CASE WHEN 'qp1_dropped' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.qp1_dropped[r.number] END,
        h.rate_bytes_per_second[r.number],
        h.transmit_wait_tick_bytes[r.number],
        CASE WHEN 'local_physical_errors' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.local_physical_errors[r.number] END,
        CASE WHEN 'malformed_packet_errors' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.malformed_packet_errors[r.number] END,
        CASE WHEN 'buffer_overrun_errors' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.buffer_overrun_errors[r.number] END,
        CASE WHEN 'dlid_mapping_errors' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.dlid_mapping_errors[r.number] END,
        CASE WHEN 'vl_mapping_errors' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.vl_mapping_errors[r.number] END,
        CASE WHEN 'looping_errors' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.looping_errors[r.number] END,
        CASE WHEN 'inactive_discards' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.inactive_discards[r.number] END,
        CASE WHEN 'neighbor_mtu_discards' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.neighbor_mtu_discards[r.number] END,
        CASE WHEN 'switch_lifetime_limit_discards' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.switch_lifetime_limit_discards[r.number] END,
        CASE WHEN 'switch_hoq_lifetime_limit_discards' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.switch_hoq_lifetime_limit_discards[r.number] END,
        CASE WHEN 'transmit_flow_packets' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.transmit_flow_packets[r.number] END,
        CASE WHEN 'receive_flow_packets' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.receive_flow_packets[r.number] END,
        CASE WHEN 'operation_receive_packets' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.operation_receive_packets[r.number] END,
        CASE WHEN 'operation_receive_data' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.operation_receive_data[r.number] END,
        CASE WHEN 'sync_header_errors' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.sync_header_errors[r.number] END,
        CASE WHEN 'unknown_blocks' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.unknown_blocks[r.number] END,
        CASE WHEN 'fec_corrected_blocks' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.fec_corrected_blocks[r.number] END,
        CASE WHEN 'fec_uncorrected_blocks' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.fec_uncorrected_blocks[r.number] END,
        CASE WHEN 'fec_corrected_symbols' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.fec_corrected_symbols[r.number] END
    FROM internal.packed_span('ib_port_counters', since, until) p
    CROSS JOIN internal.ib_port_key k
    CROSS JOIN LATERAL (
        -- On its own, so that each series is unpacked once and not for each of its readings. A series that the query does not use is
        -- neither read nor unpacked.
        SELECT
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, -2)) AS times,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, -3)) AS epochs,
        internal.packed_texts(internal.packed_part(m.samples, m.metrics, m.offsets, -4)) AS sources,
        internal.packed_texts(internal.packed_part(m.samples, m.metrics, m.offsets, -5)) AS saturated,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 1)) AS transmit_data_bytes,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 2)) AS receive_data_bytes,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 3)) AS transmit_packets,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 4)) AS receive_packets,
        internal.packed_beside(internal.packed_part(m.samples, m.metrics, m.offsets, 5), internal.packed_part(m.samples, m.metrics, m.offsets, 3)) AS unicast_transmit_packets,
        internal.packed_beside(internal.packed_part(m.samples, m.metrics, m.offsets, 6), internal.packed_part(m.samples, m.metrics, m.offsets, 4)) AS unicast_receive_packets,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 7)) AS multicast_transmit_packets,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 8)) AS multicast_receive_packets,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 9)) AS transmit_wait,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 10)) AS symbol_error,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 11)) AS link_error_recovery,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 12)) AS link_downed,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 13)) AS receive_errors,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 14)) AS receive_remote_physical_errors,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 15)) AS receive_switch_relay_errors,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 16)) AS transmit_discards,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 17)) AS transmit_constraint_errors,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 18)) AS receive_constraint_errors,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 19)) AS local_link_integrity_errors,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 20)) AS excessive_buffer_overrun_errors,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 21)) AS vl15_dropped,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 22)) AS qp1_dropped,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 23)) AS rate_bytes_per_second,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 24)) AS transmit_wait_tick_bytes,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 25)) AS local_physical_errors,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 26)) AS malformed_packet_errors,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 27)) AS buffer_overrun_errors,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 28)) AS dlid_mapping_errors,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 29)) AS vl_mapping_errors,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 30)) AS looping_errors,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 31)) AS inactive_discards,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 32)) AS neighbor_mtu_discards,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 33)) AS switch_lifetime_limit_discards,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 34)) AS switch_hoq_lifetime_limit_discards,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 35)) AS transmit_flow_packets,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 36)) AS receive_flow_packets,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 37)) AS operation_receive_packets,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 38)) AS operation_receive_data,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 39)) AS sync_header_errors,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 40)) AS unknown_blocks,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 41)) AS fec_corrected_blocks,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 42)) AS fec_uncorrected_blocks,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 43)) AS fec_corrected_symbols
        FROM internal.ib_port_hours(k.id, p.first, p.last) m
        OFFSET 0
    ) h
    CROSS JOIN LATERAL generate_series(1, cardinality(h.times)) AS r (number)
    WHERE internal.packed_time(h.times[r.number]) >= since AND internal.packed_time(h.times[r.number]) <= until;
END;
COMMENT ON FUNCTION public.ib_port_readings IS
    'Readings of fabric ports from since to until, as ib_port_counters has them: rows, and hours that are packed only. Condition '
    'port_id, so that no others are unpacked.';

CREATE OR REPLACE FUNCTION public.host_port_readings(since timestamptz, until timestamptz DEFAULT now())
RETURNS TABLE (
    "time" timestamptz, host_port_id bigint, epoch timestamptz, source text,
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
    pcie_bytes_per_second bigint)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT
        c.time, c.host_port_id, c.epoch, c.source,
        c.port_data_transmitted_bytes,
        c.port_data_received_bytes,
        c.port_packets_transmitted,
        c.port_packets_received,
        c.unicast_packets_transmitted,
        c.unicast_packets_received,
        c.multicast_packets_transmitted,
        c.multicast_packets_received,
        c.port_transmit_wait,
        c.symbol_error,
        c.link_error_recovery,
        c.link_downed,
        c.port_errors_received,
        c.port_receive_remote_physical_errors,
        c.port_receive_switch_relay_errors,
        c.port_discards_transmitted,
        c.port_constraint_errors_transmitted,
        c.port_constraint_errors_received,
        c.local_link_integrity_errors,
        c.excessive_buffer_overrun_errors,
        c.vl15_dropped,
        c.rate_bytes_per_second,
        c.state_id,
        c.physical_state_id,
        c.pcie_bytes_per_second
    FROM internal.host_port_counters c
    WHERE c.time >= since AND c.time <= until
    UNION ALL
    SELECT
        internal.packed_time(h.times[r.number]), k.id, internal.packed_time(h.epochs[r.number]), h.sources[r.number],
        h.port_data_transmitted_bytes[r.number],
        h.port_data_received_bytes[r.number],
        h.port_packets_transmitted[r.number],
        h.port_packets_received[r.number],
        h.unicast_packets_transmitted[r.number],
        h.unicast_packets_received[r.number],
        h.multicast_packets_transmitted[r.number],
        h.multicast_packets_received[r.number],
        h.port_transmit_wait[r.number],
        h.symbol_error[r.number],
        h.link_error_recovery[r.number],
        h.link_downed[r.number],
        h.port_errors_received[r.number],
        h.port_receive_remote_physical_errors[r.number],
        h.port_receive_switch_relay_errors[r.number],
        h.port_discards_transmitted[r.number],
        h.port_constraint_errors_transmitted[r.number],
        h.port_constraint_errors_received[r.number],
        h.local_link_integrity_errors[r.number],
        h.excessive_buffer_overrun_errors[r.number],
        h.vl15_dropped[r.number],
        h.rate_bytes_per_second[r.number],
        h.state_id[r.number],
        h.physical_state_id[r.number],
        h.pcie_bytes_per_second[r.number]
    FROM internal.packed_span('host_port_counters', since, until) p
    CROSS JOIN internal.host_port_key k
    CROSS JOIN LATERAL (
        -- On its own, so that each series is unpacked once and not for each of its readings. A series that the query does not use is
        -- neither read nor unpacked.
        SELECT
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, -2)) AS times,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, -3)) AS epochs,
        internal.packed_texts(internal.packed_part(m.samples, m.metrics, m.offsets, -4)) AS sources,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 101)) AS port_data_transmitted_bytes,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 102)) AS port_data_received_bytes,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 103)) AS port_packets_transmitted,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 104)) AS port_packets_received,
        internal.packed_beside(internal.packed_part(m.samples, m.metrics, m.offsets, 105), internal.packed_part(m.samples, m.metrics, m.offsets, 103)) AS unicast_packets_transmitted,
        internal.packed_beside(internal.packed_part(m.samples, m.metrics, m.offsets, 106), internal.packed_part(m.samples, m.metrics, m.offsets, 104)) AS unicast_packets_received,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 107)) AS multicast_packets_transmitted,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 108)) AS multicast_packets_received,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 109)) AS port_transmit_wait,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 110)) AS symbol_error,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 111)) AS link_error_recovery,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 112)) AS link_downed,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 113)) AS port_errors_received,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 114)) AS port_receive_remote_physical_errors,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 115)) AS port_receive_switch_relay_errors,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 116)) AS port_discards_transmitted,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 117)) AS port_constraint_errors_transmitted,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 118)) AS port_constraint_errors_received,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 119)) AS local_link_integrity_errors,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 120)) AS excessive_buffer_overrun_errors,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 121)) AS vl15_dropped,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 122)) AS rate_bytes_per_second,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 123)) AS state_id,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 124)) AS physical_state_id,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 125)) AS pcie_bytes_per_second
        FROM internal.host_port_hours(k.id, p.first, p.last) m
        OFFSET 0
    ) h
    CROSS JOIN LATERAL generate_series(1, cardinality(h.times)) AS r (number)
    WHERE internal.packed_time(h.times[r.number]) >= since AND internal.packed_time(h.times[r.number]) <= until;
END;
COMMENT ON FUNCTION public.host_port_readings IS
    'Readings of hosts'' own adapter ports from since to until, as host_port_counters has them: rows, and hours that are packed only. Condition '
    'host_port_id, so that no others are unpacked.';

CREATE OR REPLACE FUNCTION public.nvlink_readings(since timestamptz, until timestamptz DEFAULT now())
RETURNS TABLE (
    "time" timestamptz, gpu_id bigint, epoch timestamptz, source text,
    transmit_bytes bigint[],
    receive_bytes bigint[],
    replay_errors bigint[],
    recovery_errors bigint[],
    crc_errors bigint[],
    speed_bytes_per_second bigint[],
    up bigint[],
    malformed_packet_errors bigint[],
    buffer_overrun_errors bigint[],
    receive_errors bigint[],
    remote_errors bigint[],
    general_errors bigint[],
    link_integrity_errors bigint[],
    transmit_discards bigint[],
    recovery_failures bigint[],
    effective_errors bigint[],
    symbol_errors bigint[],
    effective_ber_per_1e18 bigint[],
    symbol_ber_per_1e18 bigint[],
    fec_corrected_blocks bigint[],
    fec_most_symbols bigint[])
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT
        c.time, c.gpu_id, c.epoch, c.source,
        c.transmit_bytes,
        c.receive_bytes,
        c.replay_errors,
        c.recovery_errors,
        c.crc_errors,
        c.speed_bytes_per_second,
        c.up,
        c.malformed_packet_errors,
        c.buffer_overrun_errors,
        c.receive_errors,
        c.remote_errors,
        c.general_errors,
        c.link_integrity_errors,
        c.transmit_discards,
        c.recovery_failures,
        c.effective_errors,
        c.symbol_errors,
        c.effective_ber_per_1e18,
        c.symbol_ber_per_1e18,
        c.fec_corrected_blocks,
        c.fec_most_symbols
    FROM internal.nvlink_counters c
    WHERE c.time >= since AND c.time <= until
    UNION ALL
    SELECT
        internal.packed_time(h.times[v.number]), k.id, internal.packed_time(h.epochs[v.number]), h.source,
        v.transmit_bytes,
        v.receive_bytes,
        v.replay_errors,
        v.recovery_errors,
        v.crc_errors,
        v.speed_bytes_per_second,
        v.up,
        v.malformed_packet_errors,
        v.buffer_overrun_errors,
        v.receive_errors,
        v.remote_errors,
        v.general_errors,
        v.link_integrity_errors,
        v.transmit_discards,
        v.recovery_failures,
        v.effective_errors,
        v.symbol_errors,
        v.effective_ber_per_1e18,
        v.symbol_ber_per_1e18,
        v.fec_corrected_blocks,
        v.fec_most_symbols
    FROM internal.packed_span('nvlink_counters', since, until) p
    CROSS JOIN internal.gpu_key k
    CROSS JOIN LATERAL (
        -- On its own, so that each series is unpacked once and not for each of its readings. A series that the query does not use is
        -- neither read nor unpacked.
        SELECT
        m.source, m.samples, m.metrics, m.elements, m.offsets,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, -2)) AS times,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, -3)) AS epochs
        FROM internal.nvlink_hours(k.id, p.first, p.last) m
        OFFSET 0
    ) h
    CROSS JOIN LATERAL (
        SELECT
            e.number,
            CASE WHEN count(e.transmit_bytes) > 0 THEN array_agg(e.transmit_bytes ORDER BY e.link) END AS transmit_bytes,
            CASE WHEN count(e.receive_bytes) > 0 THEN array_agg(e.receive_bytes ORDER BY e.link) END AS receive_bytes,
            CASE WHEN count(e.replay_errors) > 0 THEN array_agg(e.replay_errors ORDER BY e.link) END AS replay_errors,
            CASE WHEN count(e.recovery_errors) > 0 THEN array_agg(e.recovery_errors ORDER BY e.link) END AS recovery_errors,
            CASE WHEN count(e.crc_errors) > 0 THEN array_agg(e.crc_errors ORDER BY e.link) END AS crc_errors,
            CASE WHEN count(e.speed_bytes_per_second) > 0 THEN array_agg(e.speed_bytes_per_second ORDER BY e.link) END AS speed_bytes_per_second,
            CASE WHEN count(e.up) > 0 THEN array_agg(e.up ORDER BY e.link) END AS up,
            CASE WHEN count(e.malformed_packet_errors) > 0 THEN array_agg(e.malformed_packet_errors ORDER BY e.link) END AS malformed_packet_errors,
            CASE WHEN count(e.buffer_overrun_errors) > 0 THEN array_agg(e.buffer_overrun_errors ORDER BY e.link) END AS buffer_overrun_errors,
            CASE WHEN count(e.receive_errors) > 0 THEN array_agg(e.receive_errors ORDER BY e.link) END AS receive_errors,
            CASE WHEN count(e.remote_errors) > 0 THEN array_agg(e.remote_errors ORDER BY e.link) END AS remote_errors,
            CASE WHEN count(e.general_errors) > 0 THEN array_agg(e.general_errors ORDER BY e.link) END AS general_errors,
            CASE WHEN count(e.link_integrity_errors) > 0 THEN array_agg(e.link_integrity_errors ORDER BY e.link) END AS link_integrity_errors,
            CASE WHEN count(e.transmit_discards) > 0 THEN array_agg(e.transmit_discards ORDER BY e.link) END AS transmit_discards,
            CASE WHEN count(e.recovery_failures) > 0 THEN array_agg(e.recovery_failures ORDER BY e.link) END AS recovery_failures,
            CASE WHEN count(e.effective_errors) > 0 THEN array_agg(e.effective_errors ORDER BY e.link) END AS effective_errors,
            CASE WHEN count(e.symbol_errors) > 0 THEN array_agg(e.symbol_errors ORDER BY e.link) END AS symbol_errors,
            CASE WHEN count(e.effective_ber_per_1e18) > 0 THEN array_agg(e.effective_ber_per_1e18 ORDER BY e.link) END AS effective_ber_per_1e18,
            CASE WHEN count(e.symbol_ber_per_1e18) > 0 THEN array_agg(e.symbol_ber_per_1e18 ORDER BY e.link) END AS symbol_ber_per_1e18,
            CASE WHEN count(e.fec_corrected_blocks) > 0 THEN array_agg(e.fec_corrected_blocks ORDER BY e.link) END AS fec_corrected_blocks,
            CASE WHEN count(e.fec_most_symbols) > 0 THEN array_agg(e.fec_most_symbols ORDER BY e.link) END AS fec_most_symbols
        FROM (
            -- On its own, or whole series are sorted.
            SELECT
                r.number, l.link,
                l.transmit_bytes[r.number] AS transmit_bytes,
                l.receive_bytes[r.number] AS receive_bytes,
                l.replay_errors[r.number] AS replay_errors,
                l.recovery_errors[r.number] AS recovery_errors,
                l.crc_errors[r.number] AS crc_errors,
                l.speed_bytes_per_second[r.number] AS speed_bytes_per_second,
                l.up[r.number] AS up,
                l.malformed_packet_errors[r.number] AS malformed_packet_errors,
                l.buffer_overrun_errors[r.number] AS buffer_overrun_errors,
                l.receive_errors[r.number] AS receive_errors,
                l.remote_errors[r.number] AS remote_errors,
                l.general_errors[r.number] AS general_errors,
                l.link_integrity_errors[r.number] AS link_integrity_errors,
                l.transmit_discards[r.number] AS transmit_discards,
                l.recovery_failures[r.number] AS recovery_failures,
                l.effective_errors[r.number] AS effective_errors,
                l.symbol_errors[r.number] AS symbol_errors,
                l.effective_ber_per_1e18[r.number] AS effective_ber_per_1e18,
                l.symbol_ber_per_1e18[r.number] AS symbol_ber_per_1e18,
                l.fec_corrected_blocks[r.number] AS fec_corrected_blocks,
                l.fec_most_symbols[r.number] AS fec_most_symbols
            FROM (
            SELECT e.link,
            internal.packed_integers(internal.packed_link(h.samples, h.metrics, h.elements, h.offsets, 201, e.link)) AS transmit_bytes,
            internal.packed_integers(internal.packed_link(h.samples, h.metrics, h.elements, h.offsets, 202, e.link)) AS receive_bytes,
            internal.packed_integers(internal.packed_link(h.samples, h.metrics, h.elements, h.offsets, 203, e.link)) AS replay_errors,
            internal.packed_integers(internal.packed_link(h.samples, h.metrics, h.elements, h.offsets, 204, e.link)) AS recovery_errors,
            internal.packed_integers(internal.packed_link(h.samples, h.metrics, h.elements, h.offsets, 205, e.link)) AS crc_errors,
            internal.packed_integers(internal.packed_link(h.samples, h.metrics, h.elements, h.offsets, 206, e.link)) AS speed_bytes_per_second,
            internal.packed_integers(internal.packed_link(h.samples, h.metrics, h.elements, h.offsets, 207, e.link)) AS up,
            internal.packed_integers(internal.packed_link(h.samples, h.metrics, h.elements, h.offsets, 208, e.link)) AS malformed_packet_errors,
            internal.packed_integers(internal.packed_link(h.samples, h.metrics, h.elements, h.offsets, 209, e.link)) AS buffer_overrun_errors,
            internal.packed_integers(internal.packed_link(h.samples, h.metrics, h.elements, h.offsets, 210, e.link)) AS receive_errors,
            internal.packed_integers(internal.packed_link(h.samples, h.metrics, h.elements, h.offsets, 211, e.link)) AS remote_errors,
            internal.packed_integers(internal.packed_link(h.samples, h.metrics, h.elements, h.offsets, 212, e.link)) AS general_errors,
            internal.packed_integers(internal.packed_link(h.samples, h.metrics, h.elements, h.offsets, 213, e.link)) AS link_integrity_errors,
            internal.packed_integers(internal.packed_link(h.samples, h.metrics, h.elements, h.offsets, 214, e.link)) AS transmit_discards,
            internal.packed_integers(internal.packed_link(h.samples, h.metrics, h.elements, h.offsets, 215, e.link)) AS recovery_failures,
            internal.packed_integers(internal.packed_link(h.samples, h.metrics, h.elements, h.offsets, 216, e.link)) AS effective_errors,
            internal.packed_integers(internal.packed_link(h.samples, h.metrics, h.elements, h.offsets, 217, e.link)) AS symbol_errors,
            internal.packed_integers(internal.packed_link(h.samples, h.metrics, h.elements, h.offsets, 218, e.link)) AS effective_ber_per_1e18,
            internal.packed_integers(internal.packed_link(h.samples, h.metrics, h.elements, h.offsets, 219, e.link)) AS symbol_ber_per_1e18,
            internal.packed_integers(internal.packed_link(h.samples, h.metrics, h.elements, h.offsets, 220, e.link)) AS fec_corrected_blocks,
            internal.packed_integers(internal.packed_link(h.samples, h.metrics, h.elements, h.offsets, 221, e.link)) AS fec_most_symbols
            FROM generate_series(0, coalesce((SELECT max(u.link) FROM unnest(h.elements) AS u (link)), 0)) AS e (link)
            GROUP BY e.link
        ) l
            CROSS JOIN generate_series(1, cardinality(h.times)) AS r (number)
            WHERE internal.packed_time(h.times[r.number]) >= since AND internal.packed_time(h.times[r.number]) <= until
            OFFSET 0
        ) e
        GROUP BY e.number
    ) v;
END;
COMMENT ON FUNCTION public.nvlink_readings IS
    'Readings of NVLinks from since to until, as nvlink_counters has them: rows, and hours that are packed only, whose arrays '
    'may end with more NULLs. Condition gpu_id, so that no others are unpacked.';

CREATE OR REPLACE FUNCTION public.gpu_pcie_readings(since timestamptz, until timestamptz DEFAULT now())
RETURNS TABLE (
    "time" timestamptz, gpu_id bigint, epoch timestamptz, source text,
    transmit_bytes bigint,
    receive_bytes bigint)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT
        c.time, c.gpu_id, c.epoch, c.source,
        c.transmit_bytes,
        c.receive_bytes
    FROM internal.gpu_pcie_counters c
    WHERE c.time >= since AND c.time <= until
    UNION ALL
    SELECT
        internal.packed_time(h.times[r.number]), k.id, internal.packed_time(h.epochs[r.number]), h.source,
        h.transmit_bytes[r.number],
        h.receive_bytes[r.number]
    FROM internal.packed_span('gpu_pcie_counters', since, until) p
    CROSS JOIN internal.gpu_key k
    CROSS JOIN LATERAL (
        -- On its own, so that each series is unpacked once and not for each of its readings. A series that the query does not use is
        -- neither read nor unpacked.
        SELECT
        m.source,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, -2)) AS times,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, -3)) AS epochs,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 251)) AS transmit_bytes,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, 252)) AS receive_bytes
        FROM internal.gpu_pcie_hours(k.id, p.first, p.last) m
        OFFSET 0
    ) h
    CROSS JOIN LATERAL generate_series(1, cardinality(h.times)) AS r (number)
    WHERE internal.packed_time(h.times[r.number]) >= since AND internal.packed_time(h.times[r.number]) <= until;
END;
COMMENT ON FUNCTION public.gpu_pcie_readings IS
    'Readings of GPUs'' PCIe from since to until, as gpu_pcie_counters has them: rows, and hours that are packed only. Condition '
    'gpu_id, so that no others are unpacked.';

CREATE OR REPLACE VIEW public.ib_port_named AS
SELECT k.id AS port_id, s.name AS fabric, nk.id AS ib_node_id, nk.guid, k.port,
       n.type AS node_type, coalesce(nullif(n.description, ''), nk.guid) AS description,
       p.lid, p.state, p.width, p.speed, p.rate_bytes_per_second, p.remote_port_id,
       rnk.guid AS remote_guid, rk.port AS remote_port, rn.type AS remote_type,
       coalesce(nullif(rn.description, ''), rnk.guid) AS remote_description,
       coalesce(nullif(n.description, ''), nk.guid) || '[' || k.port || ']'
           || coalesce(' > ' || coalesce(nullif(rn.description, ''), rnk.guid) || '[' || rk.port || ']', '')
           AS link_name
FROM internal.ib_port_key k
JOIN internal.ib_node_key nk ON nk.id = k.ib_node_id
JOIN internal.fabric s ON s.id = nk.fabric_id
LEFT JOIN internal.ib_node n ON n.ib_node_id = nk.id AND n.valid_to IS NULL
LEFT JOIN internal.ib_port p ON p.port_id = k.id AND p.valid_to IS NULL
LEFT JOIN internal.ib_port_key rk ON rk.id = p.remote_port_id
LEFT JOIN internal.ib_node_key rnk ON rnk.id = rk.ib_node_id
LEFT JOIN internal.ib_node rn ON rn.ib_node_id = rnk.id AND rn.valid_to IS NULL;
COMMENT ON VIEW public.ib_port_named IS 'Fabric ports with what is known of them now, and the name of the link that leaves them.';

CREATE OR REPLACE VIEW public.ib_link_named AS
SELECT l.port_a_id, l.port_b_id, a.link_name AS name, a.fabric,
       a.guid AS guid_a, a.port AS port_a, a.description AS description_a, a.node_type AS type_a,
       b.guid AS guid_b, b.port AS port_b, b.description AS description_b, b.node_type AS type_b,
       a.width, a.speed, a.rate_bytes_per_second, l.valid_from
FROM internal.ib_link l
JOIN public.ib_port_named a ON a.port_id = l.port_a_id
JOIN public.ib_port_named b ON b.port_id = l.port_b_id
WHERE l.valid_to IS NULL;
COMMENT ON VIEW public.ib_link_named IS 'Cables as they are now, with names of both ends.';

CREATE OR REPLACE VIEW internal.ib_port_lane_values AS
SELECT c.time, c.port_id, c.epoch, c.source, lane.number - 1 AS lane,
       c.sl_transmit_data_bytes[lane.number] AS sl_transmit_data_bytes,
       c.sl_receive_data_bytes[lane.number] AS sl_receive_data_bytes,
       c.vl_transmit_wait[lane.number] AS vl_transmit_wait,
       c.vl_flow_control_errors[lane.number] AS vl_flow_control_errors,
       c.vl_congestion[lane.number] AS vl_congestion,
       c.vl_operation_packets[lane.number] AS vl_operation_packets,
       c.vl_operation_data[lane.number] AS vl_operation_data
FROM internal.ib_port_lane_counters c
CROSS JOIN LATERAL generate_series(1, greatest(
    cardinality(c.sl_transmit_data_bytes), cardinality(c.sl_receive_data_bytes), cardinality(c.vl_transmit_wait),
    cardinality(c.vl_flow_control_errors), cardinality(c.vl_congestion), cardinality(c.vl_operation_packets),
    cardinality(c.vl_operation_data))) AS lane (number);
COMMENT ON VIEW internal.ib_port_lane_values IS 'ib_port_lane_counters with a row for each service level or virtual lane.';

CREATE OR REPLACE FUNCTION public.ib_port_rates(since timestamptz, until timestamptz DEFAULT now())
RETURNS TABLE (
    "time" timestamptz, port_id bigint, guid text, port integer, description text, node_type text,
    link_name text, interval_seconds double precision,
    transmit_bytes_per_second double precision, receive_bytes_per_second double precision,
    transmit_packets_per_second double precision, receive_packets_per_second double precision,
    transmit_wait_ticks_per_second double precision,
    rate_bytes_per_second bigint, transmit_utilisation double precision, receive_utilisation double precision,
    transmit_wait_ratio double precision, is_above_speed boolean)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    WITH pairs AS (
        SELECT c.time, c.port_id, c.transmit_data_bytes, c.receive_data_bytes, c.transmit_packets, c.receive_packets,
               c.transmit_wait, c.transmit_wait_tick_bytes, c.rate_bytes_per_second, lag(c.time) OVER w AS time_0,
               lag(c.transmit_data_bytes) OVER w AS transmit_0, lag(c.receive_data_bytes) OVER w AS receive_0,
               lag(c.transmit_packets) OVER w AS transmit_packets_0,
               lag(c.receive_packets) OVER w AS receive_packets_0,
               -- The last one that was read: within an epoch it is the largest.
               max(c.transmit_wait) OVER before AS wait_0,
               max(c.time) FILTER (WHERE c.transmit_wait IS NOT NULL) OVER before AS wait_time_0
        -- The first row in the range has its predecessor before it. No gap is a day: that bound is a constant when the database plans.
        FROM internal.row_gap('ib_port', since, until) b
        CROSS JOIN LATERAL public.ib_port_readings(since - b.gap, until) c
        WHERE c.time > since - b.gap AND c.time > since - INTERVAL '1 day' AND c.time <= until
        -- A row without data (only other counters were read) stands between none that have some.
        WINDOW w AS (PARTITION BY c.port_id, c.epoch, c.transmit_data_bytes IS NULL AND c.receive_data_bytes IS NULL
                     ORDER BY c.time),
               before AS (PARTITION BY c.port_id, c.epoch ORDER BY c.time
                          ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
    ), rates AS (
        SELECT p.time, p.port_id, extract(epoch FROM p.time - p.time_0)::double precision AS seconds,
               extract(epoch FROM p.time - p.wait_time_0)::double precision AS wait_seconds,
               public.counter_increase(transmit_0, transmit_data_bytes) AS transmit,
               public.counter_increase(receive_0, receive_data_bytes) AS receive,
               public.counter_increase(transmit_packets_0, transmit_packets) AS transmit_packets,
               public.counter_increase(receive_packets_0, receive_packets) AS receive_packets,
               CASE WHEN transmit_wait >= wait_0 THEN transmit_wait - wait_0 END AS wait,
               p.transmit_wait_tick_bytes AS tick_bytes, p.rate_bytes_per_second AS own_rate
        FROM pairs p
        JOIN internal.row_rules_of('ib_port', since, until) g ON g.id = p.port_id
        -- Readings farther apart have a time between them in which the port was not read.
        WHERE p.time > since AND p.time - p.time_0 <= make_interval(secs => g.largest_gap_seconds)
          -- One that is there twice is no pair.
          AND p.time > p.time_0
          AND NOT (p.transmit_data_bytes IS NULL AND p.receive_data_bytes IS NULL)
    )
    SELECT r.time, r.port_id, n.guid, n.port, n.description, n.node_type, n.link_name, r.seconds,
           r.transmit / r.seconds, r.receive / r.seconds,
           r.transmit_packets / r.seconds, r.receive_packets / r.seconds, r.wait / r.wait_seconds,
           speed.rate, r.transmit / r.seconds / nullif(speed.rate, 0),
           r.receive / r.seconds / nullif(speed.rate, 0),
           -- A tick is the time in which the link carries so many bytes.
           internal.at_most_one(r.wait / r.wait_seconds * r.tick_bytes / nullif(speed.rate, 0)),
           greatest(r.transmit, r.receive) / r.seconds > speed.rate
    FROM rates r
    JOIN public.ib_port_named n ON n.port_id = r.port_id
    CROSS JOIN LATERAL (SELECT nullif(coalesce(r.own_rate, n.rate_bytes_per_second), 0) AS rate) speed;
END;
COMMENT ON FUNCTION public.ib_port_rates IS
    'Rates and utilisation (share of the link''s own speed) of every fabric port between each two readings of one '
    'epoch in a time range. A row stands for interval_seconds before its time: weigh by it when averaging. '
    'transmit_wait_ratio is the share of the time in which data could not be sent, where the device reports its tick. '
    'Where is_above_speed, more was counted between two readings than the link can carry, because counters were not read '
    'exactly at their times: the rate and the utilisation, above 1, are too high, and those of a neighbouring row too low. '
    'ib_port_rates(now() - interval ''1 minute'') for the present.';

CREATE OR REPLACE VIEW internal.ib_port_minutes_named AS
SELECT m.time, m.port_id, nk.guid, k.port, d.description, coalesce(n.type, l.type) AS node_type,
       d.description || '[' || k.port || ']' || coalesce(' > ' || coalesce(nullif(rn.description, ''), rnk.guid) || '[' || rk.port || ']', '')
           AS link_name,
       m.seconds,
       m.transmit_bytes_per_second, m.receive_bytes_per_second,
       m.transmit_peak_bytes_per_second, m.receive_peak_bytes_per_second,
       m.rate_bytes_per_second,
       m.transmit_bytes_per_second / nullif(m.rate_bytes_per_second, 0) AS transmit_utilisation,
       m.receive_bytes_per_second / nullif(m.rate_bytes_per_second, 0) AS receive_utilisation,
       m.transmit_peak_bytes_per_second / nullif(m.rate_bytes_per_second, 0) AS transmit_peak_utilisation,
       m.receive_peak_bytes_per_second / nullif(m.rate_bytes_per_second, 0) AS receive_peak_utilisation,
       m.transmit_busy_ratio, m.receive_busy_ratio,
       internal.at_most_one(m.transmit_wait_bytes_per_second / nullif(m.rate_bytes_per_second, 0)) AS transmit_wait_ratio,
       m.errors, m.epoch,
       greatest(m.transmit_peak_bytes_per_second, m.receive_peak_bytes_per_second) > nullif(m.rate_bytes_per_second, 0)
           AS is_above_speed
FROM internal.ib_port_minutes m
JOIN internal.ib_port_key k ON k.id = m.port_id
JOIN internal.ib_node_key nk ON nk.id = k.ib_node_id
LEFT JOIN internal.ib_node n ON n.ib_node_id = nk.id AND n.valid_from <= m.time AND (n.valid_to IS NULL OR n.valid_to > m.time)
LEFT JOIN internal.ib_port p ON p.port_id = k.id AND p.valid_from <= m.time AND (p.valid_to IS NULL OR p.valid_to > m.time)
LEFT JOIN internal.ib_port_key rk ON rk.id = p.remote_port_id
LEFT JOIN internal.ib_node_key rnk ON rnk.id = rk.ib_node_id
LEFT JOIN internal.ib_node rn ON rn.ib_node_id = rnk.id AND rn.valid_from <= m.time AND (rn.valid_to IS NULL OR rn.valid_to > m.time)
-- Counters are read a moment before a node is discovered, and after it was found gone.
LEFT JOIN LATERAL (
    SELECT o.type, o.description FROM internal.ib_node o
    WHERE n.ib_node_id IS NULL AND o.ib_node_id = nk.id
    ORDER BY o.valid_from > m.time, abs(extract(epoch FROM o.valid_from - m.time)) LIMIT 1) l ON true
CROSS JOIN LATERAL (SELECT coalesce(nullif(coalesce(n.description, l.description), ''), nk.guid) AS description) d;
COMMENT ON VIEW internal.ib_port_minutes_named IS
    'ib_port_minutes with the names that ports and the other ends of their cables had then, and shares of the link''s own speed. is_above_speed marks a peak above 1, see ib_port_rates.';

CREATE OR REPLACE FUNCTION public.host_port_rates(since timestamptz, until timestamptz DEFAULT now())
RETURNS TABLE (
    "time" timestamptz, host_port_id bigint, node_name text, device text, port integer, guid text,
    interval_seconds double precision,
    transmit_bytes_per_second double precision, receive_bytes_per_second double precision,
    rate_bytes_per_second bigint, transmit_utilisation double precision, receive_utilisation double precision,
    is_above_speed boolean)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    WITH pairs AS (
        SELECT c.time, c.host_port_id, c.rate_bytes_per_second AS rate,
               nullif(extract(epoch FROM c.time - lag(c.time) OVER w), 0)::double precision AS seconds,
               public.counter_increase(lag(c.port_data_transmitted_bytes) OVER w, c.port_data_transmitted_bytes) AS transmit,
               public.counter_increase(lag(c.port_data_received_bytes) OVER w, c.port_data_received_bytes) AS receive
        -- As in ib_port_rates.
        FROM internal.row_gap('host_port', since, until) b
        CROSS JOIN LATERAL public.host_port_readings(since - b.gap, until) c
        WHERE c.time > since - b.gap AND c.time > since - INTERVAL '1 day' AND c.time <= until
        WINDOW w AS (PARTITION BY c.host_port_id, c.epoch ORDER BY c.time)
    )
    SELECT p.time, p.host_port_id, n.name, k.device, k.port, k.guid, p.seconds,
           p.transmit / p.seconds, p.receive / p.seconds,
           p.rate, p.transmit / p.seconds / nullif(p.rate, 0),
           p.receive / p.seconds / nullif(p.rate, 0),
           greatest(p.transmit, p.receive) / p.seconds > nullif(p.rate, 0)
    FROM pairs p
    JOIN internal.host_port_key k ON k.id = p.host_port_id
    JOIN internal.node_key n ON n.id = k.node_id
    JOIN internal.row_rules_of('host_port', since, until) g ON g.id = p.host_port_id
    -- Readings farther apart have a time between them in which the port was not read.
    WHERE p.time > since AND p.seconds <= g.largest_gap_seconds;
END;
COMMENT ON FUNCTION public.host_port_rates IS
    'Rates and utilisation of hosts'' own adapter ports between each two readings of one epoch. '
    'is_above_speed marks a utilisation above 1, see ib_port_rates.';

CREATE OR REPLACE VIEW internal.host_port_minutes_named AS
SELECT m.time, m.host_port_id, n.name AS node_name, k.device, k.port, k.guid, m.seconds,
       m.transmit_bytes_per_second, m.receive_bytes_per_second,
       m.transmit_peak_bytes_per_second, m.receive_peak_bytes_per_second,
       m.rate_bytes_per_second,
       m.transmit_bytes_per_second / nullif(m.rate_bytes_per_second, 0) AS transmit_utilisation,
       m.receive_bytes_per_second / nullif(m.rate_bytes_per_second, 0) AS receive_utilisation,
       m.transmit_busy_ratio, m.receive_busy_ratio, m.epoch,
       greatest(m.transmit_peak_bytes_per_second, m.receive_peak_bytes_per_second) > nullif(m.rate_bytes_per_second, 0)
           AS is_above_speed
FROM internal.host_port_minutes m
JOIN internal.host_port_key k ON k.id = m.host_port_id
JOIN internal.node_key n ON n.id = k.node_id;
COMMENT ON VIEW internal.host_port_minutes_named IS 'host_port_minutes with names, and shares of the link''s own speed. is_above_speed marks a peak above 1, see ib_port_rates.';

CREATE OR REPLACE FUNCTION internal.gpu_source_rank(source text) RETURNS integer
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN coalesce(array_position(ARRAY['nvml', 'nvml_gpm', 'amd_smi', 'level_zero', 'dcgm', 'cupti'], source), 7);
COMMENT ON FUNCTION internal.gpu_source_rank IS
    'Which source of a GPU''s counters is believed where there are several: the one with the lowest number.';

CREATE OR REPLACE VIEW internal.nvlink_link_counters AS
SELECT c.time, c.gpu_id, g.uuid AS gpu, (u.position - 1)::integer AS link, c.epoch, c.source,
       u.transmit_bytes, u.receive_bytes, u.replay_errors, u.recovery_errors, u.crc_errors,
       u.speed_bytes_per_second, u.up,
       u.malformed_packet_errors, u.buffer_overrun_errors, u.receive_errors, u.remote_errors, u.general_errors,
       u.link_integrity_errors, u.transmit_discards, u.recovery_failures, u.effective_errors, u.symbol_errors,
       u.effective_ber_per_1e18, u.symbol_ber_per_1e18, u.fec_corrected_blocks, u.fec_most_symbols
FROM internal.nvlink_counters c
JOIN internal.gpu_key g ON g.id = c.gpu_id
CROSS JOIN LATERAL unnest(
    c.transmit_bytes, c.receive_bytes, c.replay_errors, c.recovery_errors, c.crc_errors,
    c.speed_bytes_per_second, c.up,
    c.malformed_packet_errors, c.buffer_overrun_errors, c.receive_errors, c.remote_errors, c.general_errors,
    c.link_integrity_errors, c.transmit_discards, c.recovery_failures, c.effective_errors, c.symbol_errors,
    c.effective_ber_per_1e18, c.symbol_ber_per_1e18, c.fec_corrected_blocks, c.fec_most_symbols)
    WITH ORDINALITY AS u(transmit_bytes, receive_bytes, replay_errors, recovery_errors, crc_errors,
                         speed_bytes_per_second, up,
                         malformed_packet_errors, buffer_overrun_errors, receive_errors, remote_errors, general_errors,
                         link_integrity_errors, transmit_discards, recovery_failures, effective_errors, symbol_errors,
                         effective_ber_per_1e18, symbol_ber_per_1e18, fec_corrected_blocks, fec_most_symbols, position)
WHERE num_nonnulls(u.transmit_bytes, u.receive_bytes, u.replay_errors, u.recovery_errors, u.crc_errors,
                   u.speed_bytes_per_second, u.up,
                   u.malformed_packet_errors, u.buffer_overrun_errors, u.receive_errors, u.remote_errors,
                   u.general_errors, u.link_integrity_errors, u.transmit_discards, u.recovery_failures,
                   u.effective_errors, u.symbol_errors, u.effective_ber_per_1e18, u.symbol_ber_per_1e18,
                   u.fec_corrected_blocks, u.fec_most_symbols) > 0;
COMMENT ON VIEW internal.nvlink_link_counters IS 'NVLink counters, one row per link that was read.';

CREATE OR REPLACE FUNCTION public.nvlink_link_readings(since timestamptz, until timestamptz DEFAULT now())
RETURNS TABLE (
    "time" timestamptz, gpu_id bigint, gpu text, link integer, epoch timestamptz, source text,
    transmit_bytes bigint,
    receive_bytes bigint,
    replay_errors bigint,
    recovery_errors bigint,
    crc_errors bigint,
    speed_bytes_per_second bigint,
    up bigint,
    malformed_packet_errors bigint,
    buffer_overrun_errors bigint,
    receive_errors bigint,
    remote_errors bigint,
    general_errors bigint,
    link_integrity_errors bigint,
    transmit_discards bigint,
    recovery_failures bigint,
    effective_errors bigint,
    symbol_errors bigint,
    effective_ber_per_1e18 bigint,
    symbol_ber_per_1e18 bigint,
    fec_corrected_blocks bigint,
    fec_most_symbols bigint)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT
        c.time, c.gpu_id, c.gpu, c.link, c.epoch, c.source,
        c.transmit_bytes,
        c.receive_bytes,
        c.replay_errors,
        c.recovery_errors,
        c.crc_errors,
        c.speed_bytes_per_second,
        c.up,
        c.malformed_packet_errors,
        c.buffer_overrun_errors,
        c.receive_errors,
        c.remote_errors,
        c.general_errors,
        c.link_integrity_errors,
        c.transmit_discards,
        c.recovery_failures,
        c.effective_errors,
        c.symbol_errors,
        c.effective_ber_per_1e18,
        c.symbol_ber_per_1e18,
        c.fec_corrected_blocks,
        c.fec_most_symbols
    FROM internal.nvlink_link_counters c
    WHERE c.time >= since AND c.time <= until
    UNION ALL
    SELECT
        internal.packed_time(h.times[r.number]), k.id, k.uuid, l.link, internal.packed_time(h.epochs[r.number]), h.source,
        l.transmit_bytes[r.number],
        l.receive_bytes[r.number],
        l.replay_errors[r.number],
        l.recovery_errors[r.number],
        l.crc_errors[r.number],
        l.speed_bytes_per_second[r.number],
        l.up[r.number],
        l.malformed_packet_errors[r.number],
        l.buffer_overrun_errors[r.number],
        l.receive_errors[r.number],
        l.remote_errors[r.number],
        l.general_errors[r.number],
        l.link_integrity_errors[r.number],
        l.transmit_discards[r.number],
        l.recovery_failures[r.number],
        l.effective_errors[r.number],
        l.symbol_errors[r.number],
        l.effective_ber_per_1e18[r.number],
        l.symbol_ber_per_1e18[r.number],
        l.fec_corrected_blocks[r.number],
        l.fec_most_symbols[r.number]
    FROM internal.packed_span('nvlink_counters', since, until) p
    CROSS JOIN internal.gpu_key k
    CROSS JOIN LATERAL (
        -- On its own, so that each series is unpacked once and not for each of its readings. A series that the query does not use is
        -- neither read nor unpacked.
        SELECT
        m.source, m.samples, m.metrics, m.elements, m.offsets,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, -2)) AS times,
        internal.packed_integers(internal.packed_part(m.samples, m.metrics, m.offsets, -3)) AS epochs
        FROM internal.nvlink_hours(k.id, p.first, p.last) m
        OFFSET 0
    ) h
    CROSS JOIN LATERAL (
            SELECT e.link,
            internal.packed_link_rows(h.samples, h.metrics, h.elements, h.offsets, e.link, cardinality(h.times)) AS has_values,
            internal.packed_integers(internal.packed_link(h.samples, h.metrics, h.elements, h.offsets, 201, e.link)) AS transmit_bytes,
            internal.packed_integers(internal.packed_link(h.samples, h.metrics, h.elements, h.offsets, 202, e.link)) AS receive_bytes,
            internal.packed_integers(internal.packed_link(h.samples, h.metrics, h.elements, h.offsets, 203, e.link)) AS replay_errors,
            internal.packed_integers(internal.packed_link(h.samples, h.metrics, h.elements, h.offsets, 204, e.link)) AS recovery_errors,
            internal.packed_integers(internal.packed_link(h.samples, h.metrics, h.elements, h.offsets, 205, e.link)) AS crc_errors,
            internal.packed_integers(internal.packed_link(h.samples, h.metrics, h.elements, h.offsets, 206, e.link)) AS speed_bytes_per_second,
            internal.packed_integers(internal.packed_link(h.samples, h.metrics, h.elements, h.offsets, 207, e.link)) AS up,
            internal.packed_integers(internal.packed_link(h.samples, h.metrics, h.elements, h.offsets, 208, e.link)) AS malformed_packet_errors,
            internal.packed_integers(internal.packed_link(h.samples, h.metrics, h.elements, h.offsets, 209, e.link)) AS buffer_overrun_errors,
            internal.packed_integers(internal.packed_link(h.samples, h.metrics, h.elements, h.offsets, 210, e.link)) AS receive_errors,
            internal.packed_integers(internal.packed_link(h.samples, h.metrics, h.elements, h.offsets, 211, e.link)) AS remote_errors,
            internal.packed_integers(internal.packed_link(h.samples, h.metrics, h.elements, h.offsets, 212, e.link)) AS general_errors,
            internal.packed_integers(internal.packed_link(h.samples, h.metrics, h.elements, h.offsets, 213, e.link)) AS link_integrity_errors,
            internal.packed_integers(internal.packed_link(h.samples, h.metrics, h.elements, h.offsets, 214, e.link)) AS transmit_discards,
            internal.packed_integers(internal.packed_link(h.samples, h.metrics, h.elements, h.offsets, 215, e.link)) AS recovery_failures,
            internal.packed_integers(internal.packed_link(h.samples, h.metrics, h.elements, h.offsets, 216, e.link)) AS effective_errors,
            internal.packed_integers(internal.packed_link(h.samples, h.metrics, h.elements, h.offsets, 217, e.link)) AS symbol_errors,
            internal.packed_integers(internal.packed_link(h.samples, h.metrics, h.elements, h.offsets, 218, e.link)) AS effective_ber_per_1e18,
            internal.packed_integers(internal.packed_link(h.samples, h.metrics, h.elements, h.offsets, 219, e.link)) AS symbol_ber_per_1e18,
            internal.packed_integers(internal.packed_link(h.samples, h.metrics, h.elements, h.offsets, 220, e.link)) AS fec_corrected_blocks,
            internal.packed_integers(internal.packed_link(h.samples, h.metrics, h.elements, h.offsets, 221, e.link)) AS fec_most_symbols
            FROM generate_series(0, coalesce((SELECT max(u.link) FROM unnest(h.elements) AS u (link)), 0)) AS e (link)
            GROUP BY e.link
        ) l
    CROSS JOIN LATERAL generate_series(1, cardinality(h.times)) AS r (number)
    WHERE (l.has_values IS NULL OR l.has_values[r.number])
      AND internal.packed_time(h.times[r.number]) >= since AND internal.packed_time(h.times[r.number]) <= until;
END;
COMMENT ON FUNCTION public.nvlink_link_readings IS
    'Readings of each NVLink from since to until, as nvlink_link_counters has them: rows, and hours that are packed only. '
    'Condition gpu_id, so that no others are unpacked.';

CREATE OR REPLACE FUNCTION public.nvlink_rates(since timestamptz, until timestamptz DEFAULT now())
RETURNS TABLE (
    "time" timestamptz, gpu_id bigint, gpu text, node_name text, gpu_index integer, link integer, source text,
    link_name text, interval_seconds double precision,
    transmit_bytes_per_second double precision, receive_bytes_per_second double precision,
    speed_bytes_per_second bigint, transmit_utilisation double precision, receive_utilisation double precision,
    is_above_speed boolean)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    WITH readings AS (
        -- Bytes decide: a source that knows the state of a link and not its bytes leaves it to one that does.
        SELECT c.time, c.gpu_id, c.gpu, c.link, c.source, c.epoch, c.speed_bytes_per_second, c.transmit_bytes,
               c.receive_bytes, internal.gpu_source_rank(c.source) AS rank,
               min(internal.gpu_source_rank(c.source))
                   FILTER (WHERE c.time > since AND (c.transmit_bytes IS NOT NULL OR c.receive_bytes IS NOT NULL)) OVER l AS counts,
               min(internal.gpu_source_rank(c.source)) FILTER (WHERE c.time > since) OVER l AS reports
        -- As in ib_port_rates.
        FROM internal.row_gap('gpu', since, until) b
        CROSS JOIN LATERAL public.nvlink_link_readings(since - b.gap, until) c
        WHERE c.time > since - b.gap AND c.time > since - INTERVAL '1 day' AND c.time <= until
        WINDOW l AS (PARTITION BY c.gpu_id, c.link)
    ), pairs AS (
        SELECT c.time, c.gpu_id, c.gpu, c.link, c.source, c.speed_bytes_per_second AS speed,
               nullif(extract(epoch FROM c.time - lag(c.time) OVER w), 0)::double precision AS seconds,
               public.counter_increase(lag(c.transmit_bytes) OVER w, c.transmit_bytes) AS transmit,
               public.counter_increase(lag(c.receive_bytes) OVER w, c.receive_bytes) AS receive
        FROM readings c
        WHERE c.rank = coalesce(c.counts, c.reports)
        WINDOW w AS (PARTITION BY c.gpu_id, c.link, c.source, c.epoch ORDER BY c.time)
    )
    SELECT p.time, p.gpu_id, p.gpu, n.name, g.index, p.link, p.source,
           n.name || ' GPU ' || coalesce(g.index::text, p.gpu) || ' link ' || p.link, p.seconds,
           p.transmit / p.seconds, p.receive / p.seconds, s.speed,
           p.transmit / p.seconds / nullif(s.speed, 0),
           p.receive / p.seconds / nullif(s.speed, 0),
           greatest(p.transmit, p.receive) / p.seconds > nullif(s.speed, 0)
    FROM pairs p
    JOIN internal.gpu_key k ON k.id = p.gpu_id
    JOIN internal.node_key n ON n.id = k.node_id
    -- As it was then; what was read before its first row has the names of that.
    LEFT JOIN internal.gpu g ON g.gpu_id = p.gpu_id AND (g.valid_to IS NULL OR g.valid_to > p.time)
        AND (g.valid_from <= p.time OR NOT EXISTS (
            SELECT FROM internal.gpu e WHERE e.gpu_id = g.gpu_id AND e.valid_from < g.valid_from))
    LEFT JOIN internal.gpu_link l
        ON l.gpu_id = p.gpu_id AND l.link = p.link AND (l.valid_to IS NULL OR l.valid_to > p.time)
        AND (l.valid_from <= p.time OR NOT EXISTS (
            SELECT FROM internal.gpu_link e WHERE e.gpu_id = l.gpu_id AND e.link = l.link AND e.valid_from < l.valid_from))
    CROSS JOIN LATERAL (SELECT coalesce(p.speed, l.speed_bytes_per_second) AS speed) s
    JOIN internal.row_rules_of('gpu', since, until) r ON r.id = p.gpu_id
    -- Readings farther apart have a time between them in which the link was not read.
    WHERE p.time > since AND p.seconds <= r.largest_gap_seconds;
END;
COMMENT ON FUNCTION public.nvlink_rates IS
    'Rates and utilisation of each NVLink between each two readings of one epoch, by one source: of those that counted '
    'its bytes in the range the first by gpu_source_rank. is_above_speed marks a utilisation above 1, see '
    'ib_port_rates.';

CREATE OR REPLACE FUNCTION internal.nvlink_metrics_id("time" timestamptz, gpu_id bigint, link integer) RETURNS numeric
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN (extract(epoch FROM "time") * 1000000)::bigint * 1099511627776::numeric + gpu_id * 64 + link;
COMMENT ON FUNCTION internal.nvlink_metrics_id IS
    'The id of a row of nvlink_metrics: the reading''s own, and greater for a later one. A GPU has less than 64 links.';

CREATE OR REPLACE FUNCTION public.nvlink_metrics_between(since timestamptz, until timestamptz DEFAULT now(), node text DEFAULT NULL)
RETURNS TABLE (
    id numeric, link_id integer, node_name text, source_name text, source_port integer, source_id integer, dest_name text,
    dest_port integer, dest_id integer, added_on timestamptz, data_sent bigint, data_recv bigint,
    data_sent_rate double precision, data_recv_rate double precision)
LANGUAGE plpgsql STABLE
SET search_path = '' SET jit = off SET plan_cache_mode = force_custom_plan
AS $$
DECLARE
    gap interval;
BEGIN
    SELECT b.gap INTO gap FROM internal.row_gap('gpu', since, until) b;
    -- Planned with these times: no other chunk is opened.
    RETURN QUERY
    SELECT internal.nvlink_metrics_id(c.time, k.id, (u.position - 1)::integer),
           (u.position - 1)::integer, n.name, g.name || ' ' || g.index, (u.position - 1)::integer, g.index,
           coalesce(r.name || ' ' || r.index, l.remote_type), l.remote_link, r.index, c.time, u.sent, u.received,
           public.counter_rate(u.sent_before, u.sent, c.seconds), public.counter_rate(u.received_before, u.received, c.seconds)
    FROM internal.node_key n
    JOIN internal.gpu_key k ON k.node_id = n.id
    CROSS JOIN LATERAL (
        SELECT a.time, a.transmit_bytes, a.receive_bytes, a.rank,
               min(a.rank) FILTER (WHERE a.transmit_bytes IS NOT NULL OR a.receive_bytes IS NOT NULL) OVER () AS counts,
               min(a.rank) OVER () AS reports,
               lag(a.transmit_bytes) OVER w AS transmit_before, lag(a.receive_bytes) OVER w AS receive_before,
               -- Over a longer time it was not read.
               CASE WHEN a.time - lag(a.time) OVER w <= gap
                    THEN extract(epoch FROM a.time - lag(a.time) OVER w)::double precision END AS seconds
        FROM (
            SELECT c.time, c.epoch, c.source, c.transmit_bytes, c.receive_bytes, internal.gpu_source_rank(c.source) AS rank
            FROM public.nvlink_readings(since - gap, until) c
            WHERE c.gpu_id = k.id
        ) a
        WINDOW w AS (PARTITION BY a.source, a.epoch ORDER BY a.time)
    ) c
    CROSS JOIN LATERAL unnest(c.transmit_bytes, c.receive_bytes, c.transmit_before, c.receive_before)
        WITH ORDINALITY AS u (sent, received, sent_before, received_before, position)
    LEFT JOIN internal.gpu g ON g.gpu_id = k.id AND (g.valid_to IS NULL OR g.valid_to > c.time)
        AND (g.valid_from <= c.time OR NOT EXISTS (
            SELECT FROM internal.gpu e WHERE e.gpu_id = g.gpu_id AND e.valid_from < g.valid_from))
    LEFT JOIN internal.gpu_link l
        ON l.gpu_id = k.id AND l.link = u.position - 1 AND (l.valid_to IS NULL OR l.valid_to > c.time)
        AND (l.valid_from <= c.time OR NOT EXISTS (
            SELECT FROM internal.gpu_link e WHERE e.gpu_id = l.gpu_id AND e.link = l.link AND e.valid_from < l.valid_from))
    LEFT JOIN internal.gpu r
        ON r.gpu_id = l.remote_gpu_id AND (r.valid_to IS NULL OR r.valid_to > c.time)
        AND (r.valid_from <= c.time OR NOT EXISTS (
            SELECT FROM internal.gpu e WHERE e.gpu_id = r.gpu_id AND e.valid_from < r.valid_from))
    WHERE (nvlink_metrics_between.node IS NULL OR n.name = nvlink_metrics_between.node)
      AND c.time > since AND c.rank = coalesce(c.counts, c.reports)
      AND (u.sent IS NOT NULL OR u.received IS NOT NULL);
END
$$;
COMMENT ON FUNCTION public.nvlink_metrics_between IS
    'INAM, figure 4, of a time: data sent and received on each physical NVLink, in bytes and bytes per second, by one source for each '
    'GPU, with the names of that time. id is of the reading and stays its own, later ones have greater ones. Name a node, or the others are read, too.';

CREATE OR REPLACE VIEW internal.nvlink_link_minutes AS
SELECT m.time, m.gpu_id, g.uuid AS gpu, (u.position - 1)::integer AS link, m.source, u.seconds,
       u.transmit_bytes_per_second, u.receive_bytes_per_second,
       u.transmit_peak_bytes_per_second, u.receive_peak_bytes_per_second, u.speed_bytes_per_second,
       u.transmit_bytes_per_second / nullif(u.speed_bytes_per_second, 0) AS transmit_utilisation,
       u.receive_bytes_per_second / nullif(u.speed_bytes_per_second, 0) AS receive_utilisation,
       u.transmit_busy_ratio, u.receive_busy_ratio, m.epoch,
       greatest(u.transmit_peak_bytes_per_second, u.receive_peak_bytes_per_second) > nullif(u.speed_bytes_per_second, 0)
           AS is_above_speed
FROM internal.nvlink_minutes m
JOIN internal.gpu_key g ON g.id = m.gpu_id
CROSS JOIN LATERAL unnest(m.seconds, m.transmit_bytes_per_second, m.receive_bytes_per_second,
                          m.transmit_peak_bytes_per_second, m.receive_peak_bytes_per_second,
                          m.transmit_busy_ratio, m.receive_busy_ratio, m.speed_bytes_per_second)
    WITH ORDINALITY AS u (seconds, transmit_bytes_per_second, receive_bytes_per_second,
                          transmit_peak_bytes_per_second, receive_peak_bytes_per_second,
                          transmit_busy_ratio, receive_busy_ratio, speed_bytes_per_second, position)
WHERE u.seconds > 0;
COMMENT ON VIEW internal.nvlink_link_minutes IS
    'nvlink_minutes with a row for each link and source. Where several sources read a link, take one: gpu_source_rank(source).';

CREATE OR REPLACE FUNCTION public.gpu_pcie_rates(since timestamptz, until timestamptz DEFAULT now())
RETURNS TABLE (
    "time" timestamptz, gpu_id bigint, gpu text, node_name text, gpu_index integer, source text,
    interval_seconds double precision, transmit_bytes_per_second double precision,
    receive_bytes_per_second double precision, speed_bytes_per_second bigint, is_above_speed boolean)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    WITH readings AS (
        SELECT c.*, internal.gpu_source_rank(c.source) AS rank,
               min(internal.gpu_source_rank(c.source)) FILTER (WHERE c.time > since) OVER (PARTITION BY c.gpu_id) AS best
        -- As in ib_port_rates.
        FROM internal.row_gap('gpu', since, until) b
        CROSS JOIN LATERAL public.gpu_pcie_readings(since - b.gap, until) c
        WHERE c.time > since - b.gap AND c.time > since - INTERVAL '1 day' AND c.time <= until
    ), pairs AS (
        SELECT c.time, c.gpu_id, c.source, nullif(extract(epoch FROM c.time - lag(c.time) OVER w), 0)::double precision AS seconds,
               public.counter_increase(lag(c.transmit_bytes) OVER w, c.transmit_bytes) AS transmit,
               public.counter_increase(lag(c.receive_bytes) OVER w, c.receive_bytes) AS receive
        FROM readings c
        WHERE c.rank = c.best
        WINDOW w AS (PARTITION BY c.gpu_id, c.source, c.epoch ORDER BY c.time)
    )
    SELECT p.time, p.gpu_id, k.uuid, n.name, g.index, p.source, p.seconds, p.transmit / p.seconds, p.receive / p.seconds,
           g.pcie_bytes_per_second, coalesce(greatest(p.transmit, p.receive) / p.seconds > g.pcie_bytes_per_second, false)
    FROM pairs p
    JOIN internal.gpu_key k ON k.id = p.gpu_id
    JOIN internal.node_key n ON n.id = k.node_id
    -- As it was then; what was read before its first row has the names of that.
    LEFT JOIN internal.gpu g ON g.gpu_id = p.gpu_id AND (g.valid_to IS NULL OR g.valid_to > p.time)
        AND (g.valid_from <= p.time OR NOT EXISTS (
            SELECT FROM internal.gpu e WHERE e.gpu_id = g.gpu_id AND e.valid_from < g.valid_from))
    JOIN internal.row_rules_of('gpu', since, until) r ON r.id = p.gpu_id
    WHERE p.time > since AND p.seconds <= r.largest_gap_seconds;
END;
COMMENT ON FUNCTION public.gpu_pcie_rates IS
    'PCIe rates of each GPU between each two readings of one epoch, by one source: the first by gpu_source_rank in the range. '
    'is_above_speed marks more than the slot carries in one direction, see ib_port_rates.';

CREATE OR REPLACE FUNCTION internal.gpu_pm_before(since timestamptz, until timestamptz)
RETURNS SETOF internal.gpu_pm_counters
LANGUAGE plpgsql STABLE PARALLEL SAFE ROWS 1
SET search_path = ''
AS $$
BEGIN
    IF since < until THEN
        RETURN QUERY SELECT * FROM internal.gpu_pm_counters c WHERE c.time > since AND c.time <= until;
    END IF;
END
$$;
COMMENT ON FUNCTION internal.gpu_pm_before IS 'Rows of gpu_pm_counters after a time until another one; none where that is not later.';

CREATE OR REPLACE FUNCTION public.gpu_pm_rates(since timestamptz, until timestamptz DEFAULT now())
RETURNS TABLE (
    "time" timestamptz, gpu_id bigint, gpu text, node_name text, gpu_index integer, interval_seconds double precision,
    nvlink_transmit_bytes_per_second double precision, nvlink_receive_bytes_per_second double precision,
    pcie_read_bytes_per_second double precision, pcie_write_bytes_per_second double precision,
    nvlink_transmit_peak_bytes_per_second bigint, nvlink_receive_peak_bytes_per_second bigint,
    pcie_read_peak_bytes_per_second bigint, pcie_write_peak_bytes_per_second bigint,
    samples bigint, void_samples bigint, buffer_overflows bigint)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    WITH pairs AS (
        SELECT c.*, nullif(extract(epoch FROM c.time - lag(c.time) OVER w), 0)::double precision AS seconds,
               public.counter_increase(lag(c.nvlink_transmit_bytes) OVER w, c.nvlink_transmit_bytes) AS sent,
               public.counter_increase(lag(c.nvlink_receive_bytes) OVER w, c.nvlink_receive_bytes) AS received,
               public.counter_increase(lag(c.pcie_read_bytes) OVER w, c.pcie_read_bytes) AS read,
               public.counter_increase(lag(c.pcie_write_bytes) OVER w, c.pcie_write_bytes) AS written,
               public.counter_increase(lag(c.samples) OVER w, c.samples) AS taken,
               public.counter_increase(lag(c.void_samples) OVER w, c.void_samples) AS void,
               public.counter_increase(lag(c.buffer_overflows) OVER w, c.buffer_overflows) AS overflows
        -- The first row in the range has its predecessor before it, less than an hour nearly always: that bound is a constant when the
        -- database plans, and no older chunk is part of the plan.
        FROM internal.row_gap('gpu', since, until) b
        CROSS JOIN LATERAL (
            SELECT * FROM internal.gpu_pm_counters m
            WHERE m.time > since - b.gap AND m.time > since - INTERVAL '1 hour' AND m.time <= until
            UNION ALL
            SELECT * FROM internal.gpu_pm_before(since - b.gap, since - INTERVAL '1 hour')
        ) c
        WINDOW w AS (PARTITION BY c.gpu_id, c.source, c.epoch ORDER BY c.time)
    )
    SELECT p.time, p.gpu_id, k.uuid, n.name, g.index, p.seconds, p.sent / p.seconds, p.received / p.seconds,
           p.read / p.seconds, p.written / p.seconds,
           p.nvlink_transmit_peak_bytes_per_second, p.nvlink_receive_peak_bytes_per_second,
           p.pcie_read_peak_bytes_per_second, p.pcie_write_peak_bytes_per_second, p.taken, p.void, p.overflows
    FROM pairs p
    JOIN internal.gpu_key k ON k.id = p.gpu_id
    JOIN internal.node_key n ON n.id = k.node_id
    -- As it was then; what was read before its first row has the names of that.
    LEFT JOIN internal.gpu g ON g.gpu_id = p.gpu_id AND (g.valid_to IS NULL OR g.valid_to > p.time)
        AND (g.valid_from <= p.time OR NOT EXISTS (
            SELECT FROM internal.gpu e WHERE e.gpu_id = g.gpu_id AND e.valid_from < g.valid_from))
    JOIN internal.row_rules_of('gpu', since, until) r ON r.id = p.gpu_id
    WHERE p.time > since AND p.seconds <= r.largest_gap_seconds;
END;
COMMENT ON FUNCTION public.gpu_pm_rates IS
    'What GPUs'' performance monitors were sampled for, between each two rows of one epoch: mean rates, the highest rate in '
    'one sample, and how many samples that was made of. NULL for what the chip does not offer.';

CREATE OR REPLACE FUNCTION public.gpu_metric_rates(since timestamptz, until timestamptz DEFAULT now())
RETURNS TABLE (
    "time" timestamptz, gpu_id bigint, gpu text, node_name text, gpu_index integer, metric text, source text,
    interval_seconds double precision, increase bigint, per_second double precision, value double precision)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    WITH pairs AS (
        SELECT c.*, nullif(extract(epoch FROM c.time - lag(c.time) OVER w), 0)::double precision AS seconds,
               public.counter_increase(lag(c.sum) OVER w, c.sum) AS grown
        -- The first row in the range has its predecessor before it, at most an hour: that bound is a constant when the database plans,
        -- and no older chunk is part of the plan.
        FROM internal.row_gap('gpu', since, until) b
        CROSS JOIN LATERAL (
            SELECT * FROM internal.gpu_metrics m
            WHERE m.time > since - b.gap AND m.time > since - INTERVAL '1 hour' AND m.time <= until
        ) c
        WINDOW w AS (PARTITION BY c.gpu_metric_id, c.source, c.epoch ORDER BY c.time)
    )
    SELECT p.time, m.gpu_id, k.uuid, n.name, g.index, m.name, p.source,
           CASE WHEN p.seconds <= r.largest_gap_seconds THEN p.seconds END, p.grown, p.grown / p.seconds, p.value
    FROM pairs p
    JOIN internal.gpu_metric_key m ON m.id = p.gpu_metric_id
    JOIN internal.gpu_key k ON k.id = m.gpu_id
    JOIN internal.node_key n ON n.id = k.node_id
    -- As it was then; what was read before its first row has the names of that.
    LEFT JOIN internal.gpu g ON g.gpu_id = m.gpu_id AND (g.valid_to IS NULL OR g.valid_to > p.time)
        AND (g.valid_from <= p.time OR NOT EXISTS (
            SELECT FROM internal.gpu e WHERE e.gpu_id = g.gpu_id AND e.valid_from < g.valid_from))
    JOIN internal.row_rules_of('gpu', since, until) r ON r.id = m.gpu_id
    WHERE p.time > since AND (p.value IS NOT NULL OR p.seconds <= r.largest_gap_seconds);
END;
COMMENT ON FUNCTION public.gpu_metric_rates IS
    'Metrics of GPUs that the site chose ([cupti] metrics of agent.toml): of those that end in .sum what they grew by between each '
    'two rows of one epoch and that in a second, of others the value of each row. The other columns are NULL.';

CREATE OR REPLACE FUNCTION internal.job_state(
    end_time timestamptz, ranks_lost bigint, ranks_silent bigint, reported_at timestamptz, at timestamptz)
RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT CASE
        WHEN end_time IS NOT NULL AND ranks_lost > 0 THEN 'lost'
        WHEN end_time IS NOT NULL AND ranks_silent > 0 THEN 'silent'
        WHEN end_time IS NOT NULL THEN 'ended'
        -- Agents report each job once a minute, whether its ranks call MPI or not.
        WHEN at - reported_at > internal.minutely_gap() THEN 'silent'
        ELSE 'running' END;
END;
COMMENT ON FUNCTION internal.job_state IS
    'State of a job: running: not ended, and a node reported it within minutely_gap(). silent: no node did, or its end was concluded from that. lost: ended, and a rank of it without MPI_Finalize. ended: ended otherwise. reported_at is when a node last reported it, by the clock of the database.';

CREATE OR REPLACE FUNCTION public.jobs_running(at timestamptz) RETURNS SETOF bigint
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT j.id FROM internal.run_visible j
    WHERE coalesce(j.start_time, j.first_seen) <= at
      AND (j.end_time > at OR j.end_time IS NULL AND internal.job_state(NULL, 0, 0,
          coalesce((SELECT coalesce(max(n.reported_at) FILTER (WHERE n.has_ranks), max(n.reported_at))
                   FROM internal.run_claim n WHERE n.job_id = j.id AND NOT n.is_excluded), j.first_seen), at) = 'running');
END;
COMMENT ON FUNCTION public.jobs_running IS
    'Ids of the jobs that ran at a time. For now() these are the jobs whose state is running (job_state).';

CREATE OR REPLACE FUNCTION internal.job_ranks_counted(job bigint)
RETURNS TABLE (
    ranks bigint, nodes bigint, started bigint, running bigint, lost bigint, unseen bigint, silent bigint, last_end timestamptz,
    libraries text[])
LANGUAGE sql STABLE PARALLEL SAFE ROWS 1
BEGIN ATOMIC
    SELECT coalesce(f.ranks, r.ranks), coalesce(f.nodes, r.nodes), coalesce(f.rank_starts, r.started), r.running, coalesce(f.lost, r.lost),
           coalesce(f.unseen, r.unseen), coalesce(f.silent, r.silent), greatest(r.last_end, f.ended_at), coalesce(f.libraries, r.libraries)
    FROM (
        SELECT count(DISTINCT rank) AS ranks, count(DISTINCT host) AS nodes, count(*) AS started,
               count(*) FILTER (WHERE end_time IS NULL) AS running, count(*) FILTER (WHERE ending = 'lost') AS lost,
               count(*) FILTER (WHERE ending = 'unseen') AS unseen, count(*) FILTER (WHERE ending = 'silent') AS silent,
               max(end_time) AS last_end, array_agg(DISTINCT mpi_library) AS libraries
        FROM internal.job_rank WHERE job_id = job) r
    -- Where claims of ranks are gone.
    LEFT JOIN internal.job_final f ON f.job_id = job AND f.is_released
    WHERE r.started > 0 OR f.ranks > 0;
END;
COMMENT ON FUNCTION internal.job_ranks_counted IS 'The ranks of a job, counted; no row where none is known.';

CREATE OR REPLACE FUNCTION internal.job_reported_at(job bigint) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT coalesce(max(reported_at) FILTER (WHERE has_ranks), max(reported_at))
    FROM internal.run_claim WHERE job_id = job AND NOT is_excluded;
END;
COMMENT ON FUNCTION internal.job_reported_at IS 'When a node last reported a job, by the clock of the database: of those that had ranks of it, where any had.';

CREATE OR REPLACE FUNCTION internal.packed_job_ranks(
    ranks bit varying, places bit varying, texts text, operations text, libraries text[], world_size integer)
RETURNS TABLE (
    number integer, rank integer, pid bigint, start_time timestamptz, end_time timestamptz, ending text, open_operation text,
    open_nanoseconds bigint, rank_world_size integer, mpi_library text, cpus text, gpu_uuids text[], hca_ports text[],
    numa_nodes integer[], hca_numa_nodes integer[])
-- A session plans it once, as packed_shares.
LANGUAGE plpgsql STABLE ROWS 32
SET search_path = '' SET plan_cache_mode = force_generic_plan SET jit = off
AS $$
DECLARE
    lines text[] := string_to_array(packed_job_ranks.texts, E'\n');
    names text[] := string_to_array(packed_job_ranks.operations, E'\n');
BEGIN
    RETURN QUERY
    SELECT r.number, r.c1::integer, r.c2, internal.packed_time(r.c3), CASE WHEN r.c4 >= 0 THEN internal.packed_time(r.c3 + r.c4) END,
           (ARRAY['clean', 'lost', 'unseen', 'silent'])[r.c5], names[r.c7], r.c6,
           coalesce(r.c8::integer, packed_job_ranks.world_size), packed_job_ranks.libraries[p.c1], lines[p.c2],
           (SELECT coalesce(array_agg(coalesce(k.uuid, u.uuid) ORDER BY u.n), '{}')
            FROM unnest(lines[p.c3]::text[]) WITH ORDINALITY u (uuid, n)
            LEFT JOIN internal.gpu_key k ON k.id = CASE WHEN u.uuid LIKE '#%' THEN substr(u.uuid, 2)::bigint END
            WHERE p.c3 > 0 HAVING p.c3 > 0),
           lines[p.c4]::text[], lines[p.c5]::integer[], lines[p.c6]::integer[]
    FROM (SELECT * FROM internal.packed_rows(packed_job_ranks.ranks) OFFSET 0) r
    JOIN (SELECT * FROM internal.packed_rows(packed_job_ranks.places) OFFSET 0) p USING (number);
END $$;
COMMENT ON FUNCTION internal.packed_job_ranks IS
    'The starts of ranks in a row of job_node_final, by their number in it, from 0. pid is -1 where only totals are known of one.';

CREATE OR REPLACE FUNCTION internal.job_final_ranks(job bigint)
RETURNS TABLE (
    job_id bigint, rank integer, node_id bigint, host text, pid bigint, world_size integer, mpi_library text, start_time timestamptz,
    end_time timestamptz, ending text, gpu_uuids text[], hca_ports text[], cpus text, numa_nodes integer[], hca_numa_nodes integer[],
    place integer, number integer, open_operation text, open_nanoseconds bigint, is_released boolean)
LANGUAGE sql STABLE ROWS 100
BEGIN ATOMIC
    SELECT f.job_id, e.rank, n.node_id, n.host, e.pid, e.rank_world_size, e.mpi_library, e.start_time, e.end_time, e.ending, e.gpu_uuids,
           e.hca_ports, e.cpus, e.numa_nodes, e.hca_numa_nodes, n.place, e.number, e.open_operation, e.open_nanoseconds, f.is_released
    FROM internal.job_final f
    JOIN internal.job_node_final n ON n.job_id = f.job_id
    CROSS JOIN LATERAL internal.packed_job_ranks(n.ranks, n.places, n.texts, n.operations, f.libraries, f.world_size) e
    WHERE f.job_id = job_final_ranks.job;
END;
COMMENT ON FUNCTION internal.job_final_ranks IS
    'Each start of a rank that is packed of a job, as in rank_claim, with the number that it has in job_node_final, and the call in which it was killed.';

CREATE OR REPLACE FUNCTION internal.job_final_operations(job bigint)
RETURNS TABLE (
    rank integer, epoch timestamptz, operation text, calls bigint, bytes bigint, elapsed_nanoseconds bigint, longest_nanoseconds bigint,
    wait_nanoseconds bigint, received_bytes bigint, last_time timestamptz)
LANGUAGE sql STABLE ROWS 1000
BEGIN ATOMIC
    SELECT e.rank, e.start_time, o.operation, p.c2, p.c3, p.c4 * 1000, p.c5 * 1000, p.c6 * 1000, p.c7, coalesce(e.end_time, n.ended_at)
    FROM internal.job_final f
    JOIN internal.job_node_final n ON n.job_id = f.job_id
    CROSS JOIN LATERAL unnest(string_to_array(n.operations, E'\n'), n.totals) o (operation, packed)
    CROSS JOIN LATERAL (SELECT * FROM internal.packed_rows(o.packed) OFFSET 0) p
    JOIN LATERAL (
        SELECT r.number, r.rank, r.start_time, r.end_time
        FROM internal.packed_job_ranks(n.ranks, n.places, n.texts, n.operations, f.libraries, f.world_size) r OFFSET 0) e ON e.number = p.number + p.c1
    WHERE f.job_id = job_final_operations.job;
END;
COMMENT ON FUNCTION internal.job_final_operations IS
    'Final totals of each start of a rank by operation, over size classes, regions and algorithms. Times are to the microsecond.';

CREATE OR REPLACE FUNCTION internal.job_final_cells(job bigint)
RETURNS TABLE (
    operation text, size_class_bytes bigint, algorithm text, algorithm_source text, calls bigint, bytes bigint, received_bytes bigint,
    elapsed_seconds double precision, wait_seconds double precision, longest_seconds double precision)
LANGUAGE sql STABLE ROWS 20
BEGIN ATOMIC
    SELECT split_part(f.operations[p.c1], E'\t', 1), p.c8, split_part(f.operations[p.c1], E'\t', 2),
           split_part(f.operations[p.c1], E'\t', 3), p.c2, p.c3, p.c7, p.c4 * (f.unit_nanoseconds / 1e9::double precision),
           p.c6 * (f.unit_nanoseconds / 1e9::double precision), p.c5 * (f.unit_nanoseconds / 1e9::double precision)
    FROM internal.job_final f
    CROSS JOIN LATERAL (SELECT * FROM internal.packed_rows(f.cells) OFFSET 0) p
    WHERE f.job_id = job_final_cells.job;
END;
COMMENT ON FUNCTION internal.job_final_cells IS
    'Final totals of a job over all ranks by operation, size class and algorithm.';

CREATE OR REPLACE FUNCTION internal.job_final_pairs(job bigint)
RETURNS TABLE (
    kind text, from_place integer, to_place integer, from_host text, to_host text, bytes bigint, messages bigint, rank_pairs bigint)
LANGUAGE sql STABLE ROWS 1000
BEGIN ATOMIC
    SELECT k.kind, p.c1::integer, p.c2::integer, s.host, d.host, p.c3, p.c4, p.c5
    FROM internal.job_final f
    CROSS JOIN LATERAL unnest(f.pair_kinds, f.pairs) k (kind, packed)
    CROSS JOIN LATERAL (SELECT * FROM internal.packed_rows(k.packed) OFFSET 0) p
    LEFT JOIN internal.job_node_final s ON s.job_id = f.job_id AND s.place = p.c1
    LEFT JOIN internal.job_node_final d ON d.job_id = f.job_id AND d.place = p.c2
    WHERE f.job_id = job_final_pairs.job;
END;
COMMENT ON FUNCTION internal.job_final_pairs IS
    'Final traffic of a job between its nodes, by kind: the 10,000 pairs with the most bytes, and one row for all others, whose places are 0. rank_pairs: pairs of ranks in it. Other kinds are other views of the same traffic.';

-- The numbers of the sums are those of `ACCOUNT_SUMS` in finals/account.rs; what is 0 is not stored.
CREATE OR REPLACE FUNCTION internal.job_final_account(job bigint)
RETURNS TABLE (
    node_id bigint, host text, ranks bigint, elapsed_microseconds bigint, mpi_microseconds bigint, off_outside_microseconds bigint,
    queued_outside_microseconds bigint, off_inside_microseconds bigint, queued_inside_microseconds bigint, throttled_microseconds bigint,
    file_samples bigint, sleep_samples bigint, lock_samples bigint, stopped_samples bigint, other_samples bigint)
LANGUAGE sql STABLE ROWS 100
BEGIN ATOMIC
    SELECT n.node_id, n.host, coalesce(max(p.c2) FILTER (WHERE p.c1 = 0), 0),
           coalesce(max(p.c2) FILTER (WHERE p.c1 = 1), 0),
           coalesce(max(p.c2) FILTER (WHERE p.c1 = 2), 0),
           coalesce(max(p.c2) FILTER (WHERE p.c1 = 3), 0),
           coalesce(max(p.c2) FILTER (WHERE p.c1 = 4), 0),
           coalesce(max(p.c2) FILTER (WHERE p.c1 = 5), 0),
           coalesce(max(p.c2) FILTER (WHERE p.c1 = 6), 0),
           coalesce(max(p.c2) FILTER (WHERE p.c1 = 7), 0),
           coalesce(max(p.c2) FILTER (WHERE p.c1 = 8), 0),
           coalesce(max(p.c2) FILTER (WHERE p.c1 = 9), 0),
           coalesce(max(p.c2) FILTER (WHERE p.c1 = 10), 0),
           coalesce(max(p.c2) FILTER (WHERE p.c1 = 11), 0),
           coalesce(max(p.c2) FILTER (WHERE p.c1 = 12), 0)
    FROM internal.job_node_final n CROSS JOIN LATERAL internal.packed_rows(n.account) p
    WHERE n.job_id = job_final_account.job AND n.account IS NOT NULL
    GROUP BY n.place, n.node_id, n.host ORDER BY n.place;
END;
COMMENT ON FUNCTION internal.job_final_account IS
    'Where the time of a job''s ranks went, summed by node: how many ranks have an account, what of their time was in MPI, off the processor and waiting for one, and how often they were found off the processor outside of MPI, by what they waited in.';

CREATE OR REPLACE FUNCTION internal.job_rows_gone(job bigint, of_table text) RETURNS boolean
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT EXISTS (
        SELECT FROM internal.job_final f
        JOIN internal.run j ON j.id = f.job_id AND j.end_time IS NOT NULL
        JOIN internal.retention_policy p ON p.hypertable = job_rows_gone.of_table
        WHERE f.job_id = job_rows_gone.job AND f.ended_at < now() - p.keep);
END;
COMMENT ON FUNCTION internal.job_rows_gone IS
    'Whether rows of a hypertable that are of a job may be gone: it ended before the table''s retention, and its final totals are packed. Readers take these then.';

CREATE OR REPLACE FUNCTION internal.job_ranks(job bigint)
RETURNS TABLE (
    job_id bigint, rank integer, node_id bigint, host text, pid bigint, world_size integer, mpi_library text, start_time timestamptz,
    end_time timestamptz, ending text, gpu_uuids text[], hca_ports text[], cpus text, numa_nodes integer[], hca_numa_nodes integer[])
LANGUAGE sql STABLE ROWS 100
BEGIN ATOMIC
    SELECT r.job_id, r.rank, r.node_id, r.host, r.pid, r.world_size, r.mpi_library, r.start_time, r.end_time, r.ending, r.gpu_uuids,
           r.hca_ports, r.cpus, r.numa_nodes, r.hca_numa_nodes
    FROM internal.job_rank r WHERE r.job_id = job_ranks.job
    UNION ALL
    -- A start of a rank that came again later is above.
    SELECT e.job_id, e.rank, e.node_id, e.host, e.pid, e.world_size, e.mpi_library, e.start_time, e.end_time, e.ending, e.gpu_uuids,
           e.hca_ports, e.cpus, e.numa_nodes, e.hca_numa_nodes
    FROM internal.job_final f
    CROSS JOIN LATERAL internal.job_final_ranks(f.job_id) e
    WHERE f.job_id = job_ranks.job AND f.is_released AND e.pid >= 0
      AND NOT EXISTS (SELECT FROM internal.job_rank r WHERE r.job_id = e.job_id AND r.rank = e.rank AND r.start_time = e.start_time);
END;
COMMENT ON FUNCTION internal.job_ranks IS
    'The ranks of one job, as job_rank has them, also when their claims are gone: then they are those of job_node_final.';

CREATE OR REPLACE VIEW public.job_summary AS
SELECT j.id, j.key AS job_key, j.scheduler, j.native_id, j.step, j.uid, j.user_name, j.command, j.start_time,
       -- Ranks decide: each node reports a job's end for itself, and one node may be done before another.
       CASE WHEN r.ranks IS NULL THEN j.end_time WHEN r.running = 0 THEN r.last_end END AS end_time,
       j.first_seen, j.world_size, coalesce(r.ranks, 0) AS ranks, coalesce(r.nodes, 0) AS nodes,
       coalesce(r.running, 0) AS ranks_running, coalesce(r.lost, 0) AS ranks_lost,
       coalesce(r.started, 0) AS rank_starts, r.libraries, coalesce(r.unseen, 0) AS ranks_unseen,
       coalesce(r.silent, 0) AS ranks_silent, j.name, j.account, j.queue, j.array_id,
       n.reported_at,
       -- By columns of the job alone where it has an end and no rank without one: a condition on the state counts the ranks of no others.
       CASE WHEN j.end_time IS NOT NULL AND NOT EXISTS (SELECT FROM internal.job_rank u WHERE u.job_id = j.id AND u.end_time IS NULL)
       THEN internal.job_state(j.end_time,
           CASE WHEN EXISTS (SELECT FROM internal.job_rank f WHERE f.job_id = j.id AND f.ending = 'lost')
                OR EXISTS (SELECT FROM internal.job_final f WHERE f.job_id = j.id AND f.is_released AND f.lost > 0) THEN 1 ELSE 0 END,
           CASE WHEN EXISTS (SELECT FROM internal.job_rank f WHERE f.job_id = j.id AND f.ending = 'silent')
                OR EXISTS (SELECT FROM internal.job_final f WHERE f.job_id = j.id AND f.is_released AND f.silent > 0) THEN 1 ELSE 0 END,
           j.end_time, j.end_time)
       ELSE (
           SELECT internal.job_state(CASE WHEN c.ranks IS NULL THEN j.end_time WHEN c.running = 0 THEN c.last_end END, c.lost, c.silent,
                      coalesce(internal.job_reported_at(j.id), j.first_seen), now())
           FROM (VALUES (true)) one (row) LEFT JOIN LATERAL internal.job_ranks_counted(j.id) c ON true)
       END AS state,
       j.cluster
FROM internal.run_visible j
LEFT JOIN LATERAL internal.job_ranks_counted(j.id) r ON true
LEFT JOIN LATERAL (SELECT internal.job_reported_at(j.id) AS reported_at) n ON true;
COMMENT ON VIEW public.job_summary IS
    'Jobs with their ranks counted: end_time is NULL as long as a rank runs; state is that of job_state; reported_at is when a node last reported the job; rank_starts is larger than ranks where ranks were started again.';

CREATE OR REPLACE FUNCTION internal.contributor_label(contributor text, operation text, job text, user_name text, name text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE contributor
    WHEN 'job' THEN coalesce(operation || ' of ', '') || 'job ' || coalesce(job, 'that is gone')
        || coalesce(' (' || user_name || ')', '')
    WHEN 'host' THEN 'unmonitored host ' || name
    WHEN 'group' THEN 'unmonitored group ' || name
    WHEN 'other' THEN 'others'
    ELSE 'rest'
END;
COMMENT ON FUNCTION internal.contributor_label IS
    'Who has bytes on a link, as alerts and dashboards write it: of columns of link_shares with the names of its job.';

CREATE OR REPLACE VIEW public.link_contributors AS
SELECT s.time, s.port_id, k.guid, p.port, s.contributor, j.key AS job_key, coalesce(j.native_id, j.key) AS job, j.user_name,
       s.operation, s.name,
       internal.contributor_label(s.contributor, s.operation, coalesce(j.native_id, j.key), j.user_name, s.name) AS label,
       CASE WHEN s.is_bound THEN 'bound' ELSE s.kind END AS known,
       s.bytes, s.low_bytes, s.high_bytes, s.counted_bytes
FROM internal.link_shares s
JOIN internal.ib_port_key p ON p.id = s.port_id
JOIN internal.ib_node_key k ON k.id = p.ib_node_id
LEFT JOIN internal.run_visible j ON j.id = s.job_id;
COMMENT ON VIEW public.link_contributors IS
    'link_shares with names. label: who, as alerts and dashboards write it. known: measured, modelled, logical or unreported, see link_shares.kind, and bound where only low_bytes and high_bytes are known.';

CREATE OR REPLACE FUNCTION public.link_minute_shares(since timestamptz, until timestamptz DEFAULT now(), of_job bigint DEFAULT NULL)
RETURNS TABLE (
    "time" timestamptz, port_id bigint, contributor text, job_id bigint, operation text, name text, bytes bigint,
    low_bytes bigint, high_bytes bigint, kind text, is_bound boolean, counted_bytes bigint, peak_counted_bytes bigint,
    windows smallint)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT m.time, m.port_id, m.contributor, m.job_id, m.operation, m.name, m.bytes, m.low_bytes, m.high_bytes, m.kind, m.is_bound,
           m.counted_bytes, m.peak_counted_bytes, m.windows
    FROM internal.link_share_minutes m
    WHERE m.time >= since AND m.time <= until AND (of_job IS NULL OR m.job_id = of_job)
      AND m.time >= (SELECT coalesce(s.hours_until, '-infinity') FROM internal.link_share_state s)
    UNION ALL
    SELECT h.time + c.minute * INTERVAL '1 minute', h.port_id, h.contributors[c.who], h.job_ids[c.who],
           h.operations[c.who], h.names[c.who], c.bytes, c.low_bytes, c.high_bytes, h.kinds[c.who], h.are_bounds[c.who],
           c.counted_bytes, c.peak_counted_bytes, c.windows
    FROM internal.link_share_hours h
    CROSS JOIN LATERAL internal.packed_shares(h.minutes, h.shares, cardinality(h.contributors)) c
    WHERE h.time >= date_bin('1 hour', since, TIMESTAMPTZ '2000-01-01 00:00:00+00') AND h.time <= until AND (of_job IS NULL OR h.job_ids @> ARRAY[of_job])
      AND h.time < (SELECT s.hours_until FROM internal.link_share_state s)
      AND (of_job IS NULL OR h.job_ids[c.who] = of_job)
      AND h.time + c.minute * INTERVAL '1 minute' >= since AND h.time + c.minute * INTERVAL '1 minute' <= until;
END;
COMMENT ON FUNCTION public.link_minute_shares IS
    'Shares of links by the minute from since to until, as link_share_minutes has them: rows, and hours that are in link_share_hours. Condition port_id, or name a job, so that no other hours are unpacked.';

CREATE OR REPLACE FUNCTION public.link_contributor_minutes(since timestamptz, until timestamptz DEFAULT now(), of_job bigint DEFAULT NULL)
RETURNS TABLE (
    "time" timestamptz, port_id bigint, guid text, port integer, contributor text, job_key text, job text, user_name text,
    operation text, name text, label text, known text, bytes bigint, low_bytes bigint, high_bytes bigint, counted_bytes bigint,
    peak_counted_bytes bigint, windows smallint)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT m.time, m.port_id, k.guid, p.port, m.contributor, j.key, coalesce(j.native_id, j.key), j.user_name, m.operation, m.name,
           internal.contributor_label(m.contributor, m.operation, coalesce(j.native_id, j.key), j.user_name, m.name),
           CASE WHEN m.is_bound THEN 'bound' ELSE m.kind END,
           m.bytes, m.low_bytes, m.high_bytes, m.counted_bytes, m.peak_counted_bytes, m.windows
    FROM public.link_minute_shares(since, until, of_job) m
    JOIN internal.ib_port_key p ON p.id = m.port_id
    JOIN internal.ib_node_key k ON k.id = p.ib_node_id
    LEFT JOIN internal.run_visible j ON j.id = m.job_id;
END;
COMMENT ON FUNCTION public.link_contributor_minutes IS
    'link_minute_shares with names, as link_contributors has those of windows. A rate is bytes divided by ten times as many seconds as there are windows.';

CREATE OR REPLACE FUNCTION internal.job_span(job bigint, OUT since timestamptz, OUT ending timestamptz)
LANGUAGE sql STABLE
BEGIN ATOMIC
    -- Clocks of nodes differ a little, and last rows come from bins that end after the rank.
    SELECT coalesce(min(r.start_time) - INTERVAL '2 minutes', '-infinity'),
           CASE WHEN bool_and(r.end_time IS NOT NULL) THEN max(r.end_time) + INTERVAL '10 minutes'
                ELSE 'infinity' END
    FROM (
        SELECT r.start_time, r.end_time FROM internal.job_rank r WHERE r.job_id = job_span.job
        UNION ALL
        SELECT f.began_at, f.ended_at FROM internal.job_final f WHERE f.job_id = job_span.job AND f.is_released
    ) r;
END;
COMMENT ON FUNCTION internal.job_span IS 'The time in which rows of a job lie, so that other chunks are not looked into.';

CREATE OR REPLACE FUNCTION internal.mpi_packed_cells(cells bit varying)
RETURNS TABLE (
    number integer, cell_id bigint, calls bigint, bytes bigint, elapsed_nanoseconds bigint, longest_nanoseconds bigint,
    wait_nanoseconds bigint, received_bytes bigint, least_nanoseconds bigint)
LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 10
BEGIN ATOMIC
    SELECT number, c1, c2, c3, c4, c5, c6, c7, c8 FROM internal.packed_rows(cells);
END;
COMMENT ON FUNCTION internal.mpi_packed_cells IS
    'The cells of a row of mpi_rank_rows or mpi_node_rows, a row for each; number: its index among them, from 0.';

CREATE OR REPLACE FUNCTION internal.rank_newest_cells(job bigint, of_rank integer, node bigint, started timestamptz)
RETURNS TABLE (cells bit varying)
LANGUAGE plpgsql STABLE ROWS 1
SET search_path = ''
AS $$
BEGIN
    -- Planned with these values, and only where there is such a rank: no older chunk is opened.
    RETURN QUERY
    SELECT m.cells FROM internal.mpi_rank_rows m
    WHERE m.job_id = job AND m.rank = of_rank AND m.epoch = started AND m.node_id = node AND m.is_folded AND m.time >= started
    ORDER BY m.time DESC LIMIT 1;
END
$$;
COMMENT ON FUNCTION internal.rank_newest_cells IS 'The newest totals that a node reports of a rank that started at a time.';

CREATE OR REPLACE VIEW public.contested_ranks AS
SELECT j.key AS job_key, r.job_id, r.rank, k.name AS node_name, coalesce(r.contest, 'counted') AS state, r.start_time, r.end_time,
       t.calls, t.bytes
FROM (SELECT DISTINCT job_id, rank FROM internal.rank_claim WHERE contest IS NOT NULL) e
JOIN internal.rank_claim r USING (job_id, rank)
JOIN internal.run_visible j ON j.id = r.job_id
JOIN internal.node_key k ON k.id = r.node_id
LEFT JOIN LATERAL (
    SELECT internal.stored_total(sum(p.calls)) AS calls, internal.stored_total(sum(p.bytes)) AS bytes
    FROM internal.rank_newest_cells(r.job_id, r.rank, r.node_id, r.start_time) newest
    CROSS JOIN LATERAL internal.mpi_packed_cells(newest.cells) p) t ON true;
COMMENT ON VIEW public.contested_ranks IS
    'Ranks that several nodes say they run, as each of them reports them. state: counted; contested: none counts until it is known which node runs it; overruled: other reports are against it; barred: its node is.';

CREATE OR REPLACE FUNCTION internal.mpi_packed_round(rounds bit varying, number integer)
RETURNS TABLE (
    ranks integer, least_rank integer, least_rank_nanoseconds bigint, most_rank integer, most_rank_nanoseconds bigint)
LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 1
BEGIN ATOMIC
    SELECT p.c1::integer, p.c6::integer, p.c2, p.c7::integer, p.c3
    FROM internal.packed_rows(rounds) p WHERE p.number = mpi_packed_round.number;
END;
COMMENT ON FUNCTION internal.mpi_packed_round IS
    'What an interval brought of a cell of a row of mpi_node_rows, given its rounds and the number of the cell: ranks that called it, 0: none, and those with the least and the most time in it.';

CREATE OR REPLACE FUNCTION internal.mpi_packed_calls(packed bit varying)
RETURNS TABLE (
    call bigint, ranks bigint, elapsed_nanoseconds bigint, least_nanoseconds bigint, least_rank bigint, level bigint)
LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 40
BEGIN ATOMIC
    SELECT c1, c2, c3, c4, c5, c6 FROM internal.packed_rows(packed);
END;
COMMENT ON FUNCTION internal.mpi_packed_calls IS
    'The calls of a row of mpi_sampled_calls, a row for each.';

CREATE OR REPLACE FUNCTION internal.mpi_packed_account(account bit varying)
RETURNS TABLE (
    behind interval, elapsed_seconds double precision, mpi_seconds double precision, off_outside_seconds double precision,
    queued_outside_seconds double precision, off_inside_seconds double precision, queued_inside_seconds double precision,
    throttled_seconds double precision, file_seconds double precision, sleep_seconds double precision, lock_seconds double precision,
    stopped_seconds double precision)
LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 1
BEGIN ATOMIC
    -- In milliseconds, zeros at the end left out. What ranks had before the epoch comes after these, and is not in the sums.
    SELECT coalesce(p.n[1], 0) * INTERVAL '1 millisecond', coalesce(p.n[2], 0) / 1e3::double precision,
           coalesce(p.n[3], 0) / 1e3::double precision, coalesce(p.n[4], 0) / 1e3::double precision,
           coalesce(p.n[5], 0) / 1e3::double precision, coalesce(p.n[6], 0) / 1e3::double precision,
           coalesce(p.n[7], 0) / 1e3::double precision, coalesce(p.n[8], 0) / 1e3::double precision,
           coalesce(p.n[9], 0) / 1e3::double precision, coalesce(p.n[10], 0) / 1e3::double precision,
           coalesce(p.n[11], 0) / 1e3::double precision, coalesce(p.n[12], 0) / 1e3::double precision
    FROM (SELECT internal.packed_numbers(account) AS n OFFSET 0) p WHERE length(account) > 0;
END;
COMMENT ON FUNCTION internal.mpi_packed_account IS
    'Where the time of a node''s ranks went, of a row of mpi_node_rows: sums over the ranks since the row''s epoch, and by how long before the time of the row. No row where it has none.';

-- What agents do not fold is rows of changed cells: the last row of a cell has its total. There are none unless a node has more cells than
-- an agent folds, so all rows of the job are read.
CREATE OR REPLACE FUNCTION internal.mpi_overflow_cells(job bigint, until timestamptz DEFAULT 'infinity', only_rank integer DEFAULT NULL)
RETURNS TABLE (
    rank integer, operation text, size_class_bytes bigint, region text, algorithm text, algorithm_source text,
    epoch timestamptz, calls bigint, bytes bigint, elapsed_seconds double precision,
    longest_seconds double precision, wait_seconds double precision, received_bytes bigint, last_time timestamptz,
    least_seconds double precision)
LANGUAGE plpgsql STABLE ROWS 10 COST 1000000
-- As in mpi_op_cells.
SET search_path = '' SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
DECLARE
    span record;
BEGIN
    SELECT * INTO span FROM internal.job_span(mpi_overflow_cells.job);
    RETURN QUERY EXECUTE internal.of_counted(mpi_overflow_cells.job, $query$
        SELECT DISTINCT ON (m.rank, k.operation, k.size_class_bytes, k.region, k.algorithm, m.epoch)
               m.rank, k.operation, k.size_class_bytes, k.region, k.algorithm, k.algorithm_source, m.epoch,
               p.calls, p.bytes, p.elapsed_nanoseconds / 1e9::double precision, p.longest_nanoseconds / 1e9::double precision,
               p.wait_nanoseconds / 1e9::double precision, p.received_bytes, m.time, p.least_nanoseconds / 1e9::double precision
        FROM internal.mpi_rank_rows m
        CROSS JOIN LATERAL internal.mpi_packed_cells(m.cells) p
        JOIN internal.mpi_cell_key k ON k.id = p.cell_id
        WHERE m.job_id = $1 AND NOT m.is_folded AND m.time >= $2 AND m.time <= $3 AND ($4 IS NULL OR m.rank = $4){of_counted_rank}
        ORDER BY m.rank, k.operation, k.size_class_bytes, k.region, k.algorithm, m.epoch, m.time DESC
    $query$) USING job, span.since, least(span.ending, until), only_rank;
END
$$;
COMMENT ON FUNCTION internal.mpi_overflow_cells IS
    'Of cells beyond what agents fold the last value of each and epoch, up to a time; of one rank where one is given. They are in no row of mpi_node_rows.';

-- A folded row has all cells of a rank: the last one of each rank and epoch has its totals. The primary key ends with the time: the next
-- rank or epoch is one step of the index away. A cell is in such a row and among those beyond what is folded where there was no place for
-- it at first, or where an agent was replaced while its rank ran: the later one is its total.
CREATE OR REPLACE FUNCTION internal.mpi_op_cells(job bigint, until timestamptz DEFAULT 'infinity', only_rank integer DEFAULT NULL)
RETURNS TABLE (
    rank integer, operation text, size_class_bytes bigint, region text, algorithm text, algorithm_source text,
    epoch timestamptz, calls bigint, bytes bigint, elapsed_seconds double precision,
    longest_seconds double precision, wait_seconds double precision, received_bytes bigint, last_time timestamptz,
    least_seconds double precision)
LANGUAGE plpgsql STABLE ROWS 10000 COST 1000000
-- Statistics of a chunk that has just begun are none: without these the planner may sort a job's whole history.
SET search_path = '' SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
AS $$
DECLARE
    span record;
    has_overflow boolean;
    -- EXECUTE, so that the times are constants of the plan and chunks outside of them no part of it.
    folded text := $query$
        WITH RECURSIVE newest AS (
            (SELECT m AS line FROM internal.mpi_rank_rows m
             WHERE m.job_id = $1 AND m.time >= $2 AND m.time <= $3 AND ($4 IS NULL OR m.rank = $4) AND m.is_folded{of_counted_rank}
             ORDER BY m.rank DESC, m.epoch DESC, m.time DESC
             LIMIT 1)
            UNION ALL
            SELECT n.line FROM newest l CROSS JOIN LATERAL (
                SELECT m AS line FROM internal.mpi_rank_rows m
                WHERE m.job_id = $1 AND m.time >= $2 AND m.time <= $3 AND ($4 IS NULL OR m.rank = $4) AND m.is_folded{of_counted_rank}
                  AND (m.rank, m.epoch) < ((l.line).rank, (l.line).epoch)
                ORDER BY m.rank DESC, m.epoch DESC, m.time DESC
                LIMIT 1) n
        )
        SELECT (line).rank, k.operation, k.size_class_bytes, k.region, k.algorithm, k.algorithm_source, (line).epoch,
               p.calls, p.bytes, p.elapsed_nanoseconds / 1e9::double precision, p.longest_nanoseconds / 1e9::double precision,
               p.wait_nanoseconds / 1e9::double precision, p.received_bytes, (line).time, p.least_nanoseconds / 1e9::double precision
        FROM newest
        CROSS JOIN LATERAL internal.mpi_packed_cells((line).cells) p
        JOIN internal.mpi_cell_key k ON k.id = p.cell_id
    $query$;
BEGIN
    SELECT * INTO span FROM internal.job_span(mpi_op_cells.job);
    EXECUTE 'SELECT EXISTS (SELECT FROM internal.mpi_rank_rows m WHERE m.job_id = $1 AND NOT m.is_folded AND m.time >= $2 AND m.time <= $3)'
        INTO has_overflow USING job, span.since, span.ending;
    IF has_overflow THEN
        folded := format('SELECT DISTINCT ON (c.rank, c.operation, c.size_class_bytes, c.region, c.algorithm, c.epoch) c.*
            FROM (SELECT * FROM (%s) f (rank, operation, size_class_bytes, region, algorithm, algorithm_source, epoch, calls, bytes,
                                        elapsed_seconds, longest_seconds, wait_seconds, received_bytes, last_time, least_seconds)
                  UNION ALL SELECT * FROM internal.mpi_overflow_cells($1, $3, $4)) c
            ORDER BY c.rank, c.operation, c.size_class_bytes, c.region, c.algorithm, c.epoch, c.last_time DESC, c.calls DESC',
            folded);
    END IF;
    RETURN QUERY EXECUTE internal.of_counted(mpi_op_cells.job, folded) USING job, span.since, least(span.ending, until), only_rank;
END
$$;
COMMENT ON FUNCTION internal.mpi_op_cells IS
    'The last value of each cell and epoch of a job''s operations, up to a time, of one rank where one is given: their sums are the job''s totals as of then.';

-- The last row of each node and epoch is one step of the index away from the next one. Where not all cells are in it, the last one that
-- has all is looked for, and the rows since are read with it.
CREATE OR REPLACE FUNCTION internal.mpi_node_op_cells(job bigint, until timestamptz DEFAULT 'infinity')
RETURNS TABLE (
    node_id bigint, operation text, size_class_bytes bigint, region text, algorithm text, epoch timestamptz,
    calls bigint, bytes bigint, elapsed_seconds double precision, wait_seconds double precision, received_bytes bigint,
    since timestamptz, last_time timestamptz, algorithm_source text, longest_seconds double precision)
LANGUAGE plpgsql STABLE ROWS 1000 COST 1000000
SET search_path = '' SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
AS $$
DECLARE
    span record;
BEGIN
    SELECT * INTO span FROM internal.job_span(mpi_node_op_cells.job);
    RETURN QUERY EXECUTE internal.of_counted(mpi_node_op_cells.job, $query$
        WITH RECURSIVE newest AS (
            (SELECT m AS line FROM internal.mpi_node_rows m
             WHERE m.job_id = $1 AND m.time >= $2 AND m.time <= $3{of_counted_node}
             ORDER BY m.node_id DESC, m.epoch DESC, m.time DESC
             LIMIT 1)
            UNION ALL
            SELECT n.line FROM newest l CROSS JOIN LATERAL (
                SELECT m AS line FROM internal.mpi_node_rows m
                WHERE m.job_id = $1 AND m.time >= $2 AND m.time <= $3{of_counted_node}
                  AND (m.node_id, m.epoch) < ((l.line).node_id, (l.line).epoch)
                ORDER BY m.node_id DESC, m.epoch DESC, m.time DESC
                LIMIT 1) n
        ), lines AS (
            SELECT line FROM newest
            UNION ALL
            SELECT b.line FROM newest l
            LEFT JOIN LATERAL (
                SELECT m.time FROM internal.mpi_node_rows m
                WHERE m.job_id = $1 AND m.node_id = (l.line).node_id AND m.epoch = (l.line).epoch
                  AND m.time >= $2 AND m.time <= $3 AND m.time < (l.line).time AND m.is_whole
                ORDER BY m.time DESC
                LIMIT 1) w ON true
            CROSS JOIN LATERAL (
                SELECT m AS line FROM internal.mpi_node_rows m
                WHERE m.job_id = $1 AND m.node_id = (l.line).node_id AND m.epoch = (l.line).epoch
                  AND m.time >= $2 AND m.time <= $3
                  AND m.time >= coalesce(w.time, $2) AND m.time < (l.line).time) b
            WHERE NOT (l.line).is_whole
        ), cells AS (
            SELECT line, k.operation, k.size_class_bytes, k.region, k.algorithm, k.algorithm_source, p.calls, p.bytes,
                   p.elapsed_nanoseconds AS elapsed, p.wait_nanoseconds AS wait, p.received_bytes AS received,
                   p.longest_nanoseconds AS longest, r.ranks
            FROM lines
            CROSS JOIN LATERAL internal.mpi_packed_cells((line).cells) p
            CROSS JOIN LATERAL internal.mpi_packed_round((line).rounds, p.number) r
            JOIN internal.mpi_cell_key k ON k.id = p.cell_id
        )
        -- When a cell grew last; of one that is in a whole row alone it is not known.
        SELECT (line).node_id, c.operation, c.size_class_bytes, c.region, c.algorithm, (line).epoch, max(c.calls), max(c.bytes),
               max(c.elapsed) / 1e9::double precision, max(c.wait) / 1e9::double precision, max(c.received),
               max((line).since) FILTER (WHERE c.ranks > 0),
               coalesce(max((line).time) FILTER (WHERE c.ranks > 0), max((line).time)), max(c.algorithm_source),
               max(c.longest) / 1e9::double precision
        FROM cells c
        GROUP BY 1, 2, 3, 4, 5, 6
    $query$) USING job, span.since, least(span.ending, until);
END
$$;
COMMENT ON FUNCTION internal.mpi_node_op_cells IS
    'The last value of each cell and epoch in mpi_node_rows of a job, up to a time: what its nodes have counted by then.';

CREATE OR REPLACE VIEW internal.mpi_op_rows AS
SELECT m.time, m.job_id, m.rank, k.operation, k.size_class_bytes, k.region, k.algorithm, k.algorithm_source, m.epoch,
       m.source, p.calls, p.bytes, p.elapsed_nanoseconds / 1e9::double precision AS elapsed_seconds,
       p.longest_nanoseconds / 1e9::double precision AS longest_seconds, p.wait_nanoseconds / 1e9::double precision AS wait_seconds,
       p.received_bytes, p.least_nanoseconds / 1e9::double precision AS least_seconds, m.is_folded, m.time AS stored_time,
       CASE WHEN NOT m.is_folded THEN INTERVAL '0.1 seconds' END AS bin_length,
       CASE WHEN NOT m.is_folded THEN TIMESTAMPTZ '-infinity' END AS covered_since,
       CASE WHEN NOT m.is_folded THEN TIMESTAMPTZ 'infinity' END AS covered_until
FROM internal.mpi_rank_rows m
CROSS JOIN LATERAL internal.mpi_packed_cells(m.cells) p
JOIN internal.mpi_cell_key k ON k.id = p.cell_id
WHERE NOT EXISTS (SELECT FROM internal.rank_claim x
    WHERE x.contest IS NOT NULL AND x.job_id = m.job_id AND x.rank = m.rank AND x.node_id = m.node_id)
UNION ALL
SELECT b.time, m.job_id, m.rank, d.operation, d.size_class_bytes, d.region, d.algorithm,
       d.algorithm_source, m.epoch, m.source, c.calls, c.bytes, c.elapsed / 1e9::double precision,
       c.longest / 1e9::double precision, c.wait / 1e9::double precision, c.received, c.least / 1e9::double precision, false,
       m.time,
       w.length,
       CASE WHEN w.is_whole THEN greatest(q.since, n.recorded_from) ELSE TIMESTAMPTZ 'infinity' END,
       CASE WHEN w.is_whole THEN date_bin(w.length, q.until - INTERVAL '1 microsecond', TIMESTAMPTZ 'epoch') ELSE TIMESTAMPTZ '-infinity' END
FROM internal.detail_mpi_bins m
LEFT JOIN internal.detail_request q ON q.id = m.request_id
LEFT JOIN internal.detail_request_node n ON n.request_id = m.request_id AND n.node_id = m.node_id
CROSS JOIN LATERAL (SELECT make_interval(secs => greatest(coalesce(q.resolution_seconds, 0), 0.1)) AS length,
                           coalesce(n.state = 'done' AND n.damaged = 0, false) AS is_whole) w
CROSS JOIN LATERAL unnest(
    m.bins, m.cells, m.calls, m.bytes, m.elapsed_nanoseconds, m.longest_nanoseconds, m.wait_nanoseconds, m.received_bytes,
    m.least_nanoseconds) c (bin, cell, calls, bytes, elapsed, longest, wait, received, least)
CROSS JOIN LATERAL (SELECT m.since + c.bin * INTERVAL '1 microsecond' AS time) b
JOIN LATERAL unnest(m.operations, m.size_classes_bytes, m.regions, m.algorithms, m.algorithm_sources)
    WITH ORDINALITY d (operation, size_class_bytes, region, algorithm, algorithm_source, cell) ON d.cell = c.cell
WHERE NOT EXISTS (SELECT FROM internal.rank_claim x
    WHERE x.contest IS NOT NULL AND x.job_id = m.job_id AND x.rank = m.rank AND x.node_id = m.node_id);
COMMENT ON VIEW internal.mpi_op_rows IS
    'MPI operations of ranks over time, a row for each cell: those of mpi_rank_rows, and of detail on demand. Cumulative since epoch. is_folded: it has what the rank did in some minutes before its time; else in the bin that ends then.';
COMMENT ON COLUMN internal.mpi_op_rows.stored_time IS
    'Time of the row in its table: at time, of detail on demand up to a minute behind it. A condition on it spares reading all detail of a job.';
COMMENT ON COLUMN internal.mpi_op_rows.bin_length IS
    'Length of the bin in which time is: bins begin at multiples of it since 1970. NULL for a folded row, which has all since the row before.';
COMMENT ON COLUMN internal.mpi_op_rows.covered_since IS
    'Since when all bins of the rank are there, so that what a cell grew by lies in its bin. Before, and where it is infinity, in the time since the row before. NULL for a folded row.';
COMMENT ON COLUMN internal.mpi_op_rows.covered_until IS 'Up to when they are: what they do not have until then did not happen. Infinity where bins come by themselves, -infinity where some may be missing, NULL for a folded row.';

CREATE OR REPLACE VIEW public.mpi_op_series AS
SELECT m.time, NULL::timestamptz AS since, m.job_id, NULL::bigint AS node_id, m.rank, k.operation, k.size_class_bytes, k.region,
       k.algorithm, k.algorithm_source, m.epoch, p.calls, p.bytes, p.elapsed_nanoseconds / 1e9::double precision AS elapsed_seconds,
       p.wait_nanoseconds / 1e9::double precision AS wait_seconds, p.received_bytes
FROM internal.mpi_rank_rows m
CROSS JOIN LATERAL internal.mpi_packed_cells(m.cells) p
JOIN internal.mpi_cell_key k ON k.id = p.cell_id
WHERE NOT m.is_folded AND NOT EXISTS (SELECT FROM internal.rank_claim x
    WHERE x.contest IS NOT NULL AND x.job_id = m.job_id AND x.rank = m.rank AND x.node_id = m.node_id)
UNION ALL
SELECT m.time, m.since, m.job_id, m.node_id, NULL, k.operation, k.size_class_bytes, k.region, k.algorithm, k.algorithm_source, m.epoch,
       p.calls, p.bytes, p.elapsed_nanoseconds / 1e9::double precision, p.wait_nanoseconds / 1e9::double precision, p.received_bytes
FROM internal.mpi_node_rows m
CROSS JOIN LATERAL internal.mpi_packed_cells(m.cells) p
JOIN internal.mpi_cell_key k ON k.id = p.cell_id
WHERE NOT EXISTS (SELECT FROM internal.rank_claim x WHERE x.contest IS NOT NULL AND x.job_id = m.job_id AND x.node_id = m.node_id);
COMMENT ON VIEW public.mpi_op_series IS
    'MPI operations over time as finely as there are rows, to be summed over a job: of the ranks of a node together, and of a rank what its agent does not fold. Cumulative since epoch in each cell of a node or rank.';

CREATE OR REPLACE FUNCTION internal.mpi_op_series_between(job bigint, first timestamptz, last timestamptz)
RETURNS TABLE (
    "time" timestamptz, since timestamptz, node_id bigint, rank integer, operation text, size_class_bytes bigint, region text,
    algorithm text, epoch timestamptz, calls bigint, bytes bigint, elapsed_seconds double precision)
LANGUAGE plpgsql STABLE ROWS 10000 COST 1000000
SET search_path = '' SET jit = off
AS $$
BEGIN
    -- Planned with these times: no other chunk is opened.
    RETURN QUERY
    SELECT m.time, m.since, m.node_id, m.rank, m.operation, m.size_class_bytes, m.region, m.algorithm, m.epoch, m.calls, m.bytes,
           m.elapsed_seconds
    FROM public.mpi_op_series m
    WHERE m.job_id = job AND m.time >= first AND m.time <= last;
END
$$;
COMMENT ON FUNCTION internal.mpi_op_series_between IS
    'What mpi_op_series has of a job in a range of time that is a column of a query: with it as a condition on the view, all chunks would be part of the plan.';

CREATE OR REPLACE VIEW internal.mpi_peer_rows AS
SELECT m.time, m.job_id, m.rank, c.peer, m.kind, m.epoch, m.source, c.bytes, c.messages
FROM internal.mpi_rank_peers m
CROSS JOIN LATERAL unnest(m.peers, m.bytes, m.messages) c (peer, bytes, messages)
WHERE NOT EXISTS (SELECT FROM internal.rank_claim x
    WHERE x.contest IS NOT NULL AND x.job_id = m.job_id AND x.rank = m.rank AND x.node_id = m.node_id);
COMMENT ON VIEW internal.mpi_peer_rows IS
    'Traffic from ranks to others over time, a row for each pair; of kind read what one-sided operations read from the others. '
    'Cumulative since epoch.';

CREATE OR REPLACE VIEW internal.mpi_traffic_rows AS
SELECT m.time, m.job_id, m.node_id, m.operation, m.kind, m.direction, c.peer, m.epoch, m.since, m.source, c.bytes, c.messages
FROM internal.mpi_node_traffic m
CROSS JOIN LATERAL unnest(m.peers, m.bytes, m.messages) c (peer, bytes, messages)
WHERE NOT EXISTS (SELECT FROM internal.rank_claim x WHERE x.contest IS NOT NULL AND x.job_id = m.job_id AND x.node_id = m.node_id);
COMMENT ON VIEW internal.mpi_traffic_rows IS
    'Traffic of jobs by operation over time, a row for each peer. Cumulative since epoch.';

-- The last row of each rank, kind and epoch is one step of the index away from the next one. Where not all peers are in it, the last
-- one that has all is looked for, and the rows since are read with it. What a rank read (`read`) its peer has sent.
CREATE OR REPLACE FUNCTION internal.mpi_peer_cells(job bigint, until timestamptz DEFAULT 'infinity')
RETURNS TABLE (
    rank integer, peer integer, kind text, epoch timestamptz, bytes bigint, messages bigint, last_time timestamptz)
LANGUAGE plpgsql STABLE ROWS 10000 COST 1000000
-- As in mpi_op_cells.
SET search_path = '' SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
AS $$
DECLARE
    span record;
BEGIN
    SELECT * INTO span FROM internal.job_span(mpi_peer_cells.job);
    RETURN QUERY EXECUTE internal.of_counted(mpi_peer_cells.job, $query$
        WITH RECURSIVE newest AS (
            (SELECT m AS line FROM internal.mpi_rank_peers m
             WHERE m.job_id = $1 AND m.time >= $2 AND m.time <= $3{of_counted_rank}
             ORDER BY m.rank DESC, m.kind DESC, m.epoch DESC, m.time DESC
             LIMIT 1)
            UNION ALL
            SELECT n.line FROM newest l CROSS JOIN LATERAL (
                SELECT m AS line FROM internal.mpi_rank_peers m
                WHERE m.job_id = $1 AND m.time >= $2 AND m.time <= $3{of_counted_rank}
                  AND (m.rank, m.kind, m.epoch) < ((l.line).rank, (l.line).kind, (l.line).epoch)
                ORDER BY m.rank DESC, m.kind DESC, m.epoch DESC, m.time DESC
                LIMIT 1) n
        ), lines AS (
            SELECT line FROM newest
            UNION ALL
            SELECT b.line FROM newest l
            LEFT JOIN LATERAL (
                SELECT m.time FROM internal.mpi_rank_peers m
                WHERE m.job_id = $1 AND m.rank = (l.line).rank AND m.kind = (l.line).kind AND m.epoch = (l.line).epoch
                  AND m.time >= $2 AND m.time <= $3 AND m.time < (l.line).time AND m.is_whole{of_counted_rank}
                ORDER BY m.time DESC
                LIMIT 1) w ON true
            CROSS JOIN LATERAL (
                SELECT m AS line FROM internal.mpi_rank_peers m
                WHERE m.job_id = $1 AND m.rank = (l.line).rank AND m.kind = (l.line).kind AND m.epoch = (l.line).epoch
                  AND m.time >= $2 AND m.time <= $3
                  AND m.time >= coalesce(w.time, $2) AND m.time < (l.line).time{of_counted_rank}) b
            WHERE NOT (l.line).is_whole
        )
        SELECT CASE (line).kind WHEN 'read' THEN c.peer ELSE (line).rank END,
               CASE (line).kind WHEN 'read' THEN (line).rank ELSE c.peer END,
               CASE (line).kind WHEN 'read' THEN 'logical' ELSE (line).kind END,
               (line).epoch, max(c.bytes), max(c.messages), max((line).time)
        FROM lines
        CROSS JOIN LATERAL unnest((line).peers, (line).bytes, (line).messages) c (peer, bytes, messages)
        WHERE c.peer IS NOT NULL -- arrays of unequal length, of rows that the collector did not write
        GROUP BY (line).rank, c.peer, (line).kind, (line).epoch
    $query$) USING job, span.since, least(span.ending, until);
END
$$;
COMMENT ON FUNCTION internal.mpi_peer_cells IS
    'The last value of each pair of ranks, kind and epoch of a job, up to a time: their sums are the traffic until then. What '
    'one-sided operations read is traffic of kind logical from the rank that they read from, in rows of its own.';

-- Rows are cumulative, so a total is the last row of each cell and epoch. The primary key ends with the time: going down
-- the key, the first row of each cell is its last one, and the next cell is one step of the index away. So the cost follows
-- the number of cells, whatever a job's length. Each cell of a rank that was started again costs one more step per start; its row may be
-- one that was carried (carry_totals).
CREATE OR REPLACE FUNCTION internal.mpi_region_cells(job bigint, until timestamptz DEFAULT 'infinity')
RETURNS TABLE (
    rank integer, region text, epoch timestamptz, visits bigint, elapsed_seconds double precision,
    own_seconds double precision, mpi_calls bigint, mpi_seconds double precision, last_time timestamptz)
LANGUAGE plpgsql STABLE ROWS 1000 COST 1000000
SET search_path = '' SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
AS $$
DECLARE
    span record;
BEGIN
    SELECT * INTO span FROM internal.job_span(mpi_region_cells.job);
    RETURN QUERY EXECUTE internal.of_counted(mpi_region_cells.job, $query$
        WITH RECURSIVE newest AS (
            (SELECT m AS cell FROM internal.mpi_regions m
             WHERE m.job_id = $1 AND m.time >= $2 AND m.time <= $3{of_counted_rank}
             ORDER BY m.rank DESC, m.region DESC, m.time DESC
             LIMIT 1)
            UNION ALL
            SELECT n.cell FROM newest l CROSS JOIN LATERAL (
                SELECT m AS cell FROM internal.mpi_regions m
                WHERE m.job_id = $1 AND m.time >= $2 AND m.time <= $3{of_counted_rank}
                  AND (m.rank, m.region) < ((l.cell).rank, (l.cell).region)
                ORDER BY m.rank DESC, m.region DESC, m.time DESC
                LIMIT 1) n
        ), earlier AS (
            SELECT e.cell FROM newest l
            JOIN internal.job_rank r ON r.job_id = $1 AND r.rank = (l.cell).rank AND r.start_time <> (l.cell).epoch
            CROSS JOIN LATERAL (
                SELECT m AS cell FROM internal.mpi_regions m
                WHERE m.job_id = $1 AND m.rank = r.rank AND m.region = (l.cell).region AND m.epoch = r.start_time{of_counted_rank}
                  -- The first two are constants of the plan.
                  AND m.time >= $2 AND m.time <= $3 AND m.time >= r.start_time
                  AND m.time <= greatest(coalesce(r.end_time + INTERVAL '10 minutes', $3), $4)
                ORDER BY m.time DESC
                LIMIT 1) e
        )
        SELECT (cell).rank, (cell).region, (cell).epoch, (cell).visits, (cell).elapsed_seconds, (cell).own_seconds,
               (cell).mpi_calls, (cell).mpi_seconds, (cell).time
        FROM (SELECT cell FROM newest UNION ALL SELECT cell FROM earlier) cells
    $query$) USING job, span.since, least(span.ending, until),
        (SELECT p.carried_to + INTERVAL '1 second' FROM internal.retention_policy p WHERE p.hypertable = 'mpi_regions');
END
$$;
COMMENT ON FUNCTION internal.mpi_region_cells IS 'The last row of each region and epoch of a job''s ranks, up to a time.';

-- Rows are cumulative, so a total is the last row of each cell and epoch. The primary key ends with the time: going down
-- the key, the first row of each cell is its last one, and the next cell is one step of the index away. So the cost follows
-- the number of cells, whatever a job's length. Each cell of a rank that was started again costs one more step per start; its row may be
-- one that was carried (carry_totals).
CREATE OR REPLACE FUNCTION internal.mpi_path_cells(job bigint, until timestamptz DEFAULT 'infinity')
RETURNS TABLE (
    rank integer, path text, epoch timestamptz, visits bigint, elapsed_seconds double precision,
    own_seconds double precision, mpi_calls bigint, mpi_seconds double precision, last_time timestamptz)
LANGUAGE plpgsql STABLE ROWS 1000 COST 1000000
SET search_path = '' SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
AS $$
DECLARE
    span record;
BEGIN
    SELECT * INTO span FROM internal.job_span(mpi_path_cells.job);
    RETURN QUERY EXECUTE internal.of_counted(mpi_path_cells.job, $query$
        WITH RECURSIVE newest AS (
            (SELECT m AS cell FROM internal.mpi_region_paths m
             WHERE m.job_id = $1 AND m.time >= $2 AND m.time <= $3{of_counted_rank}
             ORDER BY m.rank DESC, m.path DESC, m.time DESC
             LIMIT 1)
            UNION ALL
            SELECT n.cell FROM newest l CROSS JOIN LATERAL (
                SELECT m AS cell FROM internal.mpi_region_paths m
                WHERE m.job_id = $1 AND m.time >= $2 AND m.time <= $3{of_counted_rank}
                  AND (m.rank, m.path) < ((l.cell).rank, (l.cell).path)
                ORDER BY m.rank DESC, m.path DESC, m.time DESC
                LIMIT 1) n
        ), earlier AS (
            SELECT e.cell FROM newest l
            JOIN internal.job_rank r ON r.job_id = $1 AND r.rank = (l.cell).rank AND r.start_time <> (l.cell).epoch
            CROSS JOIN LATERAL (
                SELECT m AS cell FROM internal.mpi_region_paths m
                WHERE m.job_id = $1 AND m.rank = r.rank AND m.path = (l.cell).path AND m.epoch = r.start_time{of_counted_rank}
                  -- The first two are constants of the plan.
                  AND m.time >= $2 AND m.time <= $3 AND m.time >= r.start_time
                  AND m.time <= greatest(coalesce(r.end_time + INTERVAL '10 minutes', $3), $4)
                ORDER BY m.time DESC
                LIMIT 1) e
        )
        SELECT (cell).rank, (cell).path, (cell).epoch, (cell).visits, (cell).elapsed_seconds, (cell).own_seconds,
               (cell).mpi_calls, (cell).mpi_seconds, (cell).time
        FROM (SELECT cell FROM newest UNION ALL SELECT cell FROM earlier) cells
    $query$) USING job, span.since, least(span.ending, until),
        (SELECT p.carried_to + INTERVAL '1 second' FROM internal.retention_policy p WHERE p.hypertable = 'mpi_region_paths');
END
$$;
COMMENT ON FUNCTION internal.mpi_path_cells IS 'The last row of each path of regions and epoch of a job''s ranks, up to a time.';

-- As in mpi_peer_cells, of each operation, kind, direction and epoch of a node.
CREATE OR REPLACE FUNCTION internal.mpi_traffic_cells(job bigint, until timestamptz DEFAULT 'infinity')
RETURNS TABLE (
    node_id bigint, operation text, kind text, direction text, peer integer, epoch timestamptz, bytes bigint,
    messages bigint, last_time timestamptz)
LANGUAGE plpgsql STABLE ROWS 10000 COST 1000000
SET search_path = '' SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
AS $$
DECLARE
    span record;
BEGIN
    SELECT * INTO span FROM internal.job_span(mpi_traffic_cells.job);
    RETURN QUERY EXECUTE internal.of_counted(mpi_traffic_cells.job, $query$
        WITH RECURSIVE newest AS (
            (SELECT m AS line FROM internal.mpi_node_traffic m
             WHERE m.job_id = $1 AND m.time >= $2 AND m.time <= $3{of_counted_node}
             ORDER BY m.node_id DESC, m.operation DESC, m.kind DESC, m.direction DESC, m.epoch DESC, m.time DESC
             LIMIT 1)
            UNION ALL
            SELECT n.line FROM newest l CROSS JOIN LATERAL (
                SELECT m AS line FROM internal.mpi_node_traffic m
                WHERE m.job_id = $1 AND m.time >= $2 AND m.time <= $3{of_counted_node}
                  AND (m.node_id, m.operation, m.kind, m.direction, m.epoch)
                      < ((l.line).node_id, (l.line).operation, (l.line).kind, (l.line).direction, (l.line).epoch)
                ORDER BY m.node_id DESC, m.operation DESC, m.kind DESC, m.direction DESC, m.epoch DESC, m.time DESC
                LIMIT 1) n
        ), lines AS (
            SELECT line FROM newest
            UNION ALL
            SELECT b.line FROM newest l
            LEFT JOIN LATERAL (
                SELECT m.time FROM internal.mpi_node_traffic m
                WHERE m.job_id = $1 AND m.node_id = (l.line).node_id AND m.operation = (l.line).operation
                  AND m.kind = (l.line).kind AND m.direction = (l.line).direction AND m.epoch = (l.line).epoch
                  AND m.time >= $2 AND m.time <= $3 AND m.time < (l.line).time AND m.is_whole
                ORDER BY m.time DESC
                LIMIT 1) w ON true
            CROSS JOIN LATERAL (
                SELECT m AS line FROM internal.mpi_node_traffic m
                WHERE m.job_id = $1 AND m.node_id = (l.line).node_id AND m.operation = (l.line).operation
                  AND m.kind = (l.line).kind AND m.direction = (l.line).direction AND m.epoch = (l.line).epoch
                  AND m.time >= $2 AND m.time <= $3
                  AND m.time >= coalesce(w.time, $2) AND m.time < (l.line).time) b
            WHERE NOT (l.line).is_whole
        )
        SELECT (line).node_id, (line).operation, (line).kind, (line).direction, c.peer, (line).epoch, max(c.bytes),
               max(c.messages), max((line).time)
        FROM lines
        CROSS JOIN LATERAL unnest((line).peers, (line).bytes, (line).messages) c (peer, bytes, messages)
        WHERE c.peer IS NOT NULL
        GROUP BY 1, 2, 3, 4, 5, 6
    $query$) USING job, span.since, least(span.ending, until);
END
$$;
COMMENT ON FUNCTION internal.mpi_traffic_cells IS
    'The last value of each cell and epoch of a job''s traffic by operation, up to a time: their sums are the traffic until then.';

CREATE OR REPLACE FUNCTION internal.job_op_cells(job bigint)
RETURNS TABLE (
    rank integer, operation text, size_class_bytes bigint, region text, algorithm text, algorithm_source text,
    epoch timestamptz, calls bigint, bytes bigint, elapsed_seconds double precision,
    longest_seconds double precision, wait_seconds double precision, received_bytes bigint, last_time timestamptz)
LANGUAGE plpgsql STABLE ROWS 10000 COST 1000000
SET search_path = ''
AS $$
BEGIN
    IF internal.job_rows_gone(job_op_cells.job, 'mpi_rank_rows') THEN
        RETURN QUERY SELECT o.rank, o.operation, NULL::bigint, ''::text, ''::text, ''::text, o.epoch, o.calls, o.bytes,
            o.elapsed_nanoseconds / 1e9::double precision, o.longest_nanoseconds / 1e9::double precision,
            o.wait_nanoseconds / 1e9::double precision, o.received_bytes, o.last_time
        FROM internal.job_final_operations(job_op_cells.job) o;
    ELSE
        RETURN QUERY SELECT c.rank, c.operation, c.size_class_bytes, c.region, c.algorithm, c.algorithm_source, c.epoch, c.calls, c.bytes,
            c.elapsed_seconds, c.longest_seconds, c.wait_seconds, c.received_bytes, c.last_time
        FROM internal.mpi_op_cells(job_op_cells.job) c;
    END IF;
END $$;
COMMENT ON FUNCTION internal.job_op_cells IS
    'The last value of each cell and epoch of a job''s operations; of a job whose rows are gone its final totals, over size classes, regions and algorithms.';

CREATE OR REPLACE VIEW internal.mpi_op_cell_totals AS
SELECT j.key AS job_key, j.id AS job_id, t.rank, t.operation, t.size_class_bytes, t.region, t.algorithm,
       max(t.algorithm_source) AS algorithm_source, internal.stored_total(sum(t.calls)) AS calls,
       internal.stored_total(sum(t.bytes)) AS bytes,
       sum(t.elapsed_seconds) AS elapsed_seconds, max(t.longest_seconds) AS longest_seconds,
       sum(t.wait_seconds) AS wait_seconds, internal.stored_total(sum(t.received_bytes)) AS received_bytes,
       max(t.last_time) AS last_time
FROM internal.run_visible j
CROSS JOIN LATERAL internal.job_op_cells(j.id) t
GROUP BY j.key, j.id, t.rank, t.operation, t.size_class_bytes, t.region, t.algorithm;
COMMENT ON VIEW internal.mpi_op_cell_totals IS
    'Each rank''s operations so far by size class, region and algorithm: calls, bytes, time. Of a job whose rows are gone the size class is NULL and the others are empty.';

CREATE OR REPLACE VIEW public.mpi_op_totals AS
SELECT job_key, job_id, rank, operation, internal.stored_total(sum(calls)) AS calls, internal.stored_total(sum(bytes)) AS bytes,
       sum(elapsed_seconds) AS elapsed_seconds, max(longest_seconds) AS longest_seconds, max(last_time) AS last_time,
       sum(wait_seconds) AS wait_seconds, internal.stored_total(sum(received_bytes)) AS received_bytes
FROM internal.mpi_op_cell_totals
GROUP BY job_key, job_id, rank, operation;
COMMENT ON VIEW public.mpi_op_totals IS 'Each rank''s operations so far: calls, bytes, time.';

-- Of a call that goes on there is a report each ten seconds at least. A rank that reported nothing for longer may have returned while no agent ran on its node. One that is gone without an end of
-- its call was in it until its last report.
CREATE OR REPLACE VIEW internal.mpi_open_calls AS
SELECT j.key AS job_key, c.job_id, c.rank, c.thread, r.host, c.operation,
       CASE WHEN c.is_on_world THEN 'MPI_COMM_WORLD' ELSE n.name END AS comm, c.comm_size, c.peer, c.is_from_any, c.tag,
       c.requests, c.pending_requests, c.oldest_request, c.oldest_peer, c.oldest_tag, c.is_counted, c.threads_elsewhere, c.threads_to_come,
       c.start_time, c.reported_at, r.end_time AS rank_end_time, r.ending AS rank_ending,
       extract(epoch FROM c.reported_at - c.start_time)::double precision AS seconds
FROM internal.mpi_open_call c
JOIN internal.run_visible j ON j.id = c.job_id
JOIN internal.job_rank r ON r.job_id = c.job_id AND r.rank = c.rank AND r.start_time = c.epoch
    AND r.node_id IS NOT DISTINCT FROM c.node_id
LEFT JOIN internal.job_comm n ON n.job_id = c.job_id AND n.rank = c.rank AND n.epoch = c.epoch AND n.comm = c.comm
WHERE NOT c.has_returned AND c.reported_at > coalesce(r.end_time, now()) - internal.default_gap();
COMMENT ON VIEW internal.mpi_open_calls IS
    'MPI calls of half a second and more that go on, and those in which their rank was killed: which one, on which communicator, with whom, since when, and for how long by the last report.';

CREATE OR REPLACE VIEW public.mpi_peer_totals AS
SELECT j.key AS job_key, j.id AS job_id, t.rank, t.peer, t.kind, internal.stored_total(sum(t.bytes)) AS bytes,
       internal.stored_total(sum(t.messages)) AS messages, max(t.last_time) AS last_time
FROM internal.run_visible j
CROSS JOIN LATERAL internal.mpi_peer_cells(j.id) t
GROUP BY j.key, j.id, t.rank, t.peer, t.kind;
COMMENT ON VIEW public.mpi_peer_totals IS 'Bytes and messages from each rank to each other so far.';

CREATE OR REPLACE VIEW internal.mpi_region_totals AS
SELECT j.key AS job_key, j.id AS job_id, t.rank, t.region, internal.stored_total(sum(t.visits)) AS visits,
       sum(t.elapsed_seconds) AS elapsed_seconds, sum(t.own_seconds) AS own_seconds,
       internal.stored_total(sum(t.mpi_calls)) AS mpi_calls, sum(t.mpi_seconds) AS mpi_seconds, max(t.last_time) AS last_time
FROM internal.run_visible j
CROSS JOIN LATERAL internal.mpi_region_cells(j.id) t
GROUP BY j.key, j.id, t.rank, t.region;
COMMENT ON VIEW internal.mpi_region_totals IS 'Each rank''s annotated regions so far: visits, time, and time of it inside MPI.';

CREATE OR REPLACE VIEW internal.mpi_path_totals AS
SELECT j.key AS job_key, j.id AS job_id, t.rank, t.path, internal.stored_total(sum(t.visits)) AS visits,
       sum(t.elapsed_seconds) AS elapsed_seconds, sum(t.own_seconds) AS own_seconds,
       internal.stored_total(sum(t.mpi_calls)) AS mpi_calls, sum(t.mpi_seconds) AS mpi_seconds, max(t.last_time) AS last_time
FROM internal.run_visible j
CROSS JOIN LATERAL internal.mpi_path_cells(j.id) t
GROUP BY j.key, j.id, t.rank, t.path;
COMMENT ON VIEW internal.mpi_path_totals IS 'Each rank''s paths of annotated regions so far: visits, inclusive and exclusive time, and MPI in the exclusive one.';

CREATE OR REPLACE VIEW internal.mpi_traffic_totals AS
SELECT j.key AS job_key, j.id AS job_id, n.name AS node_name, t.operation, t.kind, t.direction, t.peer,
       internal.stored_total(sum(t.bytes)) AS bytes, internal.stored_total(sum(t.messages)) AS messages, max(t.last_time) AS last_time
FROM internal.run_visible j
CROSS JOIN LATERAL internal.mpi_traffic_cells(j.id) t
JOIN internal.node_key n ON n.id = t.node_id
GROUP BY j.key, j.id, n.name, t.operation, t.kind, t.direction, t.peer;
COMMENT ON VIEW internal.mpi_traffic_totals IS
    'Bytes and messages by operation between each node of a job and each rank so far; all kinds are to be summed.';

CREATE OR REPLACE FUNCTION internal.job_rank_totals(job bigint)
RETURNS TABLE (
    rank integer, calls bigint, bytes bigint, elapsed_seconds double precision, observed_seconds double precision, last_time timestamptz,
    wait_seconds double precision, received_bytes bigint)
LANGUAGE sql STABLE ROWS 100
BEGIN ATOMIC
    WITH ranks AS MATERIALIZED (
        SELECT r.rank, r.start_time, r.end_time FROM internal.job_ranks(job_rank_totals.job) r
    ), counted AS MATERIALIZED (
        SELECT o.rank, internal.stored_total(sum(o.calls)) AS calls, internal.stored_total(sum(o.bytes)) AS bytes,
               sum(o.elapsed_seconds) AS elapsed_seconds, max(o.last_time) AS last_time, sum(o.wait_seconds) AS wait_seconds,
               internal.stored_total(sum(o.received_bytes)) AS received_bytes
        FROM (
            SELECT c.rank, c.calls, c.bytes, c.elapsed_seconds, c.last_time, c.wait_seconds, c.received_bytes
            FROM internal.job_op_cells(job_rank_totals.job) c
            UNION ALL
            -- Not counted yet, and never where the rank was killed in it.
            SELECT c.rank, 0, 0, c.seconds, c.reported_at, NULL, NULL FROM internal.mpi_open_calls c WHERE c.job_id = job_rank_totals.job
            UNION ALL
            SELECT e.rank, 0, 0, e.open_nanoseconds / 1e9::double precision, e.end_time, NULL, NULL
            FROM internal.job_final f CROSS JOIN LATERAL internal.job_final_ranks(f.job_id) e
            WHERE f.job_id = job_rank_totals.job AND f.is_released AND e.open_nanoseconds IS NOT NULL) o
        GROUP BY o.rank
    )
    SELECT t.rank, t.calls, t.bytes, t.elapsed_seconds,
           sum(extract(epoch FROM coalesce(r.end_time, greatest(t.last_time, r.start_time)) - r.start_time))::double precision,
           t.last_time, t.wait_seconds, t.received_bytes
    FROM counted t LEFT JOIN ranks r ON r.rank = t.rank
    GROUP BY t.rank, t.calls, t.bytes, t.elapsed_seconds, t.last_time, t.wait_seconds, t.received_bytes;
END;
COMMENT ON FUNCTION internal.job_rank_totals IS 'The rows of mpi_rank_totals of one job.';

CREATE OR REPLACE VIEW public.mpi_rank_totals AS
SELECT j.key AS job_key, j.id AS job_id, t.rank, t.calls, t.bytes, t.elapsed_seconds, t.observed_seconds, t.last_time,
       t.wait_seconds, t.received_bytes
FROM internal.run_visible j
CROSS JOIN LATERAL internal.job_rank_totals(j.id) t;
COMMENT ON VIEW public.mpi_rank_totals IS
    'Each rank''s MPI so far, over all operations, and the time in a call that goes on included, and how long it was observed: from MPI_Init to its end or its newest report.';

-- Of each rank's last start. What of the time in MPI was waiting is not in it: that is estimated for the API.
CREATE OR REPLACE VIEW public.mpi_rank_account AS
SELECT DISTINCT ON (r.job_id, r.rank) j.key AS job_key, r.job_id, r.rank, r.host, s.time,
       s.elapsed_nanoseconds / 1e9::double precision AS elapsed_seconds,
       (s.elapsed_nanoseconds - s.mpi_nanoseconds - s.off_outside_nanoseconds) / 1e9::double precision AS computing_seconds,
       s.queued_outside_nanoseconds / 1e9::double precision AS core_wait_seconds,
       (s.off_outside_nanoseconds - s.queued_outside_nanoseconds) / 1e9::double precision AS off_processor_seconds,
       s.mpi_nanoseconds / 1e9::double precision AS mpi_seconds,
       s.off_inside_nanoseconds / 1e9::double precision AS off_processor_in_mpi_seconds,
       s.queued_inside_nanoseconds / 1e9::double precision AS core_wait_in_mpi_seconds,
       s.throttled_nanoseconds / 1e9::double precision AS throttled_seconds
FROM internal.run_visible j
JOIN internal.job_rank r ON r.job_id = j.id
JOIN internal.mpi_rank_scheduling s ON s.job_id = r.job_id AND s.rank = r.rank AND s.epoch = r.start_time
WHERE s.elapsed_nanoseconds IS NOT NULL
ORDER BY r.job_id, r.rank, r.start_time DESC;
COMMENT ON VIEW public.mpi_rank_account IS
    'Where the time of the thread went that called MPI_Init, from the end of that until `time`: computing, waiting for a core and off the processor outside of MPI, and in MPI; they add up to elapsed_seconds. Of the waits for a core a CPU quota makes throttled_seconds, at least. docs/ACCOUNT.md.';

-- Cumulative, so that any two rows of a node and epoch are compared. What ranks had before the epoch is not in it.
CREATE OR REPLACE VIEW public.mpi_node_account AS
SELECT m.job_id, m.node_id, m.epoch, m.time, m.time - a.behind AS as_of, a.elapsed_seconds,
       greatest(a.elapsed_seconds - a.mpi_seconds - a.off_outside_seconds, 0) AS computing_seconds,
       a.queued_outside_seconds AS core_wait_seconds,
       greatest(a.off_outside_seconds - a.queued_outside_seconds, 0) AS off_processor_seconds, a.mpi_seconds,
       a.off_inside_seconds AS off_processor_in_mpi_seconds, a.queued_inside_seconds AS core_wait_in_mpi_seconds, a.throttled_seconds,
       a.file_seconds, a.sleep_seconds, a.lock_seconds, a.stopped_seconds
FROM internal.mpi_node_rows m
CROSS JOIN LATERAL internal.mpi_packed_account(m.account) a
WHERE NOT EXISTS (SELECT FROM internal.rank_claim x WHERE x.contest IS NOT NULL AND x.job_id = m.job_id AND x.node_id = m.node_id);
COMMENT ON VIEW public.mpi_node_account IS
    'Where the time of a job''s ranks on a node went, summed over them and cumulative since `epoch`, as of each ten seconds: as mpi_rank_account, and what of off_processor_seconds was in a file, asleep, at a lock and stopped. Times of rows are within seconds of `as_of`.';

-- From one rank and epoch to the next down the primary key, as mpi_op_cells.
CREATE OR REPLACE FUNCTION internal.job_ranks_as_of(job bigint)
RETURNS TABLE (as_of timestamptz, node_id bigint, node_as_of timestamptz)
LANGUAGE plpgsql STABLE ROWS 10 COST 100000
SET search_path = '' SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
AS $$
DECLARE
    span record;
BEGIN
    SELECT * INTO span FROM internal.job_span(job_ranks_as_of.job);
    RETURN QUERY EXECUTE internal.of_counted(job_ranks_as_of.job, $query$
        WITH RECURSIVE newest AS (
            (SELECT m.rank, m.epoch, m.time, m.node_id FROM internal.mpi_rank_rows m
             WHERE m.job_id = $1 AND m.time >= $2 AND m.time <= $3{of_counted_rank}
             ORDER BY m.rank DESC, m.epoch DESC, m.time DESC
             LIMIT 1)
            UNION ALL
            SELECT n.* FROM newest l CROSS JOIN LATERAL (
                SELECT m.rank, m.epoch, m.time, m.node_id FROM internal.mpi_rank_rows m
                WHERE m.job_id = $1 AND m.time >= $2 AND m.time <= $3{of_counted_rank} AND (m.rank, m.epoch) < (l.rank, l.epoch)
                ORDER BY m.rank DESC, m.epoch DESC, m.time DESC
                LIMIT 1) n
        ), edges AS MATERIALIZED (
            -- Rows are as of whole seconds, and the time in a row is that of the last report in it. Ranks that ended have one of their end.
            -- Of a larger job some may have newer rows than the others, while somebody looks at them.
            SELECT n.node_id, date_trunc('second', CASE WHEN count(*) <= 64 THEN max(n.time)
                       ELSE percentile_disc(0.5) WITHIN GROUP (ORDER BY n.time) END + INTERVAL '0.999999 seconds') AS edge
            FROM newest n
            JOIN (SELECT r.rank, r.start_time FROM internal.job_rank r WHERE r.job_id = $1 AND r.end_time IS NULL) r
                ON r.rank = n.rank AND r.start_time = n.epoch
            GROUP BY n.node_id
        ), of_node AS MATERIALIZED (
            SELECT c.node_id, e.edge,
                   CASE WHEN c.folded_until IS NOT NULL
                   THEN least(c.folded_until, public.time_bucket('10 seconds', now() - INTERVAL '4 seconds')) END AS folded_until
            FROM internal.run_claim c LEFT JOIN edges e ON e.node_id = c.node_id
            WHERE c.job_id = $1 AND c.has_ranks AND NOT c.is_excluded
        ), known AS MATERIALIZED (
            -- A node whose ranks called nothing since has no newer rows of them, and none is missing.
            SELECT o.node_id, o.edge, q.is_quiet, CASE WHEN q.is_quiet THEN greatest(o.edge, o.folded_until) ELSE o.edge END AS until
            FROM of_node o CROSS JOIN LATERAL (
                SELECT o.folded_until IS NOT NULL AND NOT EXISTS (
                    SELECT FROM internal.mpi_node_rows m
                    WHERE m.job_id = $1 AND m.node_id = o.node_id AND m.time >= $2 AND m.time <= $3
                      AND m.time > coalesce(o.edge, '-infinity')
                      AND EXISTS (SELECT FROM internal.packed_rows(m.rounds) p WHERE p.c1 > 0)) AS is_quiet) q
        ), at AS MATERIALIZED (
            -- Before the newest row of a quiet one it is not known what that had done.
            SELECT coalesce(CASE WHEN bool_or(k.edge IS NOT NULL AND NOT k.is_quiet) THEN max(k.edge) END, max(k.until),
                            (SELECT max(time) FROM newest)) AS edge FROM known k
        ), times AS MATERIALIZED (
            SELECT k.node_id, CASE WHEN k.until IS NOT NULL THEN least(k.until, a.edge) END AS node_as_of
            FROM known k CROSS JOIN at a WHERE a.edge IS NOT NULL
        ), stated AS MATERIALIZED (
            -- First rows of ranks that began together may be a second apart between nodes.
            SELECT min(t.node_as_of) AS as_of FROM times t CROSS JOIN at a WHERE t.node_as_of > a.edge - INTERVAL '5 seconds'
        )
        SELECT s.as_of, t.node_id, t.node_as_of FROM stated s CROSS JOIN times t
        UNION ALL
        SELECT a.edge, NULL, NULL FROM at a WHERE a.edge IS NOT NULL AND NOT EXISTS (SELECT FROM times)
    $query$) USING job, span.since, span.ending;
END
$$;
COMMENT ON FUNCTION internal.job_ranks_as_of IS
    'As of when the rows of a job''s ranks are, by node; no row where it has none. A node that is far behind as_of is late: what it sent last is in the sums.';

CREATE OR REPLACE FUNCTION internal.job_as_of(job bigint, is_finest boolean DEFAULT false)
RETURNS TABLE (as_of timestamptz, is_of_nodes boolean, node_id bigint, node_as_of timestamptz)
LANGUAGE plpgsql STABLE ROWS 10 COST 100000
SET search_path = ''
AS $$
DECLARE
    span record;
    is_beyond boolean;
BEGIN
    IF EXISTS (SELECT FROM internal.run j WHERE j.id = job_as_of.job AND j.end_time IS NOT NULL) THEN
        RETURN;
    END IF;
    SELECT * INTO span FROM internal.job_span(job_as_of.job);
    -- Cells beyond what agents fold are in no row of a node.
    EXECUTE 'SELECT EXISTS (SELECT FROM internal.mpi_rank_rows m WHERE m.job_id = $1 AND NOT m.is_folded AND m.time >= $2 AND m.time <= $3)'
        INTO is_beyond USING job, span.since, span.ending;
    IF NOT is_beyond THEN
        RETURN QUERY
        WITH nodes AS MATERIALIZED (
            SELECT c.node_id, c.folded_until, c.end_time IS NULL AS runs
            FROM internal.run_claim c WHERE c.job_id = job_as_of.job AND c.has_ranks AND NOT c.is_excluded
        ), newest AS MATERIALIZED (
            -- While somebody looks at it all nodes may have newer ones.
            SELECT CASE WHEN f.all_until > f.ended AND job_as_of.is_finest THEN f.all_until ELSE least(f.ended, f.until) END AS as_of
            FROM (SELECT public.time_bucket('10 seconds', now() - INTERVAL '4 seconds') AS ended,
                         CASE WHEN bool_and(n.folded_until IS NOT NULL) FILTER (WHERE n.runs)
                         THEN date_trunc('second', least(min(n.folded_until) FILTER (WHERE n.runs), now())) END AS all_until,
                         coalesce(max(n.folded_until) FILTER (WHERE n.runs), max(n.folded_until)) AS until
                  FROM nodes n) f
            WHERE f.until IS NOT NULL
        )
        SELECT w.as_of, true, n.node_id,
               CASE WHEN NOT n.runs THEN w.as_of WHEN n.folded_until IS NOT NULL THEN least(w.as_of, n.folded_until) END
        FROM nodes n CROSS JOIN newest w
        JOIN internal.run j ON j.id = job_as_of.job AND w.as_of > coalesce(j.start_time, j.first_seen);
        IF FOUND THEN
            RETURN;
        END IF;
    END IF;
    -- The time of the newest of them: sums as of an older one would have an older row of those nodes.
    RETURN QUERY SELECT coalesce(max(r.node_as_of) OVER (), r.as_of), false, r.node_id, r.node_as_of
        FROM internal.job_ranks_as_of(job_as_of.job) r;
END
$$;
COMMENT ON FUNCTION internal.job_as_of IS
    'As of when the sums of a running job are: the newest whole ten seconds that ended at least 4 s ago, from rows of its nodes, with is_finest the newest second that all of them have one of; before their first one, and where cells are beyond what agents fold, the rows of its ranks. A node that is behind has its own time, NULL where nothing of it is known; its newest figures are in the sums. No row of a job that has ended.';

CREATE OR REPLACE FUNCTION internal.job_rank_times(job bigint, until timestamptz, nodes bigint[], times timestamptz[])
RETURNS TABLE (rank integer, observed_seconds double precision, open_seconds double precision)
LANGUAGE sql STABLE ROWS 100
BEGIN ATOMIC
    WITH at AS MATERIALIZED (
        SELECT * FROM unnest(job_rank_times.nodes, job_rank_times.times) a (node_id, time)
    ), ranks AS MATERIALIZED (
        SELECT r.rank, r.node_id, r.start_time, r.end_time,
               CASE WHEN a.node_id IS NULL THEN job_rank_times.until ELSE a.time END AS time
        FROM internal.job_rank r LEFT JOIN at a ON a.node_id = r.node_id WHERE r.job_id = job_rank_times.job
    )
    SELECT r.rank, sum(greatest(extract(epoch FROM least(r.end_time, r.time) - r.start_time), 0))::double precision,
           sum(o.seconds)
    FROM ranks r
    CROSS JOIN LATERAL (
        -- Of one that has returned it is known that it went on then if the report of its end came a second later: ranks report each second.
        SELECT sum(greatest(extract(epoch FROM
                   least(r.time, CASE WHEN r.end_time IS NOT NULL THEN c.reported_at END) - c.start_time), 0))::double precision AS seconds
        FROM internal.mpi_open_call c
        WHERE c.job_id = job_rank_times.job AND c.rank = r.rank AND NOT c.is_counted AND c.epoch = r.start_time AND c.node_id IS NOT DISTINCT FROM r.node_id
          AND (NOT c.has_returned AND c.reported_at > coalesce(r.end_time, now()) - internal.default_gap()
               OR c.has_returned AND c.reported_at >= r.time + INTERVAL '1 second')) o
    WHERE r.time > r.start_time
    GROUP BY r.rank;
END;
COMMENT ON FUNCTION internal.job_rank_times IS
    'How long each rank of a job was observed as of a time, nodes with another time as of that; and how long it was then in calls that had not returned.';

CREATE OR REPLACE FUNCTION internal.job_rank_sums(job bigint, until timestamptz, nodes bigint[], times timestamptz[])
RETURNS TABLE (rank integer, calls bigint, bytes bigint, elapsed_seconds double precision, observed_seconds double precision)
LANGUAGE sql STABLE ROWS 100
BEGIN ATOMIC
    WITH counted AS MATERIALIZED (
        SELECT c.rank, internal.stored_total(sum(c.calls)) AS calls, internal.stored_total(sum(c.bytes)) AS bytes,
               sum(c.elapsed_seconds) AS elapsed_seconds
        FROM internal.mpi_op_cells(job_rank_sums.job, job_rank_sums.until) c GROUP BY c.rank
    ), times AS MATERIALIZED (
        SELECT t.rank, t.observed_seconds, t.open_seconds
        FROM internal.job_rank_times(job_rank_sums.job, job_rank_sums.until, job_rank_sums.nodes, job_rank_sums.times) t
    )
    SELECT coalesce(c.rank, t.rank), coalesce(c.calls, 0), coalesce(c.bytes, 0),
           coalesce(c.elapsed_seconds, 0) + coalesce(t.open_seconds, 0), t.observed_seconds
    FROM counted c FULL JOIN times t ON t.rank = c.rank
    WHERE c.rank IS NOT NULL OR t.open_seconds > 0;
END;
COMMENT ON FUNCTION internal.job_rank_sums IS
    'Each rank''s MPI of a running job as of a time (job_ranks_as_of), over all operations, the time in a call that goes on included.';

-- A node that began to count a rank after it began, as an agent does that was started again, has what came since: what the rank did before
-- is in its own rows. They and the sums of the node are compared as of one time, the end of the interval in which ranks had rows last.
CREATE OR REPLACE FUNCTION internal.job_node_cells(job bigint, until timestamptz)
RETURNS TABLE (
    operation text, size_class_bytes bigint, region text, algorithm text, algorithm_source text, calls bigint, bytes bigint,
    elapsed_seconds double precision, longest_seconds double precision, wait_seconds double precision, received_bytes bigint)
LANGUAGE sql STABLE ROWS 100 COST 1000000
BEGIN ATOMIC
    WITH counted AS MATERIALIZED (
        SELECT * FROM internal.mpi_node_op_cells(job_node_cells.job, job_node_cells.until) n
    ), epochs AS MATERIALIZED (
        SELECT DISTINCT n.node_id, n.epoch FROM counted n
    ), ranks AS MATERIALIZED (
        SELECT r.node_id, r.rank, r.start_time, r.end_time FROM internal.job_rank r WHERE r.job_id = job_node_cells.job
    ), behind AS MATERIALIZED (
        SELECT DISTINCT r.node_id FROM ranks r LEFT JOIN epochs e ON e.node_id = r.node_id
        WHERE e.node_id IS NULL
           OR r.start_time < e.epoch - INTERVAL '5 seconds' AND (r.end_time IS NULL OR r.end_time > e.epoch)
    ), edges AS MATERIALIZED (
        SELECT r.node_id, least(job_node_cells.until, public.time_bucket('10 seconds',
                   coalesce(max(c.last_time) FILTER (WHERE r.end_time IS NULL), max(c.last_time)) + INTERVAL '9.999999 seconds')) AS edge
        FROM (SELECT WHERE EXISTS (SELECT FROM behind)) needed
        CROSS JOIN LATERAL internal.mpi_op_cells(job_node_cells.job, job_node_cells.until) c
        JOIN ranks r ON r.rank = c.rank AND r.start_time = c.epoch
        WHERE r.node_id IN (SELECT b.node_id FROM behind b)
        GROUP BY r.node_id
    ), cells AS (
        SELECT n.operation, n.size_class_bytes, n.region, n.algorithm, n.algorithm_source, n.calls, n.bytes, n.elapsed_seconds,
               n.longest_seconds, n.wait_seconds, n.received_bytes
        FROM counted n
        UNION ALL
        SELECT c.operation, c.size_class_bytes, c.region, c.algorithm, c.algorithm_source, c.calls, c.bytes, c.elapsed_seconds,
               c.longest_seconds, c.wait_seconds, c.received_bytes
        FROM edges e CROSS JOIN LATERAL internal.mpi_op_cells(job_node_cells.job, e.edge) c
        JOIN ranks r ON r.rank = c.rank AND r.start_time = c.epoch AND r.node_id = e.node_id
        UNION ALL
        SELECT b.operation, b.size_class_bytes, b.region, b.algorithm, b.algorithm_source, -b.calls, -b.bytes, -b.elapsed_seconds,
               b.longest_seconds, -b.wait_seconds, -b.received_bytes
        FROM edges e CROSS JOIN LATERAL internal.mpi_node_op_cells(job_node_cells.job, e.edge) b WHERE b.node_id = e.node_id
    )
    SELECT c.operation, c.size_class_bytes, c.region, c.algorithm, max(c.algorithm_source),
           greatest(internal.stored_total(sum(c.calls)), 0), greatest(internal.stored_total(sum(c.bytes)), 0),
           greatest(sum(c.elapsed_seconds), 0), max(c.longest_seconds),
           CASE WHEN count(c.wait_seconds) > 0 THEN greatest(sum(c.wait_seconds), 0) END,
           CASE WHEN count(c.received_bytes) > 0 THEN greatest(internal.stored_total(sum(c.received_bytes)), 0) END
    FROM cells c GROUP BY c.operation, c.size_class_bytes, c.region, c.algorithm;
END;
COMMENT ON FUNCTION internal.job_node_cells IS
    'Operations of a running job over all ranks, by size class, region and algorithm, as its nodes counted them up to a time (job_as_of).';

CREATE OR REPLACE FUNCTION internal.job_sums(
    job bigint, until timestamptz, is_of_nodes boolean, nodes bigint[], times timestamptz[])
RETURNS TABLE (calls bigint, bytes bigint, elapsed_seconds double precision, observed_seconds double precision)
LANGUAGE plpgsql STABLE ROWS 1 COST 1000000
SET search_path = ''
AS $$
BEGIN
    IF job_sums.until IS NULL THEN
        RETURN QUERY SELECT internal.stored_total(sum(t.calls)), internal.stored_total(sum(t.bytes)), sum(t.elapsed_seconds),
            sum(t.observed_seconds)
        FROM internal.job_rank_totals(job_sums.job) t HAVING count(*) > 0;
    ELSIF is_of_nodes THEN
        RETURN QUERY SELECT c.calls, c.bytes, coalesce(c.elapsed_seconds, 0) + coalesce(t.open_seconds, 0), t.observed_seconds
        FROM (SELECT coalesce(internal.stored_total(sum(n.calls)), 0) AS calls, coalesce(internal.stored_total(sum(n.bytes)), 0) AS bytes,
                     sum(n.elapsed_seconds) AS elapsed_seconds, count(*) AS cells
              FROM internal.job_node_cells(job_sums.job, job_sums.until) n) c
        CROSS JOIN (SELECT sum(r.observed_seconds) AS observed_seconds, sum(r.open_seconds) AS open_seconds
                    FROM internal.job_rank_times(job_sums.job, job_sums.until, job_sums.nodes, job_sums.times) r) t
        WHERE c.cells > 0 OR t.open_seconds > 0;
    ELSE
        RETURN QUERY SELECT internal.stored_total(sum(r.calls)), internal.stored_total(sum(r.bytes)), sum(r.elapsed_seconds),
            sum(r.observed_seconds)
        FROM internal.job_rank_sums(job_sums.job, job_sums.until, job_sums.nodes, job_sums.times) r HAVING count(*) > 0;
    END IF;
END
$$;
COMMENT ON FUNCTION internal.job_sums IS
    'Sums of a job over all ranks and operations as of the time that job_as_of has, or final ones where there is none; no row where nothing was counted.';

CREATE OR REPLACE FUNCTION internal.job_cells(job bigint, until timestamptz, is_of_nodes boolean)
RETURNS TABLE (
    operation text, size_class_bytes bigint, algorithm text, algorithm_source text, calls bigint, bytes bigint, received_bytes bigint,
    elapsed_seconds double precision, wait_seconds double precision, longest_seconds double precision)
LANGUAGE plpgsql STABLE ROWS 100 COST 1000000
SET search_path = ''
AS $$
BEGIN
    IF job_cells.until IS NULL AND internal.job_rows_gone(job_cells.job, 'mpi_rank_rows') THEN
        RETURN QUERY SELECT f.operation, f.size_class_bytes, f.algorithm, f.algorithm_source, f.calls, f.bytes, f.received_bytes,
            f.elapsed_seconds, f.wait_seconds, f.longest_seconds
        FROM internal.job_final_cells(job_cells.job) f;
    ELSIF job_cells.until IS NOT NULL AND is_of_nodes THEN
        RETURN QUERY SELECT n.operation, n.size_class_bytes, n.algorithm, n.algorithm_source, internal.stored_total(sum(n.calls)),
            internal.stored_total(sum(n.bytes)), internal.stored_total(sum(n.received_bytes)), coalesce(sum(n.elapsed_seconds), 0),
            sum(n.wait_seconds), max(n.longest_seconds)
        FROM internal.job_node_cells(job_cells.job, job_cells.until) n
        GROUP BY n.operation, n.size_class_bytes, n.algorithm, n.algorithm_source;
    ELSE
        RETURN QUERY SELECT c.operation, c.size_class_bytes, c.algorithm, c.algorithm_source, internal.stored_total(sum(c.calls)),
            internal.stored_total(sum(c.bytes)), internal.stored_total(sum(c.received_bytes)), coalesce(sum(c.elapsed_seconds), 0),
            sum(c.wait_seconds), max(c.longest_seconds)
        FROM internal.mpi_op_cells(job_cells.job, coalesce(job_cells.until, 'infinity')) c
        GROUP BY c.operation, c.size_class_bytes, c.algorithm, c.algorithm_source;
    END IF;
END
$$;
COMMENT ON FUNCTION internal.job_cells IS
    'Operations of a job over all ranks by size class and algorithm, as of the time that job_as_of has, or final ones where there is none.';

CREATE OR REPLACE VIEW internal.mpi_messages AS
SELECT s.job_id, s.rank AS source, r.rank AS destination, s.comm, s.tag, s.sequence, s.bytes, s.time AS send_time,
       s.operation AS send_operation, s.start_ns AS send_start_ns, s.end_ns AS send_end_ns,
       r.operation AS receive_operation, r.start_ns AS receive_start_ns, r.end_ns AS receive_end_ns
FROM internal.mpi_trace s
JOIN internal.mpi_trace r ON r.job_id = s.job_id AND r.rank = s.peer AND r.peer = s.rank
    AND r.comm = s.comm AND r.tag = s.tag AND r.sequence = s.sequence AND r.kind IN ('receive', 'arrival')
WHERE s.kind IN ('send', 'departure');
COMMENT ON VIEW internal.mpi_messages IS 'Trace mode: sends with their receives. Times ending in _ns are on two clocks, see mpi_clock.';

CREATE OR REPLACE VIEW internal.job_rank_ports AS
SELECT j.key AS job_key, r.job_id, r.rank, r.start_time, r.end_time, r.node_id, k.name AS node_name, r.gpu_uuids,
       r.cpus, r.numa_nodes, h.host_port_id, h.device, h.port, h.guid,
       r.hca_ports IS NOT NULL AND (h.host_port_id IS NOT NULL OR h.guid IS NULL) AS is_exact,
       p.id AS port_id, b.port_guid, b.lid, b.rate_bytes_per_second, b.remote_port_id,
       s.guid AS remote_guid, q.port AS remote_port, s.description AS remote_description
FROM internal.job_rank r
JOIN internal.run_visible j ON j.id = r.job_id
LEFT JOIN internal.node_key k ON k.id = r.node_id
LEFT JOIN LATERAL (
    SELECT o.id AS host_port_id, o.device, o.port, o.guid, f.port_id FROM internal.host_port_key o
    LEFT JOIN LATERAL internal.fabric_port_of(o.port_guid, o.guid, o.port, coalesce(r.end_time, 'infinity')) f ON true
    WHERE o.node_id = r.node_id AND NOT internal.is_device_contested(o.guid, r.node_id) AND (r.hca_ports IS NULL OR o.device || '/' || o.port = ANY (r.hca_ports))
    UNION ALL
    -- Of a node that reads no ports of its own (its source sysfs is off) those of the adapters that it names.
    SELECT NULL, NULL, a.port, c.guid, a.id FROM internal.node n
    JOIN internal.ib_node_key c ON c.guid = ANY (n.hca_guids)
    JOIN internal.ib_port_key a ON a.ib_node_id = c.id AND a.port > 0
    WHERE n.node_id = r.node_id AND n.valid_to IS NULL AND r.hca_ports IS DISTINCT FROM '{}'
        AND NOT internal.is_device_contested(c.guid, r.node_id)
        AND NOT EXISTS (SELECT FROM internal.host_port_key o WHERE o.node_id = r.node_id)) h ON true
LEFT JOIN internal.ib_port_key p ON p.id = h.port_id
LEFT JOIN internal.ib_port b ON b.port_id = p.id AND b.valid_from <= coalesce(r.end_time, now())
    AND (b.valid_to IS NULL OR b.valid_to > coalesce(r.end_time, now()))
LEFT JOIN internal.ib_port_key q ON q.id = b.remote_port_id
LEFT JOIN internal.ib_node s ON s.ib_node_id = q.ib_node_id AND s.valid_to IS NULL;
COMMENT ON VIEW internal.job_rank_ports IS
    'The way from a rank to its links: one row for each adapter port that it used, with the port of the fabric and '
    'the switch port at the other end of the cable, as they were when the rank ended. is_exact is false where the '
    'ports of a rank are not known: then every port of its node is listed, and where the node reads none itself every '
    'port of the adapters that it names.';

CREATE OR REPLACE VIEW internal.job_rank_gpus AS
SELECT j.key AS job_key, r.job_id, r.rank, r.start_time, r.end_time, r.node_id, k.name AS node_name, r.gpu_evidence, r.visible_devices,
       g.gpu_id, gk.uuid AS gpu_uuid, i.index AS gpu_index, i.name AS gpu_name, g.partition_id, pk.uuid AS partition_uuid,
       p.index AS partition_index, p.name AS partition_name, g.evidence,
       coalesce(g.evidence IN ('driver', r.gpu_evidence), false) AS is_own, g.minor, g.first_seen,
       coalesce(g.last_seen, r.end_time) AS last_seen, i.numa_node, g.nearest_distance, h.host_port_id, h.device, h.port,
       h.has_queue_pairs, f.port_id, b.port_guid, b.lid, b.rate_bytes_per_second, b.remote_port_id, s.guid AS remote_guid,
       q.port AS remote_port, s.description AS remote_description,
       g.partition_id IS NOT NULL OR g.has_others OR EXISTS (
           SELECT FROM internal.rank_gpu o
           JOIN internal.job_rank x ON x.job_id = o.job_id AND x.rank = o.rank AND x.node_id = o.node_id AND x.start_time = o.start_time
           WHERE o.gpu_id = g.gpu_id AND o.job_id <> g.job_id AND o.evidence = 'driver'
               AND o.first_seen <= coalesce(g.last_seen, r.end_time, 'infinity')
               AND coalesce(o.last_seen, x.end_time, 'infinity') >= g.first_seen) AS is_shared
FROM internal.job_rank r
JOIN internal.run_visible j ON j.id = r.job_id
LEFT JOIN internal.node_key k ON k.id = r.node_id
-- What is known of a GPU by the driver is not repeated by weaker evidence.
LEFT JOIN internal.rank_gpu g ON g.job_id = r.job_id AND g.rank = r.rank AND g.node_id = r.node_id AND g.start_time = r.start_time
    AND NOT EXISTS (
        SELECT FROM internal.rank_gpu o
        WHERE o.job_id = g.job_id AND o.rank = g.rank AND o.node_id = g.node_id AND o.start_time = g.start_time AND o.gpu_id = g.gpu_id
            AND array_position(ARRAY['driver', 'device', 'visible'], o.evidence)
                < array_position(ARRAY['driver', 'device', 'visible'], g.evidence))
LEFT JOIN internal.gpu_key gk ON gk.id = g.gpu_id
LEFT JOIN internal.gpu_key pk ON pk.id = g.partition_id
-- Names of the time: a GPU's number can change.
LEFT JOIN LATERAL (
    SELECT o.index, o.name, o.numa_node, o.nearest_hcas FROM internal.gpu o
    WHERE o.gpu_id = g.gpu_id AND o.valid_from <= coalesce(g.last_seen, r.end_time, 'infinity')
    ORDER BY o.valid_from DESC LIMIT 1) i ON true
LEFT JOIN LATERAL (
    SELECT o.index, o.name FROM internal.gpu o
    WHERE o.gpu_id = g.partition_id AND o.valid_from <= coalesce(g.last_seen, r.end_time, 'infinity')
    ORDER BY o.valid_from DESC LIMIT 1) p ON true
-- Of several ports that are equally near, the one that the rank uses.
LEFT JOIN LATERAL (
    SELECT o.id AS host_port_id, o.device, o.port, o.guid, o.port_guid,
           o.device || '/' || o.port = ANY (r.hca_ports) AS has_queue_pairs
    FROM internal.host_port_key o
    WHERE o.node_id = r.node_id AND o.device = ANY (i.nearest_hcas)
    ORDER BY array_position(r.hca_ports, o.device || '/' || o.port), o.device, o.port LIMIT 1) h ON true
LEFT JOIN LATERAL internal.fabric_port_of(h.port_guid, h.guid, h.port, coalesce(r.end_time, 'infinity')) f
    ON NOT internal.is_device_contested(h.guid, r.node_id)
LEFT JOIN internal.ib_port b ON b.port_id = f.port_id AND b.valid_from <= coalesce(r.end_time, now())
    AND (b.valid_to IS NULL OR b.valid_to > coalesce(r.end_time, now()))
LEFT JOIN internal.ib_port_key q ON q.id = b.remote_port_id
LEFT JOIN internal.ib_node s ON s.ib_node_id = q.ib_node_id AND s.valid_to IS NULL;
COMMENT ON VIEW internal.job_rank_gpus IS
    'From a rank to its GPUs, and from each to the nearest port of an adapter, the port of the fabric and the switch port behind it. A rank '
    'without a GPU has one row without: it uses none where gpu_evidence is not NULL, and else that is not known. gpu_* are of the whole '
    'GPU, partition_* of the partition of it (MIG) that the rank is on. evidence is the strongest: driver, device or visible. is_own: '
    'the rank uses it, by the best that is known (gpu_evidence); else it may. has_queue_pairs: the rank uses that port; NULL where '
    'its ports are not known. is_shared: what is counted of the GPU (links, PCIe) may be others'' as well: the rank is on a partition, or '
    'a rank of another job, or another process, was on the GPU in the same time.';

CREATE OR REPLACE FUNCTION public.job_links(job bigint)
RETURNS TABLE (
    kind text, node_name text, link text, direction text, rate_bytes_per_second bigint, bytes double precision,
    p95_bytes_per_second double precision, max_bytes_per_second double precision,
    p95_utilisation double precision, max_utilisation double precision, readings bigint, is_shared boolean)
LANGUAGE plpgsql STABLE
SET search_path = '' SET jit = off
AS $$
DECLARE
    began timestamptz;
    ended timestamptz;
BEGIN
    SELECT s.start_time, coalesce(s.end_time, now()) INTO began, ended FROM public.job_summary s WHERE s.id = job_links.job;
    RETURN QUERY
    WITH hosts AS (
        -- Where it is known of all ranks of a node which GPUs and ports they use, others are none of the job's.
        SELECT k.id, k.name, bool_and(r.gpu_evidence IS NOT NULL) AS knows_gpus, bool_and(r.hca_ports IS NOT NULL) AS knows_ports
        FROM internal.job_rank r JOIN internal.node_key k ON k.id = r.node_id WHERE r.job_id = job_links.job GROUP BY k.id, k.name
    ), own_gpus AS MATERIALIZED (
        SELECT v.gpu_id, bool_or(v.is_shared) AS is_shared FROM internal.job_rank_gpus v
        WHERE v.job_id = job_links.job AND v.is_own GROUP BY v.gpu_id
    ), own_ports AS MATERIALIZED (
        SELECT DISTINCT p.node_id, p.id, p.guid, p.port FROM internal.job_rank r
        JOIN internal.host_port_key p ON p.node_id = r.node_id AND p.device || '/' || p.port = ANY (r.hca_ports) WHERE r.job_id = job_links.job
    ), rates AS (
        SELECT 'host' AS kind, false AS is_shared, h.name AS node_name, p.device || ' port ' || p.port AS link, p.guid, p.port,
               r.interval_seconds AS seconds,
               r.rate_bytes_per_second AS rate, r.transmit_bytes_per_second AS transmit,
               r.receive_bytes_per_second AS receive
        FROM hosts h
        JOIN internal.host_port_key p ON p.node_id = h.id
        CROSS JOIN LATERAL (
            -- What began before the job is not its own.
            SELECT * FROM public.host_port_rates(began, ended) a
            WHERE a.host_port_id = p.id AND a.time - make_interval(secs => a.interval_seconds) > began
        ) r
        WHERE NOT h.knows_ports OR EXISTS (SELECT FROM own_ports o WHERE o.id = p.id)
        UNION ALL
        SELECT 'nvlink', coalesce(o.is_shared, false), h.name, 'GPU ' || coalesce(r.gpu_index::text, g.uuid) || ' link ' || r.link, NULL, NULL, r.interval_seconds, r.speed_bytes_per_second,
               r.transmit_bytes_per_second, r.receive_bytes_per_second
        FROM hosts h
        -- Those that were there then.
        JOIN internal.gpu_key g ON g.node_id = h.id AND EXISTS (
            SELECT FROM internal.gpu v WHERE v.gpu_id = g.id AND v.parent_gpu_id IS NULL AND v.valid_from <= ended
                                         AND coalesce(v.valid_to, 'infinity') >= began)
        CROSS JOIN LATERAL (
            SELECT * FROM public.nvlink_rates(began, ended) a
            WHERE a.gpu_id = g.id AND a.time - make_interval(secs => a.interval_seconds) > began
        ) r
        LEFT JOIN own_gpus o ON o.gpu_id = g.id
        WHERE NOT h.knows_gpus OR o.gpu_id IS NOT NULL
        UNION ALL
        SELECT 'fabric', false, h.name, r.link_name, k.guid, p.port, r.interval_seconds, r.rate_bytes_per_second, r.transmit_bytes_per_second,
               r.receive_bytes_per_second
        FROM hosts h
        JOIN internal.node n ON n.node_id = h.id AND n.valid_to IS NULL
        JOIN internal.ib_node_key k ON k.guid = ANY (n.hca_guids)
        JOIN internal.ib_port_key p ON p.ib_node_id = k.id
        CROSS JOIN LATERAL (SELECT * FROM public.ib_port_rates(began, ended) a WHERE a.port_id = p.id) r
        WHERE NOT h.knows_ports OR EXISTS (SELECT FROM own_ports o WHERE o.node_id = h.id AND o.guid = k.guid AND o.port = p.port)
            OR NOT EXISTS (SELECT FROM internal.host_port_key o WHERE o.node_id = h.id AND o.guid = k.guid AND o.port = p.port)
    ), own_readings AS (
        SELECT DISTINCT a.node_name, a.guid, a.port FROM rates a WHERE a.kind = 'host'
    ), cables AS (
        -- A host's port is read by the host and by the fabric's crawler: one cable, which the host reads more often.
        SELECT a.* FROM rates a
        LEFT JOIN own_readings o ON a.kind = 'fabric' AND o.node_name = a.node_name AND o.guid = a.guid AND o.port = a.port
        WHERE o.guid IS NULL
    ), directions AS (
        SELECT a.kind, a.is_shared, a.node_name, a.link, 'out' AS direction, a.rate, a.seconds, a.transmit AS speed FROM cables a
        UNION ALL
        SELECT a.kind, a.is_shared, a.node_name, a.link, 'in', a.rate, a.seconds, a.receive FROM cables a
    ), weighed AS (
        -- A reading stands for the time since the one before.
        SELECT d.*, sum(d.seconds) OVER (PARTITION BY d.kind, d.node_name, d.link, d.direction ORDER BY d.speed) AS below,
               sum(d.seconds) OVER (PARTITION BY d.kind, d.node_name, d.link, d.direction) AS total
        FROM directions d WHERE d.speed IS NOT NULL
    )
    SELECT w.kind, w.node_name, w.link, w.direction, max(w.rate), sum(w.speed * w.seconds),
           min(w.speed) FILTER (WHERE w.below >= 0.95 * w.total), max(w.speed),
           min(w.speed) FILTER (WHERE w.below >= 0.95 * w.total) / nullif(max(w.rate), 0),
           max(w.speed) / nullif(max(w.rate), 0), count(*), bool_or(w.is_shared)
    FROM weighed w
    GROUP BY w.kind, w.node_name, w.link, w.direction;
END
$$;
COMMENT ON FUNCTION public.job_links IS
    'Host ports, NVLinks and fabric ports that a job''s ranks use, of all of a node where that is not known, between its start and its end, those of the fabric where the host itself did not read its port: bytes, and the 95th percentile and maximum of the rate and of the share of the link''s own speed. The links carry what else uses them, too. is_shared: of NVLinks, others use the GPU as well, or the job is on a partition of it.';

CREATE OR REPLACE VIEW internal.source_coverage AS
SELECT DISTINCT ON (source, instance) source, instance, time, expected, read, failed, elapsed_seconds, reasons
FROM internal.coverage
WHERE time > now() - INTERVAL '1 day'
ORDER BY source, instance, time DESC;
COMMENT ON VIEW internal.source_coverage IS 'The newest round of each source within the last day.';

CREATE OR REPLACE FUNCTION internal.coverage_rounds(since timestamptz, until timestamptz DEFAULT now())
RETURNS TABLE (
    "time" timestamptz, instance text, source text, expected bigint, read bigint, failed bigint,
    elapsed_seconds double precision, reasons jsonb)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT c.time - (c.time - coalesce(c.first_time, c.time)) * (n.back::double precision / greatest(c.rounds - 1, 1)),
           c.instance, c.source, c.expected, c.read, c.failed, c.elapsed_seconds, c.reasons
    FROM internal.coverage c
    CROSS JOIN LATERAL generate_series(0, c.rounds - 1) n (back)
    -- A row spans at most a minute (throughline_sample::rounds::SPAN_MAX), and where its chunk is thinned five more.
    WHERE c.time > since AND c.time <= until + INTERVAL '6 minutes'
      AND c.time - (c.time - coalesce(c.first_time, c.time)) * (n.back::double precision / greatest(c.rounds - 1, 1)) > since
      AND c.time - (c.time - coalesce(c.first_time, c.time)) * (n.back::double precision / greatest(c.rounds - 1, 1)) <= until;
END;
COMMENT ON FUNCTION internal.coverage_rounds IS
    'Each round of each source in a range of time, also where a row of coverage stands for several: these are as far apart as they '
    'were on average, and each took as long as the slowest.';

CREATE OR REPLACE VIEW public.self_stats AS
SELECT r.time, internal.instance_name(r.instance) AS instance, v.source, v.label, v.name, v.value,
       r.instance AS instance_key
FROM internal.self_stat_rows r
LEFT JOIN internal.self_stat_names n ON n.id = r.names_id
CROSS JOIN LATERAL unnest(
    coalesce(n.sources, r.sources), coalesce(n.labels, r.labels), coalesce(n.names, r.names), r.readings)
    v (source, label, name, value);
COMMENT ON VIEW public.self_stats IS
    'Self-metrics of Throughline; names, and what label means for each, are in the catalogue. For the newest value of one series use self_stat_newest. Instance is a node or a fabric by its name, instance_key what the rows have.';

CREATE OR REPLACE FUNCTION internal.self_stat_newest(
    of_name text, of_source text, of_instance text, since timestamptz, until timestamptz DEFAULT now(),
    of_label text DEFAULT '')
RETURNS TABLE ("time" timestamptz, value double precision)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    -- Most daemons do not have most series: that is one step, and not a look into each row.
    SELECT x.time, x.value
    FROM internal.self_stat_series s
    CROSS JOIN LATERAL (
        SELECT r.time, e.value
        FROM internal.self_stat_rows r
        LEFT JOIN internal.self_stat_names n ON n.id = r.names_id
        CROSS JOIN LATERAL unnest(
            coalesce(n.sources, r.sources), coalesce(n.labels, r.labels), coalesce(n.names, r.names), r.readings)
            e (source, label, name, value)
        WHERE r.instance = s.instance AND r.time > since AND r.time <= until
          AND e.source = s.source AND e.label = s.label AND e.name = s.name
        ORDER BY r.time DESC LIMIT 1) x
    WHERE s.name = of_name AND s.source = of_source AND s.label = of_label AND s.instance = of_instance;
END;
COMMENT ON FUNCTION internal.self_stat_newest IS
    'The newest value that a daemon reported of one of its self-metrics in a range of time; no row where it reported none.';

CREATE OR REPLACE VIEW internal.rejected_records AS
SELECT sender, reason, sum(records)::bigint AS records, string_agg(DISTINCT kind, ', ' ORDER BY kind) AS kinds,
       min(first_at) AS first_at, max(last_at) AS last_at
FROM internal.record_quarantine WHERE last_at > now() - interval '1 day' GROUP BY sender, reason;
COMMENT ON VIEW internal.rejected_records IS 'Records rejected since yesterday, by sender and reason.';

CREATE OR REPLACE FUNCTION internal.upkeep_time() RETURNS timestamptz
LANGUAGE sql STABLE
RETURN (
    -- Checks are some seconds apart: for so long the clock may go on by itself.
    SELECT least(now(), c.estimate + INTERVAL '10 seconds') FROM internal.clock_check c
);
COMMENT ON FUNCTION internal.upkeep_time IS
    'The time by which upkeep makes minutes, hours and shares: now(), but no later than the last check of this clock says. A clock that lies moves no watermark.';

CREATE OR REPLACE FUNCTION internal.expiry_time() RETURNS timestamptz
LANGUAGE sql STABLE
RETURN (
    SELECT least(now(), c.trusted_at) FROM internal.clock_check c WHERE now() <= c.permitted_until
);
COMMENT ON FUNCTION internal.expiry_time IS
    'The time by which rows are dropped, thinned and packed: no later than that of the last check that believed this clock. NULL without a permission that holds; nothing is older than NULL.';

-- Each row is the total of its series. Rows of one rank or node keep their order: some are of earlier epochs.
CREATE OR REPLACE FUNCTION internal.carry_query_of_rows() RETURNS text
LANGUAGE sql IMMUTABLE
RETURN $$
    WITH last AS (
        SELECT DISTINCT ON ({key}) m.* FROM {table} m
        WHERE m.time <= $1 AND m.job_id = ANY ($2)
        ORDER BY {key}, m.time DESC
    ), written AS (
        INSERT INTO {table} (time, {columns})
        SELECT $1 + row_number() OVER (PARTITION BY {sender} ORDER BY m.time) * INTERVAL '1 microsecond', {columns}
        FROM last m
        WHERE NOT EXISTS (SELECT FROM {table} n WHERE {same} AND n.time > $1)
        ON CONFLICT DO NOTHING
        RETURNING 1
    )
    SELECT count(*) FROM written
$$;
COMMENT ON FUNCTION internal.carry_query_of_rows IS
    'For carry_query: of a table whose rows are totals by themselves.';

-- Rows have all cells, or those that changed: of a series the last row that has all is needed, and of the others those with the last
-- value of a cell. They keep their order. Numbers of cells are used for as long as rows have them.
CREATE OR REPLACE FUNCTION internal.carry_query_of_cells() RETURNS text
LANGUAGE sql IMMUTABLE
RETURN $$
    WITH old AS MATERIALIZED (
        SELECT m.*, row_number() OVER () AS number,
               coalesce(max(m.time) FILTER (WHERE m.{whole}) OVER (PARTITION BY {key}), '-infinity') AS whole_time
        FROM {table} m WHERE m.time <= $1 AND m.job_id = ANY ($2)
    ), needed AS MATERIALIZED (
        SELECT * FROM old m
        WHERE m.time >= m.whole_time AND NOT EXISTS (SELECT FROM {table} n WHERE {same} AND n.{whole} AND n.time > $1)
    ), written AS (
        INSERT INTO {table} (time, {columns})
        SELECT $1 + row_number() OVER (PARTITION BY {sender} ORDER BY m.time) * INTERVAL '1 microsecond', {columns}
        FROM needed m
        WHERE m.time = m.whole_time OR m.number IN (
            SELECT c.number FROM (
                SELECT DISTINCT ON ({key}, p.cell_id) m.number
                FROM needed m CROSS JOIN LATERAL internal.mpi_packed_cells(m.cells) p
                ORDER BY {key}, p.cell_id, m.time DESC) c)
        ON CONFLICT DO NOTHING
        RETURNING cells
    ), used AS (
        UPDATE internal.mpi_cell_key SET used_at = $3 WHERE id IN (
            SELECT k.id FROM internal.mpi_cell_key k
            WHERE k.id IN (SELECT p.cell_id FROM written w CROSS JOIN LATERAL internal.mpi_packed_cells(w.cells) p)
                AND k.used_at < $3 - INTERVAL '12 hours'
            ORDER BY k.id FOR UPDATE OF k)
    )
    SELECT count(*) FROM written
$$;
COMMENT ON FUNCTION internal.carry_query_of_cells IS
    'For carry_query: of a table whose rows have packed cells, all of them or those that changed.';

-- Rows have all peers, or those that changed: one row with the last value of each. Nothing flowed in it: it is since its own time.
CREATE OR REPLACE FUNCTION internal.carry_query_of_peers() RETURNS text
LANGUAGE sql IMMUTABLE
RETURN $$
    WITH old AS MATERIALIZED (
        SELECT m.*, coalesce(max(m.time) FILTER (WHERE m.{whole}) OVER (PARTITION BY {key}), min(m.time) OVER (PARTITION BY {key})) AS first_time
        FROM {table} m WHERE m.time <= $1 AND m.job_id = ANY ($2)
    ), needed AS (
        SELECT * FROM old m
        WHERE m.time >= m.first_time AND NOT EXISTS (SELECT FROM {table} n WHERE {same} AND n.{whole} AND n.time > $1)
    ), peers AS (
        SELECT {key}, c.peer, max(c.bytes) AS bytes, max(c.messages) AS messages, max(m.source) AS source, bool_or(m.{whole}) AS is_whole
        FROM needed m CROSS JOIN LATERAL unnest(m.peers, m.bytes, m.messages) c (peer, bytes, messages)
        WHERE c.peer IS NOT NULL
        GROUP BY {key}, c.peer
    ), written AS (
        INSERT INTO {table} (time, {names}, {since}source, is_whole, peers, bytes, messages)
        SELECT $1 + INTERVAL '1 microsecond', {key}, {since_time}max(m.source), bool_or(m.is_whole), array_agg(m.peer ORDER BY m.peer),
               array_agg(m.bytes ORDER BY m.peer), array_agg(m.messages ORDER BY m.peer)
        FROM peers m
        GROUP BY {key}
        ON CONFLICT DO NOTHING
        RETURNING 1
    )
    SELECT count(*) FROM written
$$;
COMMENT ON FUNCTION internal.carry_query_of_peers IS
    'For carry_query: of a table whose rows have arrays of peers, all of them or those that changed.';

CREATE OR REPLACE FUNCTION internal.carry_query(policy internal.retention_policy) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = ''
AS $$
DECLARE
    columns text[] := (SELECT array_agg(a.attname::text ORDER BY a.attnum) FROM pg_catalog.pg_attribute a
        WHERE a.attrelid = format('internal.%I', policy.hypertable)::regclass AND a.attnum > 0 AND NOT a.attisdropped AND a.attname <> 'time');
    statement text := CASE policy.carried_by WHEN 'row' THEN internal.carry_query_of_rows()
        WHEN 'cells' THEN internal.carry_query_of_cells() WHEN 'peers' THEN internal.carry_query_of_peers() END;
    has_since boolean := 'since' = ANY (columns);
    part record;
BEGIN
    FOR part IN
        SELECT 'table' AS name, format('internal.%I', policy.hypertable) AS text
        UNION ALL SELECT 'whole', CASE WHEN 'is_folded' = ANY (columns) THEN 'is_folded' ELSE 'is_whole' END
        UNION ALL SELECT 'columns', (SELECT string_agg(quote_ident(c), ', ') FROM unnest(columns) c)
        UNION ALL SELECT 'names', (SELECT string_agg(quote_ident(c), ', ') FROM unnest(policy.carried_key) c)
        UNION ALL SELECT 'key', (SELECT string_agg('m.' || quote_ident(c), ', ') FROM unnest(policy.carried_key) c)
        UNION ALL SELECT 'same', (SELECT string_agg(format('n.%1$I = m.%1$I', c), ' AND ') FROM unnest(policy.carried_key) c)
        UNION ALL SELECT 'sender', CASE WHEN 'rank' = ANY (columns) THEN 'm.job_id, m.node_id, m.rank' ELSE 'm.job_id, m.node_id' END
        UNION ALL SELECT 'since', CASE WHEN has_since THEN 'since, ' ELSE '' END
        UNION ALL SELECT 'since_time', CASE WHEN has_since THEN '$1 + INTERVAL ''1 microsecond'', ' ELSE '' END
    LOOP
        statement := replace(statement, '{' || part.name || '}', part.text);
    END LOOP;
    RETURN statement;
END $$;
COMMENT ON FUNCTION internal.carry_query IS
    'The statement by which carry_totals writes last rows of a table once more: $1 is the beginning of the chunk that goes next, $2 the jobs, $3 the present. Rows at $1 itself are taken with those that go, so that the new ones come after them.';

-- A total is the last row of its series, whenever that was written: a job that runs for longer than rows are kept, or was quiet for so
-- long, would lose it with its chunk. What would be lost is written once more, at the beginning of the chunk that goes next: the total so
-- far is still true then, and readers have one place to look. At no later time, so that all rows that stay come after it.
CREATE OR REPLACE FUNCTION internal.carry_totals(of_table text) RETURNS bigint
LANGUAGE plpgsql VOLATILE
-- Whether a series has a newer row is one step of the index for each chunk; the other way is to read a week.
SET search_path = '' SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    policy internal.retention_policy;
    older timestamptz;
    beginning timestamptz;
    jobs bigint[];
    carried bigint;
BEGIN
    SELECT * INTO policy FROM internal.retention_policy p WHERE p.hypertable = of_table AND p.carried_by IS NOT NULL;
    older := internal.expiry_time() - policy.keep;
    SELECT greatest(c.range_end, date_bin(c.range_end - c.range_start, older, TIMESTAMPTZ 'epoch')) INTO beginning
    FROM timescaledb_information.chunks c
    WHERE c.hypertable_schema = 'internal' AND c.hypertable_name = of_table AND c.range_end <= older
    ORDER BY c.range_end DESC LIMIT 1;
    IF beginning IS NULL THEN
        RETURN 0;
    END IF;
    -- Readers look for rows of a job up to its end.
    SELECT array_agg(r.id) INTO jobs FROM internal.run r WHERE r.end_time IS NULL OR r.end_time > older;
    -- Beside columns of the same job, which may become rows.
    PERFORM pg_catalog.set_config(s.name, '0', true) FROM pg_catalog.pg_settings s
    WHERE s.name = 'timescaledb.max_tuples_decompressed_per_dml_transaction';
    EXECUTE internal.carry_query(policy) INTO carried USING beginning, jobs, internal.expiry_time();
    UPDATE internal.retention_policy p SET carried_to = beginning WHERE p.hypertable = of_table;
    RETURN carried;
END $$;
COMMENT ON FUNCTION internal.carry_totals IS
    'Writes the last rows of series of totals once more that would go with the next chunks, of jobs that run or ended later; how many. Before expire_table, in the same transaction. For the procedure expire.';

CREATE OR REPLACE FUNCTION internal.try_lock_chunks() RETURNS boolean
LANGUAGE sql VOLATILE
-- "tlbackup" in ASCII. A backup has this lock for itself for all its time; those who change chunks share it.
RETURN pg_try_advisory_xact_lock_shared(8389188376303727984);
COMMENT ON FUNCTION internal.try_lock_chunks IS
    'Whether chunks may be dropped or rewritten: no backup is in progress, and none begins until the end of this transaction.';

CREATE OR REPLACE FUNCTION internal.try_lock_chunk(chunk regclass) RETURNS boolean
LANGUAGE sql VOLATILE
-- "tlch" in ASCII.
RETURN internal.try_lock_chunks() AND pg_try_advisory_xact_lock(1953260392, chunk::oid::integer);
COMMENT ON FUNCTION internal.try_lock_chunk IS
    'As try_lock_chunks, and that nobody else rewrites this chunk: thinning and the making of columns would wait for each other.';

CREATE OR REPLACE FUNCTION internal.is_backup_running() RETURNS boolean
LANGUAGE sql STABLE
-- The key of try_lock_chunks, as pg_locks has it.
RETURN EXISTS (
    SELECT FROM pg_locks l JOIN pg_database d ON d.oid = l.database
    WHERE d.datname = current_database() AND l.locktype = 'advisory' AND l.classid = 1953260129 AND l.objid = 1667986800
      AND l.objsubid = 1 AND l.mode = 'ExclusiveLock' AND l.granted
);
COMMENT ON FUNCTION internal.is_backup_running IS
    'Whether throughline db backup reads this database now: nothing is dropped, thinned or packed meanwhile.';

CREATE OR REPLACE FUNCTION internal.expire_table(of_table text) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = ''
AS $$
DECLARE
    older timestamptz := (SELECT internal.expiry_time() - p.keep FROM internal.retention_policy p WHERE p.hypertable = of_table);
    dropped bigint;
BEGIN
    IF older IS NULL OR NOT internal.try_lock_chunks() THEN
        RETURN 0;
    END IF;
    IF of_table = 'link_shares' THEN
        -- After an outage windows of link shares are made that are old already: they wait for their minutes. Where no more are made,
        -- not for long.
        older := greatest(least(older, (SELECT s.minutes_until FROM internal.link_share_state s)), older - INTERVAL '1 day');
    ELSIF EXISTS (SELECT FROM internal.packed_state p WHERE p.readings = regexp_replace(of_table, '_blocks$', '_counters')) THEN
        -- Readings wait for their minutes, each with the reading before it, and for those that are made again, however old they are:
        -- after an outage, or on a machine that slept, upkeep makes up for days. Where round after round makes none, not for ever.
        older := least(older, (
            SELECT least(s.made_until, min(l.since)) - max(g.gap)
            FROM internal.minute_state s CROSS JOIN (VALUES ('ib_port'), ('host_port'), ('gpu')) k (kind)
            CROSS JOIN LATERAL internal.row_gap(k.kind, s.made_until, s.made_until) g
            LEFT JOIN internal.retention_policy p ON p.hypertable = of_table
            LEFT JOIN internal.minute_late l ON l.since > coalesce(p.dropped_until, '-infinity')
            WHERE s.rounds_in_vain < 10000 GROUP BY s.made_until));
    END IF;
    -- Nor those that are being thinned, and what is behind them: both would wait for each other. Who wants to thin one from now on finds
    -- it locked.
    SELECT least(older, min(c.range_start)) INTO older
    FROM timescaledb_information.chunks c
    WHERE c.hypertable_schema = 'internal' AND c.hypertable_name = of_table AND c.range_end <= older
      AND NOT internal.try_lock_chunk(to_regclass(format('%I.%I', c.chunk_schema, c.chunk_name)));
    SELECT count(*) INTO dropped
    FROM public.drop_chunks(format('internal.%I', of_table)::regclass, older_than => older) chunk;
    IF dropped > 0 THEN
        UPDATE internal.retention_policy p SET dropped_chunks = p.dropped_chunks + dropped, dropped_until = greatest(p.dropped_until, older)
        WHERE p.hypertable = of_table;
    END IF;
    RETURN dropped;
END $$;
COMMENT ON FUNCTION internal.expire_table IS
    'Drops the chunks of a table that are older than its policy, by expiry_time(); how many. For the procedure expire.';

CREATE OR REPLACE FUNCTION internal.expire_names() RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = ''
AS $$
DECLARE
    -- How long a name stays after the last row that may have it: a writer uses one for a day until it looks it up again, which is noted
    -- where the last note is half a day old; and a chunk goes as a whole.
    older timestamptz := internal.expiry_time() - INTERVAL '3 days';
    removed bigint;
    more bigint;
BEGIN
    DELETE FROM internal.mpi_cell_key k
    WHERE k.used_at < older - (SELECT max(p.keep) FROM internal.retention_policy p WHERE p.hypertable IN ('mpi_rank_rows', 'mpi_node_rows'));
    GET DIAGNOSTICS removed = ROW_COUNT;
    -- Rows get the numbers of their lists when their chunk is thinned, at most a day after it ended.
    DELETE FROM internal.self_stat_names n
    WHERE n.used_at < older - (SELECT p.keep FROM internal.retention_policy p WHERE p.hypertable = 'self_stat_rows');
    GET DIAGNOSTICS more = ROW_COUNT;
    RETURN removed + more;
END $$;
COMMENT ON FUNCTION internal.expire_names IS
    'Removes numbers of cells and lists of self-metrics that no row has any more, by expiry_time(); how many. For the procedure expire.';

CREATE OR REPLACE FUNCTION internal.next_columns(of_table text) RETURNS SETOF regclass
LANGUAGE plpgsql STABLE
SET search_path = ''
AS $$
DECLARE
    older timestamptz := (SELECT internal.expiry_time() - p.columns_after FROM internal.retention_policy p WHERE p.hypertable = of_table);
BEGIN
    IF older IS NULL THEN
        RETURN;
    END IF;
    RETURN QUERY
    SELECT format('%I.%I', c.chunk_schema, c.chunk_name)::regclass
    FROM timescaledb_information.chunks c
    JOIN timescaledb_information.hypertables h ON h.hypertable_schema = c.hypertable_schema AND h.hypertable_name = c.hypertable_name
    JOIN _timescaledb_catalog.chunk k ON k.schema_name = c.chunk_schema AND k.table_name = c.chunk_name
    WHERE c.hypertable_schema = 'internal' AND c.hypertable_name = of_table AND c.range_end <= older AND h.compression_enabled
      -- Rows, or columns with late rows beside them (TimescaleDB's status: 1 columns, 4 frozen).
      AND k.status <> 1 AND k.status & 4 = 0
    ORDER BY c.range_start;
END $$;
COMMENT ON FUNCTION internal.next_columns IS
    'Chunks of a table that are to become columns, the oldest first, by expiry_time(); none on the Apache edition. For the procedure expire.';

CREATE OR REPLACE PROCEDURE internal.expire(job_id integer DEFAULT NULL, config jsonb DEFAULT NULL)
LANGUAGE plpgsql
AS $$
DECLARE
    of_table text;
    chunk regclass;
BEGIN
    IF internal.is_backup_running() THEN
        RAISE WARNING 'a backup is in progress: nothing is dropped in this round';
        RETURN;
    END IF;
    -- A procedure with settings of its own can't commit: this one names the schema of all that it calls, and the functions have theirs.
    FOR of_table IN SELECT p.hypertable FROM internal.retention_policy p LOOP
        BEGIN
            PERFORM internal.carry_totals(of_table);
            PERFORM internal.expire_table(of_table);
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            RAISE WARNING 'chunks of % are in use: they are dropped in the next round', of_table;
        END;
        -- Each table by itself: nobody waits for all of them, and none is dropped by a permission that has ended meanwhile.
        COMMIT;
        FOR chunk IN SELECT c FROM internal.next_columns(of_table) c LOOP
            BEGIN
                -- Again: the permission may have ended since the last commit.
                IF internal.expiry_time() IS NOT NULL AND internal.try_lock_chunk(chunk) THEN
                    PERFORM public.compress_chunk(chunk);
                END IF;
            EXCEPTION WHEN lock_not_available OR deadlock_detected OR undefined_table THEN
                RAISE WARNING 'chunk % is in use: it becomes columns in the next round', chunk;
            END;
            COMMIT;
        END LOOP;
    END LOOP;
    PERFORM internal.expire_names();
    COMMIT;
END $$;
COMMENT ON PROCEDURE internal.expire IS
    'Retention: drops chunks that are older than retention_policy says, and makes columns of old ones on the full edition; commits after each table. Upkeep calls it on the Apache edition, one job of the database on the full one. Without a permission (clock_check), or while a backup is in progress, it does nothing.';

CREATE OR REPLACE FUNCTION internal.minutes_noticed() RETURNS timestamptz
LANGUAGE plpgsql VOLATILE
SET search_path = ''
AS $$
BEGIN
    -- "tlminute" as ASCII. Upkeep takes it whole to move noticed_until: who wrote before is committed by then, and who
    -- comes later reads the new time. The next statement sees what was committed while this one waited.
    PERFORM pg_advisory_xact_lock_shared(x'746c6d696e757465'::bigint);
    RETURN (SELECT s.noticed_until FROM internal.minute_state s);
END $$;
COMMENT ON FUNCTION internal.minutes_noticed IS
    'minute_state.noticed_until, which stays so until the transaction ends. For writers of readings.';

CREATE OR REPLACE FUNCTION internal.link_shares_noticed() RETURNS timestamptz
LANGUAGE plpgsql VOLATILE
SET search_path = ''
AS $$
BEGIN
    -- The lock of minutes_noticed(), for the same reason.
    PERFORM pg_advisory_xact_lock_shared(x'746c6d696e757465'::bigint);
    RETURN (SELECT s.noticed_until FROM internal.link_share_state s);
END $$;
COMMENT ON FUNCTION internal.link_shares_noticed IS
    'link_share_state.noticed_until, which stays so until the transaction ends. For writers of counters of ports and of traffic of jobs.';

CREATE OR REPLACE FUNCTION internal.export_noticed() RETURNS timestamptz
LANGUAGE plpgsql VOLATILE
SET search_path = ''
AS $$
BEGIN
    -- The lock of minutes_noticed(), for the same reason.
    PERFORM pg_advisory_xact_lock_shared(x'746c6d696e757465'::bigint);
    RETURN (SELECT max(t.noticed_until) FROM internal.export_target t);
END $$;
COMMENT ON FUNCTION internal.export_noticed IS
    'The latest export_target.noticed_until, NULL where nothing is exported; it stays so until the transaction ends. For writers of samples.';

CREATE OR REPLACE VIEW public.event_named AS
SELECT e.time, e.severity, e.kind, e.text, internal.instance_name(e.instance) AS instance, e.source, e.ib_guid, e.ib_port, n.description AS ib_description,
       e.gpu_uuid, e.job_key, coalesce(j.native_id, j.key) AS job, j.user_name, e.before, e.after
FROM internal.events e
LEFT JOIN LATERAL (
    SELECT coalesce(nullif(n.description, ''), k.guid) AS description
    FROM internal.ib_node_key k
    LEFT JOIN internal.ib_node n ON n.ib_node_id = k.id AND n.valid_to IS NULL
    WHERE k.guid = e.ib_guid
    LIMIT 1) n ON true
LEFT JOIN internal.run_visible j ON j.key = e.job_key;
COMMENT ON VIEW public.event_named IS
    'Events with the names of their subjects: the node of the fabric as it is called now, the job and its user. Condition time, so that only those days are read.';

-- GPUs that are lost are still in their domain.
CREATE OR REPLACE VIEW public.nvlink_domain AS
SELECT g.fabric_cluster_uuid || '.' || g.fabric_clique_id AS domain, g.fabric_cluster_uuid AS cluster_uuid, g.fabric_clique_id AS clique_id,
       count(DISTINCT g.node_id) AS node_count, count(*) AS gpu_count,
       array_agg(DISTINCT n.name ORDER BY n.name) AS nodes, array_agg(g.uuid ORDER BY n.name, g.index, g.uuid) AS gpus
FROM internal.gpu g JOIN internal.node_key n ON n.id = g.node_id
WHERE g.valid_to IS NULL AND g.parent_gpu_id IS NULL AND g.fabric_cluster_uuid IS NOT NULL
GROUP BY g.fabric_cluster_uuid, g.fabric_clique_id;
COMMENT ON VIEW public.nvlink_domain IS
    'NVLink domains over several nodes (GB200 NVL72), by the registration of their GPUs with NVIDIA''s fabric manager. GPUs of one can reach one another over NVLink, and what goes that way is in no InfiniBand port''s counters. The name is UUID of the cluster, a dot and the clique.';

-- A row for each pair of ends, as INAM has it: an end is a GPU, or a switch or CPU by its place on the bus.
CREATE OR REPLACE VIEW public.intra_node_topo AS
SELECT row_number() OVER (ORDER BY p.node_name, p.source_id, p.gpu_id, p.destination_id NULLS LAST, p.remote_type, p.remote_pci_bus_id, p.is_c2c) AS id,
       p.node_name, p.physical_link_count, p.link_capacity, p.source, p.source_id,
       coalesce(p.peer, p.remote_type || coalesce(' ' || p.place, '')) AS destination,
       coalesce(p.destination_id, p.place) AS destination_id, nullif(p.remote_pci_bus_id, '') AS destination_pci_bus_id
FROM (
    SELECT e.*,
           -- Switches and CPUs of a node are numbered by their places on the bus.
           CASE WHEN e.peer IS NULL AND e.remote_pci_bus_id <> ''
                THEN (dense_rank() OVER (PARTITION BY e.node_id, e.peer IS NULL, e.remote_type ORDER BY e.remote_pci_bus_id) - 1
                      - max((e.remote_pci_bus_id = '')::integer) OVER (PARTITION BY e.node_id, e.peer IS NULL, e.remote_type))::integer
           END AS place
    FROM (
        SELECT g.node_id, n.name AS node_name, g.gpu_id, g.name || ' ' || g.index AS source, g.index AS source_id,
               r.name || ' ' || r.index AS peer, r.index AS destination_id, l.remote_type, l.remote_pci_bus_id, l.link >= 40 AS is_c2c,
               count(*) AS physical_link_count, sum(l.speed_bytes_per_second)::bigint AS link_capacity
        FROM internal.gpu_link l
        JOIN internal.gpu g ON g.gpu_id = l.gpu_id AND g.valid_to IS NULL AND NOT g.is_lost
        LEFT JOIN internal.node_key n ON n.id = g.node_id
        LEFT JOIN internal.gpu r ON r.gpu_id = l.remote_gpu_id AND r.valid_to IS NULL
        WHERE l.valid_to IS NULL AND l.active
        GROUP BY g.node_id, n.name, g.gpu_id, g.name, g.index, r.gpu_id, r.name, r.index, l.remote_type, l.remote_pci_bus_id, l.link >= 40
    ) e
) p;
COMMENT ON VIEW public.intra_node_topo IS
    'INAM, figure 4: a row for each GPU and what its active links lead to: another GPU, or a switch or CPU, which are numbered by their places on the bus; how many links, and their capacity in bytes per second, one direction. Links to a CPU over C2C and over NVLink are two rows.';

-- INAM's table. Of all history it would be a billion rows.
CREATE OR REPLACE VIEW public.nvlink_metrics AS
SELECT internal.nvlink_metrics_id(c.time, k.id, (u.position - 1)::integer) AS id, (u.position - 1)::integer AS link_id, n.name AS node_name,
       g.name || ' ' || g.index AS source_name, (u.position - 1)::integer AS source_port, g.index AS source_id,
       coalesce(r.name || ' ' || r.index, l.remote_type) AS dest_name, l.remote_link AS dest_port, r.index AS dest_id, c.time AS added_on,
       u.sent AS data_sent, u.received AS data_recv,
       public.counter_rate(u.sent_before, u.sent, c.seconds) AS data_sent_rate,
       public.counter_rate(u.received_before, u.received, c.seconds) AS data_recv_rate
FROM internal.row_gap('gpu', now() - INTERVAL '1 hour', now()) b
CROSS JOIN internal.node_key n
JOIN internal.gpu_key k ON k.node_id = n.id
CROSS JOIN LATERAL (
    -- The reader that counts its bytes now.
    SELECT s.source
    FROM (SELECT a.source FROM internal.nvlink_counters a
          WHERE a.gpu_id = k.id AND a.time > now() - INTERVAL '1 hour' AND (a.transmit_bytes IS NOT NULL OR a.receive_bytes IS NOT NULL)
          ORDER BY a.time DESC LIMIT 20) s
    ORDER BY internal.gpu_source_rank(s.source) LIMIT 1
) s
CROSS JOIN LATERAL (
    -- All links of a GPU at once, in the order of its index.
    SELECT a.time, a.transmit_bytes, a.receive_bytes,
           lag(a.transmit_bytes) OVER w AS transmit_before, lag(a.receive_bytes) OVER w AS receive_before,
           -- Within an epoch, and where it was read between.
           CASE WHEN a.epoch = lag(a.epoch) OVER w AND a.time - lag(a.time) OVER w <= b.gap
                THEN extract(epoch FROM a.time - lag(a.time) OVER w)::double precision END AS seconds
    FROM internal.nvlink_counters a
    WHERE a.gpu_id = k.id AND a.source = s.source AND a.time > now() - INTERVAL '1 hour'
    WINDOW w AS (ORDER BY a.time)
) c
CROSS JOIN LATERAL unnest(c.transmit_bytes, c.receive_bytes, c.transmit_before, c.receive_before)
    WITH ORDINALITY AS u (sent, received, sent_before, received_before, position)
LEFT JOIN internal.gpu g ON g.gpu_id = k.id AND (g.valid_to IS NULL OR g.valid_to > c.time)
        AND (g.valid_from <= c.time OR NOT EXISTS (
            SELECT FROM internal.gpu e WHERE e.gpu_id = g.gpu_id AND e.valid_from < g.valid_from))
LEFT JOIN internal.gpu_link l
    ON l.gpu_id = k.id AND l.link = u.position - 1 AND (l.valid_to IS NULL OR l.valid_to > c.time)
        AND (l.valid_from <= c.time OR NOT EXISTS (
            SELECT FROM internal.gpu_link e WHERE e.gpu_id = l.gpu_id AND e.link = l.link AND e.valid_from < l.valid_from))
LEFT JOIN internal.gpu r ON r.gpu_id = l.remote_gpu_id AND (r.valid_to IS NULL OR r.valid_to > c.time)
        AND (r.valid_from <= c.time OR NOT EXISTS (
            SELECT FROM internal.gpu e WHERE e.gpu_id = r.gpu_id AND e.valid_from < r.valid_from))
WHERE u.sent IS NOT NULL OR u.received IS NOT NULL;
COMMENT ON VIEW public.nvlink_metrics IS
    'INAM, figure 4: data sent and received on each physical NVLink in the last hour, in bytes and bytes per second, with the names of that time. Of any other time: nvlink_metrics_between(since, until, node).';

CREATE OR REPLACE VIEW public.pvar_table AS
WITH local AS (
    SELECT job_id, rank, node_id,
           row_number() OVER (PARTITION BY job_id, node_id ORDER BY rank) - 1 AS local_rank
    FROM (SELECT DISTINCT ON (job_id, rank) job_id, rank, node_id
          FROM internal.job_rank ORDER BY job_id, rank, start_time DESC) newest
), seconds AS (
    -- Ranks report at whole seconds, some microseconds apart: one row for both ends of a pair.
    SELECT job_id, rank, peer, kind, epoch, date_bin('1 second', time + INTERVAL '500 milliseconds', 'epoch') AS second,
           max(time) AS time, max(bytes) AS bytes
    FROM internal.mpi_peer_rows
    GROUP BY job_id, rank, peer, kind, epoch, second
), reported AS (
    SELECT s.job_id, s.rank, s.peer, s.kind, s.second AS time, s.bytes,
           public.counter_rate(lag(s.bytes) OVER w, s.bytes,
                        extract(epoch FROM s.time - lag(s.time) OVER w)::double precision) AS rate
    FROM seconds s
    WINDOW w AS (PARTITION BY s.job_id, s.rank, s.peer, s.kind, s.epoch ORDER BY s.time)
), both_ways AS (
    -- A row for each second in which one of the two reported: what the other one sends is what this one receives. What a rank read, it
    -- received.
    SELECT job_id, rank, peer, kind, time, max(sent) AS sent, max(sent_rate) AS sent_rate, max(received) AS received,
           max(received_rate) AS received_rate
    FROM (SELECT job_id, rank, peer, kind, time, bytes AS sent, rate AS sent_rate,
                 NULL::bigint AS received, NULL::double precision AS received_rate
          FROM reported WHERE kind <> 'read'
          UNION ALL
          SELECT job_id, peer, rank, kind, time, NULL, NULL, bytes, rate FROM reported WHERE kind <> 'read'
          UNION ALL
          SELECT job_id, rank, peer, kind, time, NULL, NULL, bytes, rate FROM reported WHERE kind = 'read'
          UNION ALL
          SELECT job_id, peer, rank, kind, time, bytes, rate, NULL, NULL FROM reported WHERE kind = 'read') ways
    GROUP BY job_id, rank, peer, kind, time
), numbered AS (
    SELECT b.*, count(sent) OVER w AS sent_number, count(received) OVER w AS received_number
    FROM both_ways b
    WINDOW w AS (PARTITION BY job_id, rank, peer, kind ORDER BY time)
), pair AS (
    -- Only pairs that changed are reported: until its next row, a sum stands.
    SELECT job_id, rank, peer, kind, time, sent_rate, received_rate,
           max(sent) OVER (PARTITION BY job_id, rank, peer, kind, sent_number) AS sent,
           max(received) OVER (PARTITION BY job_id, rank, peer, kind, received_number) AS received
    FROM numbered
), collective AS (
    -- The report of peers that follows the bin of each collective whose algorithm is known.
    SELECT job_id, rank, operation, algorithm, algorithm_source, is_cell,
           min(second) FILTER (WHERE NOT is_cell)
               OVER (PARTITION BY job_id, rank ORDER BY time DESC, is_cell) AS time
    FROM (SELECT job_id, rank, time, NULL::timestamptz AS second, operation, algorithm, algorithm_source, true AS is_cell
          FROM internal.mpi_op_rows WHERE algorithm <> ''
          UNION ALL
          SELECT job_id, rank, max(time), second, '', '', '', false
          FROM seconds GROUP BY job_id, rank, second) points
), chosen AS (
    SELECT job_id, rank, time, string_agg(DISTINCT operation || ' ' || algorithm, ', ') AS algorithm,
           string_agg(DISTINCT algorithm_source, ', ') AS algorithm_source
    FROM collective WHERE is_cell AND time IS NOT NULL
    GROUP BY job_id, rank, time
)
SELECT row_number() OVER (ORDER BY s.time, s.job_id, s.rank, s.peer, s.kind) AS id, j.key AS job_key,
       n.name AS node_name,
       s.rank AS source_global_rank, d.local_rank AS dest_local_rank, s.peer AS dest_global_rank,
       'bytes'::text AS data_unit, s.received AS data_recv, s.sent AS data_sent,
       s.received_rate AS data_recv_rate, s.sent_rate AS data_sent_rate,
       coalesce(own.algorithm, other.algorithm) AS algorithm, o.local_rank AS source_rank,
       d.local_rank AS dest_rank, s.time AS added_on, s.kind,
       CASE WHEN own.algorithm IS NULL THEN other.algorithm_source ELSE own.algorithm_source END AS algorithm_source
FROM pair s
JOIN internal.run_visible j ON j.id = s.job_id
LEFT JOIN local o ON o.job_id = s.job_id AND o.rank = s.rank
LEFT JOIN local d ON d.job_id = s.job_id AND d.rank = s.peer
LEFT JOIN internal.node_key n ON n.id = o.node_id
LEFT JOIN chosen own ON own.job_id = s.job_id AND own.rank = s.rank AND own.time = s.time
LEFT JOIN chosen other ON other.job_id = s.job_id AND other.rank = s.peer AND other.time = s.time;
COMMENT ON VIEW public.pvar_table IS
    'INAM, figure 4: traffic between ranks, a row for each second in which one of the two reported. data_recv is what the '
    'other rank sent so far; rates stand where that direction was reported at that time. algorithm: of each collective '
    'that the rank (else the other one) called since its report before, where it is known, and how; NULL: not known. '
    'Rows of kind read are what one-sided operations of the receiver read.';
