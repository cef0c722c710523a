//! Reading entries back, from memory or from the segments. Blocks on reads of files, never on a sync.
//!
//! Changes nothing on disk: a segment that cannot be read is only reported for being set aside.

use std::io;
use std::sync::Arc;

use bytes::Bytes;

use crate::ENTRY_TOTAL_MAX;
use crate::format::{DecodeOutcome, ENTRY_HEADER_BYTES, Entry, SEGMENT_HEADER_BYTES, decode_entry};
use crate::names::segment_name;
use crate::salvage::{Gap, SEARCH_WORK_FACTOR, find};
use crate::state::{Segment, SharedState};
use crate::storage::{Storage, StorageFile};

/// Bytes read from a segment at once: large enough for few system calls, small beside the memory bound.
const READ_CHUNK_BYTES: usize = 256 * 1024;

/// After this many failed reads in a row a segment is set aside as damaged. More than one, since EIO can pass.
const READ_FAILURES_MAX: u32 = 3;

/// Reads a spool in order. Any number may exist; each has its own position.
pub struct Reader {
    shared: Arc<SharedState>,
    storage: Option<Arc<dyn Storage>>,
    open: Option<OpenSegment>,
}

struct OpenSegment {
    index: u64,
    file: Box<dyn StorageFile>,
    /// Where the next entry starts, and the highest sequence before that place.
    offset: u64,
    passed: u64,
}

/// A read of the disk failed; the spool counts it and sets the segment aside when it goes on failing.
#[derive(Debug, thiserror::Error)]
#[error(
    "reading segment {name} of the spool failed: {source}; it is set aside after {READ_FAILURES_MAX} failures"
)]
pub struct ReadError {
    name: String,
    source: io::Error,
}

enum Chunk {
    Entries(Vec<Entry>),
    Damaged,
}

impl Reader {
    pub(crate) fn new(shared: Arc<SharedState>, storage: Option<Arc<dyn Storage>>) -> Self {
        Self { shared, storage, open: None }
    }

    /// The first entries with a sequence above `sequence` that are not acknowledged: at most `entries_max`,
    /// and at most about `bytes_max` bytes of payload but at least one entry. Empty when there are none now.
    pub fn next_batch(
        &mut self,
        sequence: u64,
        entries_max: usize,
        bytes_max: usize,
    ) -> Result<Vec<Entry>, ReadError> {
        // Each round returns or removes one segment from the list, so this ends.
        loop {
            let (segment, after) = {
                let mut state = self.shared.lock();
                let after = sequence.max(state.acked);
                match state.segments.iter().find(|s| s.last > after).cloned() {
                    Some(segment) => (segment, after),
                    None => {
                        self.open = None;
                        return Ok(state.read_pending(after, entries_max, bytes_max));
                    }
                }
            };
            let result = self.read_segment(&segment, after, entries_max, bytes_max);
            let mut state = self.shared.lock();
            match result {
                Ok(Chunk::Entries(entries)) => {
                    if let Some(live) = state.segments.iter_mut().find(|s| s.index == segment.index) {
                        live.read_failures = 0;
                    }
                    state.note_handed_out(&entries);
                    return Ok(entries);
                }
                Ok(Chunk::Damaged) => {
                    // Nothing good is left of it behind `after`.
                    self.open = None;
                    let Some(live) = state.segments.iter_mut().find(|s| s.index == segment.index) else {
                        continue;
                    };
                    if live.last > segment.last {
                        continue; // Written to meanwhile.
                    }
                    if after < live.first {
                        state.set_aside(segment.index);
                    } else {
                        live.last = after;
                    }
                    drop(state);
                    self.shared.work.notify_all();
                }
                Err(source) => {
                    self.open = None;
                    let Some(live) = state.segments.iter_mut().find(|s| s.index == segment.index) else {
                        continue; // Removed meanwhile: acknowledged, thinned or dropped.
                    };
                    live.read_failures += 1;
                    let gone = source.kind() == io::ErrorKind::NotFound;
                    let give_up = gone || live.read_failures >= READ_FAILURES_MAX;
                    state.counts.read_errors += 1;
                    if give_up {
                        state.set_aside(segment.index);
                        self.shared.work.notify_all();
                    }
                    return Err(ReadError { name: segment_name(segment.index), source });
                }
            }
        }
    }

    /// The first entry with a sequence above `sequence`, if there is one now.
    pub fn next_after(&mut self, sequence: u64) -> Result<Option<Entry>, ReadError> {
        Ok(self.next_batch(sequence, 1, 1)?.pop())
    }

    fn read_segment(
        &mut self,
        segment: &Segment,
        after: u64,
        entries_max: usize,
        bytes_max: usize,
    ) -> io::Result<Chunk> {
        let Some(mut at) = self.position(segment, after)? else { return Ok(Chunk::Damaged) };
        let mut taken = ReadBatch { entries: Vec::new(), bytes: 0, after, entries_max, bytes_max };
        let mut want = READ_CHUNK_BYTES;
        // Each round passes an entry, ends, or grows `want` to the length of the one entry that stands there.
        while at.offset < segment.len {
            let left = usize::try_from(segment.len - at.offset).unwrap_or(usize::MAX);
            let requested = want.min(left);
            let mut chunk = vec![0; requested];
            let got = at.file.read_at(&mut chunk, at.offset)?;
            chunk.truncate(got);
            let before = at.offset;
            match taken.take(&Bytes::from(chunk), &mut at, segment) {
                StopReason::Full => {
                    self.open = Some(at);
                    return Ok(Chunk::Entries(taken.entries));
                }
                StopReason::Needs(_) if at.offset == segment.len => {}
                // The file, or what is good of it, ends within an entry.
                StopReason::Needs(total) if got < requested || at.offset + total as u64 > segment.len => {
                    self.pass_damage(&mut at, segment)?;
                }
                StopReason::Needs(total) => {
                    want = if at.offset == before { total.max(READ_CHUNK_BYTES) } else { READ_CHUNK_BYTES };
                }
                StopReason::Damaged => self.pass_damage(&mut at, segment)?,
            }
        }
        self.open = Some(at);
        Ok(taken.up_to_end())
    }

    /// Moves the place to the next good entry, or to the segment's end, and has what is between counted.
    fn pass_damage(&self, at: &mut OpenSegment, segment: &Segment) -> io::Result<()> {
        // Bounded by FOREIGN_SEGMENT_BYTES_MAX, as segments are when the spool is opened.
        let mut rest = vec![0; usize::try_from(segment.len - at.offset).unwrap_or(0)];
        let got = at.file.read_at(&mut rest, at.offset)?;
        let whole = got == rest.len();
        rest.truncate(got);
        let mut work = rest.len().saturating_mul(SEARCH_WORK_FACTOR);
        let found = find(&rest, segment.salt, at.passed, &mut work);
        let start = at.offset;
        let (bytes, before) = match &found {
            Some((skip, entry)) => (*skip as u64, Some(entry.sequence)),
            None => (segment.len - start, whole.then_some(segment.last + 1)),
        };
        let after = at.passed.max(segment.first.saturating_sub(1));
        let gap = Gap { at: start, bytes, after: Some(after), before };
        at.offset += bytes;
        let mut state = self.shared.lock();
        let lost = gap.entries(after.max(state.acked), before.unwrap_or(segment.last + 1));
        state.note_gap(segment.index, &gap, lost);
        Ok(())
    }

    /// The open file at the place where reading goes on, or at the first entry.
    fn position(&mut self, segment: &Segment, after: u64) -> io::Result<Option<OpenSegment>> {
        let Some(storage) = &self.storage else { return Ok(None) };
        let start = SEGMENT_HEADER_BYTES as u64;
        Ok(Some(match self.open.take() {
            Some(open) if open.index == segment.index && open.passed <= after => open,
            Some(open) if open.index == segment.index => OpenSegment { offset: start, passed: 0, ..open },
            _ => {
                let file = storage.open(&segment_name(segment.index))?;
                OpenSegment { index: segment.index, file, offset: start, passed: 0 }
            }
        }))
    }
}

/// Entries on their way to the caller, and how many it wants.
struct ReadBatch {
    entries: Vec<Entry>,
    bytes: usize,
    after: u64,
    entries_max: usize,
    bytes_max: usize,
}

/// Why a chunk was not read further.
enum StopReason {
    /// The caller has what it wants.
    Full,
    /// The next entry needs this many bytes from its start.
    Needs(usize),
    /// What stands there is no entry.
    Damaged,
}

impl ReadBatch {
    /// Takes entries from a chunk and moves the place behind each.
    fn take(&mut self, chunk: &Bytes, at: &mut OpenSegment, segment: &Segment) -> StopReason {
        let mut pos = 0;
        loop {
            let (sequence, class, appended_ns, total) =
                match decode_entry(&chunk[pos..], segment.salt, ENTRY_TOTAL_MAX) {
                    DecodeOutcome::Entry { sequence, class, appended_ns, total } => {
                        (sequence, class, appended_ns, total)
                    }
                    DecodeOutcome::NeedBytes(total) => return StopReason::Needs(total),
                    DecodeOutcome::Damaged => return StopReason::Damaged,
                };
            // Within a segment they rise: what does not is a stale copy.
            if sequence > self.after && sequence > at.passed {
                let bytes = total - ENTRY_HEADER_BYTES;
                let first = self.entries.is_empty();
                if !first && (self.entries.len() >= self.entries_max || self.bytes + bytes > self.bytes_max) {
                    return StopReason::Full;
                }
                self.bytes += bytes;
                let payload = chunk.slice(pos + ENTRY_HEADER_BYTES..pos + total);
                self.entries.push(Entry {
                    spool_id: segment.spool_id,
                    sequence,
                    class,
                    appended_ns,
                    payload,
                });
            }
            pos += total;
            at.offset += total as u64;
            at.passed = at.passed.max(sequence);
        }
    }

    /// What was found up to the segment's end. Nothing, where something must be, is damage.
    fn up_to_end(self) -> Chunk {
        if self.entries.is_empty() { Chunk::Damaged } else { Chunk::Entries(self.entries) }
    }
}
