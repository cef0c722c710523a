//! What an engine does with what does not arrive: repeats it in time, ends it late, and leaves silent nodes alone.
//!
//! An attempt is *overdue* once its answer is later than expected (smoothed round trip and four deviations) and
//! answers to later requests show that the fabric moves. It then leaves the window. It is repeated after
//! [`MIN_REPEAT`](super::MIN_REPEAT), doubled each time, or at once if its own node has answered a later request; and its request
//! fails when the last attempt got no answer within the time-out. While nobody answers, the reader,
//! the local port or the whole fabric is held up: then only a few MADs are sent on trial.

use super::run::{Engine, Moment};
use super::settings::{INITIAL_REPEAT_TICKS, MAX_WINDOW, MIN_REPEAT_TICKS};
use super::slots::{Kind, Slot};
use super::tick::Tick;
use super::{NodeId, Outcome, Work};

/// MADs sent while nothing is received, at most: queues below hold so many, and libumad2sim deadlocks at 256.
const MAX_UNANSWERED: usize = MAX_WINDOW + MAX_WINDOW / 2;
/// Repetitions among them: enough to find out that only the last answers of a round were lost.
const MAX_UNANSWERED_REPEATS: usize = 4;
/// Requests in a row without an answer, nothing received in between, after which none is repeated: nobody is there.
const DEAF_AFTER: usize = 8;
/// The answer to a trial is waited for so many times as long as that to any other attempt, as a power of two.
const TRIAL_SHIFT: u32 = 2;

impl Engine {
    /// The time within which a node's answer is expected.
    pub(super) fn expected(&mut self, id: NodeId) -> Tick {
        let of_node = self.queue.node(id).round_trip.expected();
        let expected = match of_node.max(self.round_trip.expected()) {
            0 => INITIAL_REPEAT_TICKS,
            known => known,
        };
        expected.min(self.timeout)
    }

    /// How long a node's answer is waited for before anything is done about it.
    pub(super) fn patience(&mut self, id: NodeId) -> Tick {
        self.expected(id).max(MIN_REPEAT_TICKS).min(self.timeout)
    }

    /// Looks at every slot that is due.
    pub(super) fn check_overdue(&mut self, work: &mut dyn Work, now: Moment) {
        for index in 0..super::slots::SLOTS {
            let Some(slot) = self.slots.get(index).filter(|slot| slot.due <= now.tick) else { continue };
            match slot.kind {
                Kind::Orphan => self.free(index, &slot),
                Kind::Probe => self.probe_unanswered(index, slot, work, now),
                Kind::Flying | Kind::Overdue => self.unanswered(index, slot, work, now),
            }
        }
        self.slots.refresh_due();
    }

    /// A silent node stays silent: nobody waits for it, and a late answer still lets it in again.
    fn probe_unanswered(&mut self, index: usize, mut slot: Slot, work: &mut dyn Work, now: Moment) {
        let tag = slot.request.tag;
        if slot.is_over {
            self.free(index, &slot);
        } else {
            slot.kind = Kind::Orphan;
            slot.due = slot.sent + self.timeout;
            self.slots.put(index, slot);
        }
        self.stats.timeouts += 1;
        work.done(&mut self.queue, slot.node, tag, Outcome::Silent, now.ended());
        self.spare(slot.node, work, now);
    }

    fn unanswered(&mut self, index: usize, mut slot: Slot, work: &mut dyn Work, now: Moment) {
        let patience = self.patience(slot.node);
        let is_trial = slot.request.is_trial;
        let give_up_at = slot.sent + if is_trial { patience << TRIAL_SHIFT } else { self.timeout };
        let attempts_left =
            !is_trial && self.unanswered.timeouts < DEAF_AFTER && slot.attempt < self.settings.retries;
        if slot.is_over || now.tick >= give_up_at {
            match attempts_left {
                true => self.repeat(index, slot, now),
                false => self.end(index, slot, work, now),
            }
            return;
        }
        let moves = self.newest_answered > slot.serial;
        if slot.kind == Kind::Flying
            && (moves || now.tick >= slot.sent + patience && self.unanswered.sent < MAX_UNANSWERED)
            && self.slots.has_room(Kind::Overdue)
        {
            self.set_aside(&mut slot);
        }
        let passed = self.queue.node(slot.node).newest_answered > slot.serial;
        let repeat_at = match passed {
            true => slot.sent + self.expected(slot.node),
            false => slot.sent + (patience << slot.attempt),
        };
        let moved = self.newest_answered > slot.first_serial && self.unanswered.sent < MAX_UNANSWERED;
        let may_repeat = moved || self.unanswered.repeated < MAX_UNANSWERED_REPEATS;
        if attempts_left && now.tick >= repeat_at && may_repeat {
            self.repeat(index, slot, now);
            return;
        }
        let next_look = match (attempts_left, now.tick < repeat_at) {
            (false, _) => give_up_at,
            (true, true) => repeat_at,
            (true, false) => now.tick + patience,
        };
        // What still flies is looked at again soon: it shall leave the window once the fabric moves.
        let soon = if slot.kind == Kind::Flying { now.tick + self.expected(slot.node) } else { give_up_at };
        slot.due = next_look.min(give_up_at).min(soon);
        self.slots.put(index, slot);
    }

    /// Sends the next attempt, as soon as the budget allows it.
    fn repeat(&mut self, index: usize, mut slot: Slot, now: Moment) {
        if let Err(at) = self.may_send(now) {
            slot.due = at;
            // It stays over, or beyond its time, and comes here again.
            self.slots.put(index, slot);
            return;
        }
        slot.attempt += 1;
        slot.is_over = false;
        slot.sent = now.tick;
        slot.serial = self.serial + 1;
        let wait = self.patience(slot.node) << slot.attempt;
        let is_last = slot.attempt >= self.settings.retries;
        slot.due = now.tick + if is_last { self.timeout } else { wait.min(self.timeout) };
        self.slots.put(index, slot);
        if self.transmit(index, &slot) {
            self.stats.retries += 1;
            self.unanswered.repeated += 1;
        } else {
            // As if it had been lost: the transport may work again by the next attempt.
            slot.is_over = true;
            slot.due = now.tick + wait;
            self.slots.put(index, slot);
        }
    }

    /// The request failed. Its node is silent if nothing came from it meanwhile.
    fn end(&mut self, index: usize, slot: Slot, work: &mut dyn Work, now: Moment) {
        self.stats.timeouts += 1;
        self.unanswered.timeouts += 1;
        self.slots.remove(index);
        let node = self.queue.node(slot.node);
        if slot.kind == Kind::Overdue {
            node.overdue -= 1;
        }
        if node.last_answer.is_none_or(|answered| answered < slot.first_sent) {
            self.queue.fell_silent(slot.node);
        }
        self.queue.release(slot.node);
        work.done(&mut self.queue, slot.node, slot.request.tag, Outcome::Timeout, now.ended());
        if self.queue.is_silent(slot.node) {
            self.spare(slot.node, work, now);
        }
    }
}
