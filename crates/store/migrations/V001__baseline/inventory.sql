-- All tables, as a new database has them. Columns of metrics are not here: the catalogue has them, and each start adds those that a
-- table lacks (columns.rs). Functions and views are files beside this folder. This file may change until 0.1.0 is tagged, and never
-- from then on: later changes are new files.

-- What exists: natural keys and their numbers, and the state of each thing with its validity.
CREATE TABLE internal.fabric (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    name text NOT NULL,
    guids text[] NOT NULL DEFAULT '{}',
    observed_at timestamptz NOT NULL DEFAULT now(),
    first_seen timestamptz NOT NULL DEFAULT now(),
    part_of bigint,
    PRIMARY KEY (id),
    UNIQUE (name),
    FOREIGN KEY (part_of) REFERENCES internal.fabric(id)
);
COMMENT ON TABLE internal.fabric IS
    'InfiniBand fabrics. A fabric is known by its switches; prefix and subnet manager are in fabric_attribute, since two fabrics may have the same ones.';
COMMENT ON COLUMN internal.fabric.name IS
    'Its name: the one that the configuration of its first crawler has, or fabric- and the end of its lowest switch GUID then. Only a person changes it.';
COMMENT ON COLUMN internal.fabric.guids IS
    'Its last topology: node GUIDs of switches, of more than 256 those of lowest hash; without switches port GUIDs of its hosts.';
COMMENT ON COLUMN internal.fabric.observed_at IS 'When that topology came last, within a minute.';
COMMENT ON COLUMN internal.fabric.part_of IS 'The fabric that it became a part of; NULL where it is one of its own.';

CREATE TABLE internal.fabric_attribute (
    fabric_id bigint NOT NULL,
    prefix text NOT NULL,
    subnet_manager text,
    valid_from timestamptz NOT NULL DEFAULT now(),
    valid_to timestamptz,
    PRIMARY KEY (fabric_id, valid_from),
    FOREIGN KEY (fabric_id) REFERENCES internal.fabric(id)
);
CREATE UNIQUE INDEX fabric_attribute_current ON internal.fabric_attribute (fabric_id) WHERE (valid_to IS NULL);
COMMENT ON TABLE internal.fabric_attribute IS
    'Subnet prefix and subnet manager of a fabric over time.';
COMMENT ON COLUMN internal.fabric_attribute.subnet_manager IS 'GUID of the port of the master subnet manager; NULL where it is not known.';

CREATE TABLE internal.node_key (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    name text NOT NULL,
    PRIMARY KEY (id),
    UNIQUE (name)
);

CREATE TABLE internal.gpu_key (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    node_id bigint NOT NULL,
    uuid text NOT NULL,
    PRIMARY KEY (id),
    UNIQUE (uuid, node_id),
    FOREIGN KEY (node_id) REFERENCES internal.node_key(id)
);
COMMENT ON TABLE internal.gpu_key IS
    'GPUs as nodes report them: one that was moved to another node has a key of each.';

CREATE TABLE internal.gpu_metric_key (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    gpu_id bigint NOT NULL,
    name text NOT NULL,
    PRIMARY KEY (id),
    UNIQUE (gpu_id, name),
    FOREIGN KEY (gpu_id) REFERENCES internal.gpu_key(id)
);
COMMENT ON TABLE internal.gpu_metric_key IS
    'Metrics of GPUs that sites chose ([cupti] metrics of agent.toml), as the vendor''s library names them.';

CREATE TABLE internal.host_port_key (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    node_id bigint NOT NULL,
    device text NOT NULL,
    port integer NOT NULL,
    guid text,
    port_guid text,
    PRIMARY KEY (id),
    UNIQUE (node_id, device, port),
    FOREIGN KEY (node_id) REFERENCES internal.node_key(id)
);
CREATE INDEX host_port_key_port_guid ON internal.host_port_key (port_guid);
COMMENT ON TABLE internal.host_port_key IS
    'Ports of hosts'' own adapters, as sysfs names them.';
COMMENT ON COLUMN internal.host_port_key.guid IS 'Node GUID of the adapter, which may have ports in two fabrics.';
COMMENT ON COLUMN internal.host_port_key.port_guid IS 'GUID of the port, the same as in ib_port: by it the port is found in its fabric.';

CREATE TABLE internal.ib_node_key (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    fabric_id bigint NOT NULL,
    guid text NOT NULL,
    PRIMARY KEY (id),
    UNIQUE (fabric_id, guid),
    FOREIGN KEY (fabric_id) REFERENCES internal.fabric(id)
);

CREATE TABLE internal.ib_port_key (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    ib_node_id bigint NOT NULL,
    port integer NOT NULL,
    PRIMARY KEY (id),
    UNIQUE (ib_node_id, port),
    FOREIGN KEY (ib_node_id) REFERENCES internal.ib_node_key(id)
);

CREATE TABLE internal.mpi_cell_key (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    library text NOT NULL DEFAULT 'mpi',
    operation text NOT NULL,
    size_class_bytes bigint NOT NULL,
    region text NOT NULL,
    algorithm text NOT NULL,
    algorithm_source text NOT NULL,
    used_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (id),
    UNIQUE (library, operation, size_class_bytes, region, algorithm, algorithm_source)
);
COMMENT ON TABLE internal.mpi_cell_key IS
    'The small numbers of cells in mpi_rank_rows and mpi_node_rows: library, operation, size class, region, algorithm and how it is known.';
COMMENT ON COLUMN internal.mpi_cell_key.library IS 'The library of the operation: mpi.';
COMMENT ON COLUMN internal.mpi_cell_key.used_at IS
    'When a row had it last, to within two days. A number is removed once all rows that have it have expired.';

CREATE TABLE internal.node (
    node_id bigint NOT NULL,
    name text NOT NULL,
    boot_id text,
    boot_time timestamptz,
    hca_guids text[] NOT NULL DEFAULT '{}',
    valid_from timestamptz NOT NULL,
    valid_to timestamptz,
    PRIMARY KEY (node_id, valid_from),
    FOREIGN KEY (node_id) REFERENCES internal.node_key(id)
);
CREATE UNIQUE INDEX node_current ON internal.node (node_id) WHERE (valid_to IS NULL);
COMMENT ON TABLE internal.node IS
    'Hosts, one row per boot.';
COMMENT ON COLUMN internal.node.hca_guids IS 'Node GUIDs of the host''s own InfiniBand adapters: the way from a job to its links.';

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
    parent_gpu_id bigint,
    numa_node integer,
    nearest_hcas text[],
    is_lost boolean NOT NULL DEFAULT false,
    fabric_cluster_uuid text,
    fabric_clique_id bigint,
    fabric_state text,
    pcie_bytes_per_second bigint,
    PRIMARY KEY (gpu_id, valid_from),
    FOREIGN KEY (gpu_id) REFERENCES internal.gpu_key(id),
    FOREIGN KEY (node_id) REFERENCES internal.node_key(id),
    FOREIGN KEY (parent_gpu_id) REFERENCES internal.gpu_key(id)
);
CREATE UNIQUE INDEX gpu_current ON internal.gpu (gpu_id) WHERE (valid_to IS NULL);
CREATE INDEX gpu_of_node ON internal.gpu (node_id);
CREATE INDEX gpu_of_domain ON internal.gpu (fabric_cluster_uuid, fabric_clique_id) WHERE (fabric_cluster_uuid IS NOT NULL);
COMMENT ON TABLE internal.gpu IS
    'GPUs of hosts and their partitions. A survey that is complete ends what it lacks; a GPU that does not answer is lost, a row of its own until it answers or is gone.';
COMMENT ON COLUMN internal.gpu.is_lost IS 'Whether it is there and does not answer.';
COMMENT ON COLUMN internal.gpu.parent_gpu_id IS 'The GPU that this is a partition of (MIG); NULL for a GPU.';
COMMENT ON COLUMN internal.gpu.numa_node IS 'Its NUMA node by sysfs; NULL where that does not have it.';
COMMENT ON COLUMN internal.gpu.fabric_cluster_uuid IS
    'NVLink domain over several nodes, with fabric_clique_id: GPUs that have both in common reach one another over NVLink. NULL where it is in none, or not known.';
COMMENT ON COLUMN internal.gpu.fabric_state IS
    'How far its registration in a fabric of NVLinks is: not_started, in_progress, completed, failed, unknown; NULL where it takes part in none, or not known.';
COMMENT ON COLUMN internal.gpu.pcie_bytes_per_second IS
    'The most that its PCIe slot carries in one direction, by generation and lanes; NULL where that is not known.';
COMMENT ON COLUMN internal.gpu.nearest_hcas IS
    'InfiniBand adapters with the shortest way to it over PCIe; NULL where the node has none or that is not known.';

CREATE TABLE internal.gpu_link (
    gpu_id bigint NOT NULL,
    link integer NOT NULL,
    active boolean NOT NULL,
    version integer,
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
COMMENT ON TABLE internal.gpu_link IS
    'NVLinks and what is at their other end, where that is a GPU of the same node its key.';
COMMENT ON COLUMN internal.gpu_link.speed_bytes_per_second IS 'Speed of one direction.';

CREATE TABLE internal.device_claim (
    kind text NOT NULL,
    name text NOT NULL,
    node_id bigint NOT NULL,
    holds_until timestamptz NOT NULL,
    PRIMARY KEY (kind, name, node_id),
    FOREIGN KEY (node_id) REFERENCES internal.node_key(id)
);
CREATE INDEX device_claim_of_node ON internal.device_claim (node_id);
COMMENT ON TABLE internal.device_claim IS
    'The devices that nodes report as their own: GPUs (gpu, by UUID), InfiniBand adapters (hca, by node GUID) and their ports (port, DEVICE/PORT). Two nodes that report the same GPU or adapter contest it.';
COMMENT ON COLUMN internal.device_claim.holds_until IS 'Half an hour after the node reported it last, noted every ten minutes; from then on another node may have it.';

CREATE TABLE internal.ib_node (
    ib_node_id bigint NOT NULL,
    guid text NOT NULL,
    type text NOT NULL,
    description text NOT NULL,
    lid integer NOT NULL,
    device_id integer NOT NULL,
    vendor_id integer NOT NULL,
    system_guid text NOT NULL,
    generation bigint NOT NULL,
    valid_from timestamptz NOT NULL,
    valid_to timestamptz,
    routing text,
    PRIMARY KEY (ib_node_id, valid_from),
    FOREIGN KEY (ib_node_id) REFERENCES internal.ib_node_key(id),
    CHECK (routing IN ('static', 'adaptive'))
);
CREATE UNIQUE INDEX ib_node_current ON internal.ib_node (ib_node_id) WHERE (valid_to IS NULL);
COMMENT ON TABLE internal.ib_node IS
    'Switches, channel adapters and routers of a fabric, as discovered.';
COMMENT ON COLUMN internal.ib_node.generation IS 'The last discovery that found it; a finished discovery ends rows that it did not find.';
COMMENT ON COLUMN internal.ib_node.routing IS
    'How a switch chooses output ports, as it reported last: static, by its forwarding table alone; adaptive, among several ports by load. NULL where it never reported.';

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
    rate_bytes_per_second bigint NOT NULL,
    remote_port_id bigint,
    valid_from timestamptz NOT NULL,
    valid_to timestamptz,
    lmc integer,
    PRIMARY KEY (port_id, valid_from),
    FOREIGN KEY (ib_node_id) REFERENCES internal.ib_node_key(id),
    FOREIGN KEY (port_id) REFERENCES internal.ib_port_key(id),
    FOREIGN KEY (remote_port_id) REFERENCES internal.ib_port_key(id),
    CHECK ((lmc >= 0) AND (lmc <= 7))
);
CREATE UNIQUE INDEX ib_port_current ON internal.ib_port (port_id) WHERE (valid_to IS NULL);
CREATE INDEX ib_port_by_guid ON internal.ib_port (port_guid, valid_from);
CREATE INDEX ib_port_of_node ON internal.ib_port (ib_node_id) WHERE (valid_to IS NULL);
COMMENT ON COLUMN internal.ib_port.rate_bytes_per_second IS 'Data rate of the link in one direction; 0 while it is down.';
COMMENT ON COLUMN internal.ib_port.remote_port_id IS 'The port at the other end of the cable, NULL without one.';
COMMENT ON COLUMN internal.ib_port.lmc IS
    'LID mask control of the port of an adapter or router: it has 2^lmc LIDs from lid on, and a route to each. NULL on ports of switches and where it is not reported.';

CREATE TABLE internal.ib_link (
    port_a_id bigint NOT NULL,
    port_b_id bigint NOT NULL,
    valid_from timestamptz NOT NULL,
    valid_to timestamptz,
    PRIMARY KEY (port_a_id, port_b_id, valid_from),
    FOREIGN KEY (port_a_id) REFERENCES internal.ib_port_key(id),
    FOREIGN KEY (port_b_id) REFERENCES internal.ib_port_key(id),
    CHECK (port_a_id < port_b_id)
);
CREATE INDEX ib_link_b ON internal.ib_link (port_b_id) WHERE (valid_to IS NULL);
CREATE UNIQUE INDEX ib_link_current ON internal.ib_link (port_a_id, port_b_id) WHERE (valid_to IS NULL);
COMMENT ON TABLE internal.ib_link IS
    'Cables: each once, the end with the smaller port_id first.';

CREATE TABLE internal.ib_lft (
    ib_node_id bigint NOT NULL,
    linear_forwarding_table bytea NOT NULL,
    valid_from timestamptz NOT NULL,
    valid_to timestamptz,
    PRIMARY KEY (ib_node_id, valid_from),
    FOREIGN KEY (ib_node_id) REFERENCES internal.ib_node_key(id)
);
CREATE UNIQUE INDEX ib_lft_current ON internal.ib_lft (ib_node_id) WHERE (valid_to IS NULL);
COMMENT ON COLUMN internal.ib_lft.linear_forwarding_table IS 'Byte i (from 0) is the output port for LID i; 255 where there is none.';

CREATE TABLE internal.ib_mft (
    ib_node_id bigint NOT NULL,
    multicast_forwarding_table jsonb NOT NULL,
    valid_from timestamptz NOT NULL,
    valid_to timestamptz,
    PRIMARY KEY (ib_node_id, valid_from),
    FOREIGN KEY (ib_node_id) REFERENCES internal.ib_node_key(id)
);
CREATE UNIQUE INDEX ib_mft_current ON internal.ib_mft (ib_node_id) WHERE (valid_to IS NULL);
COMMENT ON TABLE internal.ib_mft IS
    'Multicast forwarding tables of switches, as whole walks read them.';
COMMENT ON COLUMN internal.ib_mft.multicast_forwarding_table IS
    'Ports by multicast LID, both decimal: {"49152": [1, 7]}. Port 0 is the switch itself.';

CREATE TABLE internal.ib_multicast_group (
    fabric_id bigint NOT NULL,
    mgid text NOT NULL,
    mlid integer NOT NULL,
    pkey integer NOT NULL,
    mtu_bytes integer,
    rate_bytes_per_second bigint,
    service_level integer NOT NULL,
    name text,
    member_count integer,
    members jsonb,
    generation bigint NOT NULL,
    valid_from timestamptz NOT NULL,
    valid_to timestamptz,
    PRIMARY KEY (fabric_id, mgid, valid_from),
    FOREIGN KEY (fabric_id) REFERENCES internal.fabric(id)
);
CREATE INDEX ib_multicast_group_by_mlid ON internal.ib_multicast_group (fabric_id, mlid);
CREATE UNIQUE INDEX ib_multicast_group_current ON internal.ib_multicast_group (fabric_id, mgid) WHERE (valid_to IS NULL);
COMMENT ON TABLE internal.ib_multicast_group IS
    'Multicast groups and their members by the subnet administrator, read after whole discoveries. Trees are in ib_mft.';
COMMENT ON COLUMN internal.ib_multicast_group.mgid IS 'Multicast GID as an IPv6 address.';
COMMENT ON COLUMN internal.ib_multicast_group.mlid IS 'Multicast LID; several groups may share one.';
COMMENT ON COLUMN internal.ib_multicast_group.pkey IS 'Partition key.';
COMMENT ON COLUMN internal.ib_multicast_group.mtu_bytes IS 'Largest payload of a packet; NULL where the code has no meaning.';
COMMENT ON COLUMN internal.ib_multicast_group.rate_bytes_per_second IS 'Rate that each member must have; NULL where the code has no meaning.';
COMMENT ON COLUMN internal.ib_multicast_group.name IS
    'What the MGID is known to be for: the IPoIB groups of RFC 4391 and others with a signature; NULL where it is not known.';
COMMENT ON COLUMN internal.ib_multicast_group.member_count IS 'Members; NULL where the administrator does not report them.';
COMMENT ON COLUMN internal.ib_multicast_group.members IS
    'Join states by port GUID: {"0x0002c90300000001": 1}. Bits: 1 full member, 2 non-member, 4 send-only. NULL where members are not reported, or were more than the crawler records.';
COMMENT ON COLUMN internal.ib_multicast_group.generation IS 'Discovery after which it was read last, nanoseconds since 1970.';
