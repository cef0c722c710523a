//! What one rank has reported, and no row has yet.

use super::account::{NodeAccount, RankAccount};
use super::node::{CellNumber, Figures, NodeCells};
use super::peers::Peers;
use super::regions::Regions;
use super::{Intervals, LONG_RUN_NANOSECONDS};
use std::collections::{BTreeMap, HashMap};
use throughline_sample::wire::{
    Batch, MpiOpCell, MpiPvarSample, MpiRankBin, MpiRankPeers, MpiRankRegions, MpiRankScheduling,
};

/// All that a rank reports at once comes within this time; its next report comes a second later.
pub(super) const ONE_REPORT_NANOSECONDS: i64 = 500_000_000;
/// Cells that a rank has a row of in each short interval of ranks. With more, rows come at as many times the interval: a rank's
/// rows have some 25 bytes a cell, and so at most 3 MB a day.
const CELLS_OF_ROW: usize = 64;
/// Peers in a row that count as one of these cells: they have some 20 bytes.
const PEERS_OF_CELL: usize = 5;

/// A rank has its first rows so long after its start, each as of the next whole second of UTC: a job of half a minute is whole.
const FIRST_ROWS_NANOSECONDS: [i64; 5] =
    [2_000_000_000, 5_000_000_000, 10_000_000_000, 20_000_000_000, 40_000_000_000];
const SECOND_NANOSECONDS: i64 = 1_000_000_000;

/// What a region or path that waits counts for, in some 60 bytes.
pub(super) const REGION: usize = 3;
/// What a variable that waits counts for, in the same.
pub(super) const VARIABLE: usize = 8;
/// Variables of a rank whose value in the last row is known; others have a row whether they changed or not.
const SENT_VARIABLES_MAX: usize = 64;

/// Whose rows are made: its job, rank and epoch, and the cells of its job here.
pub(super) type RankContext<'a> = (&'a str, (u32, i64), &'a NodeCells);

#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    now: Figures,
    /// As of the node's last sums.
    folded: Figures,
    is_touched: bool,
}

/// What was made of a rank at the end of an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum IntervalRows {
    /// All that is known of it, whether it changed or not.
    Whole,
    /// What changed.
    All,
    /// Variables and readings of the process.
    Values,
    #[default]
    Nothing,
}

/// One rank of a job.
#[derive(Debug, Default)]
pub(super) struct RankHere {
    /// It counted before it was known here: its first report is where the node's sums begin.
    is_late: bool,
    has_ended: bool,
    first_report: Option<i64>,
    /// From when its first rows count: when it began, or the rank of its job here that began with it.
    began: i64,
    /// First rows that it had, or that were due before it was known here.
    first_rows: usize,
    /// Of its newest bin.
    time: i64,
    /// Of its last row.
    sent_time: i64,
    /// From when on its next row is due, and from when on while somebody looks at its job.
    due: i64,
    due_soon: i64,
    /// From when on the next row with all that is known is due; 0: not planned yet.
    whole_due: i64,
    /// At the end of the last interval.
    made: IntervalRows,
    has_changed: bool,
    source: String,
    cells: HashMap<CellNumber, Cell>,
    touched: Vec<CellNumber>,
    peers: BTreeMap<String, Peers>,
    /// Peers in its last rows.
    sent_peers: usize,
    regions: Regions,
    variables: BTreeMap<(String, u32), MpiPvarSample>,
    /// Values of variables in their last rows.
    sent_variables: BTreeMap<(String, u32), f64>,
    has_scheduling: bool,
    is_stopped: bool,
    /// Of few ranks at a time, and large.
    scheduling: Option<Box<MpiRankScheduling>>,
    /// Of a rank that reports where its time went.
    account: Option<Box<RankAccount>>,
}

impl RankHere {
    /// A rank that is known from now on, whose first rows count from `began`. It has none where its rows are as close as those anyway.
    pub fn new(began: i64, is_late: bool, now: i64, interval: i64) -> Self {
        let mut rank = Self { is_late, began, ..Self::default() };
        if interval <= FIRST_ROWS_NANOSECONDS[0] {
            rank.first_rows = FIRST_ROWS_NANOSECONDS.len();
        }
        while rank.first_row_due().is_some_and(|due| due < now) {
            rank.first_rows += 1;
        }
        rank
    }

    /// As of when its next first row is; `None` where it had all.
    pub fn first_row_due(&self) -> Option<i64> {
        let due = self.began.saturating_add(*FIRST_ROWS_NANOSECONDS.get(self.first_rows)?);
        Some(due.saturating_add(SECOND_NANOSECONDS - 1).div_euclid(SECOND_NANOSECONDS) * SECOND_NANOSECONDS)
    }

    /// Whether it has its first rows instead of those at the ends of intervals. Where the clock was set back they are far away.
    fn has_first_rows_until(&self, edge: i64) -> bool {
        let longest = FIRST_ROWS_NANOSECONDS[FIRST_ROWS_NANOSECONDS.len() - 1];
        self.first_row_due().is_some_and(|due| due <= edge.saturating_add(longest))
    }

    /// Its next first row is made: the others come at its job's turns once it has all.
    pub fn had_first_row(&mut self, time: i64, intervals: &Intervals, phase: i64) {
        while self.first_row_due().is_some_and(|due| due <= time) {
            self.first_rows += 1;
        }
        if self.first_row_due().is_none() {
            let begun = (time - phase).div_euclid(intervals.rank).saturating_mul(intervals.rank);
            self.due_soon = begun.saturating_add(phase).saturating_add(intervals.rank);
            self.due = self.due_soon;
        }
    }

    pub fn end(&mut self) {
        self.has_ended = true;
        self.peers.clear();
        self.regions = Regions::default();
    }

    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Whether it had a row.
    pub fn has_row(&self) -> bool {
        self.sent_time != 0
    }

    /// Cells that it has.
    pub fn cells(&self) -> usize {
        self.cells.len()
    }

    /// Records beside cells that wait, as [`super::WAITING_MAX`] counts them.
    pub fn waiting(&self) -> usize {
        REGION * self.regions.waiting() + VARIABLE * self.variables.len()
    }

    /// Takes a cell of a bin: whether it is new, or `None` where there is no place for a new one.
    pub fn cell(
        &mut self,
        of_node: &mut NodeCells,
        cell: &MpiOpCell,
        time: i64,
        source: &str,
        may_grow: bool,
    ) -> Option<bool> {
        let first = *self.first_report.get_or_insert(time);
        let is_beginning = self.is_late && time < first.saturating_add(ONE_REPORT_NANOSECONDS);
        let number = of_node.number(cell);
        let is_new = !self.cells.contains_key(&number);
        if is_new && !may_grow {
            return None;
        }
        let now = Figures::of(cell);
        let known = self.cells.entry(number).or_default();
        if is_new && is_beginning {
            known.folded = now;
        }
        if now.is_after(&known.now) {
            known.now = now;
            self.has_changed = true;
            if !std::mem::replace(&mut known.is_touched, true) {
                self.touched.push(number);
            }
        }
        self.time = self.time.max(time);
        if self.source != source {
            source.clone_into(&mut self.source);
        }
        of_node.reported(time, source);
        Some(is_new)
    }

    /// Adds to the node's sums what it did since the last time.
    pub fn fold(&mut self, rank: u32, of_node: &mut NodeCells) {
        for number in self.touched.drain(..) {
            let Some(cell) = self.cells.get_mut(&number) else { continue };
            cell.is_touched = false;
            if cell.now != cell.folded {
                of_node.grow(number, rank, &cell.folded, &cell.now);
                cell.folded = cell.now;
            }
        }
    }

    /// Adds to the node's sums where its time went since the last time.
    pub fn fold_account(&mut self, of_node: &mut NodeAccount) {
        if let Some(account) = &mut self.account {
            account.fold(self.is_late, self.has_ended, of_node);
        }
    }

    /// The time of its next row, with folded cells or others: stored in microseconds, and a key.
    pub fn next_time(&mut self, time: i64) -> i64 {
        self.sent_time = time.max(self.sent_time + 1000);
        self.sent_time
    }

    /// The clock was set by so much.
    pub fn step(&mut self, step: i64) {
        let times = [
            &mut self.began,
            &mut self.time,
            &mut self.sent_time,
            &mut self.due,
            &mut self.due_soon,
            &mut self.whole_due,
        ];
        let held = self.variables.values_mut().map(|record| &mut record.time);
        let held = held.chain(self.scheduling.iter_mut().map(|record| &mut record.time));
        for time in times.into_iter().chain(self.first_report.as_mut()).chain(held).filter(|time| **time != 0)
        {
            *time = time.saturating_add(step);
        }
        self.peers.values_mut().for_each(|peers| peers.step(step));
        self.regions.step(step);
        if let Some(account) = &mut self.account {
            account.step(step);
        }
    }

    /// Peers that it holds, of all kinds.
    pub fn peers_held(&self) -> usize {
        self.peers.values().map(Peers::len).sum()
    }

    /// Takes changed peers; at most `space` of them may be new. Returns a record of those that do not fit.
    pub fn peers(&mut self, record: MpiRankPeers, space: usize) -> Option<MpiRankPeers> {
        self.peers.entry(record.kind.clone()).or_default().take(record, space)
    }

    /// Regions and paths that it holds beside those that wait.
    pub fn regions_held(&self) -> usize {
        self.regions.held()
    }

    /// Takes changed regions and paths, as far as there is `space`; how much more waits now.
    pub fn regions(&mut self, record: MpiRankRegions, space: usize) -> Result<usize, MpiRankRegions> {
        if REGION * (record.cells.len() + record.paths.len()) > space {
            return Err(record);
        }
        Ok(REGION * self.regions.take(record))
    }

    /// Takes a value of a performance variable, as [`Self::regions`].
    pub fn variable(&mut self, record: MpiPvarSample, space: usize) -> Result<usize, MpiPvarSample> {
        if space < VARIABLE {
            return Err(record);
        }
        let before = self.variables.len();
        self.variables.insert((record.name.clone(), record.element), record);
        Ok(VARIABLE * (self.variables.len() - before))
    }

    /// Takes a reading of its process. Returns one that goes at once: the first, as others are compared with it, and that of a
    /// process that was stopped since, or goes on. `edge` is the end of the open interval.
    pub fn scheduling(&mut self, record: MpiRankScheduling, edge: i64) -> Option<MpiRankScheduling> {
        self.account.get_or_insert_default().take(&record, edge);
        let was_stopped = std::mem::replace(&mut self.is_stopped, record.is_stopped);
        if !std::mem::replace(&mut self.has_scheduling, true) || was_stopped != record.is_stopped {
            return Some(record);
        }
        self.scheduling = Some(Box::new(record));
        None
    }

    /// Adds what is due at the end of an interval.
    pub fn due_rows(
        &mut self,
        edge: i64,
        is_live: bool,
        whose: RankContext<'_>,
        space: usize,
        into: &mut Batch,
    ) {
        let is_soon = edge >= self.due_soon;
        let is_whole = self.whole_due != 0 && edge >= self.whole_due;
        self.made = match is_soon {
            _ if self.has_first_rows_until(edge) && !is_live => IntervalRows::Nothing,
            true if is_whole && edge >= self.due => IntervalRows::Whole,
            true if is_live || edge >= self.due => IntervalRows::All,
            true => IntervalRows::Values,
            false => IntervalRows::Nothing,
        };
        match self.made {
            IntervalRows::Whole => self.rows(whose, Some(edge), space, into),
            IntervalRows::All => self.rows(whose, None, space, into),
            IntervalRows::Values => self.values(into),
            IntervalRows::Nothing => {}
        }
    }

    /// Says when the next ones are due, after [`Self::due_rows`]. `phase` is that of its job, `turn` any number of its own.
    pub fn plan(&mut self, edge: i64, start: i64, intervals: &Intervals, (phase, turn): (i64, i64)) {
        let after = |interval: i64, times: i64| {
            let begun = (edge - phase).div_euclid(interval).saturating_mul(interval).saturating_add(phase);
            begun.saturating_add(interval.saturating_mul(times))
        };
        let cells = self.cells.len().max(self.sent_peers / PEERS_OF_CELL).max(1);
        let times = i64::try_from(cells.div_ceil(CELLS_OF_ROW)).unwrap_or(i64::MAX);
        if self.made != IntervalRows::Nothing {
            self.due_soon = after(intervals.rank, times);
        }
        if self.made == IntervalRows::Whole {
            self.whole_due = edge.saturating_add(intervals.repeat);
        } else if self.whole_due == 0 {
            // Ranks take turns, wherever they began together.
            self.whole_due = edge.saturating_add(1 + turn.rem_euclid(intervals.repeat));
        }
        if matches!(self.made, IntervalRows::All | IntervalRows::Whole) {
            let is_long = edge.saturating_sub(start) >= LONG_RUN_NANOSECONDS;
            self.due = if is_long { self.due_soon.max(after(intervals.later, 1)) } else { self.due_soon };
        }
    }

    /// Adds its row, and what waits for it; with `whole_at` all that is known of it, as of that time where it did not change. At most
    /// `space` more regions and paths may be held from then on.
    pub fn rows(&mut self, whose: RankContext<'_>, whole_at: Option<i64>, space: usize, into: &mut Batch) {
        self.sums(whose, whole_at, space, into);
        self.values(into);
    }

    /// What is cumulative.
    pub fn sums(
        &mut self,
        (job_key, (rank, epoch), of_node): RankContext<'_>,
        whole_at: Option<i64>,
        space: usize,
        into: &mut Batch,
    ) {
        let unchanged_at = whole_at.filter(|_| !self.has_changed && !self.cells.is_empty());
        if std::mem::take(&mut self.has_changed) || unchanged_at.is_some() {
            let time = self.next_time(self.time.max(unchanged_at.unwrap_or(0)));
            let mut numbers: Vec<CellNumber> = self.cells.keys().copied().collect();
            numbers.sort_unstable();
            let cells =
                numbers.iter().filter_map(|number| of_node.named(*number, &self.cells.get(number)?.now));
            into.mpi_rank_rows.push(MpiRankBin {
                time,
                epoch,
                job_key: job_key.to_owned(),
                rank,
                source: self.source.clone(),
                cells: cells.collect(),
            });
        }
        self.sent_peers = 0;
        for (kind, peers) in &mut self.peers {
            let row = peers.row(job_key, (rank, epoch), kind, whole_at);
            self.sent_peers += row.as_ref().map_or(0, |row| row.cells.len());
            into.mpi_peers.extend(row);
        }
        into.mpi_regions.extend(self.regions.row(job_key, (rank, epoch), whole_at, space));
    }

    /// What is not, and is worth knowing now.
    fn values(&mut self, into: &mut Batch) {
        for (of, sample) in std::mem::take(&mut self.variables) {
            if self.sent_variables.get(&of) == Some(&sample.value) {
                continue;
            }
            if self.sent_variables.len() < SENT_VARIABLES_MAX || self.sent_variables.contains_key(&of) {
                self.sent_variables.insert(of, sample.value);
            }
            into.mpi_pvars.push(sample);
        }
        into.mpi_scheduling.extend(self.scheduling.take().map(|record| *record));
    }
}
