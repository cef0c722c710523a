//! `/fabric/{subnet}/groups`: multicast groups by their LID with names and packets a second; members of one, its tree, and
//! what ports counted on it.

use super::super::request::ApiRequest;
use super::super::{Api, answer};
use super::group_traffic::{GroupRate, TreeQuery, group_rates};
use super::subnet;
use super::topology::Topology;
use super::trees::{MulticastReach, Trees};
use crate::api_error::ApiError;
use axum::extract::State;
use axum::response::Response;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use throughline_api::multicast::{
    KnownGroup, MulticastGroups, MulticastLid, MulticastMember, MulticastTree, TreeLinks,
};
use throughline_query::links::multicast as tables;
use throughline_query::load::Window;
use throughline_query::multicast::{self, Group, Member};
use throughline_query::time::{self, QueryTime};
use tokio_postgres::Client;

/// LIDs of multicast groups (IBTA 4.1.3).
const MLIDS: std::ops::RangeInclusive<u16> = 0xC000..=0xFFFE;
/// Join states that are sent to (IBTA 15.2.5.17): full members and non-members.
const RECEIVES: i32 = 0b0011;
/// Window unless the request has another, seconds: a port that carries little has a row a minute.
const WINDOW_SECONDS: f64 = 60.0;
const WINDOW_SECONDS_MAX: f64 = 86_400.0;

/// What both requests begin with.
struct SubnetMulticast {
    subnet: String,
    fabric_id: i64,
    topology: Arc<Topology>,
    trees: Trees,
    groups: Vec<Group>,
    window: Window,
}

/// `GET /fabric/{subnet}/groups`.
pub async fn groups(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    let (at, seconds) = parameters(&request)?;
    let (read, rates) = api
        .query(async |client| {
            let read = SubnetMulticast::new(&api, client, &request, at, seconds).await?;
            let rates = group_rates(client, &read.topology, &read.trees, &read.window).await?;
            Ok((read, rates))
        })
        .await?;
    let groups = read.mlids().into_iter().map(|mlid| read.listed(mlid, &rates)).collect();
    let SubnetMulticast { subnet, topology, window, .. } = read;
    let topology = topology.version.clone();
    let Window { at: at_ms, seconds: window_seconds, .. } = window;
    answer::json(&MulticastGroups { subnet, topology, at_ms, window_seconds, groups }, &request.headers)
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
    let (at, seconds) = parameters(&request)?;
    let tree = api
        .query(async |client| {
            let mut read = SubnetMulticast::new(&api, client, &request, at, seconds).await?;
            if !read.mlids().contains(&mlid) {
                let remedy = format!("/api/v1/fabric/{}/groups lists those that there are", read.subnet);
                return Err(ApiError::not_found(format!("no group {mlid:#x} at this time"), &remedy));
            }
            // A group of one member may need no entry anywhere.
            read.trees.by_mlid.entry(mlid).or_default();
            let members = multicast::members(client, read.fabric_id, mlid, at).await?;
            read.tree(client, mlid, &members).await
        })
        .await?;
    answer::json(&tree, &request.headers)
}

fn parameters(request: &ApiRequest) -> Result<(QueryTime, f64), ApiError> {
    let at = request.at()?;
    let seconds = request.number("window", WINDOW_SECONDS, 1.0, WINDOW_SECONDS_MAX)?;
    request.done()?;
    Ok((at, seconds))
}

impl SubnetMulticast {
    /// The subnet's topology, tables and groups at the time that is requested.
    async fn new(
        api: &Api,
        client: &Client,
        request: &ApiRequest,
        at: QueryTime,
        seconds: f64,
    ) -> Result<SubnetMulticast, ApiError> {
        let subnet = subnet(client, request.path("subnet")).await?;
        let topology = api.topology(client, &subnet, at).await?;
        let tables = tables(client, subnet.id, at).await?;
        let groups = multicast::groups(client, subnet.id, at).await?;
        let (is_latest, time) = match at {
            QueryTime::Time(time) => (false, time),
            QueryTime::Latest => (true, time::now(client).await?),
        };
        let trees = Trees::new(&topology, &tables);
        let window = Window { at: time, is_latest, seconds };
        Ok(SubnetMulticast { subnet: subnet.name, fabric_id: subnet.id, topology, trees, groups, window })
    }

    /// LIDs that switches forward, and those of groups.
    fn mlids(&self) -> BTreeSet<u16> {
        self.trees.by_mlid.keys().copied().chain(self.groups.iter().map(|group| group.mlid)).collect()
    }

    fn known(&self, mlid: u16) -> Vec<KnownGroup> {
        let known = |group: &Group| KnownGroup {
            mgid: group.mgid.clone(),
            name: group.name.clone(),
            pkey: group.pkey,
            mtu_bytes: group.mtu_bytes,
            rate_bytes_per_second: group.rate_bytes_per_second,
            service_level: group.service_level,
            members: group.member_count,
            is_listed: group.is_listed,
        };
        self.groups.iter().filter(|group| group.mlid == mlid).map(known).collect()
    }

    fn listed(&self, mlid: u16, rates: &HashMap<u16, GroupRate>) -> MulticastLid {
        let reach = self.trees.by_mlid.get(&mlid);
        let rate = rates.get(&mlid);
        MulticastLid {
            mlid,
            switches: reach.map_or(0, |reach| reach.switches.len()),
            adapters: reach.map_or(0, |reach| reach.adapters.len()),
            links: reach.map_or(0, |reach| reach.links.len()),
            packets_per_second: rate.map(|rate| rate.0),
            packets_kind: rate.map(|rate| rate.1.to_owned()),
            known: self.known(mlid),
        }
    }

    /// The largest MTU of each LID's groups, where those of all are known.
    fn mtus(&self) -> BTreeMap<u16, u64> {
        let mut mtus: BTreeMap<u16, Option<u64>> = BTreeMap::new();
        for group in &self.groups {
            let mtu = group.mtu_bytes.and_then(|mtu| u64::try_from(mtu).ok());
            let known = mtus.entry(group.mlid).or_insert(mtu);
            *known = known.zip(mtu).map(|(one, other)| one.max(other));
        }
        mtus.into_iter().filter_map(|(mlid, mtu)| Some((mlid, mtu?))).collect()
    }

    async fn tree(&self, client: &Client, mlid: u16, members: &[Member]) -> Result<MulticastTree, ApiError> {
        let SubnetMulticast { topology, trees, window, .. } = self;
        let reach = &trees.by_mlid[&mlid];
        let (branches, parts) = reach.walk(topology);
        let mut links = TreeLinks::default();
        for branch in branches {
            let [ab, ba] = reach.links[&branch.link];
            let [a, b] = topology.ends[branch.link]
                .map(|end| format!("{}[{}]", topology.columns.nodes.name[end.node], end.number));
            links.link.push(branch.link);
            links.name.push(if branch.is_a_above { format!("{a} → {b}") } else { format!("{b} → {a}") });
            links.ab.push(ab);
            links.ba.push(ba);
            links.depth.push(branch.depth);
            links.is_a_above.push(branch.is_a_above);
        }
        let query = TreeQuery { topology, trees, reach, links: &links.link, mtus: &self.mtus() };
        let traffic = query.read(client, window).await?;
        let members = members.iter().map(|member| self.member(reach, member, members.len())).collect();
        let nodes: BTreeSet<usize> = reach.adapters.iter().map(|(node, _)| *node).collect();
        Ok(MulticastTree {
            subnet: self.subnet.clone(),
            topology: topology.version.clone(),
            at_ms: window.at,
            window_seconds: window.seconds,
            mlid,
            known: self.known(mlid),
            members,
            nodes: nodes.into_iter().collect(),
            parts,
            links,
            traffic,
        })
    }

    fn member(&self, reach: &MulticastReach, member: &Member, count: usize) -> MulticastMember {
        let columns = &self.topology.columns.nodes;
        let node = member.port.and_then(|(node, _)| self.topology.place_of.get(&node).copied());
        let is_switch = node.is_some_and(|node| self.topology.kind(node) == "switch");
        // All ports of a switch have the GUID of its port 0, which is the member.
        let port = member.port.map(|(_, port)| if is_switch { 0 } else { port });
        let end = node.zip(port);
        let is_reached =
            end.is_some_and(|end| reach.adapters.contains(&end) || is_switch && reach.own.contains(&end.0));
        // One member alone needs no tree, and who only sends is not sent to.
        let needs_tree = member.join_state & RECEIVES != 0 && count > 1;
        MulticastMember {
            mgid: member.mgid.clone(),
            port_guid: member.port_guid.clone(),
            node,
            port,
            name: node.map(|node| columns.name[node].clone()),
            host: node.and_then(|node| columns.host[node].clone()),
            state: state_name(member.join_state).to_owned(),
            is_reached: needs_tree.then_some(is_reached),
        }
    }
}

/// A join state's name, as `throughline-fabric multicast` has it.
const fn state_name(state: i32) -> &'static str {
    match state {
        state if state & 1 != 0 => "full",
        state if state & 2 != 0 => "non-member",
        state if state & 4 != 0 => "send-only",
        _ => "unknown",
    }
}
