//! Operations of a job summed over its ranks on this node.

use super::account::NodeAccount;
use hashbrown::{Equivalent, HashMap};
use std::hash::{Hash, RandomState};
use throughline_mpit_bridge::SnapshotSchedule;
use throughline_sample::catalogue::MPI_CALLS;
use throughline_sample::wire::{MpiNodeCell, MpiNodeCells, MpiOpCell};

/// What distinguishes cells.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    operation: String,
    size_class_bytes: u64,
    region: String,
    algorithm: String,
}

/// The key of a cell, which is looked up without copying its names: each rank reports some cells a second.
#[derive(Hash)]
struct KeyOf<'a> {
    operation: &'a str,
    size_class_bytes: u64,
    region: &'a str,
    algorithm: &'a str,
}

impl<'a> KeyOf<'a> {
    fn new(cell: &'a MpiOpCell) -> Self {
        Self {
            operation: &cell.operation,
            size_class_bytes: cell.size_class_bytes,
            region: &cell.region,
            algorithm: &cell.algorithm,
        }
    }
}

// Strings and their slices have the same hash.
impl Equivalent<Key> for KeyOf<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        self.operation == key.operation
            && self.size_class_bytes == key.size_class_bytes
            && self.region == key.region
            && self.algorithm == key.algorithm
    }
}

/// Number of a cell among those of its job.
pub(super) type CellNumber = u32;

/// Sums of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Figures {
    calls: u64,
    bytes: u64,
    elapsed: u64,
    longest: u64,
    wait: Option<u64>,
    received: Option<u64>,
    least: Option<u64>,
}

impl Figures {
    pub fn of(cell: &MpiOpCell) -> Self {
        Self {
            calls: cell.calls,
            bytes: cell.bytes,
            elapsed: cell.elapsed_nanoseconds,
            longest: cell.longest_nanoseconds,
            wait: cell.wait_nanoseconds,
            received: cell.received_bytes,
            least: cell.least_nanoseconds,
        }
    }

    /// Whether these come after others of the same rank and cell: all of it only grows.
    pub fn is_after(&self, before: &Self) -> bool {
        self != before
            && self.calls >= before.calls
            && self.elapsed >= before.elapsed
            && self.received.unwrap_or(0) >= before.received.unwrap_or(0)
            && self.wait.unwrap_or(0) >= before.wait.unwrap_or(0)
    }

    /// Adds what a rank's figures grew by.
    fn grow(&mut self, before: &Self, now: &Self) {
        let sum = |sum: u64, before: u64, now: u64| {
            MPI_CALLS.width.reduce(sum.saturating_add(now.saturating_sub(before)))
        };
        let optional = |of: Option<u64>, before: Option<u64>, now: Option<u64>| match now {
            Some(now) => Some(sum(of.unwrap_or(0), before.unwrap_or(0), now)),
            None => of,
        };
        self.calls = sum(self.calls, before.calls, now.calls);
        self.bytes = sum(self.bytes, before.bytes, now.bytes);
        self.elapsed = sum(self.elapsed, before.elapsed, now.elapsed);
        self.longest = self.longest.max(now.longest);
        self.wait = optional(self.wait, before.wait, now.wait);
        self.received = optional(self.received, before.received, now.received);
        self.least = optional(self.least, before.least, now.least);
    }
}

/// One cell over the node's ranks.
#[derive(Debug)]
struct Cell {
    key: Key,
    algorithm_source: String,
    sums: Figures,
    round: Round,
}

/// What an interval brought.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    ranks: u32,
    /// Rank and nanoseconds.
    least: (u32, u64),
    most: (u32, u64),
}

/// The cells of a job on this node.
#[derive(Debug)]
pub(super) struct NodeCells {
    epoch: i64,
    /// Up to when all is in records.
    since: i64,
    /// Of the newest bin.
    newest: i64,
    source: String,
    /// Hashed with a random key: ranks choose names.
    numbers: HashMap<Key, CellNumber, RandomState>,
    cells: Vec<Cell>,
    wholes: SnapshotSchedule,
    pub account: NodeAccount,
}

impl NodeCells {
    /// Counting begins.
    pub fn new(now: i64) -> Self {
        Self {
            epoch: now,
            since: now,
            newest: now,
            source: String::new(),
            numbers: HashMap::default(),
            cells: Vec::new(),
            wholes: SnapshotSchedule::default(),
            account: NodeAccount::default(),
        }
    }

    /// The clock was set by so much.
    pub fn step(&mut self, step: i64) {
        self.since = self.since.saturating_add(step);
        self.newest = self.newest.saturating_add(step);
        self.account.step(step);
    }

    /// The number of a cell; a new one where there is none.
    pub fn number(&mut self, cell: &MpiOpCell) -> CellNumber {
        if let Some(number) = self.numbers.get(&KeyOf::new(cell)).copied() {
            if let Some(known) = self.cells.get_mut(number as usize)
                && known.algorithm_source != cell.algorithm_source
            {
                known.algorithm_source.clone_from(&cell.algorithm_source);
            }
            return number;
        }
        // The limit on cells is far below.
        let number = CellNumber::try_from(self.cells.len()).unwrap_or(CellNumber::MAX);
        let key = Key {
            operation: cell.operation.clone(),
            size_class_bytes: cell.size_class_bytes,
            region: cell.region.clone(),
            algorithm: cell.algorithm.clone(),
        };
        self.numbers.insert(key.clone(), number);
        let algorithm_source = cell.algorithm_source.clone();
        self.cells.push(Cell { key, algorithm_source, sums: Figures::default(), round: Round::default() });
        number
    }

    /// Notes a report of a rank.
    pub fn reported(&mut self, time: i64, source: &str) {
        self.newest = self.newest.max(time);
        if self.source != source {
            source.clone_into(&mut self.source);
        }
    }

    /// Adds what a rank did in a cell.
    pub fn grow(&mut self, number: CellNumber, rank: u32, before: &Figures, now: &Figures) {
        let Some(cell) = self.cells.get_mut(number as usize) else { return };
        cell.sums.grow(before, now);
        let inside = (rank, now.elapsed.saturating_sub(before.elapsed));
        let round = &mut cell.round;
        if round.ranks == 0 || inside.1 < round.least.1 {
            round.least = inside;
        }
        if round.ranks == 0 || inside.1 > round.most.1 {
            round.most = inside;
        }
        round.ranks += 1;
    }

    /// A cell with a rank's figures.
    pub fn named(&self, number: CellNumber, figures: &Figures) -> Option<MpiOpCell> {
        let Cell { key, algorithm_source, .. } = self.cells.get(number as usize)?;
        Some(MpiOpCell {
            operation: key.operation.clone(),
            size_class_bytes: key.size_class_bytes,
            calls: figures.calls,
            bytes: figures.bytes,
            elapsed_nanoseconds: figures.elapsed,
            longest_nanoseconds: figures.longest,
            region: key.region.clone(),
            algorithm: key.algorithm.clone(),
            algorithm_source: algorithm_source.clone(),
            wait_nanoseconds: figures.wait,
            received_bytes: figures.received,
            least_nanoseconds: figures.least,
        })
    }

    /// Whether counting began before a time: an interval that ends then has a length.
    pub fn begins_before(&self, time: i64) -> bool {
        self.since < time
    }

    /// The record of an interval that ended then; `None` where counting began after it. Where nothing grew it has no cell, and is left
    /// out unless the job runs here, or time went: then it reports that there is no more up to its time.
    pub fn record(&mut self, job_key: &str, time: i64, is_running: bool) -> Option<MpiNodeCells> {
        if time <= self.since {
            return None;
        }
        let since = std::mem::replace(&mut self.since, time);
        let grown = self.cells.iter().filter(|cell| cell.round.ranks > 0).count();
        if grown == 0 && !is_running && !self.account.is_due() {
            return None;
        }
        let account = self.account.record(time);
        // One that is stored has all cells now and then, so that a reader of the sums need not go back far.
        let is_stored = grown > 0 || account.is_some() && !self.cells.is_empty();
        let is_whole = is_stored && self.wholes.is_next(grown, self.cells.len());
        let mut cells = Vec::with_capacity(if is_whole { self.cells.len() } else { grown });
        for number in 0..self.cells.len() {
            let round = std::mem::take(&mut self.cells[number].round);
            if round.ranks == 0 && !is_whole {
                continue;
            }
            let sums = self.named(CellNumber::try_from(number).ok()?, &self.cells[number].sums);
            cells.push(MpiNodeCell {
                sums,
                ranks: round.ranks,
                least_rank: round.least.0,
                least_rank_nanoseconds: round.least.1,
                most_rank: round.most.0,
                most_rank_nanoseconds: round.most.1,
            });
        }
        // Before the first report there is none.
        let source = if self.source.is_empty() { "pmpi" } else { &self.source }.to_owned();
        let (epoch, job_key) = (self.epoch, job_key.to_owned());
        Some(MpiNodeCells { time, epoch, job_key, since, source, cells, is_whole, account })
    }

    /// The last record, of an interval that ended with the newest report.
    pub fn last_record(&mut self, job_key: &str) -> Option<MpiNodeCells> {
        // Times are stored in microseconds.
        self.record(job_key, self.newest.max(self.since + 1000), false)
    }
}
