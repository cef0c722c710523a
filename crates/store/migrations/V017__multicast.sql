-- Multicast forwarding tables: which links carry a group, and whom it reaches.
CREATE TABLE ib_mft (
    ib_node_id integer NOT NULL REFERENCES ib_node_key,
    multicast_forwarding_table jsonb NOT NULL,
    valid_from timestamptz NOT NULL,
    valid_to timestamptz,
    PRIMARY KEY (ib_node_id, valid_from)
);
CREATE UNIQUE INDEX ib_mft_current ON ib_mft (ib_node_id) WHERE valid_to IS NULL;
COMMENT ON TABLE ib_mft IS 'Multicast forwarding tables of switches, as whole walks read them.';
COMMENT ON COLUMN ib_mft.multicast_forwarding_table IS
    'Ports by multicast LID, both decimal: {"49152": [1, 7]}. Port 0 is the switch itself.';
