-- A node that began to count a rank after it began, as an agent does that was started again, has what came since: what the rank did before
-- is in its own rows. They and the sums of the node are compared as of one time, the end of the interval in which ranks had rows last.
CREATE OR REPLACE FUNCTION internal.job_node_cells(job bigint, until timestamptz)
RETURNS TABLE (
    operation text, size_class_bytes bigint, region text, algorithm text, algorithm_source text, calls bigint, bytes bigint,
    elapsed_seconds double precision, longest_seconds double precision, wait_seconds double precision, received_bytes bigint)
LANGUAGE sql STABLE ROWS 100 COST 1000000
BEGIN ATOMIC
    WITH counted AS MATERIALIZED (
        SELECT * FROM internal.mpi_node_op_cells(job_node_cells.job, job_node_cells.until) n
    ), epochs AS MATERIALIZED (
        SELECT DISTINCT n.node_id, n.epoch FROM counted n
    ), ranks AS MATERIALIZED (
        SELECT r.node_id, r.rank, r.start_time, r.end_time FROM internal.job_rank r WHERE r.job_id = job_node_cells.job
    ), behind AS MATERIALIZED (
        SELECT DISTINCT r.node_id FROM ranks r LEFT JOIN epochs e ON e.node_id = r.node_id
        WHERE e.node_id IS NULL
           OR r.start_time < e.epoch - INTERVAL '5 seconds' AND (r.end_time IS NULL OR r.end_time > e.epoch)
    ), edges AS MATERIALIZED (
        SELECT r.node_id, least(job_node_cells.until, public.time_bucket('10 seconds',
                   coalesce(max(c.last_time) FILTER (WHERE r.end_time IS NULL), max(c.last_time)) + INTERVAL '9.999999 seconds')) AS edge
        FROM (SELECT WHERE EXISTS (SELECT FROM behind)) needed
        CROSS JOIN LATERAL internal.mpi_op_cells(job_node_cells.job, job_node_cells.until) c
        JOIN ranks r ON r.rank = c.rank AND r.start_time = c.epoch
        WHERE r.node_id IN (SELECT b.node_id FROM behind b)
        GROUP BY r.node_id
    ), cells AS (
        SELECT n.operation, n.size_class_bytes, n.region, n.algorithm, n.algorithm_source, n.calls, n.bytes, n.elapsed_seconds,
               n.longest_seconds, n.wait_seconds, n.received_bytes
        FROM counted n
        UNION ALL
        SELECT c.operation, c.size_class_bytes, c.region, c.algorithm, c.algorithm_source, c.calls, c.bytes, c.elapsed_seconds,
               c.longest_seconds, c.wait_seconds, c.received_bytes
        FROM edges e CROSS JOIN LATERAL internal.mpi_op_cells(job_node_cells.job, e.edge) c
        JOIN ranks r ON r.rank = c.rank AND r.start_time = c.epoch AND r.node_id = e.node_id
        UNION ALL
        SELECT b.operation, b.size_class_bytes, b.region, b.algorithm, b.algorithm_source, -b.calls, -b.bytes, -b.elapsed_seconds,
               b.longest_seconds, -b.wait_seconds, -b.received_bytes
        FROM edges e CROSS JOIN LATERAL internal.mpi_node_op_cells(job_node_cells.job, e.edge) b WHERE b.node_id = e.node_id
    )
    SELECT c.operation, c.size_class_bytes, c.region, c.algorithm, max(c.algorithm_source),
           greatest(internal.stored_total(sum(c.calls)), 0), greatest(internal.stored_total(sum(c.bytes)), 0),
           greatest(sum(c.elapsed_seconds), 0), max(c.longest_seconds),
           CASE WHEN count(c.wait_seconds) > 0 THEN greatest(sum(c.wait_seconds), 0) END,
           CASE WHEN count(c.received_bytes) > 0 THEN greatest(internal.stored_total(sum(c.received_bytes)), 0) END
    FROM cells c GROUP BY c.operation, c.size_class_bytes, c.region, c.algorithm;
END;
COMMENT ON FUNCTION internal.job_node_cells IS
    'Operations of a running job over all ranks, by size class, region and algorithm, as its nodes counted them up to a time (job_as_of).';
