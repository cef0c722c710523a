//! Opening a folder that an earlier run left behind, in whatever state.
//!
//! Never appends to an old segment and never fails because of what files contain: damage is set aside.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::sync::Arc;

use uuid::Uuid;

use crate::flush::{Flusher, MetaFile};
use crate::format::{
    META_SLOT_BYTES, META_SLOT_STRIDE, Meta, SEGMENT_HEADER_BYTES, SegmentHeader, TAIL_BYTES, Tail,
    encode_entry,
};
use crate::losses::damaged_words;
use crate::names::{META_NAME, TAIL_NAME, index_of, segment_name};
use crate::salvage::{EntryPlace, Gap, salvage};
use crate::state::{Segment, SharedState, State};
use crate::storage::{Storage, read_whole};
use crate::{Config, Error, FOREIGN_SEGMENT_BYTES_MAX, RESERVE_SEQUENCES};

/// Reads the folder and makes it ready for this run.
pub(crate) fn open(storage: Arc<dyn Storage>, config: Config) -> Result<(SharedState, Flusher), Error> {
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
    let tail = read_tail(storage.as_ref());
    let ids: Vec<Uuid> =
        flusher.meta.written.map(|m| m.spool_id).into_iter().chain(tail.map(|t| t.spool_id)).collect();
    let mut found = Scan::default();
    for index in indexes {
        let tail = tail.as_ref().filter(|tail| tail.index == index);
        scan(&mut flusher, index, tail, &ids, &mut state, &mut found);
    }
    count_damage(&found, tail.as_ref(), &mut state);
    let Scan { good: mut segments, damaged } = found;
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
    match flusher.meta.begin(spool_id, reserved, acked) {
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
    let shared = SharedState::new(config, state);
    for damaged in damaged.iter().filter(|damaged| damaged.aside) {
        flusher.quarantine(&shared, damaged.index);
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

/// What opening found out about the folder's segments.
#[derive(Default)]
struct Scan {
    good: Vec<Segment>,
    damaged: Vec<DamagedSegment>,
}

/// A damaged segment's spots, until the segments around it are known.
struct DamagedSegment {
    index: u64,
    bytes: u64,
    gaps: Vec<Gap>,
    /// The segment that what is good of it was copied to.
    copy: Option<u64>,
    /// Whether its file is to be set aside.
    aside: bool,
}

/// Reads one segment. A good one joins the list; what is good of a damaged one is copied to a new one, on disk before
/// the damaged file is renamed, so that a crash in between leaves at worst both.
fn scan(
    flusher: &mut Flusher,
    index: u64,
    tail: Option<&Tail>,
    ids: &[Uuid],
    state: &mut State,
    scan: &mut Scan,
) {
    let name = segment_name(index);
    let read = flusher.storage.open(&name).and_then(|f| read_whole(f.as_ref(), FOREIGN_SEGMENT_BYTES_MAX));
    let bytes = match read {
        Ok(bytes) => bytes,
        Err(error) => {
            tracing::warn!(%error, segment = %name, "a segment of the spool cannot be read");
            state.counts.read_errors += 1;
            scan.damaged.push(DamagedSegment {
                index,
                bytes: 0,
                gaps: vec![Gap::default()],
                copy: None,
                aside: true,
            });
            return;
        }
    };
    let whole = Gap { at: 0, bytes: bytes.len() as u64, after: None, before: None };
    let Some((mut segment, entries, mut gaps)) = good_of(index, &bytes, ids) else {
        let bytes = bytes.len() as u64;
        scan.damaged.push(DamagedSegment { index, bytes, gaps: vec![whole], copy: None, aside: bytes > 0 });
        return;
    };
    if tail.is_some_and(|tail| tail.spool_id == segment.spool_id && tail.last > segment.last)
        && gaps.last().is_none_or(|gap| gap.before.is_some())
    {
        gaps.push(Gap { at: bytes.len() as u64, bytes: 0, after: Some(segment.last), before: None });
    }
    if gaps.is_empty() && !entries.is_empty() {
        scan.good.push(segment);
        return;
    }
    let length = bytes.len() as u64;
    let mut damaged = DamagedSegment { index, bytes: length, gaps, copy: None, aside: true };
    if !entries.is_empty() {
        match copy_good(flusher, &bytes, &segment, &entries) {
            Ok(copy) => {
                damaged.copy = Some(copy.index);
                scan.good.push(copy);
            }
            Err(error) => {
                // No room for the copy: what is good is read where it is, and copied at the next start.
                tracing::warn!(%error, segment = %name, "copying the good entries of a damaged segment failed");
                state.counts.write_errors += 1;
                let counted = damaged.gaps.iter().map(|gap| gap.at + gap.bytes.max(1)).max();
                (segment.damaged, segment.damage_counted_to) = (true, counted.unwrap_or(0));
                segment.len = length;
                damaged.aside = false;
                scan.good.push(segment);
            }
        }
    }
    scan.damaged.push(damaged);
}

/// Counts what the damaged segments lost, by the sequences in and around them, and logs each once.
fn count_damage(scan: &Scan, tail: Option<&Tail>, state: &mut State) {
    let mut counted = HashSet::new();
    let origin = |segment: &Segment| {
        let copied = scan.damaged.iter().find(|damaged| damaged.copy == Some(segment.index));
        copied.map_or(segment.index, |damaged| damaged.index)
    };
    for damaged in &scan.damaged {
        let others = || scan.good.iter().filter(|s| origin(s) != damaged.index);
        let newer = tail.filter(|tail| tail.index > damaged.index);
        let tail = tail.filter(|tail| tail.index == damaged.index);
        let (mut lost, mut uncounted) = (0, 0);
        for gap in &damaged.gaps {
            let previous = || others().filter(|s| origin(s) < damaged.index).map(|s| s.last).max();
            let after = gap.after.or_else(previous).unwrap_or(0).max(state.acked);
            let next = || others().map(|s| s.first).filter(|first| *first > after).min();
            let before = gap.before.or_else(|| tail.map(|t| t.last + 1)).or_else(next);
            let before = before.or_else(|| newer.map(|t| t.last + 1));
            let missing = before.map(|before| gap.entries(after, before));
            if !counted.insert((after, before)) {
                continue;
            }
            lost += match (missing, tail) {
                (Some(missing), _) if missing > 0 => missing,
                // Between two numbers that follow each other nothing is missing.
                (Some(_), _)
                    if before.is_some_and(|before| before.saturating_sub(after) <= RESERVE_SEQUENCES / 2) =>
                {
                    0
                }
                // The last of a run: how many there were only `tail` knows, and that of the newest segment.
                (_, Some(tail)) => tail.entries,
                (_, None) => {
                    uncounted += u64::from(gap.bytes > 0);
                    u64::from(gap.bytes > 0)
                }
            };
        }
        if !damaged.aside && damaged.bytes == 0 {
            state.doomed.push(damaged.index);
            // Empty: made, and power lost before the first write, unless it is known to have held something.
            if lost == 0 {
                continue;
            }
        }
        let bytes: u64 = damaged.gaps.iter().map(|gap| gap.bytes).sum();
        state.counts.damaged_segments += 1;
        state.counts.damaged_entries += lost;
        state.counts.uncounted_spots += uncounted;
        state.counts.damaged_bytes += bytes;
        tracing::warn!(segment = %segment_name(damaged.index), bytes = damaged.bytes, damaged_bytes = bytes,
            offset = damaged.gaps.first().map_or(0, |gap| gap.at), spots = damaged.gaps.len(),
            lost_entries = damaged_words(lost, uncounted),
            "a segment of the spool is damaged: its good entries are delivered, the file is set aside");
    }
}

/// What of a segment's bytes is good; `None` where nothing is. A damaged header is made up for by the spool's known ids.
fn good_of(index: u64, bytes: &[u8], ids: &[Uuid]) -> Option<(Segment, Vec<EntryPlace>, Vec<Gap>)> {
    let header = SegmentHeader::decode(bytes).filter(|h| h.index == index);
    let guesses = ids.iter().map(|id| SegmentHeader { spool_id: *id, index, thinned: false });
    let guesses = guesses.filter(|_| header.is_none() && !bytes.is_empty());
    let read = |header: SegmentHeader| (header, salvage(bytes, header.salt()));
    let (found, (entries, mut gaps)) = match header {
        Some(header) => read(header),
        None => guesses.map(read).find(|(_, (entries, _))| !entries.is_empty())?,
    };
    if header.is_none() {
        let before = entries.first().map(|entry| entry.sequence);
        let after = before.map(|first| first - 1);
        gaps.insert(0, Gap { at: 0, bytes: SEGMENT_HEADER_BYTES as u64, after, before });
    }
    let segment = Segment {
        index,
        spool_id: found.spool_id,
        salt: found.salt(),
        first: entries.first().map_or(0, |entry| entry.sequence),
        last: entries.last().map_or(0, |entry| entry.sequence),
        len: bytes.len() as u64,
        entries: entries.len() as u64,
        thinned: found.thinned,
        active: false,
        oldest_ns: entries.first().map_or(0, |entry| entry.appended_ns),
        read_failures: 0,
        damaged: false,
        damage_counted_to: 0,
    };
    Some((segment, entries, gaps))
}

fn copy_good(
    flusher: &mut Flusher,
    bytes: &[u8],
    segment: &Segment,
    entries: &[EntryPlace],
) -> io::Result<Segment> {
    let header =
        SegmentHeader { spool_id: segment.spool_id, index: flusher.next_index, thinned: segment.thinned };
    flusher.next_index += 1;
    let mut out = header.encode().to_vec();
    let salt = header.salt();
    for e in entries {
        encode_entry(&mut out, salt, e.sequence, e.class, e.appended_ns, &bytes[e.payload.clone()]);
    }
    let copy = Segment { index: header.index, salt, len: out.len() as u64, ..segment.clone() };
    let name = segment_name(copy.index);
    if let Err(error) = flusher.write_file(&name, &out) {
        // Best effort: a left-over copy is met again at the next start, where it is dropped as a duplicate.
        let _ = flusher.storage.remove(&name);
        return Err(error);
    }
    Ok(copy)
}

/// What the newest segment is known to have held.
fn read_tail(storage: &dyn Storage) -> Option<Tail> {
    let mut bytes = [0; TAIL_BYTES];
    storage.open(TAIL_NAME).ok()?.read_at(&mut bytes, 0).ok()?;
    Tail::decode(&bytes)
}
