//! Samples of one hypertable: all of its metrics by one COPY, for some ids at a time.

use super::super::family::Keys;
use super::super::round::{BufferedSeries, NO_SOURCE, rank};
use super::super::series::{SampleLocation, seconds};
use super::super::{HistoryError, Range, Samples, series_lookup};
use super::packed::{PackedHours, part_of, things};
use super::{Family, Labels, LastReadings, Place, Round, Slice, TailSeries, TailWindow, added, families};
use crate::row_rules::Gaps;
use bytes::{Buf, Bytes};
use futures::TryStreamExt;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;
use std::pin::pin;
use std::time::{Duration, Instant};
use throughline_sample::catalogue::{Metric, Table};
use throughline_store::Error;
use throughline_store::binary_copy::{begins_row, elements, field, header, int8, time};
use throughline_store::counter_sql::{has_saturation, shown};
use tokio_postgres::Client;

/// Ids of a round: 200 ports of 60 counters read once a second are 120,000 samples in ten seconds, 2 MB. And of an hour: 860,000, 14 MB.
const IDS: usize = 200;
const IDS_OF_HOUR: usize = 4;

/// How long labels are believed; an id that is not known has them read again at once.
const LABELS_AGE: Duration = Duration::from_secs(60);

/// A metric of the table under one of its prefixes.
#[derive(Debug)]
struct Column {
    keys: &'static Keys,
    /// Place of the family of its values.
    values: usize,
    /// Place of the family that is 1 while it stands at its end.
    saturated: Option<usize>,
}

/// One hypertable.
#[derive(Debug)]
pub(super) struct TableTail {
    table: Table,
    /// By prefix, then by the place of the metric in the table.
    columns: Vec<Vec<Column>>,
    /// Labels of each element of each id, and the place of its prefix.
    labels: BTreeMap<(i64, i32), (usize, Labels)>,
    labels_read: Option<Instant>,
    /// The largest gaps of all things in a window, whose rounds they are cached for.
    gaps: Option<((i64, i64), Gaps)>,
    has_sources: bool,
}

/// Of a series of a round: id, element, place of the metric, and whether it is of its end.
type SeriesKey = (i64, i32, usize, bool);

/// Readings of a round by series, and by the part of the range where that is long.
type Readings = BTreeMap<(SeriesKey, i64), BufferedSeries>;

/// Which rows.
enum Ids {
    /// After the one, until the other.
    Between(i64, Option<i64>),
    /// These.
    List(Vec<i64>),
}

impl TableTail {
    pub fn new(table: Table) -> TableTail {
        let mut columns: Vec<Vec<Column>> = Vec::new();
        let mut has_sources = false;
        for (place, family) in families().iter().enumerate() {
            let Place::Column { keys, metric } = &family.place else { continue };
            if metric.table != table {
                continue;
            }
            has_sources |= keys.has_sources;
            let column = Column { keys, values: place, saturated: saturated(keys, metric) };
            match columns.iter_mut().find(|known| known.first().is_some_and(|one| is_same(one.keys, keys))) {
                Some(known) => known.push(column),
                None => columns.push(vec![column]),
            }
        }
        for known in &mut columns {
            known.sort_by_key(|column| table.metrics().iter().position(|metric| is_of(column, metric)));
        }
        TableTail { table, columns, labels: BTreeMap::new(), labels_read: None, gaps: None, has_sources }
    }

    pub fn name(&self) -> &'static str {
        self.table.name()
    }

    pub async fn read(
        &mut self,
        client: &Client,
        (window, is_primed): (TailWindow, bool),
        after: &str,
        packed: &PackedHours,
        last: &mut LastReadings,
    ) -> Result<Round, HistoryError> {
        let after = after.parse().unwrap_or(i64::MIN);
        self.refresh(client, LABELS_AGE).await?;
        let most = things(IDS, IDS_OF_HOUR, window.to - window.from);
        let ids: BTreeSet<i64> =
            self.labels.keys().map(|(id, _)| *id).filter(|id| *id > after).take_while_new(most);
        // Ids that are not known yet are behind all others.
        let next = (ids.len() == most).then(|| ids.last().copied()).flatten();
        let gaps = self.gaps(client, (window.from, window.to)).await?;
        let look_back = if is_primed { 0 } else { gaps.largest() };
        let range = Range { from: window.from + 1 - look_back, to: window.to };
        let source = packed.source(self.table, range);
        let readings = self.readings(client, &source, (range, look_back), &Ids::Between(after, next)).await?;
        let whole = [Range { from: window.from + 1, to: window.to }];
        let slices = self.slices(client, readings, (&gaps, |_| &whole[..]), last).await?;
        Ok(Round { slices, next: next.map(|id| id.to_string()) })
    }

    pub async fn read_late(
        &mut self,
        client: &Client,
        things: &HashMap<String, Vec<Range>>,
        packed: &PackedHours,
        last: &mut LastReadings,
    ) -> Result<Vec<Slice>, HistoryError> {
        let ranges: HashMap<i64, &[Range]> = things
            .iter()
            .filter_map(|(thing, ranges)| Some((thing.parse().ok()?, ranges.as_slice())))
            .collect();
        let Some(Range { from, to }) = super::whole(things) else { return Ok(Vec::new()) };
        self.refresh(client, LABELS_AGE).await?;
        let ids = Ids::List(ranges.keys().copied().collect());
        let gaps = self.gaps(client, (from, to)).await?;
        let look_back = gaps.largest();
        let range = Range { from: from - look_back, to };
        let source = packed.source(self.table, range);
        let readings = self.readings(client, &source, (range, look_back), &ids).await?;
        let of = |id| ranges.get(&id).copied().unwrap_or_default();
        self.slices(client, readings, (&gaps, of), last).await
    }

    /// The largest gaps of all things in a time, read once for all rounds of it.
    async fn gaps(&mut self, client: &Client, time: (i64, i64)) -> Result<Gaps, HistoryError> {
        if let Some((_, gaps)) = self.gaps.as_ref().filter(|(of, _)| *of == time) {
            return Ok(gaps.clone());
        }
        let gaps = Gaps::read(client, self.table, time).await?;
        Ok(self.gaps.insert((time, gaps)).1.clone())
    }

    /// Reads labels unless they are as young as this.
    async fn refresh(&mut self, client: &Client, age: Duration) -> Result<(), HistoryError> {
        if self.labels_read.is_some_and(|read| read.elapsed() < age) {
            return Ok(());
        }
        let begun = Instant::now();
        let mut labels = BTreeMap::new();
        for (prefix, columns) in self.columns.iter().enumerate() {
            let Some(family) = columns.first().and_then(|column| families().get(column.values)) else {
                continue;
            };
            let range = Range { from: 0, to: 0 };
            for one in series_lookup::find(client, family, range, &[]).await? {
                if let SampleLocation::Rows { id, element } = one.known {
                    labels.insert((id, element), (prefix, one.labels.into()));
                }
            }
        }
        (self.labels, self.labels_read) = (labels, Some(begun));
        Ok(())
    }

    /// What rows of a range have, in the table or what stands for it.
    async fn readings(
        &self,
        client: &Client,
        source: &str,
        (range, look_back): (Range, i64),
        ids: &Ids,
    ) -> Result<Readings, HistoryError> {
        let failing = Error::sql("reading samples for the export");
        let sql = format!("COPY ({}) TO STDOUT (FORMAT binary)", self.sql(source, range, ids));
        let mut rows = pin!(client.copy_out(sql.as_str()).await.map_err(failing)?);
        let mut readings = Readings::new();
        let mut is_first = true;
        loop {
            let next = rows.try_next().await.map_err(Error::sql("reading samples for the export"))?;
            let Some(mut data) = next else { return Ok(readings) };
            if std::mem::take(&mut is_first) {
                header(&mut data).ok_or(HistoryError::Damaged)?;
            }
            while data.has_remaining() {
                if !self.take(&mut data, (range, look_back), &mut readings).ok_or(HistoryError::Damaged)? {
                    break;
                }
            }
        }
    }

    fn sql(&self, source: &str, range: Range, ids: &Ids) -> String {
        let key = self.columns.iter().flatten().next().map_or("", |column| column.keys.id);
        let mut sql = format!("SELECT {key}, time");
        sql.push_str(if self.has_sources { ", source" } else { "" });
        let metrics = self.table.metrics();
        if metrics.iter().any(|metric| has_saturation(metric)) {
            sql.push_str(", array_to_string(saturated, ',')");
        }
        metrics.iter().for_each(|metric| _ = write!(sql, ", {}", shown(metric)));
        _ = write!(
            sql,
            " FROM {source} WHERE time >= to_timestamp({}) AND time < to_timestamp({})",
            seconds(range.from),
            seconds(range.to + 1)
        );
        match ids {
            Ids::Between(after, until) => {
                _ = write!(sql, " AND {key} > {after}");
                until.iter().for_each(|until| _ = write!(sql, " AND {key} <= {until}"));
            }
            Ids::List(list) => {
                let list: Vec<String> = list.iter().map(i64::to_string).collect();
                _ = write!(sql, " AND {key} = ANY ('{{{}}}'::bigint[])", list.join(","));
            }
        }
        sql
    }

    /// Takes a row; `false` at the mark of the end, `None` for a damaged one.
    fn take(
        &self,
        data: &mut Bytes,
        (range, look_back): (Range, i64),
        readings: &mut Readings,
    ) -> Option<bool> {
        if !begins_row(data)? {
            return Some(false);
        }
        let (id, time) = (int8(data)?, time(data)?);
        let source = if self.has_sources { field(data)? } else { None };
        let source = source.as_deref().map_or(NO_SOURCE, rank);
        let metrics = self.table.metrics();
        let part = part_of(range, look_back, time);
        let mut put = |element: i32, place: usize, is_end: bool, value: f64| {
            let held = readings.entry(((id, element, place, is_end), part)).or_default();
            if let Some(samples) = held.of(source) {
                samples.push(time, value);
            }
        };
        if metrics.iter().any(|metric| has_saturation(metric))
            && let Some(names) = field(data)?
        {
            let names = String::from_utf8_lossy(&names);
            for name in names.split(',') {
                let place = metrics.iter().position(|metric| metric.name == name && has_saturation(metric));
                place.into_iter().for_each(|place| put(0, place, true, 1.0));
            }
        }
        for (place, metric) in metrics.iter().enumerate() {
            let Some(mut value) = field(data)? else { continue };
            if self.table.has_arrays() {
                // Counts below 2^53 are exact, and larger ones as exact as Prometheus has them.
                elements(value, |element, value| put(element, place, false, value as f64))?;
            } else if metric.is_fractional() {
                put(0, place, false, value.try_get_f64().ok()?);
            } else {
                put(0, place, false, value.try_get_i64().ok()? as f64);
            }
        }
        Some(true)
    }

    /// Series with names and labels, and of each id the samples of these ranges.
    async fn slices<'a>(
        &mut self,
        client: &Client,
        readings: Readings,
        (gaps, ranges): (&Gaps, impl Fn(i64) -> &'a [Range]),
        last: &mut LastReadings,
    ) -> Result<Vec<Slice>, HistoryError> {
        let is_known = |id: i64| self.labels.range((id, i32::MIN)..=(id, i32::MAX)).next().is_some();
        if readings.keys().any(|((id, ..), _)| !is_known(*id)) {
            self.refresh(client, Duration::ZERO).await?;
        }
        let mut series: BTreeMap<SeriesKey, Samples> = BTreeMap::new();
        for ((key, _), held) in readings {
            series.entry(key).or_default().extend(held.samples());
        }
        let mut slices: Vec<(i64, Slice)> = Vec::new();
        for ((id, element, place, is_end), samples) in series {
            // As a reader would find it: what the inventory does not have is no series.
            let Some((prefix, labels)) = self.labels.get(&(id, element)) else { continue };
            let column = self.columns.get(*prefix).and_then(|columns| columns.get(place));
            let family =
                column.and_then(|column| if is_end { column.saturated } else { Some(column.values) });
            let Some(family) = family else { continue };
            // Elements are lanes or links, at most 64 in a row; a sequence of ids does not reach 2^56.
            let number = id.cast_unsigned() << 8 | u64::from(element as u8);
            let points = added((family, number), &samples, gaps.of(id), ranges(id), last);
            if points.is_empty() {
                continue;
            }
            let series = TailSeries { family, labels: labels.clone(), points };
            match slices.last_mut().filter(|(known, _)| *known == id) {
                Some((_, slice)) => slice.series.push(series),
                None => slices.push((id, Slice { thing: id.to_string(), series: vec![series] })),
            }
        }
        Ok(slices.into_iter().map(|(_, slice)| slice).collect())
    }
}

/// The first so many different ones of what comes in order.
trait TakeNew: Iterator<Item = i64> + Sized {
    fn take_while_new(self, most: usize) -> BTreeSet<i64> {
        let mut all = BTreeSet::new();
        for id in self {
            if all.len() == most && !all.contains(&id) {
                break;
            }
            all.insert(id);
        }
        all
    }
}

impl<I: Iterator<Item = i64>> TakeNew for I {}

fn is_same(one: &'static Keys, other: &'static Keys) -> bool {
    std::ptr::eq(one, other)
}

fn is_of(column: &Column, metric: &Metric) -> bool {
    let place = families().get(column.values).map(|family: &Family| &family.place);
    matches!(place, Some(Place::Column { metric: of, .. }) if of.name == metric.name)
}

/// The family that is 1 while a metric stands at its end.
fn saturated(keys: &'static Keys, metric: &Metric) -> Option<usize> {
    families().iter().position(|family| {
        matches!(family.place, Place::Saturated { keys: of, metric: full } if is_same(of, keys) && full.name == metric.name)
    })
}
