CREATE OR REPLACE FUNCTION internal.job_ranks(job bigint)
RETURNS TABLE (
    job_id bigint, rank integer, node_id bigint, host text, pid bigint, world_size integer, mpi_library text, start_time timestamptz,
    end_time timestamptz, ending text, gpu_uuids text[], hca_ports text[], cpus text, numa_nodes integer[], hca_numa_nodes integer[])
LANGUAGE sql STABLE ROWS 100
BEGIN ATOMIC
    SELECT r.job_id, r.rank, r.node_id, r.host, r.pid, r.world_size, r.mpi_library, r.start_time, r.end_time, r.ending, r.gpu_uuids,
           r.hca_ports, r.cpus, r.numa_nodes, r.hca_numa_nodes
    FROM internal.job_rank r WHERE r.job_id = job_ranks.job
    UNION ALL
    -- A start of a rank that came again later is above.
    SELECT e.job_id, e.rank, e.node_id, e.host, e.pid, e.world_size, e.mpi_library, e.start_time, e.end_time, e.ending, e.gpu_uuids,
           e.hca_ports, e.cpus, e.numa_nodes, e.hca_numa_nodes
    FROM internal.job_final f
    CROSS JOIN LATERAL internal.job_final_ranks(f.job_id) e
    WHERE f.job_id = job_ranks.job AND f.is_released AND e.pid >= 0
      AND NOT EXISTS (SELECT FROM internal.job_rank r WHERE r.job_id = e.job_id AND r.rank = e.rank AND r.start_time = e.start_time);
END;
COMMENT ON FUNCTION internal.job_ranks IS
    'The ranks of one job, as job_rank has them, also when their claims are gone: then they are those of job_node_final.';
