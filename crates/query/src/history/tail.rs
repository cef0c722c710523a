//! What came in a window of time, of everything that can be requested: for the export, which hands on all samples, window
//! after window.
//!
//! Series, names and values are those of [`super::HistoryQuery`], and windows that follow each other have the samples that
//! one reading of all their time has. Other than there, a table is read once for all of its metrics.
//!
//! Of a counter that stands still gaps are filled ([`super::samples`]). So the last reading of each counter is retained from one window to
//! the next, some 50 bytes a series; at the beginning, and for what arrived late, it is read.
//!
//! A window of a time whose readings are packed only should be an hour ([`Tail::packed_hour_end`]).

mod packed;
mod self_metrics;
mod tables;

use super::family::{Family, Place, families};
use super::{HistoryError, Range, Samples, infos, series_lookup};
use packed::PackedHours;
use self_metrics::SelfMetrics;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tables::TableTail;
use throughline_sample::catalogue::Table;
use throughline_store::Error;
use throughline_store::rollup_kind::Kind;
use tokio_postgres::Client;

/// How long the database may take for one reading.
const READ_LIMIT: Duration = Duration::from_secs(120);

/// A minute in milliseconds: samples of info metrics stand at its multiples.
const MINUTE: i64 = 60_000;

/// Labels of a series without its name, ordered; none is empty.
pub type Labels = Arc<[(&'static str, String)]>;

/// A series with samples of a window.
#[derive(Clone, Debug, PartialEq)]
pub struct TailSeries {
    /// Place of its name in [`families`].
    pub family: usize,
    /// Its labels.
    pub labels: Labels,
    /// (Milliseconds since 1970, value), times strictly rising.
    pub points: Vec<(i64, f64)>,
}

/// What a window has of one thing: a port, a GPU, an instance, or a row of the inventory.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    /// The thing's name; things of a part come in their order.
    pub thing: String,
    /// Its series that have samples.
    pub series: Vec<TailSeries>,
}

/// What was read of a part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Round {
    /// In order.
    pub slices: Vec<Slice>,
    /// Where the next round of this part begins: after this thing. `None` behind the last.
    pub next: Option<String>,
}

/// A window: samples after `from` until `to`, milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TailWindow {
    /// Its beginning, which belongs to the one before.
    pub from: i64,
    /// Its end.
    pub to: i64,
}

/// A series of the last readings: place of the family, and the id and element, or the number of the figure.
type Key = (u16, u64);

/// The last reading of each counter.
type LastReadings = HashMap<Key, (i64, f64)>;

/// Reads window after window. What it retains is true for windows that follow each other only.
#[derive(Debug)]
pub struct Tail {
    tables: Vec<TableTail>,
    self_metrics: SelfMetrics,
    last: LastReadings,
    /// Whether the last readings until the window's beginning are retained.
    is_primed: bool,
    /// Which hours were packed only as of what was read last.
    packed: PackedHours,
}

/// The table of a part, if its hours are packed.
fn packed_table(part: &str) -> Option<Table> {
    TABLES.into_iter().find(|table| table.name() == part && Kind::of(*table).is_some())
}

/// Names of all parts, in the order in which they are read: hypertables and info metrics.
#[must_use]
pub fn parts() -> Vec<&'static str> {
    let tables = TABLES.iter().map(|table| table.name());
    tables.chain([Table::SelfStats.name()]).chain(infos::ALL.iter().map(|info| info.name)).collect()
}

/// The tables that are read row by row.
const TABLES: [Table; 7] = [
    Table::IbPortCounters,
    Table::IbPortLaneCounters,
    Table::HostPortCounters,
    Table::NvlinkCounters,
    Table::GpuPcieCounters,
    Table::GpuPmCounters,
    Table::GpuMetrics,
];

impl Default for Tail {
    fn default() -> Tail {
        Tail {
            tables: TABLES.map(TableTail::new).into(),
            self_metrics: SelfMetrics::default(),
            last: LastReadings::new(),
            is_primed: false,
            packed: PackedHours::default(),
        }
    }
}

impl Tail {
    /// All of a window was read, from its beginning: the next one goes on there.
    pub fn window_read(&mut self) {
        self.is_primed = true;
    }

    /// Where a window that begins at a time should end, if readings of that time are packed only: with their hour. Of a part, or where it
    /// is so of any.
    ///
    /// # Errors
    /// The database's.
    pub async fn packed_hour_end(
        client: &Client,
        part: Option<&str>,
        time: i64,
    ) -> Result<Option<i64>, Error> {
        let table = part.map(packed_table);
        if table == Some(None) {
            return Ok(None);
        }
        Ok(PackedHours::read(client).await?.hour_end(table.flatten(), time))
    }

    /// Whether no hour of a part has been packed since it was read. Otherwise rows may have gone within the transaction that read them,
    /// which does not see yet that they are packed: chunks go for every snapshot.
    ///
    /// # Errors
    /// The database's.
    pub async fn is_as_read(&self, client: &Client, part: &str) -> Result<bool, Error> {
        let Some(table) = packed_table(part) else { return Ok(true) };
        Ok(PackedHours::read(client).await?.of(table) == self.packed.of(table))
    }

    /// Reads what a part has in a window of things after `after`; an empty text is before all.
    ///
    /// # Errors
    /// The database's, or rows that can't be read.
    pub async fn read(
        &mut self,
        client: &Client,
        part: &str,
        window: TailWindow,
        after: &str,
    ) -> Result<Round, HistoryError> {
        if packed_table(part).is_some() {
            self.packed = PackedHours::read(client).await?;
        }
        let last = &mut self.last;
        if part == Table::SelfStats.name() {
            return within_time(self.self_metrics.read(client, (window, self.is_primed), after, last)).await;
        }
        if let Some(table) = self.tables.iter_mut().find(|table| table.name() == part) {
            return within_time(table.read(client, (window, self.is_primed), after, &self.packed, last))
                .await;
        }
        within_time(read_infos(client, part, window, after)).await
    }

    /// Reads what arrived late of some things of a part: of each ranges of time, one after the other. Info metrics don't come
    /// late.
    ///
    /// # Errors
    /// As [`Tail::read`].
    pub async fn read_late(
        &mut self,
        client: &Client,
        part: &str,
        things: &HashMap<String, Vec<Range>>,
    ) -> Result<Vec<Slice>, HistoryError> {
        if packed_table(part).is_some() {
            self.packed = PackedHours::read(client).await?;
        }
        let last = &mut self.last;
        if part == Table::SelfStats.name() {
            return within_time(self.self_metrics.read_late(client, things, last)).await;
        }
        match self.tables.iter_mut().find(|table| table.name() == part) {
            Some(table) => within_time(table.read_late(client, things, &self.packed, last)).await,
            None => Ok(Vec::new()),
        }
    }
}

async fn within_time<T>(reading: impl Future<Output = Result<T, HistoryError>>) -> Result<T, HistoryError> {
    let read = tokio::time::timeout(READ_LIMIT, reading).await;
    read.unwrap_or_else(|_| Err(Error::late("reading samples for the export", READ_LIMIT.as_secs()).into()))
}

/// One thing is one series.
async fn read_infos(
    client: &Client,
    part: &str,
    window: TailWindow,
    after: &str,
) -> Result<Round, HistoryError> {
    let whole = |time: i64| time.div_euclid(MINUTE) * MINUTE;
    let range = Range { from: whole(window.from) + 1, to: whole(window.to) };
    let found = families().iter().enumerate().find(|(_, family)| family.name == part);
    let Some((place, family)) = found.filter(|_| range.from <= range.to) else { return Ok(Round::default()) };
    let mut slices = Vec::new();
    for one in series_lookup::find(client, family, range, &[]).await? {
        let points = infos::of_minutes(&one, range).points().to_vec();
        let thing = one.labels.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>().join("\u{1}");
        if !points.is_empty() && thing.as_str() > after {
            let series = vec![TailSeries { family: place, labels: one.labels.into(), points }];
            slices.push(Slice { thing, series });
        }
    }
    slices.sort_by(|a, b| a.thing.cmp(&b.thing));
    Ok(Round { slices, next: None })
}

/// From the first to the last time of all things.
fn whole(things: &HashMap<String, Vec<Range>>) -> Option<Range> {
    let ranges = || things.values().flatten();
    let from = ranges().map(|range| range.from).min()?;
    let to = ranges().map(|range| range.to).max()?;
    Some(Range { from, to })
}

/// The samples of a series in ranges that follow each other, with gaps up to `largest_gap` filled; the last reading is retained for
/// the next window.
fn added(
    (family, number): (usize, u64),
    samples: &Samples,
    largest_gap: i64,
    ranges: &[Range],
    last: &mut LastReadings,
) -> Vec<(i64, f64)> {
    let is_counter = families().get(family).is_some_and(Family::is_counter);
    // Some hundreds of families.
    let key = (family as u16, number);
    let mut all = Vec::new();
    for range in ranges {
        let known = last.get(&key).copied().filter(|_| is_counter);
        let mut within = samples.clone();
        within.cut(range.to);
        let (points, newest) = within.added(range.from - 1, known, (is_counter, largest_gap));
        all.extend(points);
        let is_newer = |newest: &(i64, f64)| known.is_none_or(|known| newest.0 > known.0);
        if let Some(newest) = newest.filter(|newest| is_counter && is_newer(newest)) {
            last.insert(key, newest);
        }
    }
    all
}

#[cfg(test)]
mod tests;
