//! Samples out of hypertables, by COPY in its binary form: a row costs a tenth of what a query's row costs.

use super::family::{Keys, Place};
use super::round::{BufferedSeries, NO_SOURCE, Places, rank};
use super::row_stream::{failing, next};
use super::samples::Form;
use super::series::{SampleLocation, Series, seconds};
use super::{HistoryError, HistoryQuery, Range, Thinning, blocks};
use crate::row_rules::Gaps;
use bytes::{Buf, Bytes};
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;
use std::pin::pin;
use throughline_sample::catalogue::{self, Metric, Table};
use throughline_store::Error;
use throughline_store::binary_copy::{begins_row, elements, field, header, int8, milliseconds, time};
use throughline_store::counter_sql::shown;
use throughline_store::rollup_kind::Kind;
use tokio_postgres::Client;

/// Newest rows that are looked at to find whether a series has samples: a metric that is read more rarely than others
/// is in one of some tens of rows.
const LOOKED_AT: u32 = 500;

/// Milliseconds of a minute.
const MINUTE: i64 = 60_000;

/// What makes a row: which series or array, its time, its value or values.
struct Query {
    sql: String,
    is_array: bool,
    is_float: bool,
    /// The fourth column is the source of the row.
    has_sources: bool,
    /// The column behind all others is when the counter began anew, if it did so before this row and after the last.
    has_beginnings: bool,
}

/// Reads a round of series.
pub(super) async fn samples(
    client: &Client,
    request: &HistoryQuery<'_>,
    round: &[Series],
    gaps: &Gaps,
    limit: u64,
) -> Result<Vec<BufferedSeries>, HistoryError> {
    let mut held = vec![BufferedSeries::default(); round.len()];
    let mut left = limit;
    let (places, queries) = match &request.family.place {
        Place::Column { keys, metric } => {
            let places = places(round);
            let queries = columns(client, (keys, metric), request, (&places, gaps), &mut held).await?;
            let packed = held.iter().map(|held| held.samples().len()).sum();
            left = left.checked_sub(packed).ok_or(HistoryError::TooMany(request.limit))?;
            (places, queries)
        }
        Place::Saturated { keys, metric } => {
            let places = places(round);
            let ids: Vec<i64> = places.keys().map(|(id, _)| *id).collect();
            let source = source(request, metric.table);
            let query = column(keys, (metric.table, &source), &saturated(metric), request.range, &ids);
            (places, vec![query])
        }
        Place::SelfMetric { name, .. } => self_metric(name, request.range, round),
        Place::Info(_) => (Places::new(), Vec::new()),
    };
    for query in queries {
        let read = rows(client, request, &query, &places, &mut held, left).await?;
        left -= read.ok_or(HistoryError::TooMany(request.limit))?;
    }
    Ok(held)
}

/// Reads the rows of a query; how many samples they had, or `None` where that is more than `limit`.
async fn rows(
    client: &Client,
    request: &HistoryQuery<'_>,
    query: &Query,
    places: &Places,
    held: &mut [BufferedSeries],
    limit: u64,
) -> Result<Option<u64>, HistoryError> {
    let mut read = 0;
    let is_whole = each_row(client, request, &query.sql, |data| {
        let Some(taken) = row(data, query, places, held).ok_or_else(damaged)? else {
            return Ok(CopyProgress::End);
        };
        read += taken;
        Ok(if read > limit { CopyProgress::Enough } else { CopyProgress::More })
    });
    Ok(is_whole.await?.then_some(read))
}

/// What comes after a row.
enum CopyProgress {
    /// Another row.
    More,
    /// Nothing: it was the mark of the end.
    End,
    /// No row is wanted any more.
    Enough,
}

/// Takes the rows of a query, one after the other; whether to their end.
async fn each_row(
    client: &Client,
    request: &HistoryQuery<'_>,
    sql: &str,
    mut take: impl FnMut(&mut Bytes) -> Result<CopyProgress, HistoryError>,
) -> Result<bool, HistoryError> {
    let copy = format!("COPY ({sql}) TO STDOUT (FORMAT binary)");
    let rows = request.in_time(async { client.copy_out(copy.as_str()).await.map_err(failing) }).await?;
    let mut rows = pin!(rows);
    let mut is_first = true;
    while let Some(mut data) = next(request, &mut rows).await? {
        if std::mem::take(&mut is_first) {
            header(&mut data).ok_or_else(damaged)?;
        }
        while data.has_remaining() {
            match take(&mut data)? {
                CopyProgress::More => {}
                CopyProgress::End => break,
                CopyProgress::Enough => return Ok(false),
            }
        }
    }
    Ok(true)
}

fn damaged() -> HistoryError {
    HistoryError::Damaged
}

/// Takes a row; how many samples it had. `None` inside at the mark of the end, outside for a damaged one.
fn row(data: &mut Bytes, query: &Query, places: &Places, held: &mut [BufferedSeries]) -> Option<Option<u64>> {
    if !begins_row(data)? {
        return Some(None);
    }
    let (id, time) = (int8(data)?, time(data)?);
    let value = field(data)?;
    let source = if query.has_sources { field(data)? } else { None };
    let source = source.as_deref().map_or(NO_SOURCE, rank);
    let began = if query.has_beginnings { field(data)? } else { None };
    let began = match began {
        Some(mut began) => Some(milliseconds(began.try_get_i64().ok()?)),
        None => None,
    };
    let Some(mut value) = value else { return Some(Some(0)) };
    let mut taken = 0;
    let mut put = |element: i32, value: f64| {
        let Some(held) = places.get(&(id, element)).map(|place| &mut held[*place]) else { return };
        let Some(samples) = held.of(source) else { return };
        // Within the minute it may have come farther than it was before.
        if let Some(began) = began.filter(|began| *began < time) {
            samples.push(began, 0.0);
        }
        samples.push(time, value);
        taken += 1;
    };
    if query.is_array {
        elements(value, |element, value| put(element, value as f64))?;
    } else if query.is_float {
        put(0, value.try_get_f64().ok()?);
    } else {
        put(0, value.try_get_i64().ok()? as f64);
    }
    Some(Some(taken))
}

/// Times are returned to the millisecond: all that are read as the last one belong to it.
fn time_range(range: Range) -> String {
    format!(
        "time >= to_timestamp({}) AND time < to_timestamp({})",
        seconds(range.from),
        seconds(range.to + 1)
    )
}

/// Until when minutes are the better source for a column, and the kind of these minutes: where readings are gone, and where no more
/// than a sample a minute is wanted.
pub(super) fn minutes_until(metric: &Metric, request: &HistoryQuery<'_>) -> Option<(Kind, i64)> {
    let kind = Kind::keeping(metric.table, metric.name)?;
    let is_sparse = matches!(request.thinning, Thinning::Increase(windows) if windows.takes_minutes());
    let until = if is_sparse && metric.kind == catalogue::Kind::Counter {
        request.horizons.made_until()
    } else {
        request.horizons.minutes_only_until(kind)
    };
    until.filter(|until| *until > request.range.from).map(|until| (kind, until))
}

/// What is made of the samples of a request once they are read. The largest gap is the usual one.
pub(super) fn form(request: &HistoryQuery<'_>) -> Form {
    let is_coarse = matches!(request.thinning, Thinning::Increase(windows) if windows.is_over_minutes());
    let (is_counter, largest_gap) = (request.family.is_counter(), Gaps::usual());
    Form {
        is_counter,
        largest_gap,
        thinning: request.thinning,
        is_coarse,
        takes_chunks: request.takes_chunks,
    }
}

/// Minutes first, behind them blocks, which are read here, and of what these have not the readings.
async fn columns(
    client: &Client,
    (keys, metric): (&Keys, &Metric),
    request: &HistoryQuery<'_>,
    (places, gaps): (&Places, &Gaps),
    held: &mut [BufferedSeries],
) -> Result<Vec<Query>, HistoryError> {
    let Range { mut from, to } = request.range;
    let ids: BTreeSet<i64> = places.keys().map(|(id, _)| *id).collect();
    let ids: Vec<i64> = ids.into_iter().collect();
    let mut queries = Vec::new();
    if let Some((kind, until)) = minutes_until(metric, request) {
        let range = Range { from, to: to.min(until) };
        // Before the first one there is none: not worth asking.
        if request.horizons.minutes_from(kind).is_some_and(|first| first <= range.to) {
            queries.push(minutes(kind, (keys, metric), range, (&ids, gaps.largest())));
        }
        // A reading at the very end of a minute belongs to it.
        from = until + 1;
    }
    if from <= to {
        let rest =
            blocks::read(client, request, (keys, metric), Range { from, to }, (&ids, places), held).await?;
        let rows = format!("internal.{}", metric.table.name());
        let readings = |(range, ids): &(Range, Vec<i64>)| Query {
            is_float: metric.is_fractional(),
            ..column(keys, (metric.table, &rows), &shown(metric), *range, ids)
        };
        queries.extend(rest.iter().map(readings));
    }
    Ok(queries)
}

/// The last reading of each minute, and 0 at the time from which a counter that began anew counts.
fn minutes(kind: Kind, (keys, metric): (&Keys, &Metric), range: Range, (ids, gap): (&[i64], i64)) -> Query {
    let source = if keys.has_sources { ", source" } else { "" };
    let began = match metric.kind {
        catalogue::Kind::Counter => {
            "CASE WHEN lag(epoch) OVER same < epoch
                  THEN greatest(epoch, lag(last_time) OVER same + INTERVAL '1 ms') END"
        }
        catalogue::Kind::Gauge => "NULL::timestamptz",
    };
    // A minute has the readings behind its beginning and the one at its end. The one before may be a gap earlier.
    let sql = format!(
        "SELECT * FROM (SELECT {id}, last_time, {column} {source}, {began} FROM internal.{table}
           WHERE {id} = ANY ({list}) AND {column} IS NOT NULL AND last_time IS NOT NULL
             AND time > to_timestamp({before}) AND time < to_timestamp({to})
           WINDOW same AS (PARTITION BY {id} {source} ORDER BY time, epoch)) m
         WHERE last_time >= to_timestamp({from}) AND last_time <= to_timestamp({to})",
        id = keys.id,
        list = list(ids),
        column = metric.name,
        table = kind.table(),
        from = seconds(range.from),
        before = seconds(range.from - (gap - Gaps::usual()).max(0) - 2 * MINUTE),
        to = seconds(range.to),
    );
    Query {
        sql,
        is_array: metric.table.has_arrays(),
        is_float: false,
        has_sources: keys.has_sources,
        has_beginnings: true,
    }
}

fn places(round: &[Series]) -> Places {
    let place = |(place, series): (usize, &Series)| match series.known {
        SampleLocation::Rows { id, element } => Some(((id, element), place)),
        _ => None,
    };
    round.iter().enumerate().filter_map(place).collect()
}

/// Ids as a constant.
fn list(ids: &[i64]) -> String {
    let mut list = "'{".to_owned();
    ids.iter()
        .enumerate()
        .for_each(|(place, id)| _ = write!(list, "{}{id}", if place > 0 { "," } else { "" }));
    list + "}'::bigint[]"
}

/// SQL for 1 in rows in which this counter stands at its end, else NULL.
fn saturated(metric: &Metric) -> String {
    format!("CASE WHEN '{}' = ANY (saturated) THEN 1::bigint END", metric.name)
}

/// What has all readings of a table in the range of a request: the table, or a function where some are packed only.
fn source(request: &HistoryQuery<'_>, table: Table) -> String {
    match Kind::of(table) {
        Some(kind) => request.horizons.source(kind, request.range.from, request.range.to + 1),
        None => format!("internal.{}", table.name()),
    }
}

/// Rows of a hypertable with what an expression makes of them, where that is not NULL.
fn column(keys: &Keys, (table, source): (Table, &str), expression: &str, range: Range, ids: &[i64]) -> Query {
    // No ORDER BY: rows of a chunk lie in the order of time nearly always, and what does not is sorted later.
    let sql = format!(
        "SELECT {id}, time, {expression} {sources} FROM {source} WHERE {id} = ANY ({list}) AND {range} \
         AND {expression} IS NOT NULL",
        id = keys.id,
        list = list(ids),
        sources = if keys.has_sources { ", source" } else { "" },
        range = time_range(range),
    );
    Query {
        sql,
        is_array: table.has_arrays(),
        is_float: false,
        has_sources: keys.has_sources,
        has_beginnings: false,
    }
}

fn self_metric(name: &str, range: Range, round: &[Series]) -> (Places, Vec<Query>) {
    let mut places = HashMap::with_capacity(round.len());
    let (mut values, mut instances) = (String::new(), BTreeSet::new());
    for (place, series) in round.iter().enumerate() {
        if let SampleLocation::SelfMetric { instance, source, label } = &series.known {
            instances.insert(quoted(instance));
            places.insert((place as i64, 0), place);
            let comma = if values.is_empty() { "" } else { "," };
            _ = write!(values, "{comma}({place},{},{},{})", quoted(instance), quoted(source), quoted(label));
        }
    }
    let instances: Vec<String> = instances.into_iter().collect();
    // Rows of arrays are found by their instance: a join alone would read those of all.
    let sql = format!(
        "SELECT v.place::bigint, time, value FROM (VALUES {values}) AS v (place, instance, source, label) \
         JOIN public.self_stats s ON s.instance_key = v.instance AND s.source = v.source AND s.label = v.label \
         WHERE name = {} AND s.instance_key = ANY (ARRAY[{}]::text[]) AND {}",
        quoted(name),
        instances.join(","),
        time_range(range),
    );
    let query = Query { sql, is_array: false, is_float: true, has_sources: false, has_beginnings: false };
    (places, vec![query])
}

/// A string constant: COPY takes no parameters.
fn quoted(text: &str) -> String {
    // E'' means the same whatever standard_conforming_strings says.
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// Whether a series has any sample, by its newest rows in the range.
pub(super) async fn has_samples(
    client: &Client,
    request: &HistoryQuery<'_>,
    series: &Series,
) -> Result<bool, Error> {
    let (keys, metric, value) = match &request.family.place {
        Place::Column { keys, metric } => (keys, metric, shown(metric)),
        Place::Saturated { keys, metric } => (keys, metric, saturated(metric)),
        // Self-metrics and infos are only found where they have some.
        Place::SelfMetric { .. } | Place::Info(_) => return Ok(true),
    };
    let SampleLocation::Rows { id, element } = &series.known else { return Ok(true) };
    let subscript = if metric.table.has_arrays() { format!("[{}]", element + 1) } else { String::new() };
    let is_in = |table: &str, value: &str| {
        format!(
            "EXISTS (SELECT FROM (SELECT {value} AS value FROM {table} WHERE {key} = {id} AND {range} \
             ORDER BY time DESC LIMIT {LOOKED_AT}) newest WHERE value{subscript} IS NOT NULL)",
            key = keys.id,
            range = time_range(request.range),
        )
    };
    let mut sql = format!("SELECT {}", is_in(&source(request, metric.table), &value));
    if matches!(request.family.place, Place::Column { .. })
        && let Some(kind) = Kind::keeping(metric.table, metric.name)
        && request.horizons.minutes_only_until(kind).is_some_and(|until| until > request.range.from)
    {
        _ = write!(sql, " OR {}", is_in(&format!("internal.{}", kind.table()), metric.name));
    }
    let row = client.query_one(sql.as_str(), &[]).await.map_err(Error::sql("looking for samples"))?;
    Ok(row.get(0))
}

#[cfg(test)]
mod tests;
