//! A topology as the API returns it, columns of nodes and links, and the places of its parts for other requests.

use super::super::answer::Body;
use super::shape::{Role, natural, places};
use crate::api_error::ApiError;
use serde::Serialize;
use std::collections::HashMap;
use throughline_query::fabric::{self, End, Link, Node, Version};

/// Device ID of aggregation nodes (SHARP), and what they call themselves: as `throughline-fabric` knows them.
const AGGREGATION: (i32, &str) = (0xCF09, "Aggregation Node");

/// What `kind` counts.
const KINDS: [&str; 4] = ["switch", "adapter", "router", "aggregation"];
const SWITCH: u8 = 0;
const ADAPTER: u8 = 1;
const ROUTER: u8 = 2;
const AGGREGATION_NODE: u8 = 3;

/// One end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// The port's number in the tables.
    pub id: i64,
    /// Place of its node.
    pub node: usize,
    /// The port on the node.
    pub number: i32,
    /// Its LID; 0 where it is not known.
    pub lid: i32,
}

/// A topology and its parts.
#[derive(Debug)]
pub struct Topology {
    /// Its name among those of the subnet.
    pub version: String,
    /// What the API returns.
    pub columns: Columns,
    /// Ends of each link, `a` first.
    pub ends: Vec<[Port; 2]>,
    /// Speeds of each link.
    pub speeds: Vec<i64>,
    /// Places of nodes by their number in the tables.
    pub place_of: HashMap<i64, usize>,
    /// Links by the place of a node and its port; true where that end is `a`.
    pub link_at: HashMap<(usize, i32), (usize, bool)>,
    /// Links by a port's number in the tables; true where that end is `a`.
    pub link_of_port: HashMap<i64, (usize, bool)>,
    /// Nodes by LID.
    pub node_of_lid: HashMap<usize, usize>,
    /// The answer, but for the time that was requested.
    pub body: Body,
}

/// The columns.
#[derive(Clone, Debug, Serialize)]
pub struct Columns {
    /// Prefix of the subnet.
    pub subnet: String,
    version: String,
    at_ms: i64,
    changed_ms: Option<i64>,
    /// Of the subnet, by what its switches report.
    pub routing: Option<&'static str>,
    layers: u32,
    pods: u32,
    kinds: [&'static str; 4],
    widths: Vec<String>,
    speeds: Vec<String>,
    states: Vec<String>,
    /// By place.
    pub nodes: Nodes,
    /// By place.
    pub links: Links,
}

/// Columns of nodes.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Nodes {
    /// `0x` and 16 digits.
    pub guid: Vec<String>,
    /// Descriptions.
    pub name: Vec<String>,
    kind: Vec<u8>,
    layer: Vec<Option<u32>>,
    pod: Vec<Option<u32>>,
    /// Switches at the first ports of those that are none.
    pub leaf: Vec<Option<usize>>,
    /// Hosts.
    pub host: Vec<Option<String>>,
    /// LIDs.
    pub lid: Vec<i32>,
    /// Of switches.
    pub routing: Vec<Option<String>>,
}

/// Columns of links.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Links {
    a: Vec<usize>,
    port_a: Vec<i32>,
    b: Vec<usize>,
    port_b: Vec<i32>,
    bytes_per_second: Vec<i64>,
    width: Vec<usize>,
    speed: Vec<usize>,
    state: Vec<usize>,
}

/// Words and their places.
#[derive(Default)]
struct WordTable(Vec<String>);

impl WordTable {
    fn place(&mut self, word: &str) -> usize {
        self.0.iter().position(|known| known == word).unwrap_or_else(|| {
            self.0.push(word.to_owned());
            self.0.len() - 1
        })
    }
}

/// The name of a version in addresses and tags.
pub fn version_name(version: &Version) -> String {
    format!("{}-{}", version.changed.unwrap_or(0), version.changes)
}

fn kind(node: &Node) -> u8 {
    match node.kind.as_str() {
        "switch" => SWITCH,
        "router" => ROUTER,
        _ if node.device_id == AGGREGATION.0 || node.name.contains(AGGREGATION.1) => AGGREGATION_NODE,
        _ => ADAPTER,
    }
}

impl Topology {
    /// Puts rows in order. `at` is the time that was requested.
    ///
    /// # Errors
    /// The columns are none of JSON's.
    pub fn new(
        subnet: &str,
        version: &Version,
        at: i64,
        mut nodes: Vec<Node>,
        links: &[Link],
    ) -> Result<Topology, ApiError> {
        nodes.sort_by_cached_key(|node| (natural(&node.name), node.guid.clone()));
        let place_of: HashMap<i64, usize> =
            nodes.iter().enumerate().map(|(place, node)| (node.id, place)).collect();
        let cables: Vec<(usize, usize)> = links
            .iter()
            .filter_map(|link| Some((*place_of.get(&link.ends[0].node)?, *place_of.get(&link.ends[1].node)?)))
            .collect();
        let role = |node: &Node| match kind(node) {
            ADAPTER => Role::Host,
            AGGREGATION_NODE => Role::Aside,
            _ => Role::Between,
        };
        let roles: Vec<Role> = nodes.iter().map(role).collect();
        let by_name: Vec<usize> = (0..nodes.len()).collect();
        let (shape, layers, pods) = places(&roles, &by_name, &cables);
        // By layer and pod; within them by name, as they are.
        let mut order = by_name;
        order.sort_by_key(|node| {
            let place = shape[*node];
            (place.layer.unwrap_or(u32::MAX), place.pod.unwrap_or(u32::MAX))
        });
        let mut columns = Nodes::default();
        for place in &order {
            let node = &nodes[*place];
            columns.guid.push(node.guid.clone());
            columns.name.push(node.name.clone());
            columns.kind.push(kind(node));
            columns.layer.push(shape[*place].layer);
            columns.pod.push(shape[*place].pod);
            columns.leaf.push(None);
            columns.host.push(node.host.clone());
            columns.lid.push(node.lid);
            columns.routing.push(node.routing.clone());
        }
        let place_of = order.iter().enumerate().map(|(place, node)| (nodes[*node].id, place)).collect();
        let switches = nodes.iter().filter(|node| kind(node) == SWITCH);
        let routing = fabric::routing(switches.map(|node| node.routing.as_deref()));
        let columns = Columns {
            routing,
            subnet: subnet.to_owned(),
            version: version_name(version),
            at_ms: at,
            changed_ms: version.changed.map(|micros| micros / 1000),
            layers,
            pods,
            kinds: KINDS,
            widths: Vec::new(),
            speeds: Vec::new(),
            states: Vec::new(),
            nodes: columns,
            links: Links::default(),
        };
        Topology::with_links(columns, place_of, links)
    }

    fn with_links(
        mut columns: Columns,
        place_of: HashMap<i64, usize>,
        links: &[Link],
    ) -> Result<Topology, ApiError> {
        let port = |end: &End| {
            Some(Port { id: end.port_id, node: *place_of.get(&end.node)?, number: end.port, lid: end.lid })
        };
        // The end nearer to the hosts is `a`. A link with an unknown node is left out.
        let mut found: Vec<([Port; 2], &Link)> = links
            .iter()
            .filter_map(|link| {
                let mut ends = [port(&link.ends[0])?, port(&link.ends[1])?];
                ends.sort_by_key(|end| (end.node, end.number));
                Some((ends, link))
            })
            .collect();
        found.sort_by_key(|(ends, _)| (ends[0].node, ends[0].number, ends[1].node, ends[1].number));
        let (mut widths, mut speeds, mut states) =
            (WordTable::default(), WordTable::default(), WordTable::default());
        let (mut ends, mut link_at) = (Vec::with_capacity(found.len()), HashMap::new());
        let (mut link_of_port, mut node_of_lid) = (HashMap::new(), HashMap::new());
        let lids = columns.nodes.lid.iter().enumerate();
        node_of_lid.extend(
            lids.filter_map(|(node, lid)| Some((usize::try_from(*lid).ok().filter(|lid| *lid > 0)?, node))),
        );
        for (place, ([a, b], link)) in found.into_iter().enumerate() {
            let out = &mut columns.links;
            out.a.push(a.node);
            out.port_a.push(a.number);
            out.b.push(b.node);
            out.port_b.push(b.number);
            out.bytes_per_second.push(link.bytes_per_second);
            out.width.push(widths.place(&link.width));
            out.speed.push(speeds.place(&link.speed));
            out.state.push(states.place(&link.state));
            link_at.insert((a.node, a.number), (place, true));
            link_at.insert((b.node, b.number), (place, false));
            link_of_port.insert(a.id, (place, true));
            link_of_port.insert(b.id, (place, false));
            // Adapters have a LID for each port.
            for end in [a, b] {
                if let Some(lid) = usize::try_from(end.lid).ok().filter(|lid| *lid > 0) {
                    node_of_lid.insert(lid, end.node);
                }
            }
            // Ordered by port: the first one found is the first port.
            for (end, other) in [(a, b), (b, a)] {
                let is_end =
                    columns.nodes.kind[end.node] != SWITCH && columns.nodes.kind[other.node] == SWITCH;
                if is_end && columns.nodes.leaf[end.node].is_none() {
                    columns.nodes.leaf[end.node] = Some(other.node);
                }
            }
            ends.push([a, b]);
        }
        (columns.widths, columns.speeds, columns.states) = (widths.0, speeds.0, states.0);
        Ok(Topology {
            version: columns.version.clone(),
            body: Body::new(&columns)?,
            speeds: columns.links.bytes_per_second.clone(),
            columns,
            ends,
            place_of,
            link_at,
            link_of_port,
            node_of_lid,
        })
    }

    /// The name of a node's kind.
    pub fn kind(&self, node: usize) -> &'static str {
        KINDS[usize::from(self.columns.nodes.kind[node])]
    }

    /// Width and speed of a link, in words.
    pub fn words(&self, link: usize) -> (&str, &str) {
        let links = &self.columns.links;
        (&self.columns.widths[links.width[link]], &self.columns.speeds[links.speed[link]])
    }

    /// Numbers in the tables of all ports at the ends of links, `a` and `b` of each.
    pub fn ports(&self) -> Vec<i64> {
        self.ends.iter().flatten().map(|end| end.id).collect()
    }
}
