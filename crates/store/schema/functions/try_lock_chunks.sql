CREATE OR REPLACE FUNCTION internal.try_lock_chunks() RETURNS boolean
LANGUAGE sql VOLATILE
-- "tlbackup" in ASCII. A backup has this lock for itself for all its time; those who change chunks share it.
RETURN pg_try_advisory_xact_lock_shared(8389188376303727984);
COMMENT ON FUNCTION internal.try_lock_chunks IS
    'Whether chunks may be dropped or rewritten: no backup is in progress, and none begins until the end of this transaction.';
