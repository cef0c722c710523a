//! Reading entries back, from memory or from the segments. Blocks on reads of files, never on a sync.
//!
//! Changes nothing on disk: a segment that cannot be read is only reported for being set aside.

use std::io;
use std::sync::Arc;

use bytes::Bytes;

use crate::ENTRY_TOTAL_MAX;
use crate::flush::segment_name;
use crate::format::{Decoded, ENTRY_HEADER_BYTES, Entry, SEGMENT_HEADER_BYTES, decode_entry};
use crate::state::{Segment, Shared};
use crate::storage::{Storage, StorageFile};

/// Bytes read from a segment at once: large enough for few system calls, small beside the memory bound.
const READ_CHUNK_BYTES: usize = 256 * 1024;

/// After this many failed reads in a row a segment is set aside as damaged. More than one, since EIO can pass.
const READ_FAILURES_MAX: u32 = 3;

/// Reads a spool in order. Any number may exist; each has its own position.
pub struct Reader {
    shared: Arc<Shared>,
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
    pub(crate) fn new(shared: Arc<Shared>, storage: Option<Arc<dyn Storage>>) -> Self {
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
                    self.open = None;
                    tracing::warn!(segment = %segment_name(segment.index),
                        "a segment of the spool is damaged: set aside, its unread rest is lost");
                    state.set_aside(segment.index);
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
        let Some(storage) = &self.storage else { return Ok(Chunk::Damaged) };
        let mut at = match self.open.take() {
            Some(open) if open.index == segment.index && open.passed <= after => open,
            Some(open) if open.index == segment.index => {
                OpenSegment { offset: SEGMENT_HEADER_BYTES as u64, passed: 0, ..open }
            }
            _ => OpenSegment {
                index: segment.index,
                file: storage.open(&segment_name(segment.index))?,
                offset: SEGMENT_HEADER_BYTES as u64,
                passed: 0,
            },
        };
        let mut out: Vec<Entry> = Vec::new();
        let mut out_bytes = 0;
        let mut want = READ_CHUNK_BYTES;
        // Each round either passes an entry, returns, or grows `want` to one entry's bounded length.
        while at.offset < segment.len {
            let left = usize::try_from(segment.len - at.offset).unwrap_or(usize::MAX);
            let mut chunk = vec![0; want.min(left)];
            let got = at.file.read_at(&mut chunk, at.offset)?;
            chunk.truncate(got);
            let chunk = Bytes::from(chunk);
            let mut pos = 0;
            want = READ_CHUNK_BYTES;
            loop {
                match decode_entry(&chunk[pos..], segment.salt, ENTRY_TOTAL_MAX) {
                    Decoded::Entry { sequence, class, appended_ns, total } => {
                        if sequence > after {
                            let bytes = total - ENTRY_HEADER_BYTES;
                            if !out.is_empty() && (out.len() >= entries_max || out_bytes + bytes > bytes_max)
                            {
                                self.open = Some(at);
                                return Ok(Chunk::Entries(out));
                            }
                            out_bytes += bytes;
                            let payload = chunk.slice(pos + ENTRY_HEADER_BYTES..pos + total);
                            out.push(Entry {
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
                    Decoded::NeedBytes(total) if pos + total <= left => {
                        if got < want.min(left) {
                            return Ok(Self::end_of_good(out)); // The file is shorter than it was.
                        }
                        want = total.max(READ_CHUNK_BYTES);
                        break;
                    }
                    Decoded::NeedBytes(_) if pos == left => break,
                    Decoded::NeedBytes(_) | Decoded::Damaged => return Ok(Self::end_of_good(out)),
                }
            }
            if out.len() >= entries_max || out_bytes >= bytes_max {
                break;
            }
        }
        self.open = Some(at);
        Ok(Self::end_of_good(out))
    }

    /// What was good before a damaged place is handed out first; the next read meets the damage again, alone.
    fn end_of_good(out: Vec<Entry>) -> Chunk {
        if out.is_empty() { Chunk::Damaged } else { Chunk::Entries(out) }
    }
}
