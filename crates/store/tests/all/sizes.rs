//! Predicted sizes beside those of a database with rows.

use std::time::{Duration, SystemTime};

use crate::batches::{entry, port_batch};
use throughline_store::{
    Retention, RetentionWay, Writer, observed_retention_way, observed_site, observed_tables, predict_size,
    review_settings, testing,
};
use uuid::Uuid;

#[tokio::test]
async fn tables_are_measured_and_an_empty_site_is_predicted_empty() {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    assert_eq!(observed_tables(&client).await.unwrap(), []);
    let site = observed_site(&client).await.unwrap();
    let retention = Retention::default();
    let way = observed_retention_way(&client).await.unwrap();
    assert_eq!(way, RetentionWay::Upkeep, "no upkeep has run");
    assert_eq!(predict_size(&site, &retention, way).bytes_per_day().to_bits(), 0.0_f64.to_bits());

    Writer::new(database.clone()).write(&[entry(Uuid::new_v4(), 1, port_batch(1, 3))]).await.unwrap();
    let insert = "INSERT INTO internal.ib_port_counters (time, port_id, epoch, source, transmit_data_bytes) \
                  SELECT now() - s * INTERVAL '1 millisecond', 1 + s % 10, now(), 'mad', s FROM generate_series(1, 5000) s \
                  ON CONFLICT DO NOTHING";
    client.execute(insert, &[]).await.unwrap();
    client.batch_execute("ANALYZE internal.ib_port_counters").await.unwrap();
    let tables = observed_tables(&client).await.unwrap();
    let ports = tables.iter().find(|table| table.table == "ib_port_counters").unwrap();
    assert!(ports.bytes > 100_000 && ports.chunks >= Some(1), "{ports:?}");
    let bytes = ports.bytes_per_row.unwrap();
    assert!((40.0..400.0).contains(&bytes), "{bytes}");
    assert!(ports.since <= SystemTime::now(), "{ports:?}");
}

#[tokio::test]
async fn the_site_is_what_the_inventory_has() {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    let fill = "INSERT INTO internal.node_key (name) SELECT 'n' || i FROM generate_series(1, 2) i;
        INSERT INTO internal.node (node_id, name, valid_from) SELECT id, name, now() FROM internal.node_key;
        INSERT INTO internal.host_port_key (node_id, device, port) SELECT id, 'mlx5_0', 1 FROM internal.node_key;
        INSERT INTO internal.gpu_key (node_id, uuid) VALUES (1, 'GPU-1');
        INSERT INTO internal.gpu (gpu_id, uuid, index, name, pci_bus_id, link_count, source, valid_from)
            SELECT id, uuid, 0, 'H100', '0', 18, 'nvml', now() FROM internal.gpu_key;
        INSERT INTO internal.gpu_link (gpu_id, link, active, remote_type, remote_pci_bus_id, valid_from)
            SELECT id, l, l < 6, 'switch', '', now() FROM internal.gpu_key, generate_series(0, 17) l;
        INSERT INTO internal.run (key, scheduler, native_id, step, uid, start_time) VALUES ('slurm:1.0@1', 'slurm', '1', '0', 1, now());
        INSERT INTO internal.job_rank (job_id, rank, host, pid, world_size, mpi_library, start_time)
            SELECT id, r, 'n1', 1, 5, '', now() FROM internal.run, generate_series(0, 4) r";
    client.batch_execute(fill).await.unwrap();
    let site = observed_site(&client).await.unwrap();
    assert_eq!((site.nodes, site.ranks_per_node, site.host_ports), (2, 3, 2));
    assert_eq!((site.gpus, site.links_per_gpu, site.ports), (1, 6, 0));
    // Ports are those that are read, of a cable one or both ends.
    let minutes = "INSERT INTO internal.ib_port_minutes (time, port_id, epoch, seconds, transmit_bytes_per_second, receive_bytes_per_second, \
            transmit_peak_bytes_per_second, receive_peak_bytes_per_second, last_time, transmit_data_bytes, receive_data_bytes) \
        SELECT date_trunc('minute', now()) - m * INTERVAL '1 minute', p, 'epoch', 60, 1, 1, 1, 1, now(), 60, 60 \
            FROM generate_series(1, 30) m, generate_series(1, 4) p WHERE p > 1 OR m > 20; \
        UPDATE internal.minute_state SET made_until = now()";
    client.batch_execute(minutes).await.unwrap();
    assert_eq!(observed_site(&client).await.unwrap().ports, 3);
    let prediction =
        predict_size(&site, &Retention::for_all(Duration::from_secs(3600)), RetentionWay::Upkeep);
    let links = prediction.tables.iter().find(|size| size.table == "nvlink_counters").unwrap();
    let [one, two] = [60, 120].map(|seconds| links.bytes_after(Duration::from_secs(seconds)));
    assert!((two - one - 60.0 * links.bytes_per_row).abs() < 1e-6);
}

#[tokio::test]
async fn a_plain_table_is_measured_once_it_is_large() {
    let client = testing::database().await.connect().await.unwrap();
    let fill = "INSERT INTO internal.run (key) SELECT 'local:h:' || n || '@1' FROM generate_series(1, 20000) n; ANALYZE internal.run";
    client.batch_execute(fill).await.unwrap();
    let tables = observed_tables(&client).await.unwrap();
    let run = tables.iter().find(|table| table.table == "run").unwrap();
    assert!(run.chunks.is_none() && run.bytes > 1 << 20 && run.bytes_per_row.is_some(), "{run:?}");
}

#[tokio::test]
async fn settings_that_cost_are_named() {
    let client = testing::database().await.connect().await.unwrap();
    // A test's cluster has no need of LZ4, as it writes no whole pages.
    let remarks = review_settings(&client).await.unwrap();
    let compression = remarks.iter().find(|remark| remark.name == "wal_compression").unwrap();
    assert_eq!((compression.present.as_str(), compression.recommended.as_str()), ("pglz", "lz4"));
    assert!(!remarks.iter().any(|remark| remark.name == "max_locks_per_transaction"), "{remarks:?}");
}
