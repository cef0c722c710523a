//! Traffic of the jobs on this node by operation, folded over their ranks: cells (operation, kind, direction, peer) that
//! grow by what ranks report, and records of those that changed: at times of all that are in a row of the database, so that a total
//! is read from few rows.
//!
//! Pure: times come from the caller. Ranks send sums since MPI_Init; what a cell grows by is the difference to what the
//! rank sent before. Collectives are laid out when records are made, not when they are reported.

mod records;

use crate::layouts::{Layouts, OneCall, blocking, names_no_receiver};
use crate::members::{Group, RUN_BYTES};
use crate::moment::Moment;
use crate::operations::is_unreported;
use crate::quota::{HeldResource, Quotas, Resource, User};
use crate::sampled_calls::{NamedSample, SECONDS_MAX, SampledCalls};
use crate::status::Quota;
use crate::traffic_cells::{Cell, CellKey, Kind, LineKey, Sums};
use crate::traffic_frame::{CollectiveKey, GroupPart, Traffic, TrafficKind};
use crate::wholes::SnapshotSchedule;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;
use std::time::Duration;
use throughline_sample::wire::Batch;
use throughline_shares::collective::Library;

/// Records of jobs end at whole multiples of it: ranks report at whole seconds of UTC, and ports are read there.
const INTERVAL_NANOSECONDS: i64 = 1_000_000_000;
/// A clock that was set by more was no slewed one.
const STEP_NANOSECONDS: i64 = 100_000_000;
/// What ranks report at a whole second has come so much later.
const ARRIVED_NANOSECONDS: i64 = 250_000_000;
/// Longest time between two records of a job, in the same, however many cells change: what is older says little about a link's present.
const INTERVALS_MAX: i64 = 300;
/// All that a rank reports at once comes within this time; its next report comes a second later.
const ONE_REPORT_NANOSECONDS: i64 = 500_000_000;
/// A rank that began so much before it was known here was counting for an earlier agent, or for none.
const LATE_NANOSECONDS: i64 = 5_000_000_000;
/// What an entry of a table takes in memory, with the table's free places.
const ENTRY_BYTES: usize = 72;
/// Name of the operation of messages within none.
const OTHER: &str = "other";
const CALLS_SOURCE: &str = "pmpi";
const MESSAGES_SOURCE: &str = "pml";

/// A rank among those of its job: its number and its start.
pub(crate) type RankId = (u32, i64);

/// The world that a rank is in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct World<'a> {
    /// Ranks.
    pub size: u32,
    /// What MPI_Get_library_version reports.
    pub library: &'a str,
}

/// What a frame of a rank reports.
#[derive(Debug)]
pub(crate) enum Report {
    /// Peers, and the sender's time.
    Peers(i64, Vec<Traffic>),
    /// Members of groups.
    Groups(Vec<GroupPart>),
    /// Members of the own groups of intercommunicators.
    OwnGroups(Vec<GroupPart>),
    /// Collectives, and the sender's time.
    Collectives(i64, Vec<NamedCollective>),
    /// Single calls of collectives.
    Samples(Vec<NamedSample>),
}

impl Report {
    /// How many entries it has.
    pub fn len(&self) -> usize {
        match self {
            Self::Peers(_, all) => all.len(),
            Self::Groups(all) | Self::OwnGroups(all) => all.len(),
            Self::Collectives(_, all) => all.len(),
            Self::Samples(all) => all.len(),
        }
    }
}

/// Sums of collectives, with the name of their algorithm.
#[derive(Debug)]
pub(crate) struct NamedCollective {
    pub key: CollectiveKey,
    pub operation: &'static str,
    /// Empty where it is not known.
    pub algorithm: Arc<str>,
    pub calls: u64,
    pub bytes: u64,
}

/// Calls of a collective, reported and laid out; `messages` are calls.
#[derive(Debug)]
struct Calls {
    operation: &'static str,
    algorithm: Arc<str>,
    now: Sums,
    laid_out: Sums,
}

#[derive(Debug)]
struct RankHere {
    world_size: u32,
    library: Option<Library>,
    /// It reports the library's messages, which are all that it sends but what passes their layer by.
    is_measured: bool,
    /// It counted before it was known here: its first report is where counting begins.
    is_late: bool,
    first_report: Option<i64>,
    peers: HashMap<(u16, TrafficKind, u32), Sums>,
    groups: HashMap<u32, Group>,
    calls: HashMap<CollectiveKey, Calls>,
}

impl RankHere {
    /// Whether a report of this time says only where counting begins.
    fn is_beginning(&mut self, time: i64) -> bool {
        let first = *self.first_report.get_or_insert(time);
        self.is_late && time < first.saturating_add(ONE_REPORT_NANOSECONDS)
    }
}

/// Memory on the account of the job's user.
#[derive(Debug)]
struct Account {
    user: Arc<User>,
    held: Option<HeldResource>,
}

impl Account {
    fn grow(&mut self, bytes: usize) -> bool {
        let fits = self.held.as_mut().is_some_and(|held| held.grow(bytes).is_ok());
        if !fits {
            self.user.exceeds(Quota::Traffic, 1);
        }
        fits
    }
}

#[derive(Debug)]
struct JobHere {
    epoch: i64,
    /// Up to when all changes are in records.
    since: i64,
    /// When the next ones are made.
    due: i64,
    /// When the next ones are made with all cells, whether they changed or not.
    repeat_due: i64,
    account: Account,
    ranks: HashMap<RankId, RankHere>,
    cells: HashMap<CellKey, Cell>,
    /// When each line had a record of all its cells.
    wholes: HashMap<LineKey, SnapshotSchedule>,
    sampled: SampledCalls,
}

/// How long it is from `now`, UTC nanoseconds, until records are made.
pub(crate) fn until_round(now: i64) -> Duration {
    let since = (now - ARRIVED_NANOSECONDS).rem_euclid(INTERVAL_NANOSECONDS);
    Duration::from_nanos((INTERVAL_NANOSECONDS - since).unsigned_abs())
}

/// All jobs of the node.
#[derive(Debug)]
pub(crate) struct Ledger {
    cells_per_second: u32,
    /// Shortest time between two records of a job, in [`INTERVAL_NANOSECONDS`]. Records end at its whole multiples, as windows
    /// of link shares do.
    intervals: i64,
    /// From one record of a job with all its cells to the next, nanoseconds.
    repeat: i64,
    /// In which of their intervals the last records of sampled calls were made.
    samples_until: Option<i64>,
    /// UTC less CLOCK_MONOTONIC, as it was last.
    offset: Option<i64>,
    jobs: HashMap<String, JobHere>,
    layouts: Layouts,
}

impl Ledger {
    /// `cells_per_second`: in records of all jobs together, as far as intervals can be longer. `seconds`: the shortest interval;
    /// `repeat_seconds`: after which all cells are in records, whether they changed or not.
    pub fn new(cells_per_second: u32, seconds: u32, repeat_seconds: u32) -> Self {
        let intervals = i64::from(seconds).clamp(1, INTERVALS_MAX);
        let cells_per_second = cells_per_second.max(1);
        let repeat = i64::from(repeat_seconds.max(1)) * INTERVAL_NANOSECONDS;
        let (jobs, layouts) = (HashMap::new(), Layouts::default());
        Self { cells_per_second, intervals, repeat, samples_until: None, offset: None, jobs, layouts }
    }

    /// A rank is here, perhaps not for the first time.
    pub fn join(
        &mut self,
        quotas: &Arc<Quotas>,
        user: &Arc<User>,
        job_key: &str,
        id: RankId,
        world: World<'_>,
        now: i64,
    ) {
        let job = self.jobs.entry(job_key.to_owned()).or_insert_with(|| JobHere {
            epoch: now,
            since: now,
            due: now,
            // Nodes take turns: each began to count at a time of its own.
            repeat_due: now.saturating_add(1 + turn(job_key, now).rem_euclid(self.repeat)),
            account: Account {
                user: user.clone(),
                held: quotas.hold(user, Resource::TrafficBytes, ENTRY_BYTES).ok(),
            },
            ranks: HashMap::new(),
            cells: HashMap::new(),
            wholes: HashMap::new(),
            sampled: SampledCalls::default(),
        });
        job.ranks.entry(id).or_insert_with(|| RankHere {
            world_size: world.size,
            library: Library::of_description(world.library),
            is_measured: false,
            is_late: now.saturating_sub(id.1) > LATE_NANOSECONDS,
            first_report: None,
            peers: HashMap::new(),
            groups: HashMap::new(),
            calls: HashMap::new(),
        });
    }

    /// Takes what a rank reports.
    pub fn take(&mut self, job_key: &str, id: RankId, report: Report) {
        let Some(job) = self.jobs.get_mut(job_key) else { return };
        match report {
            Report::Peers(time, entries) => job.peers(id, time, &entries),
            Report::Groups(parts) => job.groups(id, &parts, &mut self.layouts),
            Report::OwnGroups(parts) => job.own_groups(id, &parts),
            Report::Collectives(time, calls) => job.collectives(id, time, calls),
            Report::Samples(all) => job.samples(id, &all),
        }
    }

    /// Records of jobs whose time has come, and whose they are: what was reported until the last whole second. To be called
    /// soon after [`until_round`].
    pub fn round(&mut self, now: i64) -> Vec<(Arc<User>, Batch)> {
        let now = now.div_euclid(INTERVAL_NANOSECONDS) * INTERVAL_NANOSECONDS;
        let share = i64::from(self.cells_per_second) / i64::try_from(self.jobs.len().max(1)).unwrap_or(1);
        let mut batches = Vec::new();
        let of_samples = now.div_euclid(self.intervals.min(SECONDS_MAX) * INTERVAL_NANOSECONDS);
        let has_samples = self.samples_until.replace(of_samples) != Some(of_samples);
        for (key, job) in &mut self.jobs {
            let mut batch = Batch::default();
            if has_samples {
                batch.mpi_sampled_calls = job.sampled.records(key, now);
            }
            if job.due <= now {
                let has_all = now >= job.repeat_due;
                if has_all {
                    job.repeat_due = now.saturating_add(self.repeat);
                }
                let (records, cells) = job.records(key, now, has_all, &mut self.layouts);
                let cells = i64::try_from(cells).unwrap_or(i64::MAX);
                job.due = due(now, (cells / share.max(1)).min(INTERVALS_MAX), self.intervals);
                batch.mpi_traffic = records;
            }
            if !batch.mpi_traffic.is_empty() || !batch.mpi_sampled_calls.is_empty() {
                batches.push((job.account.user.clone(), batch));
            }
        }
        batches
    }

    /// Where the clock was set since the last call, what is held here goes by it from now on.
    pub fn follow(&mut self, now: Moment) {
        let offset = now.utc.saturating_sub(now.monotonic);
        let step = offset.saturating_sub(self.offset.replace(offset).unwrap_or(offset));
        if step.saturating_abs() > STEP_NANOSECONDS {
            self.step(step);
        }
    }

    /// The clock was set by so much: what is held here gets the times that the clock has now for the same moments. Epochs stay.
    fn step(&mut self, step: i64) {
        self.samples_until = None;
        for job in self.jobs.values_mut() {
            job.since = job.since.saturating_add(step);
            job.due = job.due.saturating_add(step);
            job.repeat_due = job.repeat_due.saturating_add(step);
        }
    }

    /// The last records of a job whose last rank here has gone.
    pub fn finish(&mut self, job_key: &str, now: i64) -> Batch {
        let Some(mut job) = self.jobs.remove(job_key) else { return Batch::default() };
        // All of it, however long ago it was reported.
        let (mpi_traffic, _) = job.records(job_key, now, true, &mut self.layouts);
        let mpi_sampled_calls = job.sampled.records(job_key, now);
        Batch { mpi_traffic, mpi_sampled_calls, ..Batch::default() }
    }

    /// The last records of all jobs: the agent stops.
    pub fn finish_all(&mut self, now: i64) -> Vec<(Arc<User>, Batch)> {
        let keys: Vec<_> =
            self.jobs.iter().map(|(key, job)| (key.clone(), job.account.user.clone())).collect();
        keys.into_iter().map(|(key, user)| (user, self.finish(&key, now))).collect()
    }
}

/// When the next records are made: at the first whole multiple of the shortest interval that is so many seconds away.
fn due(now: i64, seconds: i64, intervals: i64) -> i64 {
    let shortest = intervals * INTERVAL_NANOSECONDS;
    let earliest = now + (seconds * INTERVAL_NANOSECONDS).max(1);
    (earliest + shortest - 1).div_euclid(shortest) * shortest
}

/// A number of a job here by which nodes take turns.
fn turn(job_key: &str, epoch: i64) -> i64 {
    let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one((job_key, epoch));
    i64::try_from(hash >> 1).unwrap_or(0)
}

impl JobHere {
    fn peers(&mut self, id: RankId, time: i64, entries: &[Traffic]) {
        let Some(rank) = self.ranks.get_mut(&id) else { return };
        let is_beginning = rank.is_beginning(time);
        for entry in entries {
            let now = Sums { bytes: entry.bytes, messages: entry.messages };
            let before = match rank.peers.entry((entry.operation, entry.kind, entry.peer)) {
                Entry::Occupied(known) => known.into_mut(),
                // What does not fit is left out from its beginning on.
                Entry::Vacant(_) if !self.account.grow(ENTRY_BYTES) => continue,
                Entry::Vacant(new) => new.insert(Sums::default()),
            };
            let more = now.since(*before);
            *before = now;
            rank.is_measured |= entry.kind == TrafficKind::Wire;
            let kind = match entry.kind {
                TrafficKind::Wire => Kind::Measured,
                _ if rank.is_measured && !is_unreported(entry.operation) => continue,
                TrafficKind::Sent if names_no_receiver(entry.operation) => Kind::Logical,
                _ => Kind::Modelled,
            };
            let is_read = entry.kind == TrafficKind::Read;
            if !is_beginning {
                let key = CellKey { operation: entry.operation, kind, is_read, peer: entry.peer };
                add(&mut self.cells, &mut self.account, key, more);
            }
        }
    }

    fn groups(&mut self, id: RankId, parts: &[GroupPart], layouts: &mut Layouts) {
        for part in parts {
            let Some(rank) = self.ranks.get(&id) else { return };
            let is_same = |group: &Group| group.generation == part.generation;
            let known = rank.groups.get(&part.number);
            // All of it once more, after a reconnect.
            if known.is_some_and(|group| is_same(group) && (group.is_complete() || part.first == 0)) {
                continue;
            }
            if known.is_some_and(|group| !is_same(group)) {
                // Another group has its place from here on.
                self.lay_out(id, Some(part.number), layouts);
            }
            let Some(rank) = self.ranks.get_mut(&id) else { return };
            if !self.account.grow(ENTRY_BYTES + part.runs.len() * RUN_BYTES) {
                continue;
            }
            match rank.groups.get_mut(&part.number) {
                Some(group) if is_same(group) => group.extend(part),
                _ => {
                    rank.calls.retain(|key, _| key.group != part.number);
                    rank.groups.insert(part.number, Group::new(part));
                }
            }
        }
    }

    fn own_groups(&mut self, id: RankId, parts: &[GroupPart]) {
        let Some(rank) = self.ranks.get_mut(&id) else { return };
        for part in parts {
            let of = rank.groups.get_mut(&part.number).filter(|group| group.generation == part.generation);
            let Some(group) = of.filter(|group| group.is_next_of_own(part)) else { continue };
            if self.account.grow(ENTRY_BYTES + part.runs.len() * RUN_BYTES) {
                group.extend_own(part);
            }
        }
    }

    fn collectives(&mut self, id: RankId, time: i64, all: Vec<NamedCollective>) {
        let Some(rank) = self.ranks.get_mut(&id) else { return };
        let is_beginning = rank.is_beginning(time);
        for one in all {
            if !rank.groups.get(&one.key.group).is_some_and(Group::is_complete) {
                continue; // what it counts comes with its next change, once the group is known
            }
            let now = Sums { bytes: one.bytes, messages: one.calls };
            let calls = match rank.calls.entry(one.key) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(_) if !self.account.grow(ENTRY_BYTES) => continue,
                Entry::Vacant(new) => new.insert(Calls {
                    operation: one.operation,
                    algorithm: one.algorithm,
                    now: Sums::default(),
                    laid_out: Sums::default(),
                }),
            };
            if is_beginning || now.messages < calls.now.messages {
                calls.laid_out = if is_beginning { now } else { Sums::default() };
            }
            calls.now = now;
        }
    }

    fn samples(&mut self, id: RankId, all: &[NamedSample]) {
        let Some(rank) = self.ranks.get_mut(&id) else { return };
        for one in all {
            let Some(group) = rank.groups.get_mut(&one.sample.key.group) else { continue };
            if let Some(name) = group.name() {
                self.sampled.add(id.0, one, name);
            }
        }
    }

    /// Adds what collectives of a rank have moved since the last time to cells: those of one group, or all.
    fn lay_out(&mut self, id: RankId, only: Option<u32>, layouts: &mut Layouts) {
        let Some(rank) = self.ranks.get_mut(&id) else { return };
        for (key, calls) in &mut rank.calls {
            if only.is_some_and(|group| group != key.group) {
                continue;
            }
            let more = calls.now.since(calls.laid_out);
            calls.laid_out = calls.now;
            let Some(group) = rank.groups.get(&key.group) else { continue };
            if more.messages == 0 || rank.is_measured {
                continue;
            }
            let operation = blocking(calls.operation);
            let call = OneCall {
                operation,
                goes_on: operation != calls.operation,
                algorithm: calls.algorithm.clone(),
                library: rank.library,
                size: group.size,
                rank: group.rank,
                own: group.own().and_then(|own| Some((own.size, own.rank?))),
                root: key.root,
                block: (more.bytes / more.messages).max(u64::from(more.bytes > 0)),
            };
            let laid_out = layouts.of(&call);
            let kind = if laid_out.is_modelled { Kind::Modelled } else { Kind::Logical };
            let across = laid_out.sends.iter().map(|sent| (sent, group.world(sent.peer)));
            let own_world = |member| group.own()?.world(member);
            let own = laid_out.within.iter().map(|sent| (sent, own_world(sent.peer)));
            for (sent, peer) in across.chain(own) {
                let Some(peer) = peer.filter(|peer| *peer < rank.world_size) else { continue };
                let key = CellKey { operation: key.operation, kind, is_read: false, peer };
                // The mean block is rounded, their sum is not.
                let bytes = u128::from(sent.bytes) * u128::from(more.bytes) / u128::from(call.block.max(1));
                let more = Sums {
                    bytes: u64::try_from(bytes).unwrap_or(u64::MAX),
                    messages: sent.messages.saturating_mul(more.messages),
                };
                add(&mut self.cells, &mut self.account, key, more);
            }
        }
    }
}

fn add(cells: &mut HashMap<CellKey, Cell>, account: &mut Account, key: CellKey, more: Sums) {
    match cells.entry(key) {
        Entry::Occupied(cell) => cell.into_mut().now.add(more),
        Entry::Vacant(new) => {
            if more != Sums::default() && account.grow(ENTRY_BYTES) {
                new.insert(Cell::default()).now.add(more);
            }
        }
    }
}

#[cfg(test)]
mod tests;
