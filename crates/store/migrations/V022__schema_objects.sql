-- Functions and views are files (schema/functions, schema/views) that each start applies where they differ; from here on
-- migrations change tables only. Immutable once released: later changes are new files.

CREATE TABLE schema_objects (
    name text PRIMARY KEY,
    kind text NOT NULL CHECK (kind IN ('function', 'view')),
    checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE schema_objects IS
    'Functions and views of Throughline as they are installed. Each start of throughline serve compares them with its own.';
COMMENT ON COLUMN schema_objects.checksum IS 'MD5 of the file that the object was made from.';
