//! `/jobs/{job}/gpu-traffic`: NVLinks of a job's GPUs beside the messages of its ranks.

use super::super::request::ApiRequest;
use super::super::{Api, answer};
use super::{find, places, span, step_seconds};
use crate::api_error::ApiError;
use axum::extract::State;
use axum::response::Response;
use std::collections::BTreeMap;
use std::sync::Arc;
use throughline_api::gpu_traffic::{GpuTraffic, GpuTrafficTotals, HostGpuTraffic, OperationTraffic};
use throughline_query::gpu_traffic::{self, GpuGroup, LinkTraffic, OperationBytes};
use throughline_query::jobs::{Job, ranks};
use throughline_query::nodes::{self, Host};
use throughline_query::time::{Grid, QueryTime};
use throughline_query::{as_of, jobs};
use tokio_postgres::Client;

/// Hosts of an answer: a job does much the same on all of them.
const HOSTS_MAX: usize = 16;

/// The last reading of links comes so long after the last message, milliseconds.
const AFTER_END_MS: i64 = 1_000;

/// `GET /jobs/{job}/gpu-traffic`.
pub async fn gpu_traffic(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    let only = request.text("host")?;
    let points = request.points()?;
    let (_, _) = (request.time("from")?, request.time("to")?);
    request.done()?;
    let traffic = api
        .query(async |client| {
            let job = find(client, request.path("job")).await?;
            let (from, to) = span(&request, client, &job).await?;
            let (from, to) = (from.max(job.start.unwrap_or(from)), until(client, &job, to).await?);
            let grid = gpu_traffic::grid(from.min(to - 1), to, points);
            let ranks = ranks(client, job.id).await?;
            let names: Vec<String> = places(&ranks).0;
            let shown = |name: &&String| only.is_none_or(|only| *name == only);
            let left_out = names.iter().filter(shown).count().saturating_sub(HOSTS_MAX) as u64;
            let shown: Vec<&str> = names.iter().filter(shown).take(HOSTS_MAX).map(String::as_str).collect();
            let hosts = of_hosts(client, &api, &job, (&shown, &names), &ranks, &grid).await?;
            Ok(GpuTraffic {
                job_key: job.key,
                from_ms: grid.from,
                to_ms: grid.to(),
                step_seconds: step_seconds(&grid),
                times_ms: grid.ends(),
                hosts,
                left_out,
            })
        })
        .await?;
    let size_hint = traffic.hosts.len() * traffic.times_ms.len() * 100;
    Ok(answer::body_aside(traffic, size_hint).await?.response(&request.headers, None))
}

/// The end of a range, of a job that runs as of its sums: later bytes of NVLinks would have no messages beside them.
async fn until(client: &Client, job: &Job, to: i64) -> Result<i64, ApiError> {
    if let Some(end) = job.end {
        return Ok(to.min(end + AFTER_END_MS));
    }
    let known = as_of::sums(client, &[job.id]).await?;
    Ok(known.get(&job.id).map_or(to, |known| to.min(known.milliseconds())))
}

async fn of_hosts(
    client: &Client,
    api: &Api,
    job: &Job,
    (shown, names): (&[&str], &[String]),
    ranks: &[jobs::Rank],
    grid: &Grid,
) -> Result<Vec<HostGpuTraffic>, ApiError> {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let hosts = nodes::hosts(client, &names, QueryTime::Latest).await?;
    let ids: Vec<i64> = hosts.iter().map(|host| host.id).collect();
    let gpus = nodes::gpus(client, &ids, QueryTime::Time(grid.to())).await?;
    let (all, unknown) = gpu_traffic::groups(&hosts, &gpus, ranks);
    let hosts: Vec<Host> = hosts.into_iter().filter(|host| shown.contains(&host.name.as_str())).collect();
    let is_shown = |group: &&GpuGroup| hosts.iter().any(|host| host.id == group.host);
    let groups: Vec<GpuGroup> = all.iter().filter(is_shown).cloned().collect();
    if groups.is_empty() && unknown.is_empty() {
        return Ok(Vec::new());
    }
    let links = gpu_traffic::links(client, &api.long_range, &groups, grid).await?;
    let operations = gpu_traffic::operations(client, job.id, (&groups, &all), grid).await?;
    let of_host = |host: &Host| {
        let own = |place: &usize| groups.get(*place).is_some_and(|group| group.host == host.id);
        let places: Vec<usize> = (0..groups.len()).filter(own).collect();
        let has_gpus = gpus.iter().any(|gpu| gpu.host == host.id);
        if unknown.contains(&host.id) && has_gpus {
            let unknown = Some("it is not known which GPUs some of the job's ranks here use".to_owned());
            return Some(HostGpuTraffic { host: host.name.clone(), unknown, ..HostGpuTraffic::default() });
        }
        let has_links = places.iter().any(|place| links.get(*place).is_some_and(|link| link.links > 0));
        has_links.then(|| HostGpuTraffic {
            host: host.name.clone(),
            ..one(&places, &groups, &links, &operations, grid)
        })
    };
    Ok(hosts.iter().filter_map(of_host).collect())
}

/// One host, by the places of its groups.
fn one(
    places: &[usize],
    groups: &[GpuGroup],
    links: &[LinkTraffic],
    operations: &[OperationBytes],
    grid: &Grid,
) -> HostGpuTraffic {
    let sum = |of: fn(&LinkTraffic) -> &Vec<Option<f64>>| -> Vec<Option<f64>> {
        let step = |step: usize| places.iter().map(|place| of(links.get(*place)?).get(step).copied()?).sum();
        (0..grid.steps).map(step).collect()
    };
    let received = sum(|links| &links.received);
    let is_read: Vec<bool> = received.iter().map(Option::is_some).collect();
    let seconds = step_seconds(grid);
    let within = |values: &[f64]| -> f64 {
        values.iter().zip(&is_read).filter(|(_, is_read)| **is_read).map(|(value, _)| value).sum()
    };
    let mut totals = GpuTrafficTotals {
        #[allow(clippy::cast_precision_loss)] // steps
        seconds: seconds * is_read.iter().filter(|is_read| **is_read).count() as f64,
        ranks_share_gpus: places.iter().any(|place| groups[*place].ranks.len() > 1),
        ..GpuTrafficTotals::default()
    };
    let mut read = 0.0;
    let mut by_operation: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for place in places {
        let carried: Vec<f64> =
            links[*place].received.iter().map(|rate| rate.unwrap_or_default() * seconds).collect();
        let own = operations.iter().filter(|operation| operation.group == *place);
        let mut meant = 0.0;
        for operation in own {
            let sum = if operation.is_read { &mut read } else { &mut meant };
            *sum += within(&operation.bytes);
            let all = by_operation.entry(&operation.operation).or_insert_with(|| vec![0.0; grid.steps]);
            all.iter_mut().zip(&operation.bytes).for_each(|(all, bytes)| *all += bytes);
        }
        let carried = within(&carried);
        totals.nvlink_bytes += carried;
        totals.mpi_bytes += meant;
        totals.explained_bytes += carried.min(meant);
    }
    // Whose GPU it came into is not known.
    totals.mpi_bytes += read;
    totals.explained_bytes = (totals.explained_bytes + read).min(totals.nvlink_bytes);
    totals.residual_bytes = totals.nvlink_bytes - totals.explained_bytes;
    totals.explained_share =
        (totals.nvlink_bytes > 0.0).then(|| totals.explained_bytes / totals.nvlink_bytes);
    let mut operations: Vec<OperationTraffic> = by_operation
        .into_iter()
        .map(|(operation, bytes)| OperationTraffic {
            operation: operation.to_owned(),
            bytes: bytes.iter().sum(),
            values: bytes.iter().map(|bytes| answer::rounded(bytes / seconds)).collect(),
        })
        .collect();
    operations.sort_by(|one, other| other.bytes.total_cmp(&one.bytes));
    let rounded = |rates: Vec<Option<f64>>| rates.into_iter().map(|rate| rate.map(f64::round)).collect();
    let mut gpus: Vec<i32> = places.iter().flat_map(|place| groups[*place].indices.clone()).collect();
    gpus.sort_unstable();
    HostGpuTraffic {
        domain: places.iter().find_map(|place| groups[*place].domain.clone()),
        gpus,
        received: rounded(received),
        sent: rounded(sum(|links| &links.sent)),
        operations,
        totals: (totals.seconds > 0.0).then_some(totals),
        ..HostGpuTraffic::default()
    }
}
