//! The private cluster's life, and retention on it.

use std::path::PathBuf;
use std::time::Duration;

use crate::batches::{entry, port_batch};
use throughline_store::{
    ClusterOptions, ClusterStart, ClusterStatus, Error, Lifetime, PrivateCluster, Retention, RetentionWay,
    Writer, apply_retention, testing,
};
use uuid::Uuid;

/// A state folder that the server's user can enter, removed with its cluster stopped.
pub(crate) struct State(pub(crate) PathBuf);

impl State {
    pub(crate) fn new() -> Self {
        testing::ensure_programs();
        Self(std::env::temp_dir().join(format!("throughline-cluster-{}", Uuid::new_v4().simple())))
    }

    pub(crate) fn options(&self) -> ClusterOptions {
        ClusterOptions { state_dir: self.0.clone(), pg_bin: None }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        let folder = self.0.clone();
        // Also after a failed assertion.
        let stop = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let _ = runtime.block_on(PrivateCluster::stop_in(&folder));
            let _ = std::fs::remove_dir_all(&folder);
        };
        let _ = std::thread::spawn(stop).join();
    }
}

#[tokio::test]
async fn a_cluster_is_made_started_left_and_taken_over() {
    let state = State::new();
    let cluster = PrivateCluster::find(&state.options()).unwrap();
    assert_eq!(cluster.status(), ClusterStatus::Absent);
    assert!(!cluster.stop().await.unwrap());
    assert!(cluster.init().await.unwrap());
    assert!(!cluster.init().await.unwrap());
    assert_eq!(cluster.status(), ClusterStatus::Stopped);

    // Ours, and stopped by us.
    let (database, started) = cluster.run(Lifetime::WithCaller).await.unwrap();
    assert_eq!(started, ClusterStart::Now);
    Writer::new(database.clone()).write(&[entry(Uuid::new_v4(), 1, port_batch(1, 3))]).await.unwrap();
    let reader = PrivateCluster::database_in(&state.0).connect_reader().await.unwrap();
    let rows = reader.query_one("SELECT count(*) FROM internal.ib_port_counters", &[]).await.unwrap();
    assert_eq!(rows.get::<_, i64>(0), 3);
    let jit = reader.query_one("SHOW jit", &[]).await.unwrap();
    assert_eq!(jit.get::<_, &str>(0), "off");
    assert!(matches!(PrivateCluster::status_of(&state.0), ClusterStatus::Running { .. }));
    assert!(cluster.stop_own().await.unwrap());
    assert_eq!(cluster.status(), ClusterStatus::Stopped);

    // Left running by `db start`: used, and not stopped by another.
    assert_eq!(cluster.run(Lifetime::Detached).await.unwrap().1, ClusterStart::Now);
    assert_eq!(cluster.run(Lifetime::WithCaller).await.unwrap().1, ClusterStart::Already);
    assert!(!cluster.stop_own().await.unwrap());

    // Left by a process that was killed: the next process takes it.
    std::fs::write(cluster.folder().join("started-by"), "1 1\n").unwrap();
    assert_eq!(cluster.start(Lifetime::WithCaller).await.unwrap(), ClusterStart::TakenOver);
    assert!(cluster.stop_own().await.unwrap());

    // A pid file that a crash left, with the number of a process that lives.
    std::fs::write(cluster.folder().join("data/postmaster.pid"), format!("{}\n", std::process::id()))
        .unwrap();
    assert_eq!(cluster.status(), ClusterStatus::Stopped);
    let (database, started) = cluster.run(Lifetime::WithCaller).await.unwrap();
    assert_eq!(started, ClusterStart::Now);
    let rows = database
        .connect()
        .await
        .unwrap()
        .query_one("SELECT count(*) FROM internal.ib_port_counters", &[])
        .await;
    assert_eq!(rows.unwrap().get::<_, i64>(0), 3, "data survives");
}

#[tokio::test]
async fn a_cluster_of_an_earlier_version_gets_this_ones_settings_while_it_runs() {
    let state = State::new();
    let cluster = PrivateCluster::find(&state.options()).unwrap();
    cluster.init().await.unwrap();
    let (own, conf) = (state.0.join("db/data/local.conf"), state.0.join("db/data/postgresql.conf"));
    std::fs::write(&own, "max_wal_size = 2GB\nwal_compression = pglz\n").unwrap();
    let (database, _) = cluster.run(Lifetime::Detached).await.unwrap();
    // As after an upgrade: the server runs with values of another file than this program writes.
    std::fs::remove_file(own).unwrap();
    std::fs::write(conf, "# of another program\n").unwrap();
    let client = database.connect().await.unwrap();
    assert_eq!(shown(&client, "wal_compression").await, "pglz");

    assert_eq!(cluster.run(Lifetime::WithCaller).await.unwrap().1, ClusterStart::Already);
    while shown(&client, "wal_compression").await != "lz4" {
        tokio::task::yield_now().await;
    }
    let megabytes = shown(&client, "max_wal_size").await;
    let megabytes = megabytes.strip_suffix("GB").map_or_else(
        || megabytes.strip_suffix("MB").unwrap().parse::<u64>().unwrap(),
        |gigabytes| gigabytes.parse::<u64>().unwrap() * 1024,
    );
    assert!((1024..=8192).contains(&megabytes), "{megabytes}");
}

async fn shown(client: &tokio_postgres::Client, name: &str) -> String {
    client.query_one(&format!("SHOW {name}"), &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn a_server_that_does_not_come_up_shows_its_log() {
    let state = State::new();
    let cluster = PrivateCluster::find(&state.options()).unwrap();
    cluster.init().await.unwrap();
    std::fs::write(cluster.folder().join("data/local.conf"), "no_such_setting = 1\n").unwrap();
    let error = cluster.start(Lifetime::WithCaller).await.unwrap_err().to_string();
    assert!(error.contains("no_such_setting"), "{error}");
}

#[tokio::test]
async fn without_a_server_the_message_says_what_to_do() {
    let state = State::new();
    let error = PrivateCluster::database_in(&state.0).connect_reader().await.unwrap_err();
    assert!(error.is_temporary() && error.to_string().contains("throughline db status"), "{error}");
    let wrong = ClusterOptions { state_dir: state.0.clone(), pg_bin: Some(PathBuf::from("/nonexistent")) };
    let error = PrivateCluster::find(&wrong).unwrap_err();
    assert!(matches!(error, Error::NoPostgres { .. }) && error.to_string().contains("--pg-bin"), "{error}");
}

#[tokio::test]
async fn numbers_of_cells_go_when_no_row_may_have_them() {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    let insert = "INSERT INTO internal.mpi_cell_key (operation, size_class_bytes, region, algorithm, algorithm_source, used_at)
                  SELECT 'send', days, '', '', '', now() - days * INTERVAL '1 day' FROM unnest(ARRAY[1, 9, 11]) days";
    client.execute(insert, &[]).await.unwrap();
    let mut retention = Retention::for_all(Duration::from_secs(3600 * 24 * 365));
    for table in ["mpi_rank_rows", "mpi_node_rows"] {
        retention.set(table, Duration::from_secs(7 * 24 * 3600)).unwrap();
    }
    apply_retention(&client, &retention, None).await.unwrap();
    // The database's job would, on the full edition.
    client.batch_execute("CALL internal.expire()").await.unwrap();
    let left =
        client.query("SELECT size_class_bytes FROM internal.mpi_cell_key ORDER BY 1", &[]).await.unwrap();
    assert_eq!(left.iter().map(|row| row.get::<_, i64>(0)).collect::<Vec<_>>(), [1, 9]);
}

#[tokio::test]
async fn old_chunks_go_whatever_the_edition() {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    // Rows of a day ago and of now.
    let insert = "INSERT INTO internal.ib_port_counters (time, port_id, epoch, source) \
                  SELECT now() - make_interval(hours => h), 1, now(), 'mad' FROM generate_series(0, 24, 4) h";
    client.execute(insert, &[]).await.unwrap();
    let mut retention = Retention::for_all(Duration::from_secs(3600 * 24 * 365));
    retention.set("ib_port_counters", Duration::from_secs(10 * 3600)).unwrap();
    let outcome = apply_retention(&client, &retention, None).await.unwrap();
    // Rows are kept for as long as all else: no columnstore. On the full edition there is one job more.
    let jobs = usize::from(outcome.way == RetentionWay::DatabaseJob);
    assert_eq!(outcome.changed_policies, throughline_store::hypertables().count() + jobs);
    // The job would call it.
    client.batch_execute("CALL internal.expire()").await.unwrap();
    let rows = client.query_one("SELECT count(*) FROM internal.ib_port_counters", &[]).await.unwrap();
    assert_eq!(rows.get::<_, i64>(0), 3);
    let again = apply_retention(&client, &retention, Some(outcome.way)).await.unwrap();
    assert_eq!((again.way, again.dropped_chunks, again.changed_policies), (outcome.way, 0, 0));
    // 12, 16, 20 and 24 h ago; the chunk of 8 h ago is younger.
    assert_eq!((again.dropped_in_all, again.is_permitted), (4, true));
    // What is known is not queried again: where upkeep drops, no job is tried.
    let chunks = apply_retention(&client, &retention, Some(RetentionWay::Upkeep)).await.unwrap();
    assert_eq!((chunks.way, chunks.changed_policies), (RetentionWay::Upkeep, 0));
}
