//! Ranges that begin before the oldest reading that the database holds, from a server of PromQL that has been sent the samples
//! (`[query] promql_url`): what ports of the fabric, hosts' ports and NVLinks carried. The steps of a grid that begin before that
//! reading come from there, the others from the database, so that a chart is one series.
//!
//! Rates are those of PromQL over a step, and over a minute at least: readings and the filled gaps between them are then enough for
//! each. The largest rate of a step is that of a minute where steps are longer.
//!
//! It must not know HTTP: a [`PromqlServer`] does.

use crate::Horizons;
use crate::history::of_ids;
use crate::links::{self, Series};
use crate::rates::{self, ByElement, CountedLink, Rates};
use crate::time::{Grid, MINUTE_MS};
use futures::future::BoxFuture;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::{Debug, Write};
use std::sync::Arc;
use throughline_sample::catalogue::{HCA_PORT_PREFIX, Metric, SWITCH_PORT_PREFIX, Table};
use throughline_sample::to_rfc3339;
use throughline_store::Error;
use throughline_store::counter_sql::ERRORS;
use throughline_store::rollup_kind::Kind;
use tokio_postgres::Client;

/// Values of a label in one expression: VictoriaMetrics takes 16 KiB by default.
const VALUES_MAX: usize = 100;

/// A series of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct PromqlSeries {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// (Milliseconds since 1970, value).
    pub points: Vec<(i64, f64)>,
}

/// Evaluates expressions of PromQL.
pub trait PromqlServer: Debug + Send + Sync {
    /// Where it is, for people.
    fn place(&self) -> &str;

    /// The values of an expression at the end of each step of a grid; a message where there is no answer.
    fn query_range(&self, expression: String, grid: Grid)
    -> BoxFuture<'_, Result<Vec<PromqlSeries>, String>>;
}

/// Why a range can't be read.
#[derive(Debug, thiserror::Error)]
pub enum RangeError {
    /// The database.
    #[error(transparent)]
    Database(#[from] Error),
    /// The server of PromQL.
    #[error(
        "the database holds readings from {held_from} on; what is older comes from {place} (query.promql_url): {cause}"
    )]
    Away {
        /// Since when the database holds readings, for people.
        held_from: String,
        /// Where the server is.
        place: String,
        /// What happened.
        cause: String,
    },
}

/// The server of PromQL, if there is one; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct LongRange(Option<Arc<dyn PromqlServer>>);

/// The steps that come from the server.
struct ServerSteps<'a> {
    server: &'a dyn PromqlServer,
    steps: usize,
    held_from: Option<i64>,
}

/// What a series is of: the row's id and the element of its array.
type Places = HashMap<Vec<(&'static str, String)>, (i64, i32)>;

impl LongRange {
    /// With this server.
    #[must_use]
    pub fn new(server: Arc<dyn PromqlServer>) -> LongRange {
        LongRange(Some(server))
    }

    /// What ports of the fabric carried over time, by their number in the tables: as [`links::series`].
    ///
    /// # Errors
    /// [`RangeError`].
    pub async fn port_series(
        &self,
        client: &Client,
        ports: &[i64],
        grid: &Grid,
    ) -> Result<HashMap<i64, Series>, RangeError> {
        let Some(before) = self.before(client, Kind::IbPorts, grid).await? else {
            return Ok(links::series(client, ports, grid).await?);
        };
        let mut all = HashMap::new();
        let rest = grid.behind(before.steps);
        if rest.steps > 0 {
            let held = links::series(client, ports, &rest).await?;
            all = held.into_iter().map(|(port, series)| (port, series.behind(before.steps))).collect();
        }
        let part = Grid { steps: before.steps, ..*grid };
        for prefix in [SWITCH_PORT_PREFIX, HCA_PORT_PREFIX] {
            let name = |metric: &str| format!("{prefix}{metric}");
            let places = places(client, &name("transmit_data_bytes_total"), ports).await?;
            for (what, selected) in port_expressions(prefix, &part) {
                for (port, _, step, value) in before.values(&places, "guid", &part, &selected).await? {
                    let series = all.entry(port).or_insert_with(|| Series::empty(grid.steps));
                    series.put(what, step, value);
                }
            }
        }
        Ok(all)
    }

    /// Rates of these GPUs' links or ports: as [`rates::rates`]. PCIe links are read from the database alone.
    ///
    /// # Errors
    /// [`RangeError`].
    pub async fn rates(
        &self,
        client: &Client,
        counted: CountedLink,
        ids: &[i64],
        grid: &Grid,
    ) -> Result<ByElement, RangeError> {
        let before = match counted.kind() {
            Some(kind) => self.before(client, kind, grid).await?,
            None => None,
        };
        let Some(before) = before else { return Ok(rates::rates(client, counted, ids, grid).await?) };
        let mut all = ByElement::new();
        let rest = grid.behind(before.steps);
        if rest.steps > 0 {
            let held = rates::rates(client, counted, ids, &rest).await?;
            all = held.into_iter().map(|(place, rates)| (place, rates.behind(before.steps))).collect();
        }
        let part = Grid { steps: before.steps, ..*grid };
        let names = match counted {
            CountedLink::Port => [
                "node_infiniband_port_data_transmitted_bytes_total",
                "node_infiniband_port_data_received_bytes_total",
                "node_infiniband_rate_bytes_per_second",
            ],
            CountedLink::Nvlinks | CountedLink::GpuPcie => [
                "throughline_nvlink_transmit_bytes_total",
                "throughline_nvlink_receive_bytes_total",
                "throughline_nvlink_speed_bytes_per_second",
            ],
        };
        let places = places(client, names[0], ids).await?;
        for (what, name) in names.into_iter().enumerate() {
            let function = if what == 2 { "max_over_time" } else { "rate" };
            let expression = |labels: &str| format!("{function}({name}{labels}[{}])", range(&part));
            for (id, element, step, value) in before.values(&places, "instance", &part, &expression).await? {
                let element = usize::try_from(element).unwrap_or(0);
                let rates = all.entry((id, element)).or_insert_with(|| Rates {
                    out: vec![None; grid.steps],
                    received: vec![None; grid.steps],
                    ..Rates::default()
                });
                match what {
                    0 => rates.out[step] = Some(value),
                    1 => rates.received[step] = Some(value),
                    // The database's own word is newer.
                    _ => rates.bytes_per_second = rates.bytes_per_second.or(whole(value)),
                }
            }
        }
        Ok(all)
    }

    /// The steps of a grid that the server has; `None` where the database has all of them.
    async fn before(
        &self,
        client: &Client,
        kind: Kind,
        grid: &Grid,
    ) -> Result<Option<ServerSteps<'_>>, Error> {
        let Some(server) = self.0.as_deref() else { return Ok(None) };
        // Rows of one minute answer for whole minutes only.
        let has_minutes = grid.step % MINUTE_MS == 0 && grid.from % MINUTE_MS == 0;
        let held_from = Horizons::read(client).await?.held_from(kind, has_minutes);
        let steps = steps_before(grid, held_from);
        Ok((steps > 0).then_some(ServerSteps { server, steps, held_from }))
    }
}

/// How many steps begin before this time.
fn steps_before(grid: &Grid, held_from: Option<i64>) -> usize {
    let Some(held_from) = held_from else { return grid.steps };
    let steps = (held_from - grid.from + grid.step - 1).div_euclid(grid.step);
    usize::try_from(steps).unwrap_or(0).min(grid.steps)
}

impl ServerSteps<'_> {
    /// Values of an expression, made of a selector's labels, at the steps of a grid: id, element, step, value. `key` is the label
    /// by which series are selected.
    async fn values(
        &self,
        places: &Places,
        key: &str,
        grid: &Grid,
        expression: &(impl Fn(&str) -> String + ?Sized),
    ) -> Result<Vec<(i64, i32, usize, f64)>, RangeError> {
        let of_key = |labels: &Vec<(&'static str, String)>| {
            labels.iter().find(|(name, _)| *name == key).map(|(_, value)| value.clone())
        };
        let keys: Vec<String> =
            places.keys().filter_map(of_key).collect::<BTreeSet<_>>().into_iter().collect();
        let names: BTreeSet<&'static str> = places.keys().flatten().map(|(name, _)| *name).collect();
        let mut all = Vec::new();
        for some in keys.chunks(VALUES_MAX) {
            let answer = self.server.query_range(expression(&matcher(key, some)), *grid).await;
            for series in answer.map_err(|cause| self.away(cause))? {
                // A receiver may have added labels of its own.
                let label = |name: &&'static str| Some((*name, series.labels.get(*name)?.clone()));
                let labels: Vec<_> = names.iter().filter_map(label).collect();
                let Some((id, element)) = places.get(&labels) else { continue };
                for (time, value) in series.points.into_iter().filter(|(_, value)| value.is_finite()) {
                    let step = usize::try_from((time - grid.from).div_euclid(grid.step) - 1);
                    if let Some(step) = step.ok().filter(|step| *step < grid.steps) {
                        all.push((*id, *element, step, value));
                    }
                }
            }
        }
        Ok(all)
    }

    fn away(&self, cause: String) -> RangeError {
        let held_from = self.held_from.map_or_else(
            || "no time".to_owned(),
            |milliseconds| to_rfc3339(milliseconds.saturating_mul(1_000_000)),
        );
        RangeError::Away { held_from, place: self.server.place().to_owned(), cause }
    }
}

/// `{label=~"a|b"}`.
fn matcher(label: &str, values: &[String]) -> String {
    let mut text = format!("{{{label}=~\"");
    for (place, value) in values.iter().enumerate() {
        if place > 0 {
            text.push('|');
        }
        for c in value.chars() {
            // Whatever means something in a regular expression, in a text in quotes.
            match c {
                '"' | '\\' => _ = write!(text, "\\\\\\{c}"),
                '.' | '+' | '*' | '?' | '(' | ')' | '[' | ']' | '{' | '}' | '|' | '^' | '$' => {
                    _ = write!(text, "\\\\{c}");
                }
                _ => text.push(c),
            }
        }
    }
    text.push_str("\"}");
    text
}

/// The time over which rates are made.
fn range(grid: &Grid) -> String {
    format!("{}ms", grid.step.max(MINUTE_MS))
}

/// Which series of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PortSeries {
    Out,
    OutPeak,
    Received,
    ReceivedPeak,
    Waiting,
    Errors,
    Speed,
}

/// An expression, made of a selector's labels.
type Expression = Box<dyn Fn(&str) -> String + Send + Sync>;

/// What is read of a port of switches or adapters.
fn port_expressions(prefix: &'static str, grid: &Grid) -> Vec<(PortSeries, Expression)> {
    let (range, step) = (range(grid), grid.step);
    let rate = |metric: &'static str| -> Expression {
        let range = range.clone();
        Box::new(move |labels| format!("rate({prefix}{metric}_total{labels}[{range}])"))
    };
    // Of steps within a minute the mean is all that is known.
    let peak = |metric: &'static str| -> Expression {
        let (length, whole) = (format!("[{step}ms:1m]"), rate(metric));
        Box::new(move |labels| match step > MINUTE_MS {
            true => format!("max_over_time(rate({prefix}{metric}_total{labels}[1m]){length})"),
            false => whole(labels),
        })
    };
    let waiting = rate("transmit_wait");
    let errors = move |labels: &str| {
        let named = Table::IbPortCounters.metrics().iter().filter(|metric| ERRORS.contains(&metric.name));
        let grown = |metric: &&Metric| {
            let (name, counter) = (metric.prometheus_name(prefix), metric.name);
            format!(
                "label_replace(increase({name}{labels}[{step}ms]), \"counter\", \"{counter}\", \"\", \"\")"
            )
        };
        let all: Vec<String> = named.map(grown).collect();
        format!("round(sum by (guid, instance, port) ({}))", all.join(" or "))
    };
    vec![
        (PortSeries::Out, rate("transmit_data_bytes")),
        (PortSeries::OutPeak, peak("transmit_data_bytes")),
        (PortSeries::Received, rate("receive_data_bytes")),
        (PortSeries::ReceivedPeak, peak("receive_data_bytes")),
        (
            PortSeries::Waiting,
            Box::new(move |labels| format!("{} * {prefix}transmit_wait_tick_bytes{labels}", waiting(labels))),
        ),
        (PortSeries::Errors, Box::new(errors)),
        (
            PortSeries::Speed,
            Box::new(move |labels| format!("max_over_time({prefix}rate_bytes_per_second{labels}[{range}])")),
        ),
    ]
}

impl Series {
    /// With so many steps before its own.
    fn behind(self, steps: usize) -> Series {
        Series {
            out: behind(steps, self.out),
            out_peak: behind(steps, self.out_peak),
            received: behind(steps, self.received),
            received_peak: behind(steps, self.received_peak),
            waiting: behind(steps, self.waiting),
            errors: behind(steps, self.errors),
            speed: behind(steps, self.speed),
        }
    }

    fn put(&mut self, what: PortSeries, step: usize, value: f64) {
        let series = match what {
            PortSeries::Out => &mut self.out,
            PortSeries::OutPeak => &mut self.out_peak,
            PortSeries::Received => &mut self.received,
            PortSeries::ReceivedPeak => &mut self.received_peak,
            PortSeries::Waiting => &mut self.waiting,
            PortSeries::Errors => &mut self.errors,
            PortSeries::Speed => {
                self.speed[step] = whole(value);
                return;
            }
        };
        series[step] = Some(value);
    }
}

impl Rates {
    fn behind(self, steps: usize) -> Rates {
        Rates { out: behind(steps, self.out), received: behind(steps, self.received), ..self }
    }
}

fn behind<T: Clone>(steps: usize, values: Vec<Option<T>>) -> Vec<Option<T>> {
    let mut all = vec![None; steps];
    all.extend(values);
    all
}

#[allow(clippy::cast_possible_truncation)] // speeds of links
fn whole(value: f64) -> Option<i64> {
    (value >= 0.0).then_some(value.round() as i64)
}

/// Labels of these ids' series.
async fn places(client: &Client, name: &str, ids: &[i64]) -> Result<Places, Error> {
    Ok(of_ids(client, name, ids).await?.into_iter().map(|(place, labels)| (labels, place)).collect())
}

#[cfg(test)]
mod tests;
