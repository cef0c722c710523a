//! Rates of NVLinks, of GPUs' PCIe links and of hosts' ports over a grid of steps.
//!
//! Counters are cumulative: of each thing the last row in each step is enough, and is found by one step of the primary
//! key, however often the thing was read.

use crate::horizons::Horizons;
use crate::row_rules::{milliseconds, rules};
use crate::time::{Grid, seconds_between, steps_of_minutes};
use std::collections::HashMap;
use std::time::SystemTime;
use throughline_store::Error;
use throughline_store::rollup_kind::Kind;
use throughline_store::sql_time::moment;
use tokio_postgres::{Client, Row};

/// Links whose counters are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedLink {
    /// All NVLinks of a GPU: element i is link i.
    Nvlinks,
    /// A port of a host's own adapter: one element.
    Port,
    /// The PCIe link of a GPU: one element. Its speed is in the inventory.
    GpuPcie,
}

/// Where it stands.
struct Place {
    readings: &'static str,
    /// Rows of a minute.
    minutes: Option<&'static str>,
    id: &'static str,
    /// Sent, received, speed.
    columns: &'static str,
    /// Several may read the same thing, each with counters of its own.
    has_sources: bool,
}

impl CountedLink {
    /// The kind whose rollups have it.
    pub(crate) fn kind(self) -> Option<Kind> {
        match self {
            Self::Nvlinks => Some(Kind::Nvlinks),
            Self::Port => Some(Kind::HostPorts),
            Self::GpuPcie => None,
        }
    }

    /// The kind of its readings.
    fn readings(self) -> Kind {
        self.kind().unwrap_or(Kind::GpuPcie)
    }

    fn place(self) -> Place {
        let (id, columns) = match self {
            Self::Nvlinks => ("gpu_id", "c.transmit_bytes, c.receive_bytes, c.speed_bytes_per_second"),
            Self::Port => (
                "host_port_id",
                "c.port_data_transmitted_bytes, c.port_data_received_bytes, c.rate_bytes_per_second",
            ),
            Self::GpuPcie => ("gpu_id", "c.transmit_bytes, c.receive_bytes, NULL::bigint AS speed"),
        };
        Place {
            readings: self.readings().readings(),
            minutes: self.kind().map(Kind::table),
            id,
            columns,
            has_sources: self != Self::Port,
        }
    }
}

/// Rates of one element, for each step of the grid.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rates {
    /// Bytes per second sent.
    pub out: Vec<Option<f64>>,
    /// Bytes per second received.
    pub received: Vec<Option<f64>>,
    /// Speed of one direction, as last reported with the counters.
    pub bytes_per_second: Option<i64>,
    /// Seconds from the newest row to the end of the grid.
    pub age_seconds: Option<f64>,
    /// By the rules of the sender: a newest row that is older says nothing about now.
    pub largest_gap_seconds: f64,
}

/// Rates by the number of the GPU or port in the tables, and by element.
pub type ByElement = HashMap<(i64, usize), Rates>;

/// A row.
struct Sample {
    step: i32,
    time: SystemTime,
    epoch: SystemTime,
    transmit: Vec<Option<i64>>,
    receive: Vec<Option<i64>>,
    speed: Vec<Option<i64>>,
}

/// Which rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rows {
    Readings,
    Minutes,
}

/// Rates of these GPUs' links or ports. Costs a step of an index for each of `ids` and each step of the grid.
///
/// # Errors
/// The database's.
pub async fn rates(
    client: &Client,
    counted: CountedLink,
    ids: &[i64],
    grid: &Grid,
) -> Result<ByElement, Error> {
    let of_minutes = match counted.kind() {
        Some(kind) => steps_of_minutes(client, kind, grid, false).await?,
        None => 0,
    };
    let horizons = Horizons::read(client).await?;
    let gap = rules(client, counted.readings(), ids, grid.from, grid.to()).await?.largest_gap_seconds;
    let mut samples: Vec<(i64, Sample)> = Vec::new();
    let parts = [(Rows::Minutes, 0, of_minutes), (Rows::Readings, of_minutes, grid.steps)];
    for (rows, first, end) in parts.into_iter().filter(|(_, first, end)| first < end) {
        let part = Grid { steps: end - first, ..grid.behind(first) };
        let sql = match rows {
            Rows::Readings => {
                let source = horizons.source(counted.readings(), part.from - milliseconds(gap), part.to());
                // A function where some are packed only.
                if source.strip_prefix("internal.") == Some(counted.readings().readings()) {
                    query(counted, &part, rows, gap)
                } else {
                    packed(counted, &part, &source, gap)
                }
            }
            Rows::Minutes => query(counted, &part, rows, gap),
        };
        let found = client.query(&sql, &[&ids]).await;
        let first = i32::try_from(first).unwrap_or(i32::MAX);
        for row in found.map_err(Error::sql("reading rates of links"))? {
            samples.push((row.get(0), sample(&row, counted, first)));
        }
    }
    samples.sort_by_key(|(id, sample)| (*id, sample.time));
    let mut all = ByElement::new();
    for (place, (id, sample)) in samples.iter().enumerate() {
        let before = place.checked_sub(1).and_then(|before| samples.get(before));
        let before = before.filter(|(other, _)| other == id).map(|(_, before)| before);
        add(&mut all, (grid, gap), *id, before, sample);
    }
    Ok(all)
}

fn query(counted: CountedLink, grid: &Grid, rows: Rows, gap: f64) -> String {
    let Place { readings, minutes, id, columns, has_sources } = counted.place();
    // A minute is named by its beginning, and the reading at its end belongs to it.
    let (table, time, order, least, most, silence) = match rows {
        Rows::Readings => (readings, "c.time", "c.time DESC", ">", "<=", gap),
        Rows::Minutes => {
            (minutes.unwrap_or(readings), "c.last_time", "c.time DESC, c.epoch DESC", ">=", "<", gap + 60.0)
        }
    };
    let (from, to) = (moment(grid.from), moment(grid.to()));
    let oldest = moment(grid.from - milliseconds(silence));
    let (source, of_source) = match has_sources {
        // Counters of two readers are never one series.
        true => (
            format!(
                "CROSS JOIN LATERAL (
                     SELECT source FROM (
                         SELECT source FROM internal.{table} c WHERE c.gpu_id = k.id AND c.time > {oldest} AND c.time <= {to}
                         ORDER BY c.time DESC LIMIT 20) newest
                     ORDER BY internal.gpu_source_rank(source) LIMIT 1) s"
            ),
            "AND c.source = s.source",
        ),
        false => (String::new(), ""),
    };
    let step = format!("INTERVAL '{} milliseconds'", grid.step);
    format!(
        "SELECT k.id, b.step, {time}, c.epoch, {columns}
         FROM unnest($1::bigint[]) AS k (id) {source}
         CROSS JOIN generate_series(-1, {last}) AS b (step)
         CROSS JOIN LATERAL (
             SELECT * FROM internal.{table} c
             WHERE c.{id} = k.id AND c.time > {oldest} AND c.time <= {to} {of_source} AND {time} IS NOT NULL
               AND c.time {least} CASE WHEN b.step < 0 THEN {oldest} ELSE {from} + b.step * {step} END
               AND c.time {most} {from} + (b.step + 1) * {step}
             ORDER BY {order} LIMIT 1) c
         ORDER BY k.id, b.step",
        last = grid.steps.saturating_sub(1),
    )
}

/// The same of a source that unpacks hours: each once, and not for each step.
fn packed(counted: CountedLink, grid: &Grid, source: &str, gap: f64) -> String {
    let Place { id, columns, has_sources, .. } = counted.place();
    let (rank, of_source) = match has_sources {
        true => (
            ", internal.gpu_source_rank(c.source) AS rank, min(internal.gpu_source_rank(c.source)) OVER (PARTITION BY c.gpu_id) AS best",
            "WHERE c.rank = c.best",
        ),
        false => ("", ""),
    };
    format!(
        "SELECT DISTINCT ON (c.{id}, c.step) c.{id}, c.step, c.time, c.epoch, {columns}
         FROM (SELECT c.{id}, c.time, c.epoch, {columns},
                      greatest({step}, -1) AS step {rank}
               FROM {source} c
               WHERE c.{id} = ANY ($1) AND c.time > {oldest} AND c.time <= {to}) c {of_source}
         ORDER BY c.{id}, c.step, c.time DESC",
        step = grid.step_of("c.time"),
        oldest = moment(grid.from - milliseconds(gap)),
        to = moment(grid.to()),
    )
}

/// A row; its step is counted from `first` on.
fn sample(row: &Row, counted: CountedLink, first: i32) -> Sample {
    let values = |place: usize| match counted {
        CountedLink::Nvlinks => row.get::<_, Option<Vec<Option<i64>>>>(place).unwrap_or_default(),
        CountedLink::Port | CountedLink::GpuPcie => vec![row.get::<_, Option<i64>>(place)],
    };
    Sample {
        step: row.get::<_, i32>(1) + first,
        time: row.get(2),
        epoch: row.get(3),
        transmit: values(4),
        receive: values(5),
        speed: values(6),
    }
}

/// Adds what a row says about the time since the one before, unless the two are farther apart than `gap` and than three steps.
fn add(all: &mut ByElement, (grid, gap): (&Grid, f64), id: i64, before: Option<&Sample>, sample: &Sample) {
    let end = std::time::UNIX_EPOCH + std::time::Duration::from_millis(u64::try_from(grid.to()).unwrap_or(0));
    for element in 0..sample.transmit.len().max(sample.receive.len()) {
        let rates = all.entry((id, element)).or_insert_with(|| Rates {
            out: vec![None; grid.steps],
            received: vec![None; grid.steps],
            largest_gap_seconds: gap,
            ..Rates::default()
        });
        let speed = sample.speed.get(element).copied().flatten();
        rates.bytes_per_second = speed.or(rates.bytes_per_second);
        rates.age_seconds = Some(seconds_between(sample.time, end).max(0.0));
        let Some(before) = before.filter(|before| before.epoch == sample.epoch) else { continue };
        let seconds = seconds_between(before.time, sample.time);
        #[allow(clippy::cast_precision_loss)] // milliseconds
        let most = gap.max(grid.step as f64 * 3.0 / 1e3);
        if seconds <= 0.0 || seconds > most {
            continue;
        }
        let steps = usize::try_from(before.step + 1).unwrap_or(0)..=usize::try_from(sample.step).unwrap_or(0);
        for (into, now, then) in [
            (&mut rates.out, &sample.transmit, &before.transmit),
            (&mut rates.received, &sample.receive, &before.receive),
        ] {
            let value = |row: &[Option<i64>]| row.get(element).copied().flatten();
            let rate = value(then).zip(value(now)).map(|(then, now)| increase(then, now) / seconds);
            into.iter_mut().take(steps.end() + 1).skip(*steps.start()).for_each(|step| *step = rate);
        }
    }
}

/// `counter_increase` of the database: stored counters are 63 bits wide and start again at 0.
#[allow(clippy::cast_precision_loss)] // for people
fn increase(before: i64, after: i64) -> f64 {
    (after.wrapping_sub(before) & i64::MAX) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    fn sample(step: i32, seconds: u64, epoch: u64, value: i64) -> Sample {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        let values = vec![Some(value), None];
        Sample {
            step,
            time: at(seconds),
            epoch: at(epoch),
            transmit: values.clone(),
            receive: vec![],
            speed: values,
        }
    }

    fn rates(samples: &[Sample]) -> Rates {
        let grid = Grid { from: 100_000, step: 10_000, steps: 5 };
        let mut all = ByElement::new();
        for (place, one) in samples.iter().enumerate() {
            add(&mut all, (&grid, 75.0), 1, place.checked_sub(1).and_then(|place| samples.get(place)), one);
        }
        assert_eq!(all[&(1, 1)].out, [None; 5], "an element that was not read");
        all.remove(&(1, 0)).unwrap()
    }

    #[test]
    fn steps_between_two_rows_have_their_rate() {
        let answer = rates(&[sample(-1, 100, 1, 0), sample(0, 110, 1, 50), sample(3, 140, 1, 350)]);
        assert_eq!(answer.out, [Some(5.0), Some(10.0), Some(10.0), Some(10.0), None]);
        assert_eq!((answer.bytes_per_second, answer.age_seconds), (Some(350), Some(10.0)));
        assert_eq!(answer.received, [None; 5]);
    }

    #[test]
    fn there_is_no_rate_across_an_epoch_or_silence() {
        let answer = rates(&[sample(-1, 100, 1, 900), sample(0, 110, 105, 50), sample(1, 120, 105, 60)]);
        assert_eq!(answer.out, [None, Some(1.0), None, None, None]);
        let answer = rates(&[sample(-1, 30, 1, 0), sample(1, 120, 1, 50), sample(2, 130, 1, 60)]);
        assert_eq!(answer.out, [None, None, Some(1.0), None, None]);
        assert_eq!(increase(i64::MAX, 0), 1.0);
    }
}
