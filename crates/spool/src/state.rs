//! What all parties of a spool share under one mutex: the entries in memory, the list of segments, counts.
//!
//! Does no I/O: the mutex is held for moments only, so that appending never waits for a disk.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use tokio::sync::Notify;
use uuid::Uuid;

use crate::format::{self, Class, Entry};
use crate::names::segment_name;
use crate::salvage::Gap;
use crate::{AppendError, Config, ENTRY_BYTES_MAX, Stats};

/// What an entry costs in memory beside its payload: the queue's slot and the allocation.
const PENDING_OVERHEAD_BYTES: usize = 96;

/// Thin the memory queue only where this share of it is not thinned yet; below, drop the oldest. Keeps the
/// cost of an append constant on average.
const THIN_SHARE: usize = 4;

pub(crate) struct SharedState {
    state: Mutex<State>,
    /// Notified when there is something to write or remove, and at the end.
    pub work: Condvar,
    /// Notified at each append and each widened reservation.
    pub readable: Notify,
    pub config: Config,
}

impl SharedState {
    pub fn new(config: Config, state: State) -> Self {
        Self { state: Mutex::new(state), work: Condvar::new(), readable: Notify::new(), config }
    }

    /// The state. A panic elsewhere while it was held leaves at worst a count behind.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct PendingEntry {
    pub sequence: u64,
    pub class: Class,
    pub appended_ns: i64,
    pub payload: Bytes,
}

impl PendingEntry {
    fn cost(&self) -> usize {
        self.payload.len() + PENDING_OVERHEAD_BYTES
    }
}

/// A segment that has at least one entry on disk.
#[derive(Debug, Clone)]
pub(crate) struct Segment {
    pub index: u64,
    pub spool_id: Uuid,
    pub salt: u32,
    pub first: u64,
    pub last: u64,
    /// Bytes known to be good, from the file's start.
    pub len: u64,
    pub entries: u64,
    pub thinned: bool,
    /// The one that is being written.
    pub active: bool,
    pub oldest_ns: i64,
    pub read_failures: u32,
    /// A damaged spot was found: the file is set aside instead of removed.
    pub damaged: bool,
    /// Damaged spots before this offset are counted.
    pub damage_counted_to: u64,
}

impl Segment {
    /// Entries that are not acknowledged; exact unless thinned.
    pub fn remaining(&self, acked: u64) -> u64 {
        if self.first > acked { self.entries } else { self.entries.min(self.last.saturating_sub(acked)) }
    }
}

#[derive(Default)]
pub(crate) struct State {
    pub spool_id: Uuid,
    pub next: u64,
    /// Readers get nothing from here on: its sequence is not reserved on disk yet.
    pub reserved_until: u64,
    pub acked: u64,
    /// Highest sequence a reader got.
    pub handed_out: u64,
    pub pending: VecDeque<PendingEntry>,
    pub pending_bytes: usize,
    pub in_flight_upto: u64,
    /// Entries in memory up to here were thinned.
    pub thinned_upto: u64,
    pub segments: VecDeque<Segment>,
    /// Segments to remove.
    pub doomed: Vec<u64>,
    /// Segments to set aside as damaged.
    pub broken: Vec<u64>,
    pub ack_dirty: bool,
    pub stopping: bool,
    pub counts: Stats,
}

impl State {
    pub fn append(&mut self, config: &Config, payload: Bytes, class: Class) -> Result<u64, AppendError> {
        let entry_max = config.entry_bytes_max();
        if payload.is_empty() || payload.len() > entry_max {
            self.counts.refused_entries += 1;
            return Err(AppendError { bytes: payload.len(), bytes_max: entry_max });
        }
        let sequence = self.next;
        self.next += 1;
        self.counts.appended_entries += 1;
        self.counts.appended_bytes += payload.len() as u64;
        let entry = PendingEntry { sequence, class, appended_ns: now_ns(), payload };
        self.free_memory_for(config.memory_bytes_max, entry.cost());
        if self.pending_bytes + entry.cost() > config.memory_bytes_max {
            // All that is left is being written at this moment: the new one has no place.
            self.counts.dropped_memory_entries += 1;
            return Ok(sequence);
        }
        self.pending_bytes += entry.cost();
        self.pending.push_back(entry);
        Ok(sequence)
    }

    fn free_memory_for(&mut self, bytes_max: usize, need: usize) {
        if self.pending_bytes + need <= bytes_max {
            return;
        }
        let from = self.thinned_upto.max(self.in_flight_upto);
        let start = self.pending.partition_point(|p| p.sequence <= from);
        let unthinned: usize = self.pending.range(start..).map(PendingEntry::cost).sum();
        if unthinned >= bytes_max / THIN_SHARE {
            let rest = self.pending.split_off(start);
            let keep = format::thin(&rest.iter().map(|p| p.class).collect::<Vec<_>>());
            self.thinned_upto = rest.back().map_or(from, |p| p.sequence);
            for (entry, keep) in rest.into_iter().zip(keep) {
                if keep {
                    self.pending.push_back(entry);
                } else {
                    self.pending_bytes -= entry.cost();
                    self.counts.thinned_memory_entries += 1;
                }
            }
        }
        // What the writer holds now is not dropped: it will be on disk in a moment.
        let held = self.pending.partition_point(|p| p.sequence <= self.in_flight_upto);
        let mut gone = 0;
        while self.pending_bytes + need > bytes_max && held + gone < self.pending.len() {
            self.pending_bytes -= self.pending[held + gone].cost();
            gone += 1;
        }
        self.pending.drain(held..held + gone);
        self.counts.dropped_memory_entries += gone as u64;
    }

    /// Takes the entries up to `sequence` as delivered. False where no reader ever got that far.
    pub fn ack(&mut self, sequence: u64) -> bool {
        let honest = sequence <= self.handed_out;
        if !honest {
            self.counts.wrong_acks += 1;
        }
        let sequence = sequence.min(self.handed_out);
        if sequence <= self.acked {
            return honest;
        }
        self.counts.acked_entries += self.backlog_upto(sequence);
        self.acked = sequence;
        self.ack_dirty = true;
        self.pop_pending(sequence);
        while self.segments.front().is_some_and(|s| s.last <= sequence && !s.active) {
            if let Some(segment) = self.segments.pop_front() {
                self.remove_file(&segment);
            }
        }
        honest
    }

    fn backlog_upto(&self, sequence: u64) -> u64 {
        let on_disk: u64 = self
            .segments
            .iter()
            .take_while(|s| s.first <= sequence)
            .map(|s| s.remaining(self.acked) - s.remaining(sequence.max(self.acked)))
            .sum();
        on_disk + self.pending.partition_point(|p| p.sequence <= sequence) as u64
    }

    /// Forgets the entries in memory up to `sequence`.
    pub fn pop_pending(&mut self, sequence: u64) {
        while self.pending.front().is_some_and(|p| p.sequence <= sequence) {
            if let Some(entry) = self.pending.pop_front() {
                self.pending_bytes -= entry.cost();
            }
        }
    }

    /// Takes the oldest entries in memory to be written, at least one and otherwise at most `bytes_max`.
    pub fn begin_write(&mut self, bytes_max: u64) -> Vec<PendingEntry> {
        let mut bytes = 0u64;
        let mut batch = Vec::new();
        for entry in &self.pending {
            bytes += (entry.payload.len() + format::ENTRY_HEADER_BYTES) as u64;
            if entry.sequence >= self.reserved_until || (bytes > bytes_max && !batch.is_empty()) {
                break;
            }
            batch.push(entry.clone());
        }
        self.in_flight_upto = batch.last().map_or(0, |p: &PendingEntry| p.sequence);
        batch
    }

    /// Entries in memory for a reader, after `sequence`.
    pub fn read_pending(&mut self, sequence: u64, entries_max: usize, bytes_max: usize) -> Vec<Entry> {
        let start = self.pending.partition_point(|p| p.sequence <= sequence);
        let mut bytes = 0;
        let mut out: Vec<Entry> = Vec::new();
        for p in self.pending.range(start..).take(entries_max) {
            bytes += p.payload.len();
            if p.sequence >= self.reserved_until || (bytes > bytes_max && !out.is_empty()) {
                break;
            }
            out.push(Entry {
                spool_id: self.spool_id,
                sequence: p.sequence,
                class: p.class,
                appended_ns: p.appended_ns,
                payload: p.payload.clone(),
            });
        }
        self.note_handed_out(&out);
        out
    }

    pub fn note_handed_out(&mut self, entries: &[Entry]) {
        if let Some(last) = entries.last() {
            self.handed_out = self.handed_out.max(last.sequence);
        }
    }

    /// Whether a reader would get something after `sequence`.
    pub fn has_after(&self, sequence: u64) -> bool {
        let after = sequence.max(self.acked);
        self.segments.iter().any(|s| s.last > after)
            || self.pending.back().is_some_and(|p| p.sequence > after)
                && self
                    .pending
                    .get(self.pending.partition_point(|p| p.sequence <= after))
                    .is_some_and(|p| p.sequence < self.reserved_until)
    }

    pub fn disk_bytes(&self) -> u64 {
        self.segments.iter().map(|s| s.len).sum()
    }

    /// Has a segment's file removed, or set aside where it is damaged.
    pub fn remove_file(&mut self, segment: &Segment) {
        let list = if segment.damaged { &mut self.broken } else { &mut self.doomed };
        list.push(segment.index);
    }

    /// Counts a damaged spot that a reader met, once for all readers.
    pub fn note_gap(&mut self, index: u64, gap: &Gap, lost: u64) {
        let Some(segment) = self.segments.iter_mut().find(|s| s.index == index) else { return };
        if gap.at < segment.damage_counted_to {
            return;
        }
        segment.damage_counted_to = gap.at + gap.bytes.max(1);
        segment.entries = segment.entries.saturating_sub(lost);
        self.counts.damaged_entries += lost;
        self.counts.damaged_bytes += gap.bytes;
        if !segment.damaged {
            segment.damaged = true;
            self.counts.damaged_segments += 1;
            tracing::warn!(segment = %segment_name(index), offset = gap.at, bytes = gap.bytes, lost_entries = lost,
                "a segment of the spool is damaged: the entries around the spot are delivered, the lost ones counted");
        }
    }

    /// Takes a segment out because it cannot be read; it will be renamed by the writer.
    pub fn set_aside(&mut self, index: u64) {
        if let Some(at) = self.segments.iter().position(|s| s.index == index)
            && let Some(segment) = self.segments.remove(at)
        {
            self.counts.damaged_segments += u64::from(!segment.damaged);
            self.counts.damaged_entries += segment.remaining(self.acked);
            self.broken.push(index);
        }
    }

    pub fn stats(&self) -> Stats {
        let mut stats = self.counts.clone();
        stats.backlog_entries =
            self.segments.iter().map(|s| s.remaining(self.acked)).sum::<u64>() + self.pending.len() as u64;
        stats.memory_bytes = self.pending_bytes as u64;
        stats.disk_bytes = self.disk_bytes();
        stats.segments = self.segments.len() as u64;
        stats.last_sequence = self.next - 1;
        stats.acked_sequence = self.acked;
        let oldest_on_disk = self.segments.iter().find(|s| s.last > self.acked).map(|s| s.oldest_ns);
        stats.oldest_ns = oldest_on_disk.or_else(|| self.pending.front().map(|p| p.appended_ns));
        stats
    }
}

/// UTC nanoseconds by the system clock; 0 before 1970.
pub(crate) fn now_ns() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| i64::try_from(d.as_nanos()).unwrap_or(i64::MAX))
}

// The bound of one entry must leave room for it in the length field and in memory.
const _: () = assert!(ENTRY_BYTES_MAX < u32::MAX as usize / 2);
