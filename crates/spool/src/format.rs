//! The bytes on disk: segment header, entry, meta slot. Pure encoding and decoding.
//!
//! Does no I/O and keeps no state; everything read here is taken as possibly damaged.

use bytes::Bytes;
use uuid::Uuid;

/// First bytes of a segment file.
const SEGMENT_MAGIC: [u8; 8] = *b"TLSPOOL1";
/// First bytes of a meta slot.
const META_MAGIC: [u8; 8] = *b"TLSPMET1";
/// Bytes of a segment's header.
pub(crate) const SEGMENT_HEADER_BYTES: usize = 64;
/// Bytes before each entry's payload.
pub(crate) const ENTRY_HEADER_BYTES: usize = 32;
/// Bytes of a meta slot that are written; one disk sector.
pub(crate) const META_SLOT_BYTES: usize = 512;
/// Distance of the two meta slots: different pages, so that writing one cannot tear the other.
pub(crate) const META_SLOT_STRIDE: u64 = 4096;

/// What may become of an entry when the spool is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// Later entries do not make this one superfluous (topology, events, jobs). Never thinned.
    Precious,
    /// Readings of cumulative counters: a later entry of the same stream holds all of it, only coarser in
    /// time. A full spool keeps every second one *of each stream*, so give each source its own stream
    /// number, else two sources that take turns would be thinned to one of them.
    Cumulative(u16),
}

/// One entry as read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The spool that gave the sequence; with `sequence` it identifies the entry for ever.
    pub spool_id: Uuid,
    /// Strictly increasing within a spool folder, with gaps. Starts at 1.
    pub sequence: u64,
    /// What may become of it in a full spool.
    pub class: Class,
    /// UTC nanoseconds when it was appended, by the system clock. For the age in metrics only.
    pub appended_ns: i64,
    /// The bytes as appended.
    pub payload: Bytes,
}

/// Header of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub spool_id: Uuid,
    pub index: u64,
    pub thinned: bool,
}

impl SegmentHeader {
    pub fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut out = [0u8; SEGMENT_HEADER_BYTES];
        out[..8].copy_from_slice(&SEGMENT_MAGIC);
        out[8..24].copy_from_slice(self.spool_id.as_bytes());
        out[24..32].copy_from_slice(&self.index.to_le_bytes());
        out[32] = u8::from(self.thinned);
        let crc = crc32c::crc32c(&out[..60]);
        out[60..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..SEGMENT_HEADER_BYTES)?;
        if bytes[..8] != SEGMENT_MAGIC || crc32c::crc32c(&bytes[..60]) != u32_at(bytes, 60)? {
            return None;
        }
        Some(Self {
            spool_id: Uuid::from_slice(&bytes[8..24]).ok()?,
            index: u64_at(bytes, 24)?,
            thinned: bytes[32] & 1 != 0,
        })
    }

    /// Start value of each entry's checksum. A block of a deleted segment that turns up in this one after a
    /// power loss has another salt and is not taken for an entry.
    pub fn salt(&self) -> u32 {
        crc32c::crc32c_append(crc32c::crc32c(self.spool_id.as_bytes()), &self.index.to_le_bytes())
    }
}

/// Appends an entry's bytes to `out`.
pub(crate) fn encode_entry(
    out: &mut Vec<u8>,
    salt: u32,
    sequence: u64,
    class: Class,
    appended_ns: i64,
    payload: &[u8],
) {
    let mut head = [0u8; ENTRY_HEADER_BYTES];
    // Checked on append: a payload is at most ENTRY_BYTES_MAX, far below 2^32.
    head[..4].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    head[8..16].copy_from_slice(&sequence.to_le_bytes());
    head[16..24].copy_from_slice(&appended_ns.to_le_bytes());
    if let Class::Cumulative(stream) = class {
        head[24] = 1;
        head[26..28].copy_from_slice(&stream.to_le_bytes());
    }
    let crc = entry_crc(salt, &head, payload);
    head[4..8].copy_from_slice(&crc.to_le_bytes());
    out.extend_from_slice(&head);
    out.extend_from_slice(payload);
}

fn entry_crc(salt: u32, head: &[u8], payload: &[u8]) -> u32 {
    let crc = crc32c::crc32c_append(salt, &head[..4]);
    crc32c::crc32c_append(crc32c::crc32c_append(crc, &head[8..ENTRY_HEADER_BYTES]), payload)
}

/// What stands at the start of some bytes of a segment.
#[derive(Debug)]
pub(crate) enum DecodeOutcome {
    /// A whole entry, this many bytes long.
    Entry { sequence: u64, class: Class, appended_ns: i64, total: usize },
    /// The entry (or its header) goes on beyond these bytes: this many are needed from its start.
    NeedBytes(usize),
    /// Not an entry.
    Damaged,
}

/// Reads the entry at the start of `bytes`. `total_max` bounds its length.
pub(crate) fn decode_entry(bytes: &[u8], salt: u32, total_max: usize) -> DecodeOutcome {
    let Some(head) = bytes.get(..ENTRY_HEADER_BYTES) else {
        return DecodeOutcome::NeedBytes(ENTRY_HEADER_BYTES);
    };
    let (Some(len), Some(crc), Some(sequence), Some(appended)) =
        (u32_at(head, 0), u32_at(head, 4), u64_at(head, 8), u64_at(head, 16))
    else {
        return DecodeOutcome::Damaged;
    };
    let total = ENTRY_HEADER_BYTES.saturating_add(len as usize);
    if len == 0 || total > total_max || sequence == 0 {
        return DecodeOutcome::Damaged;
    }
    let Some(payload) = bytes.get(ENTRY_HEADER_BYTES..total) else { return DecodeOutcome::NeedBytes(total) };
    if entry_crc(salt, head, payload) != crc {
        return DecodeOutcome::Damaged;
    }
    let class = match head[24] {
        0 => Class::Precious,
        _ => Class::Cumulative(u16::from_le_bytes([head[26], head[27]])),
    };
    DecodeOutcome::Entry { sequence, class, appended_ns: appended.cast_signed(), total }
}

/// A meta slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Meta {
    /// Counts the writes; of two good slots the higher one holds.
    pub generation: u64,
    pub spool_id: Uuid,
    /// No sequence from here on was ever given under `spool_id`.
    pub reserved_until: u64,
    /// Everything up to here is committed at the other side.
    pub acked: u64,
    /// Checksum of the owner's name.
    pub owner: u32,
}

impl Meta {
    pub fn encode(&self) -> [u8; META_SLOT_BYTES] {
        let mut out = [0u8; META_SLOT_BYTES];
        out[..8].copy_from_slice(&META_MAGIC);
        out[8..16].copy_from_slice(&self.generation.to_le_bytes());
        out[16..32].copy_from_slice(self.spool_id.as_bytes());
        out[32..40].copy_from_slice(&self.reserved_until.to_le_bytes());
        out[40..48].copy_from_slice(&self.acked.to_le_bytes());
        out[48..52].copy_from_slice(&self.owner.to_le_bytes());
        let crc = crc32c::crc32c(&out[..508]);
        out[508..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..META_SLOT_BYTES)?;
        if bytes[..8] != META_MAGIC || crc32c::crc32c(&bytes[..508]) != u32_at(bytes, 508)? {
            return None;
        }
        Some(Self {
            generation: u64_at(bytes, 8)?,
            spool_id: Uuid::from_slice(&bytes[16..32]).ok()?,
            reserved_until: u64_at(bytes, 32)?,
            acked: u64_at(bytes, 40)?,
            owner: u32_at(bytes, 48)?,
        })
    }
}

/// First bytes of the tail file.
const TAIL_MAGIC: [u8; 8] = *b"TLSPTAL1";
/// Bytes of the tail file; within one disk sector.
pub(crate) const TAIL_BYTES: usize = 64;

/// What the newest segment had after its last sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tail {
    pub spool_id: Uuid,
    pub index: u64,
    pub last: u64,
    pub entries: u64,
    pub len: u64,
}

impl Tail {
    pub fn encode(&self) -> [u8; TAIL_BYTES] {
        let mut out = [0u8; TAIL_BYTES];
        out[..8].copy_from_slice(&TAIL_MAGIC);
        out[8..24].copy_from_slice(self.spool_id.as_bytes());
        for (at, number) in [(24, self.index), (32, self.last), (40, self.entries), (48, self.len)] {
            out[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        let crc = crc32c::crc32c(&out[..60]);
        out[60..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..TAIL_BYTES)?;
        if bytes[..8] != TAIL_MAGIC || crc32c::crc32c(&bytes[..60]) != u32_at(bytes, 60)? {
            return None;
        }
        Some(Self {
            spool_id: Uuid::from_slice(&bytes[8..24]).ok()?,
            index: u64_at(bytes, 24)?,
            last: u64_at(bytes, 32)?,
            entries: u64_at(bytes, 40)?,
            len: u64_at(bytes, 48)?,
        })
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// Which of some entries stay when they are thinned: all precious ones, and of each stream the newest
/// cumulative one and then every second going back.
pub(crate) fn thin(classes: &[Class]) -> Vec<bool> {
    let mut drop_next = std::collections::HashMap::new();
    let mut keep: Vec<bool> = classes
        .iter()
        .rev()
        .map(|class| match class {
            Class::Precious => true,
            Class::Cumulative(stream) => {
                let flag = drop_next.entry(*stream).or_insert(false);
                let kept = !*flag;
                *flag = kept;
                kept
            }
        })
        .collect();
    keep.reverse();
    keep
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_the_newest_of_each_stream_and_all_precious() {
        use Class::{Cumulative as C, Precious as P};
        let classes = [C(1), C(2), C(1), C(2), P, C(1), C(2), C(3)];
        assert_eq!(thin(&classes), [true, true, false, false, true, true, true, true]);
    }

    #[test]
    fn any_flipped_bit_of_an_entry_is_noticed() {
        let mut bytes = Vec::new();
        encode_entry(&mut bytes, 7, 42, Class::Cumulative(9), -5, b"payload");
        assert!(matches!(decode_entry(&bytes, 7, 1000), DecodeOutcome::Entry { sequence: 42, .. }));
        assert!(matches!(decode_entry(&bytes, 8, 1000), DecodeOutcome::Damaged), "another segment's salt");
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(!matches!(decode_entry(&bad, 7, 1000), DecodeOutcome::Entry { .. }), "bit {bit}");
        }
    }

    #[test]
    fn zeros_are_neither_entry_nor_header_nor_meta() {
        let zeros = [0u8; 4096];
        assert!(matches!(decode_entry(&zeros, 0, 4096), DecodeOutcome::Damaged));
        assert!(SegmentHeader::decode(&zeros).is_none());
        assert!(Meta::decode(&zeros).is_none());
    }

    #[test]
    fn headers_survive_a_round_trip() {
        let head = SegmentHeader { spool_id: Uuid::new_v4(), index: 77, thinned: true };
        assert_eq!(SegmentHeader::decode(&head.encode()), Some(head));
        let meta =
            Meta { generation: 3, spool_id: Uuid::new_v4(), reserved_until: 1 << 40, acked: 9, owner: 5 };
        assert_eq!(Meta::decode(&meta.encode()), Some(meta));
    }
}
