//! Samples of `self_stats`: what daemons report about themselves, and a node's totals of MPI.

use super::super::family::self_metric_labels;
use super::super::series::seconds;
use super::super::{HistoryError, Range, Samples};
use super::packed::things as things_of;
use super::{Labels, LastReadings, Place, Round, Slice, TailSeries, TailWindow, added, families};
use crate::row_rules::Gaps;
use std::collections::{BTreeMap, HashMap};
use throughline_store::Error;
use throughline_store::binary_copy::milliseconds;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

/// Instances of a round: each has some hundred self-metrics. And of an hour.
const INSTANCES: usize = 200;
const INSTANCES_OF_HOUR: usize = 20;

const WHAT: &str = "reading self-metrics for the export";

/// Labels and the columns of `self_stats` with their values.
type Columns = Vec<(&'static str, &'static str)>;

/// The self-metrics that are exported.
#[derive(Debug)]
pub(super) struct SelfMetrics {
    /// Place of the family, and its labels with their columns, by the metric's name.
    names: HashMap<String, (usize, Columns)>,
    /// A number for each instance, source and label, for what is retained of them.
    numbers: HashMap<(String, String, String), u64>,
}

impl Default for SelfMetrics {
    fn default() -> Self {
        let all = families().iter().enumerate().filter_map(|(place, family)| match &family.place {
            Place::SelfMetric { name, metric } => Some((name.clone(), (place, self_metric_labels(metric)))),
            _ => None,
        });
        Self { names: all.collect(), numbers: HashMap::new() }
    }
}

/// Readings by what instance is in the rows, source, label and name; with the instance's name for people.
type Readings = BTreeMap<[String; 4], (String, Samples)>;

impl SelfMetrics {
    pub async fn read(
        &mut self,
        client: &Client,
        (window, is_primed): (TailWindow, bool),
        after: &str,
        last: &mut LastReadings,
    ) -> Result<Round, HistoryError> {
        let (from, to) = (seconds(window.from + 1), seconds(window.to + 1));
        // In the order of bytes, whatever the database's is.
        let select = "SELECT DISTINCT instance COLLATE \"C\" FROM internal.self_stat_rows \
                      WHERE time >= to_timestamp($1) AND time < to_timestamp($2) AND instance COLLATE \"C\" > $3 \
                      ORDER BY 1 LIMIT $4";
        let most = things_of(INSTANCES, INSTANCES_OF_HOUR, window.to - window.from) as i64;
        let given: [(&(dyn ToSql + Sync), Type); 4] =
            [(&from, Type::FLOAT8), (&to, Type::FLOAT8), (&after, Type::TEXT), (&most, Type::INT8)];
        let rows = client.query_typed(select, &given).await.map_err(Error::sql(WHAT))?;
        let instances: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        let Some(newest) = instances.last() else { return Ok(Round::default()) };
        let next = (rows.len() as i64 == most).then(|| newest.clone());
        let look_back = if is_primed { 0 } else { Gaps::usual() };
        let range = Range { from: window.from + 1 - look_back, to: window.to };
        let readings = readings(client, range, &instances).await?;
        let whole = [Range { from: window.from + 1, to: window.to }];
        Ok(Round { slices: self.slices(readings, |_| &whole[..], last), next })
    }

    pub async fn read_late(
        &mut self,
        client: &Client,
        things: &HashMap<String, Vec<Range>>,
        last: &mut LastReadings,
    ) -> Result<Vec<Slice>, HistoryError> {
        let Some(Range { from, to }) = super::whole(things) else { return Ok(Vec::new()) };
        let instances: Vec<String> = things.keys().cloned().collect();
        let readings = readings(client, Range { from: from - Gaps::usual(), to }, &instances).await?;
        Ok(self.slices(readings, |instance| things.get(instance).map_or(&[][..], Vec::as_slice), last))
    }

    /// Series with names and labels, and of each instance the samples of these ranges.
    fn slices<'a>(
        &mut self,
        readings: Readings,
        ranges: impl Fn(&str) -> &'a [Range],
        last: &mut LastReadings,
    ) -> Vec<Slice> {
        let mut slices: Vec<Slice> = Vec::new();
        for ([instance, source, label, name], (shown, samples)) in readings {
            let Some((family, columns)) = self.names.get(&name) else { continue };
            let family = *family;
            let count = self.numbers.len() as u64;
            let number =
                *self.numbers.entry((instance.clone(), source.clone(), label.clone())).or_insert(count);
            let points = added((family, number), &samples, Gaps::usual(), ranges(&instance), last);
            if points.is_empty() {
                continue;
            }
            let value = |column: &str| if column == "source" { source.clone() } else { label.clone() };
            let own = columns.iter().map(|(name, column)| (*name, value(column)));
            let labels = [("instance", shown)].into_iter().chain(own);
            let labels: Labels = labels.filter(|(_, value)| !value.is_empty()).collect();
            let series = TailSeries { family, labels, points };
            match slices.last_mut().filter(|slice| slice.thing == instance) {
                Some(slice) => slice.series.push(series),
                None => slices.push(Slice { thing: instance, series: vec![series] }),
            }
        }
        slices
    }
}

async fn readings(client: &Client, range: Range, instances: &[String]) -> Result<Readings, HistoryError> {
    let select = "SELECT instance_key, source, label, name, \
                    (extract(epoch FROM time - TIMESTAMPTZ '2000-01-01 00:00:00+00') * 1000000)::bigint, value, instance \
                  FROM public.self_stats WHERE time >= to_timestamp($1) AND time < to_timestamp($2) AND instance_key = ANY ($3)";
    let (from, to) = (seconds(range.from), seconds(range.to + 1));
    let given: [(&(dyn ToSql + Sync), Type); 3] =
        [(&from, Type::FLOAT8), (&to, Type::FLOAT8), (&instances, Type::TEXT_ARRAY)];
    let rows = client.query_typed(select, &given).await.map_err(Error::sql(WHAT))?;
    let mut all = Readings::new();
    for row in &rows {
        let key = |place: usize, row: &Row| row.get::<_, String>(place);
        let (_, samples) = all
            .entry([0, 1, 2, 3].map(|place| key(place, row)))
            .or_insert_with(|| (row.get(6), Samples::default()));
        samples.push(milliseconds(row.get(4)), row.get(5));
    }
    Ok(all)
}
