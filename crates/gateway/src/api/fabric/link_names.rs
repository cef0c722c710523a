//! `/link-names/{name}`: the link that a name means which a person typed: `leaf1[5]`, `leaf1 5`, `leaf1 spine1`, a host with
//! one cable, the GUID of an adapter's port, or a node's GUID and a port.

use super::super::request::ApiRequest;
use super::super::{Api, answer};
use super::topology::{Port, Topology};
use crate::api_error::ApiError;
use axum::extract::State;
use axum::response::Response;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use throughline_api::link_shares::LinkName;
use throughline_query::fabric;
use throughline_query::time::QueryTime;
use throughline_sample::admission::is_deceptive;
use tokio_postgres::Client;

/// Most candidates in a message, and longest name of one, characters.
const CANDIDATES_MAX: usize = 5;
const NAME_CHARACTERS: usize = 80;

/// Longest name, bytes, and most blanks at which it is split into two ends: each is looked for among all links.
const NAME_BYTES: usize = 300;
const BLANKS: usize = 8;

/// GUIDs looked up for one name: it has two ends.
const GUIDS_MAX: usize = 2;

/// Similarity (Jaro-Winkler, 0 to 1) below which a name is no suggestion.
const SIMILAR: f64 = 0.7;

/// `GET /link-names/{name}`.
pub async fn link_name(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    let at = request.at()?;
    let only = request.text("subnet")?;
    request.done()?;
    if request.path("name").len() > NAME_BYTES {
        let message = format!("a name of more than {NAME_BYTES} bytes");
        return Err(ApiError::parameter("name", message, "name an end as leaf1[5], or two nodes"));
    }
    let name = request.path("name");
    let (prefixes, topologies, ports) = api
        .query(async |client| {
            let (mut prefixes, mut topologies) = (Vec::new(), Vec::new());
            let subnets = match only {
                Some(prefix) => vec![super::subnet(client, prefix).await?],
                None => fabric::subnets(client).await?,
            };
            for subnet in subnets {
                topologies.push(api.topology(client, &subnet, at).await?);
                prefixes.push(subnet.name);
            }
            Ok((prefixes, topologies, PortGuids::read(client, name, at).await?))
        })
        .await?;
    let found = find(&topologies, &ports, name)?;
    let topology = &topologies[found.subnet];
    let [a, b] = topology.ends[found.link];
    let (from, to) = if found.from_a { (a, b) } else { (b, a) };
    let response = LinkName {
        subnet: prefixes[found.subnet].clone(),
        link: format!("{}.{}", topology.columns.nodes.guid[from.node], from.number),
        name: format!("{} - {}", port_name(topology, from), port_name(topology, to)),
    };
    answer::json(&response, &request.headers)
}

/// A link, and the end that was named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LinkMatch {
    subnet: usize,
    link: usize,
    from_a: bool,
}

/// One end as it was typed.
#[derive(Clone)]
struct TypedEnd<'a> {
    node: &'a str,
    port: Option<i32>,
    /// `node`, where it is a GUID.
    guid: Option<String>,
}

impl<'a> TypedEnd<'a> {
    fn new(node: &'a str, port: Option<i32>) -> TypedEnd<'a> {
        TypedEnd { node, port, guid: guid(node) }
    }
}

/// The GUIDs in a name, each with the ports that have it, by their number in the tables.
#[derive(Default)]
struct PortGuids(BTreeMap<String, BTreeSet<i64>>);

impl PortGuids {
    async fn read(client: &Client, name: &str, at: QueryTime) -> Result<PortGuids, ApiError> {
        let single = ends(name).into_iter();
        let typed = single.chain(pairs(name).into_iter().flatten());
        let guids: BTreeSet<String> = typed.filter_map(|end| end.guid).collect();
        let mut ports = BTreeMap::new();
        for guid in guids.into_iter().take(GUIDS_MAX) {
            let of_guid = fabric::ports_of_guid(client, &guid, at).await?;
            ports.insert(guid, of_guid.into_iter().collect());
        }
        Ok(PortGuids(ports))
    }

    /// Whether the port's GUID was typed.
    fn names(&self, end: &TypedEnd<'_>, port: Port) -> bool {
        end.guid.as_ref().and_then(|guid| self.0.get(guid)).is_some_and(|ports| ports.contains(&port.id))
    }
}

fn find(topologies: &[Arc<Topology>], ports: &PortGuids, name: &str) -> Result<LinkMatch, ApiError> {
    let name = name.trim();
    let mut all: BTreeSet<LinkMatch> = BTreeSet::new();
    for (subnet, topology) in topologies.iter().enumerate() {
        for [one, other] in pairs(name) {
            all.extend(between(topology, ports, &one, &other).map(|(link, from_a)| LinkMatch {
                subnet,
                link,
                from_a,
            }));
        }
    }
    if all.is_empty() {
        for (subnet, topology) in topologies.iter().enumerate() {
            for end in ends(name) {
                all.extend(at_end(topology, ports, &end).map(|(link, from_a)| LinkMatch {
                    subnet,
                    link,
                    from_a,
                }));
            }
        }
    }
    // Both ends of a cable between two nodes of one name.
    let links: BTreeSet<(usize, usize)> = all.iter().map(|found| (found.subnet, found.link)).collect();
    match (all.first(), links.len()) {
        (Some(found), 1) => Ok(*found),
        (None, _) => Err(nothing(topologies, ports, name)),
        (Some(_), count) => Err(several(topologies, name, &all, count)),
    }
}

/// The ways in which a text is one end: with a port in brackets, behind a blank, a slash or a point, or without one.
fn ends(text: &str) -> Vec<TypedEnd<'_>> {
    let text = text.trim();
    let mut ends = vec![TypedEnd::new(text, None)];
    let bracket = text.strip_suffix(']').and_then(|text| text.rsplit_once('['));
    let separated = [" port ", " ", "/", ".", ":"].into_iter().filter_map(|by| text.rsplit_once(by));
    for (node, port) in bracket.into_iter().chain(separated) {
        if let Ok(port) = port.trim().parse() {
            ends.push(TypedEnd::new(node.trim(), Some(port)));
        }
    }
    ends.retain(|end| !end.node.is_empty());
    ends
}

/// The ways in which a text is two ends.
fn pairs(text: &str) -> Vec<[TypedEnd<'_>; 2]> {
    let places = text.match_indices(' ').take(BLANKS).map(|(place, _)| (&text[..place], &text[place..]));
    let marked = [" - ", " → ", " -> ", "→", "->", "--"].into_iter().filter_map(|mark| text.split_once(mark));
    let mut pairs = Vec::new();
    for (one, other) in marked.chain(places) {
        for first in &ends(one) {
            for second in ends(other) {
                pairs.push([first.clone(), second]);
            }
        }
    }
    pairs
}

/// A GUID as it is stored, `0x` and 16 digits: from that form in any case, 16 digits, or four groups with colons.
pub fn guid(text: &str) -> Option<String> {
    let text = text.trim().to_ascii_lowercase();
    let digits = match text.strip_prefix("0x") {
        Some(digits) => digits.to_owned(),
        None if text.len() == 16 => text,
        None => {
            let groups: Vec<&str> = text.split(':').collect();
            if groups.len() != 4 || groups.iter().any(|group| group.len() != 4) {
                return None;
            }
            groups.concat()
        }
    };
    let is_hexadecimal =
        !digits.is_empty() && digits.len() <= 16 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_hexadecimal.then(|| format!("0x{digits:0>16}"))
}

/// The GUID in a text that is one, alone or with a port.
pub fn guid_with_port(text: &str) -> Option<String> {
    ends(text).into_iter().find_map(|end| end.guid)
}

/// Nodes that a text names: by description, its first word, host or GUID.
fn is_named(topology: &Topology, node: usize, end: &TypedEnd<'_>) -> bool {
    let nodes = &topology.columns.nodes;
    let name = &nodes.name[node];
    let is = |known: &str| known.eq_ignore_ascii_case(end.node);
    is(name)
        || end.guid.as_ref().is_some_and(|guid| *guid == nodes.guid[node])
        || nodes.host[node].as_deref().is_some_and(is)
        || name.split(' ').next().is_some_and(is) && topology.kind(node) != "switch"
}

fn is_end(topology: &Topology, ports: &PortGuids, port: Port, end: &TypedEnd<'_>) -> bool {
    end.port.is_none_or(|number| number == port.number)
        && (is_named(topology, port.node, end) || ports.names(end, port))
}

/// Links with this end.
fn at_end(topology: &Topology, ports: &PortGuids, end: &TypedEnd<'_>) -> impl Iterator<Item = (usize, bool)> {
    topology.ends.iter().enumerate().flat_map(move |(link, [a, b])| {
        let is_a = is_end(topology, ports, *a, end).then_some((link, true));
        let is_b = is_end(topology, ports, *b, end).then_some((link, false));
        is_a.into_iter().chain(is_b)
    })
}

/// Links from one end to another.
fn between(
    topology: &Topology,
    ports: &PortGuids,
    one: &TypedEnd<'_>,
    other: &TypedEnd<'_>,
) -> impl Iterator<Item = (usize, bool)> {
    topology.ends.iter().enumerate().filter_map(move |(link, [a, b])| {
        if is_end(topology, ports, *a, one) && is_end(topology, ports, *b, other) {
            Some((link, true))
        } else if is_end(topology, ports, *b, one) && is_end(topology, ports, *a, other) {
            Some((link, false))
        } else {
            None
        }
    })
}

fn port_name(topology: &Topology, port: Port) -> String {
    format!("{}[{}]", topology.columns.nodes.name[port.node], port.number)
}

fn several(topologies: &[Arc<Topology>], name: &str, all: &BTreeSet<LinkMatch>, count: usize) -> ApiError {
    let listed: Vec<String> =
        all.iter().take(CANDIDATES_MAX).map(|found| described(topologies, found)).collect();
    let more = if count > CANDIDATES_MAX { ", …" } else { "" };
    ApiError::ambiguous(
        format!("{} fits {count} links: {}{more}", plain(name), listed.join(", ")),
        "name one of them with its port, as leaf1[5], by both ends, or with its `subnet`",
    )
}

fn described(topologies: &[Arc<Topology>], found: &LinkMatch) -> String {
    let topology = &topologies[found.subnet];
    let [a, b] = topology.ends[found.link];
    let (from, to) = if found.from_a { (a, b) } else { (b, a) };
    let subnet = match topologies {
        [_] => String::new(),
        _ => format!(" of subnet {}", topology.columns.subnet),
    };
    format!("{} to {}{subnet}", plain(&port_name(topology, from)), plain(&port_name(topology, to)))
}

fn nothing(topologies: &[Arc<Topology>], ports: &PortGuids, name: &str) -> ApiError {
    let message = format!("no link {}", plain(name));
    if topologies.iter().all(|topology| topology.ends.is_empty()) {
        let remedy = "no crawler has sent a fabric yet; start `throughline-fabric` on a node of the fabric";
        return ApiError::not_found(message, remedy);
    }
    // A node that is there, without such a port; else the most similar names.
    let typed = ends(name);
    for topology in topologies {
        for end in &typed {
            let node = TypedEnd { port: None, ..end.clone() };
            let cabled: Vec<String> = at_end(topology, ports, &node)
                .take(CANDIDATES_MAX)
                .map(|(link, is_a)| plain(&port_name(topology, topology.ends[link][usize::from(!is_a)])))
                .collect();
            if !cabled.is_empty() {
                return ApiError::not_found(
                    message,
                    &format!("{} has cables at {}", plain(end.node), cabled.join(", ")),
                );
            }
        }
    }
    let word = typed.last().map_or(name, |end| end.node).to_lowercase();
    let mut near: Vec<(f64, &str)> = topologies
        .iter()
        .flat_map(|topology| topology.columns.nodes.name.iter())
        .map(|name| (strsim::jaro_winkler(&word, &name.to_lowercase()), name.as_str()))
        .filter(|(alike, _)| *alike >= SIMILAR)
        .collect();
    near.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(other.1)));
    near.truncate(CANDIDATES_MAX);
    let near: Vec<String> = near.into_iter().map(|(_, name)| plain(name)).collect();
    match near.is_empty() {
        true => ApiError::not_found(message, "name an end as leaf1[5], two nodes, or a port's GUID"),
        false => ApiError::not_found(message, &format!("the nearest nodes: {}", near.join(", "))),
    }
}

/// Names come from other people's devices, and messages go to terminals.
fn plain(text: &str) -> String {
    text.chars().take(NAME_CHARACTERS).map(|c| if is_deceptive(c) { '\u{fffd}' } else { c }).collect()
}
