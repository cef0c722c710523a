//! The jobs and ranks of this node, connected or not: their descriptions, which of them are new, which was the last.
//!
//! Pure: times come from the caller, records go back to it. A rank that connects anew is the one that was here.

use crate::cpus::Topology;
use crate::devices_frame::Devices;
use crate::identity::Identity;
use crate::member::{Member, RankKey};
use crate::rank_gpus::{self, GpuUse, Look, NodeGpu};
use crate::saved::{Saved, SavedRank};
use crate::scheduling::Target;
use crate::shim_status::ShimStatus;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;
use throughline_sample::wire::{Batch, Job, JobRank, Names};

/// Nobody has looked yet.
const NOT_LOOKED: &str = "ended_before_a_look";

/// All jobs of the node.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    jobs: HashMap<String, JobHere>,
    /// Whether what has to survive a restart is another than when it was last saved.
    changed: bool,
    /// The node's GPUs as the last look found them; none before it.
    gpus: Vec<NodeGpu>,
}

#[derive(Debug)]
struct JobHere {
    record: Job,
    ranks: HashMap<RankKey, RankHere>,
}

impl JobHere {
    /// Its ranks, each with the processes of all of them.
    fn ranks_with_processes(&mut self) -> impl Iterator<Item = (&RankKey, &mut RankHere, Rc<BTreeSet<u32>>)> {
        let processes: Rc<BTreeSet<u32>> = Rc::new(self.ranks.keys().map(|key| key.pid).collect());
        self.ranks.iter_mut().map(move |(key, rank)| (key, rank, Rc::clone(&processes)))
    }
}

#[derive(Debug)]
struct RankHere {
    record: JobRank,
    /// The connection that speaks for it; none since a restart of the agent.
    connection: Option<u64>,
    /// Why its places are not known, where they are not.
    unknown_gpus: &'static str,
    unknown_ports: &'static str,
    gpu_use: GpuUse,
    /// Of all its connections.
    status: ShimStatus,
}

impl RankHere {
    fn new(record: JobRank, connection: Option<u64>) -> Self {
        Self {
            record,
            connection,
            unknown_gpus: NOT_LOOKED,
            unknown_ports: NOT_LOOKED,
            gpu_use: GpuUse::default(),
            status: ShimStatus::default(),
        }
    }
}

/// A rank's process, for readings of it.
pub(crate) fn target(key: &RankKey, record: &JobRank) -> Target {
    let RankKey { pid, start_ticks, epoch: said_epoch } = *key;
    let (job_key, rank, epoch) = (record.job_key.clone(), record.rank, record.start);
    Target { job_key, rank, epoch, said_epoch, pid, start_ticks }
}

/// What came of a rank's joining or leaving.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct RankChange {
    /// Its records.
    pub batch: Batch,
    /// Whether it was the first here, or the last.
    pub edge: bool,
    /// Why its GPUs and its ports never became known.
    pub unknown: [Option<&'static str>; 2],
}

impl Jobs {
    /// A rank sends its HELLO. Gives its start, which an earlier connection may have settled.
    pub fn join(&mut self, member: &Member, connection: u64) -> (i64, RankChange) {
        let job = self
            .jobs
            .entry(member.identity.job_key.clone())
            .or_insert_with(|| JobHere { record: member.job(), ranks: HashMap::new() });
        let is_first = job.ranks.is_empty();
        job.record.start = job.record.start.min(member.start);
        let rank = job.ranks.entry(member.key()).or_insert_with(|| {
            self.changed = true;
            RankHere::new(member.rank(), None)
        });
        rank.connection = Some(connection);
        let jobs = if is_first { vec![job.record.clone()] } else { Vec::new() };
        let batch = Batch { jobs, job_ranks: vec![rank.record.clone()], ..Batch::default() };
        (rank.record.start, RankChange { batch, edge: is_first, unknown: [None; 2] })
    }

    /// Whether another user's processes are in that job by the kernel's word: then a claim of it that only the
    /// claimant's environment makes is false, as a scheduler's job has one owner.
    pub fn belongs_to_other(&self, identity: &Identity, uid: u32) -> bool {
        identity.evidence == "environment"
            && self.jobs.values().any(|JobHere { record, .. }| {
                record.evidence == "cgroup"
                    && record.uid != uid
                    && (&record.scheduler, &record.native_id) == (&identity.scheduler, &identity.native_id)
            })
    }

    /// A rank is gone. Nothing comes of it where another connection speaks for it now.
    pub fn leave(
        &mut self,
        job_key: &str,
        key: &RankKey,
        connection: Option<u64>,
        end: i64,
        ending: &str,
    ) -> Option<RankChange> {
        let job = self.jobs.get_mut(job_key)?;
        if job.ranks.get(key)?.connection != connection {
            return None;
        }
        let rank = job.ranks.remove(key)?;
        self.changed = true;
        let unknown = [
            (!rank_gpus::is_known(&rank.record)).then_some(rank.unknown_gpus),
            rank.record.hca_ports.is_none().then_some(rank.unknown_ports),
        ];
        let mut reported = RankChange { unknown, ..RankChange::default() };
        reported.batch.job_ranks.push(JobRank { end, ending: ending.to_owned(), ..rank.record });
        if job.ranks.is_empty() {
            reported.edge = true;
            reported.batch.jobs.push(Job { end, ..job.record.clone() });
            self.jobs.remove(job_key);
        } else {
            // Once more, so that what a rank leaves has an owner whatever was lost before.
            reported.batch.jobs.push(job.record.clone());
        }
        Some(reported)
    }

    /// The record of a rank here, and its user.
    pub fn rank(&self, job_key: &str, key: &RankKey) -> Option<(JobRank, u32)> {
        let job = self.jobs.get(job_key)?;
        Some((job.ranks.get(key)?.record.clone(), job.record.uid))
    }

    /// What of a rank's own sums is counted already, over whichever connection it came.
    pub fn status(&self, job_key: &str, key: &RankKey) -> Option<ShimStatus> {
        Some(self.jobs.get(job_key)?.ranks.get(key)?.status.clone())
    }

    /// Whether a rank of a user is here that began then.
    pub fn knows(&self, uid: u32, epoch: i64, rank: u32) -> bool {
        let of_user = self.jobs.values().filter(|job| job.record.uid == uid);
        let mut ranks = of_user.flat_map(|job| &job.ranks);
        ranks.any(|(key, known)| key.epoch == epoch && known.record.rank == rank)
    }

    /// That the jobs here still run.
    pub fn heartbeat(&self, now: i64) -> Vec<Job> {
        self.jobs.values().map(|job| Job { seen: now, ..job.record.clone() }).collect()
    }

    /// Jobs and ranks here.
    pub fn counts(&self) -> (usize, usize) {
        (self.jobs.len(), self.jobs.values().map(|job| job.ranks.len()).sum())
    }

    /// The processes of all ranks here.
    pub fn targets(&self) -> Vec<Target> {
        let ranks = self.jobs.values().flat_map(|job| &job.ranks);
        ranks.map(|(key, rank)| target(key, &rank.record)).collect()
    }

    /// Process ids of all ranks here.
    pub fn processes(&self) -> Vec<u32> {
        self.jobs.values().flat_map(|job| job.ranks.keys().map(|key| key.pid)).collect()
    }

    /// A rank says which device files it has open; gives its record, if more is known now.
    pub fn devices(&mut self, job_key: &str, key: &RankKey, devices: Devices) -> Option<JobRank> {
        let rank = self.jobs.get_mut(job_key)?.ranks.get_mut(key)?;
        let is_changed = rank.gpu_use.report(&mut rank.record, devices, &self.gpus);
        self.changed |= is_changed;
        is_changed.then(|| rank.record.clone())
    }

    /// Notes where processes compute. What was used once stays; gives the ranks with more known now.
    pub fn place(&mut self, look: &Look, topology: &Topology) -> Vec<JobRank> {
        let mut reported = Vec::new();
        if let Ok(gpus) = &look.gpus {
            self.gpus.clone_from(gpus);
        }
        for (key, rank, own) in self.jobs.values_mut().flat_map(JobHere::ranks_with_processes) {
            if !look.ranks.contains(&key.pid) {
                continue;
            }
            let (gpus, why) = rank.gpu_use.note(&mut rank.record, &look.gpus, &own, look.time);
            rank.unknown_gpus = why.unwrap_or(rank.unknown_gpus);
            let ports = look.hca_ports.as_ref().map(|all| all.get(&key.pid).map_or(&[][..], Vec::as_slice));
            let ports = merge(&mut rank.record.hca_ports, &mut rank.unknown_ports, ports);
            if gpus || ports {
                let used = rank.record.hca_ports.as_ref().map(|ports| ports.name.as_slice());
                rank.record.hca_numa_nodes = topology.nodes_of_ports(used);
                self.changed = true;
                reported.push(rank.record.clone());
            }
        }
        reported
    }

    /// What has to survive a restart, if it is another than the last time or `always`.
    pub fn take_unsaved(&mut self, always: bool) -> Option<Vec<SavedRank>> {
        if !std::mem::take(&mut self.changed) && !always {
            return None;
        }
        let ranks = self.jobs.values().flat_map(|job| {
            job.ranks.iter().map(|(key, rank)| SavedRank {
                job: Some(job.record.clone()),
                rank: Some(rank.record.clone()),
                start_ticks: key.start_ticks,
                epoch: key.epoch,
            })
        });
        Some(ranks.collect())
    }

    /// Takes over what an earlier agent knew. `is_open` says whether more may come of a rank: its process runs, or it has
    /// left its totals. Gives the records of what is open and of what is not, and who has to be watched until it connects.
    pub fn restore(
        &mut self,
        saved: Saved,
        is_open: impl Fn(&RankKey, &JobRank, &Job) -> bool,
    ) -> (RankChange, Vec<AwaitedRank>) {
        let (seen, mut watched) = (saved.time, Vec::new());
        for SavedRank { job, rank, start_ticks, epoch } in saved.ranks {
            let (Some(job), Some(rank)) = (job, rank) else { continue };
            let key = RankKey { pid: rank.pid, start_ticks, epoch };
            let here = self
                .jobs
                .entry(job.key.clone())
                .or_insert_with(|| JobHere { record: job.clone(), ranks: HashMap::new() });
            here.record.start = here.record.start.min(job.start);
            let is_open = is_open(&key, &rank, &job);
            here.ranks.insert(key.clone(), RankHere::new(rank, None));
            watched.push((AwaitedRank { job_key: job.key, rank: key }, is_open));
        }
        let mut reported = RankChange::default();
        watched.retain(|(AwaitedRank { job_key, rank }, is_open)| {
            if !is_open && let Some(end) = self.leave(job_key, rank, None, seen, UNSEEN) {
                // Those that run are below.
                reported.batch.jobs.extend(end.batch.jobs.into_iter().filter(|job| job.end != 0));
                reported.batch.job_ranks.extend(end.batch.job_ranks);
            }
            *is_open
        });
        for job in self.jobs.values() {
            reported.batch.jobs.push(job.record.clone());
            reported.batch.job_ranks.extend(job.ranks.values().map(|rank| rank.record.clone()));
        }
        (reported, watched.into_iter().map(|(watched, _)| watched).collect())
    }
}

/// Ending of a rank that ended while no agent listened.
pub(crate) const UNSEEN: &str = "unseen";

/// A rank known from before, not connected yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AwaitedRank {
    pub job_key: String,
    pub rank: RankKey,
}

/// Adds names that are new; whether anything is. That a rank used nothing so far is known, too.
fn merge(
    known: &mut Option<Names>,
    reason: &mut &'static str,
    found: Result<&[String], &&'static str>,
) -> bool {
    let found = match found {
        Ok(found) => found,
        Err(why) => {
            *reason = why;
            return false;
        }
    };
    let is_new = known.is_none();
    let names = &mut known.get_or_insert_default().name;
    let before = names.len();
    for name in found {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    is_new || names.len() > before
}

#[cfg(test)]
mod tests;
