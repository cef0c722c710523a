//! `/jobs/{job}/lanes` and `/jobs/{job}/link-lanes`: what stands on a job's time axis beside its MPI calls.

use super::super::fabric::{end_name, share};
use super::super::link_rates::{Fold, LinkResponse, of_hosts};
use super::super::own_devices::OwnDevices;
use super::super::request::ApiRequest;
use super::super::{Api, answer};
use super::link_shares::end;
use super::{find, places, span, step_seconds};
use crate::api_error::ApiError;
use axum::extract::State;
use axum::response::Response;
use std::collections::BTreeSet;
use std::sync::Arc;
use throughline_api::lanes::{JobLanes, Lane, LaneSeries};
use throughline_query::clocks::clocks;
use throughline_query::job_gpus;
use throughline_query::jobs::ranks;
use throughline_query::link_shares::{self, PortTraffic};
use throughline_query::links::Series;
use throughline_query::long_range::LongRange;
use throughline_query::nodes::{self, Host};
use throughline_query::rates::{self, CountedLink};
use throughline_query::time::{Grid, QueryTime};
use tokio_postgres::Client;

/// Hosts of an answer without `host`: a page shows no more lanes.
const HOSTS_MAX: usize = 16;

/// Directions of links that are listed, unless the request has another number; and the most.
const LINKS: (usize, usize) = (8, 32);

/// Which lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LaneFilter {
    All,
    Nvlink,
    Pcie,
    Port,
}

const WANTED: [(&str, LaneFilter); 4] = [
    ("all", LaneFilter::All),
    ("nvlink", LaneFilter::Nvlink),
    ("pcie", LaneFilter::Pcie),
    ("port", LaneFilter::Port),
];

/// `GET /jobs/{job}/lanes`.
pub async fn lanes(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    let only = request.text("host")?;
    let wanted = request.word("kind", &WANTED)?;
    let points = request.points()?;
    let (_, _) = (request.time("from")?, request.time("to")?);
    request.done()?;
    let lanes = api
        .query(async |client| {
            let job = find(client, request.path("job")).await?;
            let (from, to) = span(&request, client, &job).await?;
            let grid = Grid::new(from, to, points);
            let ranks = ranks(client, job.id).await?;
            let mut names: Vec<String> = places(&ranks).0;
            if let Some(only) = only {
                names.retain(|name| name == only);
                if names.is_empty() {
                    let message = format!("no rank of {} was seen on {only}", job.key);
                    return Err(ApiError::parameter("host", message, "give a host of /api/v1/jobs/{job}"));
                }
            }
            let left_out = names.len().saturating_sub(HOSTS_MAX) as u64;
            names.truncate(HOSTS_MAX);
            let own = OwnDevices::of_job(&ranks, &job_gpus::of_job(client, job.id).await?);
            let lanes = of_nodes(client, &api.long_range, &names, &own, &grid, wanted).await?;
            let clocks = clocks(client, &names, grid.from, grid.to()).await?;
            Ok(JobLanes { lanes, clocks, left_out, ..on(&grid, job.key) })
        })
        .await?;
    let size_hint = lanes.lanes.len() * lanes.times_ms.len() * 40;
    Ok(answer::body_aside(lanes, size_hint).await?.response(&request.headers, None))
}

/// An answer of a grid without lanes.
fn on(grid: &Grid, job_key: String) -> JobLanes {
    JobLanes {
        job_key,
        from_ms: grid.from,
        to_ms: grid.to(),
        step_seconds: step_seconds(grid),
        times_ms: grid.ends(),
        ..JobLanes::default()
    }
}

async fn of_nodes(
    client: &Client,
    long_range: &LongRange,
    names: &[String],
    own: &OwnDevices,
    grid: &Grid,
    wanted: LaneFilter,
) -> Result<Vec<Lane>, ApiError> {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let hosts = nodes::hosts(client, &names, QueryTime::Latest).await?;
    let mut lanes = Vec::new();
    if wanted != LaneFilter::Pcie {
        let is_shown = |link: &LinkResponse| match link.is_port() {
            true => wanted != LaneFilter::Nvlink,
            false => wanted != LaneFilter::Port,
        };
        let (links, _) = of_hosts(client, long_range, &hosts, grid, Fold::Gpu, own).await?;
        lanes.extend(links.into_iter().filter(is_shown).map(LinkResponse::into_lane));
    }
    if matches!(wanted, LaneFilter::All | LaneFilter::Pcie) {
        lanes.extend(pcie(client, &hosts, own, grid).await?);
    }
    // All of a node together.
    let place = |lane: &Lane| names.iter().position(|name| *name == lane.instance).unwrap_or(usize::MAX);
    lanes.sort_by_key(place);
    Ok(lanes)
}

async fn pcie(client: &Client, hosts: &[Host], own: &OwnDevices, grid: &Grid) -> Result<Vec<Lane>, ApiError> {
    let ids: Vec<i64> = hosts.iter().map(|host| host.id).collect();
    let gpus = nodes::gpus(client, &ids, QueryTime::Time(grid.to())).await?;
    let gpus: Vec<(&Host, &nodes::Gpu)> = gpus
        .iter()
        .filter_map(|gpu| Some((hosts.iter().find(|host| host.id == gpu.host)?, gpu)))
        .filter(|(host, gpu)| gpu.parent.is_none() && own.has_gpu(&host.name, &gpu.uuid))
        .collect();
    let ids: Vec<i64> = gpus.iter().map(|(_, gpu)| gpu.id).collect();
    let mut rates = rates::rates(client, CountedLink::GpuPcie, &ids, grid).await?;
    let lane = |(host, gpu): (&Host, &nodes::Gpu)| {
        let rates = rates.remove(&(gpu.id, 0))?;
        let is_shared = own.is_shared(&host.name, &gpu.uuid);
        let shared = if is_shared { " (shared)" } else { "" };
        Some(Lane {
            kind: "pcie".to_owned(),
            name: format!("{} GPU {} PCIe{shared}", host.name, gpu.index),
            instance: host.name.clone(),
            bytes_per_second: gpu.pcie_bytes_per_second,
            is_shared,
            series: both(rates.out, rates.received),
            ..Lane::default()
        })
    };
    Ok(gpus.into_iter().filter_map(lane).collect())
}

/// Bytes per second sent and received.
pub fn both(out: Vec<Option<f64>>, received: Vec<Option<f64>>) -> Vec<LaneSeries> {
    let series = |name: &str, values: Vec<Option<f64>>| LaneSeries {
        name: name.to_owned(),
        unit: "bytes_per_second".to_owned(),
        values: values.into_iter().map(|value| value.map(f64::round)).collect(),
    };
    vec![series("out", out), series("in", received)]
}

/// `GET /jobs/{job}/link-lanes`.
pub async fn link_lanes(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    let limit = request.number("limit", LINKS.0, 1, LINKS.1)?;
    let points = request.points()?;
    let (_, _) = (request.time("from")?, request.time("to")?);
    request.done()?;
    let lanes = api
        .query(async |client| {
            let job = find(client, request.path("job")).await?;
            let (from, to) = span(&request, client, &job).await?;
            let grid = Grid::new(from, to, points);
            let source = link_shares::Source::read(client).await?;
            // A window is named by its end, which may lie behind the end of a short job.
            let windows = link_shares::grid(from, to, points, &source);
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let (count, ports) =
                link_shares::of_job(client, job.id, windows.from, windows.to(), limit, &source).await?;
            let ids: Vec<i64> = ports.iter().map(|port| port.port).collect();
            let sent = link_shares::sent(client, &ids, &windows, &source).await?;
            let series = api.long_range.port_series(client, &ids, &grid).await?;
            let mut places = link_shares::places(client, &ids).await?;
            let remote: Vec<i64> = places.values().filter_map(|place| place.remote).collect();
            places.extend(link_shares::places(client, &remote).await?);
            let lane = |port: &link_shares::JobPort| {
                let place = places.get(&port.port)?;
                let from = end(place);
                let name = match place.remote.and_then(|remote| places.get(&remote)).map(end) {
                    Some(to) => format!("{} → {}", end_name(&from), end_name(&to)),
                    None => end_name(&from),
                };
                Some(Lane {
                    kind: "link".to_owned(),
                    name,
                    instance: place.subnet.clone(),
                    is_shared: false,
                    link: Some(format!("{}.{}", from.guid, from.port)),
                    bytes_per_second: Some(port.bytes_per_second).filter(|speed| *speed > 0),
                    series: of_link(
                        series.get(&port.port),
                        sent.get(&port.port),
                        job.id,
                        port.bytes_per_second,
                        [&grid, &windows],
                    ),
                })
            };
            let lanes: Vec<Lane> = ports.iter().filter_map(lane).collect();
            let subnets: BTreeSet<String> = lanes.iter().map(|lane| lane.instance.clone()).collect();
            let subnets: Vec<String> = subnets.into_iter().collect();
            Ok(JobLanes {
                left_out: count.saturating_sub(lanes.len() as u64),
                clocks: clocks(client, &subnets, grid.from, grid.to()).await?,
                window_seconds: Some(step_seconds(&windows)),
                window_times_ms: windows.ends(),
                lanes,
                ..on(&grid, job.key)
            })
        })
        .await?;
    let size_hint = lanes.lanes.len() * lanes.times_ms.len() * 40;
    Ok(answer::body_aside(lanes, size_hint).await?.response(&request.headers, None))
}

/// Of one direction: how full it is, the job's part of that, and how long data waited.
fn of_link(
    counted: Option<&Series>,
    sent: Option<&PortTraffic>,
    job: i64,
    speed: i64,
    [grid, windows]: [&Grid; 2],
) -> Vec<LaneSeries> {
    let shares = |of: fn(&Series) -> &Vec<Option<f64>>| -> Vec<Option<f64>> {
        let value = |step: usize| {
            let series = counted?;
            of(series)
                .get(step)
                .copied()
                .flatten()
                .and_then(|rate| share(rate, series.speed.get(step).copied().flatten(), speed))
        };
        (0..grid.steps).map(value).collect()
    };
    let own = |step: usize| {
        let sent = sent?;
        let windows = sent.steps.get(step)?.windows;
        let own = sent.parts.iter().filter(|(who, _)| who.job == Some(job));
        let bytes = own.map(|(_, (_, steps))| steps.get(step).copied().unwrap_or(0)).sum();
        link_shares::rate(bytes, windows).and_then(|rate| share(rate, None, speed))
    };
    let series = |name: &str, values: Vec<Option<f64>>| LaneSeries {
        name: name.to_owned(),
        unit: "share".to_owned(),
        values,
    };
    vec![
        series("used", shares(|series| &series.out)),
        series("waiting", shares(|series| &series.waiting)),
        series("own", (0..windows.steps).map(own).collect()),
    ]
}
