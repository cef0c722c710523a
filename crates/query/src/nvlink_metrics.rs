//! One metric of GPUs' NVLinks over time: any of the catalogue's. Counters become rates, gauges stay as they were read.
//!
//! Read from readings alone, rows and packed hours: rollups have bytes only ([`crate::rates`]).

mod packed;

use crate::row_rules::{milliseconds, rules};
use crate::time::{Grid, seconds_between};
use std::collections::{BTreeMap, HashMap};
use std::time::SystemTime;
use throughline_sample::catalogue::{Kind, Metric, Table, gpu_source_rank};
use throughline_store::Error;
use throughline_store::rollup_kind;
use throughline_store::sql_time::moment;
use tokio_postgres::Client;

/// Readings of a GPU that say who reads it.
const NEWEST: usize = 20;

/// The metrics, in the order of the catalogue.
#[must_use]
pub fn metrics() -> &'static [&'static Metric] {
    Table::NvlinkCounters.metrics()
}

/// Values of one link in each step: of a counter its increase in a second, of a gauge the last reading.
pub type Values = Vec<Option<f64>>;

/// A reading of all links of a GPU.
pub(crate) struct Reading {
    /// Place in the grid, -1 before it.
    pub step: i32,
    /// When it was read.
    pub time: SystemTime,
    /// When its counters began.
    pub epoch: SystemTime,
    /// By link.
    pub values: Vec<Option<i64>>,
}

/// Readings by the GPU's number in the tables and who read them.
type BySource = BTreeMap<(i64, String), OfSource>;

/// Of one source.
#[derive(Default)]
struct OfSource {
    /// In each step of the grid the last one that has a value.
    steps: BTreeMap<i32, Reading>,
    /// Times of the newest ones that have a value.
    newest: Vec<SystemTime>,
}

/// Values of GPUs' links by the GPU's number in the tables and the link's. Costs a step of an index for each GPU and step.
///
/// # Errors
/// The database's.
pub async fn values(
    client: &Client,
    metric: &Metric,
    gpus: &[i64],
    grid: &Grid,
) -> Result<HashMap<(i64, usize), Values>, Error> {
    let gap =
        rules(client, rollup_kind::Kind::Nvlinks, gpus, grid.from, grid.to()).await?.largest_gap_seconds;
    let begin = grid.from - milliseconds(gap);
    let mut packed = packed::readings(client, metric, gpus, grid, begin).await?;
    let oldest = moment(begin);
    let (from, to, column) = (moment(grid.from), moment(grid.to()), metric.name);
    let step = format!("INTERVAL '{} milliseconds'", grid.step);
    let newest = format!(
        "SELECT k.id, c.source, c.time FROM unnest($1::bigint[]) AS k (id)
         CROSS JOIN LATERAL (
             SELECT source, time FROM internal.nvlink_counters c
             WHERE c.gpu_id = k.id AND c.time > {oldest} AND c.time <= {to} AND c.{column} IS NOT NULL
             ORDER BY c.time DESC LIMIT {NEWEST}) c"
    );
    let what = "reading a metric of NVLinks";
    for row in client.query(&newest, &[&gpus]).await.map_err(Error::sql(what))? {
        packed.entry((row.get(0), row.get(1))).or_default().newest.push(row.get(2));
    }
    let sources = sources(&packed);
    // Counters of two readers are never one series.
    let sql = format!(
        "SELECT k.id, b.step, c.time, c.epoch, c.{column}
         FROM unnest($1::bigint[], $2::text[]) AS k (id, source)
         CROSS JOIN generate_series(-1, {last}) AS b (step)
         CROSS JOIN LATERAL (
             SELECT c.time, c.epoch, c.{column} FROM internal.nvlink_counters c
             WHERE c.gpu_id = k.id AND c.time > {oldest} AND c.time <= {to} AND c.source = k.source
               AND c.{column} IS NOT NULL
               AND c.time > CASE WHEN b.step < 0 THEN {oldest} ELSE {from} + b.step * {step} END
               AND c.time <= {from} + (b.step + 1) * {step}
             ORDER BY c.time DESC LIMIT 1) c
         ORDER BY k.id, b.step",
        last = grid.steps.saturating_sub(1),
    );
    let (ids, names): (Vec<i64>, Vec<String>) = sources.iter().cloned().unzip();
    let rows = client.query(&sql, &[&ids, &names]).await.map_err(Error::sql(what))?;
    let mut by_gpu: BTreeMap<i64, BTreeMap<i32, Reading>> = BTreeMap::new();
    for key in sources {
        by_gpu.insert(key.0, packed.remove(&key).unwrap_or_default().steps);
    }
    for row in &rows {
        let values = row.get::<_, Option<Vec<Option<i64>>>>(4).unwrap_or_default();
        let reading = Reading { step: row.get(1), time: row.get(2), epoch: row.get(3), values };
        let steps = by_gpu.entry(row.get(0)).or_default();
        // A row in a packed hour came late.
        if steps.get(&reading.step).is_none_or(|known| known.time < reading.time) {
            steps.insert(reading.step, reading);
        }
    }
    let mut all = HashMap::new();
    for (gpu, readings) in by_gpu {
        let readings: Vec<Reading> = readings.into_values().collect();
        let links = readings.iter().map(|reading| reading.values.len()).max().unwrap_or(0);
        for link in 0..links {
            let values = match metric.kind {
                Kind::Counter => rates(&readings, link, (grid, gap)),
                Kind::Gauge => gauges(&readings, link, grid),
            };
            if values.iter().any(Option::is_some) {
                all.insert((gpu, link), values);
            }
        }
    }
    Ok(all)
}

/// Of each GPU who is believed: of those that made the newest readings the first.
fn sources(known: &BySource) -> Vec<(i64, String)> {
    let mut all: BTreeMap<i64, Vec<(SystemTime, &String)>> = BTreeMap::new();
    for ((gpu, source), of_source) in known {
        all.entry(*gpu).or_default().extend(of_source.newest.iter().map(|time| (*time, source)));
    }
    let chosen = |(gpu, mut newest): (i64, Vec<(SystemTime, &String)>)| {
        newest.sort_unstable_by(|one, other| other.cmp(one));
        newest.truncate(NEWEST);
        let first = newest.into_iter().min_by_key(|(_, source)| gpu_source_rank(source))?;
        Some((gpu, first.1.clone()))
    };
    all.into_iter().filter_map(chosen).collect()
}

fn of(reading: &Reading, link: usize) -> Option<i64> {
    reading.values.get(link).copied().flatten()
}

#[allow(clippy::cast_precision_loss)] // for people
fn gauges(readings: &[Reading], link: usize, grid: &Grid) -> Values {
    let mut values = vec![None; grid.steps];
    for reading in readings {
        let slot = usize::try_from(reading.step).ok().and_then(|step| values.get_mut(step));
        if let Some(slot) = slot {
            *slot = of(reading, link).map(|value| value as f64);
        }
    }
    values
}

/// A step has the rate between the last reading before it and its last; steps between two readings have theirs, unless these are
/// farther apart than the largest gap of their sender's rules and than three steps.
#[allow(clippy::cast_precision_loss)] // for people
pub(crate) fn rates(readings: &[Reading], link: usize, (grid, gap): (&Grid, f64)) -> Values {
    let mut values = vec![None; grid.steps];
    let most = gap.max(grid.step as f64 * 3.0 / 1e3);
    for pair in readings.windows(2) {
        let [before, after] = pair else { continue };
        let seconds = seconds_between(before.time, after.time);
        if before.epoch != after.epoch || seconds <= 0.0 || seconds > most {
            continue;
        }
        let rate = of(before, link).zip(of(after, link)).map(|(before, after)| {
            // Stored counters are 63 bits wide and start again at 0.
            (after.wrapping_sub(before) & i64::MAX) as f64 / seconds
        });
        let first = usize::try_from(before.step + 1).unwrap_or(0);
        let last = usize::try_from(after.step).map_or(0, |step| step + 1);
        values.iter_mut().take(last).skip(first).for_each(|slot| *slot = rate);
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    fn reading(step: i32, seconds: u64, epoch: u64, value: i64) -> Reading {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        Reading { step, time: at(seconds), epoch: at(epoch), values: vec![None, Some(value)] }
    }

    const GRID: Grid = Grid { from: 100_000, step: 10_000, steps: 4 };

    #[test]
    fn counters_are_rates_within_an_epoch() {
        let readings =
            [reading(-1, 95, 1, 0), reading(0, 105, 1, 20), reading(2, 125, 1, 60), reading(3, 135, 130, 5)];
        assert_eq!(rates(&readings, 1, (&GRID, 75.0)), [Some(2.0), Some(2.0), Some(2.0), None]);
        assert_eq!(rates(&readings, 0, (&GRID, 75.0)), [None; 4], "not read");
        let silent = [reading(-1, 10, 1, 0), reading(0, 105, 1, 20)];
        assert_eq!(rates(&silent, 1, (&GRID, 75.0)), [None; 4]);
    }

    #[test]
    fn gauges_are_as_read() {
        let readings = [reading(-1, 95, 1, 7), reading(1, 115, 1, 9)];
        assert_eq!(gauges(&readings, 1, &GRID), [None, Some(9.0), None, None]);
    }

    #[tokio::test]
    async fn each_metric_is_a_column() {
        let client = throughline_store::testing::database().await.connect_reader().await.unwrap();
        for metric in metrics() {
            assert!(values(&client, metric, &[1], &GRID).await.unwrap().is_empty(), "{}", metric.name);
        }
    }
}
