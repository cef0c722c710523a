//! The nodes and what is still to be asked of them, in turn. Sends nothing and knows no time-outs.

use crate::mad::{DirectedPath, Query};
use std::collections::VecDeque;
use std::time::Instant;

/// How a node is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Directed-route SMP.
    Directed(DirectedPath),
    /// Performance MAD by LID.
    Lid {
        /// LID of the port.
        lid: u16,
        /// Service level.
        service_level: u8,
    },
}

/// A node known to the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub(super) u32);

/// One request; `tag` comes back with the outcome.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// What to ask for.
    pub query: Query,
    /// The caller's mark.
    pub tag: u64,
}

/// A node: what is still to be asked of it, and how it behaves.
pub(super) struct Node {
    pub route: Route,
    pub pending: VecDeque<Request>,
    pub outstanding: u8,
    pub is_ready: bool,
    pub is_silent: bool,
    pub last_heard: Option<Instant>,
}

/// The nodes and what is still to be asked of them.
pub struct Queue {
    pub(super) nodes: Vec<Node>,
    /// Nodes that have something pending and room for it, in the order of asking.
    pub(super) ready: VecDeque<NodeId>,
    pub(super) per_node: u8,
}

impl Queue {
    /// Adds a node.
    pub fn add_node(&mut self, route: Route) -> NodeId {
        // Nodes are bounded by the ports of a subnet (below 2^16 LIDs x ports), so 32 bits suffice.
        let id = NodeId(self.nodes.len() as u32);
        self.nodes.push(Node {
            route,
            pending: VecDeque::new(),
            outstanding: 0,
            is_ready: false,
            is_silent: false,
            last_heard: None,
        });
        id
    }

    /// How a node is reached.
    #[must_use]
    pub fn route(&self, id: NodeId) -> &Route {
        &self.nodes[id.0 as usize].route
    }

    /// Whether nothing came from the node for a whole request, and nothing since.
    #[must_use]
    pub fn is_silent(&self, id: NodeId) -> bool {
        self.nodes[id.0 as usize].is_silent
    }

    /// Appends a request to a node's queue.
    pub fn push(&mut self, id: NodeId, request: Request) {
        self.nodes[id.0 as usize].pending.push_back(request);
        self.make_ready(id);
    }

    fn limit(&self, node: &Node) -> u8 {
        if node.is_silent { 1 } else { self.per_node }
    }

    /// Puts a node into the round if it has something to ask and room for it.
    pub(super) fn make_ready(&mut self, id: NodeId) {
        let limit = self.limit(&self.nodes[id.0 as usize]);
        let node = &mut self.nodes[id.0 as usize];
        if !node.is_ready && !node.pending.is_empty() && node.outstanding < limit {
            node.is_ready = true;
            self.ready.push_back(id);
        }
    }

    /// The next request in turn; its node goes to the end of the round.
    pub(super) fn next(&mut self) -> Option<(NodeId, Request)> {
        while let Some(id) = self.ready.pop_front() {
            let limit = self.limit(&self.nodes[id.0 as usize]);
            let node = &mut self.nodes[id.0 as usize];
            node.is_ready = false;
            // A node may have become silent, or empty, while it stood in the round.
            if node.outstanding >= limit {
                continue;
            }
            if let Some(request) = node.pending.pop_front() {
                node.outstanding += 1;
                self.make_ready(id);
                return Some((id, request));
            }
        }
        None
    }
}
