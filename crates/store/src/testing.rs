//! For tests of this and other crates: one throw-away cluster per test process, a fresh database per test.
//!
//! ```ignore
//! let database = throughline_store::testing::database().await;
//! ```
//!
//! The cluster is stopped and its files removed when the test process ends in whatever way: a small shell
//! waits for the end of a pipe that only the test process holds open. Nothing here is for production: files
//! are not synced, and failures panic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod replicated;

pub use replicated::Replicated;

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use throughline_prefix::Set;
use tokio::sync::OnceCell;
use tokio_postgres::Client;

use crate::cluster::{ClusterOptions, Lifetime, PrivateCluster};
use crate::database::{ADMIN_ROLE, Database, WRITE_ROLE};
use crate::error::Error;
use crate::migrate::{MIGRATIONS, Migration, migrate_to};
use crate::migrate::{Migrated, migrate, schema_version};

/// The migrated database that each test's is copied from.
const TEMPLATE: &str = "template_throughline";

/// The database with TimescaleDB and without our schema that those of tests of migrations are copied from.
const EMPTY_TEMPLATE: &str = "template_empty";

static CLUSTER: OnceCell<PrivateCluster> = OnceCell::const_new();
static KEEPER: OnceLock<Child> = OnceLock::new();
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A fresh database of its own with this build's schema, writable and readable.
///
/// # Panics
/// When the cluster cannot be made: a test cannot go on.
pub async fn database() -> Database {
    let cluster = CLUSTER.get_or_init(start).await;
    create(cluster, TEMPLATE).await
}

/// A fresh database without our schema, for tests of migrations.
///
/// # Panics
/// As [`database`].
pub async fn empty_database() -> Database {
    let cluster = CLUSTER.get_or_init(start).await;
    create(cluster, EMPTY_TEMPLATE).await
}

/// Migrates as a build would that has one more step.
///
/// # Errors
/// As [`migrate`].
pub async fn migrate_with_step(database: &Database, sql: &'static str) -> Result<Migrated, Error> {
    let step = Migration { version: schema_version() + 1, name: "later", sql };
    let all: Vec<Migration> = MIGRATIONS.iter().copied().chain([step]).collect();
    migrate_to(database, &all).await
}

/// SQL for functions of a session that pack cells of MPI operations, for rows that a test makes in SQL.
pub const PACKED_CELLS: &str = include_str!("testing/packed_cells.sql");

/// Gives a permission to drop rows that has no end, as if the database's clock had been checked: databases of [`database`] have it, until
/// something checks the clock.
///
/// # Panics
/// When the database refuses.
pub async fn trust_clock(client: &Client) {
    let trust = "UPDATE internal.clock_check SET state = 'trusted', reason = NULL, trusted_at = 'infinity', permitted_until = 'infinity', \
                 estimate = 'infinity'";
    client.batch_execute(trust).await.unwrap();
}

/// Measures the clock of a sender, which the database's is ahead of by so many seconds.
///
/// # Panics
/// When the database refuses.
pub async fn measure_sender(client: &Client, sender: &str, lead_seconds: f64) {
    let measure = "INSERT INTO internal.sender_clock (sender_id, measured_at, sender_time, offset_seconds, round_trip_seconds)
                   VALUES ($1, clock_timestamp(), clock_timestamp() - make_interval(secs => $2), -$2, 0.001)
                   ON CONFLICT (sender_id) DO UPDATE SET measured_at = excluded.measured_at, sender_time = excluded.sender_time,
                       offset_seconds = excluded.offset_seconds";
    client.execute(measure, &[&sender, &lead_seconds]).await.unwrap();
}

/// Takes a test's database away, its sessions included, or gives it back.
///
/// # Panics
/// When the cluster refuses.
pub async fn set_away(database: &Database, is_away: bool) {
    let admin = database.with("postgres", ADMIN_ROLE).connect().await.unwrap();
    let name = database.name();
    admin.batch_execute(&format!("ALTER DATABASE {name} ALLOW_CONNECTIONS {}", !is_away)).await.unwrap();
    if is_away {
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1";
        admin.query(end, &[&name]).await.unwrap();
    }
}

/// A session of another role: of people ([`crate::READ_ROLE`]), for what they may do.
///
/// # Errors
/// The server refuses the login.
pub async fn connect_as(database: &Database, name: &str, role: &str) -> Result<Client, Error> {
    database.with(name, role).connect_reader().await
}

/// The same database, used without relying on a session.
pub fn behind_pooler(database: &Database) -> Database {
    database.pooled()
}

/// The programs of PostgreSQL, put into the prefix first where the machine has none.
///
/// # Panics
/// When they cannot be had.
pub fn ensure_programs() {
    let probe = ClusterOptions { state_dir: PathBuf::from("/nonexistent"), pg_bin: None };
    if let Err(Error::NoPostgres { .. }) = PrivateCluster::find(&probe) {
        throughline_prefix::ensure(Set::Postgres).expect("PostgreSQL in the prefix");
    }
}

async fn create(cluster: &PrivateCluster, template: &str) -> Database {
    let name = format!("test_{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let admin = cluster.database().with("postgres", ADMIN_ROLE).connect().await.unwrap();
    let create = format!("CREATE DATABASE {name} TEMPLATE {template} OWNER {WRITE_ROLE}");
    admin.batch_execute(&create).await.unwrap();
    // Rights on a database are not copied with it.
    admin.batch_execute(&format!("REVOKE TEMPORARY ON DATABASE {name} FROM PUBLIC")).await.unwrap();
    cluster.database().renamed(&name)
}

async fn start() -> PrivateCluster {
    ensure_programs();
    let folder = std::env::temp_dir().join(format!("throughline-test-{}", std::process::id()));
    let options = ClusterOptions { state_dir: folder.clone(), pg_bin: None };
    let cluster = PrivateCluster::find(&options).unwrap().throw_away();
    keep(&folder);
    cluster.start(Lifetime::Detached).await.unwrap();
    let admin = cluster.database().with("postgres", ADMIN_ROLE).connect().await.unwrap();
    for statement in [
        format!("CREATE ROLE {WRITE_ROLE} LOGIN"),
        format!("CREATE DATABASE {EMPTY_TEMPLATE} OWNER {WRITE_ROLE}"),
    ] {
        admin.batch_execute(&statement).await.unwrap();
    }
    crate::reading::create_roles(&admin).await.unwrap();
    let empty = cluster.database().with(EMPTY_TEMPLATE, ADMIN_ROLE).connect().await.unwrap();
    empty.batch_execute("CREATE EXTENSION timescaledb SCHEMA public").await.unwrap();
    close(empty, &admin, EMPTY_TEMPLATE).await;
    let create = format!("CREATE DATABASE {TEMPLATE} TEMPLATE {EMPTY_TEMPLATE} OWNER {WRITE_ROLE}");
    admin.batch_execute(&create).await.unwrap();
    let template = cluster.database().renamed(TEMPLATE);
    let admin = template.with(TEMPLATE, ADMIN_ROLE).connect().await.unwrap();
    crate::reading::check(&template, &admin).await.unwrap();
    drop(admin);
    migrate(&template).await.unwrap();
    // Tests that are not about it have a clock that is believed.
    trust_clock(&template.connect().await.unwrap()).await;
    cluster
}

/// Ends a session and waits until the server has ended it, too: a database in use is no template.
async fn close(client: tokio_postgres::Client, admin: &tokio_postgres::Client, name: &str) {
    drop(client);
    let sessions = "SELECT count(*) FROM pg_stat_activity WHERE datname = $1";
    while admin.query_one(sessions, &[&name]).await.unwrap().get::<_, i64>(0) > 0 {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

/// Starts the shell that cleans up behind this process, before there is anything to clean up.
fn keep(folder: &std::path::Path) {
    let script = "read -r _; pid=$(head -n 1 \"$1/db/data/postmaster.pid\" 2>/dev/null) && kill -QUIT \"$pid\" 2>/dev/null; \
                  for _ in 1 2 3 4 5 6 7 8 9 10; do [ -e \"/proc/$pid/exe\" ] || break; sleep 0.2; done; rm -rf \"$1\"";
    let child = Command::new("/bin/sh")
        .args(["-c", script, "sh"])
        .arg(folder)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    // Held for the life of the process: the pipe closes with it, and only then.
    KEEPER.set(child).unwrap();
}
