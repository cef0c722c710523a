//! Regions and paths of one rank: what it reported of each last, and what of it no row has yet.

use std::collections::BTreeMap;
use throughline_sample::wire::{MpiPathCell, MpiRankRegions, MpiRegionCell};

/// Regions or paths by name.
#[derive(Debug)]
struct Cells<C> {
    /// No row has them yet.
    waiting: BTreeMap<String, C>,
    /// As they are in rows.
    sent: BTreeMap<String, C>,
}

impl<C> Default for Cells<C> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), sent: BTreeMap::new() }
    }
}

impl<C: Clone> Cells<C> {
    /// What a row has: what waits, or all that is known.
    fn take(&mut self, is_whole: bool, is_held: bool) -> Vec<C> {
        let waiting = std::mem::take(&mut self.waiting);
        if !is_held {
            return waiting.into_values().collect();
        }
        let changed = if is_whole { Vec::new() } else { waiting.values().cloned().collect() };
        self.sent.extend(waiting);
        if is_whole { self.sent.values().cloned().collect() } else { changed }
    }

    fn len(&self) -> (usize, usize) {
        (self.waiting.len(), self.sent.len())
    }
}

/// Regions and paths of a rank.
#[derive(Debug, Default)]
pub(super) struct Regions {
    time: i64,
    /// Of its last row.
    sent_time: i64,
    source: String,
    regions: Cells<MpiRegionCell>,
    paths: Cells<MpiPathCell>,
    /// There was no place for what is in rows: none has all from then on.
    is_partial: bool,
}

impl Regions {
    /// What waits for a row.
    pub fn waiting(&self) -> usize {
        self.regions.len().0 + self.paths.len().0
    }

    /// What is held beside that.
    pub fn held(&self) -> usize {
        self.regions.len().1 + self.paths.len().1
    }

    /// The clock was set by so much.
    pub fn step(&mut self, step: i64) {
        for time in [&mut self.time, &mut self.sent_time].into_iter().filter(|time| **time != 0) {
            *time = time.saturating_add(step);
        }
    }

    /// Takes those that changed; how many more wait.
    pub fn take(&mut self, record: MpiRankRegions) -> usize {
        let before = self.waiting();
        self.time = self.time.max(record.time);
        self.source = record.source;
        self.regions.waiting.extend(record.cells.into_iter().map(|cell| (cell.region.clone(), cell)));
        self.paths.waiting.extend(record.paths.into_iter().map(|cell| (cell.path.clone(), cell)));
        self.waiting() - before
    }

    /// The row of those that changed, or with `whole_at` of all as of that time; `None` without any. At most `space` more may be held
    /// from then on.
    pub fn row(
        &mut self,
        job_key: &str,
        (rank, epoch): (u32, i64),
        whole_at: Option<i64>,
        space: usize,
    ) -> Option<MpiRankRegions> {
        if !self.is_partial && self.waiting() > space {
            self.is_partial = true;
            self.regions.sent.clear();
            self.paths.sent.clear();
        }
        let is_held = !self.is_partial;
        if self.waiting() == 0 && (whole_at.is_none() || self.held() == 0) {
            return None;
        }
        let time = if self.waiting() == 0 { self.time.max(whole_at.unwrap_or(0)) } else { self.time };
        self.sent_time = time.max(self.sent_time + 1000);
        Some(MpiRankRegions {
            time: self.sent_time,
            epoch,
            job_key: job_key.to_owned(),
            rank,
            source: self.source.clone(),
            cells: self.regions.take(whole_at.is_some(), is_held),
            paths: self.paths.take(whole_at.is_some(), is_held),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(time: i64, names: &[&str], visits: u64) -> MpiRankRegions {
        let cell = |name: &&str| MpiRegionCell { region: (*name).into(), visits, ..MpiRegionCell::default() };
        MpiRankRegions { time, cells: names.iter().map(cell).collect(), ..MpiRankRegions::default() }
    }

    fn row(regions: &mut Regions, whole_at: Option<i64>, space: usize) -> Option<(i64, Vec<(String, u64)>)> {
        let row = regions.row("job", (0, 0), whole_at, space)?;
        Some((row.time, row.cells.into_iter().map(|cell| (cell.region, cell.visits)).collect()))
    }

    fn cells(of: &[(&str, u64)]) -> Vec<(String, u64)> {
        of.iter().map(|(name, visits)| ((*name).to_owned(), *visits)).collect()
    }

    #[test]
    fn a_row_has_what_changed_or_all() {
        let mut regions = Regions::default();
        assert_eq!(row(&mut regions, Some(5000), 10), None);
        assert_eq!(regions.take(report(1000, &["init", "solve"], 1)), 2);
        assert_eq!(row(&mut regions, None, 10), Some((1000, cells(&[("init", 1), ("solve", 1)]))));
        assert_eq!(row(&mut regions, None, 10), None);
        regions.take(report(2000, &["solve"], 2));
        assert_eq!(row(&mut regions, None, 10), Some((2000, cells(&[("solve", 2)]))));
        assert_eq!(
            row(&mut regions, Some(9000), 10),
            Some((9000, cells(&[("init", 1), ("solve", 2)]))),
            "still so"
        );
        assert_eq!((regions.waiting(), regions.held()), (0, 2));
    }

    #[test]
    fn what_finds_no_place_is_in_rows_of_changes_alone() {
        let mut regions = Regions::default();
        regions.take(report(1000, &["a", "b"], 1));
        assert!(row(&mut regions, None, 2).is_some());
        regions.take(report(2000, &["c"], 1));
        assert_eq!(row(&mut regions, Some(3000), 0), Some((2000, cells(&[("c", 1)]))));
        assert_eq!((regions.held(), row(&mut regions, Some(4000), 9)), (0, None));
    }
}
