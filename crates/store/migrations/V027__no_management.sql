-- Subnet management has no share of its own: its datagrams are part of rest. Immutable once released: later changes are new
-- files. The tables' checks still allow the word; nothing writes it.

COMMENT ON COLUMN link_shares.contributor IS
    'job: an operation of a job. group, host: traffic that nobody reported, of a group of hosts of the configuration or of a host. other: all smaller ones together. rest: counted bytes of nobody known, subnet management among them; each port and window has one such row.';
COMMENT ON COLUMN link_share_minutes.contributor IS
    'As in link_shares. other: those that are small over the minute, and those that were small in a window. rest: each port and minute has one such row.';
