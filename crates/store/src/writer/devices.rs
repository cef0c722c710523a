//! Which node a GPU or an adapter is in. A node gets a device by reporting it, unless another one has reported it lately.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use throughline_sample::Guid;
use throughline_sample::wire::Batch;
use tokio_postgres::Client;

use super::{WriteError, failed};

/// How long a node must not have reported a GPU or an adapter before another node may have it: hardware moves in the time
/// of a repair.
const TRANSFER_AFTER_SECONDS: f64 = 3600.0;

/// How often an owner's report is noted again: a fraction of [`TRANSFER_AFTER_SECONDS`].
const NOTED_AGAIN: Duration = Duration::from_secs(600);

/// A node, and when its report was noted.
type Place = (i64, Instant);

/// What is known of the database.
#[derive(Default)]
pub(super) struct Devices {
    /// By UUID.
    gpus: HashMap<String, Place>,
    /// Adapters by node GUID.
    hcas: HashMap<u64, Place>,
}

/// A device that is to be claimed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Device {
    Gpu(String),
    Hca(u64),
}

impl Device {
    fn kind(&self) -> &'static str {
        match self {
            Device::Gpu(_) => "gpu",
            Device::Hca(_) => "hca",
        }
    }

    fn name(&self) -> String {
        match self {
            Device::Gpu(uuid) => uuid.clone(),
            Device::Hca(guid) => Guid(*guid).to_string(),
        }
    }
}

impl Devices {
    pub fn len(&self) -> usize {
        self.gpus.len() + self.hcas.len()
    }

    /// Whether a GPU is this node's.
    pub fn has_gpu(&self, uuid: &str, node: i64) -> bool {
        self.gpus.get(uuid).is_some_and(|(of, _)| *of == node)
    }

    /// Whether an adapter is this node's.
    pub fn has_hca(&self, guid: u64, node: i64) -> bool {
        self.hcas.get(&guid).is_some_and(|(of, _)| *of == node)
    }

    /// Claims the devices of these nodes' batches that are not known as theirs.
    pub async fn claim(&mut self, client: &Client, batches: &[(&Batch, i64)]) -> Result<(), WriteError> {
        let now = Instant::now();
        let is_known = |place: Option<&Place>, node: i64| {
            place.is_some_and(|(of, noted)| *of == node && now.duration_since(*noted) < NOTED_AGAIN)
        };
        // In one order for all writers.
        let mut wanted: BTreeMap<Device, i64> = BTreeMap::new();
        for (batch, node) in batches {
            for uuid in gpus(batch).filter(|uuid| !is_known(self.gpus.get(*uuid), *node)) {
                wanted.entry(Device::Gpu(uuid.to_owned())).or_insert(*node);
            }
            for guid in hcas(batch).filter(|guid| !is_known(self.hcas.get(guid), *node)) {
                wanted.entry(Device::Hca(guid)).or_insert(*node);
            }
        }
        if wanted.is_empty() {
            return Ok(());
        }
        let kinds: Vec<&str> = wanted.keys().map(Device::kind).collect();
        let names: Vec<String> = wanted.keys().map(Device::name).collect();
        let nodes: Vec<i64> = wanted.values().copied().collect();
        // A switch is nobody's adapter.
        let claim = "INSERT INTO internal.device_owner AS d (kind, name, node_id) \
                     SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[]) AS w(kind, name, node_id) \
                     WHERE w.kind <> 'hca' OR NOT EXISTS (SELECT FROM internal.ib_node n WHERE n.guid = w.name \
                         AND n.valid_to IS NULL AND n.type <> 'ca') \
                     ON CONFLICT (kind, name) DO UPDATE SET node_id = excluded.node_id, reported_at = now() \
                     WHERE d.node_id = excluded.node_id OR d.reported_at < now() - make_interval(secs => $4) \
                     RETURNING d.kind, d.name, d.node_id";
        let rows = client
            .query(claim, &[&kinds, &names, &nodes, &TRANSFER_AFTER_SECONDS])
            .await
            .map_err(failed("noting which node a device is in"))?;
        let claimed: HashMap<(&str, &str), i64> =
            rows.iter().map(|row| ((row.get(0), row.get(1)), row.get(2))).collect();
        for ((device, node), name) in wanted.into_iter().zip(&names) {
            let place = claimed.get(&(device.kind(), name.as_str())).map(|of| (*of, now));
            match (device, place) {
                (Device::Gpu(uuid), Some(place)) => drop(self.gpus.insert(uuid, place)),
                (Device::Hca(guid), Some(place)) => drop(self.hcas.insert(guid, place)),
                // Somebody else's by now.
                (Device::Gpu(uuid), None) if self.has_gpu(&uuid, node) => drop(self.gpus.remove(&uuid)),
                (Device::Hca(guid), None) if self.has_hca(guid, node) => drop(self.hcas.remove(&guid)),
                _ => {}
            }
        }
        Ok(())
    }
}

/// GPUs that a batch reports as the node's own.
fn gpus(batch: &Batch) -> impl Iterator<Item = &str> {
    let links = batch.gpu_links.iter().map(|sample| &sample.gpu_uuid);
    let links = links.chain(batch.gpu_pcie.iter().map(|sample| &sample.gpu_uuid));
    let links = links.chain(batch.gpu_pm.iter().map(|sample| &sample.gpu_uuid));
    let links = links.chain(batch.gpus.iter().map(|gpu| &gpu.uuid));
    links.chain(batch.gpu_link_infos.iter().map(|link| &link.gpu_uuid)).map(String::as_str)
}

/// Adapters that a batch reports as the node's own.
fn hcas(batch: &Batch) -> impl Iterator<Item = u64> {
    let ports = batch.host_ports.iter().map(|sample| sample.node_guid);
    ports.chain(batch.nodes.iter().flat_map(|node| node.hca_guids.iter().copied())).filter(|guid| *guid != 0)
}
