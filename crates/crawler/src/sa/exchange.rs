//! Requests on their way: window, deadlines, repetitions, long answers in segments, and Reports in between.

use super::SaError;
use crate::engine::Budget;
use crate::transport::{Arrival, Destination, Message, Transport};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use throughline_infiniband::key::Key;
use throughline_infiniband::mad::sa::rmpp::{Receiver, Step};
use throughline_infiniband::mad::sa::{self, Answer, METHOD_GET_TABLE, METHOD_REPORT, Notice, Query};
use throughline_infiniband::mad::{MAD_BYTES, Mad};

/// Longest wait in one receive, so that a stop request is seen soon.
const MAX_WAIT: Duration = Duration::from_millis(100);
/// Pause before a busy administrator is queried again.
const BUSY_PAUSE: Duration = Duration::from_millis(100);
/// Repetitions while the administrator says that it is busy: with the pause, 5 s.
const BUSY_RETRIES: u8 = 50;
/// Receive failures in a row after which a request is given up.
const MAX_RECEIVE_FAILURES: u32 = 16;
/// Reports that wait to be taken; a burst is a sign of its own, and more say nothing new.
const REPORTS_MAX: usize = 1024;
/// Longest answer: the tables of the largest subnets (48,000 LIDs) are some ten times shorter.
pub(super) const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Limits of a client.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Outstanding requests: one program answers them all, next to its work of managing the subnet.
    pub window: usize,
    /// Deadline of one attempt at one record.
    pub timeout: Duration,
    /// Deadline of one attempt at a table: the kernel's clock for it runs until the last segment has come.
    pub table_timeout: Duration,
    /// Attempts after the first.
    pub retries: u8,
    /// What the process may send in a second, shared with its engines; `None`: no limit.
    pub budget: Option<&'static Budget>,
    /// SM_Key to query with. With a wrong one the administrator does not answer at all.
    pub sm_key: Key,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            window: 8,
            timeout: Duration::from_secs(1),
            table_timeout: Duration::from_secs(10),
            retries: 2,
            budget: None,
            sm_key: Key::default(),
        }
    }
}

/// What a client did since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// MADs sent: requests, repetitions, acknowledgements, answers to Reports.
    pub sent: u64,
    /// Repetitions.
    pub retries: u64,
    /// Requests that got no answer within all attempts.
    pub timeouts: u64,
    /// Answers with an error.
    pub refused: u64,
    /// Messages that answer nothing outstanding, or are of another kind.
    pub unexpected: u64,
    /// Reports taken.
    pub reports: u64,
    /// Reports that could not be read, or found no room.
    pub lost_reports: u64,
    /// Sends and receives that failed.
    pub transport_failures: u64,
}

/// A Report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// What happened.
    pub notice: Notice,
    /// LID of the administrator that sent it; 0 where the transport does not know.
    pub from_lid: u16,
}

/// Gets the position of a query and how it ended.
pub(super) type OnAnswer<'a> = dyn FnMut(usize, Result<Answer<'_>, SaError>) + 'a;

/// One outstanding request.
struct Slot {
    index: usize,
    transaction: u32,
    attempts_left: u8,
    busy_left: u8,
    deadline: Instant,
    /// The administrator is busy: at the deadline the request is repeated, and that is no time-out.
    is_paused: bool,
    receiver: Option<Receiver>,
}

/// Everything between queries and a transport.
pub(super) struct Exchange {
    transport: Box<dyn Transport>,
    pub(super) settings: Settings,
    manager: (u16, u8),
    pub(super) key: Key,
    pub(super) stats: Stats,
    transaction: u32,
    slots: Vec<Slot>,
    reports: VecDeque<Report>,
    message: Message,
}

/// One run: what is queried, and who gets the outcomes.
struct Run<'a> {
    method: u8,
    queries: &'a [Query],
    take: &'a mut OnAnswer<'a>,
}

impl Exchange {
    pub(super) fn new(transport: Box<dyn Transport>, settings: Settings) -> Exchange {
        Exchange {
            transport,
            settings: Settings { window: settings.window.max(1), ..settings },
            manager: (0, 0),
            key: settings.sm_key,
            stats: Stats::default(),
            transaction: 0,
            slots: Vec::new(),
            reports: VecDeque::new(),
            message: Message::default(),
        }
    }

    pub(super) fn set_manager(&mut self, lid: u16, service_level: u8) {
        self.manager = (lid, service_level);
    }

    pub(super) fn manager_lid(&self) -> u16 {
        self.manager.0
    }

    /// Sends all queries and hands on each outcome.
    pub(super) fn run<'a>(
        &mut self,
        method: u8,
        queries: &'a [Query],
        stop: &AtomicBool,
        take: &'a mut OnAnswer<'a>,
    ) -> Result<(), SaError> {
        if self.manager.0 == 0 {
            return Err(SaError::NoManager);
        }
        let result = self.work_off(&mut Run { method, queries, take }, stop);
        self.slots.clear();
        result
    }

    fn work_off(&mut self, run: &mut Run<'_>, stop: &AtomicBool) -> Result<(), SaError> {
        let (mut next, mut failures) = (0, 0);
        loop {
            while next < run.queries.len() && self.slots.len() < self.settings.window {
                self.send_request(run, next)?;
                next += 1;
            }
            if self.slots.is_empty() {
                return Ok(());
            }
            if stop.load(Ordering::Relaxed) {
                return Err(SaError::Stopped);
            }
            self.transport.flush()?;
            let now = self.transport.now();
            let earliest = self.slots.iter().map(|slot| slot.deadline).min().unwrap_or(now);
            let wait = earliest.saturating_duration_since(now).clamp(Duration::from_millis(1), MAX_WAIT);
            match self.transport.receive_message(&mut self.message, wait) {
                Ok(Arrival::Nothing) => failures = 0,
                Ok(kind) => {
                    failures = 0;
                    self.arrived(kind, run)?;
                }
                Err(error) => {
                    self.stats.transport_failures += 1;
                    failures += 1;
                    if failures >= MAX_RECEIVE_FAILURES {
                        return Err(error.into());
                    }
                }
            }
            self.expire(run)?;
        }
    }

    fn timeout(&self, method: u8) -> Duration {
        if method == METHOD_GET_TABLE { self.settings.table_timeout } else { self.settings.timeout }
    }

    /// Sends the query at this position for the first time.
    fn send_request(&mut self, run: &Run<'_>, index: usize) -> Result<(), SaError> {
        let slot = Slot {
            index,
            transaction: 0,
            attempts_left: self.settings.retries,
            busy_left: BUSY_RETRIES,
            deadline: self.transport.now(),
            is_paused: false,
            receiver: None,
        };
        self.slots.push(slot);
        self.send(run, self.slots.len() - 1)
    }

    /// Sends a slot's request, with a transaction of its own each time: a late answer is not mistaken for one
    /// to the repetition, whose segments would be others.
    fn send(&mut self, run: &Run<'_>, place: usize) -> Result<(), SaError> {
        self.transaction = self.transaction.wrapping_add(1);
        let timeout = self.timeout(run.method);
        let deadline = self.transport.now() + timeout;
        let Some(slot) = self.slots.get_mut(place) else { return Ok(()) };
        slot.transaction = self.transaction;
        slot.deadline = deadline;
        slot.is_paused = false;
        slot.receiver = None;
        let mut mad = [0; MAD_BYTES];
        if let Some(query) = run.queries.get(slot.index) {
            sa::build(&mut mad, run.method, query, self.key.number(), self.transaction);
        }
        self.transmit(&mad, timeout)
    }

    fn transmit(&mut self, mad: &Mad, timeout: Duration) -> Result<(), SaError> {
        let (lid, service_level) = self.manager;
        self.transmit_to(mad, Destination::Lid { lid, service_level }, timeout)
    }

    fn transmit_to(&mut self, mad: &Mad, to: Destination, timeout: Duration) -> Result<(), SaError> {
        // A request is never put off for long: the budget refills within a second.
        while let Some(Err(next)) = self.settings.budget.map(|budget| budget.take(self.transport.now())) {
            std::thread::sleep(next.saturating_duration_since(self.transport.now()));
        }
        match self.transport.send(mad, to, timeout) {
            Ok(()) => {
                self.stats.sent += 1;
                Ok(())
            }
            Err(error) => {
                self.stats.transport_failures += 1;
                Err(error.into())
            }
        }
    }

    fn arrived(&mut self, kind: Arrival, run: &mut Run<'_>) -> Result<(), SaError> {
        let message = std::mem::take(&mut self.message);
        let result = self.sort(kind, &message, run);
        // Its room is used again.
        self.message = message;
        result
    }

    /// Finds out what a message is.
    fn sort(&mut self, kind: Arrival, message: &Message, run: &mut Run<'_>) -> Result<(), SaError> {
        let Some(answer) = Answer::read(&message.bytes) else {
            self.stats.unexpected += 1;
            return Ok(());
        };
        let place = self.slots.iter().position(|slot| slot.transaction == answer.transaction());
        if kind == Arrival::GivenUp {
            // The echo of a request, or of an acknowledgement or answer of ours that needs none.
            return match place {
                Some(place) if !answer.is_response() && !answer.rmpp().is_active() => self.missed(run, place),
                _ => Ok(()),
            };
        }
        if answer.method() == METHOD_REPORT {
            return self.take_report(message);
        }
        let Some(place) = place else {
            self.stats.unexpected += 1;
            return Ok(());
        };
        let requested = run.queries.get(self.slots[place].index).map(|query| query.attribute);
        if requested != Some(answer.attribute()) || !sa::answers(run.method, answer.method()) {
            self.stats.unexpected += 1;
            return Ok(());
        }
        let rmpp = answer.rmpp();
        if rmpp.is_segment(message.bytes.len()) || self.slots[place].receiver.is_some() {
            return self.segment(run, place, &message.bytes);
        }
        self.finish(run, place, answer)
    }

    /// One segment of a long answer that nobody below puts together.
    fn segment(&mut self, run: &mut Run<'_>, place: usize, bytes: &[u8]) -> Result<(), SaError> {
        let deadline = self.transport.now() + self.timeout(run.method);
        let slot = &mut self.slots[place];
        slot.deadline = deadline;
        let receiver = slot.receiver.get_or_insert_with(|| Receiver::new(ANSWER_BYTES_MAX));
        let step = receiver.take(bytes);
        let mut mad = [0; MAD_BYTES];
        match step {
            Step::Wait => return Ok(()),
            Step::Acknowledge | Step::Complete => receiver.acknowledge(&mut mad, bytes),
            Step::Abort(status) => receiver.abort(&mut mad, bytes, status),
            Step::Stopped => {}
        }
        if step != Step::Stopped {
            self.transmit(&mad, Duration::ZERO)?;
        }
        match step {
            Step::Complete => {
                let whole = self.slots[place].receiver.take().map(Receiver::into_message).unwrap_or_default();
                match Answer::read(&whole) {
                    Some(answer) => self.finish(run, place, answer),
                    None => self.broken(run, place, "its headers are missing"),
                }
            }
            Step::Abort(_) => self.broken(run, place, "its segments are out of order, or too many"),
            Step::Stopped => self.broken(run, place, "the sender gave up"),
            Step::Wait | Step::Acknowledge => Ok(()),
        }
    }

    fn broken(&mut self, run: &mut Run<'_>, place: usize, reason: &'static str) -> Result<(), SaError> {
        let slot = self.slots.swap_remove(place);
        let attribute = run.queries.get(slot.index).map_or(0, |query| query.attribute);
        (run.take)(slot.index, Err(SaError::Broken { attribute, reason }));
        Ok(())
    }

    /// A whole answer.
    fn finish(&mut self, run: &mut Run<'_>, place: usize, answer: Answer<'_>) -> Result<(), SaError> {
        let now = self.transport.now();
        let slot = &mut self.slots[place];
        let status = answer.status();
        if status.is_busy() && slot.busy_left > 0 {
            slot.busy_left -= 1;
            slot.is_paused = true;
            slot.deadline = now + BUSY_PAUSE;
            return Ok(());
        }
        let index = slot.index;
        self.slots.swap_remove(place);
        let attribute = answer.attribute();
        let outcome = if status != sa::Status::OK {
            self.stats.refused += 1;
            Err(SaError::Refused { attribute, status })
        } else if answer.is_cut() {
            Err(SaError::Cut { attribute })
        } else {
            Ok(answer)
        };
        (run.take)(index, outcome);
        Ok(())
    }

    fn expire(&mut self, run: &mut Run<'_>) -> Result<(), SaError> {
        let now = self.transport.now();
        while let Some(place) = self.slots.iter().position(|slot| slot.deadline <= now) {
            if self.slots[place].is_paused {
                self.stats.retries += 1;
                self.send(run, place)?;
            } else {
                self.missed(run, place)?;
            }
        }
        Ok(())
    }

    /// An attempt got no answer: the next one, or the end.
    fn missed(&mut self, run: &mut Run<'_>, place: usize) -> Result<(), SaError> {
        let slot = &mut self.slots[place];
        if slot.attempts_left > 0 {
            slot.attempts_left -= 1;
            self.stats.retries += 1;
            return self.send(run, place);
        }
        self.stats.timeouts += 1;
        let slot = self.slots.swap_remove(place);
        let attribute = run.queries.get(slot.index).map_or(0, |query| query.attribute);
        let (lid, attempts) = (self.manager.0, u32::from(self.settings.retries) + 1);
        (run.take)(slot.index, Err(SaError::Silent { attribute, lid, attempts }));
        Ok(())
    }

    /// Answers a Report and keeps what it says.
    fn take_report(&mut self, message: &Message) -> Result<(), SaError> {
        let Some(report) = Answer::read(&message.bytes) else { return Ok(()) };
        let mut mad = [0; MAD_BYTES];
        if sa::build_report_response(&mut mad, &message.bytes) {
            let (lid, service_level) = match message.from_lid {
                0 => self.manager,
                lid => (lid, message.from_service_level),
            };
            // Not answered, it is sent again; that is not worth an error.
            if self.transmit_to(&mad, Destination::Lid { lid, service_level }, Duration::ZERO).is_ok() {
                self.transport.flush()?;
            }
        }
        match Notice::decode(report.data()) {
            Ok(notice) if report.attribute() == sa::attribute::NOTICE && self.reports.len() < REPORTS_MAX => {
                self.stats.reports += 1;
                self.reports.push_back(Report { notice, from_lid: message.from_lid });
            }
            _ => self.stats.lost_reports += 1,
        }
        Ok(())
    }

    /// The next Report.
    pub(super) fn report(&mut self, wait: Duration) -> Result<Option<Report>, SaError> {
        let until = self.transport.now() + wait;
        loop {
            if let Some(report) = self.reports.pop_front() {
                return Ok(Some(report));
            }
            let rest = until.saturating_duration_since(self.transport.now());
            match self.transport.receive_message(&mut self.message, rest) {
                Ok(Arrival::Nothing) if rest.is_zero() || self.transport.now() >= until => return Ok(None),
                Ok(Arrival::Nothing) => {}
                Ok(kind) => {
                    let mut nothing = |_: usize, _: Result<Answer<'_>, SaError>| {};
                    self.arrived(kind, &mut Run { method: 0, queries: &[], take: &mut nothing })?;
                }
                Err(error) => {
                    self.stats.transport_failures += 1;
                    return Err(error.into());
                }
            }
        }
    }
}
