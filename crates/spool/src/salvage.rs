//! Finding the entries of a damaged segment: what is good before, between and behind the damaged spots.
//!
//! Pure functions over bytes. An entry carries no marker of its own: its header has zeros and small numbers at known
//! places, and its checksum starts from the segment's salt, so that neither noise nor a payload is taken for one.

use std::ops::Range;

use crate::format::{Class, DecodeOutcome, ENTRY_HEADER_BYTES, SEGMENT_HEADER_BYTES, decode_entry};
use crate::{ENTRY_TOTAL_MAX, RESERVE_SEQUENCES};

/// Checksums computed in the search, as a multiple of the segment's length: bytes that look like headers at every place
/// must not make an opening take minutes. Beyond it the rest counts as damaged.
pub(crate) const SEARCH_WORK_FACTOR: usize = 64;

/// Smallest entry, for an upper limit of how many a damaged spot can have held.
const ENTRY_BYTES_MIN: u64 = ENTRY_HEADER_BYTES as u64 + 1;

/// An entry's place in a segment's bytes.
pub(crate) struct EntryPlace {
    pub sequence: u64,
    pub class: Class,
    pub appended_ns: i64,
    pub payload: Range<usize>,
}

/// A damaged spot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Gap {
    /// Offset in the file.
    pub at: u64,
    /// 0 where the file is shorter than it was.
    pub bytes: u64,
    /// Sequence of the last entry before it in the segment.
    pub after: Option<u64>,
    /// Sequence of the first entry behind it in the segment.
    pub before: Option<u64>,
}

impl Gap {
    /// Entries that can have been in a gap with these sequences around it.
    pub fn entries(&self, after: u64, before: u64) -> u64 {
        let missing = before.saturating_sub(after).saturating_sub(1);
        // So many numbers are skipped only between two runs: they were never given.
        if missing > RESERVE_SEQUENCES / 2 {
            return 0;
        }
        // What a shorter file has lost is not in it.
        if self.before.is_some() { missing.min(self.bytes / ENTRY_BYTES_MIN) } else { missing }
    }
}

/// All that is good in a segment's bytes, and what is not. Sequences rise.
pub(crate) fn salvage(bytes: &[u8], salt: u32) -> (Vec<EntryPlace>, Vec<Gap>) {
    let mut entries: Vec<EntryPlace> = Vec::new();
    let mut gaps = Vec::new();
    let mut work = bytes.len().saturating_mul(SEARCH_WORK_FACTOR);
    let mut at = SEGMENT_HEADER_BYTES.min(bytes.len());
    while at < bytes.len() {
        let last = entries.last().map(|entry| entry.sequence);
        let found = find(&bytes[at..], salt, last.unwrap_or(0), &mut work);
        let start = found.as_ref().map_or(bytes.len(), |(skip, _)| at + skip);
        if start > at {
            let before = found.as_ref().map(|(_, entry)| entry.sequence);
            gaps.push(Gap { at: at as u64, bytes: (start - at) as u64, after: last, before });
        }
        let Some((_, entry)) = found else { break };
        let payload = start + entry.payload.start..start + entry.payload.end;
        at = payload.end;
        entries.push(EntryPlace { payload, ..entry });
    }
    (entries, gaps)
}

/// The first entry in these bytes with a sequence above `last`: bytes before it, and the entry, its place counted from
/// its own start.
pub(crate) fn find(bytes: &[u8], salt: u32, last: u64, work: &mut usize) -> Option<(usize, EntryPlace)> {
    for skip in 0..bytes.len().saturating_sub(ENTRY_HEADER_BYTES) {
        let rest = &bytes[skip..];
        if !looks_like_entry(rest) {
            continue;
        }
        let length = u32::from_le_bytes([rest[0], rest[1], rest[2], rest[3]]) as usize;
        *work = work.checked_sub(length)?;
        if let DecodeOutcome::Entry { sequence, class, appended_ns, total } =
            decode_entry(rest, salt, ENTRY_TOTAL_MAX)
            && sequence > last
        {
            return Some((
                skip,
                EntryPlace { sequence, class, appended_ns, payload: ENTRY_HEADER_BYTES..total },
            ));
        }
    }
    None
}

/// Whether the bytes can begin with an entry: its length fits, and what is always zero is.
fn looks_like_entry(bytes: &[u8]) -> bool {
    let length = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
    length > 0
        && length <= bytes.len() - ENTRY_HEADER_BYTES
        && bytes[24] <= 1
        && bytes[25] == 0
        && bytes[28..32] == [0; 4]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::encode_entry;

    #[test]
    fn bytes_that_look_like_headers_at_every_place_cost_a_bounded_search() {
        // Lengths of 1 MiB and zeros: each fourth place passes the first look.
        let mut bytes = vec![0; SEGMENT_HEADER_BYTES];
        for _ in 0..(4 << 20) / 4 {
            bytes.extend([0, 0, 16, 0]);
        }
        let started = std::time::Instant::now();
        let (entries, gaps) = salvage(&bytes, 7);
        assert!(entries.is_empty() && gaps.len() == 1);
        assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
    }

    #[test]
    fn what_stands_around_two_damaged_spots_is_found() {
        let mut bytes = vec![0; SEGMENT_HEADER_BYTES];
        let mut starts = Vec::new();
        for sequence in 1..=20 {
            starts.push(bytes.len());
            encode_entry(&mut bytes, 7, sequence, Class::Precious, 0, &[9; 200]);
        }
        bytes[starts[4]..starts[4] + 16].fill(0xff);
        bytes[starts[11] + 100..starts[11] + 116].fill(0xff);
        let (entries, gaps) = salvage(&bytes, 7);
        let found: Vec<u64> = entries.iter().map(|entry| entry.sequence).collect();
        assert_eq!(found, (1..=20).filter(|n| *n != 5 && *n != 12).collect::<Vec<_>>());
        assert_eq!(gaps.iter().map(|g| g.entries(g.after.unwrap(), g.before.unwrap())).sum::<u64>(), 2);
    }
}
