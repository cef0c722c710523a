//! The login that looks after those who read, and what it may run.

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::ReaderCheck;
use crate::database::{QUERY_ROLE, READ_ROLE};
use crate::error::Error;

/// The roles that read.
pub(super) const READING_ROLES: [&str; 2] = [QUERY_ROLE, READ_ROLE];

/// What is done, for errors.
pub(super) const WHAT: &str = "looking after the roles that read";

/// Who looks.
pub(super) struct Login {
    /// As SQL names it.
    pub(super) name: String,
    pub(super) is_superuser: bool,
    pub(super) may_create: bool,
    /// The server is ours alone: nobody else sets anything there.
    pub(super) is_private: bool,
}

impl Login {
    pub(super) async fn read(client: &Client, is_private: bool) -> Result<Login, Error> {
        let query = "SELECT quote_ident(current_user), rolsuper, rolcreaterole FROM pg_roles WHERE rolname = current_user";
        let row = client.query_one(query, &[]).await.map_err(Error::sql(WHAT))?;
        Ok(Login { name: row.get(0), is_superuser: row.get(1), may_create: row.get(2), is_private })
    }
}

/// Runs what this login may, and notes what it may not.
pub(super) async fn run(client: &Client, statement: &str, check: &mut ReaderCheck) -> Result<(), Error> {
    let Err(error) = client.batch_execute(statement).await else { return Ok(()) };
    match error.code() {
        Some(&SqlState::INSUFFICIENT_PRIVILEGE) => check.for_administrator.push(statement.to_owned()),
        // Two servers that start at once: the other one does the same.
        Some(&SqlState::INTERNAL_ERROR) => tracing::debug!(statement, %error, "another server did it"),
        _ => return Err(Error::sql(WHAT)(error)),
    }
    Ok(())
}
