CREATE OR REPLACE VIEW internal.barred_nodes AS
SELECT b.node, NULL::text AS serial, b.since, b.barred_by, b.reason
FROM internal.node_bar b WHERE b.until IS NULL AND b.node IS NOT NULL
UNION ALL
SELECT c.node, b.serial, b.since, b.barred_by, b.reason
FROM internal.node_bar b JOIN internal.node_certificate c ON c.serial = b.serial WHERE b.until IS NULL;
COMMENT ON VIEW internal.barred_nodes IS
    'Nodes that are barred now: by name, and by the serial number of a certificate that sent records as that node.';
