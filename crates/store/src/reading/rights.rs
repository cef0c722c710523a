//! Rights that PostgreSQL gives to everybody and a reader has no use for: temporary tables and large objects, which no limit of
//! its session bounds, in any database of the server; locks and the server's log; the private cluster's other databases.

use tokio_postgres::Client;

use super::ReaderCheck;
use super::login::{Login, WHAT, run};
use crate::database::{READ_ROLE, WRITE_ROLE};
use crate::error::Error;

/// Names of functions of PostgreSQL that everybody may call: they write large objects, to the write-ahead log and to the queue of
/// notifications, whose files have no limit by role. By name, as their arguments differ between versions.
const FUNCTIONS: [&str; 13] = [
    "lo_creat",
    "lo_create",
    "lo_export",
    "lo_from_bytea",
    "lo_import",
    "lo_open",
    "lo_put",
    "lo_truncate",
    "lo_truncate64",
    "lo_unlink",
    "lowrite",
    "pg_logical_emit_message",
    "pg_notify",
];

/// Functions that take a lock of the application's: one of them, shared or not, keeps upkeep and migrations from theirs.
const LOCK_FUNCTIONS: &str = "^pg_(try_)?advisory_(xact_)?lock";

/// Databases that each server has and that no reader needs.
const OTHER_DATABASES: [&str; 2] = ["postgres", "template1"];

/// Most databases of an operated server that its administrator gets a statement for.
const DATABASES_MAX: i64 = 16;

/// What the owner of the database may take.
pub(crate) async fn restrict(owner: &Client) -> Result<(), Error> {
    restrict_database(owner, &mut ReaderCheck::default()).await
}

/// What only the administrator of the server may take, and what the owner may.
pub(super) async fn restrict_server(
    client: &Client,
    login: &Login,
    check: &mut ReaderCheck,
) -> Result<(), Error> {
    restrict_database(client, check).await?;
    restrict_functions(client, login, check).await?;
    restrict_other_databases(client, login, check).await
}

async fn restrict_database(owner: &Client, check: &mut ReaderCheck) -> Result<(), Error> {
    let query = "SELECT has_database_privilege('public', current_database(), 'TEMPORARY'), \
                 has_schema_privilege('public', 'public', 'CREATE'), quote_ident(current_database())";
    let row = owner.query_one(query, &[]).await.map_err(Error::sql(WHAT))?;
    let (temporary, create, database): (bool, bool, String) = (row.get(0), row.get(1), row.get(2));
    if temporary {
        run(owner, &format!("REVOKE TEMPORARY ON DATABASE {database} FROM PUBLIC"), check).await?;
    }
    if create {
        run(owner, "REVOKE CREATE ON SCHEMA public FROM PUBLIC", check).await?;
    }
    Ok(())
}

/// Takes the functions from everybody and gives them to the owner: writers need the locks, for migrations and upkeep.
async fn restrict_functions(client: &Client, login: &Login, check: &mut ReaderCheck) -> Result<(), Error> {
    let query = "SELECT string_agg('pg_catalog.' || oid::regprocedure, ', ' ORDER BY proname, oid), \
                 bool_and(has_function_privilege(oid, 'EXECUTE WITH GRANT OPTION')) FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND (proname = ANY($1) OR proname ~ $2) \
                 AND has_function_privilege('public', oid, 'EXECUTE')";
    let row = client.query_one(query, &[&&FUNCTIONS[..], &LOCK_FUNCTIONS]).await.map_err(Error::sql(WHAT))?;
    let Some(functions) = row.get::<_, Option<String>>(0) else { return Ok(()) };
    let owner = if login.is_private { WRITE_ROLE } else { &login.name };
    // First the right of the owner, so that no moment is without it.
    let both = format!(
        "GRANT EXECUTE ON FUNCTION {functions} TO {owner}; REVOKE EXECUTE ON FUNCTION {functions} FROM PUBLIC"
    );
    // Who may not grant a right gets a warning for each function and no error.
    if row.get::<_, Option<bool>>(1) == Some(true) {
        return run(client, &both, check).await;
    }
    check.for_administrator.push(both);
    Ok(())
}

/// The other databases of the server: readers log in to none of them, and leave nothing there. Of the private cluster all of them
/// are ours; of an operated server they are others', so its administrator
/// gets the statements.
async fn restrict_other_databases(
    client: &Client,
    login: &Login,
    check: &mut ReaderCheck,
) -> Result<(), Error> {
    // Without the role (on an operated server) there is nobody to look for.
    let query = "SELECT d.datname::text, quote_ident(d.datname), has_database_privilege('public', d.oid, 'CONNECT'), \
                        has_database_privilege('public', d.oid, 'TEMPORARY') \
                 FROM pg_database d JOIN pg_roles r ON r.rolname = $1 \
                 WHERE d.datallowconn AND d.datname <> current_database() AND has_database_privilege(r.oid, d.oid, 'CONNECT') \
                 ORDER BY d.datname LIMIT $2";
    let rows = client.query(query, &[&READ_ROLE, &DATABASES_MAX]).await.map_err(Error::sql(WHAT))?;
    for row in &rows {
        let (name, quoted): (String, String) = (row.get(0), row.get(1));
        let (connect, temporary): (bool, bool) = (row.get(2), row.get(3));
        let is_nobodys = OTHER_DATABASES.contains(&name.as_str());
        let rights = match (connect && (is_nobodys || !login.is_private), temporary) {
            (true, _) => "CONNECT, TEMPORARY",
            (false, true) => "TEMPORARY",
            (false, false) => continue,
        };
        let statement = format!("REVOKE {rights} ON DATABASE {quoted} FROM PUBLIC");
        if login.is_private {
            run(client, &statement, check).await?;
        } else {
            // Whatever this login may: other applications live there.
            check.for_administrator.push(statement);
        }
    }
    Ok(())
}
