//! Opening a folder that an earlier run left behind, in whatever state.
//!
//! Never appends to an old segment and never fails because of what files contain: damage is set aside.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use uuid::Uuid;

use crate::flush::{Flusher, META_NAME, MetaFile, index_of, segment_name};
use crate::format::{
    META_SLOT_BYTES, META_SLOT_STRIDE, Meta, SEGMENT_HEADER_BYTES, SegmentHeader, encode_entry,
};
use crate::room::entries_of;
use crate::state::{Segment, Shared, State};
use crate::storage::{Storage, read_whole};
use crate::{Config, ENTRY_TOTAL_MAX, Error, FOREIGN_SEGMENT_BYTES_MAX, RESERVE_SEQUENCES};

/// Reads the folder and makes it ready for this run.
pub(crate) fn open(storage: Arc<dyn Storage>, config: Config) -> Result<(Shared, Flusher), Error> {
    let names = storage.list().map_err(|source| Error::List { source })?;
    let mut indexes: Vec<u64> = names.iter().filter_map(|n| index_of(n, ".seg")).collect();
    let mut quarantined: Vec<u64> = names.iter().filter_map(|n| index_of(n, ".bad")).collect();
    indexes.sort_unstable();
    quarantined.sort_unstable();
    let next_index = indexes.iter().chain(&quarantined).max().map_or(1, |i| i + 1);

    let owner = crc32c::crc32c(config.owner.as_bytes());
    let mut meta = MetaFile { storage: storage.clone(), file: None, written: None, good_slot: 0, owner };
    let mut state = State::default();
    read_meta(&mut meta, &mut state);
    let known = meta.written.filter(|m| m.owner == owner);
    let spool_id = known.map_or_else(Uuid::new_v4, |m| m.spool_id);
    state.acked = meta.written.map_or(0, |m| m.acked);

    let mut flusher = Flusher::new(meta, next_index, spool_id, false, quarantined);
    let mut segments = Vec::new();
    let mut damaged = Vec::new();
    for index in indexes {
        scan(&mut flusher, index, &mut state, &mut segments, &mut damaged);
    }
    segments.sort_by_key(|s| (s.first, s.index));
    let last_found = segments.iter().map(|s| s.last).max().unwrap_or(0);
    state.next =
        flusher.meta.written.map_or(1, |m| m.reserved_until).max(last_found + 1).max(state.acked + 1);
    let acked = state.acked;
    state.doomed.extend(segments.iter().filter(|s| s.last <= acked).map(|s| s.index));
    state.segments = segments.into_iter().filter(|s| s.last > acked).collect::<VecDeque<_>>();
    state.handed_out = acked;

    // Numbers are promised on disk before any entry that bears one can leave this process.
    let reserved = state.next + RESERVE_SEQUENCES;
    match flusher.meta.write(spool_id, reserved, acked) {
        Ok(()) => state.reserved_until = reserved,
        Err(error) => {
            tracing::warn!(%error, "the spool's meta file cannot be written: this run uses a spool id of its own");
            state.counts.meta_errors += 1;
            flusher.spool_id = Uuid::new_v4();
            flusher.volatile_id = true;
            state.reserved_until = u64::MAX;
        }
    }
    state.spool_id = flusher.spool_id;
    let shared = Shared::new(config, state);
    for index in damaged {
        flusher.quarantine(&shared, index);
    }
    flusher.tidy(&shared);
    Ok((shared, flusher))
}

fn read_meta(meta: &mut MetaFile, state: &mut State) {
    let file = match meta.storage.open(META_NAME) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return,
        Err(_) => {
            state.counts.meta_errors += 1;
            return;
        }
    };
    let slots = [0, 1].map(|slot| {
        let mut bytes = [0; META_SLOT_BYTES];
        match file.read_at(&mut bytes, slot * META_SLOT_STRIDE) {
            Ok(_) => Meta::decode(&bytes).map(|m| (slot, m)),
            Err(_) => None,
        }
    });
    if let Some((slot, best)) = slots.into_iter().flatten().max_by_key(|(_, m)| m.generation) {
        meta.written = Some(best);
        meta.good_slot = slot;
    } else {
        state.counts.meta_errors += 1;
    }
    meta.file = Some(file);
}

/// Reads one segment. A good one joins `segments`; of a damaged one the good start is copied to a new one, on
/// disk before the damaged file is renamed, so that a crash in between leaves at worst both.
fn scan(
    flusher: &mut Flusher,
    index: u64,
    state: &mut State,
    segments: &mut Vec<Segment>,
    damaged: &mut Vec<u64>,
) {
    let name = segment_name(index);
    let read = flusher.storage.open(&name).and_then(|f| read_whole(f.as_ref(), FOREIGN_SEGMENT_BYTES_MAX));
    let bytes = match read {
        Ok(bytes) if bytes.is_empty() => {
            state.doomed.push(index); // Made, and power lost before the first write: nothing was in it.
            return;
        }
        Ok(bytes) => bytes,
        Err(error) => {
            tracing::warn!(%error, segment = %name, "a segment of the spool cannot be read: set aside");
            state.counts.read_errors += 1;
            state.counts.damaged_segments += 1;
            damaged.push(index);
            return;
        }
    };
    let Some(segment) = good_start(index, &bytes) else {
        state.counts.damaged_segments += 1;
        damaged.push(index);
        return;
    };
    if segment.len == bytes.len() as u64 && segment.entries > 0 {
        segments.push(segment);
        return;
    }
    state.counts.damaged_segments += 1;
    tracing::warn!(segment = %name, good_bytes = segment.len, bytes = bytes.len(),
        "a segment of the spool has a damaged tail: its good start is kept, the file is set aside");
    if segment.entries == 0 {
        damaged.push(index);
        return;
    }
    match copy_good_start(flusher, &bytes, &segment) {
        Ok(copy) => {
            segments.push(copy);
            damaged.push(index);
        }
        Err(error) => {
            // No room for the copy: read the good start where it is, and try again at the next start.
            tracing::warn!(%error, segment = %name, "copying the good start of a damaged segment failed");
            state.counts.write_errors += 1;
            segments.push(segment);
        }
    }
}

/// What of a segment's bytes is good; `None` where even the header is not.
fn good_start(index: u64, bytes: &[u8]) -> Option<Segment> {
    let header = SegmentHeader::decode(bytes).filter(|h| h.index == index)?;
    let mut segment = Segment {
        index,
        spool_id: header.spool_id,
        salt: header.salt(),
        first: 0,
        last: 0,
        len: SEGMENT_HEADER_BYTES as u64,
        entries: 0,
        thinned: header.thinned,
        active: false,
        oldest_ns: 0,
        read_failures: 0,
    };
    for entry in entries_of(bytes, segment.salt, ENTRY_TOTAL_MAX) {
        if entry.sequence <= segment.last {
            break; // Written by us they only rise.
        }
        if segment.entries == 0 {
            (segment.first, segment.oldest_ns) = (entry.sequence, entry.appended_ns);
        }
        segment.last = entry.sequence;
        segment.len = entry.payload.end as u64;
        segment.entries += 1;
    }
    Some(segment)
}

fn copy_good_start(flusher: &mut Flusher, bytes: &[u8], segment: &Segment) -> io::Result<Segment> {
    let header =
        SegmentHeader { spool_id: segment.spool_id, index: flusher.next_index, thinned: segment.thinned };
    flusher.next_index += 1;
    let copy = Segment { index: header.index, salt: header.salt(), ..segment.clone() };
    let mut out = header.encode().to_vec();
    let good = &bytes[..usize::try_from(segment.len).unwrap_or(bytes.len())];
    for e in entries_of(good, segment.salt, ENTRY_TOTAL_MAX) {
        encode_entry(&mut out, copy.salt, e.sequence, e.class, e.appended_ns, &good[e.payload]);
    }
    let name = segment_name(copy.index);
    if let Err(error) = flusher.write_file(&name, &out) {
        // Best effort: a left-over copy is met again at the next start, where it is dropped as a duplicate.
        let _ = flusher.storage.remove(&name);
        return Err(error);
    }
    Ok(copy)
}
