//! Folding of what MPI ranks report, so that a site's rows fit a database: of all ranks of a job on the node the sums of their
//! operations each interval (`MpiNodeCells`), and of each rank all its cells in some rows in its first minute, then one a minute, later
//! one in five minutes, and exactly at its end. Reports are cumulative: what is left out between two rows is in the next one.
//!
//! Pure: no clock, no I/O. Times are UTC nanoseconds; intervals end at whole multiples of their length. What exceeds the limits
//! here passes as it came, a row for each report (`mpi_ops`), and so does what ranks report that were not announced: nothing is lost.

mod account;
mod again;
mod node;
mod peers;
mod rank;
mod regions;

use crate::live::LiveJob;
use again::RepeatedRows;
use node::NodeCells;
use rank::RankHere;
use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use throughline_sample::wire::{Batch, JobRank, MpiRankBin};

/// So long after the end of an interval it is closed: ranks report at its end, and what they report takes a moment.
const GRACE_NANOSECONDS: i64 = 1_500_000_000;
/// Ranks of a job on the node that began within this time have their first rows together.
const TOGETHER_NANOSECONDS: i64 = 1_000_000_000;
/// A rank that began so much before it was known here was counting for an earlier agent, or for none.
const LATE_NANOSECONDS: i64 = 5_000_000_000;
/// A rank that has run for so long has rows less often: what it did in a minute is a small part of its totals.
const LONG_RUN_NANOSECONDS: i64 = 600 * 1_000_000_000;
/// Most ranks that are folded: several jobs of one rank per hardware thread on a large node.
const RANKS_MAX: usize = 8192;
/// Most cells of all ranks, of 200 bytes each: 512 ranks of 256 cells.
const CELLS_MAX: usize = 131_072;
/// Most cells of bins that are cached for the next interval: two pushes of 512 ranks.
const AHEAD_CELLS_MAX: usize = 65_536;
/// Most that waits for its rank's next row, of all ranks, in some 60 bytes: regions, paths and variables count as many
/// ([`rank::REGION`], [`rank::VARIABLE`]).
const WAITING_MAX: usize = 65_536;
/// Most regions and paths in rows that are held of all ranks, of some 150 bytes each, so that a row can have all of a rank again. Beyond, a
/// rank's rows have what changed.
const REGIONS_MAX: usize = 65_536;
/// Most peers that are held of all ranks, of some 50 bytes each. A rank that has more sends rows of those that changed alone.
const PEERS_MAX: usize = 131_072;

/// How often rows are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intervals {
    /// From one row of a cell of a node's ranks to the next, nanoseconds.
    pub fold: i64,
    /// From one row of a rank to the next in its first ten minutes and while somebody looks at its job, nanoseconds.
    pub rank: i64,
    /// From one row of a rank to the next later on, nanoseconds.
    pub later: i64,
    /// From one time at which rows have all that is known of a rank, changed or not, to the next, nanoseconds.
    pub repeat: i64,
}

/// What ranks have reported and no row has yet.
#[derive(Debug)]
pub struct Folder {
    intervals: Intervals,
    /// End of the interval that is open.
    edge: Option<i64>,
    jobs: HashMap<String, JobHere>,
    /// Bins of the next interval.
    ahead: Vec<MpiRankBin>,
    ahead_cells: usize,
    ranks: usize,
    cells: usize,
    waiting: usize,
    peers: usize,
    regions: usize,
    again: RepeatedRows,
}

#[derive(Debug)]
struct JobHere {
    cells: NodeCells,
    ranks: HashMap<(u32, i64), RankHere>,
    /// Cells of its ranks.
    count: usize,
    /// When the rank began that was known first.
    began: i64,
    /// When rows of its ranks are due, within the interval of ranks: jobs take turns.
    phase: i64,
    /// Somebody has looked at it since the interval before.
    is_live: bool,
}

impl Folder {
    /// Without anything.
    pub fn new(intervals: Intervals) -> Self {
        let fold = intervals.fold.max(1);
        let rank = intervals.rank.max(fold);
        let later = intervals.later.max(rank);
        let intervals = Intervals { fold, rank, later, repeat: intervals.repeat.max(later) };
        Self {
            intervals,
            edge: None,
            jobs: HashMap::new(),
            ahead: Vec::new(),
            ahead_cells: 0,
            ranks: 0,
            cells: 0,
            waiting: 0,
            peers: 0,
            regions: 0,
            again: RepeatedRows::default(),
        }
    }

    /// Takes out of a fragment what is folded, and puts in what is to be sent at once: the rows of ranks that have ended, and
    /// those of jobs whose last rank here has.
    pub fn take(&mut self, fragment: &mut Batch, now: i64) {
        let edge = self.edge(now);
        for rank in fragment.job_ranks.iter().filter(|rank| rank.end == 0) {
            self.enter(&rank.job_key, (rank.rank, rank.start), now);
        }
        // Rows that are made are no reports.
        let mut rows = Batch::default();
        for bin in std::mem::take(&mut fragment.mpi_ops) {
            let is_next = bin.time > edge && bin.time <= edge + self.intervals.fold + GRACE_NANOSECONDS;
            let is_folded = self.running(&bin.job_key, (bin.rank, bin.epoch)).is_some();
            if is_next && is_folded && self.ahead_cells + bin.cells.len() <= AHEAD_CELLS_MAX {
                self.ahead_cells += bin.cells.len();
                self.ahead.push(bin);
            } else {
                self.bin(bin, &mut rows);
            }
        }
        self.take_others(fragment, now, &mut rows);
        macro_rules! add {
            ($($kind:ident),+) => { $( fragment.$kind.append(&mut rows.$kind); )+ };
        }
        add!(mpi_ops, mpi_rank_rows, mpi_peers, mpi_regions, mpi_pvars, mpi_scheduling);
        let ended: Vec<JobRank> = fragment.job_ranks.iter().filter(|rank| rank.end != 0).cloned().collect();
        if !ended.is_empty() {
            self.apply_ahead_of(&ended, fragment);
            ended.iter().for_each(|rank| self.leave(rank, fragment));
        }
    }

    /// Peers, regions, variables and readings of processes: the newest waits for its rank's row.
    fn take_others(&mut self, fragment: &mut Batch, now: i64, rows: &mut Batch) {
        for record in std::mem::take(&mut fragment.mpi_peers) {
            // What a rank reports next is not in its row.
            let time = record.time.saturating_sub(rank::ONE_REPORT_NANOSECONDS);
            self.first_row(&record.job_key, (record.rank, record.epoch), time, rows);
            let space = PEERS_MAX.saturating_sub(self.peers);
            let Some(rank) = self.running(&record.job_key, (record.rank, record.epoch)) else {
                fragment.mpi_peers.push(record);
                continue;
            };
            let before = rank.peers_held();
            fragment.mpi_peers.extend(rank.peers(record, space));
            let after = rank.peers_held();
            self.peers = self.peers + after - before;
        }
        for record in std::mem::take(&mut fragment.mpi_regions) {
            let space = WAITING_MAX - self.waiting.min(WAITING_MAX);
            let Some(rank) = self.running(&record.job_key, (record.rank, record.epoch)) else {
                fragment.mpi_regions.push(record);
                continue;
            };
            match rank.regions(record, space) {
                Ok(more) => self.waiting += more,
                Err(record) => fragment.mpi_regions.push(record),
            }
        }
        let edge = self.edge(now);
        for record in std::mem::take(&mut fragment.mpi_scheduling) {
            match self.running(&record.job_key, (record.rank, record.epoch)) {
                Some(rank) => fragment.mpi_scheduling.extend(rank.scheduling(record, edge)),
                None => fragment.mpi_scheduling.push(record),
            }
        }
        for record in std::mem::take(&mut fragment.mpi_pvars) {
            let space = WAITING_MAX - self.waiting.min(WAITING_MAX);
            let newest = self.jobs.get_mut(&record.job_key).and_then(|job| {
                job.ranks
                    .iter_mut()
                    .filter(|((rank, _), _)| *rank == record.rank)
                    .max_by_key(|((_, epoch), _)| *epoch)
            });
            match newest.map(|(_, rank)| rank.variable(record.clone(), space)) {
                Some(Ok(more)) => self.waiting += more,
                _ => fragment.mpi_pvars.push(record),
            }
        }
    }

    /// The open interval's end.
    fn edge(&mut self, now: i64) -> i64 {
        let fold = self.intervals.fold;
        *self.edge.get_or_insert_with(|| (now.div_euclid(fold) + 1).saturating_mul(fold))
    }

    /// A rank that is folded and has not ended.
    fn running(&mut self, job_key: &str, id: (u32, i64)) -> Option<&mut RankHere> {
        self.jobs.get_mut(job_key)?.ranks.get_mut(&id).filter(|rank| !rank.has_ended())
    }

    /// A rank is announced, and known from now on unless it is one too many.
    fn enter(&mut self, job_key: &str, id: (u32, i64), now: i64) {
        if self.ranks >= RANKS_MAX {
            return;
        }
        let longest = self.intervals.later;
        let job = self.jobs.entry(job_key.to_owned()).or_insert_with(|| JobHere {
            cells: NodeCells::new(now),
            ranks: HashMap::new(),
            count: 0,
            began: id.1,
            phase: phase(job_key, longest),
            is_live: false,
        });
        let ranks = &mut self.ranks;
        let is_together = id.1.saturating_sub(job.began).abs() <= TOGETHER_NANOSECONDS;
        let began = if is_together { job.began } else { id.1 };
        let interval = self.intervals.rank;
        job.ranks.entry(id).or_insert_with(|| {
            *ranks += 1;
            RankHere::new(began, now.saturating_sub(id.1) > LATE_NANOSECONDS, now, interval)
        });
    }

    /// Takes a bin; what finds no place goes into `passed`.
    fn bin(&mut self, mut bin: MpiRankBin, passed: &mut Batch) {
        self.first_row(&bin.job_key, (bin.rank, bin.epoch), bin.time, passed);
        let (cells_of_all, id) = (self.cells, (bin.rank, bin.epoch));
        let job = self.jobs.get_mut(&bin.job_key);
        let rank = job.map(|job| (&mut job.cells, &mut job.count, job.ranks.get_mut(&id)));
        let Some((of_node, count, Some(rank))) =
            rank.filter(|(.., rank)| rank.as_ref().is_some_and(|rank| !rank.has_ended()))
        else {
            pass(bin, passed);
            return;
        };
        let mut added = 0;
        bin.cells.retain(|cell| {
            // One job alone gets three quarters, and the next always gets some.
            let free = CELLS_MAX.saturating_sub(cells_of_all + added);
            let may_grow = free > 0 && *count + added <= 3 * free;
            match rank.cell(of_node, cell, bin.time, &bin.source, may_grow) {
                Some(is_new) => {
                    added += usize::from(is_new);
                    false
                }
                None => true,
            }
        });
        *count += added;
        self.cells += added;
        if !bin.cells.is_empty() {
            bin.time = rank.next_time(bin.time);
            passed.mpi_ops.push(bin);
        }
    }

    /// Makes a rank's next first row if that is as of a time before this one, which it reports now.
    fn first_row(&mut self, job_key: &str, id: (u32, i64), time: i64, into: &mut Batch) {
        let Some(job) = self.jobs.get_mut(job_key) else { return };
        let Some(rank) = job.ranks.get_mut(&id).filter(|rank| !rank.has_ended()) else { return };
        if rank.first_row_due().is_none_or(|due| due >= time) {
            return;
        }
        let (waiting, held, regions) = (rank.waiting(), rank.peers_held(), rank.regions_held());
        let space = REGIONS_MAX.saturating_sub(self.regions);
        rank.rows((job_key, id, &job.cells), None, space, into);
        // As of the last time that was due: none is made twice.
        rank.had_first_row(time - 1, &self.intervals, job.phase);
        self.waiting = (self.waiting + rank.waiting()).saturating_sub(waiting);
        self.peers -= held - rank.peers_held();
        self.regions = self.regions + rank.regions_held() - regions;
    }

    /// Makes first rows of ranks that reported nothing after the time that they are of.
    fn first_rows(&mut self, now: i64, into: &mut Batch) {
        let time = now.saturating_sub(GRACE_NANOSECONDS);
        let is_due =
            |rank: &RankHere| !rank.has_ended() && rank.first_row_due().is_some_and(|due| due < time);
        let due = self.jobs.iter().flat_map(|(key, job)| {
            job.ranks.iter().filter(|(_, rank)| is_due(rank)).map(|(id, _)| (key.clone(), *id))
        });
        for (key, id) in due.collect::<Vec<_>>() {
            self.first_row(&key, id, time, into);
        }
    }

    /// Takes bins of the next interval of ranks that have ended: their last row has all.
    fn apply_ahead_of(&mut self, ended: &[JobRank], passed: &mut Batch) {
        let is_of = |bin: &mut MpiRankBin| {
            ended
                .iter()
                .any(|rank| rank.job_key == bin.job_key && (rank.rank, rank.start) == (bin.rank, bin.epoch))
        };
        for bin in self.ahead.extract_if(.., is_of).collect::<Vec<_>>() {
            self.ahead_cells -= bin.cells.len();
            self.bin(bin, passed);
        }
    }

    /// A rank has ended: its exact row, and the job's if it was the last.
    fn leave(&mut self, ended: &JobRank, into: &mut Batch) {
        let (job_key, id) = (ended.job_key.as_str(), (ended.rank, ended.start));
        let Some(job) = self.jobs.get_mut(job_key) else { return };
        let Some(rank) = job.ranks.get_mut(&id).filter(|rank| !rank.has_ended()) else { return };
        self.waiting = self.waiting.saturating_sub(rank.waiting());
        self.peers -= rank.peers_held();
        self.regions -= rank.regions_held();
        // An entry that is damaged must not take all of them.
        let is_of_it = |row: &MpiRankBin| row.job_key == job_key && (row.rank, row.epoch) == id;
        let is_first = !rank.has_row() || into.mpi_rank_rows.iter().any(is_of_it);
        let rows = into.mpi_rank_rows.len();
        // All of it, however long ago it was reported.
        rank.rows((job_key, id, &job.cells), Some(ended.end), REGIONS_MAX, into);
        if let Some(row) = into.mpi_rank_rows.get(rows).filter(|_| is_first) {
            let again = MpiRankBin { time: rank.next_time(row.time), ..row.clone() };
            self.again.add(again, ended, into.jobs.iter().find(|job| job.key == job_key));
        }
        rank.end();
        if job.ranks.values().all(RankHere::has_ended)
            && let Some(mut job) = self.jobs.remove(job_key)
        {
            job.fold();
            job.fold_accounts();
            into.mpi_node_cells.extend(job.cells.last_record(job_key));
            self.ranks -= job.ranks.len();
            self.cells -= job.count;
        }
    }

    /// Rows that are due. To be called about once a second, before each entry.
    pub fn due(&mut self, now: i64) -> Batch {
        let mut batch = self.again.due();
        let fold = self.intervals.fold;
        let edge = self.edge(now);
        if now < edge - 2 * fold - GRACE_NANOSECONDS {
            self.edge = None; // the clock was set back
        } else if now >= edge + GRACE_NANOSECONDS {
            self.close(edge, &mut batch);
            // After a pause the next one is that in which now is.
            let latest = (now - GRACE_NANOSECONDS).div_euclid(fold) * fold + fold;
            self.edge = Some(latest.max(edge + fold));
            self.ahead_cells = 0;
            for bin in std::mem::take(&mut self.ahead) {
                self.bin(bin, &mut batch);
            }
        }
        self.first_rows(now, &mut batch);
        batch
    }

    /// Rows of jobs that somebody looks at, as of a whole second that has passed, whatever the interval and whether anything grew: that
    /// there is one says that the node answers. So are rows of the ranks that are shown, where they changed. The others have rows as
    /// often as young ones until the next interval ends. To be called after [`Self::due`], for the same entry.
    pub fn live(&mut self, jobs: &[(String, LiveJob)], second: i64) -> Batch {
        let mut batch = Batch::default();
        for (key, live) in jobs {
            let Some(job) = self.jobs.get_mut(key) else { continue };
            job.is_live = true;
            if job.cells.begins_before(second) {
                job.fold();
                let is_running = job.ranks.values().any(|rank| !rank.has_ended());
                batch.mpi_node_cells.extend(job.cells.record(key, second, is_running));
            }
            let is_shown = |rank: u32| live.is_all_ranks || live.ranks.contains(&rank);
            for (id, rank) in job.ranks.iter_mut().filter(|(id, rank)| is_shown(id.0) && !rank.has_ended()) {
                let (waiting, held, regions) = (rank.waiting(), rank.peers_held(), rank.regions_held());
                let space = REGIONS_MAX.saturating_sub(self.regions);
                rank.sums((key, *id, &job.cells), None, space, &mut batch);
                self.waiting = (self.waiting + rank.waiting()).saturating_sub(waiting);
                self.peers -= held - rank.peers_held();
                self.regions = self.regions + rank.regions_held() - regions;
            }
        }
        batch
    }

    fn close(&mut self, edge: i64, into: &mut Batch) {
        let intervals = self.intervals;
        for (key, job) in &mut self.jobs {
            job.fold();
            job.fold_accounts();
            let is_running = job.ranks.values().any(|rank| !rank.has_ended());
            into.mpi_node_cells.extend(job.cells.record(key, edge, is_running));
            let is_live = std::mem::take(&mut job.is_live);
            for (id, rank) in job.ranks.iter_mut().filter(|(_, rank)| !rank.has_ended()) {
                let (waiting, held, regions) = (rank.waiting(), rank.peers_held(), rank.regions_held());
                let space = REGIONS_MAX.saturating_sub(self.regions);
                rank.due_rows(edge, is_live, (key, *id, &job.cells), space, into);
                self.waiting = (self.waiting + rank.waiting()).saturating_sub(waiting);
                self.peers -= held - rank.peers_held();
                self.regions = self.regions + rank.regions_held() - regions;
                rank.plan(edge, id.1, &intervals, (job.phase, turn(key, id.0)));
            }
            let gone: Vec<_> = job.ranks.extract_if(|_, rank| rank.has_ended()).collect();
            let cells: usize = gone.iter().map(|(_, rank)| rank.cells()).sum();
            self.ranks -= gone.len();
            self.cells -= cells;
            job.count -= cells;
        }
    }

    /// The clock was set by so much: what is held here gets the times that the clock has now for the same moments. Epochs stay.
    pub fn step(&mut self, step: i64) {
        self.edge = None;
        for job in self.jobs.values_mut() {
            job.cells.step(step);
            job.ranks.values_mut().for_each(|rank| rank.step(step));
        }
        self.ahead.iter_mut().for_each(|bin| bin.time = bin.time.saturating_add(step));
        self.again.step(step);
    }

    /// All that is left: the agent stops.
    pub fn finish(&mut self) -> Batch {
        let mut batch = self.again.due();
        for bin in std::mem::take(&mut self.ahead) {
            self.bin(bin, &mut batch);
        }
        for (key, mut job) in self.jobs.drain() {
            job.fold();
            job.fold_accounts();
            batch.mpi_node_cells.extend(job.cells.last_record(&key));
            for (id, rank) in &mut job.ranks {
                rank.rows((&key, *id, &job.cells), None, 0, &mut batch);
            }
        }
        *self = Self::new(self.intervals);
        batch
    }
}

impl JobHere {
    /// Adds to the sums of the node what ranks did since the last time.
    fn fold(&mut self) {
        for ((number, _), rank) in &mut self.ranks {
            rank.fold(*number, &mut self.cells);
        }
    }

    /// The same of where their time went, at the end of an interval.
    fn fold_accounts(&mut self) {
        self.ranks.values_mut().for_each(|rank| rank.fold_account(&mut self.cells.account));
    }
}

/// Passes on a bin of a rank that is not folded. A rank has one row of a time: what it reports at once is one record.
fn pass(bin: MpiRankBin, passed: &mut Batch) {
    let is_same = |other: &&mut MpiRankBin| {
        (other.time, other.epoch, other.rank) == (bin.time, bin.epoch, bin.rank)
            && other.job_key == bin.job_key
    };
    match passed.mpi_ops.iter_mut().rev().find(is_same) {
        Some(other) => other.cells.extend(bin.cells),
        None => passed.mpi_ops.push(bin),
    }
}

/// Where in the interval of ranks those of a job have their rows; the same on all nodes.
fn phase(job_key: &str, interval: i64) -> i64 {
    let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(job_key);
    i64::try_from(hash % interval.unsigned_abs().max(1)).unwrap_or(0)
}

/// A number of a rank by which all ranks of all nodes take turns.
fn turn(job_key: &str, rank: u32) -> i64 {
    let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one((job_key, rank));
    i64::try_from(hash >> 1).unwrap_or(0)
}

#[cfg(test)]
mod tests;
