//! Metrics of GPUs that sites chose by name, over time. Sums become rates; of others a step has the mean of its readings, the largest
//! of a metric that ends in `.max`, the least in `.min`.

use crate::nvlink_metrics::{Reading, Values, rates};
use crate::row_rules::{milliseconds, rules};
use crate::time::Grid;
use std::collections::{BTreeMap, HashMap};
use throughline_store::Error;
use throughline_store::rollup_kind::Kind;
use throughline_store::sql_time::moment;
use tokio_postgres::{Client, Row};

/// Longest range, milliseconds: all readings in it are read.
pub const RANGE_MS_MAX: i64 = 86_400_000;

/// A metric that GPUs of a host have readings of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenMetric {
    /// As the vendor's library names it.
    pub name: String,
    /// Whether it is a sum.
    pub is_sum: bool,
    /// GPUs that have it.
    pub gpus: i64,
}

/// How readings of a step become one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fold {
    /// The mean.
    Mean,
    /// The largest.
    Largest,
    /// The least.
    Least,
}

impl Fold {
    /// What fits a metric that is no sum.
    #[must_use]
    pub fn of(name: &str) -> Self {
        let has = |word: &str| name.ends_with(word) || name.contains(&format!("{word}."));
        match (has(".max"), has(".min")) {
            (true, _) => Self::Largest,
            (_, true) => Self::Least,
            _ => Self::Mean,
        }
    }

    fn sql(self) -> &'static str {
        match self {
            Self::Mean => "avg",
            Self::Largest => "max",
            Self::Least => "min",
        }
    }
}

/// Metrics that these GPUs have readings of in a range, by name.
///
/// # Errors
/// The database's.
pub async fn metrics(client: &Client, gpus: &[i64], from: i64, to: i64) -> Result<Vec<ChosenMetric>, Error> {
    let sql = format!(
        "SELECT k.name, bool_or(n.sum IS NOT NULL), count(*) FROM internal.gpu_metric_key k
         CROSS JOIN LATERAL (SELECT m.sum FROM internal.gpu_metrics m
             WHERE m.gpu_metric_id = k.id AND m.time > {} AND m.time <= {} ORDER BY m.time DESC LIMIT 1) n
         WHERE k.gpu_id = ANY ($1) GROUP BY k.name ORDER BY k.name",
        moment(from),
        moment(to)
    );
    let rows = client.query(&sql, &[&gpus]).await.map_err(Error::sql("listing chosen metrics of GPUs"))?;
    let metric = |row: &Row| ChosenMetric { name: row.get(0), is_sum: row.get(1), gpus: row.get(2) };
    Ok(rows.iter().map(metric).collect())
}

/// Values of one metric in each step, by the GPU's number in the tables. One library reads such metrics: CUPTI.
///
/// # Errors
/// The database's.
pub async fn values(
    client: &Client,
    metric: &ChosenMetric,
    gpus: &[i64],
    grid: &Grid,
) -> Result<HashMap<i64, Values>, Error> {
    let gap = rules(client, Kind::Nvlinks, gpus, grid.from, grid.to()).await?.largest_gap_seconds;
    let sql = format!(
        "SELECT DISTINCT ON (r.gpu_id, r.step) r.gpu_id, r.step, r.time, r.epoch, r.sum,
                {fold}(r.value) OVER (PARTITION BY r.gpu_id, r.step)
         FROM (SELECT k.gpu_id, m.time, m.epoch, m.sum, m.value, greatest({step}, -1) AS step
               FROM internal.gpu_metric_key k JOIN internal.gpu_metrics m ON m.gpu_metric_id = k.id
               WHERE k.gpu_id = ANY ($1) AND k.name = $2 AND m.time > {oldest} AND m.time <= {to}) r
         ORDER BY r.gpu_id, r.step, r.time DESC",
        fold = Fold::of(&metric.name).sql(),
        step = grid.step_of("m.time"),
        oldest = moment(grid.from - milliseconds(gap)),
        to = moment(grid.to()),
    );
    let rows = client.query(&sql, &[&gpus, &metric.name]).await;
    let rows = rows.map_err(Error::sql("reading a chosen metric of GPUs"))?;
    let mut sums: BTreeMap<i64, Vec<Reading>> = BTreeMap::new();
    let mut all: HashMap<i64, Values> = HashMap::new();
    for row in &rows {
        let (gpu, step): (i64, i32) = (row.get(0), row.get(1));
        let values = vec![row.get::<_, Option<i64>>(4)];
        sums.entry(gpu).or_default().push(Reading { step, time: row.get(2), epoch: row.get(3), values });
        let slots = all.entry(gpu).or_insert_with(|| vec![None; grid.steps]);
        if let Some(slot) = usize::try_from(step).ok().and_then(|step| slots.get_mut(step)) {
            *slot = row.get(5);
        }
    }
    if metric.is_sum {
        all = sums.into_iter().map(|(gpu, readings)| (gpu, rates(&readings, 0, (grid, gap)))).collect();
    }
    all.retain(|_, values| values.iter().any(Option::is_some));
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_has_what_fits_the_end_of_the_name() {
        assert_eq!(Fold::of("gpc__cycles_elapsed.max"), Fold::Largest);
        assert_eq!(Fold::of("gpc__cycles_elapsed.min.per_second"), Fold::Least);
        assert_eq!(Fold::of("sm__cycles_active.avg"), Fold::Mean);
        assert_eq!(Fold::of("l1tex__hit_rate.max_rate"), Fold::Mean);
    }
}
