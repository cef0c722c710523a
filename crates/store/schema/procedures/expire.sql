CREATE OR REPLACE PROCEDURE internal.expire(job_id integer DEFAULT NULL, config jsonb DEFAULT NULL)
LANGUAGE plpgsql
AS $$
DECLARE
    of_table text;
    chunk regclass;
BEGIN
    IF internal.is_backup_running() THEN
        RAISE WARNING 'a backup is in progress: nothing is dropped in this round';
        RETURN;
    END IF;
    -- A procedure with settings of its own can't commit: this one names the schema of all that it calls, and the functions have theirs.
    FOR of_table IN SELECT p.hypertable FROM internal.retention_policy p LOOP
        BEGIN
            PERFORM internal.carry_totals(of_table);
            PERFORM internal.expire_table(of_table);
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            RAISE WARNING 'chunks of % are in use: they are dropped in the next round', of_table;
        END;
        -- Each table by itself: nobody waits for all of them, and none is dropped by a permission that has ended meanwhile.
        COMMIT;
        FOR chunk IN SELECT c FROM internal.next_columns(of_table) c LOOP
            BEGIN
                -- Again: the permission may have ended since the last commit.
                IF internal.expiry_time() IS NOT NULL AND internal.try_lock_chunk(chunk) THEN
                    PERFORM public.compress_chunk(chunk);
                END IF;
            EXCEPTION WHEN lock_not_available OR deadlock_detected OR undefined_table THEN
                RAISE WARNING 'chunk % is in use: it becomes columns in the next round', chunk;
            END;
            COMMIT;
        END LOOP;
    END LOOP;
    PERFORM internal.expire_names();
    COMMIT;
END $$;
COMMENT ON PROCEDURE internal.expire IS
    'Retention: drops chunks that are older than retention_policy says, and makes columns of old ones on the full edition; commits after each table. Upkeep calls it on the Apache edition, one job of the database on the full one. Without a permission (clock_check), or while a backup is in progress, it does nothing.';
