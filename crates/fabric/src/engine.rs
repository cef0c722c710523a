//! The pipelined MAD engine: a window of outstanding requests over many nodes.
//!
//! One engine serves one management class on one thread. It goes round the nodes, holds at most a few requests
//! open at each, keeps its own deadlines and repeats what got no answer. A node from which nothing came for a
//! whole request with all its repetitions is *silent*: its other requests end at once, and until it answers
//! again it is asked one thing at a time without repetition, so it costs one deadline per round and not one per
//! port. The engine does not know what the attributes mean; a [`Work`] does. Nothing is allocated per MAD once
//! queues have grown.

use crate::mad::{
    self, CLASS_PERFORMANCE, CLASS_SMP_DIRECTED, DirectedPath, MAD_BYTES, Mad, Query, STATUS_BUSY,
};
use crate::transport::{Arrival, Class, Destination, Transport, TransportError};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Outstanding requests by default; opensm's performance manager allows itself 500, kernel queues hold 512.
pub const DEFAULT_WINDOW: usize = 32;
/// Outstanding requests at most: libumad2sim deadlocks at about 256, the kernel's send queue has 128.
pub const MAX_WINDOW: usize = 128;
/// Outstanding SMPs at most: VL15 has no flow control and drops; opensm allows itself 4.
pub const MAX_SMP_WINDOW: usize = 16;
/// Outstanding requests at one node by default: agents answer one after the other and drop what they can't
/// hold.
pub const DEFAULT_PER_NODE: u8 = 2;
/// Time until a request without an answer is repeated.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_millis(200);
/// Repetitions of a request without an answer.
pub const DEFAULT_RETRIES: u8 = 2;
/// Longest wait in one receive, so that a stop request is seen soon.
const MAX_WAIT: Duration = Duration::from_millis(100);
/// Receive failures in a row after which a round is given up.
const MAX_RECEIVE_FAILURES: u32 = 16;

/// Limits of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Outstanding requests, 1 to [`MAX_WINDOW`].
    pub window: usize,
    /// Outstanding requests at one node, at least 1.
    pub per_node: u8,
    /// Deadline of one attempt.
    pub timeout: Duration,
    /// Attempts after the first.
    pub retries: u8,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            window: DEFAULT_WINDOW,
            per_node: DEFAULT_PER_NODE,
            timeout: DEFAULT_TIMEOUT,
            retries: DEFAULT_RETRIES,
        }
    }
}

impl Settings {
    /// The same, with the narrower window that subnet management allows.
    #[must_use]
    pub fn for_class(self, class: Class) -> Self {
        let most = if class == Class::Management { MAX_SMP_WINDOW } else { MAX_WINDOW };
        Settings { window: self.window.min(most), ..self }
    }
}

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
pub struct NodeId(u32);

/// One request; `tag` comes back with the outcome.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// What to ask for.
    pub query: Query,
    /// The caller's mark.
    pub tag: u64,
}

/// How a request ended.
#[derive(Clone, Copy, Debug)]
pub enum Outcome<'a> {
    /// A reply with status 0.
    Reply(&'a Mad),
    /// A reply with this status: the agent does not know the attribute or the value.
    Refused(u16),
    /// No answer within all attempts.
    Timeout,
    /// Not asked, because the node is silent.
    Silent,
    /// Not sent: the transport refused it.
    NotSent,
}

/// Gets the outcomes and may queue more.
pub trait Work {
    /// One request ended. `now` is about the time of the reply.
    fn done(&mut self, queue: &mut Queue, node: NodeId, tag: u64, outcome: Outcome<'_>, now: Instant);
}

/// What an engine did since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// MADs sent, with repetitions.
    pub sent: u64,
    /// Repetitions.
    pub retries: u64,
    /// Requests that got no answer within all attempts.
    pub timeouts: u64,
    /// Requests that were not sent because their node was silent.
    pub spared: u64,
    /// Replies to nothing outstanding: late or duplicate.
    pub unexpected: u64,
    /// Replies that were refused by their agent.
    pub refused: u64,
    /// Sends and receives that failed.
    pub transport_failures: u64,
}

/// A round was given up.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The process was asked to stop.
    #[error("stopped")]
    Stopped,
    /// The transport does not work any more.
    #[error(transparent)]
    Transport(#[from] TransportError),
}

struct Node {
    route: Route,
    pending: VecDeque<Request>,
    outstanding: u8,
    is_ready: bool,
    is_silent: bool,
    last_heard: Option<Instant>,
}

/// The nodes and what is still to be asked of them.
pub struct Queue {
    nodes: Vec<Node>,
    /// Nodes that have something pending and room for it, in the order of asking.
    ready: VecDeque<NodeId>,
    per_node: u8,
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

    fn make_ready(&mut self, id: NodeId) {
        let limit = self.limit(&self.nodes[id.0 as usize]);
        let node = &mut self.nodes[id.0 as usize];
        if !node.is_ready && !node.pending.is_empty() && node.outstanding < limit {
            node.is_ready = true;
            self.ready.push_back(id);
        }
    }

    /// The next request in turn; its node goes to the end of the round.
    fn next(&mut self) -> Option<(NodeId, Request)> {
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

/// One outstanding request.
#[derive(Clone, Copy)]
struct Slot {
    node: NodeId,
    request: Request,
    transaction: u32,
    attempts_left: u8,
    first_sent: Instant,
    deadline: Instant,
}

/// The engine of one management class.
pub struct Engine {
    transport: Box<dyn Transport>,
    settings: Settings,
    queue: Queue,
    slots: Vec<Option<Slot>>,
    free: Vec<u8>,
    generation: u32,
    /// No deadline of a slot is earlier.
    next_deadline: Instant,
    buffer: Mad,
    stats: Stats,
}

impl Engine {
    /// An engine without nodes. Settings out of range are brought into it.
    #[must_use]
    pub fn new(transport: Box<dyn Transport>, settings: Settings) -> Engine {
        let settings = Settings {
            window: settings.window.clamp(1, MAX_WINDOW),
            per_node: settings.per_node.max(1),
            timeout: settings.timeout.max(Duration::from_millis(1)),
            ..settings
        };
        Engine {
            transport,
            settings,
            queue: Queue { nodes: Vec::new(), ready: VecDeque::new(), per_node: settings.per_node },
            slots: vec![None; settings.window],
            free: (0..settings.window as u8).rev().collect(),
            generation: 0,
            next_deadline: Instant::now(),
            buffer: [0; MAD_BYTES],
            stats: Stats::default(),
        }
    }

    /// The queue, to fill it before [`Engine::run`].
    pub fn queue(&mut self) -> &mut Queue {
        &mut self.queue
    }

    /// Forgets all nodes, for a new topology.
    pub fn clear_nodes(&mut self) {
        self.queue.nodes.clear();
        self.queue.ready.clear();
    }

    /// What was done so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Works until nothing is queued or outstanding.
    ///
    /// # Errors
    /// [`EngineError::Stopped`] once `stop` is set, [`EngineError::Transport`] when receiving fails for good.
    /// What was queued is forgotten then, without an outcome.
    pub fn run(&mut self, work: &mut dyn Work, stop: &AtomicBool) -> Result<(), EngineError> {
        let result = self.work_off(work, stop);
        if result.is_err() {
            for slot in &mut self.slots {
                *slot = None;
            }
            self.free = (0..self.settings.window as u8).rev().collect();
            self.queue.ready.clear();
            for node in &mut self.queue.nodes {
                node.pending.clear();
                node.outstanding = 0;
                node.is_ready = false;
            }
        }
        result
    }

    fn work_off(&mut self, work: &mut dyn Work, stop: &AtomicBool) -> Result<(), EngineError> {
        let mut now = Instant::now();
        let mut failures = 0;
        loop {
            self.fill(work, now);
            if self.free.len() == self.slots.len() {
                return Ok(());
            }
            // First what is there already; only then wait.
            let mut arrival = self.transport.receive(&mut self.buffer, Duration::ZERO);
            if matches!(arrival, Ok(Arrival::Nothing)) {
                if stop.load(Ordering::Relaxed) {
                    return Err(EngineError::Stopped);
                }
                now = Instant::now();
                let wait = self.next_deadline.saturating_duration_since(now);
                // A millisecond is what the layer below can wait at least.
                let wait = wait.clamp(Duration::from_millis(1), MAX_WAIT);
                arrival = self.transport.receive(&mut self.buffer, wait);
            }
            now = Instant::now();
            match arrival {
                Ok(Arrival::Nothing) => failures = 0,
                Ok(kind) => {
                    failures = 0;
                    self.arrived(kind, work, now);
                }
                Err(error) => {
                    self.stats.transport_failures += 1;
                    failures += 1;
                    if failures >= MAX_RECEIVE_FAILURES {
                        return Err(error.into());
                    }
                }
            }
            if now >= self.next_deadline {
                self.expire(work, now);
            }
        }
    }

    /// Sends until the window is full or nothing is ready.
    fn fill(&mut self, work: &mut dyn Work, now: Instant) {
        while let Some(index) = self.free.last().copied() {
            let Some((node, request)) = self.queue.next() else { return };
            let attempts_left =
                if self.queue.nodes[node.0 as usize].is_silent { 0 } else { self.settings.retries };
            // Low byte: the slot; the rest distinguishes its uses, so that late replies are not mistaken.
            self.generation = self.generation.wrapping_add(1);
            let transaction = self.generation << 8 | u32::from(index);
            let deadline = now + self.settings.timeout;
            let slot = Slot { node, request, transaction, attempts_left, first_sent: now, deadline };
            if self.transmit(&slot) {
                if self.free.len() == self.slots.len() || deadline < self.next_deadline {
                    self.next_deadline = deadline;
                }
                self.free.pop();
                self.slots[usize::from(index)] = Some(slot);
            } else {
                self.release(node);
                work.done(&mut self.queue, node, request.tag, Outcome::NotSent, now);
            }
        }
    }

    fn transmit(&mut self, slot: &Slot) -> bool {
        let mut bytes = [0; MAD_BYTES];
        let to = match &self.queue.nodes[slot.node.0 as usize].route {
            Route::Directed(path) => {
                mad::build_smp_get(&mut bytes, path, &slot.request.query, slot.transaction);
                Destination::Directed
            }
            Route::Lid { lid, service_level } => {
                mad::build_performance_get(&mut bytes, &slot.request.query, slot.transaction);
                Destination::Lid { lid: *lid, service_level: *service_level }
            }
        };
        match self.transport.send(&bytes, to, self.settings.timeout) {
            Ok(()) => {
                self.stats.sent += 1;
                true
            }
            Err(error) => {
                self.stats.transport_failures += 1;
                tracing::debug!(%error, "a MAD was not sent");
                false
            }
        }
    }

    /// One request of this node is not outstanding any more.
    fn release(&mut self, id: NodeId) {
        let node = &mut self.queue.nodes[id.0 as usize];
        node.outstanding = node.outstanding.saturating_sub(1);
        self.queue.make_ready(id);
    }

    fn arrived(&mut self, kind: Arrival, work: &mut dyn Work, now: Instant) {
        let header = mad::reply_header(&self.buffer);
        let index = (header.transaction & 0xFF) as usize;
        let slot = self.slots.get(index).copied().flatten();
        let Some(slot) = slot.filter(|slot| slot.transaction == header.transaction) else {
            self.stats.unexpected += 1;
            return;
        };
        if kind == Arrival::GivenUp {
            self.missed(index, slot, work, now);
            return;
        }
        let is_ours = header.is_response
            && header.attribute == slot.request.query.attribute
            && matches!(header.class, CLASS_SMP_DIRECTED | CLASS_PERFORMANCE);
        if !is_ours {
            self.stats.unexpected += 1;
            return;
        }
        let node = &mut self.queue.nodes[slot.node.0 as usize];
        node.last_heard = Some(now);
        node.is_silent = false;
        if header.status & STATUS_BUSY != 0 && slot.attempts_left > 0 {
            self.missed(index, slot, work, now);
            return;
        }
        self.slots[index] = None;
        self.free.push(index as u8);
        self.release(slot.node);
        let outcome = if header.status == 0 {
            Outcome::Reply(&self.buffer)
        } else {
            self.stats.refused += 1;
            Outcome::Refused(header.status)
        };
        work.done(&mut self.queue, slot.node, slot.request.tag, outcome, now);
    }

    /// An attempt got no answer: the next one, or the end.
    fn missed(&mut self, index: usize, mut slot: Slot, work: &mut dyn Work, now: Instant) {
        if slot.attempts_left > 0 {
            slot.attempts_left -= 1;
            slot.deadline = now + self.settings.timeout;
            self.next_deadline = self.next_deadline.min(slot.deadline);
            if self.transmit(&slot) {
                self.stats.retries += 1;
                self.slots[index] = Some(slot);
                return;
            }
        }
        self.stats.timeouts += 1;
        self.slots[index] = None;
        self.free.push(index as u8);
        let node = &mut self.queue.nodes[slot.node.0 as usize];
        let heard_meanwhile = node.last_heard.is_some_and(|heard| heard >= slot.first_sent);
        if !heard_meanwhile {
            node.is_silent = true;
        }
        let is_silent = node.is_silent;
        self.release(slot.node);
        work.done(&mut self.queue, slot.node, slot.request.tag, Outcome::Timeout, now);
        if is_silent {
            self.spare(slot.node, work, now);
        }
    }

    /// Ends all that is queued for a silent node.
    fn spare(&mut self, id: NodeId, work: &mut dyn Work, now: Instant) {
        while let Some(request) = self.queue.nodes[id.0 as usize].pending.pop_front() {
            self.stats.spared += 1;
            work.done(&mut self.queue, id, request.tag, Outcome::Silent, now);
        }
    }

    fn expire(&mut self, work: &mut dyn Work, now: Instant) {
        for index in 0..self.slots.len() {
            if let Some(slot) = self.slots[index].filter(|slot| slot.deadline <= now) {
                self.missed(index, slot, work, now);
            }
        }
        let earliest = self.slots.iter().flatten().map(|slot| slot.deadline).min();
        self.next_deadline = earliest.unwrap_or(now + self.settings.timeout);
    }
}

#[cfg(test)]
mod tests;
