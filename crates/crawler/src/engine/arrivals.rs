//! What an engine does with what arrives: which request it answers, and what it says about node and fabric.

use super::run::{Engine, Moment, UnansweredMads};
use super::settings::MIN_REPEAT_TICKS;
use super::slots::{Kind, Slot};
use super::tick::Tick;
use super::{Ended, Outcome, Route, Work};
use crate::transport::Arrival;
use std::time::Duration;
use throughline_infiniband::mad::{
    self, CLASS_PERFORMANCE, CLASS_SMP_DIRECTED, ReplyHeader, STATUS_BUSY, STATUS_REDIRECT, attribute,
};

/// Whether a performance agent says that its requests are to be sent elsewhere.
fn is_redirection(header: &ReplyHeader) -> bool {
    header.class == CLASS_PERFORMANCE
        && header.attribute == attribute::CLASS_PORT_INFO
        && header.status & STATUS_REDIRECT != 0
}

/// When an attempt was sent; of one between the first and the present one it is not known.
fn sent(slot: &Slot, attempt: u8) -> Option<Tick> {
    match attempt {
        _ if attempt == slot.attempt => Some(slot.sent),
        0 => Some(slot.first_sent),
        _ => None,
    }
}

impl Engine {
    pub(super) fn arrived(&mut self, kind: Arrival, work: &mut dyn Work, now: Moment) {
        let header = mad::reply_header(&self.buffer);
        let found = self.slots.find(header.transaction);
        if kind == Arrival::GivenUp {
            // What was given up of an earlier attempt, or of a request that has ended, says nothing new.
            if let Some((index, slot, attempt)) = found
                && attempt == slot.attempt
            {
                self.given_up(index, slot, now);
            }
            return;
        }
        self.stats.received += 1;
        let Some((index, slot, attempt)) = found.filter(|(_, slot, _)| self.is_answer(&header, slot)) else {
            self.stats.unexpected += 1;
            return;
        };
        if !is_redirection(&header)
            && let Some(reason) = mad::implausible(&slot.request.query, &header, &self.buffer)
        {
            // As if it had not come: the request is repeated, and fails when nothing better comes.
            self.stats.rejected += 1;
            self.rejected[reason as usize] += 1;
            return;
        }
        self.answered(&slot, attempt, now);
        let is_live = matches!(slot.kind, Kind::Flying | Kind::Overdue);
        if header.status & STATUS_BUSY != 0 {
            self.stats.busy += 1;
            self.window.lost(slot.serial, self.serial + 1);
            if is_live && slot.attempt < self.settings.retries {
                self.rest(index, slot, now);
                return;
            }
        } else {
            self.measure(&slot, attempt, now);
        }
        self.free(index, &slot);
        if slot.kind == Kind::Orphan {
            return;
        }
        if is_redirection(&header) && self.send_on(&slot) {
            return;
        }
        let outcome = if header.status == 0 {
            Outcome::Reply(&self.buffer)
        } else {
            self.stats.refused += 1;
            Outcome::Refused(header.status)
        };
        let sent = sent(&slot, attempt).unwrap_or(slot.first_sent);
        let took = Duration::from_nanos(now.tick.saturating_sub(sent));
        work.done(&mut self.queue, slot.node, slot.request.tag, outcome, Ended { at: now.instant, took });
    }

    /// Sends a request again, to where the reply says. `false` where it says nothing usable.
    fn send_on(&mut self, slot: &Slot) -> bool {
        let info = mad::ClassPortInfo::decode(mad::performance_data(&self.buffer)).unwrap_or_default();
        let Some(to) = info.redirection.filter(|to| self.queue.redirect(slot.node, *to)) else {
            return false;
        };
        self.stats.redirected += 1;
        tracing::debug!(?to, "a request was sent elsewhere");
        self.queue.push(slot.node, slot.request);
        true
    }

    fn is_answer(&self, header: &ReplyHeader, slot: &Slot) -> bool {
        let class = match self.queue.route(slot.node) {
            Route::Directed(_) => CLASS_SMP_DIRECTED,
            Route::Lid { .. } | Route::Agent(_) => CLASS_PERFORMANCE,
        };
        let is_requested = header.attribute == slot.request.query.attribute || is_redirection(header);
        header.is_response && header.class == class && is_requested
    }

    /// An answer, whatever it says, shows that its node lives and that the fabric moves.
    fn answered(&mut self, slot: &Slot, attempt: u8, now: Moment) {
        if let Route::Directed(path) = self.queue.route(slot.node) {
            self.stats.hops += path.ports().len() as u64;
        }
        self.unanswered = UnansweredMads::default();
        // Attempts between the first and the present one are not retained: the first is what is certain.
        let serial = if attempt == slot.attempt { slot.serial } else { slot.first_serial };
        self.newest_answered = self.newest_answered.max(serial);
        self.queue.answered(slot.node, serial, now.tick);
        if self.queue.node(slot.node).overdue > 0 {
            self.slots.hurry(slot.node, serial, now.tick);
        }
    }

    /// Round-trip time and losses.
    fn measure(&mut self, slot: &Slot, attempt: u8, now: Moment) {
        if let Some(sent) = sent(slot, attempt) {
            let elapsed = now.tick.saturating_sub(sent);
            self.round_trip.sample(elapsed);
            self.queue.node(slot.node).round_trip.sample(elapsed);
        }
        if attempt < slot.attempt {
            self.stats.late += 1;
        } else if attempt > 0 {
            self.stats.lost += 1;
            self.window.lost(slot.first_serial, self.serial + 1);
        }
        self.window.answered();
    }

    /// A busy agent is left alone for a while, each time longer.
    fn rest(&mut self, index: usize, mut slot: Slot, now: Moment) {
        self.set_aside(&mut slot);
        slot.is_over = true;
        slot.due = now.tick + (MIN_REPEAT_TICKS << slot.attempt);
        self.slots.put(index, slot);
    }

    /// The layer below gave an attempt up: at its time-out, or at once because it can't be delivered.
    fn given_up(&mut self, index: usize, mut slot: Slot, now: Moment) {
        if matches!(slot.kind, Kind::Flying | Kind::Overdue) && slot.attempt < self.settings.retries {
            self.set_aside(&mut slot);
            // Not repeated at once: what can't be delivered now can't a microsecond later either.
            slot.due = now.tick.max(slot.sent + (MIN_REPEAT_TICKS << slot.attempt));
        } else {
            slot.due = now.tick;
        }
        slot.is_over = true;
        self.slots.put(index, slot);
    }

    /// Takes a request out of the window.
    pub(super) fn set_aside(&mut self, slot: &mut Slot) {
        if slot.kind == Kind::Flying {
            slot.kind = Kind::Overdue;
            self.queue.node(slot.node).overdue += 1;
        }
    }

    /// A slot's request is not outstanding any more.
    pub(super) fn free(&mut self, index: usize, slot: &Slot) {
        self.slots.remove(index);
        let node = self.queue.node(slot.node);
        match slot.kind {
            Kind::Probe | Kind::Orphan => {
                node.has_probe = false;
                self.queue.make_ready(slot.node);
            }
            Kind::Overdue => {
                node.overdue -= 1;
                self.queue.release(slot.node);
            }
            Kind::Flying => self.queue.release(slot.node),
        }
    }
}
