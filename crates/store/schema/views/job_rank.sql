CREATE OR REPLACE VIEW internal.job_rank AS
SELECT r.job_id, r.rank, r.node_id, r.host, r.pid, r.world_size, r.mpi_library, r.start_time, r.end_time, r.ending, r.gpu_evidence,
       -- Which of the GPUs that a process has open it uses, only the driver knows.
       CASE WHEN r.gpu_evidence = 'driver' OR r.gpu_evidence = 'device' AND NOT EXISTS (
                SELECT FROM internal.rank_gpu g WHERE g.job_id = r.job_id AND g.rank = r.rank AND g.node_id = r.node_id
                AND g.start_time = r.start_time AND g.evidence = 'device') THEN ARRAY(
            SELECT k.uuid FROM internal.rank_gpu g JOIN internal.gpu_key k ON k.id = coalesce(g.partition_id, g.gpu_id)
            WHERE g.job_id = r.job_id AND g.rank = r.rank AND g.node_id = r.node_id AND g.start_time = r.start_time
                AND g.evidence = 'driver'
            ORDER BY g.first_seen, k.id) END AS gpu_uuids,
       r.visible_devices, r.hca_ports, r.cpus, r.numa_nodes, r.hca_numa_nodes
FROM internal.rank_claim r
WHERE r.contest IS NULL;
COMMENT ON VIEW internal.job_rank IS
    'The ranks of jobs, as the nodes report them whose claims count. Each view and query of ranks is over it. gpu_uuids are GPUs and '
    'partitions that a rank has used, by the driver''s list of processes; NULL where that is not known, {} for none.';
