//! The writing side: entries from memory into segments, the bound of the folder, removal, the meta file.
//!
//! The only place that changes files after the spool is open. Never holds the state's mutex during I/O.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use uuid::Uuid;

use crate::format::{META_SLOT_STRIDE, Meta, SegmentHeader, Tail, encode_entry};
use crate::names::{META_NAME, TAIL_NAME, quarantine_name, segment_name};
use crate::state::{PendingEntry, Segment, SharedState};
use crate::storage::{Storage, StorageFile};
use crate::{QUARANTINE_FILES_MAX, RESERVE_SEQUENCES, SEGMENTS_MAX};

/// What [`MetaFile::begin`] makes before it takes the place of the meta file.
const NEW_META_NAME: &str = "meta.new";

/// How often the acknowledged position is written at most. Its loss only means that entries are sent again.
const ACK_WRITE_INTERVAL: Duration = Duration::from_secs(2);

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// What could not be done to the folder. Entries stay in memory, within its bound, and are tried again.
#[derive(Debug, thiserror::Error)]
#[error("the spool cannot {operation}: {source}; entries stay in memory until it can")]
pub struct FlushError {
    operation: &'static str,
    source: io::Error,
}

pub(crate) fn failed(operation: &'static str) -> impl FnOnce(io::Error) -> FlushError {
    move |source| FlushError { operation, source }
}

struct ActiveSegment {
    index: u64,
    salt: u32,
    len: u64,
    file: Box<dyn StorageFile>,
}

/// The meta file: two slots written in turn, so that one good state always stands.
pub(crate) struct MetaFile {
    pub storage: Arc<dyn Storage>,
    pub file: Option<Box<dyn StorageFile>>,
    /// The last state known to be on disk.
    pub written: Option<Meta>,
    /// Which slot holds it.
    pub good_slot: u64,
    pub owner: u32,
}

impl MetaFile {
    /// Writes the first state of a run: as a new file in the place of the old one, so that until it is on disk the old
    /// one stays as it is.
    ///
    /// What was read of the old file may be in the page cache alone: after a sync that failed at the end of the run
    /// before, no later sync writes it. Writing over the other slot would then put the only state at risk that is on
    /// disk, and a power failure would bring back an older one, whose numbers were given to others long ago.
    pub fn begin(&mut self, spool_id: Uuid, reserved_until: u64, acked: u64) -> io::Result<()> {
        match self.replace(spool_id, reserved_until, acked) {
            // A slot of the old file needs no more room.
            Err(error) if is_full(&error) => self.write(spool_id, reserved_until, acked),
            other => other,
        }
    }

    fn replace(&mut self, spool_id: Uuid, reserved_until: u64, acked: u64) -> io::Result<()> {
        match self.storage.remove(NEW_META_NAME) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let generation = self.written.map_or(0, |m| m.generation) + 1;
        let meta = Meta { generation, spool_id, reserved_until, acked, owner: self.owner };
        let file = self.storage.create(NEW_META_NAME)?;
        file.write_at(&meta.encode(), 0)?;
        file.sync_data()?;
        self.storage.rename(NEW_META_NAME, META_NAME)?;
        self.storage.sync_dir()?;
        (self.file, self.written, self.good_slot) = (Some(file), Some(meta), 0);
        Ok(())
    }

    /// Writes and syncs a state into the slot that does not hold the last good one.
    pub fn write(&mut self, spool_id: Uuid, reserved_until: u64, acked: u64) -> io::Result<()> {
        let mut fresh = false;
        if self.file.is_none() {
            self.file = Some(match self.storage.open(META_NAME) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    fresh = true;
                    self.storage.create(META_NAME)?
                }
                other => other?,
            });
        }
        let Some(file) = &self.file else { return Ok(()) };
        let generation = self.written.map_or(0, |m| m.generation) + 1;
        let meta = Meta { generation, spool_id, reserved_until, acked, owner: self.owner };
        let slot = if self.written.is_some() { 1 - self.good_slot } else { 0 };
        file.write_at(&meta.encode(), slot * META_SLOT_STRIDE)?;
        file.sync_data()?;
        if fresh || self.written.is_none() {
            self.storage.sync_dir()?;
        }
        self.written = Some(meta);
        self.good_slot = slot;
        Ok(())
    }
}

pub(crate) struct Flusher {
    pub storage: Arc<dyn Storage>,
    pub meta: MetaFile,
    active: Option<ActiveSegment>,
    pub next_index: u64,
    /// The identity of this run's segments; not in the meta file where that could not be written.
    pub spool_id: Uuid,
    pub volatile_id: bool,
    ack_written_at: Option<Instant>,
    quarantined: Vec<u64>,
    tail: Option<Box<dyn StorageFile>>,
}

impl Flusher {
    pub fn new(
        meta: MetaFile,
        next_index: u64,
        spool_id: Uuid,
        volatile_id: bool,
        quarantined: Vec<u64>,
    ) -> Self {
        let storage = meta.storage.clone();
        Self {
            storage,
            meta,
            active: None,
            next_index,
            spool_id,
            volatile_id,
            ack_written_at: None,
            quarantined,
            tail: None,
        }
    }

    /// Writes and syncs all that is in memory now, keeps the folder within its bound, removes what is
    /// acknowledged. On an error everything not written stays in memory.
    pub fn flush(&mut self, shared: &SharedState) -> Result<(), FlushError> {
        let upto = shared.lock().next;
        let result = loop {
            let room = self
                .active
                .as_ref()
                .map_or(u64::MAX, |a| shared.config.segment_bytes_max.saturating_sub(a.len));
            if room == 0 {
                self.close_active(shared);
                continue;
            }
            let batch = shared.lock().begin_write(room.min(shared.config.segment_bytes_max));
            if batch.first().is_none_or(|p| p.sequence >= upto) {
                shared.lock().in_flight_upto = 0;
                break Ok(());
            }
            let done = self.free_space_for(shared, &batch).and_then(|()| self.write(shared, &batch));
            shared.lock().in_flight_upto = 0;
            if let Err(error) = done {
                break Err(error);
            }
        };
        if let Err(error) = &result {
            let mut state = shared.lock();
            if is_full(&error.source) {
                state.counts.no_space_errors += 1;
            } else {
                state.counts.write_errors += 1;
            }
        }
        self.tidy(shared);
        let meta = self.write_meta_if_due(shared);
        result.and(meta)
    }

    fn write(&mut self, shared: &SharedState, batch: &[PendingEntry]) -> Result<(), FlushError> {
        let (Some(first), Some(last)) = (batch.first(), batch.last()) else { return Ok(()) };
        let fresh = self.active.is_none();
        let result = self.write_batch(batch);
        let mut state = shared.lock();
        match (result, &self.active) {
            (Ok(end), Some(active)) => {
                let (spool_id, index) = (self.spool_id, active.index);
                let mut tail =
                    Tail { spool_id, index, last: last.sequence, entries: batch.len() as u64, len: end };
                if let Some(segment) = state.segments.iter_mut().find(|s| s.index == active.index) {
                    segment.last = last.sequence;
                    segment.len = end;
                    segment.entries += batch.len() as u64;
                    tail.entries = segment.entries;
                } else if !fresh {
                    // A reader found the segment damaged meanwhile: the batch goes into another one.
                    drop(state);
                    self.active = None;
                    return Ok(());
                } else {
                    state.segments.push_back(Segment {
                        index: active.index,
                        spool_id: self.spool_id,
                        salt: active.salt,
                        first: first.sequence,
                        last: last.sequence,
                        len: end,
                        entries: batch.len() as u64,
                        thinned: false,
                        active: true,
                        oldest_ns: first.appended_ns,
                        read_failures: 0,
                        damaged: false,
                        damage_counted_to: 0,
                    });
                }
                state.counts.written_entries += batch.len() as u64;
                state.counts.written_bytes += batch.iter().map(|p| p.payload.len() as u64).sum::<u64>();
                state.pop_pending(last.sequence);
                drop(state);
                if let Some(active) = &mut self.active {
                    active.len = end;
                }
                self.note_tail(&tail);
                Ok(())
            }
            (Ok(_), None) => Ok(()),
            (Err(error), _) => {
                drop(state);
                // What reached the file is not trusted (see StorageFile::sync_data): the entries are still in
                // memory and go into another segment. A reader of the folder drops what it meets twice.
                let broken = self.active.as_ref().map(|a| a.index).filter(|_| fresh);
                self.close_active(shared);
                if let Some(index) = broken {
                    shared.lock().doomed.push(index);
                }
                Err(error)
            }
        }
    }

    /// Notes what is on disk now. It serves to count a loss only, so a failure of it is none of the spool.
    fn note_tail(&mut self, tail: &Tail) {
        if self.tail.is_none() {
            self.tail = self.storage.open(TAIL_NAME).or_else(|_| self.storage.create(TAIL_NAME)).ok();
        }
        if let Some(file) = &self.tail
            && file.write_at(&tail.encode(), 0).is_err()
        {
            self.tail = None;
        }
    }

    /// Puts a batch at the end of the active segment, making one where needed; gives the new length.
    fn write_batch(&mut self, batch: &[PendingEntry]) -> Result<u64, FlushError> {
        let fresh = self.active.is_none();
        if fresh {
            let header = SegmentHeader { spool_id: self.spool_id, index: self.next_index, thinned: false };
            self.next_index += 1;
            let file =
                self.storage.create(&segment_name(header.index)).map_err(failed("create a segment"))?;
            self.active = Some(ActiveSegment { index: header.index, salt: header.salt(), len: 0, file });
        }
        let Some(active) = &self.active else { return Ok(0) };
        let mut bytes = Vec::new();
        if fresh {
            let header = SegmentHeader { spool_id: self.spool_id, index: active.index, thinned: false };
            bytes.extend_from_slice(&header.encode());
        }
        for p in batch {
            encode_entry(&mut bytes, active.salt, p.sequence, p.class, p.appended_ns, &p.payload);
        }
        active.file.write_at(&bytes, active.len).map_err(failed("write a segment"))?;
        active.file.sync_data().map_err(failed("sync a segment"))?;
        if fresh {
            self.storage.sync_dir().map_err(failed("sync its folder"))?;
        }
        Ok(active.len + bytes.len() as u64)
    }

    pub fn close_active(&mut self, shared: &SharedState) {
        if let Some(active) = self.active.take() {
            let mut state = shared.lock();
            if let Some(segment) = state.segments.iter_mut().find(|s| s.index == active.index) {
                segment.active = false;
            }
            let acked = state.acked;
            if let Some(at) = state.segments.iter().position(|s| s.index == active.index && s.last <= acked)
                && let Some(segment) = state.segments.remove(at)
            {
                state.remove_file(&segment);
            }
        }
    }

    /// A new file with these bytes, sure to survive.
    pub fn write_file(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let file = self.storage.create(name)?;
        file.write_at(bytes, 0)?;
        file.sync_data()?;
        self.storage.sync_dir()
    }

    /// Removes what is acknowledged or dropped, renames what is damaged. Failures are tried again next time.
    pub fn tidy(&mut self, shared: &SharedState) {
        let (doomed, broken) = {
            let mut state = shared.lock();
            (std::mem::take(&mut state.doomed), std::mem::take(&mut state.broken))
        };
        for index in doomed {
            if let Err(error) = self.storage.remove(&segment_name(index))
                && error.kind() != io::ErrorKind::NotFound
            {
                let mut state = shared.lock();
                state.counts.write_errors += 1;
                if state.doomed.len() < SEGMENTS_MAX {
                    state.doomed.push(index);
                }
            }
        }
        for index in broken {
            if self.active.as_ref().is_some_and(|a| a.index == index) {
                self.active = None;
            }
            self.quarantine(shared, index);
        }
    }

    /// Sets a damaged file aside for a person to look at; of these only the newest few are kept.
    pub fn quarantine(&mut self, shared: &SharedState, index: u64) {
        match self.storage.rename(&segment_name(index), &quarantine_name(index)) {
            Ok(()) => self.quarantined.push(index),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(_) => shared.lock().counts.write_errors += 1,
        }
        while self.quarantined.len() > QUARANTINE_FILES_MAX {
            let oldest = self.quarantined.remove(0);
            if self.storage.remove(&quarantine_name(oldest)).is_err() {
                shared.lock().counts.write_errors += 1;
            }
        }
    }

    fn write_meta_if_due(&mut self, shared: &SharedState) -> Result<(), FlushError> {
        let (next, acked, reserved, ack_dirty, on_disk) = {
            let state = shared.lock();
            (state.next, state.acked, state.reserved_until, state.ack_dirty, !state.segments.is_empty())
        };
        if self.volatile_id {
            shared.lock().ack_dirty = false;
            return Ok(());
        }
        let reserve_due = reserved.saturating_sub(next) < RESERVE_SEQUENCES / 2;
        let ack_due =
            ack_dirty && on_disk && self.ack_written_at.is_none_or(|t| t.elapsed() >= ACK_WRITE_INTERVAL);
        if !reserve_due && !ack_due {
            return Ok(());
        }
        let reserved = if reserve_due { next + RESERVE_SEQUENCES } else { reserved };
        self.write_meta(shared, reserved, acked)?;
        if reserve_due {
            shared.lock().reserved_until = reserved;
            shared.readable.notify_waiters();
        }
        Ok(())
    }

    fn write_meta(&mut self, shared: &SharedState, reserved: u64, acked: u64) -> Result<(), FlushError> {
        self.ack_written_at = Some(Instant::now());
        let result = self.meta.write(self.spool_id, reserved, acked);
        let mut state = shared.lock();
        match result {
            Ok(()) => {
                state.ack_dirty = state.acked > acked;
                Ok(())
            }
            Err(source) => {
                state.counts.meta_errors += 1;
                Err(FlushError { operation: "write its meta file", source })
            }
        }
    }

    /// The end of a run: everything to disk, and the reservation given back, so that the next run goes on
    /// with the next sequence.
    pub fn close(&mut self, shared: &SharedState) -> Result<(), FlushError> {
        self.flush(shared)?;
        self.close_active(shared);
        self.tidy(shared);
        if self.volatile_id {
            return Ok(());
        }
        let (next, acked) = {
            let mut state = shared.lock();
            // No reader may get an entry that a later run could number again.
            state.reserved_until = state.next;
            (state.next, state.acked)
        };
        self.write_meta(shared, next, acked)
    }
}
