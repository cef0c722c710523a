//! What a node may report: what it says of itself. A claim that another node makes of the same job, rank or device takes nothing
//! from it: both are stored, and `contests` settles which one counts.
//!
//! What is found stays in a cache, so that honest batches cost a look-up a record and no query. Claims of a transaction
//! are noted apart ([`Claims::pending`]) and become part of the cache after its commit.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use throughline_sample::admission::Rejection;
use throughline_sample::job_key;
use throughline_sample::wire::*;
use tokio_postgres::Client;

use super::devices::Devices;
use super::job_limits::JobLimits;
use super::keys::{DeviceFilter, Keys, small};
use super::{Content, Entry, NodeLimits, RecordRejection, WriteError, failed};

/// Claims in memory; at the limit the cache is emptied and fills again from the database.
const CACHED_CLAIMS: usize = 1_000_000;

/// A rank (job, number) on a node.
type RankOfNode = (i64, i32, i64);

/// What is known of the database.
pub(super) struct Claims {
    devices: Devices,
    /// Nodes (second) that report a job (first).
    members: HashSet<(i64, i64)>,
    ranks: HashSet<RankOfNode>,
    jobs: JobLimits,
    /// What this transaction adds.
    pending: PendingClaims,
}

/// Claims of a transaction that is not committed, and those of the database that are not cached.
#[derive(Default)]
struct PendingClaims {
    members: HashSet<(i64, i64)>,
    ranks: HashSet<RankOfNode>,
    /// Jobs (second) that a node (first) began to report, beyond its limits.
    beyond_limits: HashSet<(i64, String)>,
    /// Job keys that an event may be about, with the node.
    event_jobs: HashSet<(String, i64)>,
}

impl Claims {
    pub fn new(limits: NodeLimits) -> Self {
        Self {
            devices: Devices::new(limits),
            members: HashSet::new(),
            ranks: HashSet::new(),
            jobs: JobLimits::new(limits),
            pending: PendingClaims::default(),
        }
    }

    fn len(&self) -> usize {
        self.devices.len() + self.members.len() + self.ranks.len()
    }

    /// Forgets what the last transaction was to add, reads what these entries need, and makes the keys of runs whose
    /// nodes may report them.
    pub async fn load(
        &mut self,
        client: &Client,
        entries: &[&Entry],
        keys: &mut Keys,
    ) -> Result<(), WriteError> {
        if self.len() > CACHED_CLAIMS {
            self.devices.clear();
            self.members.clear();
            self.ranks.clear();
        }
        self.pending = PendingClaims::default();
        let batches: Vec<(&Batch, i64)> = entries
            .iter()
            .filter_map(|entry| match &entry.content {
                Content::Batch(batch) if is_judged(entry, batch) => {
                    Some((batch, keys.node(&batch.node).ok()?))
                }
                _ => None,
            })
            .collect();
        self.devices.claim(client, &batches).await?;
        self.read_members(client, &batches, keys).await?;
        self.admit_jobs(client, &batches, keys).await?;
        self.read_ranks(client, &batches, keys).await?;
        self.read_event_jobs(client, &batches).await
    }

    /// The transaction was committed: what it added holds.
    pub fn committed(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        self.members.extend(pending.members);
        self.ranks.extend(pending.ranks);
    }

    async fn read_members(
        &mut self,
        client: &Client,
        batches: &[(&Batch, i64)],
        keys: &Keys,
    ) -> Result<(), WriteError> {
        let mut missing: HashSet<(i64, i64)> = HashSet::new();
        for (batch, node) in batches {
            for (key, rank) in ranks(batch) {
                let (Ok(id), Ok(rank)) = (keys.job(key), small(rank, "rank")) else { continue };
                if !self.ranks.contains(&(id, rank, *node)) && !self.members.contains(&(id, *node)) {
                    missing.insert((id, *node));
                }
            }
            let jobs = jobs_of_node(batch).filter_map(|key| keys.job(key).ok());
            missing.extend(jobs.map(|id| (id, *node)).filter(|of| !self.members.contains(of)));
        }
        if missing.is_empty() {
            return Ok(());
        }
        let (jobs, nodes): (Vec<i64>, Vec<i64>) = missing.into_iter().unzip();
        let find = "SELECT job_id, node_id FROM internal.run_claim JOIN unnest($1::bigint[], $2::bigint[]) \
                    AS w(job_id, node_id) USING (job_id, node_id)";
        let rows = client.query(find, &[&jobs, &nodes]).await.map_err(failed("looking up nodes of jobs"))?;
        self.members.extend(rows.iter().map(|row| (row.get::<_, i64>(0), row.get::<_, i64>(1))));
        Ok(())
    }

    /// Jobs that a node reports for the first time: those within its limits get a key.
    async fn admit_jobs(
        &mut self,
        client: &Client,
        batches: &[(&Batch, i64)],
        keys: &mut Keys,
    ) -> Result<(), WriteError> {
        let mut begun: BTreeMap<(i64, &str), u32> = BTreeMap::new();
        for (batch, node) in batches {
            let is_new = |key: &str| {
                !keys.job(key).is_ok_and(|id| self.members.contains(&(id, *node))) && !key.is_empty()
            };
            let jobs = batch.jobs.iter().map(|job| (job.key.as_str(), job.uid));
            for (key, uid) in jobs.filter(|(key, _)| is_new(key)) {
                begun.insert((*node, key), uid);
            }
        }
        if begun.is_empty() {
            return Ok(());
        }
        let beyond = self.jobs.beyond(client, &begun).await?;
        let admitted = begun.keys().filter(|one| !beyond.contains(one)).map(|(_, key)| (*key).to_owned());
        let admitted: BTreeSet<String> = admitted.filter(|key| keys.job(key).is_err()).collect();
        keys.add_jobs(client, admitted).await?;
        self.pending.beyond_limits = beyond.into_iter().map(|(node, key)| (node, key.to_owned())).collect();
        Ok(())
    }

    async fn read_ranks(
        &mut self,
        client: &Client,
        batches: &[(&Batch, i64)],
        keys: &Keys,
    ) -> Result<(), WriteError> {
        let mut missing: HashSet<RankOfNode> = HashSet::new();
        for (batch, node) in batches {
            for (key, rank) in ranks(batch) {
                let (Ok(job), Ok(rank)) = (keys.job(key), small(rank, "rank")) else { continue };
                if !self.ranks.contains(&(job, rank, *node)) {
                    missing.insert((job, rank, *node));
                }
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let (mut jobs, mut numbers, mut nodes) = (Vec::new(), Vec::new(), Vec::new());
        for (job, number, node) in missing {
            jobs.push(job);
            numbers.push(number);
            nodes.push(node);
        }
        let find = "SELECT DISTINCT job_id, rank, node_id \
                    FROM unnest($1::bigint[], $2::integer[], $3::bigint[]) AS w(job_id, rank, node_id) \
                    JOIN internal.rank_claim r USING (job_id, rank, node_id)";
        let rows =
            client.query(find, &[&jobs, &numbers, &nodes]).await.map_err(failed("looking up ranks"))?;
        self.ranks.extend(rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))));
        Ok(())
    }

    async fn read_event_jobs(
        &mut self,
        client: &Client,
        batches: &[(&Batch, i64)],
    ) -> Result<(), WriteError> {
        let wanted: HashSet<(&str, i64)> = batches
            .iter()
            .flat_map(|(batch, node)| batch.events.iter().map(|event| (event.job_key.as_str(), *node)))
            .filter(|(key, _)| !key.is_empty())
            .collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let (names, nodes): (Vec<&str>, Vec<i64>) = wanted.into_iter().unzip();
        let find = "SELECT j.key, w.node_id FROM unnest($1::text[], $2::bigint[]) AS w(key, node_id) \
                    JOIN internal.run j ON j.key = w.key JOIN internal.run_claim n ON n.job_id = j.id AND n.node_id = w.node_id";
        let rows =
            client.query(find, &[&names, &nodes]).await.map_err(failed("looking up jobs of events"))?;
        self.pending.event_jobs = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        Ok(())
    }

    fn is_member(&self, job: i64, node: i64) -> bool {
        self.pending.members.contains(&(job, node)) || self.members.contains(&(job, node))
    }

    fn has_rank(&self, job: i64, rank: i32, node: i64) -> bool {
        self.pending.ranks.contains(&(job, rank, node)) || self.ranks.contains(&(job, rank, node))
    }

    /// A node reports a job: another user's than its key says is none.
    fn claim_job(&mut self, job: &Job, node: i64, keys: &Keys) -> Result<(), Rejection> {
        if job_key::owner(&job.key).is_some_and(|uid| uid != job.uid) {
            return Err(Rejection::Job);
        }
        if self.pending.beyond_limits.contains(&(node, job.key.clone())) {
            return Err(Rejection::Quota);
        }
        let id = keys.job(&job.key).map_err(|_| Rejection::Name)?;
        self.pending.members.insert((id, node));
        Ok(())
    }

    /// A node reports a rank of a job that it reports.
    fn claim_rank(&mut self, rank: &JobRank, node: i64, keys: &Keys) -> Result<(), Rejection> {
        let job = keys.job(&rank.job_key).map_err(|_| Rejection::Job)?;
        let number = small(rank.rank, "rank").map_err(|_| Rejection::Number)?;
        if !self.is_member(job, node) {
            return Err(Rejection::Job);
        }
        self.pending.ranks.insert((job, number, node));
        Ok(())
    }

    /// Whether a node may report this rank's figures: it runs there.
    fn check_rank(&self, key: &str, rank: u32, node: i64, keys: &Keys) -> Result<(), Rejection> {
        let job = keys.job(key).map_err(|_| Rejection::Job)?;
        let rank = small(rank, "rank").map_err(|_| Rejection::Number)?;
        if self.has_rank(job, rank, node) { Ok(()) } else { Err(Rejection::Job) }
    }

    /// Whether a node may report figures of its ranks of a job together.
    fn check_job(&self, key: &str, node: i64, keys: &Keys) -> Result<(), Rejection> {
        let job = keys.job(key).map_err(|_| Rejection::Job)?;
        if self.is_member(job, node) { Ok(()) } else { Err(Rejection::Job) }
    }

    /// What of a node's batch is not its own to report. `Ok` without anything is the rule.
    pub fn judge(
        &mut self,
        entry: &Entry,
        batch: &Batch,
        keys: &Keys,
    ) -> Option<(Batch, Vec<RecordRejection>)> {
        if !is_judged(entry, batch) {
            return None;
        }
        let node = keys.node(&batch.node).ok()?;
        // Which records of each kind go; a batch is copied only where there is one.
        let jobs = batch.jobs.iter().map(|job| self.claim_job(job, node, keys)).collect();
        let job_ranks = batch.job_ranks.iter().map(|rank| self.claim_rank(rank, node, keys)).collect();
        let verdicts = Verdicts { jobs, job_ranks };
        let this: &Claims = self;
        let gpu = |uuid: &str| if this.devices.has_gpu(uuid, node) { Ok(()) } else { Err(Rejection::Gpu) };
        let hca = |guid: u64| {
            if guid == 0 || this.devices.has_hca(guid, node) { Ok(()) } else { Err(Rejection::Node) }
        };
        let rank = |key: &str, rank| this.check_rank(key, rank, node, keys);
        let event_job = |key: &str| {
            let is_own = key.is_empty()
                || this.pending.event_jobs.contains(&(key.to_owned(), node))
                || keys.job(key).is_ok_and(|job| this.is_member(job, node));
            if is_own { Ok(()) } else { Err(Rejection::Job) }
        };
        let mut less = ReducedBatch { batch, copy: None, rejected: Vec::new() };
        macro_rules! keep {
            ($($kind:ident: $judge:expr),+ $(,)?) => {
                $(if !batch.$kind.iter().all(|record| $judge(record).is_ok()) {
                    let rejected = &mut less.rejected;
                    let copy = less.copy.get_or_insert_with(|| Box::new(less.batch.clone()));
                    copy.$kind.retain(|record| match $judge(record) {
                        Ok(()) => true,
                        Err(reason) => {
                            RecordRejection::note(rejected, reason, stringify!($kind), record);
                            false
                        }
                    });
                })+
            };
        }
        keep! {
            mpi_ops: |r: &MpiRankBin| rank(&r.job_key, r.rank),
            mpi_rank_rows: |r: &MpiRankBin| rank(&r.job_key, r.rank),
            mpi_node_cells: |r: &MpiNodeCells| this.check_job(&r.job_key, node, keys),
            mpi_peers: |r: &MpiRankPeers| rank(&r.job_key, r.rank),
            mpi_pvars: |r: &MpiPvarSample| rank(&r.job_key, r.rank),
            mpi_regions: |r: &MpiRankRegions| rank(&r.job_key, r.rank),
            mpi_traffic: |r: &MpiNodeTraffic| this.check_job(&r.job_key, node, keys),
            mpi_open_calls: |r: &MpiOpenCall| rank(&r.job_key, r.rank),
            mpi_scheduling: |r: &MpiRankScheduling| rank(&r.job_key, r.rank),
            mpi_sampled_calls: |r: &MpiSampledCalls| this.check_job(&r.job_key, node, keys),
            mpi_traces: |r: &MpiRankTrace| rank(&r.job_key, r.rank),
            mpi_clocks: |r: &MpiRankClock| rank(&r.job_key, r.rank),
            job_comms: |r: &JobComm| rank(&r.job_key, r.rank),
            job_settings: |r: &JobSetting| rank(&r.job_key, r.rank),
            gpu_links: |r: &GpuLinksSample| gpu(&r.gpu_uuid),
            gpu_pcie: |r: &GpuPcieSample| gpu(&r.gpu_uuid),
            gpu_pm: |r: &GpuPmSample| gpu(&r.gpu_uuid),
            gpu_metrics: |r: &GpuMetricsSample| gpu(&r.gpu_uuid),
            gpus: |r: &GpuInfo| gpu(&r.uuid),
            gpu_link_infos: |r: &GpuLinkInfo| gpu(&r.gpu_uuid),
            host_ports: |r: &HostPortSample| {
                let has_port = this.devices.has_port(&r.device, r.port, node);
                if has_port { hca(r.node_guid) } else { Err(Rejection::Quota) }
            },
            nodes: |r: &NodeInfo| r.hca_guids.iter().try_for_each(|guid| hca(*guid)),
            events: |r: &Event| {
                hca(r.ib_guid)?;
                if !r.gpu_uuid.is_empty() { gpu(&r.gpu_uuid)?; }
                event_job(&r.job_key)
            },
        }
        if !verdicts.is_ok() {
            less.take_out(&verdicts);
        }
        less.copy.map(|copy| (*copy, less.rejected))
    }
}

impl DeviceFilter for Claims {
    fn admits_gpu(&self, entry: &Entry, batch: &Batch, uuid: &str, node: i64) -> bool {
        !is_judged(entry, batch) || self.devices.has_gpu(uuid, node)
    }

    fn admits_port(&self, entry: &Entry, batch: &Batch, device: &str, port: u32, node: i64) -> bool {
        !is_judged(entry, batch) || self.devices.has_port(device, port, node)
    }
}

/// Verdicts on records that are judged in their order, each once.
struct Verdicts {
    jobs: Vec<Result<(), Rejection>>,
    job_ranks: Vec<Result<(), Rejection>>,
}

impl Verdicts {
    fn is_ok(&self) -> bool {
        self.jobs.iter().chain(&self.job_ranks).all(Result::is_ok)
    }
}

/// A batch that loses records.
struct ReducedBatch<'a> {
    batch: &'a Batch,
    copy: Option<Box<Batch>>,
    rejected: Vec<RecordRejection>,
}

impl ReducedBatch<'_> {
    fn take_out(&mut self, verdicts: &Verdicts) {
        let copy = self.copy.get_or_insert_with(|| Box::new(self.batch.clone()));
        let rejected = &mut self.rejected;
        let mut next = verdicts.jobs.iter();
        copy.jobs.retain(|job| match next.next() {
            Some(Err(reason)) => {
                RecordRejection::note(rejected, *reason, "jobs", job);
                false
            }
            _ => true,
        });
        let mut next = verdicts.job_ranks.iter();
        copy.job_ranks.retain(|rank| match next.next() {
            Some(Err(reason)) => {
                RecordRejection::note(rejected, *reason, "job_ranks", rank);
                false
            }
            _ => true,
        });
    }
}

/// Whether a batch is a node's and has a sender.
pub(super) fn is_judged(entry: &Entry, batch: &Batch) -> bool {
    !entry.sender.owners.is_empty() && !batch.node.is_empty()
}

/// Ranks that a batch is about, with their job's key.
fn ranks(batch: &Batch) -> impl Iterator<Item = (&str, u32)> {
    let all = batch.mpi_ops.iter().map(|r| (&r.job_key, r.rank));
    let all = all.chain(batch.mpi_rank_rows.iter().map(|r| (&r.job_key, r.rank)));
    let all = all.chain(batch.mpi_peers.iter().map(|r| (&r.job_key, r.rank)));
    let all = all.chain(batch.mpi_pvars.iter().map(|r| (&r.job_key, r.rank)));
    let all = all.chain(batch.mpi_regions.iter().map(|r| (&r.job_key, r.rank)));
    let all = all.chain(batch.mpi_open_calls.iter().map(|r| (&r.job_key, r.rank)));
    let all = all.chain(batch.mpi_scheduling.iter().map(|r| (&r.job_key, r.rank)));
    let all = all.chain(batch.mpi_traces.iter().map(|r| (&r.job_key, r.rank)));
    let all = all.chain(batch.mpi_clocks.iter().map(|r| (&r.job_key, r.rank)));
    let all = all.chain(batch.job_comms.iter().map(|r| (&r.job_key, r.rank)));
    let all = all.chain(batch.job_settings.iter().map(|r| (&r.job_key, r.rank)));
    all.chain(batch.job_ranks.iter().map(|r| (&r.job_key, r.rank))).map(|(key, rank)| (key.as_str(), rank))
}

/// Jobs that a batch has records of the whole node about.
fn jobs_of_node(batch: &Batch) -> impl Iterator<Item = &str> {
    let all = batch.jobs.iter().map(|job| &job.key);
    let all = all.chain(batch.mpi_node_cells.iter().map(|cells| &cells.job_key));
    let all = all.chain(batch.mpi_traffic.iter().map(|traffic| &traffic.job_key));
    all.chain(batch.mpi_sampled_calls.iter().map(|calls| &calls.job_key)).map(String::as_str)
}
