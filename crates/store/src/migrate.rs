//! Brings a database to the schema of this build, under an advisory lock: immutable SQL that changes tables, each step
//! applied once, then columns of metrics ([`crate::columns`]), then functions and views ([`crate::schema`]). Comments
//! of metric columns come from the catalogue.

use std::time::{Duration, Instant};

use tokio_postgres::{Client, Row, Transaction};

use throughline_sample::catalogue::{Kind, Table};

use crate::columns;
use crate::database::Database;
use crate::error::Error;
use crate::schema::{Fault, LOCK_LIMIT, install, readers_of_views};

/// Number of the advisory lock that one migrating process holds: "tlmigrat" as ASCII.
const MIGRATION_LOCK: i64 = 0x746c_6d69_6772_6174;

/// How long [`migrate`] waits for others that use what it changes: longer than any statement of the reading role
/// (`READ_SECONDS_MAX`), tried again after a pause each.
const BUSY_LIMIT: Duration = Duration::from_secs(600);
const BUSY_PAUSE: Duration = Duration::from_millis(200);

/// How often sessions of people that last too long are ended meanwhile: upkeep, which does it otherwise, may not have begun.
const READS_PAUSE: Duration = Duration::from_secs(10);

/// One step of the tables. A released step is never edited; a change of the schema is a new one.
#[derive(Clone, Copy)]
pub(crate) struct Migration {
    pub version: i32,
    pub name: &'static str,
    pub sql: &'static str,
}

impl Migration {
    fn what(&self) -> String {
        format!("migration {} ({})", self.version, self.name)
    }
}

/// The files of the first step, which makes all tables. It may be edited until 0.1.0 is tagged.
macro_rules! baseline {
    ($($name:literal),+) => {
        concat!($(include_str!(concat!("../migrations/V001__baseline/", $name, ".sql"))),+)
    };
}

/// All migrations, in order.
pub(crate) const MIGRATIONS: &[Migration] = &[Migration {
    version: 1,
    name: "baseline",
    sql: baseline!(
        "inventory",
        "jobs",
        "finals",
        "links",
        "mpi",
        "reports",
        "rollups",
        "detail",
        "bookkeeping",
        "clocks"
    ),
}];

/// What a call of [`migrate`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migrated {
    /// Migrations applied now.
    pub applied: usize,
    /// Functions and views created, replaced or removed now.
    pub objects: usize,
    /// The schema's version after the call.
    pub version: i32,
}

/// The schema version that this build needs.
pub fn schema_version() -> i32 {
    MIGRATIONS[MIGRATIONS.len() - 1].version
}

/// Applies what is missing; calling it again changes nothing. Any number of processes may call it at a time.
///
/// # Errors
/// TimescaleDB is not installed on the server, the schema is newer than this build, or an applied migration is
/// not the one that this build knows.
pub async fn migrate(database: &Database) -> Result<Migrated, Error> {
    migrate_to(database, MIGRATIONS).await
}

/// [`migrate`] with these migrations.
pub(crate) async fn migrate_to(database: &Database, migrations: &[Migration]) -> Result<Migrated, Error> {
    let known = migrations.last().map_or(0, |migration| migration.version);
    let mut client = database.connect().await?;
    let what = format!("migrating the database {}", database.place());
    client.execute("SELECT pg_advisory_lock($1)", &[&MIGRATION_LOCK]).await.map_err(Error::sql(&what))?;
    // The lock ends with the session, that is when `client` goes.
    create_extension(&client).await?;
    refuse_half_restored(&client, database.place()).await?;
    crate::edition::check(&client, database.place()).await?;
    refuse_earlier_build(&client, database.place()).await?;
    let create = "CREATE SCHEMA IF NOT EXISTS internal; \
                  CREATE TABLE IF NOT EXISTS internal.schema_migrations (version integer PRIMARY KEY, name text NOT NULL, \
                      checksum text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())";
    client
        .batch_execute(&format!("SET client_min_messages = warning; {create}"))
        .await
        .map_err(Error::sql(&what))?;
    let done = client
        .query("SELECT version, checksum FROM internal.schema_migrations ORDER BY version", &[])
        .await
        .map_err(Error::sql(&what))?;
    let pending = pending(&client, &done, migrations, database.place(), &what).await?;
    if let Some(newest) = done.last().map(|row| row.get::<_, i32>(0)).filter(|version| *version > known) {
        return Err(Error::Schema(format!(
            "the database {} has schema version {newest}, and this program knows {known}: use a newer throughline",
            database.place(),
        )));
    }
    let objects = apply_with_objects(&mut client, &pending, database).await?;
    write_comments(&client).await?;
    if !database.is_private() {
        crate::reading::check_at_start(database, &client).await?;
    }
    crate::reading::grant_reading(&client).await?;
    crate::reading::restrict(&client).await?;
    Ok(Migrated { applied: pending.len(), objects, version: known })
}

/// TimescaleDB marks a database from the begin of a restore to its end.
async fn refuse_half_restored(client: &Client, place: &str) -> Result<(), Error> {
    let row = client.query_one("SELECT current_setting('timescaledb.restoring', true) = 'on'", &[]).await;
    let is_marked: Option<bool> = row.map_err(Error::sql("looking for a restore in progress"))?.get(0);
    if is_marked != Some(true) {
        return Ok(());
    }
    Err(Error::Schema(format!(
        "the database {place} is being restored, or a restore of it was stopped: wait until that has ended, or remove the database and \
         restore it again"
    )))
}

/// Builds from before 0.1.0 had their tables in the schema public.
async fn refuse_earlier_build(client: &Client, place: &str) -> Result<(), Error> {
    let row = client.query_one("SELECT to_regclass('public.schema_migrations') IS NOT NULL", &[]).await;
    let is_earlier: bool = row.map_err(Error::sql("looking for tables of an earlier build"))?.get(0);
    if is_earlier { Err(earlier_build(place)) } else { Ok(()) }
}

fn earlier_build(place: &str) -> Error {
    Error::Schema(format!(
        "the database {place} was made by a build from before 0.1.0, whose tables this program cannot take over: \
         open it with that build, or begin an empty database (--state-dir with a folder that has none, or another \
         database on your server)"
    ))
}

/// The migrations that the database does not have, with their checksums.
async fn pending(
    client: &Client,
    done: &[Row],
    migrations: &[Migration],
    place: &str,
    what: &str,
) -> Result<Vec<(Migration, String)>, Error> {
    let mut pending = Vec::new();
    for migration in migrations {
        let checksum = client
            .query_one("SELECT md5($1)", &[&migration.sql])
            .await
            .map_err(Error::sql(what))?
            .get::<_, String>(0);
        match done.iter().find(|row| row.get::<_, i32>(0) == migration.version) {
            Some(row) if row.get::<_, String>(1) == checksum => {}
            Some(_) if migration.version == 1 => return Err(earlier_build(place)),
            Some(_) => {
                return Err(Error::Schema(format!(
                    "migration {} ({}) of the database {place} is not the one that this program knows: it was made \
                     by another build. Use that build, or begin an empty database",
                    migration.version, migration.name,
                )));
            }
            None => pending.push((*migration, checksum)),
        }
    }
    Ok(pending)
}

async fn apply(
    transaction: &Transaction<'_>,
    migration: &Migration,
    checksum: &str,
) -> Result<(), tokio_postgres::Error> {
    transaction.batch_execute(migration.sql).await?;
    let insert = "INSERT INTO internal.schema_migrations (version, name, checksum) VALUES ($1, $2, $3)";
    transaction.execute(insert, &[&migration.version, &migration.name, &checksum]).await?;
    Ok(())
}

/// Applies migrations, functions and views in one transaction, as often as it takes until nobody else holds what it
/// changes. Returns the number of functions and views changed.
async fn apply_with_objects(
    client: &mut Client,
    migrations: &[(Migration, String)],
    database: &Database,
) -> Result<usize, Error> {
    let (start, mut is_reported, place) = (Instant::now(), false, database.place());
    let mut reads_ended = start;
    loop {
        let refusal = match try_with_objects(client, migrations).await {
            Ok(objects) => return Ok(objects),
            Err(Fault::Failed(error)) => return Err(error),
            Err(Fault::Busy(refusal)) => refusal,
        };
        let readers = readers_of_views(client).await.join(", ");
        if start.elapsed() >= BUSY_LIMIT {
            return Err(Error::Schema(format!(
                "the schema of the database {place} could not be changed for {} s, because others use it ({refusal}); \
                 end these sessions and start again: {readers}",
                BUSY_LIMIT.as_secs()
            )));
        }
        if !is_reported && start.elapsed() > BUSY_PAUSE * 10 {
            tracing::info!(%refusal, readers, "waiting for sessions that use what an upgrade of the schema changes");
            is_reported = true;
        }
        if reads_ended.elapsed() >= READS_PAUSE {
            end_long_reads(database).await;
            reads_ended = Instant::now();
        }
        tokio::time::sleep(BUSY_PAUSE).await;
    }
}

/// A reader that lasts for ever must not keep an upgrade from its lock.
async fn end_long_reads(database: &Database) {
    let work = async {
        let admin = database.connect_admin().await?;
        crate::reading::end_long_reads(&admin, crate::reading::ReadBounds::default()).await
    };
    match work.await {
        Ok(ended) if ended.is_empty() => {}
        Ok(ended) => {
            tracing::warn!(sessions = ended.len(), "sessions of readers lasted too long and are ended")
        }
        Err(error) => tracing::debug!(%error, "sessions of readers are not ended"),
    }
}

async fn try_with_objects(client: &mut Client, migrations: &[(Migration, String)]) -> Result<usize, Fault> {
    let what = "changing the schema";
    let transaction = client.transaction().await.map_err(Fault::sql(what))?;
    let limit = format!("SET LOCAL lock_timeout = '{LOCK_LIMIT}'");
    transaction.batch_execute(&limit).await.map_err(Fault::sql(what))?;
    for (migration, checksum) in migrations {
        apply(&transaction, migration, checksum).await.map_err(Fault::sql(&migration.what()))?;
    }
    columns::add_missing(&transaction).await.map_err(Fault::sql("adding columns of metrics"))?;
    let objects = install(&transaction).await?;
    transaction.commit().await.map_err(Fault::sql(what))?;
    Ok(objects)
}

async fn create_extension(client: &Client) -> Result<(), Error> {
    let present = "SELECT 1 FROM pg_extension WHERE extname = 'timescaledb'";
    let what = "looking for TimescaleDB";
    if client.query_opt(present, &[]).await.map_err(Error::sql(what))?.is_some() {
        return Ok(());
    }
    client.batch_execute("CREATE EXTENSION IF NOT EXISTS timescaledb SCHEMA public").await.map_err(|error| {
        match Error::from_postgres("creating the extension timescaledb", &error) {
            Error::Refused { what, cause, state } => Error::Refused {
                what,
                cause: format!(
                    "{cause}; install TimescaleDB on the server, name it in shared_preload_libraries, and let \
                     its administrator run CREATE EXTENSION timescaledb in this database"
                ),
                state,
            },
            other => other,
        }
    })
}

/// The comment of a metric's column: meaning, kind, unit, origin.
pub(crate) fn metric_comment(metric: &throughline_sample::catalogue::Metric) -> String {
    // A reader who sums a counter's rows gets a wrong result: the comment of the column warns of it.
    let kind = match metric.kind {
        Kind::Counter => "Cumulative since epoch",
        Kind::Gauge => "As of time",
    };
    format!("{} {kind}. Unit: {}. Origin: {}.", metric.help, metric.unit.name(), metric.origin)
}

/// Writes the catalogue's meaning of each metric to its column, where it differs.
async fn write_comments(client: &Client) -> Result<(), Error> {
    let what = "writing the comments of columns";
    let current = client
        .query(
            "SELECT c.relname, a.attname, col_description(c.oid, a.attnum) FROM pg_class c \
             JOIN pg_attribute a ON a.attrelid = c.oid WHERE c.relnamespace = 'internal'::regnamespace \
             AND c.relkind IN ('r', 'v') AND a.attnum > 0 AND NOT a.attisdropped",
            &[],
        )
        .await
        .map_err(Error::sql(what))?;
    let mut statements = String::new();
    // self_stats holds names in a column, not columns of names.
    for table in Table::ALL.into_iter().filter(|table| *table != Table::SelfStats) {
        for metric in table.metrics() {
            let comment = metric_comment(metric);
            let is_there = current.iter().any(|row| {
                row.get::<_, &str>(0) == table.name()
                    && row.get::<_, &str>(1) == metric.name
                    && row.get::<_, Option<&str>>(2) == Some(&comment)
            });
            if !is_there {
                let text = comment.replace('\'', "''");
                statements.push_str(&format!(
                    "COMMENT ON COLUMN internal.{}.{} IS '{text}';\n",
                    table.name(),
                    metric.name
                ));
            }
        }
    }
    client.batch_execute(&statements).await.map_err(Error::sql(what))
}
