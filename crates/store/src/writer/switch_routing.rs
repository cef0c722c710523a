//! How switches route, in rows of nodes: a record without a report of it leaves what was reported last.

use std::collections::BTreeMap;

use serde_json::Value;
use tokio_postgres::Transaction;

use super::{WriteError, failed};

/// How a switch may route; another word is no report.
const KINDS: [&str; 2] = ["static", "adaptive"];

/// Column of `ib_node`, and key of its rows; a row without it has no report.
const COLUMN: &str = "routing";

const REPORTED: &str = "
SELECT ib_node_id, routing FROM internal.ib_node WHERE valid_to IS NULL AND routing IS NOT NULL AND ib_node_id = ANY($1)";

/// Puts what a record reports into its row, or what an earlier record of the same node in these batches did.
pub(super) fn put(row: &mut Value, reported: Option<&str>, earlier: Option<&Value>) {
    let reported = reported.filter(|kind| KINDS.contains(kind)).map(Value::from);
    if let Some(kind) = reported.or_else(|| earlier?.get(COLUMN).cloned()) {
        row[COLUMN] = kind;
    }
}

/// The rows, those without a report with what is stored.
pub(super) async fn complete(
    transaction: &Transaction<'_>,
    mut nodes: BTreeMap<i64, Value>,
) -> Result<BTreeMap<i64, Value>, WriteError> {
    let without: Vec<i64> =
        nodes.iter().filter(|(_, row)| row.get(COLUMN).is_none()).map(|(id, _)| *id).collect();
    if without.is_empty() {
        return Ok(nodes);
    }
    let known = transaction.query(REPORTED, &[&without]).await;
    for known in known.map_err(failed("inventory: how switches route"))? {
        if let Some(row) = nodes.get_mut(&known.get(0)) {
            row[COLUMN] = known.get::<_, &str>(1).into();
        }
    }
    Ok(nodes)
}
