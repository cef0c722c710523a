//! Natural keys to numbers: a cache of what is committed in the `*_key` tables.
//!
//! Missing keys are inserted by statements of their own, outside the batch's transaction, so that an
//! identifier in the cache is always committed. A run has a key only once a record about it was accepted: `claims` asks for it.
//! What may be removed (cells and runs) is looked for before it is used.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use throughline_sample::Guid;
use throughline_sample::wire::{Batch, MpiOpCell};
use tokio_postgres::Client;

use super::Entry;
use super::cell_keys::CellKeys;
use super::fabric_keys::FabricKeys;
use super::key_sql::{KeySql, position_and_id};
use super::metric_keys::{GpuMetric, MetricKeys};
use super::{WriteError, failed};

/// Keys in memory, all kinds together; a site has some 100,000 ports, and jobs come and go. At the limit
/// the cache is emptied and fills again from the database.
const CACHED_KEYS: usize = 1_000_000;

/// A port of a fabric: its id, node GUID, port number.
type IbPort = (i64, u64, u32);
/// A port of a host: node, device, port number.
type HostPort = (String, String, u32);
/// GUIDs of a host's port: its adapter's and its own; 0 where one was not read.
type HostPortGuids = (u64, u64);
/// A GPU as a node reports it: node, UUID.
type Gpu = (String, String);

/// Which devices a node may name (its number last): a key exists only for what it may report.
pub(super) trait DeviceFilter {
    fn admits_gpu(&self, entry: &Entry, batch: &Batch, uuid: &str, node: i64) -> bool;
    fn admits_port(&self, entry: &Entry, batch: &Batch, device: &str, port: u32, node: i64) -> bool;
}

/// The cache of one connection's database.
#[derive(Default)]
pub(super) struct Keys {
    fabrics: FabricKeys,
    nodes: HashMap<String, i64>,
    gpus: HashMap<Gpu, i64>,
    jobs: HashMap<String, i64>,
    ib_nodes: HashMap<(i64, u64), i64>,
    ib_ports: HashMap<IbPort, i64>,
    host_ports: HashMap<HostPort, (i64, HostPortGuids)>,
    cells: CellKeys,
    gpu_metrics: MetricKeys,
}

/// Keys of some batches that are not in the cache.
#[derive(Default)]
struct MissingKeys {
    gpus: BTreeSet<Gpu>,
    ib_nodes: BTreeSet<(i64, u64)>,
    ib_ports: BTreeSet<IbPort>,
    host_ports: BTreeMap<HostPort, HostPortGuids>,
}

impl Keys {
    /// The fabric that a crawler's batch is of.
    pub fn fabric(&self, batch: &Batch) -> Result<i64, String> {
        self.fabrics
            .id(batch)
            .ok_or_else(|| "the batch does not name its fabric, or that is not known".to_owned())
    }

    /// Why nothing of a crawler's batch can be stored for now; in words.
    pub fn denial(&self, entry: &Entry, batch: &Batch) -> Option<String> {
        self.fabrics.denial(entry, batch)
    }

    pub fn node(&self, name: &str) -> Result<i64, String> {
        self.nodes.get(name).copied().ok_or_else(|| match name {
            "" => "the batch does not name its node".to_owned(),
            _ => unresolved("node", name),
        })
    }

    pub fn gpu(&self, node: &str, uuid: &str) -> Result<i64, String> {
        let key = (node.to_owned(), uuid.to_owned());
        self.gpus.get(&key).copied().ok_or_else(|| unresolved("GPU", uuid))
    }

    /// The number of a metric of a GPU; none for one beyond the limit of names.
    pub fn gpu_metric(&self, gpu: i64, name: &str) -> Option<i64> {
        self.gpu_metrics.id(gpu, name)
    }

    pub fn job(&self, key: &str) -> Result<i64, String> {
        self.jobs.get(key).copied().ok_or_else(|| unresolved("job", key))
    }

    /// The number of what distinguishes a cell from others.
    pub fn cell(&self, cell: &MpiOpCell) -> Result<i64, String> {
        self.cells.id(cell)
    }

    pub fn ib_node(&self, fabric: i64, guid: u64) -> Result<i64, String> {
        self.ib_nodes.get(&(fabric, guid)).copied().ok_or_else(|| unresolved("fabric node", Guid(guid)))
    }

    pub fn ib_port(&self, fabric: i64, guid: u64, port: u32) -> Result<i64, String> {
        self.ib_ports.get(&(fabric, guid, port)).copied().ok_or_else(|| unresolved("fabric port", Guid(guid)))
    }

    pub fn host_port(&self, node: &str, device: &str, port: u32) -> Result<i64, String> {
        let key = (node.to_owned(), device.to_owned(), port);
        self.host_ports.get(&key).map(|(id, _)| *id).ok_or_else(|| unresolved("host port", device))
    }

    /// Makes the nodes of the batches known, and the runs that are there: by these it is judged what else they may name.
    pub async fn resolve_names<'a>(
        &mut self,
        client: &Client,
        batches: impl Iterator<Item = &'a Batch>,
    ) -> Result<(), WriteError> {
        if self.len() > CACHED_KEYS {
            *self = Self::default();
        }
        let batches: Vec<&Batch> = batches.collect();
        self.evict_removed_jobs(client, &batches).await?;
        let (mut nodes, mut jobs) = (BTreeSet::new(), BTreeSet::new());
        for batch in batches {
            let hosts = batch.job_ranks.iter().map(|rank| &rank.host);
            for name in batch.nodes.iter().map(|node| &node.name).chain(hosts).chain([&batch.node]) {
                note(&self.nodes, name, &mut nodes);
            }
            jobs.append(&mut self.jobs_without_key(batch));
        }
        self.resolve_nodes(client, nodes).await?;
        self.find_jobs(client, jobs).await
    }

    /// Finds the fabrics of the batches of crawlers.
    pub async fn resolve_fabrics(
        &mut self,
        client: &mut Client,
        entries: &[&Entry],
    ) -> Result<(), WriteError> {
        self.fabrics.resolve(client, entries).await
    }

    /// Makes every other key of the batches known; of a node's devices those that it may name.
    pub async fn resolve<'a>(
        &mut self,
        client: &Client,
        entries: impl Iterator<Item = (&'a Entry, &'a Batch)>,
        devices: &impl DeviceFilter,
    ) -> Result<(), WriteError> {
        let entries: Vec<_> = entries.collect();
        self.cells.resolve(client, entries.iter().map(|(_, batch)| *batch)).await?;
        let mut missing = MissingKeys::default();
        for (entry, batch) in &entries {
            let (entry, batch) = (*entry, *batch);
            self.note_missing(batch, &mut missing);
            if let Ok(node) = self.node(&batch.node) {
                missing
                    .gpus
                    .retain(|(of, uuid)| *of != batch.node || devices.admits_gpu(entry, batch, uuid, node));
                missing.host_ports.retain(|(of, device, port), _| {
                    *of != batch.node || devices.admits_port(entry, batch, device, *port, node)
                });
            }
        }
        self.resolve_gpus(client, missing.gpus).await?;
        let metrics: BTreeSet<GpuMetric> =
            entries.iter().flat_map(|(_, batch)| self.metrics(batch)).collect();
        self.gpu_metrics.resolve(client, metrics).await?;
        self.resolve_ib_nodes(client, missing.ib_nodes).await?;
        self.resolve_ib_ports(client, missing.ib_ports).await?;
        self.resolve_host_ports(client, missing.host_ports).await
    }

    fn len(&self) -> usize {
        self.nodes.len()
            + self.gpus.len()
            + self.jobs.len()
            + self.ib_nodes.len()
            + self.ib_ports.len()
            + self.host_ports.len()
            + self.cells.len()
            + self.gpu_metrics.len()
    }

    fn note_missing(&self, batch: &Batch, missing: &mut MissingKeys) {
        let gpus = batch.gpu_links.iter().map(|sample| &sample.gpu_uuid);
        let gpus = gpus.chain(batch.gpu_pcie.iter().map(|sample| &sample.gpu_uuid));
        let gpus = gpus.chain(batch.gpu_pm.iter().map(|sample| &sample.gpu_uuid));
        let gpus = gpus.chain(batch.gpu_metrics.iter().map(|sample| &sample.gpu_uuid));
        let gpus = gpus.chain(batch.gpus.iter().flat_map(|gpu| [&gpu.uuid, &gpu.parent_uuid]));
        let links = batch.gpu_link_infos.iter().flat_map(|link| [&link.gpu_uuid, &link.remote_gpu_uuid]);
        for uuid in gpus.chain(links) {
            let key = (batch.node.clone(), uuid.clone());
            if !uuid.is_empty() && !self.gpus.contains_key(&key) {
                missing.gpus.insert(key);
            }
        }
        for rank in &batch.job_ranks {
            let host = if rank.host.is_empty() { &batch.node } else { &rank.host };
            for uuid in rank.gpus.iter().flat_map(|gpu| [&gpu.gpu_uuid, &gpu.partition_uuid]) {
                let key = (host.clone(), uuid.clone());
                if !uuid.is_empty() && !self.gpus.contains_key(&key) {
                    missing.gpus.insert(key);
                }
            }
        }
        if let Some(fabric) = self.fabrics.id(batch) {
            self.note_missing_of_fabric(fabric, batch, missing);
        }
        for sample in &batch.host_ports {
            let key = (batch.node.clone(), sample.device.clone(), sample.port);
            let guids = (sample.node_guid, sample.port_guid);
            // A GUID that was not known at first, or a replaced adapter.
            let known = self.host_ports.get(&key).map(|(_, guids)| *guids);
            if known.is_none_or(|known| known != guids && guids != (0, 0)) {
                missing.host_ports.insert(key, guids);
            }
        }
    }

    /// The metrics of a batch's GPUs that have a key of their own.
    fn metrics(&self, batch: &Batch) -> Vec<GpuMetric> {
        let samples = batch.gpu_metrics.iter();
        let known =
            samples.filter_map(|sample| Some((self.gpu(&batch.node, &sample.gpu_uuid).ok()?, sample)));
        let names =
            known.flat_map(|(gpu, sample)| sample.metrics.iter().map(move |one| (gpu, one.name.clone())));
        names.collect()
    }

    fn note_missing_of_fabric(&self, fabric: i64, batch: &Batch, missing: &mut MissingKeys) {
        let samples = batch.ib_ports.iter().map(|sample| (sample.node_guid, sample.port));
        let lanes = batch.ib_port_lanes.iter().map(|sample| (sample.node_guid, sample.port));
        let ports = batch.ib_nodes.iter().flat_map(|node| {
            node.ports.iter().flat_map(|port| {
                let remote = port.remote_guid.zip(port.remote_port);
                [Some((node.guid, port.port)), remote].into_iter().flatten()
            })
        });
        for (guid, port) in samples.chain(lanes).chain(ports) {
            if !self.ib_ports.contains_key(&(fabric, guid, port)) {
                missing.ib_ports.insert((fabric, guid, port));
            }
            self.note_ib_node(fabric, guid, missing);
        }
        let tables = batch.ib_multicast_tables.iter().map(|table| table.guid);
        for guid in batch.ib_nodes.iter().map(|node| node.guid).chain(tables) {
            self.note_ib_node(fabric, guid, missing);
        }
    }

    fn note_ib_node(&self, fabric: i64, guid: u64, missing: &mut MissingKeys) {
        if !self.ib_nodes.contains_key(&(fabric, guid)) {
            missing.ib_nodes.insert((fabric, guid));
        }
    }

    async fn resolve_nodes(&mut self, client: &Client, wanted: BTreeSet<String>) -> Result<(), WriteError> {
        let wanted: Vec<String> = wanted.into_iter().collect();
        let sql = KeySql {
            find: "SELECT w.position, k.id FROM unnest($1::text[]) WITH ORDINALITY AS w(name, position) \
                   JOIN internal.node_key k USING (name)",
            add: "INSERT INTO internal.node_key (name) SELECT unnest($1::text[]) ON CONFLICT DO NOTHING",
        };
        let ids = sql.resolve(client, wanted.len(), &[&wanted]).await?;
        self.nodes.extend(ids.into_iter().map(|(at, id)| (wanted[at].clone(), id)));
        Ok(())
    }

    async fn resolve_gpus(&mut self, client: &Client, wanted: BTreeSet<Gpu>) -> Result<(), WriteError> {
        let wanted: Vec<Gpu> = wanted.into_iter().collect();
        let mut nodes = Vec::with_capacity(wanted.len());
        for (node, _) in &wanted {
            nodes.push(self.node(node).map_err(WriteError::Data)?);
        }
        let uuids: Vec<&str> = wanted.iter().map(|(_, uuid)| uuid.as_str()).collect();
        let sql = KeySql {
            find: "SELECT w.position, k.id FROM unnest($1::bigint[], $2::text[]) WITH ORDINALITY \
                   AS w(node_id, uuid, position) JOIN internal.gpu_key k USING (node_id, uuid)",
            add: "INSERT INTO internal.gpu_key (node_id, uuid) SELECT * FROM unnest($1::bigint[], $2::text[]) ON CONFLICT DO NOTHING",
        };
        let ids = sql.resolve(client, wanted.len(), &[&nodes, &uuids]).await?;
        self.gpus.extend(ids.into_iter().map(|(at, id)| (wanted[at].clone(), id)));
        Ok(())
    }

    /// Evicts the jobs of these batches that somebody removed.
    async fn evict_removed_jobs(&mut self, client: &Client, batches: &[&Batch]) -> Result<(), WriteError> {
        let names = batches.iter().flat_map(|batch| jobs(batch));
        let used: BTreeMap<&String, i64> =
            names.filter_map(|name| Some((name, *self.jobs.get(name)?))).collect();
        if used.is_empty() {
            return Ok(());
        }
        let (names, ids): (Vec<&String>, Vec<i64>) = used.into_iter().unzip();
        let removed = "SELECT w.key FROM unnest($1::text[], $2::bigint[]) w (key, id)
                       WHERE NOT EXISTS (SELECT FROM internal.run_alias a WHERE a.key = w.key AND a.job_id = w.id)";
        let rows =
            client.query(removed, &[&names, &ids]).await.map_err(failed("looking whether jobs are there"))?;
        for row in &rows {
            self.jobs.remove(row.get::<_, &str>(0));
        }
        Ok(())
    }

    /// Runs by the names that senders have for them. Those that are not there stay unknown.
    async fn find_jobs(&mut self, client: &Client, wanted: BTreeSet<String>) -> Result<(), WriteError> {
        if wanted.is_empty() {
            return Ok(());
        }
        let wanted: Vec<String> = wanted.into_iter().collect();
        let find = "SELECT key, job_id FROM internal.run_alias WHERE key = ANY($1)";
        let rows = client.query(find, &[&wanted]).await.map_err(failed("looking up jobs"))?;
        self.jobs.extend(rows.iter().map(|row| (row.get(0), row.get(1))));
        Ok(())
    }

    /// Makes runs of these names, where there are none.
    pub async fn add_jobs(&mut self, client: &Client, wanted: BTreeSet<String>) -> Result<(), WriteError> {
        if wanted.is_empty() {
            return Ok(());
        }
        let names: Vec<&String> = wanted.iter().collect();
        let what = "adding jobs";
        let runs = "INSERT INTO internal.run (key) SELECT w.key FROM unnest($1::text[]) w(key) \
                    WHERE NOT EXISTS (SELECT FROM internal.run_alias a WHERE a.key = w.key) ORDER BY w.key ON CONFLICT DO NOTHING";
        client.execute(runs, &[&names]).await.map_err(failed(what))?;
        let aliases = "INSERT INTO internal.run_alias (key, job_id) SELECT key, id FROM internal.run WHERE key = ANY($1) ORDER BY key \
                       ON CONFLICT DO NOTHING";
        client.execute(aliases, &[&names]).await.map_err(failed(what))?;
        self.find_jobs(client, wanted).await
    }

    /// The jobs that a batch names and that have no key yet.
    pub fn jobs_without_key(&self, batch: &Batch) -> BTreeSet<String> {
        let mut missing = BTreeSet::new();
        for key in jobs(batch) {
            note(&self.jobs, key, &mut missing);
        }
        missing
    }

    async fn resolve_ib_nodes(
        &mut self,
        client: &Client,
        wanted: BTreeSet<(i64, u64)>,
    ) -> Result<(), WriteError> {
        let wanted: Vec<(i64, u64)> = wanted.into_iter().collect();
        let fabrics: Vec<i64> = wanted.iter().map(|(fabric, _)| *fabric).collect();
        let guids: Vec<String> = wanted.iter().map(|(_, guid)| Guid(*guid).to_string()).collect();
        let sql = KeySql {
            find: "SELECT w.position, k.id FROM unnest($1::bigint[], $2::text[]) WITH ORDINALITY \
                   AS w(fabric_id, guid, position) JOIN internal.ib_node_key k USING (fabric_id, guid)",
            add: "INSERT INTO internal.ib_node_key (fabric_id, guid) SELECT * FROM unnest($1::bigint[], $2::text[]) \
                  ON CONFLICT DO NOTHING",
        };
        for (at, id) in sql.resolve(client, wanted.len(), &[&fabrics, &guids]).await? {
            self.ib_nodes.insert(wanted[at], id);
        }
        Ok(())
    }

    async fn resolve_ib_ports(
        &mut self,
        client: &Client,
        wanted: BTreeSet<IbPort>,
    ) -> Result<(), WriteError> {
        let wanted: Vec<IbPort> = wanted.into_iter().collect();
        let mut nodes = Vec::new();
        let mut ports = Vec::new();
        for (fabric, guid, port) in &wanted {
            nodes.push(self.ib_node(*fabric, *guid).map_err(WriteError::Data)?);
            ports.push(small(*port, "port").map_err(WriteError::Data)?);
        }
        let sql = KeySql {
            find: "SELECT w.position, k.id FROM unnest($1::bigint[], $2::integer[]) WITH ORDINALITY \
                   AS w(ib_node_id, port, position) JOIN internal.ib_port_key k USING (ib_node_id, port)",
            add: "INSERT INTO internal.ib_port_key (ib_node_id, port) SELECT * FROM unnest($1::bigint[], $2::integer[]) \
                  ON CONFLICT DO NOTHING",
        };
        for (at, id) in sql.resolve(client, wanted.len(), &[&nodes, &ports]).await? {
            self.ib_ports.insert(wanted[at], id);
        }
        Ok(())
    }

    async fn resolve_host_ports(
        &mut self,
        client: &Client,
        wanted: BTreeMap<HostPort, HostPortGuids>,
    ) -> Result<(), WriteError> {
        let (mut nodes, mut devices, mut ports) = (Vec::new(), Vec::new(), Vec::new());
        let (mut guids, mut port_guids) = (Vec::new(), Vec::new());
        let text = |guid: u64| (guid != 0).then(|| Guid(guid).to_string());
        for ((node, device, port), (node_guid, port_guid)) in &wanted {
            nodes.push(self.node(node).map_err(WriteError::Data)?);
            devices.push(device.as_str());
            ports.push(small(*port, "port").map_err(WriteError::Data)?);
            guids.push(text(*node_guid));
            port_guids.push(text(*port_guid));
        }
        if wanted.is_empty() {
            return Ok(());
        }
        let upsert = "INSERT INTO internal.host_port_key AS k (node_id, device, port, guid, port_guid) \
                      SELECT * FROM unnest($1::bigint[], $2::text[], $3::integer[], $4::text[], $5::text[]) \
                      ON CONFLICT (node_id, device, port) DO UPDATE SET \
                        guid = coalesce(excluded.guid, k.guid), port_guid = coalesce(excluded.port_guid, k.port_guid) \
                      WHERE k.guid IS DISTINCT FROM coalesce(excluded.guid, k.guid) \
                        OR k.port_guid IS DISTINCT FROM coalesce(excluded.port_guid, k.port_guid)";
        let what = "noting host ports";
        client
            .execute(upsert, &[&nodes, &devices, &ports, &guids, &port_guids])
            .await
            .map_err(failed(what))?;
        let find = "SELECT w.position, k.id FROM unnest($1::bigint[], $2::text[], $3::integer[]) WITH ORDINALITY \
                    AS w(node_id, device, port, position) JOIN internal.host_port_key k USING (node_id, device, port)";
        let rows = client.query(find, &[&nodes, &devices, &ports]).await.map_err(failed(what))?;
        let mut ids: HashMap<usize, i64> = rows.iter().map(position_and_id).collect();
        for (at, (key, guids)) in wanted.into_iter().enumerate() {
            if let Some(id) = ids.remove(&at) {
                self.host_ports.insert(key, (id, guids));
            }
        }
        Ok(())
    }
}

/// Keys of the jobs that a batch's records are about.
fn jobs(batch: &Batch) -> impl Iterator<Item = &String> {
    let jobs = batch.mpi_ops.iter().map(|bin| &bin.job_key);
    let jobs = jobs.chain(batch.mpi_peers.iter().map(|peers| &peers.job_key));
    let jobs = jobs.chain(batch.mpi_pvars.iter().map(|pvar| &pvar.job_key));
    let jobs = jobs.chain(batch.mpi_regions.iter().map(|regions| &regions.job_key));
    let jobs = jobs.chain(batch.mpi_traffic.iter().map(|traffic| &traffic.job_key));
    let jobs = jobs.chain(batch.mpi_rank_rows.iter().map(|row| &row.job_key));
    let jobs = jobs.chain(batch.mpi_node_cells.iter().map(|cells| &cells.job_key));
    let jobs = jobs.chain(batch.mpi_sampled_calls.iter().map(|calls| &calls.job_key));
    let jobs = jobs.chain(batch.mpi_open_calls.iter().map(|call| &call.job_key));
    let jobs = jobs.chain(batch.mpi_scheduling.iter().map(|reading| &reading.job_key));
    let jobs = jobs.chain(batch.mpi_traces.iter().map(|trace| &trace.job_key));
    let jobs = jobs.chain(batch.mpi_clocks.iter().map(|clock| &clock.job_key));
    let jobs = jobs.chain(batch.job_comms.iter().map(|comm| &comm.job_key));
    let jobs = jobs.chain(batch.job_settings.iter().map(|setting| &setting.job_key));
    let jobs = jobs.chain(batch.jobs.iter().map(|job| &job.key));
    jobs.chain(batch.job_ranks.iter().map(|rank| &rank.job_key))
}

fn note<T>(cache: &HashMap<String, T>, name: &str, missing: &mut BTreeSet<String>) {
    if !name.is_empty() && !cache.contains_key(name) {
        missing.insert(name.to_owned());
    }
}

fn unresolved(kind: &str, name: impl std::fmt::Display) -> String {
    format!("{kind} '{name}' has no identifier")
}

/// A number of the wire as the store's integer.
pub(super) fn small(value: u32, what: &str) -> Result<i32, String> {
    i32::try_from(value).map_err(|_| format!("{what} {value} is out of range"))
}
