CREATE OR REPLACE FUNCTION internal.mpi_packed_account(account bit varying)
RETURNS TABLE (
    behind interval, elapsed_seconds double precision, mpi_seconds double precision, off_outside_seconds double precision,
    queued_outside_seconds double precision, off_inside_seconds double precision, queued_inside_seconds double precision,
    throttled_seconds double precision, file_seconds double precision, sleep_seconds double precision, lock_seconds double precision,
    stopped_seconds double precision)
LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 1
BEGIN ATOMIC
    -- In milliseconds, zeros at the end left out. What ranks had before the epoch comes after these, and is not in the sums.
    SELECT coalesce(p.n[1], 0) * INTERVAL '1 millisecond', coalesce(p.n[2], 0) / 1e3::double precision,
           coalesce(p.n[3], 0) / 1e3::double precision, coalesce(p.n[4], 0) / 1e3::double precision,
           coalesce(p.n[5], 0) / 1e3::double precision, coalesce(p.n[6], 0) / 1e3::double precision,
           coalesce(p.n[7], 0) / 1e3::double precision, coalesce(p.n[8], 0) / 1e3::double precision,
           coalesce(p.n[9], 0) / 1e3::double precision, coalesce(p.n[10], 0) / 1e3::double precision,
           coalesce(p.n[11], 0) / 1e3::double precision, coalesce(p.n[12], 0) / 1e3::double precision
    FROM (SELECT internal.packed_numbers(account) AS n OFFSET 0) p WHERE length(account) > 0;
END;
COMMENT ON FUNCTION internal.mpi_packed_account IS
    'Where the time of a node''s ranks went, of a row of mpi_node_rows: sums over the ranks since the row''s epoch, and by how long before the time of the row. No row where it has none.';
