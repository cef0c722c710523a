CREATE OR REPLACE FUNCTION internal.job_final_ranks(job bigint)
RETURNS TABLE (
    job_id bigint, rank integer, node_id bigint, host text, pid bigint, world_size integer, mpi_library text, start_time timestamptz,
    end_time timestamptz, ending text, gpu_uuids text[], hca_ports text[], cpus text, numa_nodes integer[], hca_numa_nodes integer[],
    place integer, number integer, open_operation text, open_nanoseconds bigint, is_released boolean)
LANGUAGE sql STABLE ROWS 100
BEGIN ATOMIC
    SELECT f.job_id, e.rank, n.node_id, n.host, e.pid, e.rank_world_size, e.mpi_library, e.start_time, e.end_time, e.ending, e.gpu_uuids,
           e.hca_ports, e.cpus, e.numa_nodes, e.hca_numa_nodes, n.place, e.number, e.open_operation, e.open_nanoseconds, f.is_released
    FROM internal.job_final f
    JOIN internal.job_node_final n ON n.job_id = f.job_id
    CROSS JOIN LATERAL internal.packed_job_ranks(n.ranks, n.places, n.texts, n.operations, f.libraries, f.world_size) e
    WHERE f.job_id = job_final_ranks.job;
END;
COMMENT ON FUNCTION internal.job_final_ranks IS
    'Each start of a rank that is packed of a job, as in rank_claim, with the number that it has in job_node_final, and the call in which it was killed.';
