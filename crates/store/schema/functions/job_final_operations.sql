CREATE OR REPLACE FUNCTION internal.job_final_operations(job bigint)
RETURNS TABLE (
    rank integer, epoch timestamptz, operation text, calls bigint, bytes bigint, elapsed_nanoseconds bigint, longest_nanoseconds bigint,
    wait_nanoseconds bigint, received_bytes bigint, last_time timestamptz)
LANGUAGE sql STABLE ROWS 1000
BEGIN ATOMIC
    SELECT e.rank, e.start_time, o.operation, p.c2, p.c3, p.c4 * 1000, p.c5 * 1000, p.c6 * 1000, p.c7, coalesce(e.end_time, n.ended_at)
    FROM internal.job_final f
    JOIN internal.job_node_final n ON n.job_id = f.job_id
    CROSS JOIN LATERAL unnest(string_to_array(n.operations, E'\n'), n.totals) o (operation, packed)
    CROSS JOIN LATERAL (SELECT * FROM internal.packed_rows(o.packed) OFFSET 0) p
    JOIN LATERAL (
        SELECT r.number, r.rank, r.start_time, r.end_time
        FROM internal.packed_job_ranks(n.ranks, n.places, n.texts, n.operations, f.libraries, f.world_size) r OFFSET 0) e ON e.number = p.number + p.c1
    WHERE f.job_id = job_final_operations.job;
END;
COMMENT ON FUNCTION internal.job_final_operations IS
    'Final totals of each start of a rank by operation, over size classes, regions and algorithms. Times are to the microsecond.';
