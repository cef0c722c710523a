//! Whether a route is what packets take: static or adaptive routing, and reduction inside the network. Pure.

use super::Route;
use crate::mad::NodeKind;
use crate::topology::{Node, SwitchRouting, Topology};
use std::collections::BTreeMap;
use throughline_sample::Guid;

/// NVIDIA's (Mellanox's) vendor ID in NodeInfo, an IEEE OUI.
pub const VENDOR_MELLANOX: u32 = 0x2C9;
/// Device ID of SHARP aggregation nodes: seen on Switch-IB 2 and Quantum alike.
const DEVICE_AGGREGATION_NODE: u16 = 0xCF09;
/// What aggregation nodes call themselves.
const AGGREGATION_NODE: &str = "Aggregation Node";

/// Whether a route from tables is exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteKind {
    /// Each switch on it says that it routes by its table alone.
    Static,
    /// A switch on it routes adaptively: it is one possibility.
    Adaptive,
    /// A switch on it does not report.
    Unknown,
}

impl RouteKind {
    /// The name in JSON and records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            RouteKind::Static => "static",
            RouteKind::Adaptive => "adaptive",
            RouteKind::Unknown => "unknown",
        }
    }
}

/// Whether a node reduces data inside the network (SHARP): a channel adapter inside a switch, by its device or by
/// what it calls itself. Its links are ports of that switch's chip, not of a host.
#[must_use]
pub fn is_aggregation_node(node: &Node) -> bool {
    node.kind == NodeKind::Ca
        && (node.vendor_id == VENDOR_MELLANOX && node.device_id == DEVICE_AGGREGATION_NODE
            || node.description.contains(AGGREGATION_NODE))
}

impl Topology {
    /// What is known of a route, from what is known of its switches. The route between two ends with no switch
    /// between them is static: there is nothing to choose.
    #[must_use]
    pub fn route_kind(&self, route: &Route, switches: &BTreeMap<Guid, SwitchRouting>) -> RouteKind {
        let mut kind = RouteKind::Static;
        for hop in route.hops.iter().filter(|hop| hop.out_port.is_some()) {
            let node = &self.nodes[hop.node];
            if node.kind != NodeKind::Switch {
                continue;
            }
            match switches.get(&node.guid) {
                Some(SwitchRouting::Static) => {}
                Some(SwitchRouting::Adaptive) => return RouteKind::Adaptive,
                None => kind = RouteKind::Unknown,
            }
        }
        kind
    }

    /// What a reader of a route must know besides it.
    #[must_use]
    pub fn route_notes(&self, route: &Route) -> Vec<&'static str> {
        let mut notes = Vec::new();
        let on_way = |hop: &super::Hop| &self.nodes[hop.node];
        let ends = [route.hops.first(), route.hops.last()];
        if ends.into_iter().flatten().map(on_way).any(|node| node.kind == NodeKind::Router) {
            notes.push("ends at a router: what lies beyond is another subnet");
        }
        if ends.into_iter().flatten().map(on_way).any(is_aggregation_node) {
            notes.push("an end is an aggregation node: it carries data reduced in the network");
        } else if route.hops.iter().any(|hop| self.has_aggregation_node(hop.node)) {
            notes.push(
                "a switch on the way has an aggregation node: collectives may be reduced there and go no further",
            );
        }
        notes
    }

    fn has_aggregation_node(&self, switch: crate::topology::NodeIndex) -> bool {
        let node = &self.nodes[switch];
        let neighbours = node.ports.iter().filter_map(|port| port.remote);
        node.kind == NodeKind::Switch
            && neighbours.into_iter().any(|end| is_aggregation_node(&self.nodes[end.node]))
    }
}
