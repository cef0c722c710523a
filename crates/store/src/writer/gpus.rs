//! What there is of GPUs: their rows, those of their partitions and links, and what surveys and losses end.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use throughline_sample::to_rfc3339;
use throughline_sample::wire::{Batch, Event, GpuLinkInfo};
use tokio_postgres::Transaction;

use super::WriteError;
use super::gpu_surveys::{END_GONE, END_LINKS, Surveys};
use super::keys::{Keys, small};
use super::lost_gpus::{self, LostGpus};
use super::versioned::{VersionedTable, run};

const GPU: VersionedTable = VersionedTable {
    table: "gpu",
    key: &[("gpu_id", "bigint")],
    attributes: &[
        ("uuid", "text"),
        ("node_id", "bigint"),
        ("index", "integer"),
        ("name", "text"),
        ("pci_bus_id", "text"),
        ("link_count", "integer"),
        ("source", "text"),
        ("parent_gpu_id", "bigint"),
        ("numa_node", "integer"),
        ("nearest_hcas", "text[]"),
        ("is_lost", "boolean"),
        ("fabric_cluster_uuid", "text"),
        ("fabric_clique_id", "bigint"),
        ("fabric_state", "text"),
        ("pcie_bytes_per_second", "bigint"),
    ],
};
const GPU_LINK: VersionedTable = VersionedTable {
    table: "gpu_link",
    key: &[("gpu_id", "bigint"), ("link", "integer")],
    attributes: &[
        ("active", "boolean"),
        ("version", "integer"),
        ("speed_bytes_per_second", "bigint"),
        ("remote_type", "text"),
        ("remote_pci_bus_id", "text"),
        ("remote_gpu_id", "bigint"),
        ("remote_link", "integer"),
    ],
};
/// Of some batches the newest record of each thing.
#[derive(Default)]
pub(super) struct GpuInventory {
    gpus: BTreeMap<i64, Value>,
    links: BTreeMap<(i64, i32), Value>,
    lost: LostGpus,
    surveys: Surveys,
}

impl GpuInventory {
    /// Adds those of a batch. Rows begin with the survey that has found them, else at `batch_time`: so each reading of a GPU has a
    /// row of its time.
    pub fn add(&mut self, batch: &Batch, keys: &Keys, batch_time: i64) -> Result<(), String> {
        let surveyed = batch.gpu_survey_marks.iter().map(|mark| mark.time).max();
        let at = to_rfc3339(surveyed.unwrap_or(batch_time));
        let lost = lost_gpus::of_batch(batch);
        self.lost.add(batch, &lost, keys);
        for id in lost.keys().filter_map(|uuid| keys.gpu(&batch.node, uuid).ok()) {
            self.gpus.remove(&id);
            self.links.retain(|(gpu, _), _| *gpu != id);
        }
        let is_lost = |uuid: &str| lost.contains_key(uuid);
        for gpu in batch.gpus.iter().filter(|gpu| !is_lost(&gpu.uuid) && !is_lost(&gpu.parent_uuid)) {
            let id = keys.gpu(&batch.node, &gpu.uuid)?;
            let parent = match gpu.parent_uuid.as_str() {
                "" => None,
                uuid => Some(keys.gpu(&batch.node, uuid)?),
            };
            let hcas = (!gpu.nearest_hcas.is_empty()).then_some(&gpu.nearest_hcas);
            let known = |text: &str| (!text.is_empty()).then(|| text.to_owned());
            let row = json!({
                "gpu_id": id, "uuid": gpu.uuid, "node_id": keys.node(&batch.node)?, "at": at,
                "index": gpu.index, "name": gpu.name, "pci_bus_id": gpu.pci_bus_id,
                "link_count": gpu.link_count, "source": gpu.source, "parent_gpu_id": parent,
                "numa_node": gpu.numa_node, "nearest_hcas": hcas, "is_lost": false,
                "fabric_cluster_uuid": known(&gpu.fabric_cluster_uuid), "fabric_clique_id": gpu.fabric_clique_id,
                "fabric_state": known(&gpu.fabric_state), "pcie_bytes_per_second": gpu.pcie_bytes_per_second,
            });
            self.gpus.insert(id, row);
        }
        for link in batch.gpu_link_infos.iter().filter(|link| !is_lost(&link.gpu_uuid)) {
            let id = keys.gpu(&batch.node, &link.gpu_uuid)?;
            // The other GPU is one that the same node reports.
            let remote = match link.remote_gpu_uuid.as_str() {
                "" => None,
                uuid => Some(keys.gpu(&batch.node, uuid)?),
            };
            self.links.insert((id, small(link.link, "link")?), gpu_link_row(id, link, remote, &at));
        }
        self.surveys.add(batch, keys, batch_time)
    }

    /// Takes out what the newest survey of a node does not have any more.
    fn reduce(&mut self) {
        let mut links: BTreeMap<i64, BTreeSet<i64>> = BTreeMap::new();
        let surveys = &self.surveys;
        self.gpus.retain(|id, row| {
            let (node, source) = (row["node_id"].as_i64(), row["source"].as_str());
            let mark = node.zip(source).and_then(|(node, source)| surveys.of(node, source));
            let Some(mark) = mark else { return true };
            let found = mark.gpus.iter().find(|gpu| row["uuid"].as_str() == Some(gpu.uuid.as_str()));
            links.insert(*id, found.iter().flat_map(|gpu| &gpu.links).map(|link| i64::from(*link)).collect());
            found.is_some()
        });
        self.links
            .retain(|(id, link), _| links.get(id).is_none_or(|links| links.contains(&i64::from(*link))));
    }

    /// Brings the tables up to date. Gives the events that are made of what changed, each with the name of its node.
    pub async fn apply(mut self, transaction: &Transaction<'_>) -> Result<Vec<(String, Event)>, WriteError> {
        self.reduce();
        std::mem::take(&mut self.lost).apply(transaction).await?;
        let changes = self.surveys.changes(transaction, &self.gpus).await?;
        self.gpus.extend(changes.lost);
        if let Some(changed) = GPU.apply(transaction, self.gpus.into_values().collect()).await? {
            for sql in END_MOVED_GPUS {
                run(transaction, "GPUs that were moved", sql, &changed).await?;
            }
        }
        if !changes.gone.is_empty() {
            let gone = Value::Array(changes.gone);
            for sql in END_GONE {
                run(transaction, "GPUs that are gone", sql, &gone).await?;
            }
        }
        GPU_LINK.apply(transaction, self.links.into_values().collect()).await?;
        if !changes.links.is_empty() {
            run(transaction, "links that are gone", END_LINKS, &Value::Array(changes.links)).await?;
        }
        Ok(changes.events)
    }
}

fn gpu_link_row(id: i64, link: &GpuLinkInfo, remote: Option<i64>, at: &str) -> Value {
    json!({
        "gpu_id": id, "link": link.link, "active": link.active, "version": link.version,
        "speed_bytes_per_second": link.speed_bytes_per_second, "remote_type": link.remote_type,
        "remote_pci_bus_id": link.remote_pci_bus_id, "remote_gpu_id": remote,
        "remote_link": link.remote_link, "at": at,
    })
}

/// What a node had of GPUs that another one has by now.
const END_MOVED_GPUS: [&str; 2] = [
    "UPDATE internal.gpu_link l SET valid_to = greatest(s.at, l.valid_from)
FROM jsonb_to_recordset($1) AS s(gpu_id bigint, uuid text, at timestamptz) JOIN internal.gpu g ON g.uuid = s.uuid AND g.gpu_id <> s.gpu_id
WHERE g.valid_to IS NULL AND l.gpu_id = g.gpu_id AND l.valid_to IS NULL
  AND NOT EXISTS (SELECT FROM internal.device_claim d WHERE d.kind = 'gpu' AND d.name = g.uuid AND d.node_id = g.node_id AND d.holds_until > now())",
    "UPDATE internal.gpu g SET valid_to = greatest(s.at, g.valid_from)
FROM jsonb_to_recordset($1) AS s(gpu_id bigint, uuid text, at timestamptz)
WHERE g.uuid = s.uuid AND g.gpu_id <> s.gpu_id AND g.valid_to IS NULL
  AND NOT EXISTS (SELECT FROM internal.device_claim d WHERE d.kind = 'gpu' AND d.name = g.uuid AND d.node_id = g.node_id AND d.holds_until > now())",
];
