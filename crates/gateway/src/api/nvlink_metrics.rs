//! `/nodes/{host}/nvlink`: any metric of the catalogue of a host's NVLinks over time, summed by GPU or by link.

use super::nodes::sum;
use super::request::ApiRequest;
use super::{Api, answer, jobs};
use crate::api_error::ApiError;
use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use throughline_query::nodes;
use throughline_query::nvlink_metrics::{self, Values};
use throughline_query::time::{Grid, QueryTime};
use throughline_sample::catalogue::{Kind, Metric};

/// Numbers in an answer.
const NUMBERS_MAX: usize = 400_000;

#[derive(Serialize)]
struct NvlinkMetric {
    host: String,
    metrics: Vec<MetricListed>,
    metric: &'static str,
    fold: &'static str,
    from_ms: i64,
    to_ms: i64,
    step_seconds: f64,
    times_ms: Vec<i64>,
    series: Vec<MetricSeries>,
}

#[derive(Serialize)]
struct MetricListed {
    metric: &'static str,
    help: &'static str,
    origin: &'static str,
    unit: &'static str,
    is_rate: bool,
}

/// A GPU's link, or all links of a GPU.
#[derive(Serialize)]
struct MetricSeries {
    gpu: i32,
    link: Option<i32>,
    remote: Option<String>,
    values: Values,
}

/// `GET /nodes/{host}/nvlink`.
pub async fn nvlink(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    let (from, to) = request.last_hour()?;
    let points = request.points()?;
    let words: Vec<(&str, &'static Metric)> =
        nvlink_metrics::metrics().iter().map(|metric| (metric.name, *metric)).collect();
    let metric = request.word("metric", &words)?;
    let by_link = request.word("fold", &[("gpu", false), ("link", true)])?;
    let only = match request.text("gpu")? {
        Some(_) => Some(request.number("gpu", 0, 0, i32::MAX)?),
        None => None,
    };
    request.done()?;
    let grid = Grid::new(from, to, points);
    let (host, series) = api
        .query(async |client| {
            let name = request.path("host");
            let at = QueryTime::Time(grid.to());
            let Some(host) = nodes::hosts(client, &[name], QueryTime::Latest).await?.pop() else {
                let message = format!("no agent reports host {name}");
                return Err(ApiError::not_found(
                    message,
                    "/api/v1/nodes lists the hosts that have or had an agent",
                ));
            };
            let mut gpus = nodes::gpus(client, &[host.id], at).await?;
            gpus.retain(|gpu| gpu.parent.is_none());
            let wanted = gpus.iter().filter(|gpu| only.is_none_or(|only| gpu.index == only));
            let ids: Vec<i64> = wanted.map(|gpu| gpu.id).collect();
            let links = nodes::gpu_links(client, &ids, at).await?;
            if links.len() * grid.steps > NUMBERS_MAX {
                let message = format!("{} links in {} steps", links.len(), grid.steps);
                let limit = format!("{NUMBERS_MAX} numbers");
                return Err(ApiError::over_limit(&limit, message, "give fewer `points`, or one `gpu`"));
            }
            let values = nvlink_metrics::values(client, metric, &ids, &grid).await?;
            let mut members: BTreeMap<(i32, Option<i32>), Vec<&Values>> = BTreeMap::new();
            for ((gpu, link), values) in &values {
                let Some(gpu) = gpus.iter().find(|known| known.id == *gpu) else { continue };
                let link = by_link.then(|| i32::try_from(*link).unwrap_or(i32::MAX));
                members.entry((gpu.index, link)).or_default().push(values);
            }
            let remote = |index: i32, link: Option<i32>| {
                let gpu = gpus.iter().find(|gpu| gpu.index == index)?;
                let end = links.iter().find(|known| known.gpu == gpu.id && Some(known.link) == link)?;
                let other = end.remote_gpu.and_then(|id| gpus.iter().find(|gpu| gpu.id == id));
                Some(other.map_or_else(|| end.remote_kind.clone(), |gpu| format!("GPU {}", gpu.index)))
            };
            let series = members.into_iter().map(|((gpu, link), members)| MetricSeries {
                gpu,
                link,
                remote: remote(gpu, link),
                values: folded(metric, &members, grid.steps),
            });
            Ok((host.name, series.collect::<Vec<_>>()))
        })
        .await?;
    let listed = |metric: &&'static Metric| MetricListed {
        metric: metric.name,
        help: metric.help,
        origin: metric.origin,
        unit: metric.unit.name(),
        is_rate: metric.kind == Kind::Counter,
    };
    let response = NvlinkMetric {
        host,
        metrics: nvlink_metrics::metrics().iter().map(listed).collect(),
        metric: metric.name,
        fold: if by_link { "link" } else { "gpu" },
        from_ms: grid.from,
        to_ms: grid.to(),
        step_seconds: jobs::step_seconds(&grid),
        times_ms: grid.ends(),
        series,
    };
    let size_hint = response.series.len() * grid.steps * 10;
    Ok(answer::body_aside(response, size_hint).await?.response(&request.headers, None))
}

/// Of a counter and of speeds the sum over links, of other gauges the largest: a ratio of errors is not added up.
fn folded(metric: &Metric, members: &[&Values], steps: usize) -> Values {
    let is_sum = metric.kind == Kind::Counter || matches!(metric.name, "speed_bytes_per_second" | "up");
    let step = |step: usize| {
        let values = members.iter().map(|values| values.get(step).copied().flatten());
        if is_sum { sum(values) } else { values.flatten().reduce(f64::max) }
    };
    (0..steps).map(step).collect()
}
