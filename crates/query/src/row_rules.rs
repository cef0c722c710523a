//! By which rules rows of fabric ports were left out: what their crawler reported, or the usual ones.

use throughline_sample::row_rules::DEFAULT;
use throughline_sample::wire::RowRules;
use throughline_store::Error;
use throughline_store::layout::{Kind, moment};
use tokio_postgres::Client;

/// The largest values of these things' rules in a time, milliseconds since 1970.
///
/// # Errors
/// The database's.
pub(crate) async fn rules(
    client: &Client,
    kind: Kind,
    ids: &[i32],
    from: i64,
    to: i64,
) -> Result<RowRules, Error> {
    let sql = format!(
        "SELECT max(heartbeat_seconds), max(largest_gap_seconds), max(quiet_bytes)
         FROM row_rules_of('{}', {}, {}) WHERE id = ANY($1)",
        kind.rules(),
        moment(from),
        moment(to)
    );
    let row = client
        .query_one(&sql, &[&ids])
        .await
        .map_err(Error::sql("reading by which rules rows are left out"))?;
    let quiet = row.get::<_, Option<i64>>(2).and_then(|bytes| u64::try_from(bytes).ok());
    Ok(RowRules {
        heartbeat_seconds: row.get::<_, Option<f64>>(0).unwrap_or(DEFAULT.heartbeat_seconds),
        largest_gap_seconds: row.get::<_, Option<f64>>(1).unwrap_or(DEFAULT.largest_gap_seconds),
        quiet_bytes: quiet.unwrap_or(DEFAULT.quiet_bytes),
    })
}
