//! Reads the readings of some things in one hour and writes them as blocks.

use super::series_numbers::{EPOCHS, SATURATED, SOURCES, TIMES, beside, number};
use super::{BLOCK, ChunksEncoded, WHAT, seconds};
use crate::binary_copy::{begins_row, elements, field, header, int8};
use crate::copy::RowBuffer;
use crate::error::Error;
use crate::rollup_kind::Kind;
use bytes::{Buf, Bytes};
use futures::{SinkExt, TryStreamExt};
use std::collections::BTreeMap;
use std::pin::pin;
use std::time::{SystemTime, UNIX_EPOCH};
use throughline_packed::series::{Integers, Texts};
use throughline_sample::catalogue::Metric;
use tokio_postgres::Transaction;

/// Bytes of blocks that are held before they are written.
const HELD_BYTES: u64 = 32 << 20;

/// One row of a table of blocks: all series of a thing, hour and source. None where there are no readings.
#[derive(Default)]
struct Row {
    id: i64,
    source: String,
    /// Of each series the number of the metric, and the link.
    metrics: Vec<i32>,
    elements: Vec<i32>,
    /// Where each begins, and where the last one ends.
    offsets: Vec<i32>,
    samples: Vec<u8>,
}

impl Row {
    fn push(&mut self, metric: i32, element: i32, bytes: &[u8]) {
        self.metrics.push(metric);
        self.elements.push(element);
        if self.offsets.is_empty() {
            self.offsets.push(0);
        }
        self.samples.extend(bytes);
        // A thing's hour has some megabytes at most.
        self.offsets.push(i32::try_from(self.samples.len()).unwrap_or(i32::MAX));
    }
}

/// Makes the blocks of these things and the hour from `begin` on, in place of what there is of them.
pub(super) async fn pack(
    transaction: &Transaction<'_>,
    kind: Kind,
    begin: SystemTime,
    ids: &[i64],
    made: &mut ChunksEncoded,
) -> Result<(), Error> {
    // Each thing's rows lie in the order of time in the index, whatever is known of the newest chunk.
    let steps = "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off; \
                 SET LOCAL jit = off";
    transaction.batch_execute(steps).await.map_err(Error::sql(WHAT))?;
    // Of an hour that is packed only, rows are what came late: both together are its readings.
    let is_moved = super::packed_range(transaction, kind)
        .await?
        .is_some_and(|(from, until)| (from..until).contains(&begin));
    let source = if is_moved {
        collect(transaction, kind, begin, ids).await?.to_owned()
    } else {
        format!("internal.{}", kind.readings())
    };
    let removal = format!(
        "DELETE FROM internal.{} WHERE {} = ANY ($1) AND time = to_timestamp({})",
        kind.blocks(),
        kind.id(),
        seconds(begin)
    );
    transaction.execute(&removal, &[&ids]).await.map_err(Error::sql(WHAT))?;

    let mut slice = Slice::new(kind, begin);
    for group in ids.chunks(super::group_things(kind)) {
        read(transaction, &mut slice, &source, group).await?;
        if slice.held >= HELD_BYTES {
            slice.write(transaction).await?;
        }
    }
    slice.write(transaction).await?;
    made.samples += slice.samples;
    made.bytes += slice.bytes;
    Ok(())
}

/// The table that [`collect`] makes.
const COLLECTED: &str = "readings_to_pack";

/// Puts all readings of things in an hour that is packed only into a table of this transaction, and removes their rows: they
/// are packed by it. Returns the table.
async fn collect(
    transaction: &Transaction<'_>,
    kind: Kind,
    begin: SystemTime,
    ids: &[i64],
) -> Result<&'static str, Error> {
    let (function, id, key) = (kind.readings_between(), kind.id(), kind.key());
    let (since, until) = (seconds(begin), seconds(begin + BLOCK));
    let list = ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let statements = format!(
        "DROP TABLE IF EXISTS {COLLECTED};
         CREATE TEMPORARY TABLE {COLLECTED} ON COMMIT DROP AS
             SELECT DISTINCT ON ({key}) * FROM public.{function}(to_timestamp({since}), to_timestamp({until}))
             WHERE {id} = ANY ('{{{list}}}'::bigint[]) AND time < to_timestamp({until}) ORDER BY {key};
         CREATE INDEX ON {COLLECTED} ({id}, time);
         DELETE FROM internal.{} WHERE {id} = ANY ('{{{list}}}'::bigint[]) AND time >= to_timestamp({since})
             AND time < to_timestamp({until})",
        kind.readings()
    );
    transaction.batch_execute(&statements).await.map_err(Error::sql(WHAT))?;
    Ok(COLLECTED)
}

/// Reads the readings of a few things.
async fn read(
    transaction: &Transaction<'_>,
    slice: &mut Slice,
    source: &str,
    ids: &[i64],
) -> Result<(), Error> {
    let (kind, list) = (slice.kind, ids.iter().map(ToString::to_string).collect::<Vec<_>>());
    let columns: Vec<String> =
        kind.catalogue().metrics().iter().map(|metric| crate::counter_sql::shown(metric)).collect();
    let query = format!(
        "COPY (SELECT {id}, time, epoch, source, {saturated}, {} FROM {} WHERE {id} = ANY ('{{{}}}'::bigint[]) \
         AND time >= to_timestamp({}) AND time < to_timestamp({}) ORDER BY {id}, time) TO STDOUT (FORMAT binary)",
        columns.join(", "),
        source,
        list.join(","),
        seconds(slice.begin),
        seconds(slice.begin + BLOCK),
        id = kind.id(),
        saturated = if kind == Kind::IbPorts { "saturated::text" } else { "NULL::text" },
    );
    let mut readings = pin!(transaction.copy_out(query.as_str()).await.map_err(Error::sql(WHAT))?);
    let mut is_first = true;
    while let Some(mut data) = readings.try_next().await.map_err(Error::sql(WHAT))? {
        if std::mem::take(&mut is_first) {
            header(&mut data).ok_or_else(damaged)?;
        }
        while data.has_remaining() && slice.take(&mut data).ok_or_else(damaged)? {}
    }
    slice.end_thing();
    slice.add_empty(ids);
    Ok(())
}

fn damaged() -> Error {
    let cause = "the rows are not in PostgreSQL's binary form of COPY".to_owned();
    Error::Refused { what: WHAT.to_owned(), cause, state: String::new() }
}

/// Series of one thing and source.
#[derive(Default)]
struct Open {
    /// Rows so far.
    rows: i64,
    times: Integers,
    epochs: Integers,
    sources: Texts,
    saturated: Texts,
    /// Of each metric its elements.
    metrics: Vec<Vec<Option<Integers>>>,
}

/// Blocks under construction.
struct Slice {
    kind: Kind,
    begin: SystemTime,
    metrics: &'static [&'static Metric],
    id: Option<i64>,
    open: BTreeMap<String, Open>,
    rows: Vec<Row>,
    /// Things of the rows so far, rising.
    ids: Vec<i64>,
    /// Bytes of the rows that are not written yet.
    held: u64,
    samples: u64,
    bytes: u64,
}

impl Slice {
    fn new(kind: Kind, begin: SystemTime) -> Slice {
        let metrics = kind.catalogue().metrics();
        let (open, rows, ids) = (BTreeMap::new(), Vec::new(), Vec::new());
        Slice { kind, begin, metrics, id: None, open, rows, ids, held: 0, samples: 0, bytes: 0 }
    }

    /// Takes a row of readings, by thing and time; whether there was one. `None` for a damaged one.
    fn take(&mut self, data: &mut Bytes) -> Option<bool> {
        if !begins_row(data)? {
            return Some(false);
        }
        let id = int8(data)?;
        if self.id != Some(id) {
            self.end_thing();
            self.id = Some(id);
        }
        let (time, epoch) = (field(data)??.try_get_i64().ok()?, field(data)??.try_get_i64().ok()?);
        let (source, saturated) = (field(data)??, field(data)?);
        let source = std::str::from_utf8(&source).ok()?;
        // A port has one series, from any source.
        let (key, has_sources) = if self.kind.has_sources() { (source, false) } else { ("", true) };
        if !self.open.contains_key(key) {
            let metrics = self.metrics.iter().map(|_| Vec::new()).collect();
            self.open.insert(key.to_owned(), Open { metrics, ..Open::default() });
        }
        let open = self.open.get_mut(key)?;
        let row = open.rows;
        open.rows += 1;
        open.times.push(row, time);
        open.epochs.push(row, epoch);
        if has_sources {
            open.sources.push(row, source);
        }
        if let Some(saturated) = saturated {
            open.saturated.push(row, std::str::from_utf8(&saturated).ok()?);
        }
        for (metric, series) in self.metrics.iter().zip(&mut open.metrics) {
            let Some(mut value) = field(data)? else { continue };
            let mut put = |element: i32, value: i64| {
                // No device has so many links that this is large.
                let element = element as usize;
                if series.len() <= element {
                    series.resize_with(element + 1, || None);
                }
                series[element].get_or_insert_default().push(row, value);
            };
            if metric.table.has_arrays() {
                elements(value, put)?;
            } else {
                put(0, value.try_get_i64().ok()?);
            }
        }
        Some(true)
    }

    /// The readings of a thing are complete.
    fn end_thing(&mut self) {
        let Some(id) = self.id.take() else { return };
        self.ids.push(id);
        for (source, open) in std::mem::take(&mut self.open) {
            let mut row = Row { id, source, ..Row::default() };
            let others = [
                (SATURATED, open.saturated.finish()),
                (SOURCES, open.sources.finish()),
                (EPOCHS, open.epochs.finish(None).map(|(bytes, _)| bytes)),
                (TIMES, open.times.finish(None).map(|(bytes, _)| bytes)),
            ];
            for (number, bytes) in others {
                bytes.iter().for_each(|bytes| row.push(number, 0, bytes));
            }
            for (metric, series) in self.metrics.iter().zip(&open.metrics) {
                let other = beside(number(metric)).and_then(|other| open.scalar(self.metrics, other));
                for (element, series) in series.iter().enumerate() {
                    let finished = series.as_ref().and_then(|series| series.finish(other));
                    let Some((bytes, samples)) = finished else { continue };
                    self.samples += samples;
                    row.push(number(metric), element as i32, &bytes);
                }
            }
            self.held += row.samples.len() as u64;
            self.bytes += row.samples.len() as u64;
            self.rows.push(row);
        }
    }

    /// Things without readings have a row, too: their hour is packed.
    fn add_empty(&mut self, ids: &[i64]) {
        let missing = ids.iter().filter(|id| self.ids.binary_search(id).is_err());
        self.rows.extend(missing.map(|id| Row { id: *id, ..Row::default() }));
    }

    /// Writes the rows that are held.
    async fn write(&mut self, transaction: &Transaction<'_>) -> Result<(), Error> {
        self.held = 0;
        let (has_sources, has_links) = (self.kind.has_sources(), self.kind.catalogue().has_arrays());
        let columns = 5 + usize::from(has_sources) + usize::from(has_links);
        let mut buffer = RowBuffer::new(columns);
        for row in std::mem::take(&mut self.rows) {
            let is_empty = row.metrics.is_empty();
            buffer.row();
            buffer.time(milliseconds(self.begin) * 1_000_000);
            buffer.int8(row.id);
            if is_empty {
                (0..3).for_each(|_| buffer.null());
            } else {
                buffer.int4_array(&row.metrics);
                buffer.int4_array(&row.offsets);
                buffer.bytes(&row.samples);
            }
            if has_sources {
                buffer.text(&row.source);
            }
            match row.elements.iter().all(|element| *element == 0) {
                _ if !has_links => {}
                true => buffer.null(),
                false => buffer.int4_array(&row.elements),
            }
        }
        let copy = format!(
            "COPY internal.{} (time, {}, metrics, offsets, samples{}{}) FROM STDIN (FORMAT binary)",
            self.kind.blocks(),
            self.kind.id(),
            if has_sources { ", source" } else { "" },
            if has_links { ", elements" } else { "" },
        );
        let mut sink = pin!(transaction.copy_in(copy.as_str()).await.map_err(Error::sql(WHAT))?);
        sink.send(buffer.finish()).await.map_err(Error::sql(WHAT))?;
        sink.close().await.map_err(Error::sql(WHAT))
    }
}

impl Open {
    /// The series of a metric that is no array.
    fn scalar(&self, metrics: &[&Metric], wanted: i32) -> Option<&Integers> {
        let place = metrics.iter().position(|metric| number(metric) == wanted)?;
        self.metrics.get(place)?.first()?.as_ref()
    }
}

fn milliseconds(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
