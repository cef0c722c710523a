-- Events say what was before and what is after, and of a cable both of its ends.

ALTER TABLE events
    ADD COLUMN remote_ib_guid text,
    ADD COLUMN remote_ib_port integer,
    ADD COLUMN before text,
    ADD COLUMN after text;
COMMENT ON COLUMN events.ib_guid IS 'Node GUID of what it is about; of a cable, of one end.';
COMMENT ON COLUMN events.ib_port IS 'Port of that node; 0 where it is about the node.';
COMMENT ON COLUMN events.remote_ib_guid IS 'Node GUID of the other end of a cable, NULL where there is none.';
COMMENT ON COLUMN events.remote_ib_port IS 'Port of the other end.';
COMMENT ON COLUMN events.before IS 'What was before; NULL where there was nothing.';
COMMENT ON COLUMN events.after IS 'What is after; NULL where there is nothing.';
