//! What a node may report where the database has to decide: whose a GPU, an adapter, a job and a rank are.
//!
//! What is found stays in a cache, so that honest batches cost a look-up a record and no query. Claims of a transaction
//! are noted apart ([`Claims::pending`]) and become part of the cache after its commit.

use std::collections::{HashMap, HashSet};

use throughline_sample::admission::Rejection;
use throughline_sample::row_rules::MINUTELY;
use throughline_sample::wire::*;
use tokio_postgres::{Client, Transaction};

use super::devices::Devices;
use super::keys::{Keys, small};
use super::{Content, Entry, RecordRejection, WriteError, failed};

/// How long a node must not have reported a job before a rank that ran there may begin elsewhere: a node that is alive
/// reports its jobs each minute, and a scheduler takes longer to start a job again whose node has failed.
const RANK_TRANSFER_AFTER_SECONDS: f64 = MINUTELY.largest_gap_seconds;

/// Claims in memory; at the limit the cache is emptied and fills again from the database.
const CACHED_CLAIMS: usize = 1_000_000;

/// The evidence that comes from the kernel: whose a job's processes are.
const BY_KERNEL: &str = "cgroup";

/// Whose a job is.
#[derive(Clone, Copy, Debug)]
struct Owner {
    uid: i64,
    /// Whether the evidence is the kernel's; else it may be the ranks' own claim.
    is_by_kernel: bool,
}

/// A rank (job, number) on a node.
type RankOfNode = (i64, i32, i64);

/// What is known of the database.
#[derive(Default)]
pub(super) struct Claims {
    devices: Devices,
    owners: HashMap<i64, Owner>,
    /// Nodes (second) whose report of a job (first) was accepted.
    members: HashSet<(i64, i64)>,
    ranks: HashSet<RankOfNode>,
    /// What this transaction adds.
    pending: PendingClaims,
}

/// Claims of a transaction that is not committed, and those of the database that are not cached.
#[derive(Default)]
struct PendingClaims {
    owners: HashMap<i64, Owner>,
    members: HashSet<(i64, i64)>,
    ranks: HashSet<RankOfNode>,
    /// Ranks that run on a node that reports them.
    running: HashMap<(i64, i32), i64>,
    /// Ranks that some node has had.
    known: HashSet<(i64, i32)>,
    /// Jobs that a stronger claim took over.
    taken_over: Vec<i64>,
    /// Job keys that an event may be about, with the node.
    event_jobs: HashSet<(String, i64)>,
}

/// A claim that was refused: an event for people.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ContestedClaim {
    pub job_key: String,
    pub node: String,
}

impl Claims {
    fn len(&self) -> usize {
        self.devices.len() + self.owners.len() + self.members.len() + self.ranks.len()
    }

    /// Forgets what the last transaction was to add, and reads what these entries need.
    pub async fn load(&mut self, client: &Client, entries: &[&Entry], keys: &Keys) -> Result<(), WriteError> {
        if self.len() > CACHED_CLAIMS {
            *self = Self::default();
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
        self.read_owners(client, &batches, keys).await?;
        self.read_members(client, &batches, keys).await?;
        self.read_ranks(client, &batches, keys).await?;
        self.read_event_jobs(client, &batches).await
    }

    /// The transaction was committed: what it added holds.
    pub fn committed(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        for job in &pending.taken_over {
            self.members.retain(|(of, _)| of != job);
            self.ranks.retain(|(of, ..)| of != job);
        }
        self.owners.extend(pending.owners);
        self.members.extend(pending.members);
        self.ranks.extend(pending.ranks);
    }

    async fn read_owners(
        &mut self,
        client: &Client,
        batches: &[(&Batch, i64)],
        keys: &Keys,
    ) -> Result<(), WriteError> {
        let reported = batches.iter().flat_map(|(batch, _)| {
            let ranks = batch.job_ranks.iter().map(|rank| rank.job_key.as_str());
            batch.jobs.iter().map(|job| job.key.as_str()).chain(ranks)
        });
        let reported = reported.filter(|key| keys.job(key).is_ok_and(|id| !self.owners.contains_key(&id)));
        // A job without the kernel's evidence may have been taken over since, by what another writer or server stored.
        let weak = batches.iter().flat_map(|(batch, _)| {
            let of_ranks = ranks(batch).map(|(key, _)| key);
            let of_nodes = batch.mpi_traffic.iter().map(|traffic| traffic.job_key.as_str());
            batch.jobs.iter().map(|job| job.key.as_str()).chain(of_ranks).chain(of_nodes)
        });
        let is_weak = |id| self.owners.get(&id).is_some_and(|owner| !owner.is_by_kernel);
        let weak = weak.filter(|key| keys.job(key).is_ok_and(is_weak));
        let missing: HashSet<i64> = reported.chain(weak).filter_map(|key| keys.job(key).ok()).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let missing: Vec<i64> = missing.into_iter().collect();
        let find = "SELECT id, uid, coalesce(evidence, '') = $2 FROM internal.run WHERE id = ANY($1) AND uid IS NOT NULL";
        let rows = client.query(find, &[&missing, &BY_KERNEL]).await.map_err(failed("looking up jobs"))?;
        for row in &rows {
            let (job, owner) = (row.get(0), Owner { uid: row.get(1), is_by_kernel: row.get(2) });
            if self.owners.insert(job, owner).is_some_and(|before| before.uid != owner.uid) {
                self.members.retain(|(of, _)| *of != job);
                self.ranks.retain(|(of, ..)| *of != job);
            }
        }
        Ok(())
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
            let jobs = batch.mpi_traffic.iter().filter_map(|traffic| keys.job(&traffic.job_key).ok());
            let sampled = batch.mpi_sampled_calls.iter().filter_map(|calls| keys.job(&calls.job_key).ok());
            let jobs = jobs.chain(sampled);
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

    async fn read_ranks(
        &mut self,
        client: &Client,
        batches: &[(&Batch, i64)],
        keys: &Keys,
    ) -> Result<(), WriteError> {
        let mut missing: HashSet<(i64, i32)> = HashSet::new();
        for (batch, node) in batches {
            for (key, rank) in ranks(batch) {
                let (Ok(job), Ok(rank)) = (keys.job(key), small(rank, "rank")) else { continue };
                if !self.ranks.contains(&(job, rank, *node)) {
                    missing.insert((job, rank));
                }
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let (jobs, numbers): (Vec<i64>, Vec<i32>) = missing.into_iter().unzip();
        let find = "SELECT r.job_id, r.rank, r.node_id, \
                        bool_or(r.end_time IS NULL AND n.reported_at > now() - make_interval(secs => $3)) \
                    FROM unnest($1::bigint[], $2::integer[]) AS w(job_id, rank) JOIN internal.job_rank r USING (job_id, rank) \
                    LEFT JOIN internal.run_claim n ON n.job_id = r.job_id AND n.node_id = r.node_id \
                    WHERE r.node_id IS NOT NULL GROUP BY 1, 2, 3";
        let rows = client
            .query(find, &[&jobs, &numbers, &RANK_TRANSFER_AFTER_SECONDS])
            .await
            .map_err(failed("looking up ranks"))?;
        for row in &rows {
            let (job, rank, node): RankOfNode = (row.get(0), row.get(1), row.get(2));
            self.ranks.insert((job, rank, node));
            self.pending.known.insert((job, rank));
            if row.get::<_, Option<bool>>(3) == Some(true) {
                self.pending.running.insert((job, rank), node);
            }
        }
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
        self.pending.members.contains(&(job, node))
            || (self.members.contains(&(job, node)) && !self.pending.taken_over.contains(&job))
    }

    fn has_rank(&self, job: i64, rank: i32, node: i64) -> bool {
        self.pending.ranks.contains(&(job, rank, node))
            || (self.ranks.contains(&(job, rank, node)) && !self.pending.taken_over.contains(&job))
    }

    fn owner(&self, job: i64) -> Option<Owner> {
        self.pending.owners.get(&job).or_else(|| self.owners.get(&job)).copied()
    }

    /// A node reports a job.
    fn claim_job(&mut self, job: &Job, id: i64, node: i64) -> Result<(), Rejection> {
        let claim = Owner { uid: job.uid.into(), is_by_kernel: job.evidence == BY_KERNEL };
        match self.owner(id) {
            Some(owner) if owner.uid == claim.uid => {
                if claim.is_by_kernel && !owner.is_by_kernel {
                    self.pending.owners.insert(id, claim);
                }
            }
            // Anybody can put a job's number into a rank's environment; a cgroup is set by the kernel.
            Some(owner) if claim.is_by_kernel && !owner.is_by_kernel => {
                self.pending.owners.insert(id, claim);
                self.pending.taken_over.push(id);
                self.pending.members.retain(|(of, _)| *of != id);
                self.pending.ranks.retain(|(of, ..)| *of != id);
                self.pending.running.retain(|(of, _), _| *of != id);
            }
            Some(_) => return Err(Rejection::Job),
            None => {
                self.pending.owners.insert(id, claim);
            }
        }
        self.pending.members.insert((id, node));
        Ok(())
    }

    /// A node reports a rank.
    fn claim_rank(&mut self, rank: &JobRank, node: i64, keys: &Keys) -> Result<(), Rejection> {
        let job = keys.job(&rank.job_key).map_err(|_| Rejection::Name)?;
        let number = small(rank.rank, "rank").map_err(|_| Rejection::Number)?;
        if self.owner(job).is_some() && !self.is_member(job, node) {
            return Err(Rejection::Job);
        }
        if self.has_rank(job, number, node) {
            return Ok(());
        }
        if self.pending.running.get(&(job, number)).is_some_and(|of| *of != node) {
            return Err(Rejection::Job);
        }
        self.pending.ranks.insert((job, number, node));
        self.pending.running.insert((job, number), node);
        Ok(())
    }

    /// Whether a node may report this rank's figures.
    fn check_rank(&self, key: &str, rank: u32, node: i64, keys: &Keys) -> Result<(), Rejection> {
        let job = keys.job(key).map_err(|_| Rejection::Name)?;
        let rank = small(rank, "rank").map_err(|_| Rejection::Number)?;
        // A job that began again on other nodes while the ranks of a failed one still counted as running: its ranks were
        // refused then, and are not reported again.
        let runs_nowhere_else = || {
            self.pending.known.contains(&(job, rank))
                && !self.pending.running.contains_key(&(job, rank))
                && self.is_member(job, node)
        };
        if self.has_rank(job, rank, node) || runs_nowhere_else() { Ok(()) } else { Err(Rejection::Job) }
    }

    /// Whether a node may report figures of its ranks of a job together.
    fn check_job(&self, key: &str, node: i64, keys: &Keys) -> Result<(), Rejection> {
        let job = keys.job(key).map_err(|_| Rejection::Name)?;
        if self.is_member(job, node) { Ok(()) } else { Err(Rejection::Job) }
    }

    /// What of a node's batch is not its own to report. `Ok` without anything is the rule.
    pub fn judge(
        &mut self,
        entry: &Entry,
        batch: &Batch,
        keys: &Keys,
        contested: &mut Vec<ContestedClaim>,
    ) -> Option<(Batch, Vec<RecordRejection>)> {
        if !is_judged(entry, batch) {
            return None;
        }
        let node = keys.node(&batch.node).ok()?;
        // Which records of each kind go; a batch is copied only where there is one.
        let jobs = batch
            .jobs
            .iter()
            .map(|job| {
                let verdict = keys
                    .job(&job.key)
                    .map_err(|_| Rejection::Name)
                    .and_then(|id| self.claim_job(job, id, node));
                if verdict.is_err() {
                    let (job_key, node) = (job.key.clone(), batch.node.clone());
                    contested.push(ContestedClaim { job_key, node });
                }
                verdict
            })
            .collect();
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
            gpus: |r: &GpuInfo| gpu(&r.uuid),
            gpu_link_infos: |r: &GpuLinkInfo| gpu(&r.gpu_uuid),
            host_ports: |r: &HostPortSample| hca(r.node_guid),
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

    /// Ends weaker claims to jobs that were taken over.
    pub async fn apply(&self, transaction: &Transaction<'_>) -> Result<(), WriteError> {
        if self.pending.taken_over.is_empty() {
            return Ok(());
        }
        let what = "ending a claim of a job";
        for sql in [
            "DELETE FROM internal.job_rank WHERE job_id = ANY($1)",
            "DELETE FROM internal.run_claim WHERE job_id = ANY($1)",
            "UPDATE internal.run SET user_name = NULL, command = NULL, name = NULL, account = NULL, reported_by = NULL \
             WHERE id = ANY($1)",
        ] {
            transaction.execute(sql, &[&self.pending.taken_over]).await.map_err(failed(what))?;
        }
        Ok(())
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
fn is_judged(entry: &Entry, batch: &Batch) -> bool {
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
