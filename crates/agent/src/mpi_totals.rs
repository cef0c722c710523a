//! MPI metrics of a node for `/metrics`, and as records that are read back as the same series: totals per operation over all ranks that ever ran, jobs that run now.
//!
//! Ranks send cumulative cells; a total grows by the differences, so that it does not fall when a job ends.
//! Rank by rank and peer by peer are for the database: as series they would be too many.

mod account;
mod open_calls;
mod rank_gpus;

use account::Accounts;
use open_calls::OpenCalls;
use rank_gpus::RankGpus;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};
use throughline_daemon::{Page, Value};
use throughline_sample::catalogue::{
    MPI_BYTES, MPI_CALLS, MPI_ELAPSED_SECONDS, MPI_LEAST_SECONDS, MPI_LONGEST_SECONDS, MPI_RECEIVED_BYTES,
    MPI_WAIT_SECONDS, Metric, Table,
};
use throughline_sample::wire::{Batch, Job, JobRank, MpiOpCell, MpiRankBin, SelfStat};

/// The part of the agent whose self-metrics these are.
const SOURCE: &str = "mpi";

/// Most ranks whose cells are cached: several jobs of one rank per hardware thread on a large node.
const RANKS_MAX: usize = 8192;

/// Most operations with a total. The shim names fewer than 200; a rank could claim others.
const OPERATIONS_MAX: usize = 512;

/// Most cells cached of all ranks, some 100 bytes each: 256 ranks of 256 cells. A new cell beyond a user's share of them
/// does not make its total grow, which is counted; the database has it all the same.
const CELLS_MAX: usize = 65_536;

/// Most jobs shown at once.
const JOBS_MAX: usize = 1024;

/// The owner of ranks whose job is not known; a share like any user's.
const UNKNOWN_USER: u32 = u32::MAX;

/// How long cells of a silent rank are cached, in case a late bin follows.
const EVICT_AFTER: Duration = Duration::from_secs(600);
/// The same of a rank whose end was reported: what it sent before is here.
const EVICT_ENDED_AFTER: Duration = Duration::from_secs(10);
/// From one look for such ranks to the next, while there are many.
const EVICT_INTERVAL: Duration = Duration::from_secs(1);

/// Totals and jobs.
#[derive(Debug, Default)]
pub struct MpiTotals {
    totals: BTreeMap<String, Total>,
    ranks: HashMap<(String, u32), Rank>,
    /// Cells of each user, and of all.
    cells: HashMap<u32, usize>,
    cells_of_all: usize,
    /// When ranks from which nothing more is expected were last looked for.
    evicted: Option<Instant>,
    /// Cells that found no place.
    left_out: u64,
    /// Makes keys of cells; random, so that nobody can choose two that are the same.
    keys: RandomState,
    jobs: BTreeMap<String, RunningJob>,
    open_calls: OpenCalls,
    accounts: Accounts,
    rank_gpus: RankGpus,
    /// What was last reported of each operation and metric as a record.
    reported: HashMap<(String, u32), f64>,
}

#[derive(Debug, Default)]
struct Total {
    /// Its number among the operations.
    number: u16,
    calls: u64,
    bytes: u64,
    elapsed_nanoseconds: u64,
    /// Absent until an operation of this name completed later than its call returned.
    wait_nanoseconds: Option<u64>,
    /// Absent until one received.
    received_bytes: Option<u64>,
    /// Absent until it is known of one cell.
    least_nanoseconds: Option<u64>,
}

/// What is cached of a cell: the sums so far. Its operation, size class, region and algorithm are its key.
#[derive(Clone, Copy, Debug)]
struct Cell {
    /// Number of the operation.
    operation: u16,
    calls: u64,
    bytes: u64,
    elapsed_nanoseconds: u64,
    longest_nanoseconds: u64,
    wait_nanoseconds: Option<u64>,
    received_bytes: Option<u64>,
    least_nanoseconds: Option<u64>,
}

impl Cell {
    fn new(operation: u16, cell: &MpiOpCell) -> Self {
        Self {
            operation,
            calls: cell.calls,
            bytes: cell.bytes,
            elapsed_nanoseconds: cell.elapsed_nanoseconds,
            longest_nanoseconds: cell.longest_nanoseconds,
            wait_nanoseconds: cell.wait_nanoseconds,
            received_bytes: cell.received_bytes,
            least_nanoseconds: cell.least_nanoseconds,
        }
    }

    /// Before the first reading.
    const fn zero(operation: u16) -> Self {
        Self {
            operation,
            calls: 0,
            bytes: 0,
            elapsed_nanoseconds: 0,
            longest_nanoseconds: 0,
            wait_nanoseconds: None,
            received_bytes: None,
            least_nanoseconds: None,
        }
    }
}

#[derive(Debug)]
struct Rank {
    epoch: i64,
    seen: Instant,
    has_ended: bool,
    uid: u32,
    cells: HashMap<u64, Cell>,
}

impl Rank {
    /// Whether nothing more is expected of it.
    fn is_over(&self, now: Instant) -> bool {
        let patience = if self.has_ended { EVICT_ENDED_AFTER } else { EVICT_AFTER };
        now.saturating_duration_since(self.seen) >= patience
    }
}

#[derive(Debug, Default)]
struct RunningJob {
    job: Option<Job>,
    ranks: BTreeSet<u32>,
}

impl Total {
    /// A late bin repeats older values: no increase.
    fn grow(&mut self, before: &Cell, now: &Cell) {
        self.calls += now.calls.saturating_sub(before.calls);
        self.bytes += now.bytes.saturating_sub(before.bytes);
        self.elapsed_nanoseconds += now.elapsed_nanoseconds.saturating_sub(before.elapsed_nanoseconds);
        let optional = |total: &mut Option<u64>, before: Option<u64>, now: Option<u64>| {
            if let Some(now) = now {
                *total = Some(total.unwrap_or_default() + now.saturating_sub(before.unwrap_or_default()));
            }
        };
        optional(&mut self.wait_nanoseconds, before.wait_nanoseconds, now.wait_nanoseconds);
        optional(&mut self.received_bytes, before.received_bytes, now.received_bytes);
        optional(&mut self.least_nanoseconds, before.least_nanoseconds, now.least_nanoseconds);
    }
}

impl MpiTotals {
    /// Takes over what ranks sent.
    pub fn observe(&mut self, batch: &Batch, now: Instant) {
        self.open_calls.observe(batch, now);
        self.rank_gpus.observe(batch);
        // Jobs first: ranks refer to them.
        batch.jobs.iter().filter(|job| job.end == 0).for_each(|job| self.job(job));
        batch.mpi_ops.iter().for_each(|bin| self.bin(bin, now));
        batch.jobs.iter().filter(|job| job.end != 0).for_each(|job| self.job(job));
        batch.job_ranks.iter().for_each(|rank| self.job_rank(rank));
        self.accounts.observe(batch, |job| self.jobs.contains_key(job));
        let is_time = self.evicted.is_none_or(|last| now.saturating_duration_since(last) >= EVICT_INTERVAL);
        if is_time && (self.ranks.len() > RANKS_MAX / 8 || self.cells_of_all > CELLS_MAX / 8) {
            self.evicted = Some(now);
            let gone: Vec<_> = self.ranks.extract_if(|_, rank| rank.is_over(now)).collect();
            gone.iter().for_each(|(_, rank)| self.release(rank.uid, rank.cells.len()));
            self.ranks.shrink_to(2 * self.ranks.len());
        }
    }

    /// Gives back a user's cells.
    fn release(&mut self, uid: u32, cells: usize) {
        self.cells_of_all = self.cells_of_all.saturating_sub(cells);
        if let Some(of_user) = self.cells.get_mut(&uid) {
            *of_user = of_user.saturating_sub(cells);
            if *of_user == 0 {
                self.cells.remove(&uid);
            }
        }
    }

    /// Whether a user may have one more of `max`: at most three times what is free, so that a user alone gets three quarters,
    /// and the next always gets some.
    fn has_share(of_user: usize, of_all: usize, max: usize) -> bool {
        of_all < max && of_user <= 3 * (max - of_all)
    }

    fn uid_of(&self, job_key: &str) -> u32 {
        self.jobs.get(job_key).and_then(|running| running.job.as_ref()).map_or(UNKNOWN_USER, |job| job.uid)
    }

    /// The number of an operation, if it is known or there is place for one more.
    fn operation(&mut self, name: &str) -> Option<u16> {
        if let Some(total) = self.totals.get(name) {
            return Some(total.number);
        }
        let number =
            u16::try_from(self.totals.len()).ok().filter(|number| usize::from(*number) < OPERATIONS_MAX)?;
        self.totals.insert(name.to_owned(), Total { number, ..Total::default() });
        Some(number)
    }

    fn bin(&mut self, bin: &MpiRankBin, now: Instant) {
        let key = (bin.job_key.clone(), bin.rank);
        if self.ranks.len() >= RANKS_MAX && !self.ranks.contains_key(&key) {
            self.left_out += bin.cells.len() as u64;
            return;
        }
        let uid = self.uid_of(&bin.job_key);
        let new = Rank { epoch: bin.epoch, seen: now, has_ended: false, uid, cells: HashMap::new() };
        // Taken out while its cells are looked at, as the totals change with them.
        let mut rank = self.ranks.remove(&key).unwrap_or(new);
        (rank.seen, rank.has_ended) = (now, false);
        if rank.epoch != bin.epoch {
            rank.epoch = bin.epoch;
            self.release(rank.uid, rank.cells.len());
            rank.cells = HashMap::new();
        }
        for cell in &bin.cells {
            let Some(operation) = self.operation(&cell.operation) else {
                self.left_out += 1;
                continue;
            };
            let parts = (&cell.operation, cell.size_class_bytes, &cell.region, &cell.algorithm);
            let id = self.keys.hash_one(parts);
            let now = Cell::new(operation, cell);
            let before = match rank.cells.get_mut(&id) {
                Some(before) => std::mem::replace(before, now),
                None => {
                    let of_user = self.cells.entry(rank.uid).or_default();
                    if !Self::has_share(*of_user, self.cells_of_all, CELLS_MAX) {
                        self.left_out += 1;
                        continue;
                    }
                    *of_user += 1;
                    self.cells_of_all += 1;
                    rank.cells.insert(id, now);
                    Cell::zero(operation)
                }
            };
            if let Some(total) = self.totals.get_mut(&cell.operation) {
                total.grow(&before, &now);
            }
        }
        self.ranks.insert(key, rank);
    }

    fn job(&mut self, job: &Job) {
        if job.end != 0 {
            self.jobs.remove(&job.key);
        } else if self.jobs.contains_key(&job.key) || self.has_job_share(job.uid) {
            self.jobs.entry(job.key.clone()).or_default().job = Some(job.clone());
        }
    }

    fn has_job_share(&self, uid: u32) -> bool {
        let is_his = |running: &&RunningJob| running.job.as_ref().is_some_and(|job| job.uid == uid);
        let of_user = self.jobs.values().filter(is_his).count();
        Self::has_share(of_user, self.jobs.len(), JOBS_MAX)
    }

    fn job_rank(&mut self, rank: &JobRank) {
        let known = self.ranks.get_mut(&(rank.job_key.clone(), rank.rank));
        if let Some(known) = known.filter(|known| rank.end != 0 && known.epoch == rank.start) {
            known.has_ended = true;
        }
        let Some(job) = self.jobs.get_mut(&rank.job_key) else { return };
        if rank.end == 0 {
            job.ranks.insert(rank.rank);
            return;
        }
        job.ranks.remove(&rank.rank);
        if job.ranks.is_empty() {
            self.jobs.remove(&rank.job_key);
        }
    }

    /// Cells so far that found no place among those cached.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Every series of an operation and its value now.
    fn values(&self) -> Vec<(&'static Metric, &str, Value)> {
        let mut longest: HashMap<u16, u64> = HashMap::new();
        for cell in self.ranks.values().flat_map(|rank| rank.cells.values()) {
            let most = longest.entry(cell.operation).or_default();
            *most = cell.longest_nanoseconds.max(*most);
        }
        let mut values = Vec::new();
        for (operation, total) in &self.totals {
            let mut report = |metric, value: Value| values.push((metric, operation.as_str(), value));
            report(&MPI_CALLS, total.calls.into());
            report(&MPI_BYTES, total.bytes.into());
            report(&MPI_ELAPSED_SECONDS, seconds(total.elapsed_nanoseconds).into());
            if let Some(wait) = total.wait_nanoseconds {
                report(&MPI_WAIT_SECONDS, seconds(wait).into());
            }
            if let Some(least) = total.least_nanoseconds {
                report(&MPI_LEAST_SECONDS, seconds(least).into());
            }
            if let Some(received) = total.received_bytes {
                report(&MPI_RECEIVED_BYTES, received.into());
            }
            if let Some(longest) = longest.get(&total.number) {
                report(&MPI_LONGEST_SECONDS, seconds(*longest).into());
            }
        }
        values
    }

    /// The same values as records with this time (UTC nanoseconds), so that they can be read back: those that changed
    /// since the last call, or all.
    pub fn records(&mut self, time: i64, all: bool) -> Vec<SelfStat> {
        let mut reported = std::mem::take(&mut self.reported);
        let mut records = Vec::new();
        for (metric, operation, value) in self.values() {
            #[allow(clippy::cast_precision_loss)] // As Prometheus takes it from the page.
            let value = match value {
                Value::Whole(value) => value as f64,
                Value::Real(value) => value,
            };
            let name = metric.self_metric_name();
            let before = reported.insert((operation.to_owned(), metric.id), value);
            if all || before != Some(value) {
                let label = operation.to_owned();
                records.push(SelfStat { time, source: SOURCE.to_owned(), label, name, value });
            }
        }
        self.reported = reported;
        records
    }

    /// Adds the series. Whose jobs they are and what they run is for those who may know it.
    pub fn expose(&self, page: &mut Page, shows_owners: bool) {
        let prefix = Table::MpiOps.prometheus_prefixes().first().copied().unwrap_or_default();
        for (metric, operation, value) in self.values() {
            page.metric(metric, prefix, &[("operation", operation)], value);
        }
        self.open_calls.expose(page, Instant::now());
        self.accounts.expose(page);
        self.rank_gpus.expose(page);
        for (key, running) in self.jobs.iter().filter(|(_, running)| !running.ranks.is_empty()) {
            let job = running.job.clone().unwrap_or_default();
            let world = job.world_size.to_string();
            // Not `job`: Prometheus gives that name to the scrape's own label.
            let (user, command) = if shows_owners { (&*job.user, &*job.command) } else { ("", "") };
            let labels = [
                ("job_key", key.as_str()),
                ("scheduler", &job.scheduler),
                ("user", user),
                ("command", command),
                ("world_size", &world),
            ];
            page.info("throughline_job_info", "An MPI job with ranks on this node now.", &labels);
        }
    }
}

fn seconds(nanoseconds: u64) -> f64 {
    Duration::from_nanos(nanoseconds).as_secs_f64()
}

#[cfg(test)]
mod tests;
