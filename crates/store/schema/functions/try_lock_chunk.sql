CREATE OR REPLACE FUNCTION internal.try_lock_chunk(chunk regclass) RETURNS boolean
LANGUAGE sql VOLATILE
-- "tlch" in ASCII.
RETURN internal.try_lock_chunks() AND pg_try_advisory_xact_lock(1953260392, chunk::oid::integer);
COMMENT ON FUNCTION internal.try_lock_chunk IS
    'As try_lock_chunks, and that nobody else rewrites this chunk: thinning and the making of columns would wait for each other.';
