//! `/nodes/{host}/rates` and `/jobs/{job}/links`: NVLinks and ports of hosts over time.

use super::nodes::{ports_of_fabric, sum};
use super::own_devices::OwnDevices;
use super::request::ApiRequest;
use super::{Api, answer, jobs};
use crate::api_error::ApiError;
use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use throughline_api::lanes::Lane;
use throughline_query::fabric_hosts;
use throughline_query::job_gpus;
use throughline_query::jobs::ranks;
use throughline_query::long_range::LongRange;
use throughline_query::nodes::{self, Host};
use throughline_query::rates::{CountedLink, Rates};
use throughline_query::time::{Grid, QueryTime};
use tokio_postgres::Client;

/// Readings that one request may take: each is a step of an index, some microseconds.
const READINGS_MAX: usize = 400_000;

/// Numbers in an answer.
const NUMBERS_MAX: usize = 1_000_000;

/// What is summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fold {
    Link,
    Gpu,
    Host,
}

const FOLDS: [(&str, Fold); 3] = [("link", Fold::Link), ("gpu", Fold::Gpu), ("host", Fold::Host)];

#[derive(Serialize)]
struct LinkRates {
    from_ms: i64,
    to_ms: i64,
    step_seconds: f64,
    times_ms: Vec<i64>,
    fold: &'static str,
    links: Vec<LinkResponse>,
}

/// A link, or a sum of links, over time.
#[derive(Serialize)]
pub struct LinkResponse {
    kind: &'static str,
    host: String,
    name: String,
    gpu: Option<i32>,
    link: Option<i32>,
    device: Option<String>,
    port: Option<i32>,
    count: usize,
    /// Of a job: what is counted may be others' as well.
    is_shared: bool,
    bytes_per_second: Option<i64>,
    out: Vec<Option<f64>>,
    #[serde(rename = "in")]
    received: Vec<Option<f64>>,
}

impl LinkResponse {
    /// Whether it is a port of an adapter.
    pub fn is_port(&self) -> bool {
        self.kind == "port"
    }

    /// As a lane of a job's time axis.
    pub fn into_lane(self) -> Lane {
        let name = if self.gpu.is_some() { format!("{} NVLink", self.name) } else { self.name };
        let name = if self.is_shared { format!("{name} (shared)") } else { name };
        Lane {
            is_shared: self.is_shared,
            kind: self.kind.to_owned(),
            name,
            instance: self.host,
            link: None,
            bytes_per_second: self.bytes_per_second,
            series: jobs::both(self.out, self.received),
        }
    }
}

/// What a series stands for: the place of the host, the kind, and what is not summed over.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    host: usize,
    is_port: bool,
    gpu: Option<i32>,
    link: Option<i32>,
    device: Option<String>,
    port: Option<i32>,
}

/// `GET /nodes/{host}/rates`.
pub async fn node(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    let (from, to) = request.last_hour()?;
    let (points, fold) = (request.points()?, fold(&request, Fold::Link)?);
    request.done()?;
    let grid = Grid::new(from, to, points);
    let response = api
        .query(async |client| {
            let name = request.path("host");
            match nodes::hosts(client, &[name], QueryTime::Latest).await?.pop() {
                Some(host) => {
                    of_hosts(client, &api.long_range, &[host], &grid, fold, &OwnDevices::all()).await
                }
                None => of_fabric(client, &api.long_range, name, &grid, fold).await,
            }
        })
        .await?;
    respond(response, &grid, &request).await
}

/// `GET /jobs/{job}/links`.
pub async fn job(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    let only = request.text("host")?;
    let usual = if only.is_some() { Fold::Link } else { Fold::Host };
    let (points, fold) = (request.points()?, fold(&request, usual)?);
    let (_, _) = (request.time("from")?, request.time("to")?);
    request.done()?;
    let (response, grid) = api
        .query(async |client| {
            let job = jobs::find(client, request.path("job")).await?;
            let (from, to) = jobs::span(&request, client, &job).await?;
            let grid = Grid::new(from, to, points);
            let ranks = ranks(client, job.id).await?;
            let own = OwnDevices::of_job(&ranks, &job_gpus::of_job(client, job.id).await?);
            let mut names: Vec<String> = jobs::places(&ranks).0;
            if let Some(only) = only {
                names.retain(|name| name == only);
                if names.is_empty() {
                    let message = format!("no rank of {} was seen on {only}", job.key);
                    return Err(ApiError::parameter("host", message, "give a host of /api/v1/jobs/{job}"));
                }
            }
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let hosts = nodes::hosts(client, &names, QueryTime::Latest).await?;
            Ok((of_hosts(client, &api.long_range, &hosts, &grid, fold, &own).await?, grid))
        })
        .await?;
    respond(response, &grid, &request).await
}

fn fold(request: &ApiRequest, usual: Fold) -> Result<Fold, ApiError> {
    match request.text("fold")? {
        Some(_) => request.word("fold", &FOLDS),
        None => Ok(usual),
    }
}

async fn respond(
    (links, fold): (Vec<LinkResponse>, Fold),
    grid: &Grid,
    request: &ApiRequest,
) -> Result<Response, ApiError> {
    let response = LinkRates {
        from_ms: grid.from,
        to_ms: grid.to(),
        step_seconds: jobs::step_seconds(grid),
        times_ms: grid.ends(),
        fold: FOLDS.iter().find(|(_, known)| *known == fold).map_or("", |(name, _)| name),
        links,
    };
    let size_hint = response.links.len() * grid.steps * 20;
    Ok(answer::body_aside(response, size_hint).await?.response(&request.headers, None))
}

/// Ports of a host without an agent by the fabric's counters, the whole of the sums where one is wanted.
async fn of_fabric(
    client: &Client,
    long_range: &LongRange,
    name: &str,
    grid: &Grid,
    fold: Fold,
) -> Result<(Vec<LinkResponse>, Fold), ApiError> {
    let ports = ports_of_fabric(client, name, QueryTime::Latest).await?;
    let rates = fabric_hosts::rates(client, long_range, &ports, grid).await?;
    let mut sums: BTreeMap<Key, Vec<(Option<i64>, &Rates)>> = BTreeMap::new();
    for (port, rates) in ports.iter().zip(&rates) {
        let by_port = fold != Fold::Host;
        let key = Key {
            host: 0,
            is_port: true,
            gpu: None,
            link: None,
            device: by_port.then(|| port.device.clone()),
            port: by_port.then_some(port.port),
        };
        sums.entry(key).or_default().push((port.bytes_per_second, rates));
    }
    let host = Host { id: 0, name: name.to_owned(), boot: None };
    let links = sums.into_iter().map(|(key, members)| link(key, &members, std::slice::from_ref(&host), grid));
    Ok((links.collect(), fold))
}

/// NVLinks and ports of hosts in the steps of a grid.
///
/// # Errors
/// Too many readings or numbers; the database's, or a server of PromQL's.
pub async fn of_hosts(
    client: &Client,
    long_range: &LongRange,
    hosts: &[Host],
    grid: &Grid,
    fold: Fold,
    own: &OwnDevices,
) -> Result<(Vec<LinkResponse>, Fold), ApiError> {
    let host_of = |id: i64| hosts.iter().find(|host| host.id == id).map_or("", |host| host.name.as_str());
    // What was there at the end of the range; a GPU that was replaced since is another one.
    let at = QueryTime::Time(grid.to());
    let ids: Vec<i64> = hosts.iter().map(|host| host.id).collect();
    let mut gpus = nodes::gpus(client, &ids, at).await?;
    gpus.retain(|gpu| own.has_gpu(host_of(gpu.host), &gpu.uuid));
    let mut ports = nodes::ports(client, &ids, at).await?;
    ports.retain(|port| own.has_port(host_of(port.host), &port.device, port.port));
    let readings = (gpus.len() + ports.len()) * (grid.steps + 1);
    if readings > READINGS_MAX {
        let message = format!(
            "{} GPUs and {} ports in {} steps are {readings} readings; the most is {READINGS_MAX}",
            gpus.len(),
            ports.len(),
            grid.steps
        );
        return Err(ApiError::over_limit(
            &format!("{READINGS_MAX} readings"),
            message,
            "give fewer `points`, or one `host`",
        ));
    }
    let gpu_ids: Vec<i64> = gpus.iter().map(|gpu| gpu.id).collect();
    let links = nodes::gpu_links(client, &gpu_ids, at).await?;
    let nvlinks = long_range.rates(client, CountedLink::Nvlinks, &gpu_ids, grid).await?;
    let port_ids: Vec<i64> = ports.iter().map(|port| port.id).collect();
    let port_rates = long_range.rates(client, CountedLink::Port, &port_ids, grid).await?;
    let place = |id: i64| hosts.iter().position(|host| host.id == id).unwrap_or(0);
    let mut sums: BTreeMap<Key, Vec<(Option<i64>, &Rates)>> = BTreeMap::new();
    let mut shared = BTreeSet::new();
    for link in links.iter().filter(|link| link.is_active) {
        let Some(gpu) = gpus.iter().find(|gpu| gpu.id == link.gpu) else { continue };
        let element = usize::try_from(link.link).unwrap_or(usize::MAX);
        let Some(rates) = nvlinks.get(&(link.gpu, element)) else { continue };
        let key = Key {
            host: place(gpu.host),
            is_port: false,
            gpu: (fold != Fold::Host).then_some(gpu.index),
            link: (fold == Fold::Link).then_some(link.link),
            device: None,
            port: None,
        };
        if own.is_shared(host_of(gpu.host), &gpu.uuid) {
            shared.insert(key.clone());
        }
        sums.entry(key).or_default().push((rates.bytes_per_second.or(link.bytes_per_second), rates));
    }
    for port in &ports {
        let Some(rates) = port_rates.get(&(port.id, 0)) else { continue };
        let key = Key {
            host: place(port.host),
            is_port: true,
            gpu: None,
            link: None,
            device: (fold != Fold::Host).then(|| port.device.clone()),
            port: (fold != Fold::Host).then_some(port.port),
        };
        sums.entry(key).or_default().push((rates.bytes_per_second.or(port.bytes_per_second), rates));
    }
    if sums.len() * grid.steps * 2 > NUMBERS_MAX {
        let message = format!("{} links in {} steps", sums.len(), grid.steps);
        let remedy = "give fewer `points`, one `host`, or fold=gpu or fold=host";
        return Err(ApiError::over_limit(&format!("{NUMBERS_MAX} numbers"), message, remedy));
    }
    let links = sums.into_iter().map(|(key, members)| {
        let is_shared = shared.contains(&key);
        LinkResponse { is_shared, ..link(key, &members, hosts, grid) }
    });
    Ok((links.collect(), fold))
}

fn link(key: Key, members: &[(Option<i64>, &Rates)], hosts: &[Host], grid: &Grid) -> LinkResponse {
    let host = hosts.get(key.host).map_or(String::new(), |host| host.name.clone());
    let name = match (&key.device, key.gpu, key.link) {
        (Some(device), _, _) => format!("{host} {device} port {}", key.port.unwrap_or(1)),
        (None, Some(gpu), Some(link)) => format!("{host} GPU {gpu} link {link}"),
        (None, Some(gpu), None) => format!("{host} GPU {gpu}"),
        _ if key.is_port => format!("{host} ports"),
        _ => format!("{host} NVLink"),
    };
    let summed = |of: fn(&Rates) -> &Vec<Option<f64>>| {
        let step = |step: usize| {
            sum(members.iter().map(|(_, rates)| of(rates).get(step).copied().flatten())).map(f64::round)
        };
        (0..grid.steps).map(step).collect()
    };
    LinkResponse {
        kind: if key.is_port { "port" } else { "nvlink" },
        host,
        name,
        gpu: key.gpu,
        link: key.link,
        device: key.device,
        port: key.port,
        count: members.len(),
        is_shared: false,
        bytes_per_second: members.iter().filter_map(|(speed, _)| *speed).reduce(i64::saturating_add),
        out: summed(|rates| &rates.out),
        received: summed(|rates| &rates.received),
    }
}
