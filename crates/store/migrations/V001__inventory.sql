-- What exists: subnets, nodes, GPUs, fabric ports, jobs. Immutable once released: later changes are new files.
--
-- Natural keys (GUID and port, GPU UUID, job key) get a small integer once, in the *_key tables, and keep
-- it for ever: samples refer to it. What is known about a thing is kept in rows with a validity range:
-- valid_to is NULL in the current one. GUIDs and subnet prefixes are text: 0x and 16 hex digits.

CREATE TABLE batch_ledger (
    spool_id uuid PRIMARY KEY,
    sequence bigint NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE batch_ledger IS
    'Highest committed sequence of each spool, changed in the transaction of the rows: a replay adds nothing.';

CREATE TABLE batch_quarantine (
    spool_id uuid NOT NULL,
    sequence bigint NOT NULL,
    quarantined_at timestamptz NOT NULL DEFAULT now(),
    reason text NOT NULL,
    batch bytea NOT NULL,
    PRIMARY KEY (spool_id, sequence)
);
COMMENT ON TABLE batch_quarantine IS
    'Batches that cannot be stored for a reason of their own, as they came; the spool goes on behind them.';

CREATE TABLE subnet (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    prefix text NOT NULL UNIQUE,
    first_seen timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE subnet IS 'InfiniBand subnets by their prefix.';

CREATE TABLE node_key (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE
);
CREATE TABLE node (
    node_id integer NOT NULL REFERENCES node_key,
    name text NOT NULL,
    boot_id text,
    boot_time timestamptz,
    hca_guids text[] NOT NULL DEFAULT '{}',
    valid_from timestamptz NOT NULL,
    valid_to timestamptz,
    PRIMARY KEY (node_id, valid_from)
);
CREATE UNIQUE INDEX node_current ON node (node_id) WHERE valid_to IS NULL;
COMMENT ON TABLE node IS 'Hosts, one row per boot.';
COMMENT ON COLUMN node.hca_guids IS 'Node GUIDs of the host''s own InfiniBand adapters: the way from a job to its links.';

CREATE TABLE host_port_key (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    node_id integer NOT NULL REFERENCES node_key,
    device text NOT NULL,
    port integer NOT NULL,
    guid text,
    UNIQUE (node_id, device, port)
);
COMMENT ON TABLE host_port_key IS 'Ports of hosts'' own adapters, as sysfs names them.';
COMMENT ON COLUMN host_port_key.guid IS 'Node GUID of the adapter, the same as in ib_node.';

CREATE TABLE gpu_key (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    uuid text NOT NULL UNIQUE
);
CREATE TABLE gpu (
    gpu_id integer NOT NULL REFERENCES gpu_key,
    uuid text NOT NULL,
    node_id integer REFERENCES node_key,
    index integer NOT NULL,
    name text NOT NULL,
    pci_bus_id text NOT NULL,
    link_count integer NOT NULL,
    source text NOT NULL,
    valid_from timestamptz NOT NULL,
    valid_to timestamptz,
    PRIMARY KEY (gpu_id, valid_from)
);
CREATE UNIQUE INDEX gpu_current ON gpu (gpu_id) WHERE valid_to IS NULL;
CREATE TABLE gpu_link (
    gpu_id integer NOT NULL REFERENCES gpu_key,
    link integer NOT NULL,
    active boolean NOT NULL,
    version integer,
    speed_bytes_per_second bigint,
    remote_type text NOT NULL,
    remote_pci_bus_id text NOT NULL,
    remote_gpu_id integer REFERENCES gpu_key,
    remote_link integer,
    valid_from timestamptz NOT NULL,
    valid_to timestamptz,
    PRIMARY KEY (gpu_id, link, valid_from)
);
CREATE UNIQUE INDEX gpu_link_current ON gpu_link (gpu_id, link) WHERE valid_to IS NULL;
COMMENT ON TABLE gpu_link IS 'NVLinks and what is at their other end; the other GPU may be on another node.';
COMMENT ON COLUMN gpu_link.speed_bytes_per_second IS 'Speed of one direction.';

CREATE TABLE ib_node_key (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    subnet_id integer NOT NULL REFERENCES subnet,
    guid text NOT NULL,
    UNIQUE (subnet_id, guid)
);
CREATE TABLE ib_node (
    ib_node_id integer NOT NULL REFERENCES ib_node_key,
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
    PRIMARY KEY (ib_node_id, valid_from)
);
CREATE UNIQUE INDEX ib_node_current ON ib_node (ib_node_id) WHERE valid_to IS NULL;
COMMENT ON TABLE ib_node IS 'Switches, channel adapters and routers of a fabric, as discovered.';
COMMENT ON COLUMN ib_node.generation IS 'The last discovery that found it; a finished discovery ends rows that it did not find.';

CREATE TABLE ib_port_key (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    ib_node_id integer NOT NULL REFERENCES ib_node_key,
    port integer NOT NULL,
    UNIQUE (ib_node_id, port)
);
CREATE TABLE ib_port (
    port_id integer NOT NULL REFERENCES ib_port_key,
    ib_node_id integer NOT NULL REFERENCES ib_node_key,
    port integer NOT NULL,
    port_guid text NOT NULL,
    lid integer NOT NULL,
    state text NOT NULL,
    physical_state text NOT NULL,
    width text NOT NULL,
    speed text NOT NULL,
    rate_bytes_per_second bigint NOT NULL,
    remote_port_id integer REFERENCES ib_port_key,
    valid_from timestamptz NOT NULL,
    valid_to timestamptz,
    PRIMARY KEY (port_id, valid_from)
);
CREATE UNIQUE INDEX ib_port_current ON ib_port (port_id) WHERE valid_to IS NULL;
CREATE INDEX ib_port_of_node ON ib_port (ib_node_id) WHERE valid_to IS NULL;
COMMENT ON COLUMN ib_port.rate_bytes_per_second IS 'Data rate of the link in one direction; 0 while it is down.';
COMMENT ON COLUMN ib_port.remote_port_id IS 'The port at the other end of the cable, NULL without one.';

CREATE TABLE ib_link (
    port_a_id integer NOT NULL REFERENCES ib_port_key,
    port_b_id integer NOT NULL REFERENCES ib_port_key,
    valid_from timestamptz NOT NULL,
    valid_to timestamptz,
    PRIMARY KEY (port_a_id, port_b_id, valid_from),
    CHECK (port_a_id < port_b_id)
);
CREATE UNIQUE INDEX ib_link_current ON ib_link (port_a_id, port_b_id) WHERE valid_to IS NULL;
CREATE INDEX ib_link_b ON ib_link (port_b_id) WHERE valid_to IS NULL;
COMMENT ON TABLE ib_link IS 'Cables: each once, the end with the smaller port_id first.';

CREATE TABLE ib_lft (
    ib_node_id integer NOT NULL REFERENCES ib_node_key,
    linear_forwarding_table bytea NOT NULL,
    valid_from timestamptz NOT NULL,
    valid_to timestamptz,
    PRIMARY KEY (ib_node_id, valid_from)
);
CREATE UNIQUE INDEX ib_lft_current ON ib_lft (ib_node_id) WHERE valid_to IS NULL;
COMMENT ON COLUMN ib_lft.linear_forwarding_table IS
    'Byte i (from 0) is the output port for LID i; 255 where there is none.';

CREATE TABLE job (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    key text NOT NULL UNIQUE,
    scheduler text,
    native_id text,
    step text,
    uid bigint,
    user_name text,
    command text,
    start_time timestamptz,
    end_time timestamptz,
    world_size integer,
    first_seen timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE job IS 'Jobs; the key is scheduler:id[.step], or local:... without a scheduler.';
COMMENT ON COLUMN job.end_time IS 'NULL while it runs.';

CREATE TABLE job_rank (
    job_id integer NOT NULL REFERENCES job,
    rank integer NOT NULL,
    node_id integer REFERENCES node_key,
    host text NOT NULL,
    pid bigint NOT NULL,
    world_size integer NOT NULL,
    mpi_library text NOT NULL,
    start_time timestamptz NOT NULL,
    end_time timestamptz,
    ending text,
    PRIMARY KEY (job_id, rank, start_time)
);
CREATE INDEX job_rank_of_node ON job_rank (node_id, start_time);
COMMENT ON COLUMN job_rank.ending IS
    'clean: MPI_Finalize was seen. lost: the connection ended without it. NULL while the rank runs.';
