//! Which GPUs, adapters and ports a node reports as its own. Where another node reports the same device, both claims are stored:
//! nobody gets or loses a device by being first, and `job_rank_ports` leaves out what nodes contest.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use throughline_sample::Guid;
use throughline_sample::wire::Batch;
use tokio_postgres::Client;

use super::{NodeLimits, WriteError, failed};

/// How often a node's report of a device is noted again.
const NOTED_AGAIN: Duration = Duration::from_secs(600);

/// A claim holds for three of these times.
const CLAIM_SECONDS: f64 = 1800.0;

/// A GPU is divided into at most seven partitions (NVIDIA's MIG), which are reported as GPUs.
const PARTITIONS_AND_GPU: u32 = 8;

/// What is known of the database: when a node's report of a device was noted.
pub(super) struct Devices {
    limits: NodeLimits,
    noted: HashMap<(i64, Device), Instant>,
}

/// A device that is to be claimed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Device {
    Gpu(String),
    Hca(u64),
    /// `DEVICE/PORT`, as the host calls it.
    Port(String),
}

impl Device {
    fn kind(&self) -> &'static str {
        match self {
            Device::Gpu(_) => "gpu",
            Device::Hca(_) => "hca",
            Device::Port(_) => "port",
        }
    }

    fn name(&self) -> String {
        match self {
            Device::Gpu(name) | Device::Port(name) => name.clone(),
            Device::Hca(guid) => Guid(*guid).to_string(),
        }
    }

    fn limit(&self, limits: &NodeLimits) -> usize {
        let limit = match self {
            Device::Gpu(_) => limits.gpus_max * PARTITIONS_AND_GPU,
            Device::Hca(_) | Device::Port(_) => limits.ports_max,
        };
        limit as usize
    }
}

impl Devices {
    pub fn new(limits: NodeLimits) -> Self {
        Self { limits, noted: HashMap::new() }
    }

    pub fn len(&self) -> usize {
        self.noted.len()
    }

    pub fn clear(&mut self) {
        self.noted.clear();
    }

    /// Whether a GPU is among those of this node.
    pub fn has_gpu(&self, uuid: &str, node: i64) -> bool {
        self.noted.contains_key(&(node, Device::Gpu(uuid.to_owned())))
    }

    /// Whether an adapter is among those of this node.
    pub fn has_hca(&self, guid: u64, node: i64) -> bool {
        self.noted.contains_key(&(node, Device::Hca(guid)))
    }

    /// Whether a port is among those of this node.
    pub fn has_port(&self, device: &str, port: u32, node: i64) -> bool {
        self.noted.contains_key(&(node, Device::Port(format!("{device}/{port}"))))
    }

    /// Claims the devices of these nodes' batches that are not known as theirs, within their limits.
    pub async fn claim(&mut self, client: &Client, batches: &[(&Batch, i64)]) -> Result<(), WriteError> {
        let now = Instant::now();
        // In one order for all writers.
        let mut wanted: BTreeSet<(i64, Device)> = BTreeSet::new();
        for (batch, node) in batches {
            let devices = devices(batch).map(|device| (*node, device));
            wanted.extend(devices.filter(|one| {
                self.noted.get(one).is_none_or(|noted| now.duration_since(*noted) >= NOTED_AGAIN)
            }));
        }
        if wanted.is_empty() {
            return Ok(());
        }
        let what = "noting which node a device is in";
        let nodes: BTreeSet<i64> = wanted.iter().map(|(node, _)| *node).collect();
        let nodes: Vec<i64> = nodes.into_iter().collect();
        let known = "SELECT node_id, kind, name FROM internal.device_claim \
                     WHERE node_id = ANY($1) AND holds_until > now()";
        let rows = client.query(known, &[&nodes]).await.map_err(failed(what))?;
        let mut of_node: BTreeMap<(i64, String), BTreeSet<String>> = BTreeMap::new();
        for row in &rows {
            of_node.entry((row.get(0), row.get(1))).or_default().insert(row.get(2));
        }
        let limits = self.limits;
        let admitted = wanted.into_iter().filter(|(node, device)| {
            let known = of_node.entry((*node, device.kind().to_owned())).or_default();
            let is_admitted = known.contains(&device.name()) || known.len() < device.limit(&limits);
            if is_admitted {
                known.insert(device.name());
            }
            is_admitted
        });
        let admitted: Vec<(i64, Device)> = admitted.collect();
        let kinds: Vec<&str> = admitted.iter().map(|(_, device)| device.kind()).collect();
        let names: Vec<String> = admitted.iter().map(|(_, device)| device.name()).collect();
        let nodes: Vec<i64> = admitted.iter().map(|(node, _)| *node).collect();
        // A switch is nobody's adapter.
        let claim = "INSERT INTO internal.device_claim AS d (kind, name, node_id, holds_until) \
                     SELECT w.*, now() + make_interval(secs => $4) FROM unnest($1::text[], $2::text[], $3::bigint[]) AS w(kind, name, node_id) \
                     WHERE w.kind <> 'hca' OR NOT EXISTS (SELECT FROM internal.ib_node n WHERE n.guid = w.name \
                         AND n.valid_to IS NULL AND n.type <> 'ca') \
                     ORDER BY 1, 2, 3 \
                     ON CONFLICT (kind, name, node_id) DO UPDATE SET holds_until = excluded.holds_until \
                     RETURNING d.kind, d.name, d.node_id";
        let rows =
            client.query(claim, &[&kinds, &names, &nodes, &CLAIM_SECONDS]).await.map_err(failed(what))?;
        let claimed: BTreeSet<(&str, &str, i64)> =
            rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
        for ((node, device), name) in admitted.into_iter().zip(&names) {
            if claimed.contains(&(device.kind(), name, node)) {
                self.noted.insert((node, device), now);
            } else {
                self.noted.remove(&(node, device));
            }
        }
        Ok(())
    }
}

/// Devices that a batch reports as the node's own.
fn devices(batch: &Batch) -> impl Iterator<Item = Device> {
    let ports =
        batch.host_ports.iter().map(|sample| Device::Port(format!("{}/{}", sample.device, sample.port)));
    gpus(batch).map(|uuid| Device::Gpu(uuid.to_owned())).chain(hcas(batch).map(Device::Hca)).chain(ports)
}

/// GPUs that a batch reports as the node's own.
fn gpus(batch: &Batch) -> impl Iterator<Item = &str> {
    let links = batch.gpu_links.iter().map(|sample| &sample.gpu_uuid);
    let links = links.chain(batch.gpu_pcie.iter().map(|sample| &sample.gpu_uuid));
    let links = links.chain(batch.gpu_pm.iter().map(|sample| &sample.gpu_uuid));
    let links = links.chain(batch.gpu_metrics.iter().map(|sample| &sample.gpu_uuid));
    let links = links.chain(batch.gpus.iter().flat_map(|gpu| [&gpu.uuid, &gpu.parent_uuid]));
    // The other end of a link is a GPU of the same node.
    let links =
        links.chain(batch.gpu_link_infos.iter().flat_map(|link| [&link.gpu_uuid, &link.remote_gpu_uuid]));
    let of_ranks = batch.job_ranks.iter().flat_map(|rank| &rank.gpus);
    let links = links.chain(of_ranks.flat_map(|gpu| [&gpu.gpu_uuid, &gpu.partition_uuid]));
    links.map(String::as_str).filter(|uuid| !uuid.is_empty())
}

/// Adapters that a batch reports as the node's own.
fn hcas(batch: &Batch) -> impl Iterator<Item = u64> {
    let ports = batch.host_ports.iter().map(|sample| sample.node_guid);
    ports.chain(batch.nodes.iter().flat_map(|node| node.hca_guids.iter().copied())).filter(|guid| *guid != 0)
}
