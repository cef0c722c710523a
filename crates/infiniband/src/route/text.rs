//! Routes for readers: a table for people and a JSON document.

use super::{Hop, Route, RouteKind};
use crate::topology::{Topology, aligned, label};
use serde::Serialize;
use throughline_sample::Guid;

/// A route as JSON: `{"hops":[{"guid","in_port","out_port"}],"kind","lid","notes":[]}`.
#[derive(Serialize)]
pub struct RouteDocument {
    hops: Vec<HopDocument>,
    kind: &'static str,
    lid: u16,
    notes: Vec<&'static str>,
}

#[derive(Serialize)]
struct HopDocument {
    guid: Guid,
    in_port: Option<u8>,
    out_port: Option<u8>,
}

impl Topology {
    /// The route as a JSON document.
    #[must_use]
    pub fn route_document(&self, route: &Route, kind: RouteKind) -> RouteDocument {
        let hop = |hop: &Hop| HopDocument {
            guid: self.nodes[hop.node].guid,
            in_port: hop.in_port,
            out_port: hop.out_port,
        };
        RouteDocument {
            hops: route.hops.iter().map(hop).collect(),
            kind: kind.name(),
            lid: route.lid,
            notes: self.route_notes(route),
        }
    }

    /// The route as a table for people, and what they must know besides.
    #[must_use]
    pub fn route_text(&self, route: &Route, kind: RouteKind) -> String {
        let number = |port: Option<u8>| port.map_or_else(|| "-".to_owned(), |port| port.to_string());
        let mut rows = vec![["IN", "NODE", "TYPE", "OUT"].map(str::to_owned)];
        rows.extend(route.hops.iter().map(|hop| {
            let node = &self.nodes[hop.node];
            let label = label(&node.description, node.guid);
            [number(hop.in_port), label, node.kind.name().to_owned(), number(hop.out_port)]
        }));
        let mut text = aligned(&rows);
        let meaning = match kind {
            RouteKind::Static => "static: packets go this way",
            RouteKind::Adaptive => "adaptive: a switch on the way chooses by load, this is one possibility",
            RouteKind::Unknown => "unknown: not all switches on the way tell whether they route adaptively",
        };
        text += &format!("to LID {}; {meaning}\n", route.lid);
        for note in self.route_notes(route) {
            text += note;
            text.push('\n');
        }
        text
    }
}
