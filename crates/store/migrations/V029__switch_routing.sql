-- How switches choose output ports, and how many LIDs an end port has: what decides whether a route is the only one.
-- Immutable once released: later changes are new files.

ALTER TABLE ib_node ADD COLUMN routing text CHECK (routing IN ('static', 'adaptive'));
COMMENT ON COLUMN ib_node.routing IS
    'How a switch chooses output ports, as it reported last: static, by its forwarding table alone; adaptive, among several ports by load. NULL where it never reported.';

ALTER TABLE ib_port ADD COLUMN lmc integer CHECK (lmc BETWEEN 0 AND 7);
COMMENT ON COLUMN ib_port.lmc IS
    'LID mask control of the port of an adapter or router: it has 2^lmc LIDs from lid on, and a route to each. NULL on ports of switches and where it is not reported.';
