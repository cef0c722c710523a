//! The loop of an engine: fill the window, take what arrives, look after what does not.

use super::queue::{NodeId, Queue, Request, Route};
use super::round_trip::RoundTrip;
use super::settings::{MIN_REPEAT_TICKS, YIELD_SMPS_PER_SECOND};
use super::slots::{Kind, SLOTS, Slot, Slots};
use super::tick::{NEVER, Tick};
use super::window::Window;
use super::{Backpressure, Budget, Ended, EngineError, Outcome, Settings, Stats, Work};
use crate::transport::{Arrival, Class, Destination, Transport, TransportError};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use throughline_infiniband::mad::{self, MAD_BYTES, Mad, REASONS, Reason};

/// Longest wait in one receive, so that a stop request is seen soon.
const MAX_WAIT: Duration = Duration::from_millis(100);
/// Shortest wait: what the layer below can wait at least.
const MIN_WAIT: Duration = Duration::from_millis(1);
/// Receive failures in a row after which a round is given up.
const MAX_RECEIVE_FAILURES: u32 = 16;
/// Arrivals in a row after which gathered sends are handed on all the same: one window. Sooner costs a system call
/// each time and was measured to be slower.
const FLUSH_AFTER: u32 = 32;
/// Deadlines wait for replies that are already there, but not longer than this.
const MAX_POSTPONED: Tick = 50_000_000;

/// The engine of one management class.
pub struct Engine {
    pub(super) transport: Box<dyn Transport>,
    pub(super) settings: Settings,
    /// How long an answer may take.
    pub(super) timeout: Tick,
    base: Instant,
    pub(super) queue: Queue,
    pub(super) slots: Slots,
    pub(super) window: Window,
    /// Of all nodes.
    pub(super) round_trip: RoundTrip,
    /// Serial number of the newest MAD sent.
    pub(super) serial: u64,
    /// The newest that was answered.
    pub(super) newest_answered: u64,
    /// Since anybody answered.
    pub(super) unanswered: UnansweredMads,
    backpressure: Backpressure,
    yield_pace: Budget,
    pub(super) buffer: Mad,
    pub(super) stats: Stats,
    /// Why the last send that failed in this round did.
    send_failure: Option<TransportError>,
    /// Replies that were not believed since somebody queried, by reason.
    pub(super) rejected: [u64; REASONS],
}

/// A point in time, as others see it and as it is reckoned with here.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    pub instant: Instant,
    pub tick: Tick,
}

impl Moment {
    /// A request ended now without a reply.
    pub fn ended(self) -> Ended {
        Ended { at: self.instant, took: Duration::ZERO }
    }
}

/// What was done since the last reply of any node.
#[derive(Clone, Copy, Default)]
pub(super) struct UnansweredMads {
    /// MADs sent.
    pub sent: usize,
    /// Repetitions sent.
    pub repeated: usize,
    /// Requests ended without an answer.
    pub timeouts: usize,
}

impl Engine {
    /// An engine without nodes. Settings out of range are brought into it.
    #[must_use]
    pub fn new(transport: Box<dyn Transport>, settings: Settings) -> Engine {
        let settings = settings.in_range();
        let base = transport.now();
        Engine {
            transport,
            settings,
            timeout: settings.timeout.as_nanos() as Tick,
            base,
            queue: Queue::new(settings.per_node),
            slots: Slots::new(),
            window: Window::new(settings.window, settings.class),
            round_trip: RoundTrip::default(),
            serial: 0,
            newest_answered: 0,
            unanswered: UnansweredMads::default(),
            backpressure: Backpressure::default(),
            yield_pace: Budget::new(YIELD_SMPS_PER_SECOND),
            buffer: [0; MAD_BYTES],
            stats: Stats::default(),
            send_failure: None,
            rejected: [0; REASONS],
        }
    }

    /// The queue, to fill it before [`Engine::run`].
    pub fn queue(&mut self) -> &mut Queue {
        &mut self.queue
    }

    /// Forgets all nodes, for a new topology.
    pub fn clear_nodes(&mut self) {
        self.queue.clear();
        self.slots.clear();
    }

    /// What was done so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats { silent_nodes: self.queue.silent_nodes() as u64, ..self.stats }
    }

    /// Replies that were not believed since the last call, by reason.
    pub fn take_rejected(&mut self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        let counts = std::mem::take(&mut self.rejected);
        Reason::ALL.map(Reason::name).into_iter().zip(counts).filter(|(_, count)| *count > 0)
    }

    /// Requests that may be outstanding now: the window after what was lost.
    #[must_use]
    pub fn window(&self) -> usize {
        self.window.present()
    }

    /// The smoothed round-trip time of all nodes; `None` before the first answer.
    #[must_use]
    pub fn round_trip(&self) -> Option<Duration> {
        self.round_trip.smoothed()
    }

    /// Nodes that are silent now.
    #[must_use]
    pub fn silent_nodes(&self) -> usize {
        self.queue.silent_nodes()
    }

    /// Gives way to the subnet manager, or no longer. Subnet management only: other classes take no notice.
    pub fn yield_to_sm(&self, has_backpressure: bool) {
        self.backpressure.set(has_backpressure);
    }

    /// Takes the hint to pause from elsewhere, for instance from another thread.
    pub fn follow(&mut self, hint: Backpressure) {
        self.backpressure = hint;
    }

    /// Works until nothing is queued or outstanding.
    ///
    /// # Errors
    /// [`EngineError::Stopped`] once `stop` is set, [`EngineError::Transport`] when receiving fails for good or
    /// nothing at all could be sent. What was queued is forgotten then, without an outcome.
    pub fn run(&mut self, work: &mut dyn Work, stop: &AtomicBool) -> Result<(), EngineError> {
        let sent = self.stats.sent;
        let mut result = self.work_off(work, stop);
        if let Some(error) = self.send_failure.take().filter(|_| result.is_ok() && self.stats.sent == sent) {
            // Nothing could be sent at all.
            result = Err(error.into());
        }
        if result.is_err() {
            self.slots.clear();
            self.queue.drop_requests();
        }
        result
    }

    fn work_off(&mut self, work: &mut dyn Work, stop: &AtomicBool) -> Result<(), EngineError> {
        let mut now = self.moment();
        self.send_failure = None;
        self.unanswered = UnansweredMads::default();
        self.take_what_waits(work, now);
        let (mut failures, mut in_a_row) = (0, 0);
        loop {
            let resume = self.fill(work, now);
            if resume.is_none() && !self.slots.is_waited_for() {
                // Probes whose outcome nobody waits for may have been gathered.
                self.flush();
                return Ok(());
            }
            // First what is there already; only then wait.
            let mut arrival = self.transport.receive(&mut self.buffer, Duration::ZERO);
            in_a_row += 1;
            if matches!(arrival, Ok(Arrival::Nothing)) || in_a_row >= FLUSH_AFTER {
                in_a_row = 0;
                self.flush();
            }
            if matches!(arrival, Ok(Arrival::Nothing)) {
                if stop.load(Ordering::Relaxed) {
                    return Err(EngineError::Stopped);
                }
                now = self.moment();
                if self.slots.next_due() <= now.tick {
                    self.check_overdue(work, now);
                    continue;
                }
                let wake = self.slots.next_due().min(resume.unwrap_or(NEVER));
                let wait = Duration::from_nanos(wake.saturating_sub(now.tick));
                arrival = self.transport.receive(&mut self.buffer, wait.clamp(MIN_WAIT, MAX_WAIT));
            }
            now = self.moment();
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
            if self.slots.next_due().saturating_add(MAX_POSTPONED) <= now.tick {
                self.check_overdue(work, now);
            }
        }
    }

    /// Takes what arrived since the last round: answers of nodes that were silent. Only then their probes end.
    fn take_what_waits(&mut self, work: &mut dyn Work, now: Moment) {
        for _ in 0..SLOTS {
            match self.transport.receive(&mut self.buffer, Duration::ZERO) {
                Ok(Arrival::Nothing) | Err(_) => break,
                Ok(kind) => self.arrived(kind, work, now),
            }
        }
        self.check_overdue(work, now);
    }

    fn tick(&self, instant: Instant) -> Tick {
        // 584 years fit.
        instant.saturating_duration_since(self.base).as_nanos() as Tick
    }

    fn moment(&self) -> Moment {
        let instant = self.transport.now();
        Moment { instant, tick: self.tick(instant) }
    }

    fn flush(&mut self) {
        if let Err(error) = self.transport.flush() {
            // What was not sent gets no answer and is repeated.
            self.stats.transport_failures += 1;
            tracing::debug!(%error, "MADs were not sent");
        }
    }

    /// Takes one MAD out of the budgets.
    pub(super) fn may_send(&mut self, now: Moment) -> Result<(), Tick> {
        let mut granted = Ok(());
        if self.settings.class == Class::Management && self.backpressure.is_set() {
            granted = self.yield_pace.take(now.instant);
        }
        if let (Ok(()), Some(budget)) = (granted, self.settings.budget) {
            granted = budget.take(now.instant);
        }
        self.stats.paced += u64::from(granted.is_err());
        granted.map_err(|at| self.tick(at))
    }

    /// Sends until the window is full or nothing is ready. The time from which more may be sent, if the budget
    /// does not allow it now.
    fn fill(&mut self, work: &mut dyn Work, now: Moment) -> Option<Tick> {
        if let Err(at) = self.probe(work, now) {
            return Some(at);
        }
        if self.settings.class == Class::Management {
            self.window.backpressure(self.backpressure.is_set());
        }
        while self.slots.count(Kind::Flying) < self.window.present()
            && self.slots.has_room(Kind::Flying)
            && self.queue.has_next()
        {
            if let Err(at) = self.may_send(now) {
                return Some(at);
            }
            let (node, request) = self.queue.next()?;
            if !self.launch(Kind::Flying, node, request, now) {
                self.queue.release(node);
                work.done(&mut self.queue, node, request.tag, Outcome::NotSent, now.ended());
            }
        }
        None
    }

    /// Queries silent nodes that have something queued, one thing each, aside from the window.
    fn probe(&mut self, work: &mut dyn Work, now: Moment) -> Result<(), Tick> {
        while let Some(id) = self.queue.to_probe.front().copied() {
            let node = self.queue.node(id);
            let is_wanted = node.is_silent && !node.pending.is_empty() && !node.has_probe;
            if !is_wanted || !self.slots.has_room(Kind::Probe) {
                let node = self.queue.node(id);
                node.was_passed_over = is_wanted;
                let is_silent = node.is_silent;
                self.queue.to_probe.pop_front();
                if is_silent {
                    self.spare(id, work, now);
                }
                continue;
            }
            self.may_send(now)?;
            self.queue.to_probe.pop_front();
            let Some(request) = self.queue.node(id).pending.pop_front() else { continue };
            self.stats.probes += 1;
            self.queue.node(id).has_probe = self.launch(Kind::Probe, id, request, now);
            if !self.queue.node(id).has_probe {
                work.done(&mut self.queue, id, request.tag, Outcome::NotSent, now.ended());
                self.spare(id, work, now);
            }
        }
        Ok(())
    }

    /// Ends all that is queued for a silent node.
    pub(super) fn spare(&mut self, id: NodeId, work: &mut dyn Work, now: Moment) {
        while let Some(request) = self.queue.node(id).pending.pop_front() {
            self.stats.spared += 1;
            work.done(&mut self.queue, id, request.tag, Outcome::Silent, now.ended());
        }
    }

    /// Sends the first attempt of a request; whether that went well.
    fn launch(&mut self, kind: Kind, node: NodeId, request: Request, now: Moment) -> bool {
        let slot = Slot {
            node,
            request,
            kind,
            attempt: 0,
            is_over: false,
            serial: self.serial + 1,
            first_serial: self.serial + 1,
            first_sent: now.tick,
            sent: now.tick,
            // Looked at soon even before any round trip is known: it may be known then.
            due: now.tick
                + if kind == Kind::Probe {
                    self.patience(node)
                } else {
                    self.expected(node).min(MIN_REPEAT_TICKS)
                },
        };
        let Some(index) = self.slots.insert(slot) else { return false };
        let is_sent = self.transmit(index, &slot);
        if !is_sent {
            self.slots.remove(index);
        }
        is_sent
    }

    /// Sends the present attempt of a slot.
    pub(super) fn transmit(&mut self, index: usize, slot: &Slot) -> bool {
        let transaction = self.slots.transaction(index, slot.attempt);
        let mut bytes = [0; MAD_BYTES];
        let (to, hops) = match self.queue.route(slot.node) {
            Route::Directed(path) => {
                mad::build_smp_get(&mut bytes, path, &slot.request.query, transaction);
                mad::set_m_key(&mut bytes, self.settings.m_key.number());
                (Destination::Directed, path.ports().len() as u64)
            }
            Route::Lid { lid, service_level } => {
                mad::build_performance_get(&mut bytes, &slot.request.query, transaction);
                (Destination::Lid { lid: *lid, service_level: *service_level }, 0)
            }
            Route::Agent(agent) => {
                mad::build_performance_get(&mut bytes, &slot.request.query, transaction);
                (Destination::Agent(*agent), 0)
            }
        };
        match self.transport.send(&bytes, to, self.settings.timeout) {
            Ok(()) => {
                self.serial += 1;
                self.stats.sent += 1;
                self.stats.hops += hops;
                self.unanswered.sent += 1;
                true
            }
            Err(error) => {
                self.stats.transport_failures += 1;
                tracing::debug!(%error, "a MAD was not sent");
                self.send_failure = Some(error);
                false
            }
        }
    }
}

impl Drop for Engine {
    /// Says what it cost.
    fn drop(&mut self) {
        if self.stats.sent > 0 {
            let class = match self.settings.class {
                Class::Management => "SMPs (QP0, VL15)",
                _ => "GMPs (QP1, data VLs)",
            };
            tracing::debug!(target: super::COST_TARGET, "{class}: {}", self.stats);
        }
    }
}
