//! A metric of NVLinks in hours that are packed only. Unpacked here and not in SQL: a page asks for days of all links of a host.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use throughline_packed::series::unpack;
use throughline_sample::catalogue::Metric;
use throughline_store::Error;
use throughline_store::binary_copy::POSTGRES_EPOCH;
use throughline_store::chunks::BLOCK;
use throughline_store::chunks::series_numbers::{EPOCHS, TIMES, number};
use throughline_store::rollup_kind::Kind;
use throughline_store::sql_time::moment;
use tokio_postgres::Client;

use super::{BySource, NEWEST, OfSource, Reading};
use crate::Horizons;
use crate::time::Grid;

const WHAT: &str = "reading a packed metric of NVLinks";

/// One packed series of an hour.
struct Part {
    metric: i32,
    link: usize,
    samples: Vec<u8>,
}

/// Readings of GPUs after `oldest`, milliseconds since 1970.
///
/// # Errors
/// The database's; a packed hour is damaged.
pub(super) async fn readings(
    client: &Client,
    metric: &Metric,
    gpus: &[i64],
    grid: &Grid,
    oldest: i64,
) -> Result<BySource, Error> {
    let mut found = BySource::new();
    let packed = Horizons::read(client).await?.packed(Kind::Nvlinks);
    let Some((from, until)) = packed.filter(|(from, until)| oldest < *until && grid.to() >= *from) else {
        return Ok(found);
    };
    let length = i64::try_from(BLOCK.as_millis()).unwrap_or(i64::MAX);
    let sql = format!(
        "SELECT b.gpu_id, b.source, b.time, array_agg(b.metrics[n]), array_agg(coalesce(b.elements[n], 0)),
                array_agg(substr(b.samples, b.offsets[n] + 1, b.offsets[n + 1] - b.offsets[n]))
         FROM internal.{blocks} b, unnest(array_positions(metrics, {TIMES}) || array_positions(metrics, {EPOCHS})
                                     || array_positions(metrics, {metric})) AS s (n)
         WHERE gpu_id = ANY ($1) AND time >= {first} AND time > {oldest} AND time < {end} AND time <= {to}
         GROUP BY b.gpu_id, b.source, b.time",
        blocks = Kind::Nvlinks.blocks(),
        metric = number(metric),
        first = moment(from),
        oldest = moment(oldest - length),
        end = moment(until),
        to = moment(grid.to()),
    );
    for row in client.query(&sql, &[&gpus]).await.map_err(Error::sql(WHAT))? {
        let (metrics, links, samples): (Vec<i32>, Vec<i32>, Vec<Vec<u8>>) =
            (row.get(3), row.get(4), row.get(5));
        let parts = metrics.into_iter().zip(links).zip(samples).map(|((metric, link), samples)| Part {
            metric,
            link: usize::try_from(link).unwrap_or_default(),
            samples,
        });
        let (gpu, source): (i64, String) = (row.get(0), row.get(1));
        let of_source = found.entry((gpu, source)).or_default();
        add(of_source, &parts.collect::<Vec<_>>(), metric, grid, oldest)
            .ok_or_else(|| damaged(gpu, row.get(2)))?;
    }
    Ok(found)
}

/// Adds the readings of an hour; `None` where it is damaged.
fn add(of_source: &mut OfSource, parts: &[Part], metric: &Metric, grid: &Grid, oldest: i64) -> Option<()> {
    let series = |metric: i32| parts.iter().filter(move |part| part.metric == metric);
    let common = |metric: i32| unpack(&series(metric).next()?.samples, None);
    let (times, epochs) = (common(TIMES)?.values, common(EPOCHS)?.values);
    let links = series(number(metric)).map(|part| part.link + 1).max().unwrap_or(0);
    let mut rows: BTreeMap<usize, Vec<Option<i64>>> = BTreeMap::new();
    for part in series(number(metric)) {
        let values = unpack(&part.samples, None)?;
        for (row, value) in values.rows.into_iter().zip(values.values) {
            rows.entry(usize::try_from(row).ok()?).or_insert_with(|| vec![None; links])[part.link] =
                Some(value);
        }
    }
    let mut taken = Vec::new();
    for (row, values) in rows {
        let (time, epoch) = (time_of(*times.get(row)?), time_of(*epochs.get(row)?));
        let Some(step) = step_of(grid, oldest, *times.get(row)?) else { continue };
        taken.push(time);
        if of_source.steps.get(&step).is_none_or(|known| known.time < time) {
            of_source.steps.insert(step, Reading { step, time, epoch, values });
        }
    }
    of_source.newest.extend(taken.into_iter().rev().take(NEWEST));
    Some(())
}

/// The step of a time in microseconds since 2000; -1 before the first. A step has its end and not its beginning.
fn step_of(grid: &Grid, oldest: i64, time: i64) -> Option<i32> {
    let time = time.saturating_add(POSTGRES_EPOCH);
    if time <= oldest * 1000 || time > grid.to() * 1000 {
        return None;
    }
    let behind = time - grid.from * 1000;
    i32::try_from((behind - 1).div_euclid(grid.step * 1000).max(-1)).ok()
}

fn time_of(time: i64) -> SystemTime {
    let since = time.saturating_add(POSTGRES_EPOCH);
    UNIX_EPOCH + Duration::from_micros(u64::try_from(since).unwrap_or_default())
}

fn damaged(gpu: i64, hour: SystemTime) -> Error {
    let seconds = hour.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let cause = format!(
        "the packed hour of {seconds} of gpu_id = {gpu} in nvlink_blocks has other bytes than were written: restore it from a backup, or \
         remove it with DELETE FROM internal.nvlink_blocks WHERE gpu_id = {gpu} AND time = to_timestamp({seconds})"
    );
    Error::Refused { what: WHAT.to_owned(), cause, state: String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_has_its_end_and_not_its_beginning() {
        let grid = Grid { from: 1_000_000_000_000, step: 10_000, steps: 3 };
        let at = |milliseconds: i64| (grid.from + milliseconds) * 1000 - POSTGRES_EPOCH;
        let step = |time: i64| step_of(&grid, grid.from - 75_000, time);
        assert_eq!((step(at(0)), step(at(0) + 1), step(at(10_000))), (Some(-1), Some(0), Some(0)));
        assert_eq!((step(at(30_000)), step(at(30_000) + 1)), (Some(2), None));
        assert_eq!((step(at(-75_000)), step(at(-74_999))), (None, Some(-1)));
    }
}
