//! Records that were rejected since yesterday, for `status` and `db`.

use std::time::SystemTime;

use tokio_postgres::Client;

use throughline_store::Error;

/// Records of one sender that were rejected for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedRecords {
    /// node:NAME or crawler:NAME; `other` for all beyond what is listed.
    pub sender: String,
    /// One word: see `throughline_sample::admission::Rejection`.
    pub reason: String,
    /// How many.
    pub records: i64,
    /// Kinds of record, as a batch names them.
    pub kinds: String,
    /// When the last was rejected.
    pub last_at: SystemTime,
}

/// Most rows that are listed.
const LISTED_MAX: i64 = 1000;

/// Whose records were rejected since yesterday, most first.
///
/// # Errors
/// The database is away or refuses.
pub async fn rejected_records(client: &Client) -> Result<Vec<RejectedRecords>, Error> {
    let query = "SELECT sender, reason, records, kinds, last_at FROM internal.rejected_records \
                 ORDER BY records DESC, sender, reason LIMIT $1";
    let rows = client.query(query, &[&LISTED_MAX]).await.map_err(Error::sql("listing rejected records"))?;
    let one = |row: &tokio_postgres::Row| RejectedRecords {
        sender: row.get(0),
        reason: row.get(1),
        records: row.get(2),
        kinds: row.get(3),
        last_at: row.get(4),
    };
    Ok(rows.iter().map(one).collect())
}
