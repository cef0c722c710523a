//! Evidence of nodes: ranks of other jobs on the same CPUs, GPU links that are down or have errors, errors of a host's port.

use throughline_query::evidence::{Cache, of_job};
use throughline_query::jobs;
use throughline_query::link_shares::Source;
use throughline_store::testing;

/// Job 1 has a rank on each of two nodes; job 2 a rank on the CPU of the second. Each node has a GPU of two links: of that on the
/// second one is down, and the other has errors. The switch's port to the second node counts errors.
const ROWS: &str = "
    INSERT INTO internal.node_key (name) VALUES ('n1'), ('n2');
    INSERT INTO internal.node (node_id, name, hca_guids, valid_from)
        SELECT id, name, ARRAY['0x' || id], now() - INTERVAL '1 day' FROM internal.node_key;
    INSERT INTO internal.run (key, native_id, start_time) VALUES ('slurm:1@1', '1', now() - INTERVAL '10 minutes'),
        ('slurm:2@1', '2', now() - INTERVAL '9 minutes');
    INSERT INTO internal.gpu_key (node_id, uuid) VALUES (1, 'GPU-1'), (2, 'GPU-2');
    INSERT INTO internal.gpu_link (gpu_id, link, active, speed_bytes_per_second, remote_type, remote_pci_bus_id, valid_from)
        SELECT g, l, g = 1 OR l = 0, CASE WHEN g = 1 OR l = 0 THEN 25000000000 END, 'switch', '', now() - INTERVAL '1 day'
        FROM generate_series(1, 2) g, generate_series(0, 1) l;
    INSERT INTO internal.nvlink_counters (time, gpu_id, epoch, source, replay_errors, crc_errors)
        SELECT now() - m * INTERVAL '1 minute', g, now() - INTERVAL '1 day', 'nvml', ARRAY[7, 0], ARRAY[(9 - m) * 100 * (g - 1), NULL]
        FROM generate_series(1, 2) g, generate_series(1, 8) m;
    INSERT INTO internal.job_rank (job_id, rank, pid, world_size, host, node_id, mpi_library, start_time, cpus, gpu_evidence, hca_ports)
        VALUES (1, 0, 1, 2, 'n1', 1, '', now() - INTERVAL '10 minutes', '3', 'driver', '{mlx5_0/1}'),
               (1, 1, 1, 2, 'n2', 2, '', now() - INTERVAL '10 minutes', '3', 'driver', '{mlx5_0/1}'),
               (2, 0, 2, 1, 'n2', 2, '', now() - INTERVAL '9 minutes', '3', NULL, NULL);
    INSERT INTO internal.rank_gpu (job_id, rank, node_id, start_time, gpu_id, evidence, first_seen)
        SELECT job_id, rank, node_id, start_time, node_id, 'driver', start_time FROM internal.rank_claim WHERE job_id = 1;
    INSERT INTO internal.events (time, instance, source, kind, severity, text, gpu_uuid)
        SELECT now() - m * INTERVAL '1 minute', 'n' || g, 'nvml', k, '', 'GPU-' || g || ' ' || k, 'GPU-' || g
        FROM (VALUES (2, 5, 'gpu.slowed'), (2, 7, 'gpu.slowed'), (1, 14, 'gpu.slowed'), (1, 12, 'gpu.full_speed'),
                     (2, 4, 'gpu.full_speed'), (1, 3, 'link.down')) e (g, m, k);
    INSERT INTO internal.fabric (name, guids) VALUES ('0xfe80000000000000', ARRAY['0xfe80000000000000']);
    INSERT INTO internal.ib_node_key (fabric_id, guid) VALUES (1, '0x1'), (1, '0x2'), (1, '0x3');
    INSERT INTO internal.ib_port_key (ib_node_id, port) VALUES (1, 1), (2, 1), (3, 1), (3, 2);
    INSERT INTO internal.ib_port (port_id, ib_node_id, port, port_guid, lid, state, physical_state, width, speed, rate_bytes_per_second,
                         remote_port_id, valid_from)
        SELECT id, ib_node_id, port, '0x1', id, 'Active', 'LinkUp', '4x', '25.0 Gbps', 12500000000,
               CASE id WHEN 1 THEN 3 WHEN 2 THEN 4 WHEN 3 THEN 1 ELSE 2 END, now() - INTERVAL '1 day' FROM internal.ib_port_key;
    INSERT INTO internal.host_port_key (node_id, device, port, guid) VALUES (1, 'mlx5_0', 1, '0x1'), (2, 'mlx5_0', 1, '0x2');
    INSERT INTO internal.ib_port_minutes (time, port_id, epoch, seconds, errors)
        SELECT date_trunc('minute', now()) - m * INTERVAL '1 minute', p, now() - INTERVAL '1 day', 60, 50 * (p - 3)
        FROM generate_series(3, 4) p, generate_series(2, 5) m";

#[tokio::test]
async fn what_differs_on_a_node_is_read() {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    client.batch_execute(ROWS).await.unwrap();
    let job = jobs::by_id(&client, 1).await.unwrap().unwrap();
    let source = Source::read(&client).await.unwrap();
    let ranks = of_job(&client, &job, &source, &mut Cache::default()).await.unwrap().evidence.ranks;
    let bound: Vec<_> = ranks.iter().map(|rank| (rank.ranks_a_cpu, rank.cpus_shared_with.concat())).collect();
    assert_eq!(bound, [(Some(1.0), String::new()), (Some(2.0), "2".to_owned())]);
    let links: Vec<_> =
        ranks.iter().map(|rank| (rank.gpu_link_bytes_per_second, rank.gpu_link_errors)).collect();
    assert_eq!(links, [(Some(5e10), Some(0)), (Some(2.5e10), Some(700))]);
    let slowed: Vec<_> = ranks.iter().map(|rank| rank.gpu_slowed.as_deref()).collect();
    assert_eq!(slowed, [None, Some("GPU-2 gpu.slowed")]);
    let ports: Vec<_> = ranks.iter().map(|rank| (rank.port_bytes_per_second, rank.port_errors)).collect();
    assert_eq!(ports, [(Some(1.25e10), Some(0)), (Some(1.25e10), Some(200))]);
}
