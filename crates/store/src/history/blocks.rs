//! Samples out of blocks (`crate::blocks`), and what of a question they leave to rows.
//!
//! A block counts where its mark is there and no note of a late reading lies in its time, both as of one moment: one
//! statement. Rows are read after it and have at least what was there then.

use super::copy::{Held, NO_SOURCE, Next, Places, damaged, each_row, list, rank};
use super::family::Keys;
use super::series::seconds;
use super::{Asked, HistoryError, Range};
use crate::binary::{begins_row, field, int4, time};
use crate::blocks::{BLOCK, MADE, chunks_of, number};
use crate::minutes::Kind;
use bytes::Bytes;
use std::collections::HashSet;
use throughline_sample::catalogue::Metric;

/// In the place of a metric's number: readings came late for the block.
const LATE: i32 = -1;

/// Milliseconds of a block.
const LENGTH: i64 = BLOCK.as_millis() as i64;

/// One series of a block, as it came.
struct Part {
    id: i32,
    begin: i64,
    element: i32,
    source: usize,
    samples: Bytes,
}

/// What of the question rows have to answer: times and ids.
pub(super) type Rest = Vec<(Range, Vec<i32>)>;

/// Puts what blocks have of a range among the samples of a round; the rest.
pub(super) async fn read(
    client: &tokio_postgres::Client,
    asked: &Asked<'_>,
    (keys, metric): (&Keys, &Metric),
    range: Range,
    (ids, places): (&[i32], &Places),
    held: &mut [Held],
) -> Result<Rest, HistoryError> {
    let horizons = Kind::of(metric.table).and_then(|kind| Some((kind, asked.horizons.blocks(kind)?)));
    let Some((kind, (from, until))) = horizons else { return Ok(vec![(range, ids.to_vec())]) };
    // Before it there are no readings.
    let range = Range { from: range.from.max(from), ..range };
    if range.from > range.to {
        return Ok(Vec::new());
    }
    let all = || vec![(range, ids.to_vec())];
    // Readings of an hour that is not there whole any more are rows.
    let first = range.from.div_euclid(LENGTH).max((from + LENGTH - 1).div_euclid(LENGTH)) * LENGTH;
    let end = until.min((range.to.div_euclid(LENGTH) + 1) * LENGTH);
    if first >= end {
        return Ok(all());
    }
    let (mut parts, mut made, mut late) = (Vec::new(), HashSet::new(), HashSet::new());
    let sql = statement(kind, metric, ids, first, end);
    each_row(client, asked, &sql, |data| match part(data, keys).ok_or_else(damaged)? {
        None => Ok(Next::End),
        Some((what, part)) => {
            match what {
                MADE => made.extend(ids_of(&part.samples).map(|id| (id, part.begin))),
                LATE => _ = late.insert((part.id, part.begin)),
                _ => parts.push(part),
            }
            Ok(Next::More)
        }
    })
    .await?;
    made.retain(|block| !late.contains(block));
    for part in parts.into_iter().filter(|part| made.contains(&(part.id, part.begin))) {
        let Some(place) = places.get(&(part.id, part.element)) else { continue };
        put(&part, range, &mut held[*place]).ok_or_else(|| HistoryError::DamagedBlock {
            table: kind.blocks(),
            id: format!("{} = {}", keys.id, part.id),
            begin: part.begin / 1000,
        })?;
    }
    Ok(rest(range, ids, first, end, &made))
}

/// Marks, notes and series of the blocks from `first` on. Ids come out of a subquery: with a thousand constants, reckoning
/// how many rows they have takes longer than to read them.
fn statement(kind: Kind, metric: &Metric, ids: &[i32], first: i64, end: i64) -> String {
    let ids = list(ids);
    let of_blocks = |metric: i32| {
        format!(
            "FROM {blocks} WHERE metric = {metric} AND {id} = ANY ((SELECT {ids})::integer[]) \
             AND time >= to_timestamp({first}) AND time < to_timestamp({end})",
            id = kind.id(),
            blocks = kind.blocks(),
            first = seconds(first),
            end = seconds(end),
        )
    };
    // Marks of an hour in one row: a row each costs as much as a series. No note is longer than an hour.
    format!(
        "SELECT {id}, time, metric, element, source, samples {series} \
         UNION ALL SELECT 0, time, {MADE}, 0, '', string_agg(int4send({id}), '') {marks} GROUP BY time \
         UNION ALL SELECT l.id, b.time, {LATE}, 0, '', NULL FROM minute_late l, \
             generate_series(date_bin('1 hour', l.since, 'epoch'), l.until, INTERVAL '1 hour') AS b (time) \
         WHERE l.kind = '{kind}' AND l.id = ANY ((SELECT {ids})::integer[]) \
             AND l.since >= to_timestamp({before}) AND l.since < to_timestamp({end})",
        id = kind.id(),
        series = of_blocks(number(metric)),
        marks = of_blocks(MADE),
        kind = kind.table(),
        before = seconds(first - LENGTH),
        end = seconds(end),
    )
}

/// The ids of a row of marks, four bytes each.
fn ids_of(row: &Bytes) -> impl Iterator<Item = i32> {
    row.as_chunks().0.iter().map(|id| i32::from_be_bytes(*id))
}

/// Takes a row of the statement; `None` inside at the mark of the end, outside for a damaged one.
fn part(data: &mut Bytes, keys: &Keys) -> Option<Option<(i32, Part)>> {
    if !begins_row(data)? {
        return Some(None);
    }
    let (id, begin, what, element) = (int4(data)?, time(data)?, int4(data)?, int4(data)?);
    let source = field(data)??;
    let source = if keys.has_sources { rank(&source) } else { NO_SOURCE };
    let samples = field(data)?.unwrap_or_default();
    Some(Some((what, Part { id, begin, element, source, samples })))
}

/// Puts a series of a block among the samples, as far as it lies in the range. `None` for a damaged one.
fn put(part: &Part, range: Range, held: &mut Held) -> Option<()> {
    for (chunk, is_gappy) in chunks_of(part.begin, part.samples.clone())? {
        if chunk.last < range.from || chunk.first > range.to {
            continue;
        }
        if chunk.first >= range.from && chunk.last <= range.to {
            if let Some(samples) = held.of(part.source) {
                samples.push_chunk(chunk, is_gappy);
            }
            continue;
        }
        let mut points = Vec::new();
        chunk.unpack(&mut points)?;
        for (time, value) in points.into_iter().filter(|(time, _)| (range.from..=range.to).contains(time)) {
            if let Some(samples) = held.of(part.source) {
                samples.push(time, value);
            }
        }
    }
    Some(())
}

/// What is not in blocks; neighbouring times of the same things together.
fn rest(range: Range, ids: &[i32], first: i64, end: i64, made: &HashSet<(i32, i64)>) -> Rest {
    let mut rest: Rest = Vec::new();
    let mut add = |from: i64, to: i64, ids: Vec<i32>| {
        let range = Range { from: from.max(range.from), to: to.min(range.to) };
        if ids.is_empty() || range.from > range.to {
            return;
        }
        match rest.last_mut() {
            Some((last, same)) if *same == ids && last.to + 1 == range.from => last.to = range.to,
            _ => rest.push((range, ids)),
        }
    };
    add(i64::MIN, first - 1, ids.to_vec());
    for begin in (first..end).step_by(LENGTH as usize) {
        let missing = ids.iter().copied().filter(|id| !made.contains(&(*id, begin))).collect();
        add(begin, begin + LENGTH - 1, missing);
    }
    add(end, i64::MAX, ids.to_vec());
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_answer_what_blocks_do_not_have() {
        let hour = |n: i64| n * LENGTH;
        let range = Range { from: hour(10) + 5, to: hour(14) + 7 };
        let made = |blocks: &[(i32, i64)]| blocks.iter().map(|(id, n)| (*id, hour(*n))).collect();
        let ask = |blocks| rest(range, &[1, 2], hour(10), hour(13), &made(blocks));
        assert_eq!(ask(&[]), [(range, vec![1, 2])]);
        let whole: Vec<(i32, i64)> = [1, 2].iter().flat_map(|id| (10..13).map(|n| (*id, n))).collect();
        let tail = (Range { from: hour(13), to: range.to }, vec![1, 2]);
        assert_eq!(ask(&whole), std::slice::from_ref(&tail));
        let one: Vec<(i32, i64)> = whole.iter().copied().filter(|block| *block != (2, 11)).collect();
        assert_eq!(ask(&one), [(Range { from: hour(11), to: hour(12) - 1 }, vec![2]), tail]);
        let early = rest(range, &[1], hour(11), hour(13), &made(&[(1, 11), (1, 12)]));
        assert_eq!(early[0].0, Range { from: range.from, to: hour(11) - 1 });
        assert_eq!(early[1].0, Range { from: hour(13), to: range.to });
    }
}
