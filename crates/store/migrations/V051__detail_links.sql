-- Detail on demand of the fabric's links, from crawlers' recorders. Immutable once released: later changes are new files.

ALTER TABLE detail_request ADD COLUMN ib_port_ids integer[];
CREATE INDEX detail_request_by_ib_port ON detail_request USING gin (ib_port_ids) WHERE ib_port_ids IS NOT NULL;
COMMENT ON COLUMN detail_request.ib_port_ids IS 'Readings of these ports of the fabric, the ends of a link; NULL for those of jobs and nodes.';
COMMENT ON COLUMN detail_request.job_id IS 'Records of this job; NULL for readings of a node or a link.';
COMMENT ON COLUMN detail_request_node.node_id IS 'The node; 0 for the crawler of the subnet that the ports are in.';
COMMENT ON TABLE detail_request IS
    'Requests for records in full resolution that stay with agents and crawlers. detail_request_node has what became of each.';

CREATE TABLE detail_ib_ports (LIKE ib_port_counters INCLUDING INDEXES);
COMMENT ON TABLE detail_ib_ports IS
    'Readings of the fabric''s ports, on demand: each one that the crawler made, also where nothing changed; as ib_port_counters.';
SELECT create_hypertable('detail_ib_ports', by_range('time', INTERVAL '1 hour'), create_default_indexes => false);
