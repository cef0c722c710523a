//! What is outstanding: one slot each, found by the transaction ID of a reply. Sends nothing.
//!
//! A transaction ID (the lower half, the upper is the kernel's) has the slot in 8 bits, the attempt in 3 and
//! the use of the slot in 21. Each attempt has its own: the kernel refuses a second request with the ID of one
//! that it still holds, and a reply says which attempt it answers. A slot comes to the same ID again after two
//! million uses, minutes later at any rate that a fabric bears.

use super::queue::{NodeId, Request};
use super::tick::{NEVER, Tick};

/// Slots: the widest window, and as many for what is overdue or queries silent nodes.
pub const SLOTS: usize = 256;
/// Slots that overdue requests and probes may hold beside the window.
pub const MAX_ASIDE: usize = 128;

const ATTEMPT_SHIFT: u32 = 8;
const USE_SHIFT: u32 = 11;

/// What a slot stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A request within the window.
    Flying,
    /// A request that has not been answered when expected, or was answered "busy": it has left the window.
    Overdue,
    /// Queries a silent node; its outcome is waited for.
    Probe,
    /// Queries a silent node; its outcome has been reported as silence, and only its answer still counts.
    Orphan,
}

/// One outstanding request.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    pub node: NodeId,
    pub request: Request,
    pub kind: Kind,
    /// Number of the present attempt, from 0.
    pub attempt: u8,
    /// The layer below gave the present attempt up, or its agent is busy.
    pub is_over: bool,
    /// Order of sending of the present attempt.
    pub serial: u64,
    pub first_serial: u64,
    pub first_sent: Tick,
    /// When the present attempt was sent.
    pub sent: Tick,
    /// When something is to be done about it.
    pub due: Tick,
}

/// All slots.
pub struct Slots {
    slots: Vec<Option<Slot>>,
    uses: Vec<u32>,
    free: Vec<u8>,
    /// By kind.
    counts: [usize; 4],
    /// No slot is due earlier.
    next_due: Tick,
}

impl Slots {
    pub fn new() -> Slots {
        Slots {
            slots: vec![None; SLOTS],
            uses: vec![0; SLOTS],
            // Below SLOTS, so 8 bits suffice. Low numbers are used first.
            free: (0..SLOTS).rev().map(|index| index as u8).collect(),
            counts: [0; 4],
            next_due: NEVER,
        }
    }

    /// Slots of one kind.
    pub fn count(&self, kind: Kind) -> usize {
        self.counts[kind as usize]
    }

    /// Whether there is room for one more of this kind.
    pub fn has_room(&self, kind: Kind) -> bool {
        let aside = self.count(Kind::Overdue) + self.count(Kind::Probe) + self.count(Kind::Orphan);
        !self.free.is_empty() && (kind == Kind::Flying || aside < MAX_ASIDE)
    }

    /// Whether the outcome of something is waited for.
    pub fn is_waited_for(&self) -> bool {
        self.count(Kind::Flying) + self.count(Kind::Overdue) + self.count(Kind::Probe) > 0
    }

    /// Takes a slot; its number. `None` without room.
    pub fn insert(&mut self, slot: Slot) -> Option<usize> {
        let index = usize::from(self.free.pop()?);
        self.uses[index] = self.uses[index].wrapping_add(1);
        self.counts[slot.kind as usize] += 1;
        self.note_due(slot.due);
        self.slots[index] = Some(slot);
        Some(index)
    }

    /// Frees a slot.
    pub fn remove(&mut self, index: usize) {
        if let Some(slot) = self.slots[index].take() {
            self.counts[slot.kind as usize] -= 1;
            self.free.push(index as u8);
        }
    }

    pub fn get(&self, index: usize) -> Option<Slot> {
        self.slots.get(index).copied().flatten()
    }

    /// Writes a slot back that was got.
    pub fn put(&mut self, index: usize, slot: Slot) {
        if let Some(before) = &mut self.slots[index] {
            self.counts[before.kind as usize] -= 1;
            self.counts[slot.kind as usize] += 1;
            *before = slot;
            self.note_due(slot.due);
        }
    }

    /// The transaction ID of a slot's present attempt.
    pub fn transaction(&self, index: usize, attempt: u8) -> u32 {
        self.uses[index] << USE_SHIFT | u32::from(attempt) << ATTEMPT_SHIFT | index as u32
    }

    /// The slot and attempt that a transaction ID belongs to.
    pub fn find(&self, transaction: u32) -> Option<(usize, Slot, u8)> {
        let index = (transaction & 0xFF) as usize;
        let attempt = (transaction >> ATTEMPT_SHIFT & 0x7) as u8;
        let slot = self.get(index)?;
        let is_this = attempt <= slot.attempt && transaction == self.transaction(index, attempt);
        is_this.then_some((index, slot, attempt))
    }

    /// When something is to be done next.
    pub fn next_due(&self) -> Tick {
        self.next_due
    }

    pub fn note_due(&mut self, due: Tick) {
        self.next_due = self.next_due.min(due);
    }

    /// Finds the next due time anew.
    pub fn refresh_due(&mut self) {
        self.next_due = self.slots.iter().flatten().map(|slot| slot.due).min().unwrap_or(NEVER);
    }

    /// Makes overdue requests of a node due now that were sent before this one.
    pub fn hurry(&mut self, node: NodeId, serial: u64, now: Tick) {
        for slot in self.slots.iter_mut().flatten() {
            if slot.node == node && slot.kind == Kind::Overdue && slot.serial < serial && !slot.is_over {
                slot.due = slot.due.min(now);
                self.next_due = now;
            }
        }
    }

    /// Frees all slots.
    pub fn clear(&mut self) {
        for index in 0..SLOTS {
            self.remove(index);
        }
        self.next_due = NEVER;
    }
}
