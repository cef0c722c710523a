//! Restoring: an empty database with the dump's version of TimescaleDB, filled by `pg_restore` between `timescaledb_pre_restore` and
//! `timescaledb_post_restore`. A database in which this was stopped stays marked by TimescaleDB's own setting, and `migrate` refuses it.

use std::future::Future;
use std::path::Path;
use std::time::{Duration, Instant};

use tokio_postgres::Client;

use super::files::{DUMP, check_files};
use super::{BackupProgress, ClientPrograms, Manifest};
use crate::cluster::{ClusterStatus, Lifetime, PrivateCluster};
use crate::database::{Database, WRITE_ROLE};
use crate::edition::edition;
use crate::error::Error;

const WHAT: &str = "restoring a backup";

/// A database that was restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// Its owner.
    pub owner: String,
    /// Roles of the backup that the server has not: what they could do is not restored.
    pub roles_missing: Vec<String>,
    /// How long it took.
    pub took: Duration,
}

/// Makes the private cluster of a state folder that has none, restores into it, and stops it. Where that does not succeed, or `stop` ends it,
/// the cluster is removed again.
///
/// # Errors
/// The state folder has a database; the backup is damaged, or not for this installation.
pub async fn restore_cluster(
    cluster: &PrivateCluster,
    folder: &Path,
    manifest: &Manifest,
    progress: &BackupProgress,
    stop: impl Future<Output = ()>,
) -> Result<Restored, Error> {
    if cluster.status() != ClusterStatus::Absent {
        return Err(Error::Place(format!(
            "{} has a database, and a restore makes a new one: name another folder with --state-dir, or move it away",
            cluster.folder().display()
        )));
    }
    let programs = ClientPrograms::of(cluster.installation())?;
    check(folder, manifest).await?;
    let work = async {
        progress.begin("making the cluster");
        cluster.start(Lifetime::WithCaller).await?;
        let database = cluster.make_database().await?;
        fill(&database, WRITE_ROLE, &programs, folder, manifest, progress).await
    };
    let restored = or_stopped(work, stop).await;
    let stopped = cluster.stop_own().await;
    let restored = restored.map_err(|error| error.at(&cluster.database()));
    if restored.is_err() {
        cluster.remove_data()?;
    }
    stopped.and(restored)
}

/// Restores into an empty database of a server that somebody operates, by a superuser's login.
///
/// # Errors
/// The database is not empty, or the login may not restore; the backup is damaged, or not for this server.
pub async fn restore(
    database: &Database,
    programs: &ClientPrograms,
    folder: &Path,
    manifest: &Manifest,
    progress: &BackupProgress,
    stop: impl Future<Output = ()>,
) -> Result<Restored, Error> {
    let owner = {
        let client = database.connect_admin().await?;
        check_empty(&client, database).await?
    };
    check(folder, manifest).await?;
    let work = fill(database, &owner, programs, folder, manifest, progress);
    or_stopped(work, stop).await.map_err(|error| {
        Error::Backup(format!(
            "{error}. The database {} is filled in part: drop it and create it again before another try",
            database.place()
        ))
    })
}

async fn or_stopped(
    work: impl Future<Output = Result<Restored, Error>>,
    stop: impl Future<Output = ()>,
) -> Result<Restored, Error> {
    tokio::select! {
        done = work => done,
        () = stop => Err(Error::Backup("the restore was stopped".to_owned())),
    }
}

/// Whether the files are as the manifest says.
async fn check(folder: &Path, manifest: &Manifest) -> Result<(), Error> {
    let (of, files) = (folder.to_owned(), manifest.clone());
    let wrong = tokio::task::spawn_blocking(move || check_files(&of, &files)).await;
    let wrong = wrong.map_err(|error| Error::Backup(error.to_string()))??;
    match wrong.first() {
        None => Ok(()),
        Some(first) => Err(Error::Backup(format!(
            "the backup in {} is damaged: {first}{}; restore another one",
            folder.display(),
            if wrong.len() > 1 { format!(", and {} more", wrong.len() - 1) } else { String::new() }
        ))),
    }
}

/// The owner of a database that has nothing.
async fn check_empty(client: &Client, database: &Database) -> Result<String, Error> {
    let query = "
        SELECT d.datdba::regrole::text, (SELECT rolsuper FROM pg_roles WHERE rolname = current_user),
            EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                    WHERE n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast') AND NOT EXISTS (
                        SELECT FROM pg_depend e WHERE e.classid = 'pg_class'::regclass AND e.objid = c.oid AND e.deptype IN ('e', 'i', 'a')
                        UNION ALL SELECT FROM pg_depend e WHERE e.classid = 'pg_namespace'::regclass AND e.objid = n.oid AND e.deptype = 'e'))
        FROM pg_database d WHERE d.datname = current_database()";
    let row = client.query_one(query, &[]).await.map_err(Error::sql(WHAT))?;
    let (owner, is_superuser, has_tables): (String, bool, bool) = (row.get(0), row.get(1), row.get(2));
    if has_tables {
        return Err(Error::Place(format!(
            "the database {} is not empty, and a restore fills an empty one: CREATE DATABASE another and name it with --database-url",
            database.place()
        )));
    }
    if !is_superuser {
        return Err(Error::Permission {
            what: format!("restoring into the database {}", database.place()),
            cause: format!(
                "{} is no superuser, and TimescaleDB's catalogue is written by one only; name a superuser's login with \
                 --database-url: what is restored belongs to the database's owner {owner}",
                database.user()
            ),
        });
    }
    Ok(owner)
}

async fn fill(
    database: &Database,
    owner: &str,
    programs: &ClientPrograms,
    folder: &Path,
    manifest: &Manifest,
    progress: &BackupProgress,
) -> Result<Restored, Error> {
    let begun = Instant::now();
    progress.begin("restoring");
    create_extension(database, manifest).await?;
    let client = database.connect_admin().await?;
    manifest.check(folder, edition(&client).await?, programs.major)?;
    crate::edition::check(&client, database.place()).await?;
    let stand_in = stand_in_owner(&client, &manifest.owner, owner, database).await?;
    let roles_missing = missing_roles(&client, manifest).await?;
    let before = "SELECT public.timescaledb_pre_restore()";
    client.query(before, &[]).await.map_err(Error::sql(WHAT))?;
    progress.expect_tables(
        manifest.files.iter().filter(|file| file.name.ends_with(".gz") || file.name.ends_with(".dat")).count()
            as u64,
    );
    let mut arguments = vec![
        format!("--dbname={}", database.name()),
        "--exit-on-error".to_owned(),
        "--no-password".to_owned(),
        "--verbose".to_owned(),
    ];
    if !roles_missing.is_empty() {
        arguments.push("--no-privileges".to_owned());
    }
    arguments.push(folder.join(DUMP).display().to_string());
    programs.run("pg_restore", &arguments, database, "processing data for table", progress).await?;
    finish(&client, stand_in.then_some((manifest.owner.as_str(), owner)), progress).await?;
    Ok(Restored { owner: owner.to_owned(), roles_missing, took: begun.elapsed() })
}

/// What is left to do before anybody may use the database.
async fn finish(
    client: &Client,
    handed: Option<(&str, &str)>,
    progress: &BackupProgress,
) -> Result<(), Error> {
    // The permission to drop was given for the clock of the moment of the backup.
    let permission = "UPDATE internal.clock_check SET permitted_until = '-infinity'";
    client.execute(permission, &[]).await.map_err(Error::sql(WHAT))?;
    if let Some((from, to)) = handed {
        let (from, to) = (quoted(from), quoted(to));
        let give = format!("REASSIGN OWNED BY {from} TO {to}; DROP OWNED BY {from}; DROP ROLE {from}");
        client.batch_execute(&give).await.map_err(Error::sql("giving the tables to their owner"))?;
    }
    // How many rows there are is in no dump, and plans without it are slow.
    progress.begin("collecting statistics");
    client.batch_execute("ANALYZE").await.map_err(Error::sql("collecting statistics"))?;
    let after = "SELECT public.timescaledb_post_restore()";
    client.query(after, &[]).await.map(drop).map_err(Error::sql(WHAT))
}

/// The extension in the dump's version: its catalogue is of that version. A later start updates it.
async fn create_extension(database: &Database, manifest: &Manifest) -> Result<(), Error> {
    let client = database.connect_admin().await?;
    let query = "SELECT (SELECT extversion FROM pg_extension WHERE extname = 'timescaledb'),
                    ARRAY(SELECT version FROM pg_available_extension_versions WHERE name = 'timescaledb' ORDER BY 1)";
    let row = client.query_one(query, &[]).await.map_err(Error::sql(WHAT))?;
    let (present, available): (Option<String>, Vec<String>) = (row.get(0), row.get(1));
    let wanted = &manifest.timescaledb;
    match present {
        Some(present) if present == *wanted => return Ok(()),
        Some(present) => {
            return Err(Error::Backup(format!(
                "the database {} has TimescaleDB {present}, and the backup is of {wanted}, whose catalogue no other version reads: \
                 create the database again, without the extension",
                database.place()
            )));
        }
        None if available.contains(wanted) => {}
        None => {
            let available = available.last().map_or("none", String::as_str);
            return Err(Error::Backup(format!(
                "the backup is of TimescaleDB {wanted}, whose catalogue no other version reads, and the newest here is {available}: \
                 install {wanted} (a newer package may have it beside its own), restore, and update it then"
            )));
        }
    }
    drop(client);
    // Creating it must be a session's first command.
    let session = database.connect_admin().await?;
    let create = format!("CREATE EXTENSION timescaledb SCHEMA public VERSION '{wanted}'");
    session.batch_execute(&create).await.map_err(Error::sql("setting up TimescaleDB"))
}

/// The dump gives tables to the role that had them. Where the server has no such role, one is made until they are the owner's;
/// whether it was.
async fn stand_in_owner(
    client: &Client,
    from: &str,
    owner: &str,
    database: &Database,
) -> Result<bool, Error> {
    if from == owner {
        return Ok(false);
    }
    let there = "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)";
    if client.query_one(there, &[&from]).await.map_err(Error::sql(WHAT))?.get(0) {
        return Err(Error::Place(format!(
            "the tables of the backup belong to the role {from}, and the database {} to {owner}: create it with OWNER {from}",
            database.place()
        )));
    }
    let make = format!("CREATE ROLE {} NOLOGIN", quoted(from));
    client.batch_execute(&make).await.map_err(Error::sql("making a role for the restore"))?;
    Ok(true)
}

/// Roles of the backup that the server has not.
async fn missing_roles(client: &Client, manifest: &Manifest) -> Result<Vec<String>, Error> {
    let query = "SELECT r FROM unnest($1::text[]) r WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = r) ORDER BY 1";
    let rows = client.query(query, &[&manifest.roles]).await.map_err(Error::sql(WHAT))?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

fn quoted(role: &str) -> String {
    format!("\"{}\"", role.replace('"', "\"\""))
}
