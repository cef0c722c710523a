//! `/nodes/{host}/gpu-metrics`: a metric of a host's GPUs that the site chose, over time, and which there are.

use super::request::ApiRequest;
use super::{Api, answer, jobs};
use crate::api_error::ApiError;
use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use std::sync::Arc;
use throughline_query::gpu_metrics::{self, ChosenMetric, Fold, RANGE_MS_MAX};
use throughline_query::nodes;
use throughline_query::time::{Grid, QueryTime};

#[derive(Serialize)]
struct GpuMetrics {
    host: String,
    metrics: Vec<MetricListed>,
    metric: Option<String>,
    from_ms: i64,
    to_ms: i64,
    step_seconds: f64,
    times_ms: Vec<i64>,
    series: Vec<MetricSeries>,
}

#[derive(Serialize)]
struct MetricListed {
    metric: String,
    gpus: i64,
    is_rate: bool,
    fold: &'static str,
}

#[derive(Serialize)]
struct MetricSeries {
    gpu: i32,
    uuid: String,
    values: Vec<Option<f64>>,
}

/// `GET /nodes/{host}/gpu-metrics`.
pub async fn gpu_metrics(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    let (from, to) = request.last_hour()?;
    let (name, points) = (request.text("metric")?, request.points()?);
    request.done()?;
    let grid = Grid::new(from, to, points);
    if grid.to() - grid.from > RANGE_MS_MAX {
        let message = "more than a day of a metric that the site chose".to_owned();
        return Err(ApiError::over_limit(
            "a day",
            message,
            "give a shorter time, or query gpu_metric_rates in SQL",
        ));
    }
    let response = api
        .query(async |client| {
            let host = request.path("host");
            let Some(host) = nodes::hosts(client, &[host], QueryTime::Latest).await?.pop() else {
                let remedy = "/api/v1/nodes lists the hosts that have or had an agent";
                return Err(ApiError::not_found(format!("no agent reports host {host}"), remedy));
            };
            let mut gpus = nodes::gpus(client, &[host.id], QueryTime::Time(grid.to())).await?;
            gpus.retain(|gpu| gpu.parent.is_none());
            let ids: Vec<i64> = gpus.iter().map(|gpu| gpu.id).collect();
            let metrics = gpu_metrics::metrics(client, &ids, grid.from, grid.to()).await?;
            let chosen = match name {
                Some(name) => Some(metrics.iter().find(|one| one.name == name).ok_or_else(|| {
                    let known: Vec<&str> = metrics.iter().map(|one| one.name.as_str()).collect();
                    let remedy = match known.as_slice() {
                        [] => "choose it in [cupti] metrics of agent.toml".to_owned(),
                        some => format!("give one of {}", some.join(", ")),
                    };
                    ApiError::parameter(
                        "metric",
                        format!("no GPU of {} has {name} in this time", host.name),
                        &remedy,
                    )
                })?),
                None => None,
            };
            let mut values = match chosen {
                Some(metric) => gpu_metrics::values(client, metric, &ids, &grid).await?,
                None => Default::default(),
            };
            let series = gpus.into_iter().filter_map(|gpu| {
                let values = values.remove(&gpu.id)?;
                let values = values.into_iter().map(|value| value.map(answer::rounded)).collect();
                Some(MetricSeries { gpu: gpu.index, uuid: gpu.uuid, values })
            });
            Ok(GpuMetrics {
                host: host.name.clone(),
                metric: chosen.map(|metric| metric.name.clone()),
                series: series.collect(),
                metrics: metrics.iter().map(listed).collect(),
                from_ms: grid.from,
                to_ms: grid.to(),
                step_seconds: jobs::step_seconds(&grid),
                times_ms: grid.ends(),
            })
        })
        .await?;
    let size_hint = response.series.len() * grid.steps * 10;
    Ok(answer::body_aside(response, size_hint).await?.response(&request.headers, None))
}

fn listed(metric: &ChosenMetric) -> MetricListed {
    let fold = match Fold::of(&metric.name) {
        _ if metric.is_sum => "rate",
        Fold::Mean => "mean",
        Fold::Largest => "largest",
        Fold::Least => "least",
    };
    MetricListed { metric: metric.name.clone(), gpus: metric.gpus, is_rate: metric.is_sum, fold }
}
