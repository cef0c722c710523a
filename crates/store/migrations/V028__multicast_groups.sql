-- Multicast groups as the subnet administrator reports them: what each is for, and who has joined it.
CREATE TABLE ib_multicast_group (
    subnet_id integer NOT NULL REFERENCES subnet,
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
    PRIMARY KEY (subnet_id, mgid, valid_from)
);
CREATE UNIQUE INDEX ib_multicast_group_current ON ib_multicast_group (subnet_id, mgid) WHERE valid_to IS NULL;
CREATE INDEX ib_multicast_group_by_mlid ON ib_multicast_group (subnet_id, mlid);
COMMENT ON TABLE ib_multicast_group IS
    'Multicast groups and their members by the subnet administrator, read after whole discoveries. Trees are in ib_mft.';
COMMENT ON COLUMN ib_multicast_group.mgid IS 'Multicast GID as an IPv6 address.';
COMMENT ON COLUMN ib_multicast_group.mlid IS 'Multicast LID; several groups may share one.';
COMMENT ON COLUMN ib_multicast_group.pkey IS 'Partition key.';
COMMENT ON COLUMN ib_multicast_group.mtu_bytes IS 'Largest payload of a packet; NULL where the code has no meaning.';
COMMENT ON COLUMN ib_multicast_group.rate_bytes_per_second IS 'Rate that each member must have; NULL where the code has no meaning.';
COMMENT ON COLUMN ib_multicast_group.name IS 'What the MGID is known to be for: the IPoIB groups of RFC 4391 and others with a signature; NULL where it is not known.';
COMMENT ON COLUMN ib_multicast_group.member_count IS 'Members; NULL where the administrator does not report them.';
COMMENT ON COLUMN ib_multicast_group.members IS
    'Join states by port GUID: {"0x0002c90300000001": 1}. Bits: 1 full member, 2 non-member, 4 send-only. NULL where members are not reported, or were more than the crawler records.';
COMMENT ON COLUMN ib_multicast_group.generation IS 'Discovery after which it was read last, nanoseconds since 1970.';
