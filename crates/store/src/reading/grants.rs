//! Rights of the roles that read: both have the same.

use std::time::Duration;

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::login::{READING_ROLES, WHAT};
use crate::error::Error;

/// PostgreSQL ends a GRANT with "tuple concurrently updated" where somebody else changed the rights of a table at that
/// moment, as TimescaleDB does with each new chunk: tried again so many times, after a pause each.
const GRANT_RETRIES: usize = 20;
const GRANT_PAUSE: Duration = Duration::from_millis(100);

/// Lets the reading roles read, those that exist; on an operated server its administrator makes them or not. Both have the same
/// rights.
pub(crate) async fn grant_reading(client: &Client) -> Result<(), Error> {
    let what = "granting the reading roles";
    let query = "SELECT string_agg(rolname, ', '), quote_ident(current_database()) FROM pg_roles WHERE rolname = ANY($1)";
    let row = client.query_one(query, &[&&READING_ROLES[..]]).await.map_err(Error::sql(what))?;
    let (Some(roles), database) = (row.get::<_, Option<String>>(0), row.get::<_, String>(1)) else {
        return Ok(());
    };
    let grants = format!(
        "GRANT CONNECT ON DATABASE {database} TO {roles}; \
         GRANT USAGE ON SCHEMA public, internal TO {roles}; \
         GRANT SELECT ON ALL TABLES IN SCHEMA public, internal TO {roles}; \
         ALTER DEFAULT PRIVILEGES IN SCHEMA public, internal GRANT SELECT ON TABLES TO {roles}; \
         REVOKE SELECT ON internal.batch_quarantine, internal.record_quarantine FROM {roles};"
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

/// Whether a role that is there may not read yet.
pub(super) async fn lacks_grants(client: &Client) -> Result<bool, Error> {
    let query = "SELECT EXISTS (SELECT FROM pg_roles r JOIN pg_namespace n ON n.nspname = 'internal' \
                 WHERE r.rolname = ANY($1) AND NOT has_schema_privilege(r.oid, n.oid, 'USAGE'))";
    Ok(client.query_one(query, &[&&READING_ROLES[..]]).await.map_err(Error::sql(WHAT))?.get(0))
}
