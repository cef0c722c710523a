//! Backups: what is dumped under load is what is restored, upkeep waits meanwhile, and what is stopped or damaged is no backup.

use std::fs;
use std::future::pending;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::batches::{batch_of_everything, entry, port_batch};
use crate::cluster::State;
use throughline_store::{
    BackupMade, BackupProgress, ClientPrograms, ClusterStatus, Database, Lifetime, Manifest, PrivateCluster,
    Restored, Retention, Writer, apply_retention, back_up, check_files, is_backup_running, migrate,
    move_hours, restore, restore_cluster, testing, thin_chunks, verify,
};
use tokio_postgres::Client;
use uuid::Uuid;

const HOUR: Duration = Duration::from_secs(3600);

/// Readings and rows of ranks of the last three days, by the clock of the database.
const OLD_ROWS: &str = "
    INSERT INTO internal.ib_port_counters (time, port_id, epoch, source)
        SELECT now() - make_interval(mins => m * 7), 1, now(), 'mad' FROM generate_series(1, 600) m;
    INSERT INTO internal.coverage (time, instance, source, expected, read, failed, elapsed_seconds)
        SELECT now() - make_interval(mins => m * 7), 'n', 's', 1, 1, 0, 0.1 FROM generate_series(1, 600) m";

/// A database with something in each table.
async fn filled() -> Database {
    let database = testing::database().await;
    Writer::new(database.clone()).write(&[entry(Uuid::new_v4(), 1, batch_of_everything())]).await.unwrap();
    database.connect().await.unwrap().batch_execute(OLD_ROWS).await.unwrap();
    database
}

/// A day, and rows at the full rate for two hours.
fn short() -> Retention {
    Retention::for_all(24 * HOUR).with_rows(2 * HOUR)
}

async fn made(database: &Database, folder: &Path) -> BackupMade {
    let programs = ClientPrograms::for_server(database, None).await.unwrap();
    back_up(database, &programs, folder, &BackupProgress::default(), pending()).await.unwrap()
}

async fn restored(into: &Database, folder: &Path) -> Result<Restored, String> {
    let programs = ClientPrograms::for_server(into, None).await.unwrap();
    let manifest = Manifest::read(folder).map_err(|error| error.to_string())?;
    let done = restore(into, &programs, folder, &manifest, &BackupProgress::default(), pending()).await;
    done.map_err(|error| error.to_string())
}

/// Whether a database has what a backup has, and where not.
async fn differences(database: &Database, folder: &Path) -> Vec<String> {
    let manifest = Manifest::read(folder).unwrap();
    let verified = verify(database, &manifest, &BackupProgress::default()).await.unwrap();
    let different = verified.tables.iter().filter(|table| !table.is_equal());
    different.map(|table| format!("{table:?}")).collect()
}

async fn count(client: &Client, query: &str) -> i64 {
    client.query_one(query, &[]).await.unwrap().get(0)
}

const CHUNKS: &str = "SELECT count(*) FROM timescaledb_information.chunks";

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_backup_under_load_is_restored_as_it_was_and_retention_goes_on() {
    let (database, folder) = (filled().await, tempfile::tempdir().unwrap());
    let folder = folder.path().join("new/backup");
    let load = tokio::spawn({
        let database = database.clone();
        async move {
            let mut writer = Writer::new(database);
            for n in 1.. {
                writer.write(&[entry(Uuid::new_v4(), n, port_batch(n, 40))]).await.unwrap();
            }
        }
    });
    let upkeep = tokio::spawn({
        let database = database.clone();
        async move {
            let mut client = database.connect().await.unwrap();
            loop {
                client.batch_execute(OLD_ROWS).await.unwrap();
                apply_retention(&client, &short(), None).await.unwrap();
                client.batch_execute("CALL internal.expire()").await.unwrap();
                thin_chunks(&mut client, &short(), HOUR).await.unwrap();
                move_hours(&mut client, &short()).await.unwrap();
            }
        }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let backup = made(&database, &folder).await;
    assert!(!load.is_finished() && !upkeep.is_finished(), "{load:?} {upkeep:?}");
    load.abort();
    upkeep.abort();
    assert!(backup.manifest.rows() > 300, "{}", backup.manifest.rows());
    assert_eq!(Manifest::read(&folder).unwrap(), backup.manifest);
    assert!(!differences(&database, &folder).await.is_empty(), "it went on");

    let into = testing::empty_database().await;
    let done = restored(&into, &folder).await.unwrap();
    assert_eq!((done.owner.as_str(), &done.roles_missing[..]), ("throughline", &[][..]));
    assert_eq!(differences(&into, &folder).await, [""; 0]);
    // A server starts on it, and nothing is dropped before its clock is believed.
    migrate(&into).await.unwrap();
    let client = into.connect().await.unwrap();
    client.batch_execute(OLD_ROWS).await.unwrap();
    let before = count(&client, CHUNKS).await;
    let outcome = apply_retention(&client, &short(), None).await.unwrap();
    client.batch_execute("CALL internal.expire()").await.unwrap();
    assert!(!outcome.is_permitted && count(&client, CHUNKS).await == before);
    testing::trust_clock(&client).await;
    client.batch_execute("CALL internal.expire()").await.unwrap();
    assert!(count(&client, CHUNKS).await < before, "{before}");
    Writer::new(into.clone()).write(&[entry(Uuid::new_v4(), 1, port_batch(1, 3))]).await.unwrap();
}

#[tokio::test]
async fn chunks_stay_while_a_backup_is_in_progress() {
    let database = filled().await;
    let mut client = database.connect().await.unwrap();
    apply_retention(&client, &Retention::for_all(1000 * 24 * HOUR), None).await.unwrap();
    let before = count(&client, CHUNKS).await;
    let backup = database.connect().await.unwrap();
    backup.batch_execute("SELECT pg_advisory_lock(x'746c6261636b7570'::bigint)").await.unwrap();
    assert!(is_backup_running(&client).await.unwrap());
    let other = database.connect_admin().await.unwrap();
    for _ in 0..2 {
        apply_retention(&client, &short(), None).await.unwrap();
        client
            .batch_execute("CALL internal.expire(); SELECT internal.expire_table('ib_port_counters')")
            .await
            .unwrap();
        let thinned = thin_chunks(&mut client, &short(), HOUR).await.unwrap();
        assert_eq!((thinned.chunks, move_hours(&mut client, &short()).await.unwrap()), (0, 0));
        assert_eq!(count(&client, CHUNKS).await, before);
    }
    // A second one is refused, not waited for.
    let (programs, folder) =
        (ClientPrograms::for_server(&database, None).await.unwrap(), tempfile::tempdir().unwrap());
    let second = back_up(&database, &programs, folder.path(), &BackupProgress::default(), pending()).await;
    assert!(second.unwrap_err().to_string().contains("another backup of this database is in progress"));
    // The lock is the session's.
    drop(backup);
    while is_backup_running(&other).await.unwrap() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let thinned = thin_chunks(&mut client, &short(), HOUR).await.unwrap();
    client.batch_execute("CALL internal.expire()").await.unwrap();
    assert!(thinned.chunks > 0 && count(&client, CHUNKS).await < before, "{thinned:?} {before}");
}

#[tokio::test]
async fn one_at_a_time_rewrites_a_chunk() {
    let database = filled().await;
    let (mut one, other) = (database.connect().await.unwrap(), database.connect().await.unwrap());
    let chunk: String = one
        .query_one(
            "SELECT show_chunks::text FROM public.show_chunks('internal.coverage') ORDER BY 1 LIMIT 1",
            &[],
        )
        .await
        .unwrap()
        .get(0);
    let locked = format!("SELECT internal.try_lock_chunk('{chunk}')");
    let transaction = one.transaction().await.unwrap();
    assert!(transaction.query_one(&locked, &[]).await.unwrap().get::<_, bool>(0));
    assert!(!other.query_one(&locked, &[]).await.unwrap().get::<_, bool>(0));
    assert!(other.query_one("SELECT internal.try_lock_chunks()", &[]).await.unwrap().get::<_, bool>(0));
    // Nor is it dropped, or what is behind it, before that is over: who drops would wait for who reads it, and the other way round.
    apply_retention(&other, &Retention::for_all(1000 * 24 * HOUR), None).await.unwrap();
    other.batch_execute("UPDATE internal.retention_policy SET keep = '-1 year'").await.unwrap();
    let expire = "SELECT internal.expire_table('coverage')";
    assert_eq!(other.query_one(expire, &[]).await.unwrap().get::<_, i64>(0), 0);
    transaction.rollback().await.unwrap();
    assert!(other.query_one(&locked, &[]).await.unwrap().get::<_, bool>(0));
    assert!(other.query_one(expire, &[]).await.unwrap().get::<_, i64>(0) > 0);
}

#[tokio::test]
async fn a_stopped_backup_is_no_backup() {
    let (database, folder) = (filled().await, tempfile::tempdir().unwrap());
    let programs = ClientPrograms::for_server(&database, None).await.unwrap();
    let progress = BackupProgress::default();
    let dump = folder.path().join("dump");
    let stop = async {
        while !dump.exists() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let error = back_up(&database, &programs, folder.path(), &progress, stop).await.unwrap_err().to_string();
    assert!(error.contains("stopped") && !dump.exists(), "{error}");
    assert!(Manifest::read(folder.path()).unwrap_err().to_string().contains("is no backup"));
    // Nobody is kept from chunks any more, and the folder serves for another.
    made(&database, folder.path()).await;
    let again =
        back_up(&database, &programs, folder.path(), &progress, pending()).await.unwrap_err().to_string();
    assert!(again.contains("is not empty") && again.contains("one that is not there yet"), "{again}");
}

/// The largest file of a dump.
fn largest(folder: &Path) -> PathBuf {
    let files = fs::read_dir(folder.join("dump")).unwrap().map(|file| file.unwrap().path());
    files.max_by_key(|file| file.metadata().unwrap().len()).unwrap()
}

#[tokio::test]
async fn a_damaged_backup_is_found_and_not_restored() {
    let (database, folder) = (filled().await, tempfile::tempdir().unwrap());
    let backup = made(&database, folder.path()).await;
    assert_eq!(check_files(folder.path(), &backup.manifest).unwrap(), [""; 0]);
    let file = largest(folder.path());
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, &bytes).unwrap();
    let wrong = check_files(folder.path(), &backup.manifest).unwrap();
    assert!(wrong.len() == 1 && wrong[0].contains("its checksum differs"), "{wrong:?}");
    let into = testing::empty_database().await;
    let error = restored(&into, folder.path()).await.unwrap_err();
    assert!(error.contains("is damaged") && error.contains("restore another one"), "{error}");
    fs::remove_file(&file).unwrap();
    assert!(restored(&into, folder.path()).await.unwrap_err().contains("is missing"));
    // Nothing was done to the database.
    migrate(&into).await.unwrap();
}

#[tokio::test]
async fn a_restore_needs_an_empty_database_and_one_that_was_stopped_is_refused() {
    let (database, folder) = (filled().await, tempfile::tempdir().unwrap());
    made(&database, folder.path()).await;
    let error = restored(&database, folder.path()).await.unwrap_err();
    assert!(error.contains("is not empty") && error.contains("--database-url"), "{error}");
    let into = testing::empty_database().await;
    let programs = ClientPrograms::for_server(&into, None).await.unwrap();
    let manifest = Manifest::read(folder.path()).unwrap();
    let progress = BackupProgress::default();
    let stop = async {
        while !progress.text().contains("1 of") && !progress.text().contains("2 of") {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let stopped = restore(&into, &programs, folder.path(), &manifest, &progress, stop).await;
    let error = stopped.unwrap_err().to_string();
    assert!(error.contains("was stopped") && error.contains("drop it"), "{error}");
    let error = migrate(&into).await.unwrap_err().to_string();
    assert!(error.contains("a restore of it was stopped"), "{error}");
}

#[tokio::test]
async fn a_new_private_cluster_is_made_of_a_backup() {
    let (database, folder) = (filled().await, tempfile::tempdir().unwrap());
    made(&database, folder.path()).await;
    let manifest = Manifest::read(folder.path()).unwrap();
    let (state, progress) = (State::new(), BackupProgress::default());
    let cluster = PrivateCluster::find(&state.options()).unwrap();
    let file = largest(folder.path());
    let (bytes, short) = (fs::read(&file).unwrap(), "gone");
    fs::write(&file, short).unwrap();
    let error = restore_cluster(&cluster, folder.path(), &manifest, &progress, pending()).await.unwrap_err();
    assert!(error.to_string().contains("is damaged"), "{error}");
    fs::write(&file, bytes).unwrap();
    let stopped = restore_cluster(&cluster, folder.path(), &manifest, &progress, async {
        while !progress.text().starts_with("restoring") {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    assert!(stopped.await.unwrap_err().to_string().contains("was stopped"));
    assert_eq!(cluster.status(), ClusterStatus::Absent, "nothing half done is left");

    restore_cluster(&cluster, folder.path(), &manifest, &progress, pending()).await.unwrap();
    assert_eq!(cluster.status(), ClusterStatus::Stopped);
    let again = restore_cluster(&cluster, folder.path(), &manifest, &progress, pending()).await.unwrap_err();
    assert!(again.to_string().contains("has a database"), "{again}");
    cluster.start(Lifetime::Detached).await.unwrap();
    assert_eq!(differences(&cluster.database(), folder.path()).await, [""; 0]);
    let (database, _) = cluster.run(Lifetime::Detached).await.unwrap();
    // Who reads may.
    let reader = database.connect_reader().await.unwrap();
    assert!(count(&reader, "SELECT count(*) FROM internal.coverage").await > 0);
    Writer::new(database).write(&[entry(Uuid::new_v4(), 1, port_batch(1, 3))]).await.unwrap();
}
