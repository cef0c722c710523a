//! `/fabric/{subnet}/groups`: multicast groups by their LID, and the tree of one to be laid over the map.

use super::super::request::ApiRequest;
use super::super::{Api, answer};
use super::subnet;
use super::topology::Topology;
use crate::api_error::ApiError;
use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use throughline_query::links::{MulticastTable, multicast};

/// LIDs of multicast groups (IBTA 4.1.3).
const MLIDS: std::ops::RangeInclusive<u16> = 0xC000..=0xFFFE;

/// What a port's entry stands for that is the switch itself.
const OWN_PORT: u8 = 0;

#[derive(Serialize)]
struct Groups {
    subnet: String,
    topology: String,
    groups: Vec<GroupResponse>,
}

#[derive(Serialize)]
struct GroupResponse {
    mlid: u16,
    switches: usize,
    adapters: usize,
    links: usize,
}

#[derive(Serialize)]
struct Tree {
    subnet: String,
    topology: String,
    mlid: u16,
    nodes: Vec<usize>,
    links: Links,
}

/// Links that carry it, and which of their ends send it.
#[derive(Default, Serialize)]
struct Links {
    link: Vec<usize>,
    ab: Vec<bool>,
    ba: Vec<bool>,
}

/// What one group's entries reach: links with the ends that send to them, and nodes that are no switches.
#[derive(Default)]
struct Reach {
    switches: usize,
    links: BTreeMap<usize, [bool; 2]>,
    adapters: Vec<usize>,
}

/// `GET /fabric/{subnet}/groups`.
pub async fn groups(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    let (subnet, topology, tables) = read(&api, &request).await?;
    let reaches = reaches(&topology, &tables);
    let response = |(mlid, reach): (u16, Reach)| GroupResponse {
        mlid,
        switches: reach.switches,
        adapters: reach.adapters.len(),
        links: reach.links.len(),
    };
    let groups = reaches.into_iter().map(response).collect();
    answer::json(&Groups { subnet, topology: topology.version.clone(), groups }, &request.headers)
}

/// `GET /fabric/{subnet}/groups/{mlid}`.
pub async fn group(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    let text = request.path("mlid");
    let number = match text.strip_prefix("0x") {
        Some(digits) => u16::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    let Some(mlid) = number.filter(|mlid| MLIDS.contains(mlid)) else {
        let message = format!("{text} is no multicast LID");
        return Err(ApiError::parameter("mlid", message, "give one from 0xc000 to 0xfffe"));
    };
    let (subnet, topology, tables) = read(&api, &request).await?;
    let Some(mut reach) = reaches(&topology, &tables).remove(&mlid) else {
        let remedy = format!("/api/v1/fabric/{subnet}/groups lists those that switches forward");
        return Err(ApiError::not_found(format!("no group {mlid:#x} at this time"), &remedy));
    };
    reach.adapters.sort_unstable();
    let mut links = Links::default();
    for (link, [ab, ba]) in reach.links {
        links.link.push(link);
        links.ab.push(ab);
        links.ba.push(ba);
    }
    let topology = topology.version.clone();
    answer::json(&Tree { subnet, topology, mlid, nodes: reach.adapters, links }, &request.headers)
}

/// The subnet's prefix, topology and tables at the time that is requested.
async fn read(
    api: &Api,
    request: &ApiRequest,
) -> Result<(String, Arc<Topology>, HashMap<i32, MulticastTable>), ApiError> {
    let at = request.at()?;
    request.done()?;
    api.query(async |client| {
        let subnet = subnet(client, request.path("subnet")).await?;
        let topology = api.topology(client, &subnet, at).await?;
        let tables = multicast(client, subnet.id, at).await?;
        Ok((subnet.prefix, topology, tables))
    })
    .await
}

/// All groups that have an entry anywhere.
fn reaches(topology: &Topology, tables: &HashMap<i32, MulticastTable>) -> BTreeMap<u16, Reach> {
    let mut all: BTreeMap<u16, Reach> = BTreeMap::new();
    for (switch, table) in tables {
        let Some(place) = topology.place_of.get(switch) else { continue };
        for (mlid, ports) in table {
            let reach = all.entry(*mlid).or_default();
            reach.switches += 1;
            for port in ports.iter().filter(|port| **port != OWN_PORT) {
                let Some((link, is_a)) = topology.link_at.get(&(*place, i32::from(*port))) else { continue };
                reach.links.entry(*link).or_default()[usize::from(!is_a)] = true;
                let other = topology.ends[*link][usize::from(*is_a)].node;
                if topology.kind(other) != "switch" {
                    reach.adapters.push(other);
                }
            }
        }
    }
    all
}
