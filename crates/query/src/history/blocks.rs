//! Samples out of blocks (the store's packed hours), and what of a request they leave to rows. What is packed as integers
//! becomes chunks in Prometheus' encoding when it is read; those stay in memory.
//!
//! A block counts where its row is there and no note of a late reading lies in its time, both as of one moment: one
//! statement. Rows are read after it and have at least what was there then. Blocks stay in memory (`cache`): the next
//! request reads only which transactions made them, and once more where one was made anew since.

use super::cache::{Block, BlockSeries, Key};
use super::family::Keys;
use super::round::{BufferedSeries, NO_SOURCE, Places, rank};
use super::row_stream::{failing, next};
use super::series::{Parameter, seconds};
use super::{HistoryError, HistoryQuery, Range};
use std::collections::HashMap;
use std::fmt::Write;
use std::pin::pin;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use throughline_packed::series::{Series, unpack};
use throughline_packed::series_chunks;
use throughline_sample::catalogue::{self, Metric};
use throughline_store::chunks::BLOCK;
use throughline_store::chunks::series_numbers::{TIMES, beside, number};
use throughline_store::rollup_kind::Kind;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row};

/// In the place of a metric's number: which blocks of an hour there are, as marks.
const MARKS: i32 = 0;

/// In the place of a metric's number: readings came late for the block.
const LATE: i32 = -1;

/// Milliseconds of a block.
const LENGTH: i64 = BLOCK.as_millis() as i64;

/// Bytes of a mark in a row of them: the id, and the transaction that made it.
const MARK: usize = 12;

/// Blocks of a metric and some ids, over whole hours.
struct BlockRequest<'a> {
    request: &'a HistoryQuery<'a>,
    keys: &'a Keys,
    kind: Kind,
    metric: i32,
    is_counter: bool,
    /// Hours that are packed only: from, until. Rows there came late and are beside what is packed.
    packed: (i64, i64),
    /// Rising.
    ids: &'a [i64],
    first: i64,
    end: i64,
}

/// For each thing its hours, one thing behind the other.
type Cells<T> = Vec<Option<T>>;

/// Times and ids of a request that rows have to answer.
pub(super) type UncoveredRanges = Vec<(Range, Vec<i64>)>;

/// Puts what blocks have of a range among the samples of a round; the rest. Ids rise.
pub(super) async fn read(
    client: &Client,
    request: &HistoryQuery<'_>,
    (keys, metric): (&Keys, &Metric),
    range: Range,
    (ids, places): (&[i64], &Places),
    held: &mut [BufferedSeries],
) -> Result<UncoveredRanges, HistoryError> {
    let horizons = Kind::of(metric.table).and_then(|kind| Some((kind, request.horizons.blocks(kind)?)));
    let Some((kind, (from, until))) = horizons else { return Ok(vec![(range, ids.to_vec())]) };
    // Before it there are no readings.
    let range = Range { from: range.from.max(from), ..range };
    if range.from > range.to {
        return Ok(Vec::new());
    }
    // Readings of an hour that is not there whole any more are rows.
    let first = range.from.div_euclid(LENGTH).max((from + LENGTH - 1).div_euclid(LENGTH)) * LENGTH;
    let end = until.min((range.to.div_euclid(LENGTH) + 1) * LENGTH);
    if first >= end {
        return Ok(vec![(range, ids.to_vec())]);
    }
    let is_counter = metric.kind == catalogue::Kind::Counter;
    let packed = request.horizons.packed(kind).unwrap_or_default();
    let wanted =
        BlockRequest { request, keys, kind, metric: number(metric), is_counter, packed, ids, first, end };
    let blocks = wanted.read(client).await?;
    for (cell, block) in blocks.iter().enumerate() {
        let (id, _) = wanted.of(cell);
        for strip in block.iter().flat_map(|block| &block.series) {
            let Some(place) = places.get(&(id, strip.element)) else { continue };
            put(strip, range, &mut held[*place]).ok_or_else(|| wanted.damage(cell))?;
        }
    }
    Ok(rest(range, ids, first..end, |thing, hour| {
        let cell = thing * wanted.hours() + hour;
        blocks[cell].is_some() && !wanted.is_packed_only(cell)
    }))
}

impl BlockRequest<'_> {
    fn hours(&self) -> usize {
        ((self.end - self.first) / LENGTH) as usize
    }

    /// Id and begin of a cell.
    fn of(&self, cell: usize) -> (i64, i64) {
        (self.ids[cell / self.hours()], self.first + (cell % self.hours()) as i64 * LENGTH)
    }

    /// The cell of an id and a begin; `None` for what was not requested.
    fn cell(&self, id: i64, begin: i64) -> Option<usize> {
        let is_requested = (self.first..self.end).contains(&begin);
        let thing = self.ids.binary_search(&id).ok().filter(|_| is_requested)?;
        Some(thing * self.hours() + ((begin - self.first) / LENGTH) as usize)
    }

    fn is_packed_only(&self, cell: usize) -> bool {
        (self.packed.0..self.packed.1).contains(&self.of(cell).1)
    }

    fn key(&self, cell: usize) -> Key {
        let (id, begin) = self.of(cell);
        Key { kind: self.kind, metric: self.metric, id, begin }
    }

    /// The blocks that count.
    async fn read(&self, client: &Client) -> Result<Cells<Arc<Block>>, HistoryError> {
        let cells = 0..self.ids.len() * self.hours();
        let mut blocks: Cells<_> = cells.map(|cell| self.request.cache.block(&self.key(cell))).collect();
        loop {
            let of_things = self.ids.iter().zip(blocks.chunks(self.hours()));
            let fresh = of_things.filter(|(_, blocks)| blocks.iter().any(Option::is_none));
            let fresh: Vec<i64> = fresh.map(|(id, _)| *id).collect();
            let (stamps, mut rows) = self.request(client, &fresh).await?;
            let mut is_whole = true;
            for (cell, (block, stamp)) in blocks.iter_mut().zip(stamps).enumerate() {
                *block = match (block.take(), stamp) {
                    (_, None) => None,
                    (_, Some(stamp)) if fresh.binary_search(&self.of(cell).0).is_ok() => {
                        Some(self.keep(cell, stamp, &rows.remove(&cell).unwrap_or_default())?)
                    }
                    (known, Some(stamp)) => {
                        let known = known.filter(|known| known.stamp == stamp);
                        is_whole &= known.is_some();
                        known
                    }
                }
            }
            if is_whole {
                return Ok(blocks);
            }
        }
    }

    /// A block of the rows of its series.
    fn keep(&self, cell: usize, stamp: u32, rows: &[Row]) -> Result<Arc<Block>, HistoryError> {
        let series = self.strips(rows).ok_or_else(|| self.damage(cell))?;
        let block = Arc::new(Block { stamp, series });
        self.request.cache.keep_block(self.key(cell), Arc::clone(&block));
        Ok(block)
    }

    /// The series of a block: its rows, with those that have the times of each source. `None` for damaged ones.
    fn strips(&self, rows: &[Row]) -> Option<Vec<BlockSeries>> {
        let (mut times, mut strips) = (HashMap::new(), Vec::new());
        for row in rows.iter().filter(|row| row.get::<_, i32>(2) == TIMES) {
            times.insert(row.get::<_, &str>(4), times_of(row.get::<_, Option<&[u8]>>(5)?)?);
        }
        for row in rows.iter().filter(|row| row.get::<_, i32>(2) == self.metric) {
            let name: &str = row.get(4);
            let source = if self.keys.has_sources { rank(name.as_bytes()) } else { NO_SOURCE };
            let series = unpack(row.get::<_, Option<&[u8]>>(5)?, self.other(rows).as_ref())?;
            let chunks = series_chunks(times.get(name)?, &series, self.is_counter)?;
            strips.push(BlockSeries { element: row.get(3), source, chunks });
        }
        Some(strips)
    }

    /// The series that those of this metric may be beside. Only ports have such, and of these there is one source.
    fn other(&self, rows: &[Row]) -> Option<Series> {
        let other = beside(self.metric)?;
        let row = rows.iter().find(|row| row.get::<_, i32>(2) == other)?;
        unpack(row.get::<_, Option<&[u8]>>(5)?, None)
    }

    /// Reads the stamps of blocks that count, and for the series of the `fresh` things.
    async fn request(
        &self,
        client: &Client,
        fresh: &[i64],
    ) -> Result<(Cells<u32>, HashMap<usize, Vec<Row>>), HistoryError> {
        let sql = self.statement(fresh);
        let mut parameters: Vec<Parameter<'_>> = vec![(&self.ids, Type::INT8_ARRAY)];
        parameters.extend((!fresh.is_empty()).then_some((&fresh as _, Type::INT8_ARRAY)));
        let request = async { client.query_typed_raw(&sql, parameters).await.map_err(failing) };
        let mut rows = pin!(self.request.in_time(request).await?);
        let (mut stamps, mut late, mut series) =
            (vec![None; self.ids.len() * self.hours()], Vec::new(), HashMap::new());
        while let Some(row) = next(self.request, &mut rows).await? {
            let (id, begin) = (row.get(0), milliseconds(row.get(1)));
            match row.get::<_, i32>(2) {
                MARKS => marks(row.get(5)).for_each(|(id, stamp)| {
                    if let Some(cell) = self.cell(id, begin) {
                        stamps[cell] = Some(stamp);
                    }
                }),
                LATE => late.extend(self.cell(id, begin)),
                _ => {
                    if let Some(cell) = self.cell(id, begin) {
                        series.entry(cell).or_insert_with(Vec::new).push(row);
                    }
                }
            }
        }
        late.into_iter().filter(|cell| !self.is_packed_only(*cell)).for_each(|cell| stamps[cell] = None);
        Ok((stamps, series))
    }

    /// Marks and notes of all things and series of the `fresh` ones. Ids come out of a subquery: with a thousand
    /// constants, reckoning how many rows they have takes longer than to read them.
    fn statement(&self, fresh: &[i64]) -> String {
        let (kind, id, first, end) = (self.kind, self.kind.id(), seconds(self.first), seconds(self.end));
        let of_blocks = |ids: &str| {
            format!(
                "FROM internal.{blocks} WHERE {id} = ANY ((SELECT {ids}::bigint[])::bigint[]) \
                 AND time >= to_timestamp({first}) AND time < to_timestamp({end})",
                blocks = kind.blocks(),
            )
        };
        // Marks of an hour in one row: a row each costs as much as a series. No note is longer than an hour.
        let mut sql = format!(
            "SELECT 0, time, {MARKS}, 0, '', string_agg(int8send({id}) || xidsend(xmin), '') {marks} GROUP BY time \
             UNION ALL SELECT l.id, b.time, {LATE}, 0, '', NULL FROM internal.minute_late l, \
                 generate_series(date_bin('1 hour', l.since, 'epoch'), l.until, INTERVAL '1 hour') AS b (time) \
             WHERE l.kind = '{table}' AND l.id = ANY ((SELECT $1::bigint[])::bigint[]) \
                 AND l.since >= to_timestamp({before}) AND l.since < to_timestamp({end})",
            marks = of_blocks("$1"),
            table = kind.table(),
            before = seconds(self.first - LENGTH),
        );
        if !fresh.is_empty() {
            let wanted = [self.metric, TIMES].into_iter().chain(beside(self.metric));
            let places = wanted.map(|metric| format!("array_positions(metrics, {metric})"));
            // Of the bytes only those of these series are read.
            _ = write!(
                sql,
                " UNION ALL SELECT b.{id}, b.time, b.metrics[n], {element}, {source}, \
                     substr(b.samples, b.offsets[n] + 1, b.offsets[n + 1] - b.offsets[n]) \
                 FROM (SELECT * {hours}) b, unnest({places}) AS s (n)",
                element = if kind.catalogue().has_arrays() { "coalesce(b.elements[n], 0)" } else { "0" },
                source = if kind.has_sources() { "b.source" } else { "''" },
                hours = of_blocks("$2"),
                places = places.collect::<Vec<_>>().join(" || "),
            );
        }
        sql
    }

    fn damage(&self, cell: usize) -> HistoryError {
        let (id, begin) = self.of(cell);
        HistoryError::DamagedBlock {
            table: self.kind.blocks(),
            id: format!("{} = {id}", self.keys.id),
            begin: begin / 1000,
            effect: if self.is_packed_only(cell) {
                "has the hour left out, which has no rows any more: look for a backup first"
            } else {
                "has its readings read instead"
            },
        }
    }
}

/// The things of a row of marks, and by which transaction each was made.
fn marks(row: &[u8]) -> impl Iterator<Item = (i64, u32)> {
    row.as_chunks::<MARK>().0.iter().filter_map(|mark| {
        let (id, stamp) = mark.split_first_chunk()?;
        Some((i64::from_be_bytes(*id), u32::from_be_bytes(stamp.try_into().ok()?)))
    })
}

/// Times of the rows of an hour, milliseconds since 1970.
fn times_of(samples: &[u8]) -> Option<Vec<i64>> {
    let times = unpack(samples, None)?;
    // Each row has one.
    let is_whole =
        times.rows.first() == Some(&0) && times.rows.last() == Some(&(times.rows.len() as i64 - 1));
    is_whole.then(|| times.values.into_iter().map(throughline_store::binary_copy::milliseconds).collect())
}

fn milliseconds(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

/// Puts a series of a block among the samples, as far as it lies in the range. `None` for a damaged one.
fn put(strip: &BlockSeries, range: Range, held: &mut BufferedSeries) -> Option<()> {
    for (chunk, standstill) in &strip.chunks {
        if chunk.last < range.from || chunk.first > range.to {
            continue;
        }
        if chunk.first >= range.from && chunk.last <= range.to {
            if let Some(samples) = held.of(strip.source) {
                samples.push_chunk(chunk.clone(), *standstill);
            }
            continue;
        }
        let mut points = Vec::new();
        chunk.unpack(&mut points)?;
        for (time, value) in points.into_iter().filter(|(time, _)| (range.from..=range.to).contains(time)) {
            if let Some(samples) = held.of(strip.source) {
                samples.push(time, value);
            }
        }
    }
    Some(())
}

/// What is not in blocks; neighbouring times of the same things together.
fn rest(
    range: Range,
    ids: &[i64],
    hours: std::ops::Range<i64>,
    is_made: impl Fn(usize, usize) -> bool,
) -> UncoveredRanges {
    let mut rest: UncoveredRanges = Vec::new();
    let mut add = |from: i64, to: i64, ids: Vec<i64>| {
        let range = Range { from: from.max(range.from), to: to.min(range.to) };
        if ids.is_empty() || range.from > range.to {
            return;
        }
        match rest.last_mut() {
            Some((last, same)) if *same == ids && last.to + 1 == range.from => last.to = range.to,
            _ => rest.push((range, ids)),
        }
    };
    add(i64::MIN, hours.start - 1, ids.to_vec());
    for (hour, begin) in hours.clone().step_by(LENGTH as usize).enumerate() {
        let missing = ids.iter().enumerate().filter(|(thing, _)| !is_made(*thing, hour));
        add(begin, begin + LENGTH - 1, missing.map(|(_, id)| *id).collect());
    }
    add(hours.end, i64::MAX, ids.to_vec());
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_answer_what_blocks_do_not_have() {
        let hour = |n: i64| n * LENGTH;
        let range = Range { from: hour(10) + 5, to: hour(14) + 7 };
        // Of the things 1 and 2 in the hours 10 to 12.
        let request = |made: &[(usize, usize)]| {
            rest(range, &[1, 2], hour(10)..hour(13), |thing, hour| made.contains(&(thing + 1, hour + 10)))
        };
        assert_eq!(request(&[]), [(range, vec![1, 2])]);
        let whole: Vec<_> = [1, 2].iter().flat_map(|id| (10..13).map(|n| (*id, n))).collect();
        let tail = (Range { from: hour(13), to: range.to }, vec![1, 2]);
        assert_eq!(request(&whole), std::slice::from_ref(&tail));
        let one: Vec<_> = whole.iter().copied().filter(|block| *block != (2, 11)).collect();
        assert_eq!(request(&one), [(Range { from: hour(11), to: hour(12) - 1 }, vec![2]), tail]);
        let early = rest(range, &[1], hour(11)..hour(13), |_, _| true);
        assert_eq!(early[0].0, Range { from: range.from, to: hour(11) - 1 });
        assert_eq!(early[1].0, Range { from: hour(13), to: range.to });
    }
}
