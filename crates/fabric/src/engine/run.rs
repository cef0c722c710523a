//! The loop of an engine: fill the window, take what arrives, repeat what got no answer.

use super::queue::{NodeId, Queue, Request, Route};
use super::{EngineError, MAX_WINDOW, Outcome, Settings, Stats, Work};
use crate::mad::{self, CLASS_PERFORMANCE, CLASS_SMP_DIRECTED, MAD_BYTES, Mad, STATUS_BUSY};
use crate::transport::{Arrival, Destination, Transport};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Longest wait in one receive, so that a stop request is seen soon.
const MAX_WAIT: Duration = Duration::from_millis(100);
/// Receive failures in a row after which a round is given up.
const MAX_RECEIVE_FAILURES: u32 = 16;

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
        let now = transport.now();
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
            next_deadline: now,
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
        let mut now = self.transport.now();
        let mut failures = 0;
        loop {
            self.fill(work, now);
            if self.free.len() == self.slots.len() {
                return Ok(());
            }
            if let Err(error) = self.transport.flush() {
                // What was not sent gets no answer and is repeated.
                self.stats.transport_failures += 1;
                tracing::debug!(%error, "MADs were not sent");
            }
            // First what is there already; only then wait.
            let mut arrival = self.transport.receive(&mut self.buffer, Duration::ZERO);
            if matches!(arrival, Ok(Arrival::Nothing)) {
                if stop.load(Ordering::Relaxed) {
                    return Err(EngineError::Stopped);
                }
                now = self.transport.now();
                let wait = self.next_deadline.saturating_duration_since(now);
                // A millisecond is what the layer below can wait at least.
                let wait = wait.clamp(Duration::from_millis(1), MAX_WAIT);
                arrival = self.transport.receive(&mut self.buffer, wait);
            }
            now = self.transport.now();
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
