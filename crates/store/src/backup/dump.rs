//! Making a backup: the snapshot, the dump and the sums of its rows beside each other, and the manifest at the end.

use std::future::Future;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio_postgres::Client;

use super::files::{self, DUMP};
use super::manifest::{BACKUP_REMEDY, Manifest, TableContent};
use super::{BackupProgress, ClientPrograms, content};
use crate::backup_lock;
use crate::database::Database;
use crate::edition::edition;
use crate::error::Error;
use crate::probe::database_versions;

/// How long pg_dump waits for the lock of a table that somebody changes.
const LOCK_WAIT: &str = "--lock-wait-timeout=120s";

/// Packed rows hardly shrink, and the fastest step takes most of what the others do.
const COMPRESSION: &str = "--compress=1";

/// A backup that was made.
#[derive(Clone, Debug, PartialEq)]
pub struct BackupMade {
    /// What is in it.
    pub manifest: Manifest,
    /// How long it took.
    pub took: Duration,
}

/// Makes a backup of a database in a folder that is empty or not there, while others write to it. `stop` ends it; nothing of it stays then.
///
/// # Errors
/// The folder is not empty, or can't be written; another backup is in progress; the database is away, or was lost meanwhile.
pub async fn back_up(
    database: &Database,
    programs: &ClientPrograms,
    folder: &Path,
    progress: &BackupProgress,
    stop: impl Future<Output = ()>,
) -> Result<BackupMade, Error> {
    files::prepare_folder(folder)?;
    let made = tokio::select! {
        made = make(database, programs, folder, progress) => made,
        () = stop => Err(Error::Backup("the backup was stopped: nothing of it is left".to_owned())),
    };
    made.map_err(|error| {
        files::remove_incomplete(folder);
        of_folder(error, folder)
    })
}

/// The disk that is full is the backup's.
fn of_folder(error: Error, folder: &Path) -> Error {
    let Error::Full { what, place, .. } = &error else { return error };
    if what != "pg_dump" || !place.is_empty() {
        return error;
    }
    let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
    Error::io("write the backup into", folder, BACKUP_REMEDY)(full)
}

async fn make(
    database: &Database,
    programs: &ClientPrograms,
    folder: &Path,
    progress: &BackupProgress,
) -> Result<BackupMade, Error> {
    const WHAT: &str = "taking the snapshot of a backup";
    let begun = Instant::now();
    let client = database.connect_admin().await?;
    let versions = database_versions(&client).await?;
    let (Some(schema), Some(timescaledb)) = (versions.schema, versions.timescaledb) else {
        return Err(Error::Schema(format!(
            "the database {} has no tables of ours: there is nothing to back up",
            database.place()
        )));
    };
    let edition = edition(&client).await?;
    progress.begin("waiting for upkeep");
    backup_lock::lock(&client).await?;
    // Nothing of the session but this may write, and each look is at the same rows.
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
    client.batch_execute(begin).await.map_err(Error::sql(WHAT))?;
    let row = client.query_one("SELECT pg_export_snapshot()", &[]).await.map_err(Error::sql(WHAT))?;
    let (snapshot, taken_at): (String, String) = (row.get(0), now());
    let (owner, roles) = roles(&client).await?;
    progress.begin("writing");
    progress.expect_tables(tables(&client).await?);
    let dump = dump(database, programs, folder, &snapshot, progress);
    let (tables, ()) = tokio::try_join!(content::read(&client, progress), dump)?;
    // The session that kept upkeep away lived until here.
    client.batch_execute("COMMIT").await.map_err(Error::sql("ending the snapshot of a backup"))?;
    drop(client);
    progress.begin("reading what was written");
    let files = {
        let folder = folder.to_owned();
        let list = tokio::task::spawn_blocking(move || files::list(&folder)).await;
        list.map_err(|error| Error::Backup(error.to_string()))??
    };
    let manifest = Manifest {
        format: Manifest::format(),
        throughline: env!("CARGO_PKG_VERSION").to_owned(),
        taken_at,
        completed_at: now(),
        postgresql: versions.postgresql,
        timescaledb,
        edition,
        schema,
        database_bytes: versions.bytes.unsigned_abs(),
        owner,
        roles,
        dump_bytes: files.iter().map(|file| file.bytes).sum(),
        files,
        tables: ordered(tables),
    };
    manifest.write(folder)?;
    Ok(BackupMade { manifest, took: begun.elapsed() })
}

async fn dump(
    database: &Database,
    programs: &ClientPrograms,
    folder: &Path,
    snapshot: &str,
    progress: &BackupProgress,
) -> Result<(), Error> {
    let arguments = [
        "--format=directory".to_owned(),
        format!("--file={}", folder.join(DUMP).display()),
        format!("--snapshot={snapshot}"),
        COMPRESSION.to_owned(),
        LOCK_WAIT.to_owned(),
        "--no-password".to_owned(),
        "--verbose".to_owned(),
    ];
    programs.run("pg_dump", &arguments, database, "dumping contents of table", progress).await
}

fn ordered(mut tables: Vec<TableContent>) -> Vec<TableContent> {
    tables.sort_by(|one, other| one.table.cmp(&other.table));
    tables
}

/// The owner of our tables, and all roles that own something here or have rights on it.
async fn roles(client: &Client) -> Result<(String, Vec<String>), Error> {
    let query = "
        SELECT (SELECT nspowner::regrole::text FROM pg_namespace WHERE nspname = 'internal'),
            ARRAY(SELECT DISTINCT r.rolname::text FROM pg_shdepend s JOIN pg_roles r ON s.refclassid = 'pg_authid'::regclass AND r.oid = s.refobjid
                  WHERE s.dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) ORDER BY 1)";
    let row = client.query_one(query, &[]).await.map_err(Error::sql("reading who owns the tables"))?;
    Ok((row.get(0), row.get(1)))
}

/// How many tables with rows of their own pg_dump will report: chunks, and tables that are none.
async fn tables(client: &Client) -> Result<u64, Error> {
    let query = "SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relnamespace IN \
                 ('internal'::regnamespace, '_timescaledb_internal'::regnamespace)";
    let row = client.query_one(query, &[]).await.map_err(Error::sql("counting tables"))?;
    Ok(row.get::<_, i64>(0).unsigned_abs())
}

/// RFC 3339, UTC.
fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    throughline_sample::to_rfc3339(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}
