//! Samples of a round of series, where minutes answer with the readings where a series begins, ends or pauses: a minute is too coarse
//! for the increase over a range that the series does not fill.

use super::copy;
use super::family::Place;
use super::round::BufferedSeries;
use super::series::Series;
use super::{HistoryError, HistoryQuery, Range, Samples, Thinning};
use crate::row_rules::Gaps;
use std::collections::BTreeMap;
use tokio_postgres::Client;

/// Reads a round of series.
pub(super) async fn samples(
    client: &Client,
    request: &HistoryQuery<'_>,
    round: &[Series],
    gaps: &Gaps,
    limit: u64,
) -> Result<Vec<Samples>, HistoryError> {
    let mut held = copy::samples(client, request, round, gaps, limit).await?;
    let mut left = left(limit, &held, request)?;
    for ((from, to), places) in wanted(request, &mut held)? {
        let range = Range { from, to };
        let besides = HistoryQuery { range, thinning: Thinning::None, takes_chunks: false, ..*request };
        let series: Vec<Series> = places.iter().map(|place| round[*place].clone()).collect();
        let mut read = copy::samples(client, &besides, &series, gaps, left).await?;
        left = self::left(left, &read, request)?;
        for (place, read) in places.iter().zip(&mut read) {
            read.unpack().ok_or(HistoryError::Damaged)?;
            held[*place].extend(std::mem::take(read));
        }
    }
    Ok(held.into_iter().map(BufferedSeries::into_samples).collect())
}

fn left(limit: u64, read: &[BufferedSeries], request: &HistoryQuery<'_>) -> Result<u64, HistoryError> {
    let read = read.iter().map(|held| held.samples().len()).sum();
    limit.checked_sub(read).ok_or(HistoryError::TooMany(request.limit))
}

/// The times for which readings are needed besides minutes, and the places of the series that need them.
fn wanted(
    request: &HistoryQuery<'_>,
    held: &mut [BufferedSeries],
) -> Result<BTreeMap<(i64, i64), Vec<usize>>, HistoryError> {
    let mut wanted = BTreeMap::<_, Vec<usize>>::new();
    let Thinning::Increase(windows) = request.thinning else { return Ok(wanted) };
    if !windows.takes_readings() {
        return Ok(wanted);
    }
    let Place::Column { metric, .. } = request.family.place else { return Ok(wanted) };
    let Some((kind, until)) = copy::minutes_until(metric, request) else { return Ok(wanted) };
    let Some(oldest) = request.horizons.readings_from(kind) else { return Ok(wanted) };
    let within = Range { from: request.range.from.max(oldest), to: request.range.to.min(until) };
    if within.from > within.to {
        return Ok(wanted);
    }
    for (place, held) in held.iter_mut().enumerate() {
        let samples = held.unpack().ok_or(HistoryError::Damaged)?;
        for range in windows.wanted(samples.points()) {
            let (from, to) = (range.from.max(within.from), range.to.min(within.to));
            if from <= to {
                wanted.entry((from, to)).or_default().push(place);
            }
        }
    }
    Ok(wanted)
}
