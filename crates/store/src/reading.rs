//! What a session that only reads may still do to the server, and what is taken from it: temporary tables and large
//! objects fill its disk, advisory locks hold up an upgrade, statements without end hold its connections.
//!
//! Repeated at each start, like the grants: rights on the database and the role are no part of the schema, and the role may
//! be made later than that. On an operated server some of it is the administrator's; what is refused there is logged with
//! what he would have to run, and stops nothing.

use crate::database::{READ_ROLE, WRITE_ROLE};
use crate::error::Error;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

/// Longest statement of the reading role. A session may set another one, as the role query does (`query.seconds_max`):
/// this bounds sessions that set none.
pub const READ_STATEMENT_SECONDS_MAX: u64 = 300;

/// Longest pause within a transaction of the reading role: it keeps old rows from being cleaned up.
pub const READ_IDLE_SECONDS_MAX: u64 = 60;

/// Temporary files of one of its sessions, for sorting: only a superuser may set more.
pub const READ_TEMP_FILES_MB_MAX: u64 = 4096;

/// Its connections at a time: the role query has two for each of `query.parallel_max`, and dashboards some. The rest of
/// PostgreSQL's 100 is the writer's.
pub const READ_CONNECTIONS_MAX: u32 = 60;

/// Functions of PostgreSQL that everybody may call and a reader has no use for.
const FUNCTIONS: [&str; 22] = [
    "lo_creat(integer)",
    "lo_create(oid)",
    "lo_from_bytea(oid, bytea)",
    "lo_put(oid, bigint, bytea)",
    "lo_import(text)",
    "lo_import(text, oid)",
    "lo_export(oid, text)",
    "lo_open(oid, integer)",
    "lo_truncate(integer, integer)",
    "lo_truncate64(integer, bigint)",
    "lo_unlink(oid)",
    "lowrite(integer, bytea)",
    "pg_advisory_lock(bigint)",
    "pg_advisory_lock(integer, integer)",
    "pg_advisory_lock_shared(bigint)",
    "pg_advisory_lock_shared(integer, integer)",
    "pg_try_advisory_lock(bigint)",
    "pg_try_advisory_lock(integer, integer)",
    "pg_advisory_xact_lock(bigint)",
    "pg_advisory_xact_lock(integer, integer)",
    "pg_try_advisory_xact_lock(bigint)",
    "pg_try_advisory_xact_lock(integer, integer)",
];

/// What only the administrator of the server may take: run as such, in the database.
pub(crate) async fn restrict_as_admin(admin: &Client) -> Result<(), Error> {
    let functions = FUNCTIONS.map(|function| {
        // Writers need the locks, for migrations and upkeep.
        format!(
            "REVOKE EXECUTE ON FUNCTION pg_catalog.{function} FROM PUBLIC; \
             GRANT EXECUTE ON FUNCTION pg_catalog.{function} TO {WRITE_ROLE}"
        )
    });
    let role = [
        format!("ALTER ROLE {READ_ROLE} CONNECTION LIMIT {READ_CONNECTIONS_MAX}"),
        format!("ALTER ROLE {READ_ROLE} SET default_transaction_read_only = on"),
        format!("ALTER ROLE {READ_ROLE} SET statement_timeout = '{READ_STATEMENT_SECONDS_MAX}s'"),
        format!(
            "ALTER ROLE {READ_ROLE} SET idle_in_transaction_session_timeout = '{READ_IDLE_SECONDS_MAX}s'"
        ),
        format!("ALTER ROLE {READ_ROLE} SET temp_file_limit = '{READ_TEMP_FILES_MB_MAX}MB'"),
    ];
    try_all(admin, functions.iter().chain(&role)).await?;
    restrict(admin).await
}

/// What the owner of the database may take.
pub(crate) async fn restrict(owner: &Client) -> Result<(), Error> {
    let what = "restricting those who only read";
    let query = "SELECT has_database_privilege('public', current_database(), 'TEMPORARY'), \
                 has_schema_privilege('public', 'public', 'CREATE'), quote_ident(current_database())";
    let row = owner.query_one(query, &[]).await.map_err(Error::sql(what))?;
    let (temporary, create, database): (bool, bool, String) = (row.get(0), row.get(1), row.get(2));
    let mut statements = Vec::new();
    if temporary {
        statements.push(format!("REVOKE TEMPORARY ON DATABASE {database} FROM PUBLIC"));
    }
    if create {
        statements.push("REVOKE CREATE ON SCHEMA public FROM PUBLIC".to_owned());
    }
    try_all(owner, statements.iter()).await
}

/// Runs what it may, and logs what it may not.
async fn try_all(client: &Client, statements: impl Iterator<Item = &String>) -> Result<(), Error> {
    for statement in statements {
        let Err(error) = client.batch_execute(statement).await else { continue };
        match error.code() {
            // Another PostgreSQL has other functions.
            Some(&SqlState::UNDEFINED_FUNCTION) => {
                tracing::debug!(statement, %error, "nothing to take from those who read");
            }
            Some(&SqlState::INSUFFICIENT_PRIVILEGE) => tracing::info!(
                statement,
                "the administrator of the database server can bound further what those who read may do to it"
            ),
            // Two servers that start at once: the other one does the same.
            Some(&SqlState::INTERNAL_ERROR) => tracing::debug!(statement, %error, "another server did it"),
            _ => return Err(Error::sql("restricting those who only read")(error)),
        }
    }
    Ok(())
}
