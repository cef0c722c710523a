//! The nodes and what is still to be queried of them, in turn. Sends nothing and knows no time-outs.
//!
//! A node is *suspect* while one of its requests is overdue: nothing new is queried of it. It is *silent* after a
//! whole request without an answer: then what is queued for it waits for a probe.

use super::round_trip::RoundTrip;
use super::tick::Tick;
use std::collections::VecDeque;
use throughline_infiniband::mad::{DirectedPath, Query, Redirection};

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
    /// Performance MAD to where the agent sent its requests.
    Agent(Redirection),
}

/// Times that a node may send its requests elsewhere in a row: one that always does is refusing.
const REDIRECTIONS_MAX: u8 = 4;

/// A node known to the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub(super) u32);

/// One request; `tag` comes back with the outcome.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// What to request.
    pub query: Query,
    /// The caller's mark.
    pub tag: u64,
    /// Whether the node may well be silent about it, because agents differ: one attempt, and no longer a wait than
    /// its round trips suggest.
    pub is_trial: bool,
}

impl Request {
    /// One that every node answers.
    #[must_use]
    pub fn new(query: Query, tag: u64) -> Request {
        Request { query, tag, is_trial: false }
    }

    /// One about which nodes may be silent.
    #[must_use]
    pub fn trial(query: Query, tag: u64) -> Request {
        Request { query, tag, is_trial: true }
    }
}

/// A node: what is still to be queried of it, and how it behaves.
pub(super) struct Node {
    pub route: Route,
    /// How it was reached before it sent its requests elsewhere.
    home: Option<Route>,
    redirections: u8,
    pub pending: VecDeque<Request>,
    /// Requests outstanding, probes not among them.
    pub outstanding: u8,
    /// Of these, overdue ones.
    pub overdue: u8,
    pub is_ready: bool,
    pub is_silent: bool,
    /// A probe is under way, whether its outcome is still waited for or not.
    pub has_probe: bool,
    /// There was no room to probe it last time.
    pub was_passed_over: bool,
    pub last_answer: Option<Tick>,
    /// Serial number of the newest attempt that it answered.
    pub newest_answered: u64,
    pub round_trip: RoundTrip,
}

/// The nodes and what is still to be queried of them.
pub struct Queue {
    pub(super) nodes: Vec<Node>,
    /// Nodes that have something pending and room for it, in the order of asking.
    pub(super) ready: VecDeque<NodeId>,
    /// Silent nodes that have something pending and no probe under way.
    pub(super) to_probe: VecDeque<NodeId>,
    per_node: u8,
    silent: usize,
}

impl Queue {
    pub(super) fn new(per_node: u8) -> Queue {
        Queue { nodes: Vec::new(), ready: VecDeque::new(), to_probe: VecDeque::new(), per_node, silent: 0 }
    }

    /// Adds a node.
    pub fn add_node(&mut self, route: Route) -> NodeId {
        // Nodes are bounded by the ports of a subnet (below 2^16 LIDs x ports), so 32 bits suffice.
        let id = NodeId(self.nodes.len() as u32);
        self.nodes.push(Node {
            route,
            home: None,
            redirections: 0,
            pending: VecDeque::new(),
            outstanding: 0,
            overdue: 0,
            is_ready: false,
            is_silent: false,
            has_probe: false,
            was_passed_over: false,
            last_answer: None,
            newest_answered: 0,
            round_trip: RoundTrip::default(),
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

    /// Nodes that are silent now.
    #[must_use]
    pub fn silent_nodes(&self) -> usize {
        self.silent
    }

    /// Appends a request to a node's queue.
    pub fn push(&mut self, id: NodeId, request: Request) {
        let node = &mut self.nodes[id.0 as usize];
        node.pending.push_back(request);
        if node.is_silent && node.pending.len() == 1 {
            // A node that found no room last time comes first now.
            match std::mem::take(&mut node.was_passed_over) {
                true => self.to_probe.push_front(id),
                false => self.to_probe.push_back(id),
            }
        }
        self.make_ready(id);
    }

    pub(super) fn node(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id.0 as usize]
    }

    fn has_room(&self, node: &Node) -> bool {
        let limit = match node {
            Node { is_silent: true, .. } => 0,
            Node { overdue: 1.., .. } => 1,
            _ => self.per_node,
        };
        node.outstanding < limit
    }

    /// Puts a node into the round if it has something to query and room for it.
    pub(super) fn make_ready(&mut self, id: NodeId) {
        let node = &self.nodes[id.0 as usize];
        if !node.is_ready && !node.pending.is_empty() && self.has_room(node) {
            self.nodes[id.0 as usize].is_ready = true;
            self.ready.push_back(id);
        }
    }

    /// Whether there is a next request. A node may have become suspect, or empty, while it stood in the round.
    pub(super) fn has_next(&mut self) -> bool {
        while let Some(id) = self.ready.front().copied() {
            let node = &self.nodes[id.0 as usize];
            if !node.pending.is_empty() && self.has_room(node) {
                return true;
            }
            self.nodes[id.0 as usize].is_ready = false;
            self.ready.pop_front();
        }
        false
    }

    /// The next request in turn; its node goes to the end of the round.
    pub(super) fn next(&mut self) -> Option<(NodeId, Request)> {
        if !self.has_next() {
            return None;
        }
        let id = self.ready.pop_front()?;
        let node = &mut self.nodes[id.0 as usize];
        node.is_ready = false;
        let request = node.pending.pop_front()?;
        node.outstanding += 1;
        self.make_ready(id);
        Some((id, request))
    }

    /// One request of this node is not outstanding any more.
    pub(super) fn release(&mut self, id: NodeId) {
        let node = self.node(id);
        node.outstanding = node.outstanding.saturating_sub(1);
        self.make_ready(id);
    }

    /// The node answered.
    pub(super) fn answered(&mut self, id: NodeId, serial: u64, now: Tick) {
        let node = self.node(id);
        node.last_answer = Some(now);
        node.newest_answered = node.newest_answered.max(serial);
        if std::mem::take(&mut node.is_silent) {
            self.silent -= 1;
            self.make_ready(id);
        }
    }

    /// From now on requests go where the node's agent said. `false` where that goes on and on.
    pub fn redirect(&mut self, id: NodeId, to: Redirection) -> bool {
        let node = self.node(id);
        if node.route == Route::Agent(to) {
            return true;
        }
        node.redirections = node.redirections.saturating_add(1);
        if node.redirections > REDIRECTIONS_MAX || matches!(node.route, Route::Directed(_)) {
            return false;
        }
        node.home.get_or_insert(node.route);
        node.route = Route::Agent(to);
        true
    }

    /// The node is not taken for silent: it only did not know what was requested.
    pub fn believe(&mut self, id: NodeId) {
        if std::mem::take(&mut self.node(id).is_silent) {
            self.silent -= 1;
            self.make_ready(id);
        }
    }

    /// The node did not answer a whole request.
    pub(super) fn fell_silent(&mut self, id: NodeId) {
        // Who answered elsewhere is queried at home again, and may say anew where.
        let node = self.node(id);
        if let Some(home) = node.home.take() {
            (node.route, node.redirections) = (home, 0);
        }
        if !std::mem::replace(&mut self.node(id).is_silent, true) {
            self.silent += 1;
        }
    }

    /// Forgets all nodes.
    pub(super) fn clear(&mut self) {
        self.nodes.clear();
        self.ready.clear();
        self.to_probe.clear();
        self.silent = 0;
    }

    /// Forgets what has not been sent, without an outcome.
    pub fn drop_pending(&mut self) {
        self.ready.clear();
        self.to_probe.clear();
        for node in &mut self.nodes {
            node.pending.clear();
            node.is_ready = false;
        }
    }

    /// Forgets all requests, without an outcome.
    pub(super) fn drop_requests(&mut self) {
        self.ready.clear();
        self.to_probe.clear();
        for node in &mut self.nodes {
            node.pending.clear();
            node.outstanding = 0;
            node.overdue = 0;
            node.is_ready = false;
            node.has_probe = false;
        }
    }
}
