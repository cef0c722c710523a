//! A fabric by script, with a clock of its own: latency, serial service, loss, death, duplicates, stalls.
//! No time passes, so that what an engine takes is exact and the same each time.

use crate::engine::{Ended, Engine, NodeId, Outcome, Queue, Request, Route, Settings, Work};
use crate::transport::{Arrival, Class, Destination, Transport, TransportError};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use throughline_infiniband::mad::{self, Mad, Query, attribute};

/// What the fabric does with a request to a LID.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Behaviour {
    Answer,
    /// Answers every attempt after the first of each request.
    DropFirst,
    Never,
    /// The layer below gives each request up at once.
    GiveUp,
    Refuse,
    /// Answers twice.
    Twice,
    /// Answers with this delay in microseconds beside the round trip.
    Late(u64),
    /// Is busy for this many attempts of each request, then answers.
    Busy(u8),
    /// The transport refuses to send.
    Unsendable,
    /// Drops this share (of 1000) of requests.
    Lossy(u32),
}

/// All of it.
pub struct Script {
    pub now: Instant,
    pub start: Instant,
    pub round_trip: Duration,
    /// Each node answers one after the other.
    pub service: Duration,
    pub behaviour: HashMap<u16, Behaviour>,
    /// Until then nothing arrives: the simulator, or the reader, is held up.
    pub stalled_until: Instant,
    /// What is on its way back, by time.
    pub arrivals: BTreeMap<(Instant, u64), (Mad, Arrival)>,
    /// When each MAD was sent, and to whom.
    pub sent: Vec<(Instant, u16)>,
    pub most_waiting: usize,
    pub most_per_node: usize,
    pub receive_fails: bool,
    attempts: HashMap<u32, u8>,
    waiting: HashMap<u16, usize>,
    busy_until: HashMap<u16, Instant>,
    number: u64,
    random: u64,
}

impl Script {
    pub fn random(&mut self, below: u32) -> u32 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.random >> 33) % u64::from(below)) as u32
    }

    pub fn elapsed(&self) -> Duration {
        self.now - self.start
    }

    fn reply(&mut self, lid: u16, mad: &Mad, after: Duration, arrival: Arrival) {
        let begins = self.busy_until.get(&lid).copied().unwrap_or(self.now).max(self.now);
        let done = begins + self.service;
        self.busy_until.insert(lid, done);
        self.number += 1;
        self.arrivals.insert((done + self.round_trip + after, self.number), (*mad, arrival));
    }

    fn answer(&mut self, lid: u16, mad: &Mad) -> Result<(), TransportError> {
        let header = mad::reply_header(mad);
        // The attempt has its bits in the transaction ID; the rest is the request's.
        let attempt = self.attempts.entry(header.transaction & !0x700).or_default();
        *attempt += 1;
        let attempt = *attempt;
        let mut reply = *mad;
        reply[3] = 0x81;
        let now = Duration::ZERO;
        match self.behaviour.get(&lid).copied().unwrap_or(Behaviour::Answer) {
            Behaviour::Unsendable => return Err(TransportError("no".to_owned())),
            Behaviour::Never => {}
            Behaviour::DropFirst if attempt == 1 => {}
            Behaviour::Lossy(share) if self.random(1000) < share => {}
            Behaviour::GiveUp => self.reply(lid, mad, now, Arrival::GivenUp),
            Behaviour::Late(micros) => self.reply(lid, &reply, Duration::from_micros(micros), Arrival::Reply),
            Behaviour::Refuse => {
                reply[5] = 0x0C;
                self.reply(lid, &reply, now, Arrival::Reply);
            }
            Behaviour::Busy(times) if attempt <= times => {
                reply[5] = 0x01;
                self.reply(lid, &reply, now, Arrival::Reply);
            }
            Behaviour::Twice => {
                self.reply(lid, &reply, now, Arrival::Reply);
                self.reply(lid, &reply, now, Arrival::Reply);
            }
            _ => self.reply(lid, &reply, now, Arrival::Reply),
        }
        Ok(())
    }
}

/// The transport to it; clones are one fabric.
#[derive(Clone)]
pub struct Fabric(Arc<Mutex<Script>>);

impl Fabric {
    pub fn new(behaviour: &[(u16, Behaviour)]) -> Fabric {
        let now = Instant::now();
        Fabric(Arc::new(Mutex::new(Script {
            now,
            start: now,
            round_trip: Duration::from_micros(100),
            service: Duration::ZERO,
            behaviour: behaviour.iter().copied().collect(),
            stalled_until: now,
            arrivals: BTreeMap::new(),
            sent: Vec::new(),
            most_waiting: 0,
            most_per_node: 0,
            receive_fails: false,
            attempts: HashMap::new(),
            waiting: HashMap::new(),
            busy_until: HashMap::new(),
            number: 0,
            random: 7,
        })))
    }

    pub fn script(&self) -> MutexGuard<'_, Script> {
        self.0.lock().unwrap()
    }
}

impl Transport for Fabric {
    fn send(&mut self, mad: &Mad, to: Destination, _timeout: Duration) -> Result<(), TransportError> {
        let mut script = self.script();
        let lid = match to {
            Destination::Lid { lid, .. } => lid,
            Destination::Agent(agent) => agent.lid,
            Destination::Directed => u16::from(mad[129]),
        };
        let now = script.now;
        script.answer(lid, mad)?;
        script.sent.push((now, lid));
        if !script.behaviour.contains_key(&lid) {
            *script.waiting.entry(lid).or_default() += 1;
            script.most_per_node = script.most_per_node.max(script.waiting[&lid]);
            script.most_waiting = script.most_waiting.max(script.waiting.values().sum());
        }
        Ok(())
    }

    fn receive(&mut self, mad: &mut Mad, wait: Duration) -> Result<Arrival, TransportError> {
        let mut script = self.script();
        if script.receive_fails {
            return Err(TransportError("broken".to_owned()));
        }
        let until = script.now + wait;
        let next = script.arrivals.first_key_value().map(|(key, _)| *key);
        let Some((at, number)) = next.filter(|(at, _)| (*at).max(script.stalled_until) <= until) else {
            script.now = until;
            return Ok(Arrival::Nothing);
        };
        script.now = script.now.max(at).max(script.stalled_until);
        let (bytes, arrival) = script.arrivals.remove(&(at, number)).unwrap();
        *mad = bytes;
        let lid = u16::from_be_bytes([mad[22], mad[23]]);
        if let Some(waiting) = script.waiting.get_mut(&lid) {
            *waiting = waiting.saturating_sub(1);
        }
        Ok(arrival)
    }

    fn now(&self) -> Instant {
        self.script().now
    }
}

/// Collects outcomes by tag.
#[derive(Default)]
pub struct Collect {
    pub outcomes: BTreeMap<u64, &'static str>,
    /// When the last reply came.
    pub last_reply: Option<Instant>,
    /// How long each reply took.
    pub took: BTreeMap<u64, Duration>,
}

impl Collect {
    pub fn count(&self, name: &str) -> usize {
        self.outcomes.values().filter(|outcome| **outcome == name).count()
    }
}

impl Work for Collect {
    fn done(&mut self, _queue: &mut Queue, _node: NodeId, tag: u64, outcome: Outcome<'_>, ended: Ended) {
        let name = match outcome {
            Outcome::Reply(mad) => {
                // What was requested is in the reply: no answer is taken for another one's.
                let modifier = u32::from_be_bytes([mad[20], mad[21], mad[22], mad[23]]);
                assert_eq!(modifier, modifier_of(tag));
                self.last_reply = Some(ended.at);
                self.took.insert(tag, ended.took);
                "reply"
            }
            Outcome::Refused(0x0C) => "refused",
            Outcome::Refused(_) => "refused otherwise",
            Outcome::Timeout => "timeout",
            Outcome::Silent => "silent",
            Outcome::NotSent => "not sent",
        };
        assert_eq!(self.outcomes.insert(tag, name), None, "{tag} ended twice");
    }
}

/// Number of the request in the upper half, LID in the lower.
fn modifier_of(tag: u64) -> u32 {
    (tag % 1000) as u32 * 0x1_0000 + (tag / 1000) as u32
}

/// An engine on a scripted fabric.
pub struct Bench {
    pub fabric: Fabric,
    pub engine: Engine,
    pub ids: Vec<NodeId>,
}

impl Bench {
    /// With nodes at the LIDs 1 to `nodes`.
    pub fn new(settings: Settings, nodes: u16, behaviour: &[(u16, Behaviour)]) -> Bench {
        let fabric = Fabric::new(behaviour);
        let mut engine = Engine::new(Box::new(fabric.clone()), settings);
        let route = |lid: u16| match settings.class {
            // The port of the first hop stands for the LID.
            Class::Management => Route::Directed(
                throughline_infiniband::mad::DirectedPath::local().through(lid as u8).unwrap(),
            ),
            _ => Route::Lid { lid, service_level: 0 },
        };
        let ids = (1..=nodes).map(|lid| engine.queue().add_node(route(lid))).collect();
        Bench { fabric, engine, ids }
    }

    /// Queries each node for so many things; tag is LID * 1000 + number.
    pub fn fill(&mut self, each: u64) {
        for (index, id) in self.ids.iter().enumerate() {
            for number in 0..each {
                let tag = (index as u64 + 1) * 1000 + number;
                let query =
                    Query { attribute: attribute::PORT_COUNTERS, modifier: modifier_of(tag), port_select: 1 };
                self.engine.queue().push(*id, Request::new(query, tag));
            }
        }
    }

    /// One round; the outcomes, and how long it took until the last reply and the end.
    pub fn round(&mut self, each: u64) -> (Collect, Duration, Duration) {
        let mut work = Collect::default();
        let start = self.fabric.script().now;
        self.fill(each);
        self.engine.run(&mut work, &AtomicBool::new(false)).unwrap();
        assert_eq!(work.outcomes.len(), self.ids.len() * each as usize);
        let replied = work.last_reply.map_or(Duration::ZERO, |at| at - start);
        let end = self.fabric.script().now - start;
        (work, replied, end)
    }
}
