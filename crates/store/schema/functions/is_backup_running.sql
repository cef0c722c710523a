CREATE OR REPLACE FUNCTION internal.is_backup_running() RETURNS boolean
LANGUAGE sql STABLE
-- The key of try_lock_chunks, as pg_locks has it.
RETURN EXISTS (
    SELECT FROM pg_locks l JOIN pg_database d ON d.oid = l.database
    WHERE d.datname = current_database() AND l.locktype = 'advisory' AND l.classid = 1953260129 AND l.objid = 1667986800
      AND l.objsubid = 1 AND l.mode = 'ExclusiveLock' AND l.granted
);
COMMENT ON FUNCTION internal.is_backup_running IS
    'Whether throughline db backup reads this database now: nothing is dropped, thinned or packed meanwhile.';
