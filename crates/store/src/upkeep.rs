//! Who does upkeep, and how large the database is. What upkeep does is in `rollups`, `chunks`, `thinning`, `retention` and `orphaned_jobs`.

use tokio_postgres::Client;

use crate::error::Error;
use crate::session::keep_alive;

/// Key of the advisory lock: "thruline" in ASCII, so that a person who finds it in pg_locks can guess.
const LOCK_KEY: i64 = 0x7468_7275_6c69_6e65;

/// Size of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatabaseSize {
    /// Bytes on disk.
    pub bytes: i64,
    /// Chunks of all hypertables.
    pub chunks: i64,
}

/// Takes the lock of upkeep for this session; `false` where another server has it. It ends with the session.
///
/// # Errors
/// The database is away or refuses.
pub async fn lock_upkeep(client: &Client) -> Result<bool, Error> {
    keep_alive(client).await?;
    let row = client.query_one("SELECT pg_try_advisory_lock($1)", &[&LOCK_KEY]).await;
    Ok(row.map_err(Error::sql("taking the lock of upkeep"))?.get(0))
}

/// How large the database is.
///
/// # Errors
/// The database is away or refuses.
pub async fn database_size(client: &Client) -> Result<DatabaseSize, Error> {
    let query = "SELECT pg_database_size(current_database()), \
                 (SELECT count(*) FROM timescaledb_information.chunks)";
    let row = client.query_one(query, &[]).await.map_err(Error::sql("measuring the database's size"))?;
    Ok(DatabaseSize { bytes: row.get(0), chunks: row.get(1) })
}
