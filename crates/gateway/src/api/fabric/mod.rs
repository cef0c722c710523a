//! `/subnets` and `/fabric/…`: topology and load of a subnet; one link and whose bytes are on it, and a job or a
//! multicast group over the map.

mod group;
mod group_traffic;
mod link;
mod link_names;
mod link_place;
mod load;
mod overlay;
mod routes;
mod shape;
mod shares;
pub mod topology;
mod trees;

pub use group::{group, groups};
pub use link::{link, ports_of};
pub use link_names::{guid_with_port, link_name};
pub use load::share;
pub use overlay::job;
pub use shares::{end_name, labels, shares};

use super::answer::{self, Body};
use super::fresh::CachedValue;
use super::request::ApiRequest;
use super::{Api, FRESH};
use crate::api_error::ApiError;
use axum::extract::State;
use axum::response::Response;
use load::Load;
use serde::Serialize;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use throughline_query::fabric::{self, Subnet, Version};
use throughline_query::load::{Window, readings, round};
use throughline_query::time::{self, QueryTime};
use tokio_postgres::Client;
use topology::{Topology, version_name};

/// Topologies that are cached, of all subnets and times: one of 8,008 hosts is about 20 MB.
const KEPT: usize = 8;

/// Window of `load` unless the request has another, seconds: two sweeps at the crawler's usual interval.
const WINDOW_SECONDS: f64 = 10.0;

/// Longest window, seconds.
const WINDOW_SECONDS_MAX: f64 = 86_400.0;

/// Windows of one subnet whose present load is cached: what several pages request at once.
const WINDOWS: usize = 8;

/// What is cached between requests.
#[derive(Debug, Default)]
pub struct FabricCache {
    topologies: Mutex<VecDeque<(i64, Version, Arc<Topology>)>>,
    versions: Mutex<CachedValues<i64, Version>>,
    /// By subnet and window in milliseconds.
    loads: Mutex<CachedValues<(i64, u64), Body>>,
}

/// Values about the present, each by the thing that it belongs to.
type CachedValues<K, T> = HashMap<K, Arc<CachedValue<T>>>;

#[derive(Serialize)]
struct Subnets {
    subnets: Vec<SubnetResponse>,
}

#[derive(Serialize)]
struct SubnetResponse {
    subnet: String,
    prefix: Option<String>,
    subnet_manager: Option<String>,
    switches: i64,
    adapters: i64,
    links: i64,
    changed_ms: Option<i64>,
    swept_ms: Option<i64>,
}

/// `GET /subnets`.
pub async fn subnets(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    request.done()?;
    let subnets = api
        .query(async |client| {
            let mut response = Vec::new();
            for subnet in fabric::subnets(client).await? {
                let count = fabric::count(client, subnet.id).await?;
                let version = fabric::version(client, subnet.id, QueryTime::Latest).await?;
                response.push(SubnetResponse {
                    subnet: subnet.name,
                    prefix: subnet.prefix,
                    subnet_manager: subnet.subnet_manager,
                    switches: count.switches,
                    adapters: count.adapters,
                    links: count.links,
                    changed_ms: version.changed.map(|micros| micros / 1000),
                    swept_ms: count.swept,
                });
            }
            Ok(response)
        })
        .await?;
    answer::json(&Subnets { subnets }, &request.headers)
}

/// `GET /fabric/{subnet}/topology`.
pub async fn topology(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    let at = request.at()?;
    request.done()?;
    let topology = api
        .query(async |client| {
            let subnet = subnet(client, request.path("subnet")).await?;
            api.topology(client, &subnet, at).await
        })
        .await?;
    Ok(topology.body.response(&request.headers, Some(&topology.version)))
}

/// `GET /fabric/{subnet}/load`.
pub async fn load(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    let at = request.at()?;
    let seconds = window_seconds(&request)?;
    request.done()?;
    let prefix = request.path("subnet");
    let body = match at {
        QueryTime::Time(time) => Arc::new(api.load(prefix, at, time, seconds).await?),
        QueryTime::Latest => {
            let subnet = api.query(async |client| subnet(client, prefix).await).await?;
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // within a day
            let key = (subnet.id, (seconds * 1e3) as u64);
            let fresh = {
                let mut loads = api.fabric.loads.lock().unwrap_or_else(PoisonError::into_inner);
                if loads.len() >= WINDOWS && !loads.contains_key(&key) {
                    loads.clear();
                }
                loads.entry(key).or_insert_with(|| Arc::new(CachedValue::new(FRESH))).clone()
            };
            fresh.get(async || api.load(prefix, at, 0, seconds).await).await?
        }
    };
    Ok(body.response(&request.headers, None))
}

/// Parameter `window`.
pub fn window_seconds(request: &ApiRequest) -> Result<f64, ApiError> {
    request.number("window", WINDOW_SECONDS, 1.0, WINDOW_SECONDS_MAX)
}

/// The fabric with this name.
///
/// # Errors
/// There is none; the message says which there are.
pub async fn subnet(client: &Client, name: &str) -> Result<Subnet, ApiError> {
    let all = fabric::subnets(client).await?;
    let known: Vec<&str> = all.iter().map(|subnet| subnet.name.as_str()).collect();
    let remedy = match known.as_slice() {
        [] => {
            "no crawler has sent anything yet; start `throughline-fabric` on a node of the fabric".to_owned()
        }
        known => format!("there are {}", known.join(", ")),
    };
    let found = all.iter().find(|subnet| subnet.name == name).cloned();
    found.ok_or_else(|| ApiError::not_found(format!("no fabric {name}"), &remedy))
}

impl Api {
    /// The topology of a subnet at a time; the same one as long as nothing changes.
    ///
    /// # Errors
    /// The database's.
    pub async fn topology(
        &self,
        client: &Client,
        subnet: &Subnet,
        at: QueryTime,
    ) -> Result<Arc<Topology>, ApiError> {
        let version = match at {
            QueryTime::Time(_) => fabric::version(client, subnet.id, at).await?,
            QueryTime::Latest => {
                let fresh = {
                    let mut versions = self.fabric.versions.lock().unwrap_or_else(PoisonError::into_inner);
                    versions.entry(subnet.id).or_insert_with(|| Arc::new(CachedValue::new(FRESH))).clone()
                };
                *fresh.get(async || Ok(fabric::version(client, subnet.id, at).await?)).await?
            }
        };
        let cache = || self.fabric.topologies.lock().unwrap_or_else(PoisonError::into_inner);
        let known = cache().iter().find(|(id, cache, _)| *id == subnet.id && *cache == version).cloned();
        if let Some((_, _, topology)) = known {
            return Ok(topology);
        }
        let nodes = fabric::nodes(client, subnet.id, at).await?;
        let links = fabric::links(client, subnet.id, at).await?;
        let time_ms = match at {
            QueryTime::Time(time) => time,
            QueryTime::Latest => time::now(client).await?,
        };
        let prefix = subnet.name.clone();
        let made =
            tokio::task::spawn_blocking(move || Topology::new(&prefix, &version, time_ms, nodes, &links));
        let topology = Arc::new(made.await.map_err(|error| ApiError::internal(error.to_string()))??);
        tracing::debug!(subnet = subnet.name, version = version_name(&version), "topology");
        let mut cache = cache();
        cache.push_back((subnet.id, version, topology.clone()));
        if cache.len() > KEPT {
            cache.pop_front();
        }
        Ok(topology)
    }

    /// The load of a subnet. `time` is that of a past one.
    async fn load(&self, prefix: &str, at: QueryTime, time: i64, seconds: f64) -> Result<Body, ApiError> {
        let load = self
            .query(async |client| {
                let subnet = subnet(client, prefix).await?;
                let topology = self.topology(client, &subnet, at).await?;
                let is_latest = at == QueryTime::Latest;
                let at = if is_latest { time::now(client).await? } else { time };
                let window = Window { at, is_latest, seconds };
                let round = round(client, subnet.id, at, is_latest).await?;
                let readings = readings(client, &topology.ports(), &window).await?;
                let thresholds = self.thresholds.of_fabric();
                Ok(Load::new(&subnet.name, &topology, &window, round.as_ref(), &readings, thresholds))
            })
            .await?;
        let size = load.size_hint();
        answer::body_aside(load, size).await
    }
}
