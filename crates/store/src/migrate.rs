//! Brings a database to the schema of this build, under an advisory lock: immutable SQL files that change tables, each
//! applied once, then columns of new metrics ([`crate::columns`]), then functions and views ([`crate::schema`]). Comments
//! of metric columns come from the catalogue.

use std::time::{Duration, Instant};

use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Row, Transaction};

use throughline_sample::catalogue::{Kind, Table};

use crate::columns;
use crate::database::READ_ROLE;
use crate::schema::{Fault, LOCK_LIMIT, install, readers_of_views};
use crate::{Database, Error};

/// Number of the advisory lock that one migrating process holds: "tlmigrat" as ASCII.
const MIGRATION_LOCK: i64 = 0x746c_6d69_6772_6174;

/// PostgreSQL ends a GRANT with "tuple concurrently updated" where somebody else changed the rights of a table at that
/// moment, as TimescaleDB does with each new chunk: tried again so many times, after a pause each.
const GRANT_RETRIES: usize = 20;
const GRANT_PAUSE: Duration = Duration::from_millis(100);

/// The last migration that creates functions or views. Older ones have a transaction each; later ones share one with
/// functions and views, so that nobody finds a table changed and a view not.
const LAST_WITH_OBJECTS: i32 = 21;

/// How long [`migrate`] waits for others that use what it changes: longer than any statement of the reading role
/// (`READ_STATEMENT_SECONDS_MAX`), tried again after a pause each.
const BUSY_LIMIT: Duration = Duration::from_secs(600);
const BUSY_PAUSE: Duration = Duration::from_millis(200);

/// One immutable SQL file.
struct Migration {
    version: i32,
    name: &'static str,
    sql: &'static str,
}

impl Migration {
    fn what(&self) -> String {
        format!("migration {} ({})", self.version, self.name)
    }
}

/// All migrations, in order. A released file is never edited; a change of the schema is a new file.
const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, name: "inventory", sql: include_str!("../migrations/V001__inventory.sql") },
    Migration { version: 2, name: "samples", sql: include_str!("../migrations/V002__samples.sql") },
    Migration { version: 3, name: "views", sql: include_str!("../migrations/V003__views.sql") },
    Migration { version: 4, name: "crawler_term", sql: include_str!("../migrations/V004__crawler_term.sql") },
    Migration { version: 5, name: "event_ends", sql: include_str!("../migrations/V005__event_ends.sql") },
    Migration {
        version: 6,
        name: "fabric_counters",
        sql: include_str!("../migrations/V006__fabric_counters.sql"),
    },
    Migration {
        version: 7,
        name: "mpi_dimensions",
        sql: include_str!("../migrations/V007__mpi_dimensions.sql"),
    },
    Migration { version: 8, name: "jobs", sql: include_str!("../migrations/V008__jobs.sql") },
    Migration { version: 9, name: "job_places", sql: include_str!("../migrations/V009__job_places.sql") },
    Migration { version: 10, name: "job_totals", sql: include_str!("../migrations/V010__job_totals.sql") },
    Migration { version: 11, name: "mpi_trace", sql: include_str!("../migrations/V011__mpi_trace.sql") },
    Migration {
        version: 12,
        name: "total_limits",
        sql: include_str!("../migrations/V012__total_limits.sql"),
    },
    Migration { version: 13, name: "gpu_health", sql: include_str!("../migrations/V013__gpu_health.sql") },
    Migration { version: 14, name: "gpu_pm", sql: include_str!("../migrations/V014__gpu_pm.sql") },
    Migration { version: 15, name: "gpu_sources", sql: include_str!("../migrations/V015__gpu_sources.sql") },
    Migration { version: 16, name: "minutes", sql: include_str!("../migrations/V016__minutes.sql") },
    Migration { version: 17, name: "multicast", sql: include_str!("../migrations/V017__multicast.sql") },
    Migration { version: 18, name: "wait_ratio", sql: include_str!("../migrations/V018__wait_ratio.sql") },
    Migration { version: 19, name: "blocks", sql: include_str!("../migrations/V019__blocks.sql") },
    Migration {
        version: 20,
        name: "longer_chunks",
        sql: include_str!("../migrations/V020__longer_chunks.sql"),
    },
    Migration { version: 21, name: "senders", sql: include_str!("../migrations/V021__senders.sql") },
    Migration {
        version: 22,
        name: "schema_objects",
        sql: include_str!("../migrations/V022__schema_objects.sql"),
    },
    Migration { version: 23, name: "row_rules", sql: include_str!("../migrations/V023__row_rules.sql") },
    Migration { version: 24, name: "mpi_traffic", sql: include_str!("../migrations/V024__mpi_traffic.sql") },
    Migration { version: 25, name: "link_shares", sql: include_str!("../migrations/V025__link_shares.sql") },
    Migration {
        version: 26,
        name: "link_share_minutes",
        sql: include_str!("../migrations/V026__link_share_minutes.sql"),
    },
    Migration {
        version: 27,
        name: "no_management",
        sql: include_str!("../migrations/V027__no_management.sql"),
    },
    Migration {
        version: 28,
        name: "multicast_groups",
        sql: include_str!("../migrations/V028__multicast_groups.sql"),
    },
    Migration {
        version: 29,
        name: "switch_routing",
        sql: include_str!("../migrations/V029__switch_routing.sql"),
    },
    Migration { version: 30, name: "open_calls", sql: include_str!("../migrations/V030__open_calls.sql") },
    Migration { version: 31, name: "verdicts", sql: include_str!("../migrations/V031__verdicts.sql") },
    Migration {
        version: 32,
        name: "rank_scheduling",
        sql: include_str!("../migrations/V032__rank_scheduling.sql"),
    },
    Migration { version: 33, name: "waits", sql: include_str!("../migrations/V033__waits.sql") },
    Migration {
        version: 34,
        name: "region_paths",
        sql: include_str!("../migrations/V034__region_paths.sql"),
    },
    Migration {
        version: 35,
        name: "packed_hours",
        sql: include_str!("../migrations/V035__packed_hours.sql"),
    },
    Migration { version: 36, name: "export", sql: include_str!("../migrations/V036__export.sql") },
    Migration {
        version: 37,
        name: "folded_cells",
        sql: include_str!("../migrations/V037__folded_cells.sql"),
    },
    Migration {
        version: 38,
        name: "report_posts",
        sql: include_str!("../migrations/V038__report_posts.sql"),
    },
    Migration { version: 39, name: "hour_rows", sql: include_str!("../migrations/V039__hour_rows.sql") },
    Migration { version: 40, name: "peer_arrays", sql: include_str!("../migrations/V040__peer_arrays.sql") },
    Migration { version: 41, name: "detail", sql: include_str!("../migrations/V041__detail.sql") },
    Migration { version: 42, name: "rank_clocks", sql: include_str!("../migrations/V042__rank_clocks.sql") },
    Migration { version: 43, name: "node_rows", sql: include_str!("../migrations/V043__node_rows.sql") },
    Migration {
        version: 44,
        name: "merged_rounds",
        sql: include_str!("../migrations/V044__merged_rounds.sql"),
    },
    Migration {
        version: 45,
        name: "packed_cells",
        sql: include_str!("../migrations/V045__packed_cells.sql"),
    },
    Migration {
        version: 46,
        name: "nvlink_hours",
        sql: include_str!("../migrations/V046__nvlink_hours.sql"),
    },
    Migration {
        version: 47,
        name: "packed_calls",
        sql: include_str!("../migrations/V047__packed_calls.sql"),
    },
    Migration {
        version: 48,
        name: "self_stat_rows",
        sql: include_str!("../migrations/V048__self_stat_rows.sql"),
    },
    Migration { version: 49, name: "detail_bins", sql: include_str!("../migrations/V049__detail_bins.sql") },
    Migration {
        version: 50,
        name: "thinned_chunks",
        sql: include_str!("../migrations/V050__thinned_chunks.sql"),
    },
    Migration {
        version: 51,
        name: "detail_links",
        sql: include_str!("../migrations/V051__detail_links.sql"),
    },
    Migration {
        version: 52,
        name: "link_share_hours",
        sql: include_str!("../migrations/V052__link_share_hours.sql"),
    },
    Migration {
        version: 53,
        name: "gpu_pcie_hours",
        sql: include_str!("../migrations/V053__gpu_pcie_hours.sql"),
    },
    Migration {
        version: 54,
        name: "self_stat_names",
        sql: include_str!("../migrations/V054__self_stat_names.sql"),
    },
];

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
/// TimescaleDB is not installed on the server, the schema is newer than this build, or an applied file is
/// not the one that this build knows.
pub async fn migrate(database: &Database) -> Result<Migrated, Error> {
    let mut client = database.connect().await?;
    let what = format!("migrating the database {}", database.place());
    client.execute("SELECT pg_advisory_lock($1)", &[&MIGRATION_LOCK]).await.map_err(Error::sql(&what))?;
    // The lock ends with the session, that is when `client` goes.
    create_extension(&client).await?;
    let create = "CREATE TABLE IF NOT EXISTS schema_migrations (version integer PRIMARY KEY, name text NOT NULL, \
                  checksum text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())";
    client
        .batch_execute(&format!("SET client_min_messages = warning; {create}"))
        .await
        .map_err(Error::sql(&what))?;
    let done = client
        .query("SELECT version, checksum FROM schema_migrations ORDER BY version", &[])
        .await
        .map_err(Error::sql(&what))?;
    if let Some(newest) = done.last().map(|row| row.get::<_, i32>(0)).filter(|v| *v > schema_version()) {
        return Err(Error::Schema(format!(
            "the database {} has schema version {newest}, and this program knows {}: use a newer throughline",
            database.place(),
            schema_version()
        )));
    }
    let pending = pending(&client, &done, database.place(), &what).await?;
    let (old, new): (Vec<_>, Vec<_>) =
        pending.iter().partition(|(migration, _)| migration.version <= LAST_WITH_OBJECTS);
    for (migration, checksum) in &old {
        let what = migration.what();
        let transaction = client.transaction().await.map_err(Error::sql(&what))?;
        apply(&transaction, migration, checksum).await.map_err(Error::sql(&what))?;
        transaction.commit().await.map_err(Error::sql(&what))?;
    }
    let objects = apply_with_objects(&mut client, &new, database.place()).await?;
    write_comments(&client).await?;
    grant_reading(&client).await?;
    crate::reading::restrict(&client).await?;
    Ok(Migrated { applied: pending.len(), objects, version: schema_version() })
}

/// The migrations that the database does not have, with their checksums.
async fn pending(
    client: &Client,
    done: &[Row],
    place: &str,
    what: &str,
) -> Result<Vec<(&'static Migration, String)>, Error> {
    let mut pending = Vec::new();
    for migration in MIGRATIONS {
        let checksum = client
            .query_one("SELECT md5($1)", &[&migration.sql])
            .await
            .map_err(Error::sql(what))?
            .get::<_, String>(0);
        match done.iter().find(|row| row.get::<_, i32>(0) == migration.version) {
            Some(row) if row.get::<_, String>(1) == checksum => {}
            Some(_) => {
                return Err(Error::Schema(format!(
                    "migration {} ({}) of the database {place} is not the one that this program knows: it was made \
                     by another build. Use that build, or begin an empty database",
                    migration.version, migration.name,
                )));
            }
            None => pending.push((migration, checksum)),
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
    let insert = "INSERT INTO schema_migrations (version, name, checksum) VALUES ($1, $2, $3)";
    transaction.execute(insert, &[&migration.version, &migration.name, &checksum]).await?;
    Ok(())
}

/// Applies migrations, functions and views in one transaction, as often as it takes until nobody else holds what it
/// changes. Returns the number of functions and views changed.
async fn apply_with_objects(
    client: &mut Client,
    migrations: &[&(&'static Migration, String)],
    place: &str,
) -> Result<usize, Error> {
    let (start, mut is_reported) = (Instant::now(), false);
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
        tokio::time::sleep(BUSY_PAUSE).await;
    }
}

async fn try_with_objects(
    client: &mut Client,
    migrations: &[&(&'static Migration, String)],
) -> Result<usize, Fault> {
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
    client.batch_execute("CREATE EXTENSION IF NOT EXISTS timescaledb").await.map_err(|error| {
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
             JOIN pg_attribute a ON a.attrelid = c.oid WHERE c.relnamespace = 'public'::regnamespace \
             AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped",
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
                    "COMMENT ON COLUMN {}.{} IS '{text}';\n",
                    table.name(),
                    metric.name
                ));
            }
        }
    }
    client.batch_execute(&statements).await.map_err(Error::sql(what))
}

/// Lets the reading role read, where it exists; on an operated server its administrator makes it or not.
async fn grant_reading(client: &Client) -> Result<(), Error> {
    let what = "granting the reading role";
    let exists = "SELECT 1 FROM pg_roles WHERE rolname = $1";
    if client.query_opt(exists, &[&READ_ROLE]).await.map_err(Error::sql(what))?.is_none() {
        return Ok(());
    }
    let grants = format!(
        "GRANT USAGE ON SCHEMA public TO {READ_ROLE}; GRANT SELECT ON ALL TABLES IN SCHEMA public TO {READ_ROLE}; \
         ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO {READ_ROLE}; \
         REVOKE SELECT ON batch_quarantine, record_quarantine FROM {READ_ROLE};"
    );
    for _ in 0..GRANT_RETRIES {
        match client.batch_execute(&grants).await {
            // Another server made a chunk meanwhile, which writes to the same rows of the catalogue.
            Err(error) if error.code() == Some(&SqlState::INTERNAL_ERROR) => {
                tracing::debug!(%error, "lost a race for granting, trying again");
                tokio::time::sleep(GRANT_PAUSE).await;
            }
            other => return other.map_err(Error::sql(what)),
        }
    }
    client.batch_execute(&grants).await.map_err(Error::sql(what))
}
