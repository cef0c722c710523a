//! Links of a job's nodes while it ran: rates that are known by construction, and nobody else's links.

use throughline_store::testing;

/// Node n1 with an adapter, a GPU and the fabric's port of that adapter; n2, without a rank. The job runs from
/// 12:00:00 to 12:01:45. Readings each 5 s from 11:59 on: 500 bytes a second out, 900 in one interval of the job,
/// 100 in; 2,000 before the job began. The speed is 1,000.
pub const SEED: &str = "
INSERT INTO internal.run (key, start_time, end_time) VALUES ('slurm:1.0', '2026-11-20 12:00:00+00', '2026-11-20 12:01:45+00');
INSERT INTO internal.node_key (name) VALUES ('n1'), ('n2');
INSERT INTO internal.node (node_id, name, hca_guids, valid_from)
SELECT id, name, ARRAY['0x000000000000000' || id], '2026-11-20' FROM internal.node_key;
INSERT INTO internal.job_rank (job_id, rank, node_id, host, pid, world_size, mpi_library, start_time, end_time, ending)
SELECT 1, r, 1, 'n1', r + 1, 2, 'x', '2026-11-20 12:00:00+00', '2026-11-20 12:01:45+00', 'clean'
FROM generate_series(0, 1) r;
INSERT INTO internal.host_port_key (node_id, device, port, guid)
SELECT id, 'mlx5_0', 1, '0x000000000000000' || id FROM internal.node_key;
INSERT INTO internal.gpu_key (node_id, uuid) VALUES (1, 'GPU-1'), (2, 'GPU-2');
INSERT INTO internal.gpu (gpu_id, uuid, node_id, index, name, pci_bus_id, link_count, source, valid_from)
SELECT id, uuid, id, 0, 'H200', '', 2, 'nvml', '2026-11-20' FROM internal.gpu_key;
INSERT INTO internal.fabric (name, guids) VALUES ('0xfe80000000000000', ARRAY['0xfe80000000000000']);
INSERT INTO internal.ib_node_key (fabric_id, guid) VALUES (1, '0x0000000000000001'), (1, '0x0000000000000002');
INSERT INTO internal.ib_port_key (ib_node_id, port) SELECT id, 1 FROM internal.ib_node_key;
CREATE TEMP TABLE reading AS
SELECT '2026-11-20 11:59:00+00'::timestamptz + n * INTERVAL '5 s' AS time, '2026-11-20'::timestamptz AS epoch,
       CASE WHEN n <= 12 THEN 10000 * n ELSE 120000 + 2500 * (n - 12) + CASE WHEN n >= 20 THEN 2000 ELSE 0 END END
           AS sent, 500 * n AS got
FROM generate_series(0, 60) n;
INSERT INTO internal.host_port_counters (time, host_port_id, epoch, source, port_data_transmitted_bytes, port_data_received_bytes,
                                rate_bytes_per_second)
SELECT time, k, epoch, 'sysfs', sent, got, 1000 FROM reading, generate_series(1, 2) k;
INSERT INTO internal.nvlink_counters (time, gpu_id, epoch, source, transmit_bytes, receive_bytes, speed_bytes_per_second)
SELECT time, k, epoch, 'nvml', ARRAY[sent, NULL], ARRAY[got, NULL], ARRAY[1000, NULL] FROM reading, generate_series(1, 2) k;
INSERT INTO internal.ib_port_counters (time, port_id, epoch, source, transmit_data_bytes, receive_data_bytes, rate_bytes_per_second)
SELECT time, k, epoch, 'mad', sent, got, NULL FROM reading, generate_series(1, 2) k;
";

#[tokio::test]
async fn rates_of_its_own_nodes_while_it_ran() {
    let database = testing::database().await;
    let writer = database.connect().await.unwrap();
    writer.batch_execute(SEED).await.unwrap();
    let client = database.connect_reader().await.unwrap();
    let rows = client.query("SELECT * FROM public.job_links(1) ORDER BY kind, direction", &[]).await.unwrap();
    let names: Vec<(&str, &str, &str)> =
        rows.iter().map(|row| (row.get("kind"), row.get("node_name"), row.get("direction"))).collect();
    let both = |kind| [(kind, "n1", "in"), (kind, "n1", "out")];
    // The fabric's readings are of the host's cable, which is listed once.
    assert_eq!(names, [both("host"), both("nvlink")].concat());
    writer.batch_execute("DELETE FROM internal.host_port_counters").await.unwrap();
    let fabric = client.query("SELECT * FROM public.job_links(1) WHERE kind = 'fabric'", &[]).await.unwrap();
    let rows: Vec<_> = rows.into_iter().chain(fabric).collect();
    assert_eq!(rows.len(), 6, "without the host's own readings the fabric's count");
    for row in &rows {
        let number = |column: &str| row.get::<_, Option<f64>>(column);
        // From 12:00:05 to 12:01:45: 21 readings, each with its predecessor but, of some, the first.
        let readings: i64 = row.get("readings");
        assert!((20..=21).contains(&readings), "{row:?}");
        let (p95, max) =
            if row.get::<_, &str>("direction") == "out" { (500.0, 900.0) } else { (100.0, 100.0) };
        let near = |column: &str, expected: f64| {
            assert!((number(column).unwrap() - expected).abs() < 1e-6, "{column} {expected} {row:?}");
        };
        near("p95_bytes_per_second", p95);
        near("max_bytes_per_second", max);
        if row.get::<_, &str>("kind") == "fabric" {
            // A link whose speed nobody reported has rates and no share.
            assert_eq!((number("p95_utilisation"), number("max_utilisation")), (None, None));
        } else {
            assert_eq!(row.get::<_, Option<i64>>("rate_bytes_per_second"), Some(1000));
            near("p95_utilisation", p95 / 1000.0);
            near("max_utilisation", max / 1000.0);
        }
    }
    let links: Vec<&str> = rows.iter().map(|row| row.get("link")).collect();
    assert!(links.contains(&"mlx5_0 port 1") && links.contains(&"GPU 0 link 0"), "{links:?}");
}
