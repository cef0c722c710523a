//! `/jobs/{job}/broadcast`: bytes a second of a job's broadcasts by rank, and the PCIe links of its hosts' adapters.

use super::super::pcie::{PortOf, pcie_of};
use super::super::request::ApiRequest;
use super::super::{Api, answer};
use super::list::find;
use crate::api_error::ApiError;
use axum::extract::State;
use axum::response::Response;
use std::collections::HashMap;
use std::sync::Arc;
use throughline_api::broadcast::{BroadcastAdapter, BroadcastHost, BroadcastRanks, JobBroadcast};
use throughline_query::as_of::{self, AsOf};
use throughline_query::broadcast::{self, RankBroadcast};
use throughline_query::jobs::{self, Job, Rank};
use throughline_query::nodes;
use throughline_query::rates::{self, CountedLink};
use throughline_query::time::{Grid, QueryTime, now};
use tokio_postgres::Client;

/// Time over which the ports' bytes are averaged at most, milliseconds: the job's last hour.
const SPAN_MS: i64 = 3_600_000;
/// Shortest time, milliseconds: some readings.
const SHORTEST_MS: i64 = 10_000;
/// Hosts whose adapters are listed.
const HOSTS_MAX: usize = 1_024;

/// `GET /jobs/{job}/broadcast`.
pub async fn broadcast(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    request.done()?;
    let response = api
        .query(async |client| {
            let job = find(client, request.path("job")).await?;
            let ranks = jobs::ranks(client, job.id).await?;
            let as_of = as_of::ranks(client, job.id).await?;
            let cells = broadcast::cells(client, job.id, as_of.as_ref()).await?;
            let by_rank = broadcast::by_rank(&cells, ranks.len());
            let grid = span(&job, now(client).await?);
            // Without broadcasts its hosts are of no interest here.
            let hosts = if by_rank.is_empty() { Vec::new() } else { hosts(client, &ranks, &grid).await? };
            let ranks = columns(&by_rank, &ranks);
            let as_of = as_of.as_ref().map(AsOf::described);
            Ok(JobBroadcast { job_key: job.key, as_of, from_ms: grid.from, to_ms: grid.to(), hosts, ranks })
        })
        .await?;
    answer::json(&response, &request.headers)
}

/// The job's last hour as one step.
fn span(job: &Job, now: i64) -> Grid {
    let to = job.end.unwrap_or(now);
    let from = job.start.unwrap_or(to).max(to - SPAN_MS).min(to - SHORTEST_MS);
    Grid { from, step: to - from, steps: 1 }
}

fn columns(by_rank: &[RankBroadcast], ranks: &[Rank]) -> BroadcastRanks {
    let host_of: HashMap<i32, &str> = ranks.iter().map(|rank| (rank.rank, rank.host.as_str())).collect();
    let mut columns = BroadcastRanks::default();
    for rank in by_rank {
        #[allow(clippy::cast_precision_loss)] // below 2^53
        let rate = |bytes: i64| {
            (rank.elapsed_seconds > 0.0).then(|| answer::rounded(bytes as f64 / rank.elapsed_seconds))
        };
        columns.rank.push(rank.rank);
        columns.host.push(host_of.get(&rank.rank).map(|host| (*host).to_owned()));
        columns.calls.push(rank.calls);
        columns.sent_bytes.push(rank.sent_bytes);
        columns.received_low_bytes.push(rank.received_low_bytes);
        columns.received_high_bytes.push(rank.received_high_bytes);
        columns.kind.push(if rank.is_bound { "bound" } else { "modelled" }.to_owned());
        columns.elapsed_seconds.push(rank.elapsed_seconds);
        columns.low_bytes_per_second.push(rate(rank.received_low_bytes));
        columns.high_bytes_per_second.push(rate(rank.received_high_bytes));
    }
    columns
}

/// Adapters of the hosts of ranks, in the order of these, and what their ports carried on average.
async fn hosts(client: &Client, ranks: &[Rank], grid: &Grid) -> Result<Vec<BroadcastHost>, ApiError> {
    let mut names: Vec<&str> = Vec::new();
    for rank in ranks {
        if !names.contains(&rank.host.as_str()) && names.len() < HOSTS_MAX {
            names.push(&rank.host);
        }
    }
    let at = QueryTime::Time(grid.to());
    let known = nodes::hosts(client, &names, at).await?;
    let ids: Vec<i64> = known.iter().map(|host| host.id).collect();
    let ports = nodes::ports(client, &ids, at).await?;
    let port_ids: Vec<i64> = ports.iter().map(|port| port.id).collect();
    let rates = rates::rates(client, CountedLink::Port, &port_ids, grid).await?;
    let pcie = nodes::pcie(client, &port_ids, grid.to()).await?;
    let adapters = |host: i64| {
        let own: Vec<PortOf<'_>> = ports
            .iter()
            .filter(|port| port.host == host)
            .map(|port| {
                let rates = rates.get(&(port.id, 0));
                let last = |steps: Option<&Vec<Option<f64>>>| {
                    steps.and_then(|steps| steps.last().copied().flatten())
                };
                PortOf {
                    device: &port.device,
                    pcie_bytes_per_second: pcie.get(&port.id).copied(),
                    bytes_per_second: port
                        .bytes_per_second
                        .or(rates.and_then(|rates| rates.bytes_per_second)),
                    out: last(rates.map(|rates| &rates.out)),
                    received: last(rates.map(|rates| &rates.received)),
                }
            })
            .collect();
        let mut devices: Vec<&str> = own.iter().map(|port| port.device).collect();
        devices.dedup();
        let sum = |device: &str, value: fn(&PortOf<'_>) -> Option<f64>| {
            own.iter().filter(|port| port.device == device).map(value).sum::<Option<f64>>().map(f64::round)
        };
        let adapter = |device: &str| BroadcastAdapter {
            device: device.to_owned(),
            out_bytes_per_second: sum(device, |port| port.out),
            in_bytes_per_second: sum(device, |port| port.received),
            pcie: pcie_of(&own, device),
        };
        devices.into_iter().map(adapter).collect()
    };
    Ok(known.into_iter().map(|host| BroadcastHost { adapters: adapters(host.id), host: host.name }).collect())
}
