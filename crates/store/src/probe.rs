//! Whether a database answers, and its kind and state: for `/healthz` and `throughline db status`.

use tokio_postgres::{Client, SimpleQueryMessage};

use crate::error::Error;

/// What a database is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DatabaseVersions {
    /// PostgreSQL's version.
    pub postgresql: String,
    /// TimescaleDB's version; `None` where it is not installed.
    pub timescaledb: Option<String>,
    /// Bytes on disk.
    pub bytes: i64,
    /// Version of our schema; `None` where there is none.
    pub schema: Option<i32>,
}

/// Sends the smallest statement that there is.
///
/// # Errors
/// The database is away.
pub async fn probe(client: &Client) -> Result<(), Error> {
    client.simple_query("SELECT 1").await.map(drop).map_err(Error::sql("probing the database"))
}

/// Whether this session's transactions may write nothing: on a standby, or by `default_transaction_read_only`.
///
/// # Errors
/// The database is away.
pub async fn is_read_only(client: &Client) -> Result<bool, Error> {
    // A simple query: behind a pooler it needs no prepared statement.
    let messages = client.simple_query("SHOW transaction_read_only").await;
    let messages = messages.map_err(Error::sql("looking whether the database takes writes"))?;
    let is_on = |message: &SimpleQueryMessage| matches!(message, SimpleQueryMessage::Row(row) if row.get(0) == Some("on"));
    Ok(messages.iter().any(is_on))
}

/// What the database is.
///
/// # Errors
/// The database is away or refuses.
pub async fn database_versions(client: &Client) -> Result<DatabaseVersions, Error> {
    let what = "reading the versions of the database";
    let query = "SELECT current_setting('server_version'), \
                 (SELECT extversion FROM pg_extension WHERE extname = 'timescaledb'), \
                 pg_database_size(current_database()), \
                 to_regclass('internal.schema_migrations') IS NOT NULL";
    let row = client.query_one(query, &[]).await.map_err(Error::sql(what))?;
    let schema = if row.get(3) {
        let query = "SELECT max(version) FROM internal.schema_migrations";
        client.query_one(query, &[]).await.map_err(Error::sql(what))?.get(0)
    } else {
        None
    };
    Ok(DatabaseVersions { postgresql: row.get(0), timescaledb: row.get(1), bytes: row.get(2), schema })
}
