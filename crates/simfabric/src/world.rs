//! The fabric in time: what happens to a MAD between a client's send and its receive. One clock in nanoseconds;
//! no sockets. Everything random comes from one seeded generator.

use crate::bits::{get, put};
use crate::liar::{self, FakePort};
use crate::model::{End, Fabric, Redirect};
use crate::notices::{Event, Notices};
use crate::{forwarding, manager, pma, sa, smp, traffic};

/// Bytes of a MAD (IBTA volume 1, 13.4.2).
pub(crate) const MAD_BYTES: usize = 256;
/// Management classes (13.4.4).
pub(crate) const CLASS_DIRECTED: u8 = 0x81;
pub(crate) const CLASS_PERFORMANCE: u8 = 0x04;
/// Method of an answer to a Report (13.4.5).
const REPORT_RESPONSE: u8 = 0x86;
/// SM_Key that makes a client of the administrator trusted, unless configured otherwise: opensm's default.
const DEFAULT_SM_KEY: u64 = 1;
/// Bit of a method that makes it a response (13.4.5).
const RESPONSE: u8 = 0x80;
/// Direction bit in the status of a directed-route SMP (14.2.1.2).
const DIRECTION: u16 = 0x8000;
/// LID of directed routes.
const PERMISSIVE_LID: u16 = 0xFFFF;
/// MADs that wait at a node before it drops more, unless configured otherwise: as deep as firmware queues are said to
/// be; a client with a small window per node never gets there.
const DEFAULT_QUEUE: u64 = 64;

/// How round trips spread about their middle.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Jitter {
    #[default]
    None,
    /// Evenly within so many nanoseconds beyond the round trip.
    Even(u64),
    /// Beyond the round trip by an exponential distribution of this mean.
    Exponential(u64),
}

/// How the fabric treats MADs.
#[derive(Clone, Debug)]
pub(crate) struct FaultModel {
    /// Round trip without service, in nanoseconds.
    pub round_trip: u64,
    pub jitter: Jitter,
    /// Time per MAD at a node, which works on one after the other.
    pub service: u64,
    /// MADs that may wait at a node.
    pub queue: u64,
    /// Shares of exchanges, 0 to 1.
    pub loss: f64,
    pub duplicate: f64,
    pub busy: f64,
    pub late: f64,
    /// By how much late replies are late.
    pub late_by: u64,
}

impl Default for FaultModel {
    fn default() -> FaultModel {
        FaultModel {
            round_trip: 0,
            jitter: Jitter::None,
            service: 0,
            queue: DEFAULT_QUEUE,
            loss: 0.0,
            duplicate: 0.0,
            busy: 0.0,
            late: 0.0,
            late_by: 0,
        }
    }
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub received: u64,
    pub answered: u64,
    pub lost: u64,
    pub unreachable: u64,
    pub silent: u64,
    pub overflowed: u64,
    pub key_refused: u64,
    pub reports_answered: u64,
    pub malformed: u64,
}

/// The time that counters see.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    /// Added to real time.
    ahead: u64,
    /// Time stands still here.
    frozen: Option<u64>,
}

impl Clock {
    pub fn at(&self, now: u64) -> u64 {
        self.frozen.unwrap_or(now + self.ahead)
    }

    pub fn freeze(&mut self, now: u64) {
        self.frozen = Some(self.at(now));
    }

    pub fn thaw(&mut self, now: u64) {
        if let Some(at) = self.frozen.take() {
            self.ahead = at.saturating_sub(now);
        }
    }

    pub fn advance(&mut self, by: u64) {
        match &mut self.frozen {
            Some(at) => *at += by,
            None => self.ahead += by,
        }
    }
}

/// A reply on its way: when it arrives at the client, and from where.
pub(crate) struct Delivery {
    pub due: u64,
    pub lid: u16,
    pub mad: [u8; MAD_BYTES],
    /// A message of the administrator, in place of `mad`.
    pub message: Option<Vec<u8>>,
}

/// Everything.
pub(crate) struct World {
    pub fabric: Fabric,
    pub faults: FaultModel,
    pub clock: Clock,
    pub levels: pma::Levels,
    pub demands: Vec<traffic::TrafficDemand>,
    pub counts: Counts,
    pub random: fastrand::Rng,
    /// Nodes whose performance agents send their clients elsewhere; a helper answers for one only.
    pub redirected: Vec<usize>,
    /// Whether the subnet manager acts on each change at once.
    pub is_sweeping: bool,
    pub notices: Notices,
    pub sm_key: u64,
    /// Ports behind which everything is made up.
    pub liars: Vec<FakePort>,
}

/// When a MAD is answered.
struct Timing {
    /// The node has worked it off.
    done: u64,
    /// The answer is at the client.
    due: u64,
}

impl World {
    pub fn new(fabric: Fabric, seed: u64) -> World {
        let mut levels = [0.0; 16];
        levels[0] = 1.0;
        World {
            fabric,
            faults: FaultModel::default(),
            clock: Clock::default(),
            levels,
            demands: Vec::new(),
            counts: Counts::default(),
            random: fastrand::Rng::with_seed(seed),
            redirected: Vec::new(),
            is_sweeping: true,
            notices: Notices::default(),
            sm_key: DEFAULT_SM_KEY,
            liars: Vec::new(),
        }
    }

    /// The subnet manager looks at the fabric anew, and traffic takes the ways that there are.
    pub fn reconfigure(&mut self, now: u64) {
        let is_managed = self.fabric.manager.is_some();
        for node in self.fabric.nodes.iter().filter(|node| node.is_changed && node.is_switch()) {
            self.notices.push(Event::LinkState { lid: node.lid() });
        }
        manager::configure(&mut self.fabric);
        self.notices.update(&self.fabric, is_managed);
        self.redirect_traffic(now);
    }

    /// Cables changed: the manager acts on it if it may, and traffic has what ways are left.
    pub fn topology_changed(&mut self, now: u64) {
        if self.is_sweeping {
            self.reconfigure(now);
        } else {
            self.redirect_traffic(now);
        }
    }

    /// Traffic takes the ways that there are.
    pub fn redirect_traffic(&mut self, now: u64) {
        let at = self.clock.at(now);
        traffic::apply(&mut self.fabric, &self.demands, at);
    }

    fn happens(&mut self, share: f64) -> bool {
        share > 0.0 && self.random.f64() < share
    }

    /// A client attached at `from` sent a MAD of its class; replies are appended to `out`.
    pub fn receive(&mut self, from: End, class: u8, lid: u16, mad: &[u8], now: u64, out: &mut Vec<Delivery>) {
        self.counts.received += 1;
        let Ok(mad) = <[u8; MAD_BYTES]>::try_from(mad) else {
            self.counts.malformed += 1;
            return;
        };
        // A response is to somebody who queried; nobody here did.
        if (class, mad[1], mad[3]) == (sa::CLASS, sa::CLASS, REPORT_RESPONSE) {
            self.counts.reports_answered += 1;
            return;
        }
        if mad[1] != class || mad[3] & RESPONSE != 0 {
            self.counts.malformed += 1;
            return;
        }
        if self.happens(self.faults.loss) {
            self.counts.lost += 1;
            return;
        }
        match class {
            CLASS_DIRECTED => self.directed(from, mad, now, out),
            CLASS_PERFORMANCE => self.performance(from, lid, mad, now, out),
            sa::CLASS => self.administration(from, lid, mad, now, out),
            _ => self.counts.malformed += 1,
        }
    }

    /// Passes a MAD through its node's queue; `None` when it is full.
    fn serve(&mut self, node: usize, is_local: bool, now: u64) -> Option<Timing> {
        let round_trip = if is_local { 0 } else { self.round_trip() };
        let service = self.fabric.nodes[node].manners.service.unwrap_or(self.faults.service);
        let busy_until = &mut self.fabric.nodes[node].busy_until;
        let arrival = now + round_trip / 2;
        let start = arrival.max(*busy_until);
        if service > 0 && (start - arrival) / service > self.faults.queue {
            self.counts.overflowed += 1;
            return None;
        }
        let done = start + service;
        *busy_until = done;
        Some(Timing { done, due: done + round_trip - round_trip / 2 })
    }

    fn round_trip(&mut self) -> u64 {
        let beyond = match self.faults.jitter {
            Jitter::None => 0,
            Jitter::Even(within) => self.random.u64(0..=within),
            // 1 - f64() is within (0, 1], so the logarithm is finite.
            Jitter::Exponential(mean) => (-(1.0 - self.random.f64()).ln() * mean as f64) as u64,
        };
        self.faults.round_trip + beyond
    }

    fn reply(&mut self, timing: &Timing, lid: u16, mad: [u8; MAD_BYTES], out: &mut Vec<Delivery>) {
        self.reply_with(timing, lid, mad, None, out);
    }

    fn reply_with(
        &mut self,
        timing: &Timing,
        lid: u16,
        mad: [u8; MAD_BYTES],
        message: Option<Vec<u8>>,
        out: &mut Vec<Delivery>,
    ) {
        self.counts.answered += 1;
        let mut due = timing.due;
        if self.happens(self.faults.late) {
            due += self.faults.late_by;
        }
        if self.happens(self.faults.duplicate) {
            let message = message.clone();
            out.push(Delivery { due: due + self.faults.round_trip / 2, lid, mad, message });
        }
        out.push(Delivery { due, lid, mad, message });
    }

    fn directed(&mut self, from: End, mut mad: [u8; MAD_BYTES], now: u64, out: &mut Vec<Delivery>) {
        let hops = usize::from(mad[7]);
        if hops > 63 || mad[6] != 0 {
            self.counts.malformed += 1;
            return;
        }
        if let Some((liar, rest)) = liar::behind(&self.fabric, &self.liars, from, &mad[129..129 + hops]) {
            let request = smp::read_header(&mad);
            let mut data = [0; 64];
            let result = liar::answer(&self.fabric, liar, rest, &request, &mut data);
            mad[3] = RESPONSE | pma::GET;
            mad[64..128].copy_from_slice(&data);
            put(&mut mad, 32, 16, u64::from(result.err().unwrap_or(0) | DIRECTION));
            let round_trip = self.round_trip();
            return self.reply(&Timing { done: now, due: now + round_trip }, PERMISSIVE_LID, mad, out);
        }
        let Some((at, back)) = forwarding::directed(&self.fabric, from, &mad[129..129 + hops]) else {
            self.counts.unreachable += 1;
            return;
        };
        if self.fabric.nodes[at.node].manners.is_dead {
            self.counts.silent += 1;
            return;
        }
        let Some(timing) = self.serve(at.node, hops == 0, now) else { return };
        let request = smp::read_header(&mad);
        let (passes, shows_key) = smp::check_key(&mut self.fabric.nodes[at.node], request.key);
        if !passes {
            self.counts.key_refused += 1;
            return;
        }
        let (version, method) = (mad[2], mad[3]);
        mad[3] = RESPONSE | pma::GET;
        mad[24..32].fill(0);
        mad[193..193 + back.len()].copy_from_slice(&back);
        mad[64..128].fill(0);
        let status = if version != 1 {
            smp::STATUS_BAD_VERSION
        } else if method != pma::GET {
            smp::STATUS_BAD_METHOD
        } else if self.happens(self.faults.busy) {
            smp::STATUS_BUSY
        } else {
            let result = smp::get_attribute(&self.fabric, at, &request, shows_key, &mut mad[64..128]);
            liar::shown(&self.liars, at, &request, &mut mad[64..128]);
            result.err().unwrap_or(0)
        };
        put(&mut mad, 32, 16, u64::from(status | DIRECTION));
        self.reply(&timing, PERMISSIVE_LID, mad, out);
    }

    fn performance(
        &mut self,
        from: End,
        lid: u16,
        mut mad: [u8; MAD_BYTES],
        now: u64,
        out: &mut Vec<Delivery>,
    ) {
        let back = self.fabric.port(from).map_or(0, |port| port.lid);
        let arrived = forwarding::by_lid(&self.fabric, from, lid);
        let at = arrived.filter(|at| forwarding::by_lid(&self.fabric, *at, back) == Some(from));
        let Some(at) = at else {
            self.counts.unreachable += 1;
            return;
        };
        let manners = &self.fabric.nodes[at.node].manners;
        if manners.is_dead || manners.is_pma_dead {
            self.counts.silent += 1;
            return;
        }
        let Some(timing) = self.serve(at.node, at == from, now) else { return };
        let method = mad[3];
        let request = pma::Request { method, attribute: get(&mad, 128, 16) as u16, port: mad[65] };
        mad[3] = RESPONSE | pma::GET;
        let status = if mad[2] != 1 {
            smp::STATUS_BAD_VERSION
        } else if self.happens(self.faults.busy) {
            smp::STATUS_BUSY
        } else {
            self.perform(at, &request, timing.done, &mut mad)
        };
        put(&mut mad, 32, 16, u64::from(status));
        self.reply(&timing, lid, mad, out);
    }

    /// To the subnet administrator, which is at the manager's port.
    fn administration(
        &mut self,
        from: End,
        lid: u16,
        mut mad: [u8; MAD_BYTES],
        now: u64,
        out: &mut Vec<Delivery>,
    ) {
        let back = self.fabric.port(from).map_or(0, |port| port.lid);
        let at = forwarding::by_lid(&self.fabric, from, lid).filter(|at| Some(*at) == self.fabric.manager);
        let at = at.filter(|at| forwarding::by_lid(&self.fabric, *at, back) == Some(from));
        let Some(at) = at else {
            self.counts.unreachable += 1;
            return;
        };
        if self.fabric.nodes[at.node].manners.is_dead {
            self.counts.silent += 1;
            return;
        }
        let Some(timing) = self.serve(at.node, at == from, now) else { return };
        let is_subscription = mad[3] == sa::SET && get(&mad, 128, 16) as u16 == sa::INFORM_INFO;
        if mad[2] == sa::VERSION && is_subscription {
            mad[3] = RESPONSE | pma::GET;
            let accepted = self.notices.subscribe(from, &mad[sa::HEADER_BYTES..]);
            put(&mut mad, 32, 16, u64::from(if accepted { 0 } else { sa::INVALID }));
            return self.reply(&timing, lid, mad, out);
        }
        if self.happens(self.faults.busy) {
            mad[3] |= RESPONSE;
            put(&mut mad, 32, 16, u64::from(smp::STATUS_BUSY));
            return self.reply(&timing, lid, mad, out);
        }
        match sa::answer(&self.fabric, from, self.sm_key, &mad) {
            Some(message) => self.reply_with(&timing, lid, mad, Some(message), out),
            None => self.counts.key_refused += 1,
        }
    }

    /// The performance agent's answer; its status.
    fn perform(&mut self, at: End, request: &pma::Request, done: u64, mad: &mut [u8; MAD_BYTES]) -> u16 {
        let redirect = self.fabric.nodes[at.node].pma.redirect;
        let is_info = request.attribute == pma::CLASS_PORT_INFO;
        if let Some(Redirect { node, is_announced: false }) = redirect {
            put(mad, 128, 16, u64::from(pma::CLASS_PORT_INFO));
            pma::redirection(&self.fabric, at.node, node, &mut mad[64..]);
            return smp::STATUS_REDIRECT;
        }
        if redirect.is_some() && !is_info {
            return smp::STATUS_BAD_ATTRIBUTE; // It said where to go.
        }
        // Another node may answer for this one: the ports requested are this one's.
        let node = self.answers_for(at.node);
        let now = self.clock.at(done);
        let answer = pma::answer(&mut self.fabric.nodes[node], &self.levels, request, now, &mut mad[64..]);
        if let (Some(redirect), true) = (redirect, is_info) {
            pma::put_redirect(&self.fabric, redirect.node, &mut mad[64..]);
        }
        answer.err().unwrap_or(0)
    }

    /// The node whose ports an agent shows: another one's if that is redirected here.
    fn answers_for(&self, node: usize) -> usize {
        let is_sent_here = |other: &usize| {
            self.fabric.nodes[*other].pma.redirect.is_some_and(|redirect| redirect.node == node)
        };
        self.redirected.iter().copied().find(is_sent_here).unwrap_or(node)
    }
}
