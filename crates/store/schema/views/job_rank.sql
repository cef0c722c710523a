CREATE OR REPLACE VIEW internal.job_rank AS
SELECT job_id, rank, node_id, host, pid, world_size, mpi_library, start_time, end_time, ending, gpu_uuids, hca_ports, cpus, numa_nodes,
       hca_numa_nodes
FROM internal.rank_claim
WHERE contest IS NULL;
COMMENT ON VIEW internal.job_rank IS 'The ranks of jobs, as the nodes report them whose claims count. Each view and query of ranks is over it.';
