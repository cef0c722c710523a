-- The numbers of the sums are those of `ACCOUNT_SUMS` in finals/account.rs; what is 0 is not stored.
CREATE OR REPLACE FUNCTION internal.job_final_account(job bigint)
RETURNS TABLE (
    node_id bigint, host text, ranks bigint, elapsed_microseconds bigint, mpi_microseconds bigint, off_outside_microseconds bigint,
    queued_outside_microseconds bigint, off_inside_microseconds bigint, queued_inside_microseconds bigint, throttled_microseconds bigint,
    file_samples bigint, sleep_samples bigint, lock_samples bigint, stopped_samples bigint, other_samples bigint)
LANGUAGE sql STABLE ROWS 100
BEGIN ATOMIC
    SELECT n.node_id, n.host, coalesce(max(p.c2) FILTER (WHERE p.c1 = 0), 0),
           coalesce(max(p.c2) FILTER (WHERE p.c1 = 1), 0),
           coalesce(max(p.c2) FILTER (WHERE p.c1 = 2), 0),
           coalesce(max(p.c2) FILTER (WHERE p.c1 = 3), 0),
           coalesce(max(p.c2) FILTER (WHERE p.c1 = 4), 0),
           coalesce(max(p.c2) FILTER (WHERE p.c1 = 5), 0),
           coalesce(max(p.c2) FILTER (WHERE p.c1 = 6), 0),
           coalesce(max(p.c2) FILTER (WHERE p.c1 = 7), 0),
           coalesce(max(p.c2) FILTER (WHERE p.c1 = 8), 0),
           coalesce(max(p.c2) FILTER (WHERE p.c1 = 9), 0),
           coalesce(max(p.c2) FILTER (WHERE p.c1 = 10), 0),
           coalesce(max(p.c2) FILTER (WHERE p.c1 = 11), 0),
           coalesce(max(p.c2) FILTER (WHERE p.c1 = 12), 0)
    FROM internal.job_node_final n CROSS JOIN LATERAL internal.packed_rows(n.account) p
    WHERE n.job_id = job_final_account.job AND n.account IS NOT NULL
    GROUP BY n.place, n.node_id, n.host ORDER BY n.place;
END;
COMMENT ON FUNCTION internal.job_final_account IS
    'Where the time of a job''s ranks went, summed by node: how many ranks have an account, what of their time was in MPI, off the processor and waiting for one, and how often they were found off the processor outside of MPI, by what they waited in.';
