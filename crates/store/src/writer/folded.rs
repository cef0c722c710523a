//! Up to when rows of nodes have all that their ranks did: readers know by it which node is behind.

use std::collections::BTreeMap;
use std::time::SystemTime;

use throughline_sample::wire::Batch;
use tokio_postgres::Transaction;
use tokio_postgres::types::Type;

use super::keys::Keys;
use super::{WriteError, failed};

/// Notes up to when these batches have what nodes counted of their jobs. The last one in their order counts: a clock that was set right
/// takes back what it said before.
pub(super) async fn note(
    transaction: &Transaction<'_>,
    batches: &[&Batch],
    keys: &Keys,
) -> Result<(), WriteError> {
    let newest = newest(batches, keys);
    if newest.is_empty() {
        return Ok(());
    }
    let update = "UPDATE internal.run_claim c SET folded_until = n.time
                  FROM (SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::timestamptz[]) n (job_id, node_id, time)
                        ORDER BY job_id, node_id) n
                  WHERE c.job_id = n.job_id AND c.node_id = n.node_id AND c.folded_until IS DISTINCT FROM n.time";
    let jobs: Vec<i64> = newest.keys().map(|(job, _)| *job).collect();
    let nodes: Vec<i64> = newest.keys().map(|(_, node)| *node).collect();
    let times: Vec<SystemTime> = newest.values().map(|time| moment(*time)).collect();
    transaction
        .query_typed(
            update,
            &[(&jobs, Type::INT8_ARRAY), (&nodes, Type::INT8_ARRAY), (&times, Type::TIMESTAMPTZ_ARRAY)],
        )
        .await
        .map_err(failed("noting up to when nodes counted"))?;
    Ok(())
}

fn moment(nanoseconds: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + std::time::Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or_default())
}

/// By job and node.
fn newest(batches: &[&Batch], keys: &Keys) -> BTreeMap<(i64, i64), i64> {
    let mut newest = BTreeMap::new();
    for batch in batches.iter().filter(|batch| !batch.mpi_node_cells.is_empty()) {
        let Ok(node) = keys.node(&batch.node) else { continue };
        for record in &batch.mpi_node_cells {
            if let Ok(job) = keys.job(&record.job_key) {
                newest.insert((job, node), record.time);
            }
        }
    }
    newest
}
