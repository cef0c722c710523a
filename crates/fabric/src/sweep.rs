//! The sweep: PortCounters and PortCountersExtended of all linked ports, by LID from a known topology.
//!
//! What a node can do is asked for once (ClassPortInfo). A reading may be partial: what could not be read is
//! absent, with a counted reason, and never hides another port.

use crate::engine::{Engine, EngineError, NodeId, Outcome, Queue, Request, Route, Work};
use crate::link::rate_bytes_per_second;
use crate::mad::{self, ClassPortInfo, Counters, Mad, NodeKind, PortCounterSet, Query, attribute};
use crate::topology::{NodeIndex, Topology};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use throughline_sample::Guid;

/// Tag bit of a request for what a node can do; the rest is the target's position.
const TAG_CAPABILITIES: u64 = 1 << 40;
/// Tag bit of a request for the extended set; the rest is the port's position.
const TAG_EXTENDED: u64 = 1 << 41;
/// The bits of a position.
const TAG_POSITION: u64 = (1 << 40) - 1;

/// Nanoseconds of UTC at a moment of the monotonic clock, so that readings get a time of their own without
/// asking the system's clock each time.
#[derive(Clone, Copy, Debug)]
pub struct ClockPoint {
    /// The moment.
    pub instant: Instant,
    /// UTC nanoseconds since 1970 at that moment.
    pub unix_nanoseconds: i64,
}

impl ClockPoint {
    /// The system's clock now.
    #[must_use]
    pub fn now() -> ClockPoint {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let unix_nanoseconds = i64::try_from(since.as_nanos()).unwrap_or(i64::MAX);
        ClockPoint { instant: Instant::now(), unix_nanoseconds }
    }

    /// UTC nanoseconds at another moment.
    #[must_use]
    pub fn at(&self, instant: Instant) -> i64 {
        let nanoseconds = |duration: Duration| i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
        match instant.checked_duration_since(self.instant) {
            Some(later) => self.unix_nanoseconds.saturating_add(nanoseconds(later)),
            None => self.unix_nanoseconds.saturating_sub(nanoseconds(self.instant - instant)),
        }
    }
}

/// The counters of one port.
#[derive(Clone, Copy, Debug)]
pub struct PortReading {
    /// The node.
    pub node: NodeIndex,
    /// Its node GUID.
    pub guid: Guid,
    /// Kind of the node.
    pub kind: NodeKind,
    /// The port.
    pub port: u8,
    /// The LID that was asked.
    pub lid: u16,
    /// Data rate of one direction of its link, as discovered.
    pub rate_bytes_per_second: Option<u64>,
    /// UTC nanoseconds of the last reply; 0 when nothing was read.
    pub time: i64,
    /// When the present counting began, UTC nanoseconds: the first reading, or the first after a clear.
    pub epoch: i64,
    /// What was read.
    pub counters: Counters,
    /// Reason why something is missing.
    pub failure: Option<&'static str>,
}

impl PortReading {
    /// A port of which nothing was read yet.
    #[must_use]
    pub fn new(node: NodeIndex, guid: Guid, kind: NodeKind, port: u8, lid: u16) -> PortReading {
        PortReading {
            node,
            guid,
            kind,
            port,
            lid,
            rate_bytes_per_second: None,
            time: 0,
            epoch: 0,
            counters: Counters::default(),
            failure: None,
        }
    }
}

/// What a sweep was to read and what it read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Coverage {
    /// Ports that should be read.
    pub expected: usize,
    /// Ports of which all counters were read.
    pub complete: usize,
    /// Ports of which something was read.
    pub partial: usize,
    /// Ports of which nothing was read.
    pub missing: usize,
    /// Ports incomplete, by reason.
    pub reasons: BTreeMap<&'static str, usize>,
    /// From the first MAD to the last reply.
    pub elapsed: Duration,
    /// Ports whose counters were cleared by somebody since the last sweep.
    pub cleared: usize,
}

/// A port's memory over sweeps: what it last said and since when it counts.
#[derive(Clone, Copy)]
struct History {
    epoch: i64,
    last: Counters,
}

/// What a LID answers for: a switch's port 0 for all its ports, an adapter's port for itself.
struct Target {
    engine: NodeId,
    /// `None` until it was asked for.
    capabilities: Option<ClassPortInfo>,
    /// Positions of its ports in the readings.
    ports: std::ops::Range<usize>,
}

/// Sweeps one topology again and again.
pub struct Sweeper {
    targets: Vec<Target>,
    target_of_port: Vec<u32>,
    readings: Vec<PortReading>,
    history: HashMap<(Guid, u8), History>,
    clock: ClockPoint,
}

/// What of a topology is swept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Selection {
    /// Also ports without a link: their error counters stay readable on switches.
    pub unlinked: bool,
}

impl Sweeper {
    /// Plans the sweep of all linked ports of a topology whose nodes have LIDs; nodes of the engine are
    /// replaced. A former sweeper hands its memory of epochs on.
    #[must_use]
    pub fn new(
        engine: &mut Engine,
        topology: &Topology,
        service_level: u8,
        selection: Selection,
        former: Option<Sweeper>,
    ) -> Sweeper {
        engine.clear_nodes();
        let history = former.map(|former| former.history).unwrap_or_default();
        let mut sweeper = Sweeper {
            targets: Vec::new(),
            target_of_port: Vec::new(),
            readings: Vec::new(),
            history,
            clock: ClockPoint::now(),
        };
        for (index, node) in topology.nodes.iter().enumerate() {
            for port in node.physical_ports() {
                let is_linked = port.info.is_some_and(|info| info.is_linked());
                let lid = node.lid_of(port);
                if !(is_linked || selection.unlinked && node.kind == NodeKind::Switch) || lid == 0 {
                    continue;
                }
                let first_of_switch = node.kind != NodeKind::Switch
                    || sweeper.readings.last().is_none_or(|last: &PortReading| last.node != index);
                let position = sweeper.readings.len();
                if first_of_switch {
                    let engine = engine.queue().add_node(Route::Lid { lid, service_level });
                    sweeper.targets.push(Target { engine, capabilities: None, ports: position..position });
                }
                if let Some(target) = sweeper.targets.last_mut() {
                    target.ports.end = position + 1;
                }
                sweeper.target_of_port.push((sweeper.targets.len() - 1) as u32);
                sweeper.readings.push(PortReading {
                    node: index,
                    guid: node.guid,
                    kind: node.kind,
                    port: port.number,
                    lid,
                    rate_bytes_per_second: node
                        .link_of(port)
                        .map(|(width, speed)| rate_bytes_per_second(width, speed)),
                    time: 0,
                    epoch: 0,
                    counters: Counters::default(),
                    failure: None,
                });
            }
        }
        sweeper
    }

    /// Ports that a sweep reads.
    #[must_use]
    pub fn len(&self) -> usize {
        self.readings.len()
    }

    /// Whether there is nothing to read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.readings.is_empty()
    }

    /// The readings of the last sweep, ordered by node GUID and port.
    #[must_use]
    pub fn readings(&self) -> &[PortReading] {
        &self.readings
    }

    /// Reads all ports once.
    ///
    /// # Errors
    /// [`EngineError`]; the readings are incomplete then.
    pub fn sweep(
        &mut self,
        engine: &mut Engine,
        clock: ClockPoint,
        stop: &AtomicBool,
    ) -> Result<Coverage, EngineError> {
        let start = Instant::now();
        self.clock = clock;
        for reading in &mut self.readings {
            reading.time = 0;
            reading.failure = None;
            reading.counters = Counters::default();
        }
        for index in 0..self.targets.len() {
            match self.targets[index].capabilities {
                Some(_) => self.ask_ports(engine.queue(), index),
                None => self.ask_capabilities(engine.queue(), index),
            }
        }
        engine.run(self, stop)?;
        Ok(self.settle(start.elapsed()))
    }

    fn ask_capabilities(&self, queue: &mut Queue, target: usize) {
        let query = Query { attribute: attribute::CLASS_PORT_INFO, modifier: 0, port_select: 0 };
        let tag = target as u64 | TAG_CAPABILITIES;
        queue.push(self.targets[target].engine, Request { query, tag });
    }

    fn ask_ports(&self, queue: &mut Queue, target: usize) {
        let target = &self.targets[target];
        let has_extended = target.capabilities.is_some_and(|capabilities| capabilities.has_extended());
        for position in target.ports.clone() {
            let port_select = self.readings[position].port;
            let mut ask = |attribute, tag| {
                let query = Query { attribute, modifier: 0, port_select };
                queue.push(target.engine, Request { query, tag });
            };
            ask(attribute::PORT_COUNTERS, position as u64);
            if has_extended {
                ask(attribute::PORT_COUNTERS_EXTENDED, position as u64 | TAG_EXTENDED);
            }
        }
    }

    fn fail_port(&mut self, position: usize, reason: &'static str) {
        // The first reason is the cause; "silent" only follows from it.
        self.readings[position].failure.get_or_insert(reason);
    }

    fn fail_target(&mut self, target: usize, reason: &'static str) {
        for position in self.targets[target].ports.clone() {
            self.fail_port(position, reason);
        }
    }

    fn take(&mut self, position: usize, set: PortCounterSet, mad: &Mad, now: Instant) {
        let target = self.target_of_port[position] as usize;
        let capabilities = self.targets[target].capabilities.unwrap_or_default();
        let reading = &mut self.readings[position];
        match reading.counters.decode(set, mad::performance_data(mad), &capabilities) {
            Ok(()) => reading.time = self.clock.at(now),
            Err(_) => self.fail_port(position, "malformed"),
        }
    }

    /// Epochs and totals, once all replies are in.
    fn settle(&mut self, elapsed: Duration) -> Coverage {
        let mut coverage = Coverage { expected: self.readings.len(), elapsed, ..Coverage::default() };
        for reading in &mut self.readings {
            match (reading.counters.is_empty(), reading.failure) {
                (false, None) => coverage.complete += 1,
                (false, Some(_)) => coverage.partial += 1,
                (true, _) => coverage.missing += 1,
            }
            if let Some(reason) = reading.failure {
                *coverage.reasons.entry(reason).or_default() += 1;
            }
            if reading.counters.is_empty() {
                continue;
            }
            let fresh = History { epoch: reading.time, last: reading.counters };
            let history = self.history.entry((reading.guid, reading.port)).or_insert(fresh);
            if reading.counters.went_back_since(&history.last) {
                history.epoch = reading.time;
                coverage.cleared += 1;
            }
            history.last = reading.counters;
            reading.epoch = history.epoch;
        }
        coverage
    }
}

impl Work for Sweeper {
    fn done(&mut self, queue: &mut Queue, _node: NodeId, tag: u64, outcome: Outcome<'_>, now: Instant) {
        let position = (tag & TAG_POSITION) as usize;
        let reason = match outcome {
            Outcome::Reply(mad) if tag & TAG_CAPABILITIES != 0 => {
                let info = ClassPortInfo::decode(mad::performance_data(mad)).unwrap_or_default();
                self.targets[position].capabilities = Some(info);
                return self.ask_ports(queue, position);
            }
            // An agent without ClassPortInfo: the classic counters are mandatory (16.1.3.5).
            Outcome::Refused(_) if tag & TAG_CAPABILITIES != 0 => {
                self.targets[position].capabilities = Some(ClassPortInfo::default());
                return self.ask_ports(queue, position);
            }
            Outcome::Reply(mad) => {
                let is_extended = tag & TAG_EXTENDED != 0;
                let set = if is_extended { PortCounterSet::Extended } else { PortCounterSet::Classic };
                return self.take(position, set, mad, now);
            }
            Outcome::Refused(_) => "refused",
            Outcome::Timeout => "timeout",
            Outcome::Silent => "silent",
            Outcome::NotSent => "not_sent",
        };
        if tag & TAG_CAPABILITIES != 0 {
            self.fail_target(position, reason)
        } else {
            self.fail_port(position, reason)
        }
    }
}
