//! One topology swept again and again: queries, takes replies, keeps epochs. Nothing is allocated per MAD or port
//! once it is planned.

use super::ClockPoint;
use super::silence::{RETRIES_MAX, SilenceChanges};
use super::target::{History, Target};
use crate::engine::{Ended, Engine, EngineError, NodeId, Outcome, Queue, Request, Route, Work};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use throughline_infiniband::mad::{
    self, ClassPortInfo, LaneCounters, Mad, PortCounterSet, Query, SamplesControl, attribute,
};
use throughline_infiniband::reading::{Coverage, FRESH_LANES, PortReading, Sets, gives_time};
use throughline_infiniband::topology::Node;

/// Tag bit of a request for what a node can do; the rest is the target's position.
const TAG_CAPABILITIES: u64 = 1 << 48;
/// Tag bit of a request for which optional counters a node has; the rest is the target's position.
const TAG_OPTIONS: u64 = 1 << 49;
/// Lowest bit of the attribute's number in the tag of a request for a port's counters.
const TAG_SET_SHIFT: u32 = 40;
/// The bits of a position.
const TAG_POSITION: u64 = (1 << TAG_SET_SHIFT) - 1;
/// Why a port is not read whose node never answered: it is not its turn.
pub const UNANSWERED: &str = "unanswered";

/// Which class of the plan a node belongs to; `None` leaves it out.
pub type NodeClassifier<'a> = &'a dyn Fn(&Node) -> Option<u8>;

/// Sweeps one topology again and again.
pub struct Sweeper {
    pub(super) targets: Vec<Target>,
    pub(super) target_of_port: Vec<u32>,
    pub(super) readings: Vec<PortReading>,
    /// Counters by lane, where a port has any.
    pub(super) lanes: Vec<Option<Box<LaneCounters>>>,
    /// Ports of former topologies.
    pub(super) former: History,
    pub(super) clock: ClockPoint,
    /// Optional attributes that turned out to be missing in the present sweep.
    unsupported: usize,
    wants_ticks: bool,
    pub(super) assumed_tick_bytes: Option<u64>,
    /// Whether nodes that never answered are requested more rarely, and those without readings get some when they answer
    /// later than in the first sweep.
    rests_silent: bool,
    has_swept: bool,
    /// Nodes that never answered and are requested again in the present sweep.
    retries: usize,
    /// Targets without readings that answered in the present sweep, with what is to be read of them.
    answering: Vec<(usize, Sets)>,
    /// Ports that were not read in the present sweep and have no reading that says so, by reason.
    missing: BTreeMap<&'static str, usize>,
    changes: SilenceChanges,
}

impl Sweeper {
    /// With nothing planned yet.
    pub(super) fn empty(former: History) -> Sweeper {
        Sweeper {
            targets: Vec::new(),
            target_of_port: Vec::new(),
            readings: Vec::new(),
            lanes: Vec::new(),
            former,
            clock: ClockPoint::now(),
            unsupported: 0,
            wants_ticks: false,
            assumed_tick_bytes: None,
            rests_silent: false,
            has_swept: false,
            retries: 0,
            answering: Vec::new(),
            missing: BTreeMap::new(),
            changes: SilenceChanges::default(),
        }
    }

    /// Requests of each node once how long its tick of PortXmitWait is: one more MAD a node, which only who sweeps
    /// again and again should send.
    pub fn want_ticks(&mut self) {
        self.wants_ticks = true;
    }

    /// Requests nodes that never answered at growing intervals, and takes those in that begin to answer after the first
    /// sweep: positions of readings may change from sweep to sweep then.
    pub fn rest_silent_nodes(&mut self) {
        self.rests_silent = true;
    }

    /// Who came to be requested more rarely since the last call, and who of those answered.
    pub fn take_silence_changes(&mut self) -> SilenceChanges {
        std::mem::take(&mut self.changes)
    }

    /// Ports of nodes that never answered and are requested at growing intervals.
    #[must_use]
    pub fn unanswered_ports(&self) -> usize {
        let silent = self.targets.iter().filter(|target| target.silence.is_known());
        silent.map(|target| target.port_count).sum()
    }

    /// Ports that a sweep reads, those of nodes that never answered among them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.targets.iter().map(|target| target.port_count).sum()
    }

    /// Whether there is nothing to read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    /// The readings as of the last sweep, ordered by node GUID and port.
    #[must_use]
    pub fn readings(&self) -> &[PortReading] {
        &self.readings
    }

    /// Counters by lane of the port at a position of [`Sweeper::readings`], where it has any.
    #[must_use]
    pub fn lanes(&self, position: usize) -> Option<&LaneCounters> {
        self.lanes.get(position)?.as_deref().filter(|lanes| !lanes.is_empty())
    }

    /// What the agent of the port at a position of [`Sweeper::readings`] can do; `None` until it reported.
    #[must_use]
    pub fn capabilities(&self, position: usize) -> Option<ClassPortInfo> {
        self.targets.get(*self.target_of_port.get(position)? as usize)?.capabilities
    }

    /// What answers for ports: class of the plan, ports, and what it can do where that is known.
    pub fn targets(&self) -> impl Iterator<Item = (u8, usize, Option<ClassPortInfo>)> {
        self.targets.iter().map(|target| (target.class, target.port_count, target.capabilities))
    }

    /// Reads the usual counters of all ports once.
    ///
    /// # Errors
    /// [`EngineError`]; the readings are incomplete then.
    pub fn sweep(
        &mut self,
        engine: &mut Engine,
        clock: ClockPoint,
        stop: &AtomicBool,
    ) -> Result<Coverage, EngineError> {
        self.sweep_due(engine, clock, stop, |_, _| Sets::USUAL)
    }

    /// Reads once what is due of each target, as given by its position and its class.
    ///
    /// # Errors
    /// [`EngineError`]; the readings are incomplete then.
    pub fn sweep_due(
        &mut self,
        engine: &mut Engine,
        clock: ClockPoint,
        stop: &AtomicBool,
        mut due: impl FnMut(usize, u8) -> Sets,
    ) -> Result<Coverage, EngineError> {
        let start = Instant::now();
        self.clock = clock;
        self.unsupported = 0;
        self.missing.clear();
        self.retries = 0;
        for reading in &mut self.readings {
            reading.fresh = 0;
            reading.was_requested = false;
            reading.was_cleared = false;
        }
        let mut has_later = false;
        for index in 0..self.targets.len() {
            let sets = due(index, self.targets[index].class);
            has_later |= self.begin(engine.queue(), index, sets, start);
        }
        engine.run(self, stop)?;
        self.take_in_answering(engine, stop)?;
        if has_later {
            self.learn_options(engine, stop)?;
            self.request_later(engine.queue());
            engine.run(self, stop)?;
        }
        Ok(self.settle(start.elapsed()))
    }

    /// Gives readings to targets that had none and answered, and reads them.
    fn take_in_answering(&mut self, engine: &mut Engine, stop: &AtomicBool) -> Result<(), EngineError> {
        let answering = std::mem::take(&mut self.answering);
        let is_first = !std::mem::replace(&mut self.has_swept, true);
        if is_first && self.targets.iter().any(|target| target.ports.is_empty()) {
            let mut missing = std::mem::take(&mut self.missing);
            self.list_failed(&mut missing);
            self.missing = missing;
        }
        if answering.is_empty() {
            return Ok(());
        }
        if !is_first && !self.rests_silent {
            // Who compares sweeps by position gets no reading in between.
            for (index, _) in answering {
                *self.missing.entry(UNANSWERED).or_default() += self.targets[index].port_count;
            }
            return Ok(());
        }
        self.place();
        for (index, sets) in answering {
            let target = &self.targets[index];
            let capabilities = target.capabilities.unwrap_or_default();
            for reading in &mut self.readings[target.ports.clone()] {
                reading.was_requested = true;
            }
            self.request(engine.queue(), index, sets.mandatory(&capabilities));
        }
        engine.run(self, stop)
    }

    /// Queues the first part of what is due of a target; whether there is a second one.
    fn begin(&mut self, queue: &mut Queue, index: usize, sets: Sets, now: Instant) -> bool {
        let target = &mut self.targets[index];
        target.later = 0;
        if sets.is_empty() {
            return false;
        }
        if self.rests_silent && target.silence.is_known() {
            if target.silence.is_resting(now) || self.retries >= RETRIES_MAX {
                *self.missing.entry(UNANSWERED).or_default() += target.port_count;
                return false;
            }
            self.retries += 1;
        }
        let mut wanted = sets.optional();
        wanted = target.optional.worth(wanted, now);
        // Sets and their attributes are kept as bits: the mandatory part is made once capabilities are known.
        target.later = wanted;
        for reading in &mut self.readings[target.ports.clone()] {
            reading.was_requested = true;
            reading.failure = None;
        }
        match target.capabilities.filter(|_| !target.ports.is_empty()) {
            Some(capabilities) => self.request(queue, index, sets.mandatory(&capabilities)),
            None => self.request_capabilities(queue, index, sets),
        }
        wanted != 0 || (self.wants_ticks && !self.targets[index].optional.is_requested)
    }

    fn request_capabilities(&self, queue: &mut Queue, target: usize, sets: Sets) {
        let query = Query { attribute: attribute::CLASS_PORT_INFO, modifier: 0, port_select: 0 };
        let tag = target as u64 | TAG_CAPABILITIES | u64::from(sets.to_bits()) << TAG_SET_SHIFT;
        queue.push(self.targets[target].engine, Request::new(query, tag));
    }

    /// Requests attributes of all ports of a target.
    fn request(&self, queue: &mut Queue, target: usize, sets: u16) {
        let target = &self.targets[target];
        for position in target.ports.clone() {
            let port_select = self.readings[position].port;
            for set in PortCounterSet::ALL.into_iter().filter(|set| sets & set.bit() != 0) {
                let query = Query { attribute: set.attribute(), modifier: 0, port_select };
                let tag = position as u64 | (set as u64) << TAG_SET_SHIFT;
                let is_trial = set.is_optional() && !target.optional.is_present(set);
                queue.push(target.engine, Request { query, tag, is_trial });
            }
        }
    }

    /// Requests of the targets that were not queried yet which optional counters they have, and how long a tick is. A
    /// round of its own: an agent that does not know the attribute may be silent about it, and that must not
    /// take its counters along.
    fn learn_options(&mut self, engine: &mut Engine, stop: &AtomicBool) -> Result<(), EngineError> {
        for index in 0..self.targets.len() {
            let target = &mut self.targets[index];
            let first = self.readings[target.ports.clone()].first();
            let Some(first) = first.filter(|first| first.fresh != 0) else { continue };
            if std::mem::replace(&mut target.optional.is_requested, true) {
                continue;
            }
            let query =
                Query { attribute: attribute::PORT_SAMPLES_CONTROL, modifier: 0, port_select: first.port };
            engine.queue().push(target.engine, Request::trial(query, index as u64 | TAG_OPTIONS));
        }
        engine.run(self, stop)
    }

    fn request_later(&mut self, queue: &mut Queue) {
        for index in 0..self.targets.len() {
            let target = &mut self.targets[index];
            let wanted = std::mem::take(&mut target.later);
            // A node that gave nothing in the first part gets no more requests.
            let is_answered = self.readings[target.ports.clone()].iter().any(|reading| reading.fresh != 0);
            if wanted != 0 && is_answered {
                let worth = target.optional.worth(wanted, Instant::now());
                self.request(queue, index, worth);
            }
        }
    }

    fn fail_port(&mut self, position: usize, reason: &'static str) {
        // The first reason is the cause; "silent" only follows from it.
        self.readings[position].failure.get_or_insert(reason);
    }

    fn fail_target(&mut self, index: usize, reason: &'static str, now: Instant) {
        let target = &mut self.targets[index];
        // A request that could not be sent says nothing of the node.
        let is_silent = matches!(reason, "timeout" | "silent");
        if !target.has_answered && is_silent && target.silence.missed(now) {
            self.changes.silent.push((target.named_end(), target.port_count));
        }
        if target.ports.is_empty() {
            *self.missing.entry(reason).or_default() += target.port_count;
            target.failure = Some(reason);
        }
        for position in target.ports.clone() {
            self.readings[position].counters.discard_all();
            self.fail_port(position, reason);
        }
    }

    fn take(&mut self, position: usize, set: PortCounterSet, mad: &Mad, ended: Ended) {
        let target = &mut self.targets[self.target_of_port[position] as usize];
        let capabilities = target.capabilities.unwrap_or_default();
        let data = mad::performance_data(mad);
        let reading = &mut self.readings[position];
        let taken = if set.is_by_lane() {
            let lanes = self.lanes[position].get_or_insert_default();
            lanes.decode(set, data).map(|taken| (FRESH_LANES, taken.went_back))
        } else {
            reading.counters.decode(set, data, &capabilities).map(|taken| (taken.metrics, taken.went_back))
        };
        if set.is_optional() {
            target.optional.answered(set);
        }
        match taken {
            Ok((metrics, went_back)) => {
                if gives_time(metrics, reading.fresh) {
                    reading.time = self.clock.at(ended.at);
                    reading.took = ended.took;
                }
                reading.fresh |= metrics;
                reading.was_cleared |= went_back;
            }
            Err(_) => self.fail_port(position, "malformed"),
        }
    }

    /// A port's attribute could not be read.
    fn miss(&mut self, position: usize, set: PortCounterSet, outcome: &Outcome<'_>, reason: &'static str) {
        let target = &mut self.targets[self.target_of_port[position] as usize];
        if set.is_by_lane() {
            if let Some(lanes) = &mut self.lanes[position] {
                lanes.discard(set);
            }
        } else {
            self.readings[position].counters.discard(set, &target.capabilities.unwrap_or_default());
        }
        if set.is_optional() && (matches!(outcome, Outcome::Refused(_)) || !target.optional.is_present(set)) {
            let is_news = match outcome {
                Outcome::Refused(_) => target.optional.lacks(set, Instant::now()),
                Outcome::Timeout => target.optional.is_silent_about(set, Instant::now()),
                // Silence of others, or of a node that answered nothing at all, proves nothing.
                _ => false,
            };
            self.unsupported += usize::from(is_news);
            return;
        }
        self.fail_port(position, reason);
    }

    fn learn(&mut self, target: usize, control: SamplesControl) {
        let target = &mut self.targets[target];
        target.optional.learn(control);
        for reading in &mut self.readings[target.ports.clone()] {
            reading.tick_bytes = reading.link_lanes.map(|lanes| control.tick_bytes(lanes));
        }
    }

    /// It does not report its tick, or may not be queried.
    fn assume(&mut self, target: usize) {
        for reading in &mut self.readings[self.targets[target].ports.clone()] {
            reading.tick_bytes = self.assumed_tick_bytes;
        }
    }

    /// Epochs and totals, once all replies are in.
    fn settle(&mut self, elapsed: Duration) -> Coverage {
        let mut coverage = Coverage { elapsed, unsupported: self.unsupported, ..Coverage::default() };
        for reading in self.readings.iter_mut().filter(|reading| reading.was_requested) {
            coverage.expected += 1;
            match (reading.fresh == 0, reading.failure) {
                (false, None) => coverage.complete += 1,
                (false, Some(_)) => coverage.partial += 1,
                (true, _) => coverage.missing += 1,
            }
            if let Some(reason) = reading.failure {
                *coverage.reasons.entry(reason).or_default() += 1;
            }
            if reading.was_cleared {
                coverage.cleared += 1;
            }
            if reading.fresh != 0 && (reading.was_cleared || reading.epoch == 0) {
                reading.epoch = reading.time;
            }
        }
        for (reason, ports) in &self.missing {
            coverage.expected += ports;
            coverage.missing += ports;
            *coverage.reasons.entry(reason).or_default() += ports;
        }
        coverage
    }

    /// A target answers: what it can do is known.
    fn answers(&mut self, queue: &mut Queue, index: usize, info: ClassPortInfo, sets: Sets) {
        let target = &mut self.targets[index];
        target.capabilities = Some(info);
        target.has_answered = true;
        if std::mem::take(&mut target.silence).is_known() {
            self.changes.answering.push((target.named_end(), target.port_count));
        }
        if target.ports.is_empty() {
            return self.answering.push((index, sets));
        }
        self.request(queue, index, sets.mandatory(&info));
    }
}

impl Work for Sweeper {
    fn done(&mut self, queue: &mut Queue, _node: NodeId, tag: u64, outcome: Outcome<'_>, ended: Ended) {
        let position = (tag & TAG_POSITION) as usize;
        let number = (tag >> TAG_SET_SHIFT & 0xFF) as u8;
        let reason = match &outcome {
            Outcome::Reply(_) => "",
            Outcome::Refused(_) => "refused",
            Outcome::Timeout => "timeout",
            Outcome::Silent => "silent",
            Outcome::NotSent => "not_sent",
        };
        if tag & TAG_CAPABILITIES != 0 {
            let info = match outcome {
                Outcome::Reply(mad) => ClassPortInfo::decode(mad::performance_data(mad)).unwrap_or_default(),
                // An agent without ClassPortInfo: the classic counters are mandatory (16.1.3.5).
                Outcome::Refused(_) => ClassPortInfo::default(),
                _ => return self.fail_target(position, reason, ended.at),
            };
            let target = &self.targets[position];
            if let Some(to) = info.redirection.filter(|to| *queue.route(target.engine) != Route::Agent(*to))
                && queue.redirect(target.engine, to)
            {
                // What it can do is queried where it is.
                return self.request_capabilities(queue, position, Sets::from_bits(number));
            }
            return self.answers(queue, position, info, Sets::from_bits(number));
        }
        if tag & TAG_OPTIONS != 0 {
            if let Outcome::Reply(mad) = outcome
                && let Ok(control) = SamplesControl::decode(mad::performance_data(mad))
            {
                self.learn(position, control);
            } else {
                queue.believe(self.targets[position].engine);
                self.assume(position);
            }
            return;
        }
        let Some(set) = PortCounterSet::ALL.get(usize::from(number)).copied() else { return };
        match outcome {
            Outcome::Reply(mad) => self.take(position, set, mad, ended),
            other => {
                if set.is_optional() && matches!(other, Outcome::Timeout) {
                    queue.believe(self.targets[self.target_of_port[position] as usize].engine);
                }
                self.miss(position, set, &other, reason);
            }
        }
    }
}
