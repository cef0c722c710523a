//! GPUs that their node has lost: an agent reports it as an event of the reading in which they did not answer. From its time on they
//! and their partitions are lost, and their links have ended. One that returns has rows as before with the inventory that its agent
//! sends then.

use super::keys::Keys;
use super::versioned::run;
use super::{WriteError, record_times::EARLIEST_TIME};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use throughline_sample::to_rfc3339;
use throughline_sample::wire::Batch;
use tokio_postgres::Transaction;

/// Kinds of the events, as agents send them.
pub(super) const LOST: &str = "gpu.lost";
pub(super) const RETURNED: &str = "gpu.returned";

/// Those of some batches, by node and UUID.
#[derive(Default)]
pub(super) struct LostGpus(BTreeMap<(i64, String), String>);

/// The GPUs that are lost when a batch ends, and since when.
pub(super) fn of_batch(batch: &Batch) -> BTreeMap<&str, i64> {
    let kinds = [LOST, RETURNED];
    let mut events: Vec<_> =
        batch.events.iter().filter(|event| kinds.contains(&event.kind.as_str())).collect();
    events.sort_by_key(|event| event.time);
    let mut lost = BTreeMap::new();
    for event in events.into_iter().filter(|event| !event.gpu_uuid.is_empty()) {
        match event.kind.as_str() {
            LOST if event.time > EARLIEST_TIME => lost.insert(event.gpu_uuid.as_str(), event.time),
            _ => lost.remove(event.gpu_uuid.as_str()),
        };
    }
    lost
}

impl LostGpus {
    /// Notes those of a batch.
    pub fn add(&mut self, batch: &Batch, lost: &BTreeMap<&str, i64>, keys: &Keys) {
        let Ok(node) = keys.node(&batch.node) else { return };
        for (uuid, time) in lost {
            self.0.insert((node, (*uuid).to_owned()), to_rfc3339(*time));
        }
    }

    /// Marks their rows and those of their partitions, and ends those of their links.
    pub async fn apply(self, transaction: &Transaction<'_>) -> Result<(), WriteError> {
        if self.0.is_empty() {
            return Ok(());
        }
        let rows =
            self.0.into_iter().map(|((node, uuid), at)| json!({"node_id": node, "uuid": uuid, "at": at}));
        let rows = Value::Array(rows.collect());
        for sql in [END_LINKS, MARK] {
            run(transaction, "GPUs that were lost", sql, &rows).await?;
        }
        Ok(())
    }
}

const END_LINKS: &str = "
UPDATE internal.gpu_link l SET valid_to = greatest(s.at, l.valid_from)
FROM jsonb_to_recordset($1) AS s(node_id bigint, uuid text, at timestamptz)
JOIN internal.gpu g ON g.node_id = s.node_id AND g.uuid = s.uuid AND g.valid_to IS NULL AND g.valid_from <= s.at
WHERE l.gpu_id = g.gpu_id AND l.valid_to IS NULL";

const MARK: &str = "
WITH lost AS (
    SELECT g.gpu_id, s.at
    FROM jsonb_to_recordset($1) AS s(node_id bigint, uuid text, at timestamptz)
    JOIN internal.gpu w ON w.node_id = s.node_id AND w.uuid = s.uuid AND w.valid_to IS NULL
    JOIN internal.gpu g ON (g.gpu_id = w.gpu_id OR g.parent_gpu_id = w.gpu_id) AND g.valid_to IS NULL
    WHERE NOT g.is_lost AND g.valid_from <= s.at
), same AS (
    UPDATE internal.gpu g SET is_lost = true FROM lost l
    WHERE g.gpu_id = l.gpu_id AND g.valid_to IS NULL AND g.valid_from = l.at
), ended AS (
    UPDATE internal.gpu g SET valid_to = l.at FROM lost l
    WHERE g.gpu_id = l.gpu_id AND g.valid_to IS NULL AND g.valid_from < l.at
    RETURNING g.*
)
INSERT INTO internal.gpu (gpu_id, uuid, node_id, index, name, pci_bus_id, link_count, source, parent_gpu_id, numa_node, nearest_hcas,
                          fabric_cluster_uuid, fabric_clique_id, fabric_state, pcie_bytes_per_second, is_lost, valid_from)
SELECT gpu_id, uuid, node_id, index, name, pci_bus_id, link_count, source, parent_gpu_id, numa_node, nearest_hcas,
       fabric_cluster_uuid, fabric_clique_id, fabric_state, pcie_bytes_per_second, true, valid_to
FROM ended";
