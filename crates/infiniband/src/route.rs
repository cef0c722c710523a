//! Routes from linear forwarding tables: which ports a packet from one node to another passes, and how many pairs
//! of hosts pass each link. Pure.
//!
//! A route from tables is exact for static routing only; what is known of that stands beside it ([`RouteKind`]).

mod credit;
mod kind;
mod lanes;
mod pairs;
mod report;
mod target;
mod text;
mod wiring;

#[cfg(test)]
mod tests;

pub use kind::{RouteKind, VENDOR_MELLANOX, is_aggregation_node};
pub use lanes::{LaneMap, LanePairs, LaneVerdict, SwitchCrossing, decode_lane_map};
pub use pairs::{AllPairs, Fault, Finding, LinkUse, Scope};
pub use target::{Target, TargetError};
pub use text::RouteDocument;

use crate::mad::NodeKind;
use crate::topology::{NodeIndex, PortEnd, Topology};
use throughline_sample::Guid;

/// Most switches on a way: IBTA's hop limit of directed routes; a longer way is a loop.
const MAX_SWITCHES: usize = crate::mad::MAX_HOPS;

/// One node on a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The node.
    pub node: NodeIndex,
    /// Port by which packets come in; `None` at the source.
    pub in_port: Option<u8>,
    /// Port by which they leave; `None` at the destination.
    pub out_port: Option<u8>,
}

/// A route to one LID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The destination's LID.
    pub lid: u16,
    /// From the source to the destination.
    pub hops: Vec<Hop>,
}

/// Why there is no route.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// No such node.
    #[error("no node or port of this subnet has the GUID {0}; `throughline-fabric discover` lists them")]
    UnknownGuid(Guid),
    /// The end has no LID yet.
    #[error("{0} has no LID: the subnet manager has not configured it")]
    NoLid(Guid),
    /// A LID that the destination does not have.
    #[error("LID {lid} is not one of {node}, whose LIDs are {first} to {last}")]
    NotItsLid {
        /// The destination.
        node: Guid,
        /// The LID requested.
        lid: u16,
        /// Its first LID.
        first: u16,
        /// Its last LID.
        last: u16,
    },
    /// The way ends at a switch.
    #[error("switch {switch} has no entry for LID {lid}")]
    NoEntry {
        /// The switch.
        switch: Guid,
        /// The destination.
        lid: u16,
    },
    /// The table leads out of a port without a known neighbour.
    #[error("{node} sends LID {lid} to port {port}, behind which no neighbour is known")]
    NoNeighbour {
        /// The node.
        node: Guid,
        /// The destination.
        lid: u16,
        /// The port.
        port: u8,
    },
    /// The way leads to an end node or port that is not the destination.
    #[error("LID {lid} ends at port {port} of {node}, which does not have it")]
    WrongEnd {
        /// The node.
        node: Guid,
        /// The destination.
        lid: u16,
        /// The node's port.
        port: u8,
    },
    /// The way does not end.
    #[error("LID {lid} loops: {switch} is passed twice")]
    Loop {
        /// The first switch passed twice.
        switch: Guid,
        /// The destination.
        lid: u16,
    },
}

impl Topology {
    /// The end that a node GUID or a port GUID means: of a node with several ports the first with a LID.
    ///
    /// # Errors
    /// [`RouteError::UnknownGuid`], [`RouteError::NoLid`].
    pub fn end_of(&self, guid: Guid) -> Result<PortEnd, RouteError> {
        match self.node_by_guid(guid) {
            Some(index) => self.end_of_node(index),
            None => self.port_by_guid(guid).ok_or(RouteError::UnknownGuid(guid)),
        }
    }

    /// The end of a node: its first port with a LID.
    ///
    /// # Errors
    /// [`RouteError::NoLid`].
    pub fn end_of_node(&self, index: NodeIndex) -> Result<PortEnd, RouteError> {
        let node = &self.nodes[index];
        let with_lid = |port: &&crate::topology::Port| port.info.is_some_and(|info| info.lid != 0);
        let port = node.ports.iter().find(with_lid).ok_or(RouteError::NoLid(node.guid))?;
        Ok(PortEnd { node: index, port: port.number })
    }

    /// The LIDs of an end, from its base LID on: 2^LMC of them. `None` without a LID.
    #[must_use]
    pub fn lids_of(&self, end: PortEnd) -> Option<std::ops::RangeInclusive<u16>> {
        let node = self.nodes.get(end.node)?;
        // A switch's LID is that of its port 0.
        let number = if node.kind == NodeKind::Switch { 0 } else { end.port };
        let info = node.port(number)?.info.filter(|info| info.lid != 0)?;
        let last = u32::from(info.lid) + (1 << u32::from(info.lmc)) - 1;
        Some(info.lid..=u16::try_from(last).unwrap_or(u16::MAX))
    }

    /// The end that has a LID.
    #[must_use]
    pub fn owner_of(&self, lid: u16) -> Option<PortEnd> {
        let ends = self.nodes.iter().enumerate().flat_map(|(index, node)| {
            let is_end = move |number: u8| node.kind != NodeKind::Switch || number == 0;
            let numbers = node.ports.iter().map(|port| port.number).filter(move |number| is_end(*number));
            numbers.map(move |port| PortEnd { node: index, port })
        });
        ends.into_iter().find(|end| self.lids_of(*end).is_some_and(|lids| lids.contains(&lid)))
    }

    /// The route from one node to another, both by node GUID or port GUID, to the destination's first LID.
    ///
    /// # Errors
    /// [`RouteError`].
    pub fn route(&self, from: Guid, to: Guid) -> Result<Vec<Hop>, RouteError> {
        self.route_between(self.end_of(from)?, self.end_of(to)?, None).map(|route| route.hops)
    }

    /// The route from one end to another: to its LID `lid`, or to its first one.
    ///
    /// # Errors
    /// [`RouteError`].
    pub fn route_between(&self, from: PortEnd, to: PortEnd, lid: Option<u16>) -> Result<Route, RouteError> {
        let node = self.nodes[to.node].guid;
        let lids = self.lids_of(to).ok_or(RouteError::NoLid(node))?;
        let lid = lid.unwrap_or(*lids.start());
        if !lids.contains(&lid) {
            return Err(RouteError::NotItsLid { node, lid, first: *lids.start(), last: *lids.end() });
        }
        Ok(Route { lid, hops: self.walk(from, to, lid)? })
    }

    fn walk(&self, from: PortEnd, to: PortEnd, lid: u16) -> Result<Vec<Hop>, RouteError> {
        let mut hops = vec![Hop { node: from.node, in_port: None, out_port: None }];
        let is_switch = |node: NodeIndex| self.nodes[node].kind == NodeKind::Switch;
        // A switch is one end, whatever the port; of other nodes each port is one.
        if from.node == to.node && (is_switch(to.node) || from.port == to.port) {
            return Ok(hops);
        }
        let (mut here, mut leaves) = (from.node, !is_switch(from.node));
        loop {
            let node = &self.nodes[here];
            let out = if leaves {
                from.port
            } else {
                node.output_port(lid).ok_or(RouteError::NoEntry { switch: node.guid, lid })?
            };
            leaves = false;
            let remote = node.port(out).and_then(|port| port.remote);
            let next = remote.ok_or(RouteError::NoNeighbour { node: node.guid, lid, port: out })?;
            if let Some(last) = hops.last_mut() {
                last.out_port = Some(out);
            }
            let is_there = next.node == to.node && (is_switch(to.node) || next.port == to.port);
            if !is_there && !is_switch(next.node) {
                let guid = self.nodes[next.node].guid;
                return Err(RouteError::WrongEnd { node: guid, lid, port: next.port });
            }
            let is_loop = is_switch(next.node) && hops.iter().any(|hop| hop.node == next.node);
            if is_loop || hops.len() > MAX_SWITCHES + 1 {
                return Err(RouteError::Loop { switch: self.nodes[next.node].guid, lid });
            }
            hops.push(Hop { node: next.node, in_port: Some(next.port), out_port: None });
            if is_there {
                return Ok(hops);
            }
            here = next.node;
        }
    }
}
